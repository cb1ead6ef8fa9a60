"""A person sees at a glance where a policy stands, and why."""

import re
from typing import Any

import pytest

from specloop_cli.status import report
from specloop_cli.status_text import show, show_all
from specloop_policy.annotations import OVERRIDE, ROLLBACK, SUSPEND
from tests.support.live_policies import NOON, condition, decision, live, moment, rollout, status

Shown = pytest.CaptureFixture[str]


def details(capsys: Shown, *arguments: Any, **more: Any) -> dict[str, str]:
    """Everything about one policy: the facts by their titles, and the whole under an empty one."""
    show(report(live(*arguments, **more), NOON), NOON)
    out = capsys.readouterr().out
    facts = [re.split(r"\s{2,}|(?<=^recommended) |(?<=^quarantined) ", line, maxsplit=1) for line in out.splitlines()]
    return {"": out, **{fact[0]: fact[1] for fact in facts if len(fact) == 2 and fact[0]}}


def rows(capsys: Shown, *found: Any, namespace: str | None = "llm") -> list[list[str]]:
    """The cells of the table of all policies, headings first; two spaces stand between them."""
    show_all([report(one, NOON) for one in found], NOON, namespace)
    return [re.split(r"\s{2,}", line.strip()) for line in capsys.readouterr().out.splitlines()]


def test_all_policies_are_a_line_each(capsys: Shown) -> None:
    """Three minutes before noon is three minutes ago."""
    down = decision("StepDown", "k5", "k3", rule="acceptance-low", ago=180)
    headings, chat = rows(capsys, live(status=status(decisions=[decision("Hold", "k5", "k5"), down])))
    assert headings == ["policy", "target", "mode", "level", "acceptance", "ready", "last decision"]
    assert chat == [
        "chat-70b",
        "Deployment/llama-70b",
        "Enforce",
        "k3",
        "62 %",
        "True",
        "3 min ago: step down k5 → k3 (acceptance-low)",
    ]


def test_a_policy_on_its_way_shows_both_levels_and_why_it_is_not_ready(capsys: Shown) -> None:
    """What runs, and what is to run."""
    found = status(condition("Ready", "False", "MetricsUnavailable"), desiredLevel="ngram")
    row = rows(capsys, live(status=found, suspend=True))[1]
    assert row[2:6] == ["Enforce, suspended", "k3 → ngram", "62 %", "False (MetricsUnavailable)"]


def test_a_policy_that_nobody_looked_at_shows_nothing_it_does_not_know(capsys: Shown) -> None:
    """Dashes, not zeros."""
    assert rows(capsys, live())[1][3:] == ["–", "–", "Unknown", "–"]


def test_over_all_namespaces_each_is_named(capsys: Shown) -> None:
    """Policies of two namespaces may have one name."""
    table = rows(capsys, live(namespace="llm"), live(namespace="code"), namespace=None)
    assert [row[:2] for row in table] == [["namespace", "policy"], ["llm", "chat-70b"], ["code", "chat-70b"]]


@pytest.mark.parametrize(("namespace", "words"), [("llm", "namespace llm"), (None, "any namespace")])
def test_no_policies_are_said_in_words(capsys: Shown, namespace: str | None, words: str) -> None:
    """Not an empty table."""
    assert rows(capsys, namespace=namespace) == [["no SpecPolicy in " + words]]


def test_one_policy_shows_its_facts(capsys: Shown) -> None:
    """Those that are always there."""
    shown = details(capsys, status=status())
    assert shown["policy"] == "chat-70b in namespace llm, mode Enforce"
    assert shown["target"] == "Deployment/llama-70b"
    assert shown["level"] == "k3"
    assert shown["acceptance"] == "62 %"
    assert not {"status", "suspended", "override", "roll-out", "recommended", "problem"} & shown.keys()


def test_conditions_have_their_reason_and_message(capsys: Shown) -> None:
    """The message on a line of its own: it may be long."""
    found = condition("MetricsAvailable", "False", "SourceDown", "Prometheus does not answer", ago=7200)
    out = details(capsys, status=status(found))[""]
    assert "MetricsAvailable  False    SourceDown, 2 h ago\n    Prometheus does not answer\n" in out


def test_the_ladder_marks_the_level_that_runs_and_the_one_to_come(capsys: Shown) -> None:
    """A star and an arrow."""
    out = details(capsys, status=status(desiredLevel="ngram"))[""]
    marked = dict(re.findall(r"^([*>]) +(\S+)", out, re.MULTILINE))
    assert marked == {"*": "k3", ">": "ngram"}
    assert re.search(r"^ +k5 +small +draft_model +5 +tiny/draft", out, re.MULTILINE)


def test_decisions_are_listed_newest_first_with_their_reasons(capsys: Shown) -> None:
    """The status has them oldest first."""
    found = [decision("StepDown", "k5", "k3", ago=600), decision("Probe", "k3", "k5", ago=300)]
    out = details(capsys, status=status(decisions=found))[""]
    assert out.endswith("5 min ago: probe k3 → k5\n    k5 it is\n10 min ago: step down k5 → k3\n    k3 it is\n")


def test_a_recommendation_shows_gain_and_price(capsys: Shown) -> None:
    """240 s are four minutes."""
    found = {"level": "ngram", "reason": "hot", "estimatedGainPercent": 12, "restartCostSeconds": 240}
    shown = details(capsys, status=status(recommendation=found))
    assert shown["recommended"] == "ngram, estimated gain 12 %, a restart costs 4 min a replica: hot"


def test_what_a_recommendation_does_not_know_is_left_out(capsys: Shown) -> None:
    """No gain is not a gain of nothing."""
    shown = details(capsys, status=status(recommendation={"level": "ngram", "reason": "hot"}))
    assert shown["recommended"] == "ngram: hot"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ('{"level": "k5", "by": "bob"}', "k5 by bob until it is taken back"),
        ('{"level": "k5", "until": "2026-11-30T13:00:00Z"}', "k5 until 2026-11-30T13:00:00Z, another 60 min"),
        ('{"level": "k5", "until": "2026-11-30T09:00:00Z", "by": "bob"}', "k5 by bob run out 3 h ago"),
    ],
)
def test_an_override_shows_its_end(capsys: Shown, value: str, words: str) -> None:
    """At noon."""
    assert details(capsys, annotations={OVERRIDE: value}, status=status())["override"] == words


def test_what_the_operator_remembers_is_shown(capsys: Shown) -> None:
    """Levels that failed, a probe, and what holds the level."""
    memory = {
        "quarantine": [{"level": "k5", "key": "abc", "reason": "out of memory"}],
        "probe": {"level": "k3", "startedAt": moment(600)},
        "forced": {"by": "schedule night", "backTo": "k3"},
        "owed": "k5",
    }
    shown = details(capsys, status=status(memory=memory))
    assert shown["quarantined"] == "k5: out of memory"
    assert shown["probe"] == "of k3 on one replica, begun 10 min ago"
    assert shown["forced"] == "by schedule night, afterwards back to k3"
    assert shown["owed"] == "k5, where it was before: back once nothing is in the way"


def test_a_rollback_that_was_asked_for_is_shown(capsys: Shown) -> None:
    """Until the operator has answered, it is all there is to see."""
    asked = {ROLLBACK: '{"at": "2026-11-30T11:55:00Z", "by": "bob"}'}
    assert details(capsys, annotations=asked, status=status())["rollback"] == "asked for by bob 5 min ago"


def test_annotations_that_cannot_be_read_are_problems(capsys: Shown) -> None:
    """With the mend; everything else is still shown."""
    shown = details(capsys, annotations={OVERRIDE: "k5", SUSPEND: "true"}, status=status())
    assert shown["problem"].startswith("annotation specloop.dev/override: Invalid JSON")
    assert shown["suspended"] == "by the annotation specloop.dev/suspend"


@pytest.mark.parametrize(
    ("found", "words"), [(None, "none: no operator"), ({**status(), "observedGeneration": 1}, "of an older version")]
)
def test_a_status_that_is_missing_or_old_is_named(capsys: Shown, found: Any, words: str) -> None:
    """The samples are of generation 2."""
    assert details(capsys, status=found)["status"].startswith(words)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "Soaking since 3 min ago, from k3 to ngram"),
        ({"canaryPods": 1}, "Soaking since 3 min ago, from k3 to ngram, canary of 1 pod"),
        ({"canaryPods": 2, "reason": "slower"}, "Soaking since 3 min ago, from k3 to ngram, canary of 2 pods: slower"),
    ],
)
def test_a_roll_out_is_told_in_a_line(capsys: Shown, more: Any, words: str) -> None:
    """What is not known yet is left out."""
    assert details(capsys, status=status(memory={"rollout": rollout(**more)}))["roll-out"] == words


def test_a_level_that_is_watched_is_told_in_a_line(capsys: Shown) -> None:
    """Promoted two hours ago, and watched for another two."""
    watch = {"level": "k3", "backTo": "k5", "key": "", "since": moment(7200), "until": moment(-7200)}
    shown = details(capsys, status=status(memory={"watch": {**watch, "failedSharePercent": 1}}))
    assert shown["watched"] == "k3, promoted 2 h ago, another 2 h: back to k5 if it does harm"


def test_nothing_in_a_cluster_can_write_to_the_terminal(capsys: Shown) -> None:
    """A container's last words may stand in a message."""
    evil = "boom\x1b[31m\nReady True"
    found = status(
        condition("Degraded", "True", message=evil),
        decisions=[{**decision("Hold", "k3", "k3", rule=evil), "reason": evil}],
        memory={"quarantine": [{"level": "k5", "key": "a", "reason": evil}], "rollout": rollout(reason=evil)},
        recommendation={"level": "k3", "reason": evil},
    )
    out = details(capsys, status=found)[""]
    assert "\x1b" not in out
    assert "\nReady True" not in out
