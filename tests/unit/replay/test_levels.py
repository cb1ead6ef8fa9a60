"""Which level a sample is at: by its K, and by what somebody says where that leaves several."""

from dataclasses import replace

import pytest

from specloop_engine.sample import Dialect, Drafting, Sample
from specloop_policy.ladder import Ladder, Level
from specloop_policy.times import rfc3339
from specloop_sim.recordings.recorded import LevelUnclear, Named, first_tokens, level_reader
from tests.support.policies import DRAFTERS, policy_of
from tests.unit.replay.fleets import LOW, START, Fleet, replayed

TWO_OF_FOUR = policy_of(
    drafters=DRAFTERS,
    levels=[
        {"name": "k4", "drafter": "small", "tokens": 4},
        {"name": "k3", "drafter": "small", "tokens": 3},
        {"name": "ngram", "drafter": "lookup", "tokens": 4},
        {"name": "disabled"},
    ],
    rules=[LOW],
)
"""Two levels with K = 4."""

K4, K3, NGRAM, DISABLED = TWO_OF_FOUR.ladder.levels


def shows(tokens: int | None, at: float = START, dialect: Dialect | None = Dialect.VLLM_V1) -> Sample:
    """A sample that shows this K."""
    drafting = Drafting(0.0, 0.0, 0.0, (0.0,) * tokens) if tokens else None
    return Sample(at, dialect, drafting=drafting, tokens=tokens)


def test_a_k_that_one_level_has_is_that_level() -> None:
    level_of = level_reader(TWO_OF_FOUR.ladder, ())
    assert (level_of("a", shows(3)), level_of("a", shows(0))) == (K3, DISABLED)


def test_a_k_that_no_level_has_is_none_of_the_ladder() -> None:
    assert level_reader(TWO_OF_FOUR.ladder, ())("a", shows(7)) is None


def test_a_k_that_several_levels_have_asks_for_a_name() -> None:
    with pytest.raises(LevelUnclear) as caught:
        level_reader(TWO_OF_FOUR.ladder, ())("pod-7", shows(4))
    assert str(caught.value) == (
        "pod-7 shows K = 4 at 2027-01-15T08:00:00Z, which fits k4, ngram: say which one ran with --level NAME, "
        "or --level 2027-01-15T08:00:00Z=NAME from then on"
    )


def test_a_name_decides_between_levels_and_nothing_else() -> None:
    level_of = level_reader(TWO_OF_FOUR.ladder, [Named(NGRAM)])
    assert [level_of("a", shows(k)) for k in (4, 3, 0, 7)] == [NGRAM, K3, DISABLED, None]


def test_a_name_holds_from_its_time_on() -> None:
    """Given in any order."""
    level_of = level_reader(TWO_OF_FOUR.ladder, [Named(NGRAM, START + 60.0), Named(K4)])
    assert [level_of("a", shows(4, START + after)) for after in (0.0, 59.9, 60.0, 3600.0)] == [K4, K4, NGRAM, NGRAM]


def test_a_name_that_does_not_fit_is_no_answer() -> None:
    with pytest.raises(LevelUnclear, match="fits k4, ngram and not the level k3 that is named for then"):
        level_reader(TWO_OF_FOUR.ladder, [Named(K3)])("a", shows(4))


def test_an_engine_that_shows_no_k_asks_for_a_name() -> None:
    """V0 says nothing but its lifetime's acceptance."""
    sample = replace(shows(None, dialect=Dialect.VLLM_V0), drafting=Drafting(lifetime_rate=0.5))
    with pytest.raises(LevelUnclear, match=r"shows no K at .*, which fits k4, k3, ngram: say which one"):
        level_reader(TWO_OF_FOUR.ladder, ())("a", sample)
    assert level_reader(TWO_OF_FOUR.ladder, [Named(K3)])("a", sample) == K3


def test_a_page_without_an_engine_asks_for_nothing() -> None:
    assert level_reader(TWO_OF_FOUR.ladder, ())("a", Sample(START, None)) is None


def test_a_replay_stops_where_a_level_is_not_clear() -> None:
    recording = Fleet(K4, lambda seconds, level: 0.7).run(60.0).recording
    with pytest.raises(LevelUnclear, match="say which one ran"):
        replayed(recording, TWO_OF_FOUR)


@pytest.mark.parametrize(("named", "level"), [(K4, "k4"), (NGRAM, "ngram")])
def test_a_replay_is_about_the_level_that_was_named(named: Level, level: str) -> None:
    recording = Fleet(K4, lambda seconds, level: 0.7).run(600.0).recording
    found, _ = replayed(recording, TWO_OF_FOUR, named=[Named(named)])
    assert [one.level for one in found.stays] == [level]


def test_the_level_of_most_pods_is_the_fleets_and_a_tie_changes_nothing() -> None:
    """Three pods at k5 of which one goes to k3, then a second one: away from 1215 s, the scrape after, for 60 s."""
    ladder: Ladder = policy_of(rules=[LOW]).ladder
    fleet = Fleet(ladder.levels[0], lambda seconds, level: 0.7, pods=3).run(600.0)
    fleet.apply({"pod-0": ladder.levels[1]})
    fleet.run(600.0)
    fleet.apply({"pod-1": ladder.levels[1]})
    fleet.run(600.0)
    found, _ = replayed(fleet.recording, policy_of(rules=[LOW]))
    assert [one.level for one in found.stays] == ["k5", "k3"]
    assert found.stays[1].start == 1215.0 + 60.0


def test_the_first_k_above_zero_is_where_a_derived_ladder_begins() -> None:
    samples = [("a", shows(0)), ("a", Sample(START, None)), ("b", shows(5)), ("a", shows(3))]
    assert (first_tokens(samples), first_tokens(samples[:2]), first_tokens([])) == (5, 0, 0)


def test_times_are_written_as_dates_with_parts_of_a_second_only_where_there_are_any() -> None:
    assert rfc3339(START) == "2027-01-15T08:00:00Z"
    assert rfc3339(START + 0.25) == "2027-01-15T08:00:00.250Z"
