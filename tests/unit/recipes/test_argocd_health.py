"""Argo CD's health of a policy: the script in a real Lua, over statuses that the operator's own code makes."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from specloop_operator.conditions import ConditionReason, ConditionType, conditions
from specloop_operator.remembered import Remembered
from specloop_operator.sight import Blind
from specloop_operator.status_report import MetricsReport, blind_status, seen_status
from specloop_policy.status import SpecPolicyStatus
from tests.unit.operator_turn.scenes import WRONG, PodOf, Scene, windows
from tests.unit.recipes.pages import PAGES
from tests.unit.recipes.programs import health

HEARD = MetricsReport((ConditionReason.HEARD, "source default: 3 of 3 pods are heard from"))
SILENT = MetricsReport((ConditionReason.NOT_HEARD, "source default: none of 3 pods is heard from"))
SAID = "it is so for a reason, “quoted” and all"

STATES = ("Healthy", "Progressing", "Suspended", "Degraded")
"""What Argo CD 3.5 lets a script answer (docs/operator-manual/health.md)."""

BLIND = {
    ConditionReason.INVALID_SPEC,
    ConditionReason.INVALID_ANNOTATION,
    ConditionReason.TARGET_NOT_FOUND,
    ConditionReason.UNSUPPORTED_KIND,
    ConditionReason.UNSUPPORTED_COMMAND,
    ConditionReason.UNSUPPORTED_STRATEGY,
    ConditionReason.OLDER_POLICY,
}
"""What keeps the operator from deciding anything (sight.py)."""

ROW = re.compile(r"^\| (\w+) \| (.*?) \|", re.MULTILINE)


def status_of(scene: Scene, before: SpecPolicyStatus | None = None, metrics: MetricsReport = HEARD) -> SpecPolicyStatus:
    """What the operator writes after one more look."""
    turn = scene.turn()
    return seen_status(before or SpecPolicyStatus(), scene.seen, turn, metrics, scene.now)


def policy(status: SpecPolicyStatus | None, generation: int = 1) -> dict[str, Any]:
    """The custom resource as the API server gives it."""
    body: dict[str, Any] = {
        "apiVersion": "specloop.dev/v1alpha1",
        "kind": "SpecPolicy",
        "metadata": {"name": "chat", "generation": generation},
    }
    return body if status is None else {**body, "status": status.model_dump(mode="json", by_alias=True)}


def quiet(scene: Scene) -> None:
    """Acceptance of 60 %: no rule asks for anything."""
    scene.measured = replace(scene.measured, windows=windows(scene.pods, 0.6, scene.now + 15.0))


def recommending(scene: Scene) -> None:
    """A step down is recommended."""
    scene.spec["mode"] = "Recommend"
    scene.low()


def canary_starts(scene: Scene) -> None:
    """A canary's pod is not ready."""
    scene.low()
    scene.turn()
    scene.pods = [*scene.pods, PodOf("llama-new", "k3", ready_since=None)]


def going_back(scene: Scene) -> None:
    """The gate failed."""
    scene.soaking()
    scene.turn(verdict=WRONG)


def rolled_back(scene: Scene) -> None:
    """And the old template is back in all pods."""
    going_back(scene)
    scene.all_at("k5")
    scene.turn(verdict=None)


def drifted(scene: Scene) -> None:
    """Somebody else put k5 back."""
    scene.promoted()
    scene.all_at("k5")


def drifted_off_the_ladder(scene: Scene) -> None:
    """Somebody else set what is no level at all."""
    scene.promoted()
    scene.all_at("none of the ladder")


def unmanaged(scene: Scene) -> None:
    """Another look-up than the ladder's."""
    scene.level = "none of the ladder"


@pytest.mark.parametrize(
    ("prepare", "metrics", "expected"),
    [
        (quiet, HEARD, "Healthy"),
        (recommending, HEARD, "Healthy"),
        (quiet, SILENT, "Healthy"),
        (canary_starts, HEARD, "Progressing"),
        (Scene.soaking, HEARD, "Progressing"),
        (Scene.soaking, SILENT, "Progressing"),
        (going_back, HEARD, "Progressing"),
        (rolled_back, HEARD, "Healthy"),
        (Scene.promoted, HEARD, "Healthy"),
        (Scene.suspend, HEARD, "Suspended"),
        (Scene.suspend, SILENT, "Suspended"),
        (drifted, HEARD, "Suspended"),
        (drifted_off_the_ladder, HEARD, "Degraded"),
        (unmanaged, HEARD, "Degraded"),
        (unmanaged, SILENT, "Degraded"),
    ],
)
def test_a_policy_that_is_looked_at_has_the_health_of_what_it_does(
    prepare: Callable[[Scene], object], metrics: MetricsReport, expected: str
) -> None:
    """With a sentence that says why."""
    scene = Scene()
    prepare(scene)
    found = status_of(scene, metrics=metrics)
    status, message = health(policy(found))
    assert status == expected
    assert message in {one.message for one in found.conditions}


def in_the_table() -> dict[str, str]:
    """The health of each reason that the page's table names."""
    rows = ROW.findall(PAGES["argocd"])
    return {reason: state for state, reasons in rows if state in STATES for reason in re.findall(r"`(\w+)`", reasons)}


def shown(reason: ConditionReason) -> SpecPolicyStatus:
    """A status with this reason, as the operator would come to it from one where all was well."""
    scene = Scene()
    quiet(scene)
    well = status_of(scene)
    found = {reason.type: (reason, SAID)}
    if reason.type is ConditionType.METRICS_AVAILABLE:
        return status_of(scene, well, MetricsReport((reason, SAID)))
    if reason in BLIND:
        return blind_status(well, Blind(reason, SAID), Remembered(), 1, scene.now)
    if reason is ConditionReason.REVERTED:
        found[ConditionType.READY] = (ConditionReason.NOT_READY, SAID)
    return well.model_copy(update={"conditions": conditions(found, well.conditions, 1, scene.now)})


@pytest.mark.parametrize("reason", sorted(set(ConditionReason) - {ConditionReason.NOT_READY}))
def test_each_reason_counts_as_the_page_says(reason: ConditionReason) -> None:
    """What it does not name is nothing that Argo CD should worry about; NotReady only stands beside another one."""
    status, message = health(policy(shown(reason)))
    expected = in_the_table().get(str(reason), "Healthy")
    assert status == expected
    assert message == SAID or expected == "Healthy"


def test_the_table_names_reasons_that_there_are() -> None:
    """Each once, and nothing else."""
    rows = [reasons for state, reasons in ROW.findall(PAGES["argocd"]) if state in STATES]
    named = re.findall(r"`(\w+)`", " ".join(rows))
    assert len(rows) == len(STATES)
    assert len(named) == len(set(named))
    assert set(named) <= {str(one) for one in ConditionReason}


@pytest.mark.parametrize("generation", [2, 3])
def test_what_is_said_of_an_older_generation_does_not_count(generation: int) -> None:
    """Argo CD looks right after it has synced, and the operator some seconds later."""
    stale = shown(ConditionReason.INVALID_SPEC)
    assert health(policy(stale, generation=1))[0] == "Degraded"
    assert health(policy(stale, generation))[0] == "Progressing"


@pytest.mark.parametrize(
    "status",
    [None, SpecPolicyStatus(), SpecPolicyStatus(observed_generation=1)],
    ids=["no status", "an empty one", "no conditions"],
)
def test_what_nobody_has_looked_at_yet_is_waited_for(status: SpecPolicyStatus | None) -> None:
    """Argo CD would take an answer without a status for Healthy."""
    assert health(policy(status)) == ("Progressing", "waiting for the operator to look at this generation")


@pytest.mark.parametrize("reason", [one for one in ConditionReason if one.type is not ConditionType.PROGRESSING])
def test_nothing_but_a_roll_out_is_waited_for_once_it_was_looked_at(reason: ConditionReason) -> None:
    """A roll-out ends; a policy that can do nothing does not, and a sync would wait for it for ever."""
    assert health(policy(shown(reason)))[0] != "Progressing"


@pytest.mark.parametrize("blind", [ConditionReason.TARGET_NOT_FOUND, ConditionReason.INVALID_SPEC])
def test_a_policy_that_can_do_nothing_is_degraded_whatever_it_did_before(blind: ConditionReason) -> None:
    """Conditions that nothing is known of any more stay as they were: suspended, drifted, rolling out."""
    for prepare in (Scene.suspend, drifted, Scene.soaking):
        scene = Scene()
        prepare(scene)
        status = blind_status(status_of(scene), Blind(blind, SAID), scene.remembered, 1, scene.now)
        assert health(policy(status)) == ("Degraded", SAID)
