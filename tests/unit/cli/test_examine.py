"""All mistakes are found at once, and nothing that only follows from another."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specloop_cli.examine import Examined, examine
from specloop_cli.wording import describe, schema_at
from specloop_cli.yaml_file import Document, Place, Where, spell
from specloop_policy.model import SpecPolicy

TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "llama-70b"}
SMALL = {"name": "small", "method": "draft_model", "model": "x"}
LOOKUP = {"name": "lookup", "method": "ngram"}
K5 = {"name": "k5", "drafter": "small", "tokens": 5}
K3 = {"name": "k3", "drafter": "small", "tokens": 3}
DISABLED = {"name": "disabled"}
LADDER = {"drafters": [SMALL, LOOKUP], "levels": [K5, K3, DISABLED]}


def policy(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "specloop.dev/v1alpha1",
        "kind": "SpecPolicy",
        "metadata": {"name": "chat-70b"},
        "spec": {"targetRef": TARGET, **spec},
    }


def switch(level: Any) -> list[Any]:
    return [{"name": "r", "when": {"running": {"above": 9}}, "action": {"type": "SwitchTo", "level": level}}]


def fields(data: Any) -> list[str]:
    """Fields with mistakes, without the leading `spec.`."""
    examined = examine(data)
    where: Sequence[Where] = [
        *(flaw.where for flaw in examined.flaws),
        *(("spec", *one.field) for one in examined.contradictions),
    ]
    return sorted(spell(one).removeprefix("spec.") for one in where)


def test_a_valid_policy_comes_back() -> None:
    assert isinstance(examine(policy(**LADDER)).policy, SpecPolicy)


def test_field_mistakes_and_contradictions_are_found_together() -> None:
    data = policy(
        drafters=[SMALL, {"name": "bare", "method": "eagle"}],
        levels=[K3, {**K5, "tokens": 99}, {"name": "k4", "drafter": "nobody", "tokens": 4}, DISABLED],
        rules=switch("gone"),
        intervalSeconds=0,
        guardrails={"probe": {"afterSeconds": 60, "maxSeconds": 30}},
    )
    assert fields(data) == [
        "drafters[1].model",
        "guardrails.probe.maxSeconds",
        "intervalSeconds",
        "levels[1].tokens",
        "levels[2].drafter",
        "rules[0].action.level",
    ]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        # A level whose name cannot be read may be the one that is missed.
        ({**LADDER, "levels": [{**K5, "name": "K5"}, K3, DISABLED], "rules": switch("k5")}, ["levels[0].name"]),
        ({**LADDER, "levels": [K5, K3, {"name": False}]}, ["levels[2].name"]),
        ({**LADDER, "levels": "k5, k3", "rules": switch("k5")}, ["levels"]),
        ({**LADDER, "levels": [K5, "k3", DISABLED], "rules": switch("k3")}, ["levels[1]"]),
        # So may a drafter.
        ({**LADDER, "drafters": [{**SMALL, "name": 5}, LOOKUP]}, ["drafters[0].name"]),
        ({**LADDER, "drafters": {"small": SMALL}}, ["drafters"]),
        # Tokens that cannot be read may fall as they should.
        ({**LADDER, "levels": [K5, {**K3, "name": "k4", "tokens": "4"}, K3, DISABLED]}, ["levels[1].tokens"]),
        # A field misspelt is not a field missing.
        ({**LADDER, "levels": [{"name": "k5", "drafter": "small", "token": 5}, K3, DISABLED]}, ["levels[0].token"]),
        ({**LADDER, "levels": [{"nam": "k5", "drafter": "small", "tokens": 5}, K3, DISABLED]}, ["levels[0].nam"]),
        # A method that cannot be read may need no model, or have one.
        ({**LADDER, "drafters": [{**SMALL, "method": "x"}, LOOKUP]}, ["drafters[0].method"]),
        # A rule that is wrong in itself still names its level.
        (
            {**LADDER, "rules": [{**switch("gone")[0], "when": {"running": {}}}]},
            ["rules[0].action.level", "rules[0].when.running"],
        ),
        ({**LADDER, "signals": {"windowSeconds": "5m"}, "intervalSeconds": 900}, ["signals.windowSeconds"]),
        # What no window can mend is still said.
        (
            {"signals": {"windowSeconds": "5m"}, "schedules": 5, "rules": switch("k4"), **LADDER},
            ["rules[0].action.level", "schedules", "signals.windowSeconds"],
        ),
    ],
)
def test_what_only_follows_from_another_mistake_is_not_said(spec: dict[str, Any], expected: list[str]) -> None:
    assert fields(policy(**spec)) == expected


def test_a_misspelt_field_is_judged_all_the_same() -> None:
    examined = examine(policy(guardrail={"probe": {"aftrSeconds": 0}}))
    assert [(spell(flaw.place), flaw.kind) for flaw in examined.flaws] == [
        ("spec.guardrail", "extra_forbidden"),
        ("spec.guardrail.probe.aftrSeconds", "extra_forbidden"),
        ("spec.guardrail.probe.aftrSeconds", "greater_than_equal"),
    ]


@pytest.mark.parametrize("value", [None, {"windowSeconds": None}])
def test_a_field_without_a_value_is_a_mistake(value: Any) -> None:
    assert examine(policy(signals=value)).flaws[0].kind == "empty"


def test_two_mistakes_that_hide_each_other_in_turn_are_both_found() -> None:
    data = policy(rules=[{"name": "R", "when": {"acceptance": {"belowPercent": 4}}, "action": {"type": "StepUp"}}])
    assert fields(data) == ["rules[0].name"]  # the direction is judged only in a rule whose fields are right
    data["spec"]["rules"][0]["name"] = "r"
    assert fields(data) == ["rules[0]"]


def wholly(examined: Examined, data: Any) -> bool:
    """Whether the verdict is either a policy or mistakes, each with words."""
    document = Document(data, {(): Place(1)})
    mistakes = [describe(flaw, document) for flaw in examined.flaws]
    assert all(one.message for one in mistakes)
    return (examined.policy is not None) != bool(mistakes or examined.contradictions)


words = st.sampled_from(
    [
        "name",
        "k5",
        "k3",
        "disabled",
        "small",
        "ngram",
        "SwitchTo",
        "StepUp",
        "Enforce",
        "off",
        "0.6",
        "0 22 * * *",
        "",
        "Ü",
    ]
)
leaves = st.none() | st.booleans() | st.integers(-5, 2**63) | st.floats() | words | st.text(max_size=5)
junk = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words | st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(junk)
def test_any_junk_gets_a_verdict(data: Any) -> None:
    assert wholly(examine(data), data)


@st.composite
def damaged(draw: st.DrawFn) -> Any:
    """A valid policy in which a few values, wherever they are, became something else."""
    data = json.loads(json.dumps(policy(**LADDER, rules=switch("k3"), signals={"windowSeconds": 300})))
    for _ in range(draw(st.integers(1, 4))):
        parent, keys = data, list(data)
        while True:
            key = draw(st.sampled_from(keys))
            inner = parent[key]
            if not isinstance(inner, dict | list) or not inner or draw(st.integers(0, 3)) == 0:
                break
            parent, keys = inner, list(inner) if isinstance(inner, dict) else list(range(len(inner)))
        change = draw(st.sampled_from(["replace", "remove", "rename"]))
        if change == "replace" or isinstance(parent, list):
            parent[key] = draw(leaves | junk)
        else:
            value = parent.pop(key)
            if change == "rename" or not parent:
                parent[draw(words)] = value
    return data


@settings(deadline=None)
@given(damaged())
def test_any_damage_gets_a_verdict(data: Any) -> None:
    assert wholly(examine(data), data)


def test_a_file_full_of_mistakes_is_judged_in_no_time() -> None:
    assert len(fields(policy(**{f"unknown-{n}": n for n in range(1000)}, alerts=["x"] * 5000))) > 1000


def test_the_schema_knows_every_field_by_its_path() -> None:
    assert schema_at(("spec", "levels", 3, "tokens"))["maximum"] == 8
    assert schema_at(("spec", "alerts", 0, "match", "alertname"))["maxLength"] == 256
    assert schema_at(("spec", "nothing", 0)) == {}
