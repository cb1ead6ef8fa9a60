"""The models accept what the reference says and nothing else."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from specloop_policy.contradictions import CHECKS, contradictions
from specloop_policy.crd import structural_schema
from specloop_policy.model import Mode, SpecPolicySpec

TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "llama-70b"}
SCHEMA = structural_schema(SpecPolicySpec)

# One valid value for every part that is absent by default, so that each bound can be tried in its place.
DRAFTER = {"name": "small", "method": "draft_model", "model": "x"}
LOOKUP = {"name": "lookup", "method": "ngram", "lookupMin": 1, "lookupMax": 32}
FULL: dict[str, Any] = {
    "targetRef": TARGET,
    "containerName": "vllm",
    "drafters": [DRAFTER, LOOKUP],
    "levels": [
        {"name": "k5", "drafter": "small", "tokens": 5, "tokensByBatch": [{"fromRequests": 9, "tokens": 1}]},
        {"name": "disabled"},
    ],
    "signals": {},
    "rules": [
        {
            "name": "r",
            "when": {
                "acceptance": {"belowPercent": 1},
                "temperature": {"above": "0.6"},
                "coverage": {"belowPercent": 1},
                "gain": {"belowPercent": 1},
                "running": {"above": 1},
                "kvCache": {"abovePercent": 1},
            },
            "action": {"type": "SwitchTo", "level": "disabled"},
        }
    ],
    "costModel": {},
    "guardrails": {"probe": {}},
    "live": {"tokenSecretRef": {"name": "s"}},
    "rollout": {"gate": {}},
    "schedules": [{"name": "s", "cron": "0 0 * * *", "durationSeconds": 60, "level": "disabled"}],
    "alerts": [{"match": {"alertname": "x"}, "action": {"type": "SwitchTo", "level": "disabled"}}],
}


def parse(spec: Any) -> SpecPolicySpec:
    return SpecPolicySpec.model_validate_json(json.dumps(spec), by_alias=True, by_name=False)


def errors(spec: Any) -> set[tuple[Any, ...]]:
    try:
        parse(spec)
    except ValidationError as error:
        return {one["loc"] for one in error.errors()}
    return set()


def bounds(schema: Any, where: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], int, int]]:
    """Every whole number of the spec, as its path with its bounds."""
    if schema["type"] == "integer":
        yield where, schema["minimum"], schema["maximum"]
    for name, field in schema.get("properties", {}).items():
        yield from bounds(field, (*where, name))
    if "items" in schema:
        yield from bounds(schema["items"], (*where, 0))


def put(spec: Any, where: tuple[Any, ...], value: int) -> Any:
    """The full policy with one number replaced; a limit's other side makes room."""
    result = json.loads(json.dumps(spec))
    inner = result
    for key in where[:-1]:
        inner = inner[key]
    if where[-1] in ("belowPercent", "abovePercent", "below", "above"):
        inner.clear()
    inner[where[-1]] = value
    return result


BOUNDS = list(bounds(SCHEMA))
IN_EACH_NUMBER = pytest.mark.parametrize(("where", "low", "high"), BOUNDS, ids=lambda one: str(one))


def test_a_policy_with_only_a_target_is_valid_and_recommends() -> None:
    spec = parse({"targetRef": TARGET})
    assert list(contradictions(spec)) == []
    assert spec.mode is Mode.RECOMMEND
    assert (spec.levels, spec.rules, spec.drafters, spec.container_name) == (None, None, None, None)


def test_the_full_policy_is_valid() -> None:
    assert list(contradictions(parse(FULL))) == []


@IN_EACH_NUMBER
def test_a_number_at_its_bounds_is_accepted(where: tuple[Any, ...], low: int, high: int) -> None:
    assert where not in errors(put(FULL, where, low))
    assert where not in errors(put(FULL, where, high))


@IN_EACH_NUMBER
def test_a_number_beyond_its_bounds_is_refused(where: tuple[Any, ...], low: int, high: int) -> None:
    assert where in errors(put(FULL, where, low - 1))
    assert where in errors(put(FULL, where, high + 1))


def defaults(schema: Any, where: str = "spec") -> Iterator[tuple[str, Any]]:
    if "default" in schema:
        yield where, schema
    for name, field in schema.get("properties", {}).items():
        yield from defaults(field, f"{where}.{name}")
    if "items" in schema:
        yield from defaults(schema["items"], f"{where}[]")


@pytest.mark.parametrize(("where", "schema"), list(defaults(SCHEMA)), ids=lambda one: one if type(one) is str else "")
def test_every_default_is_within_its_own_bounds(where: str, schema: Any) -> None:
    default = schema["default"]
    if schema["type"] == "integer":
        assert schema["minimum"] <= default <= schema["maximum"]
    if "enum" in schema:
        assert default in schema["enum"]


@pytest.mark.parametrize(
    "value",
    [{"interval_seconds": 15}, {"unknown": 1}, {"intervalSeconds": "15"}, {"intervalSeconds": True}, {"suspend": 1}],
)
def test_nothing_is_read_as_something_else(value: dict[str, Any]) -> None:
    assert errors({"targetRef": TARGET, **value})


@pytest.mark.parametrize("name", ["a", "a-b", "9", "k5", "x" * 63])
def test_a_name_may_be(name: str) -> None:
    assert not errors({"targetRef": TARGET, "levels": [{"name": name}]})


@pytest.mark.parametrize("name", ["", "A", "a_b", "-a", "a-", "a.b", "a b", "ä", "x" * 64, "a\n"])
def test_a_name_may_not_be(name: str) -> None:
    assert errors({"targetRef": TARGET, "levels": [{"name": name}]})


def test_every_contradiction_says_how_to_mend_it() -> None:
    broken = {
        **FULL,
        "intervalSeconds": 3600,
        "signals": {"windowSeconds": 60, "maxEvidenceSeconds": 30},
        "guardrails": {"probe": {"afterSeconds": 60, "maxSeconds": 30}},
        "drafters": [
            {"name": "small", "method": "draft_model"},
            {"name": "small", "method": "mtp", "lookupMin": 2},
            {"name": "lookup", "method": "ngram", "model": "x", "lookupMin": 5, "lookupMax": 4},
        ],
        "levels": [
            {"name": "k3", "drafter": "small", "tokens": 3, "tokensByBatch": [{"fromRequests": 9, "tokens": 3}]},
            {"name": "k5", "drafter": "small", "tokens": 5},
            {"name": "half", "tokens": 5},
            {"name": "no", "drafter": "nobody", "tokens": 2},
            {"name": "disabled", "tokens": 1},
            {"name": "last", "drafter": "lookup", "tokens": 1},
        ],
        "rules": [{"name": "r", "when": {"running": {"above": 1}}, "action": {"type": "SwitchTo", "level": "gone"}}],
        "schedules": [{"name": "s", "cron": "0 0 * * *", "durationSeconds": 60, "level": "gone"}],
        "alerts": [{"match": {"alertname": "x"}, "action": {"type": "SwitchTo", "level": "gone"}}],
    }
    spec = parse(broken)
    assert [check.__name__ for check in CHECKS if not any(check(spec))] == []
    assert all(one.message and one.hint for one in contradictions(spec))
