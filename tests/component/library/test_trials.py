"""Each ready-made policy does what its comment says, and does better than the same policy without it.

Better means better at all: both meet the same arrivals with the same luck, so that differences are the policy's doing.
Requests that come when they come are judged by their mean duration, clients that wait by tokens a second.
"""

from datetime import UTC, datetime
from typing import Any

import pytest

from specloop_policy.decision import Inputs
from specloop_sim.contest import score
from specloop_sim.simulate import Outcome
from tests.component.library.trials import TRIALS, Trial, moves, only_levels, only_telling

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

FULL_BATCHES = 768
"""Clients that keep three replicas at vLLM's 256 requests at once."""


def better(one: Outcome, other: Outcome, *, closed_loop: bool = False) -> bool:
    """Whether a contestant did better, in the sense of `best-in-hindsight`; both have answered the same requests."""
    return score(one, closed_loop=closed_loop) < score(other, closed_loop=closed_loop)


def acceptance_before(outcome: Outcome, seconds: float) -> float:
    """Acceptance in the last round of windows before this time."""
    seen = [one.acceptance for one in outcome.looks if one.at <= seconds and one.acceptance is not None]
    return seen[-1].value


def test_acceptance_ladder_goes_down_below_40_percent_with_a_stale_drafter() -> None:
    trial = Trial.on("acceptance-ladder")
    ours = trial.run("acceptance-ladder")
    assert moves(ours) == [("StepDown", "k3", "acceptance-low")]
    (down,) = ours.decisions
    assert down.seconds > 1800.0  # when the drafter goes stale
    assert acceptance_before(ours, down.seconds) < 0.40
    # There it stays, although still below 40 %: it is known to pay, and of n-gram lookup nothing is known.
    assert acceptance_before(ours, ours.seconds) < 0.40
    assert better(ours, trial.run("acceptance-ladder", only_telling("acceptance-low", "does-not-pay")))


def test_acceptance_ladder_walks_on_where_nobody_knows_step_times() -> None:
    trial = Trial.on("acceptance-ladder")
    blind = trial.run("acceptance-ladder", known=Inputs())
    assert moves(blind)[:2] == [("StepDown", "k3", "acceptance-low"), ("StepDown", "ngram", "acceptance-low")]


def test_acceptance_ladder_does_not_leave_n_gram_lookup_for_its_acceptance() -> None:
    """Lookup drafts little of hot talk, and less than 40 % of that is accepted; it gains all the same."""
    outcome = Trial.on("hot").run("acceptance-ladder", level="ngram")
    assert acceptance_before(outcome, 3600.0) < 0.40
    assert moves(outcome) == []


def test_temperature_guard_drafts_2_tokens_while_it_is_hot_and_5_again_once_it_is_cool() -> None:
    trial = Trial.on("temperature-guard")
    ours = trial.run("temperature-guard")
    assert moves(ours) == [("SwitchTo", "k2", "hot-traffic"), ("StepUp", "k5", "cool-again")]
    hot, cool = (one.seconds for one in ours.decisions)
    assert 1800.0 < hot < 9000.0 < cool  # hot from half an hour to two hours and a half
    assert acceptance_before(ours, cool) > 0.55
    assert better(ours, trial.run("temperature-guard", only_telling("hot-traffic")))


def test_structured_output_is_faster_with_5_to_6_tokens_than_with_3() -> None:
    trial = Trial.on("structured")
    ours = trial.run("structured-output")
    assert moves(ours) == []
    assert acceptance_before(ours, 3600.0) > 0.75
    assert better(ours, trial.run("structured-output", only_levels("k3", "disabled")))


def test_structured_output_does_not_stop_drafting_prose_where_step_times_are_unknown() -> None:
    """Prose accepts less than 50 % of 3 tokens too, so that no rule but the one for long drafts may ask for it."""
    outcome = Trial.on("structured-output", blind=True).run("structured-output")
    assert moves(outcome)[0] == ("SwitchTo", "k3", "not-structured")
    assert acceptance_before(outcome, 9000.0) < 0.50
    assert [move for move in moves(outcome) if move[1] == "disabled"] == []


def test_structured_output_drafts_3_tokens_while_the_traffic_is_prose() -> None:
    trial = Trial.on("structured-output")
    ours = trial.run("structured-output")
    assert moves(ours) == [("SwitchTo", "k3", "not-structured"), ("StepUp", "k6", "structured")]
    prose, structured = (one.seconds for one in ours.decisions)
    assert 1800.0 < prose < 9000.0 < structured  # prose from half an hour to two hours and a half
    assert acceptance_before(ours, prose) < 0.50
    assert acceptance_before(ours, structured) > 0.75
    assert better(ours, trial.run("structured-output", only_telling("not-structured")))


def test_prose_is_faster_with_3_to_4_tokens_than_with_5_to_6() -> None:
    """The policy without short drafts has the same two levels, two tokens longer each."""

    def longer(spec: dict[str, Any]) -> None:
        for level in spec["levels"]:
            if "tokens" in level:
                level["tokens"] += 2

    trial = Trial.on("prose")
    ours = trial.run("prose")
    assert moves(ours) == [("StepDown", "k3", "acceptance-low")]
    assert acceptance_before(ours, ours.decisions[0].seconds) < 0.40
    assert acceptance_before(ours, 3600.0) < 0.50
    assert better(ours, trial.run("prose", longer))


def test_n_gram_lookup_is_faster_on_summaries_than_nothing() -> None:
    trial = Trial.on("summaries")
    ours = trial.run("ngram-summaries")
    assert moves(ours) == []
    assert better(ours, trial.run("ngram-summaries", only_levels("disabled")))


def test_n_gram_lookup_is_switched_off_where_full_batches_make_it_slow() -> None:
    trial = Trial.on("ngram-summaries", concurrency=FULL_BATCHES)
    ours = trial.run("ngram-summaries")
    assert moves(ours)[0] == ("Disable", "disabled", "does-not-pay")
    assert moves(ours)[1] == ("Probe", "ngram", "probe")
    off, again = ours.decisions[:2]
    assert again.seconds >= off.seconds + 3600.0  # an hour later
    assert better(ours, trial.run("ngram-summaries", only_telling("does-not-pay")), closed_loop=True)


def test_memory_saver_leaves_a_large_draft_model_when_the_kv_cache_is_full_and_requests_stop_waiting() -> None:
    trial = Trial.on("memory-saver", profile=str(TRIALS / "large-draft-profile.yaml"))
    ours = trial.run("memory-saver")
    without = trial.run("memory-saver", only_telling("kv-cache-full"))
    assert moves(ours) == [("SwitchTo", "ngram", "kv-cache-full")]
    assert ours.decisions[0].seconds > 1800.0  # when more requests come
    assert better(ours, without)
    assert at_the_end(ours) < UNSPECULATED_SECONDS < at_the_end(without)


UNSPECULATED_SECONDS = 17.0
"""600 tokens, one a step, while the KV cache is full: 15.8 ms + 28 requests x 46 us + 476,529 tokens x 24.5 ns = 29 ms
a step by the profile's lines.  A request that speculation makes longer than that has waited."""


def at_the_end(outcome: Outcome) -> float:
    """Mean duration of the requests that ended last."""
    return [one.mean_request_seconds for one in outcome.stretches if one.mean_request_seconds is not None][-1]


def test_memory_saver_keeps_a_draft_model_that_leaves_room() -> None:
    """The shipped profile's draft model is of 1B: the same traffic never fills the KV cache."""
    assert moves(Trial.on("memory-saver", seconds=4500.0).run("memory-saver")) == []


def test_nightly_batch_stops_drafting_at_22_hours_of_its_time_zone() -> None:
    def without_schedule(spec: dict[str, Any]) -> None:
        del spec["schedules"]

    trial = Trial.on("nightly-batch", concurrency=FULL_BATCHES)
    assert datetime.fromtimestamp(trial.scene.setup.epoch, UTC).hour == 21  # 22:00 in Berlin in winter
    ours = trial.run("nightly-batch")
    assert moves(ours) == [("Disable", "disabled", "night")]
    assert ours.decisions[0].seconds == 15.0  # the first look
    assert better(ours, trial.run("nightly-batch", without_schedule), closed_loop=True)


def test_nightly_batch_goes_back_at_6_hours_to_where_it_was() -> None:
    """From half past five in Berlin: the night is on at the first look, and over half an hour after the start."""
    outcome = Trial.on("steady", start=datetime(2026, 1, 6, 4, 30, tzinfo=UTC)).run("nightly-batch")
    assert moves(outcome)[:2] == [("Disable", "disabled", "night"), ("SwitchTo", "k5", None)]
    assert outcome.decisions[1].seconds == 1800.0
