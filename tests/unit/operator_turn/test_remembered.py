"""What is remembered of a policy comes back from its status as it was."""

from dataclasses import fields, replace

from hypothesis import given
from hypothesis import strategies as st

from specloop_operator.remembered import Remembered, recall, store
from specloop_policy.canary import Ending, Kind, Phase, Rollout
from specloop_policy.decision import FailedChange, Forced, PolicyState, Probe, Trial
from specloop_policy.report import Report
from specloop_policy.rollout_status import RolloutMemory, WatchMemory
from specloop_policy.status import Memory
from specloop_policy.watch import Watch

names = st.text("abkx019", min_size=1, max_size=8)
hashes = st.text("0123456789abcdef", max_size=16)
words = st.text(max_size=40)
times = st.integers(0, 4_000_000_000_000_000).map(lambda microseconds: microseconds / 1_000_000)
"""Seconds since the epoch, as a clock gives them: whole microseconds, until the year 2096."""
shares = st.integers(0, 100).map(lambda percent: percent / 100.0)
"""Shares are whole percent in a status."""

states = st.builds(
    PolicyState,
    level=st.none() | names,
    changed_at=st.none() | times,
    raised_at=st.none() | times,
    changes=st.lists(times, max_size=3).map(tuple),
    holds_since=st.lists(st.tuples(names, times), max_size=3).map(tuple),
    probe=st.none() | st.builds(Probe, names, times),
    forced=st.none() | st.builds(Forced, words, st.none() | names, st.booleans()),
    trials=st.lists(st.builds(Trial, names, st.integers(0, 20), times), max_size=3).map(tuple),
    quarantine=st.lists(
        st.builds(
            FailedChange, names, hashes, words, back_to=st.none(), until=st.none() | times, rules_only=st.booleans()
        ),
        max_size=3,
    ).map(tuple),
)
rollouts = st.builds(
    Rollout,
    level=names,
    back_to=names,
    kind=st.sampled_from(Kind),
    key=hashes,
    rest=hashes,
    started_at=times,
    phase=st.sampled_from(Phase),
    since=times,
    written=st.booleans(),
    ending=st.none() | st.sampled_from(Ending),
    reason=words,
    failed_share=shares,
).filter(lambda one: one.kind is not Kind.RETREAT or one.phase in (Phase.PROMOTING, Phase.ROLLING_BACK))
watches = st.builds(Watch, level=names, back_to=names, key=hashes, since=times, until=times, failed_share=shares)


@st.composite
def remembered(draw: st.DrawFn) -> Remembered:
    """Anything that may be remembered; the size of a canary with its roll-out alone."""
    rollout = draw(st.none() | rollouts)
    return Remembered(
        state=draw(states),
        rollout=rollout,
        canary_pods=None if rollout is None else draw(st.none() | st.integers(1, 1000)),
        watch=draw(st.none() | watches),
        written_level=draw(st.none() | names),
        previous_level=draw(st.none() | names),
        reverted=draw(words),
        rolled_back_at=draw(st.none() | times),
    )


def back(one: Remembered) -> Remembered:
    """Stored, sent to the API server, and read again."""
    return recall(Memory.model_validate_json(store(one).model_dump_json(by_alias=True, exclude_none=True)))


@given(remembered())
def test_it_comes_back_as_it_was(one: Remembered) -> None:
    """Every field of it."""
    assert back(one) == one


def test_at_the_first_visit_nothing_is_remembered() -> None:
    """A policy without a status."""
    assert recall(None) == Remembered()


def test_everything_that_is_remembered_has_a_place_in_the_status() -> None:
    """Field by field: one that is added to the value and not to the status would be lost with the process."""

    def written(model: type[Report], *others: str) -> set[str]:
        return set(model.model_fields) - set(others)

    own = {field.name for field in fields(Remembered)} - {"state", "canary_pods"}
    assert own <= set(Memory.model_fields)
    assert {field.name for field in fields(Rollout)} - {"failed_share"} == written(
        RolloutMemory, "canary_pods", "failed_share_percent"
    )
    assert {field.name for field in fields(Watch)} - {"failed_share"} == written(WatchMemory, "failed_share_percent")


@given(remembered(), st.floats(0.0, 1.0))
def test_a_share_is_rounded_up_once(one: Remembered, share: float) -> None:
    """To a whole percent, in favour of the level that is watched; stored again it stays."""
    watch = Watch("k3", "k5", "key", 0.0, 1.0, share)
    first = back(replace(one, watch=watch))
    assert first.watch is not None
    assert share <= first.watch.failed_share + 1e-9
    assert first.watch.failed_share < share + 0.01
    assert back(first) == first


def test_long_words_are_cut_to_what_the_status_holds() -> None:
    """4,096 characters each: a container's last words may be a whole log."""
    long = "x" * 10_000
    rollout = Rollout("k3", "k5", Kind.RULE, "key", "rest", 0.0, reason=long)
    state = PolicyState(quarantine=(FailedChange("k3", "key", long),))
    found = back(Remembered(state, rollout, reverted=long))
    assert found.rollout is not None
    assert [len(text) for text in (found.rollout.reason, found.reverted, found.state.quarantine[0].reason)] == [
        4096
    ] * 3
