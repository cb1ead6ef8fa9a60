"""Whole roll-outs of a little workload, whatever happens on the way."""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specloop_policy.canary import Ending, Kind, Phase, Step
from specloop_policy.gate import Result
from tests.unit.rollout_workload.workload import (
    NEW,
    OLD,
    OTHER,
    Chance,
    Drive,
    Fate,
    Mishap,
    Moment,
    StatefulSet,
    Workload,
    break_the_new,
    call_off,
    change_the_image,
    delete_the_target,
    kill_a_pod,
    scale_down,
    scale_up,
    set_another,
    undo,
)

OURS = (break_the_new, call_off, change_the_image, kill_a_pod)
"""What leaves the level to us, and the number of pods as it is."""
SCALING = (scale_up, scale_down)
THEIRS = (undo, set_another)
"""Somebody else sets the level."""

FORWARD = (Phase.STARTING, Phase.CANARY, Phase.SOAKING, Phase.PROMOTING)
JUDGED = (Kind.RULE, Kind.FORCED, Kind.PROBE)
"""The kinds that begin with a canary."""


@dataclass(frozen=True)
class Scene:
    """A workload, what becomes of it, and what happens to it."""

    drive: Drive
    chances: Mapping[Moment, Chance]


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """A Deployment that makes its first wave on top or in the place of others, or a StatefulSet."""
    replicas = draw(st.integers(1, 4))
    fates = {NEW: draw(st.sampled_from([Fate.READY, *Fate]))}
    if draw(st.booleans()):
        return StatefulSet(replicas, fates=fates)
    surge = draw(st.integers(1, replicas))
    return Workload(replicas, surge=surge, unavailable=draw(st.booleans()), fates=fates)


@st.composite
def scenes(draw: st.DrawFn, happening: tuple[Chance, ...], kinds: tuple[Kind, ...] = tuple(Kind)) -> Scene:
    """Any roll-out, and up to three things that happen while it is under way; a probe is called off in the end."""
    drive = Drive(draw(workloads()), draw(st.sampled_from(kinds)), draw(st.sampled_from(Result)))
    moments = st.tuples(st.sampled_from(Phase), st.integers(0, 8))
    chances = draw(st.dictionaries(moments, st.sampled_from(happening), max_size=3))
    if drive.kind is Kind.PROBE:
        chances[Phase.SOAKING, 60] = call_off
    return Scene(drive, chances)


def levels(drive: Drive) -> set[str]:
    """Levels of its pods."""
    return {pod.level for pod in drive.workload.pods}


@given(scenes((*OURS, *SCALING, *THEIRS, delete_the_target)))
def test_every_roll_out_ends_and_holds_nothing(scene: Scene) -> None:
    """Whatever happens, within ten deadlines, and without an event that the table does not know."""
    drive = scene.drive.run(scene.chances)
    assert not drive.workload.held or drive.workload.gone


@given(scenes((*OURS, *SCALING, *THEIRS, delete_the_target)))
def test_it_is_promoted_only_when_all_pods_are_new_and_ready(scene: Scene) -> None:
    """Those that were scaled up meanwhile too."""
    drive = scene.drive.run(scene.chances)
    if drive.ending is Ending.PROMOTED:
        assert levels(drive) == {NEW}
        assert len(drive.workload.pods) >= drive.workload.replicas
        assert all(pod.ready_since is not None for pod in drive.workload.pods)


@given(scenes((*OURS, *SCALING), JUDGED))
def test_any_other_end_has_the_old_template_back(scene: Scene) -> None:
    """And no pod at the new level, unless the way back was not done in time."""
    drive = scene.drive.run(scene.chances)
    if drive.ending is not Ending.PROMOTED:
        assert drive.workload.template == OLD
        assert drive.ending is Ending.ABANDONED or levels(drive) == {OLD}


@given(scenes((*OURS, *SCALING), JUDGED))
def test_each_template_is_written_once_and_the_new_one_never_after_the_old_one(scene: Scene) -> None:
    """No going back and forth."""
    drive = scene.drive.run(scene.chances)
    assert drive.workload.writes in ([NEW], [NEW, OLD], [OLD])


@given(scenes((break_the_new, call_off, change_the_image), JUDGED))
def test_no_more_than_the_first_wave_is_new_before_the_gate_is_passed(scene: Scene) -> None:
    """One pod of a StatefulSet.  A Deployment gives those that scale up or replace an unready one on top."""
    drive = scene.drive.run(scene.chances)
    wave = 1 if isinstance(drive.workload, StatefulSet) else drive.workload.surge
    assert drive.most_new_before_the_gate <= wave


@given(scenes((break_the_new, call_off), JUDGED))
def test_a_canary_that_is_taken_back_leaves_the_others_as_they_were(scene: Scene) -> None:
    """The same pods, though one of them made room for it where pods are not made on top."""
    before = [pod.name for pod in scene.drive.workload.pods]
    drive = scene.drive.run(scene.chances)
    workload = drive.workload
    if drive.ending is not Ending.PROMOTED and Step.RELEASE not in drive.steps:
        made_room = 1 if isinstance(workload, StatefulSet) else workload.surge if workload.unavailable else 0
        kept = [name for name in before if name in [pod.name for pod in workload.pods]]
        assert len(kept) >= len(before) - made_room


@given(scenes(OURS, JUDGED), st.sampled_from(FORWARD), st.integers(0, 5))
def test_one_that_is_called_off_ends_rolled_back(scene: Scene, phase: Phase, look: int) -> None:
    """At whatever look of whatever phase; one that was on its way back already goes on there."""
    drive = scene.drive.run({**scene.chances, (phase, look): call_off})
    if drive.called_off:
        assert drive.ending is not Ending.PROMOTED
        assert drive.workload.template == OLD


@given(scenes((*OURS, *SCALING)), st.lists(st.sampled_from([None, *Mishap]), max_size=40))
def test_who_is_killed_or_does_things_twice_comes_to_the_same_end(scene: Scene, mishaps: list[Mishap | None]) -> None:
    """Killed three times at most: each time costs a look, and deadlines are deadlines."""
    killed = [place for place, one in enumerate(mishaps) if one is Mishap.KILLED][:3]
    mishaps = [one if one is not Mishap.KILLED or place in killed else None for place, one in enumerate(mishaps)]
    undisturbed, disturbed = again(scene), again(scene)
    undisturbed.run(scene.chances)
    disturbed.run({moment: scene.chances[moment] for moment in undisturbed.happened}, mishaps)
    assert disturbed.ending is undisturbed.ending
    assert disturbed.workload.template == undisturbed.workload.template
    assert disturbed.workload.held == undisturbed.workload.held
    assert levels(disturbed) == levels(undisturbed)


def again(scene: Scene) -> Drive:
    """The same roll-out of a workload like it, from the beginning."""
    like = scene.drive.workload
    same = type(like)(like.replicas, surge=like.surge, unavailable=like.unavailable, fates=like.fates)
    return Drive(same, scene.drive.kind, scene.drive.gate)


@given(scenes((*OURS, *SCALING)), st.sampled_from(FORWARD), st.integers(0, 4), st.sampled_from(THEIRS))
def test_what_somebody_else_sets_is_left_as_it_is(scene: Scene, phase: Phase, look: int, theirs: Chance) -> None:
    """Once the new level was written, another one there is their word: nothing is written after it."""
    drive = scene.drive.run({**scene.chances, (phase, look): theirs})
    if drive.ending is Ending.UNDONE:
        assert drive.workload.template in (OLD, OTHER)
        assert OLD not in drive.workload.writes


@given(scenes((*OURS, *SCALING, *THEIRS), (Kind.RETREAT,)))
def test_a_retreat_never_goes_back_to_the_level_that_does_harm(scene: Scene) -> None:
    """Called off, changed or failing: it goes on, or is left where it is."""
    drive = scene.drive.run(scene.chances)
    assert OLD not in drive.workload.writes
    assert Step.PUT_BACK not in drive.steps
    assert drive.ending in (Ending.PROMOTED, Ending.UNDONE, Ending.ABANDONED)


@given(scenes((call_off, change_the_image, kill_a_pod), (Kind.RETREAT,)))
def test_a_retreat_whose_pods_become_ready_is_done_though_it_is_called_off(scene: Scene) -> None:
    """A suspension in the middle would leave some pods at the level that does harm."""
    if scene.drive.workload.fates[NEW] is Fate.READY:
        assert scene.drive.run(scene.chances).ending is Ending.PROMOTED


def test_a_retreat_is_not_kept_by_a_broken_pod_of_the_level_that_it_leaves() -> None:
    """A StatefulSet waits for all pods to be ready before it replaces the next one; this one hangs."""
    stateful = StatefulSet(3, fates={OLD: Fate.HANGS})
    stateful.pods[0].ready_since = None
    drive = Drive(stateful, Kind.RETREAT)
    assert drive.run().ending is Ending.PROMOTED


@pytest.mark.parametrize("workload", [Workload(3), Workload(1), StatefulSet(3), StatefulSet(1)], ids=repr)
class TestAPlainRollOut:
    """Nothing happens but what was meant to."""

    def test_goes_through_its_phases_in_order(self, workload: Workload) -> None:
        """With one step where one is to be taken."""
        drive = Drive(workload).run()
        assert list(dict.fromkeys(one.rollout.phase for one in drive.plans)) == list(FORWARD)
        first = [Step.WRITE] if workload.ordered else [Step.WRITE, Step.HOLD]
        assert drive.steps == [*first, Step.RELEASE]


@pytest.mark.parametrize("make", [Workload, StatefulSet])
@pytest.mark.parametrize(
    ("fate", "gate", "ending", "words"),
    [
        (Fate.READY, Result.PASS, Ending.PROMOTED, "all 3 replicas serve at k3: the gate says pass"),
        (Fate.READY, Result.FAIL, Ending.FAILED, "the gate says fail"),
        (Fate.READY, Result.INCONCLUSIVE, Ending.LOST, "no verdict within 600 s of soaking"),
        (Fate.CRASHES, Result.PASS, Ending.FAILED, "fails: its container ended 3 times"),
        (Fate.HANGS, Result.PASS, Ending.FAILED, "no progress within 600 s: 0 pods are ready at k3"),
        (Fate.PENDING, Result.PASS, Ending.LOST, "could not be scheduled within 600 s: 0/3 nodes are available: 3 Ins"),
    ],
)
def test_each_end_says_why(make: type[Workload], fate: Fate, gate: Result, ending: Ending, words: str) -> None:
    """In the words of whatever decided it."""
    drive = Drive(make(3, fates={NEW: fate}), gate=gate).run()
    assert drive.ending is ending
    assert words in drive.plans[-1].words


@pytest.mark.parametrize("phase", FORWARD)
@pytest.mark.parametrize(
    ("chance", "ending", "words"),
    [
        (call_off, Ending.CANCELLED, "the policy is suspended"),
        (change_the_image, Ending.CANCELLED, "the target's pod template was changed meanwhile"),
        (delete_the_target, Ending.GONE, "the target is gone"),
    ],
)
def test_what_ends_a_roll_out_from_outside_does_so_in_every_phase(
    phase: Phase, chance: Chance, ending: Ending, words: str
) -> None:
    """Each has its own end."""
    drive = Drive(Workload(3)).run({(phase, 0): chance})
    assert drive.ending is ending
    assert words in drive.plans[-1].words


@pytest.mark.parametrize("phase", [Phase.CANARY, Phase.SOAKING, Phase.PROMOTING])
@pytest.mark.parametrize(("theirs", "level"), [(undo, OLD), (set_another, OTHER)])
def test_an_undo_is_let_go_of_at_once(phase: Phase, theirs: Chance, level: str) -> None:
    """And the workload is not left paused."""
    drive = Drive(Workload(3)).run({(phase, 0): theirs})
    assert drive.ending is Ending.UNDONE
    assert (drive.workload.template, drive.workload.held) == (level, False)
    assert f"somebody else set {level} while k3 was rolled out" in drive.plans[-1].words


def test_a_pod_that_becomes_ready_is_progress() -> None:
    """Twelve pods one after the other, 45 s each, take longer than the deadline of 600 s after the first; it is met."""
    drive = Drive(Workload(16)).run()
    assert drive.ending is Ending.PROMOTED
    promoting = [one for one in drive.plans if one.rollout.phase is Phase.PROMOTING]
    assert 15.0 * len(promoting) > 600.0


def test_only_pods_that_are_not_ready_are_deleted_on_the_way_back() -> None:
    """A StatefulSet of four whose new pods crash after two were promoted: the one in the way alone."""
    drive = Drive(StatefulSet(4)).run({(Phase.PROMOTING, 5): break_the_new})
    assert drive.ending is Ending.FAILED
    assert levels(drive) == {OLD}
