"""What a turn says in the status: the same input says the same, and nothing grows without end."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from specloop_operator.conditions import ConditionReason
from specloop_operator.remembered import Remembered
from specloop_operator.sight import Blind
from specloop_operator.status_report import ENDINGS, PHASES, MetricsReport, blind_status, seen_status
from specloop_operator.turn import Turn
from specloop_policy.canary import Ending, Phase
from specloop_policy.decision import ActionName, Decision, FailedChange, Fault
from specloop_policy.evidence import gather
from specloop_policy.status import Condition, ConditionStatus, SpecPolicyStatus
from tests.unit.operator_turn.scenes import OPEN, PASSED, WRONG, PodOf, Scene, windows

HEARD = MetricsReport((ConditionReason.HEARD, "source default: 3 of 3 pods are heard from"))
SILENT = MetricsReport((ConditionReason.NOT_HEARD, "source default: none of 3 pods is heard from"))

Prepare = Callable[[Scene], object]


def sent(status: SpecPolicyStatus) -> SpecPolicyStatus:
    """The status as the API server gives it back."""
    return SpecPolicyStatus.model_validate_json(status.model_dump_json(by_alias=True, exclude_none=True))


def report(
    scene: Scene, turn: Turn, before: SpecPolicyStatus | None = None, metrics: MetricsReport = HEARD
) -> SpecPolicyStatus:
    """The status after a turn, with the evidence that a decision rests on."""
    sight = scene.seen
    if turn.decision is not None and sight.level is not None and metrics.evidence is None:
        level = turn.evidence_level or sight.level.name
        found = gather(sight.policy, scene.measured.windows, level, turn.acceptance_since, scene.now)
        metrics = replace(metrics, evidence=found)
    return seen_status(before or SpecPolicyStatus(), sight, turn, metrics, scene.now)


def condition(status: SpecPolicyStatus, type_: str) -> Condition:
    """One condition."""
    return next(one for one in status.conditions if one.type == type_)


def said(status: SpecPolicyStatus, type_: str) -> tuple[str, str]:
    """Status and reason of a condition."""
    found = condition(status, type_)
    return str(found.status), found.reason


def nothing(scene: Scene) -> None:
    """No window yet."""


def served_well(scene: Scene) -> None:
    """Acceptance of 60 %: no rule asks for anything."""
    scene.measured = replace(scene.measured, windows=windows(scene.pods, 0.6, scene.now + 15.0))


def recommending(scene: Scene) -> None:
    """Mode Recommend."""
    scene.spec["mode"] = "Recommend"


def recommended(scene: Scene) -> None:
    """A step down is recommended."""
    recommending(scene)
    scene.low()


def waits(scene: Scene) -> None:
    """Others roll out."""
    scene.low()
    scene.turn(slot_free=False)


def unmanaged(scene: Scene) -> None:
    """Another look-up than the ladder's."""
    scene.level = "none of the ladder"


def drifted(scene: Scene) -> None:
    """Somebody else put k5 back."""
    scene.promoted()
    scene.all_at("k5")


def written(scene: Scene) -> None:
    """The first pods are awaited."""
    scene.low()
    scene.turn()


def canary_starts(scene: Scene) -> None:
    """Its pod is not ready."""
    written(scene)
    scene.pods = [*scene.pods, PodOf("llama-new", "k3", ready_since=None)]
    scene.turn()
    scene.turn()


def going_back(scene: Scene) -> None:
    """The gate failed."""
    scene.soaking()
    scene.turn(verdict=WRONG)


RESTING: dict[str, Prepare] = {
    "nothing to do": served_well,
    "no metrics": nothing,
    "a recommendation": recommended,
    "waiting for a slot": waits,
    "suspended": Scene.suspend,
    "unmanaged": unmanaged,
    "drifted": drifted,
    "the first pods are awaited": written,
    "the canary starts": canary_starts,
    "the canary soaks": Scene.soaking,
    "promoted": Scene.promoted,
    "going back": going_back,
}


@pytest.mark.parametrize("name", RESTING)
def test_where_nothing_is_new_the_status_is_the_same(name: str) -> None:
    """At the next look, and at the one after, so that nothing is written."""
    scene = Scene()
    RESTING[name](scene)
    first = sent(report(scene, scene.turn()))
    second = sent(report(scene, scene.turn(), first))
    third = report(scene, scene.turn(), second)
    assert third == second


def test_everything_is_there_from_the_first_visit_on() -> None:
    """Eight conditions, the ladder, the level that runs, and the memory."""
    scene = Scene()
    scene.remembered = Remembered()
    status = report(scene, scene.turn())
    assert len(status.conditions) == 9
    assert [one.name for one in status.levels] == ["k5", "k3", "ngram", "disabled"]
    assert (status.observed_level, status.desired_level, status.observed_generation) == ("k5", "k5", 1)
    assert status.memory is not None
    assert {one.status for one in status.conditions} <= {ConditionStatus.TRUE, ConditionStatus.FALSE}


@pytest.mark.parametrize(
    ("prepare", "metrics", "ready"),
    [
        (nothing, HEARD, ("True", "Governing")),
        (recommending, HEARD, ("True", "Recommending")),
        (nothing, SILENT, ("False", "NotReady")),
        (drifted, HEARD, ("False", "NotReady")),
        (unmanaged, SILENT, ("False", "Unmanaged")),
    ],
)
def test_ready_sums_the_others_up(prepare: Prepare, metrics: MetricsReport, ready: tuple[str, str]) -> None:
    """It is so only while the policy does its work, and otherwise says what keeps it."""
    scene = Scene()
    prepare(scene)
    assert said(report(scene, scene.turn(), metrics=metrics), "Ready") == ready


def test_suspension_says_whose_it_is() -> None:
    """The spec comes before the annotation."""
    scene = Scene()
    assert said(report(scene, scene.turn()), "Suspended") == ("False", "Active")
    scene.suspend()
    assert said(report(scene, scene.turn()), "Suspended") == ("True", "ByAnnotation")
    scene.spec["suspend"] = True
    assert said(report(scene, scene.turn()), "Suspended") == ("True", "BySpec")


def test_progress_is_told_phase_by_phase() -> None:
    """From the write to the end; how it ended stays to be read."""
    scene, status, told = Scene(), SpecPolicyStatus(), []

    def look(turn: Turn) -> None:
        nonlocal status
        status = sent(report(scene, turn, status))
        told.append((*said(status, "Progressing"), status.desired_level))

    look(scene.turn())
    scene.low()
    look(scene.turn())
    scene.canary("k3")
    for verdict in (None, None, OPEN, OPEN, PASSED):
        look(scene.turn(verdict=verdict))
    scene.all_at("k3")
    look(scene.turn(verdict=None))
    look(scene.turn())
    assert told == [
        ("False", "Idle", "k5"),
        ("True", "Starting", "k3"),
        ("True", "Starting", "k3"),
        ("True", "Canary", "k3"),
        ("True", "Soaking", "k3"),
        ("True", "Soaking", "k3"),
        ("True", "Promoting", "k3"),
        ("False", "Promoted", "k3"),
        ("False", "Promoted", "k3"),
    ]


def test_while_a_canary_is_out_the_level_of_all_the_others_is_the_one_that_runs() -> None:
    """The template's own once the rest follows."""
    scene = Scene().soaking()
    assert report(scene, scene.turn(verdict=OPEN)).observed_level == "k5"
    scene.turn(verdict=PASSED)
    assert report(scene, scene.turn(verdict=None)).observed_level == "k3"


def test_on_the_way_back_the_old_level_is_the_one_to_be_at() -> None:
    """And the words say why."""
    scene = Scene().soaking()
    status = report(scene, scene.turn(verdict=WRONG))
    assert (said(status, "Progressing"), status.desired_level) == (("True", "RollingBack"), "k5")
    assert condition(status, "Progressing").message == "its answers are short"
    scene.pods.pop()
    status = report(scene, scene.turn(verdict=None), sent(status))
    assert said(status, "Progressing") == ("False", "RolledBack")
    assert condition(status, "Progressing").message == "its answers are short"


def test_a_soak_without_control_says_so() -> None:
    """One pod: after is compared with before."""
    scene = Scene(replicas=1)
    scene.low()
    scene.turn()
    scene.pods = [PodOf("llama-new", "k3", ready_since=scene.now)]
    turns = [scene.turn(verdict=OPEN) for _ in range(3)]
    assert said(report(scene, turns[-1]), "Progressing") == ("True", "NoControl")


def test_an_abandoned_way_back_needs_a_person() -> None:
    """Degraded says so, and why."""
    scene = Scene().soaking()
    scene.turn(verdict=WRONG)
    scene.pods[0].ready_since = None
    scene.now += 1800.0
    turn = scene.turn(verdict=None)
    assert turn.ended is Ending.ABANDONED
    status = report(scene, turn)
    assert said(status, "Degraded") == ("True", "Abandoned")
    assert "not all pods are back at k5 within 1800 s" in condition(status, "Degraded").message
    for _ in range(3):  # alerts about it wait for minutes
        status = report(scene, scene.turn(), status)
        assert said(status, "Degraded") == ("True", "Abandoned")
    scene.all_at("k5")
    assert said(report(scene, scene.turn(), status), "Degraded") == ("False", "AsExpected")


def test_a_fault_of_the_engine_is_told_with_its_mend() -> None:
    """As the decision found it."""
    scene = Scene()
    fault = Fault("DraftsNothing", "no draft is accepted any more", "restart the pods")
    turn = replace(scene.turn(), decision=Decision(ActionName.ALERT, "k5", "a fault", faults=(fault,)))
    status = report(scene, turn)
    assert said(status, "Degraded") == ("True", "FaultFound")
    assert condition(status, "Degraded").message == ("DraftsNothing: no draft is accepted any more; restart the pods")
    nobody_looked = replace(scene.turn(), decision=None)
    assert said(report(scene, nobody_looked, status), "Degraded") == ("True", "FaultFound")
    assert said(report(scene, scene.turn(), status), "Degraded") == ("False", "AsExpected")


def test_what_waits_says_for_what() -> None:
    """The decision is made, and its time will come."""
    scene = Scene()
    scene.low()
    status = report(scene, scene.turn(slot_free=False))
    assert said(status, "Progressing") == ("False", "Waiting")


def test_a_recommendation_has_its_price() -> None:
    """60 s from a container's start to ready; it stays while the roll-out that it led to goes on."""
    scene = Scene()
    scene.low()
    first = report(scene, scene.turn())
    assert first.recommendation is not None
    assert (first.recommendation.level, first.recommendation.restart_cost_seconds) == ("k3", 60)
    assert first.recommendation.reason.startswith("acceptance 20 %")
    second = report(scene, scene.turn(), sent(first))
    assert second.recommendation == first.recommendation


def test_acceptance_is_that_of_the_evidence() -> None:
    """20 % at k5, and of nothing while nothing is measured."""
    scene = Scene()
    assert report(scene, scene.turn()).acceptance_percent is None
    scene.low()
    assert report(scene, scene.turn()).acceptance_percent == 20


class TestDecisions:
    """What was decided, newest last."""

    def test_a_change_is_taken_down_once(self) -> None:
        """With its level before and after, its rule, its evidence and the query."""
        scene = Scene()
        scene.low()
        turn = scene.turn()
        status = sent(report(scene, turn, metrics=replace(HEARD, query="the query as it was sent")))
        (made,) = status.decisions
        assert (made.action, made.from_level, made.to_level, made.rule) == (ActionName.STEP_DOWN, "k5", "k3", "low")
        assert (made.acceptance_percent, made.evidence_seconds, made.query) == (20, 300, "the query as it was sent")
        assert len(report(scene, scene.turn(), status).decisions) == 1

    def test_a_recommendation_is_taken_down_once_however_often_it_is_said(self) -> None:
        """In other figures too, from window to window."""
        scene, status = Scene(spec={"mode": "Recommend"}), SpecPolicyStatus()
        for acceptance in (0.20, 0.21, 0.22):
            scene.now += 300.0
            scene.measured = replace(scene.measured, windows=windows(scene.pods, acceptance, scene.now + 15.0))
            status = sent(report(scene, scene.turn(), status))
        assert [one.reason[:13] for one in status.decisions] == ["recommended: "]

    def test_holding_is_none(self) -> None:
        """Or the last ten would be ten times the same."""
        scene = Scene()
        assert report(scene, scene.turn()).decisions == ()

    def test_no_decision_leads_from_a_level_to_itself(self) -> None:
        """A roll-out there and back is two."""
        scene, status = Scene(), SpecPolicyStatus()
        scene.low()
        status = sent(report(scene, scene.turn(), status))
        scene.canary("k3")
        for verdict in (OPEN, OPEN, OPEN, WRONG):
            status = sent(report(scene, scene.turn(verdict=verdict), status))
        scene.pods.pop()
        status = sent(report(scene, scene.turn(verdict=None), status))
        assert [(one.from_level, one.to_level) for one in status.decisions] == [("k5", "k3"), ("k3", "k5")]


def test_the_status_never_grows_beyond_a_bound() -> None:
    """Whatever is to be said: ten decisions, and every text cut.

    Ten decisions of reason, query and rule, a recommendation, a roll-out's reason and who reverted it: 33 texts of
    4,096; eight messages of 32,768; four levels in quarantine of 4,096 each: 413,696 characters, and 20,000 for names
    and times.  etcd takes 1.5 MiB.
    """
    scene, status, endless = Scene().soaking(), SpecPolicyStatus(), "x" * 100_000
    state = scene.remembered.state
    failures = tuple(FailedChange(name, "key", endless) for name in ("k5", "k3", "ngram", "disabled"))
    assert scene.remembered.rollout is not None
    rollout = replace(scene.remembered.rollout, reason=endless)
    remembered = Remembered(replace(state, quarantine=failures), rollout, 1, None, "k3", "k5", endless)
    faults = (Fault("DraftsNothing", endless, endless),)
    for place in range(30):
        decision = Decision(ActionName.SWITCH_TO, "k3", f"{place} {endless}", endless[:4096], faults=faults)
        turn = Turn(remembered, decision, "k5", words=endless, rollout=rollout)
        metrics = MetricsReport((ConditionReason.SOURCE_FAILED, endless), query=endless)
        status = sent(report(scene, turn, status, metrics))
    assert [one.reason[:2] for one in status.decisions] == [str(place) for place in range(20, 30)]
    assert len(status.model_dump_json(by_alias=True, exclude_none=True)) < 33 * 4096 + 9 * 32_768 + 4 * 4096 + 20_000


class TestWhereNothingCanBeDecided:
    """The spec is wrong, the target is gone, or another policy's."""

    def test_what_is_missing_is_said_and_what_is_known_stays(self) -> None:
        """Levels, acceptance and decisions of before."""
        scene = Scene()
        scene.low()
        before = sent(report(scene, scene.turn()))
        blind = Blind(ConditionReason.TARGET_NOT_FOUND, "there is no Deployment llama in namespace llm")
        status = blind_status(before, blind, scene.remembered, 2, scene.now)
        assert said(status, "TargetResolved") == ("False", "TargetNotFound")
        assert said(status, "Ready") == ("False", "NotReady")
        assert condition(status, "Ready").message == "there is no Deployment llama in namespace llm"
        assert (status.levels, status.decisions) == (before.levels, before.decisions)
        assert status.observed_generation == 2

    def test_a_roll_out_that_is_given_up_is_no_progress_any_more(self) -> None:
        """It was under way, and is not remembered."""
        scene = Scene().soaking()
        before = sent(report(scene, scene.turns[-1]))
        assert said(before, "Progressing") == ("True", "Soaking")
        blind = Blind(ConditionReason.TARGET_NOT_FOUND, "there is no Deployment llama in namespace llm")
        forgotten = replace(scene.remembered, rollout=None, canary_pods=None)
        status = blind_status(before, blind, forgotten, 1, scene.now)
        assert said(status, "Progressing") == ("False", "Cancelled")
        assert condition(status, "Progressing").message == f"k3 is given up: {blind.message}"

    def test_a_conflict_is_one_only_while_there_is_one(self) -> None:
        """Whatever else is wrong says that there is none."""
        conflict = Blind(ConditionReason.OLDER_POLICY, "policy old is older")
        first = blind_status(SpecPolicyStatus(), conflict, Remembered(), 1, 0.0)
        assert said(first, "Conflicted") == ("True", "OlderPolicy")
        wrong = Blind(ConditionReason.INVALID_SPEC, "spec.levels: no level is called k9")
        second = blind_status(first, wrong, Remembered(), 1, 60.0)
        assert said(second, "Conflicted") == ("False", "OnlyPolicy")
        assert said(second, "Ready") == ("False", "InvalidSpec")

    def test_it_is_written_once(self) -> None:
        """The same again is the same status."""
        blind = Blind(ConditionReason.INVALID_SPEC, "spec.levels: no level is called k9")
        first = sent(blind_status(SpecPolicyStatus(), blind, Remembered(), 1, 0.0))
        assert blind_status(first, blind, Remembered(), 1, 60.0) == first


def test_phases_are_told_while_they_last() -> None:
    """Every phase has its reason, and every end."""
    assert set(PHASES) == set(Phase)
    assert set(ENDINGS) == set(Ending)
