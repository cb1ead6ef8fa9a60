"""A profile whose steps were measured: read between its rows, never beyond."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from specloop_policy.cost import MeasuredStepTimes
from specloop_policy.ladder import DISABLED, Drafter, Level, Method
from specloop_sim.engine import EngineModel
from specloop_sim.profile import DraftMemory, Profile, UnknownProfile, profile_named
from specloop_sim.request import Request

HEAD = Drafter("head", Method.EAGLE, "draft")
LOOKUP = Drafter("lookup", Method.NGRAM, lookup_min=2, lookup_max=4)
TABLE = MeasuredStepTimes(
    Method.EAGLE,
    ((1.0, 0, 0.010), (1.0, 3, 0.016), (9.0, 0, 0.018), (9.0, 3, 0.040)),
)


def profile(times: MeasuredStepTimes = TABLE, most: int = 9, prompt: float | None = 1e-5) -> Profile:
    """One H100 with these steps."""
    return replace(
        profile_named("h100-llama-3.1-8b"),
        name="measured",
        times=times,
        drafters=((Method.EAGLE, DraftMemory(0.0, 0.0)),),
        max_num_seqs=most,
        prompt_seconds_per_token=prompt,
    )


def eagle(tokens: int) -> Level:
    """EAGLE at this K."""
    return Level(f"k{tokens}", HEAD, tokens)


def rows(decoding: float, tokens: float) -> NDArray[np.float64]:
    """One step with so many requests that decode and tokens that are computed."""
    return np.array([[1000.0], [decoding], [tokens], [0.0]])


@pytest.mark.parametrize(
    ("level", "decoding", "seconds"),
    [
        (DISABLED, 1.0, 0.010),
        (DISABLED, 5.0, 0.014),  # half way from 10 to 18 ms
        (eagle(3), 9.0, 0.040),
        (eagle(3), 3.0, 0.022),  # a quarter of the way from 16 to 40 ms
        (eagle(1), 1.0, 0.012),  # a third of the way from K=0 to K=3, 10 to 16 ms
        (eagle(0), 1.0, 0.010),  # what the table says of K=0
    ],
)
def test_a_step_lies_between_its_neighbours_in_the_table(level: Level, decoding: float, seconds: float) -> None:
    computed = decoding * (level.tokens + 1)
    assert profile().timer(level).seconds(rows(decoding, computed))[0] == pytest.approx(seconds)


def test_prompts_cost_what_the_profile_says() -> None:
    """200 prompt tokens of 10 µs beside three requests at K=3: 22 + 2 ms; without any that decode: 16 + 2 ms."""
    timer = profile().timer(eagle(3))
    assert timer.seconds(rows(3.0, 3.0 * 4.0 + 200.0))[0] == pytest.approx(0.024)
    assert timer.seconds(rows(0.0, 200.0))[0] == pytest.approx(0.018)


def test_beyond_the_largest_batch_nothing_is_known() -> None:
    with pytest.raises(UnknownProfile, match="10 requests decode at once; measured up to 9"):
        profile().timer(DISABLED).seconds(rows(10.0, 10.0))


def test_beyond_the_largest_k_nothing_is_known() -> None:
    with pytest.raises(UnknownProfile, match="do not reach K = 4"):
        profile().timer(eagle(4))


def test_another_drafter_than_the_measured_one_is_unknown() -> None:
    assert profile().methods() == (Method.EAGLE,)
    for drafter in (LOOKUP, Drafter("other", Method.EAGLE3, "draft")):
        with pytest.raises(UnknownProfile, match="it has for eagle"):
            profile().timer(Level("other", drafter, 3))


def test_a_profile_with_more_places_than_were_measured_is_refused() -> None:
    with pytest.raises(UnknownProfile, match="max_num_seqs is 10; set it to 9 at most"):
        profile(most=10)


def test_a_profile_with_measured_steps_says_what_prompts_cost() -> None:
    with pytest.raises(UnknownProfile, match="say prompt_seconds_per_token"):
        profile(prompt=None)


def test_measured_steps_of_a_lookup_are_refused() -> None:
    with pytest.raises(UnknownProfile, match="lookups draft in some steps only"):
        profile(MeasuredStepTimes(Method.NGRAM, TABLE.rows))


def test_the_engine_model_runs_on_measured_steps() -> None:
    """A prompt of 100 tokens takes a step of 10 + 1 ms and yields the first token; ten more take 10 ms each."""
    engine = EngineModel(profile())
    engine.submit(Request("r", 0.0, 100, 11))
    engine.advance(10.0)
    (done,) = engine.finished()
    assert done.first_token == pytest.approx(0.011)
    assert done.end == pytest.approx(0.111)
