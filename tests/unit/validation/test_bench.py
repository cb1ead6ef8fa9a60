"""The bench: a closed loop of the engine model comes out where arithmetic says."""

from itertools import pairwise

import pytest

from specloop_policy.cost import Line, LineStepTimes
from specloop_policy.ladder import DISABLED, Method
from specloop_sim.validation.bench import Traffic, closed_loop
from specloop_sim.validation.models import acceptance_of, level, profile_of, survival_of

TIMES = LineStepTimes(Line(0.0, 0.0, 0.010), drafts=((Method.EAGLE, Line(0.0, 0.0, 0.005)),))
PROFILE = profile_of("steps of 10 and 15 ms", TIMES, Method.EAGLE)


def test_without_speculation_each_client_gets_a_token_a_step() -> None:
    """Eight clients and steps of 10 ms: 800 tokens a second, prompts included, for theirs yield a token as well."""
    assert closed_loop(PROFILE, DISABLED, 8, Traffic(1, 200)).tokens_per_second == pytest.approx(800.0, rel=1e-3)


def test_with_speculation_tokens_per_step_over_seconds_per_step() -> None:
    """Survival .8, .5: 2.3 tokens in 15 ms; the step for the prompt yields one: one of 201/2.3 steps, .6 % less."""
    acceptance = acceptance_of("toy", Method.EAGLE, (0.8, 0.5))
    run = closed_loop(PROFILE, level(Method.EAGLE, 2), 4, Traffic(1, 200, acceptance=acceptance))
    assert run.acceptance_length == pytest.approx(2.3, rel=0.01)
    assert run.tokens_per_second == pytest.approx(4 * 2.3 / 0.015, rel=0.015)


def test_the_mean_context_is_that_of_the_steps() -> None:
    """Answers of 50 to 150 tokens: sum of n^2 over twice the sum of n, by counting."""
    lengths = range(50, 151)
    counted = sum(n * n for n in lengths) / (2 * sum(lengths))
    assert Traffic(10, 100).context_tokens() == pytest.approx(10 + counted, rel=0.01)


def test_answers_are_even_between_half_and_one_and_a_half_times_the_mean() -> None:
    lengths = sorted(Traffic(1, 1000).request(place).output_tokens for place in range(500))
    assert lengths[0] >= 500
    assert lengths[-1] <= 1500
    assert max(after - before for before, after in pairwise(lengths)) < 8
    assert sum(lengths) / 500 == pytest.approx(1000.0, rel=0.01)


@pytest.mark.parametrize(("drafter", "length"), [("EAGLE", 2.29), ("EAGLE-3", 2.79)])
def test_survival_gives_the_length_that_it_was_taken_from(drafter: str, length: float) -> None:
    """At K=3, vLLM issue 20780."""
    assert 1.0 + sum(survival_of(drafter)[:3]) == pytest.approx(length)
