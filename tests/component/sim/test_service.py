"""What a page says of how a server serves, against the requests that were sent and the figures of the engine model."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from specloop_engine.service import service
from specloop_policy.cost import LineStepTimes, Load
from specloop_policy.ladder import DISABLED
from specloop_policy.observation import Service
from specloop_sim.profile import profile_named
from tests.component.sim.servers import DRAFT_K5, Server, serving

PROMPT = "Write a story about the rain in Spain..."
"""40 characters: ten tokens."""
PROMPT_TOKENS = 10
TOKENS = 100
SPEED = 500


def serve(server: Server, requests: int = 3, probes: int = 2) -> tuple[Service, list[int]]:
    """How a server served so many requests one after another and health probes between, and their statuses."""
    before = server.sample()
    asked = [TOKENS] * requests + [1] * probes
    statuses = [
        server.post({"prompt": PROMPT, "max_tokens": tokens, "ignore_eos": True}).status_code for tokens in asked
    ]
    found = service(before, server.sample())
    assert found is not None
    return found, statuses


def decode_seconds() -> float:
    """Of one answer alone on the engine: its steps have the prompt and 1, 2, ... 99 tokens for context."""
    times = profile_named("4xh100-llama-3.3-70b").times
    return sum(times.seconds(DISABLED, Load(1.0, PROMPT_TOKENS + i)) or 0.0 for i in range(1, TOKENS))


def first_token_seconds() -> float:
    """Of one request alone: a step that computes its prompt, whose target alone it takes."""
    times = profile_named("4xh100-llama-3.3-70b").times
    assert isinstance(times, LineStepTimes)
    return times.target.seconds(PROMPT_TOKENS, PROMPT_TOKENS) + times.overhead_seconds


@pytest.mark.parametrize("factor", [1.0, 1.1])
def test_times_are_the_engine_model_s_and_tokens_those_of_the_answers(factor: float) -> None:
    """Three answers of 100 tokens, 99 of them after the first; two probes, whose first tokens take time too."""
    with serving(speed=SPEED, faults=json.dumps({"disabled": {"stepFactor": factor}})) as server:
        found, _ = serve(server)
    assert found.decode_tokens == 3 * 99
    assert found.decode_seconds == pytest.approx(factor * 3 * decode_seconds(), abs=5 * 4.8e-7)
    assert found.first_tokens == 5
    # Moments are seconds since the epoch, exact to 2.4e-7 s, and each time is between two of them.
    assert found.first_token_seconds == pytest.approx(factor * 5 * first_token_seconds(), abs=5 * 4.8e-7)
    assert (found.finished_requests, found.output_tokens, found.length_requests) == (3.0, 300.0, 3.0)
    assert (found.failed_requests, found.preemptions) == (0.0, 0.0)


def test_requests_that_run_together_are_counted_once_each() -> None:
    def ask(number: int) -> int:
        answer = server.complete(prompt=PROMPT, max_tokens=2000, temperature=0, request_id=f"r{number}")
        return int(answer["usage"]["completion_tokens"])

    with serving(*DRAFT_K5, speed=SPEED) as server, ThreadPoolExecutor(8) as clients:
        before = server.sample()
        tokens = list(clients.map(ask, range(24)))
        found = service(before, server.sample())
    assert min(tokens) > 1
    assert found is not None
    assert (found.finished_requests, found.output_tokens) == (24.0, sum(tokens))
    assert found.decode_tokens == sum(tokens) - 24


def test_shortened_answers_show_in_their_length_and_their_ends() -> None:
    with serving(speed=SPEED, faults='{"*": {"outputFactor": 0.2}}') as server:
        found, _ = serve(server)
    assert (found.finished_requests, found.output_tokens) == (3.0, 3 * 20.0)
    assert found.length_requests == 0.0


def test_a_share_of_requests_fails_and_shows_as_responses_with_5xx() -> None:
    with serving(speed=SPEED, faults='{"*": {"errorShare": 0.5}}') as server:
        found, statuses = serve(server, requests=30, probes=0)
    failed = statuses.count(500)
    assert 0 < failed < 30
    assert set(statuses) == {200, 500}
    assert (found.failed_requests, found.finished_requests) == (failed, 30.0 - failed)


def test_a_gap_between_events_may_be_shorter_where_a_token_takes_longer() -> None:
    """Text of fixed form, of which K = 5 drafts most: a step of it takes longer than a plain one and yields several."""
    gaps, per_token = [], []
    for flags in (DRAFT_K5, ()):
        with serving(*flags, speed=SPEED) as server:
            before = server.sample()
            server.complete(prompt="Return the order as JSON", max_tokens=1000, ignore_eos=True, temperature=0)
            found, page = service(before, server.sample()), server.page()
        assert found is not None
        per_token.append((found.decode_seconds or 0.0) / (found.decode_tokens or 1.0))
        total, count = (
            float(re.findall(rf"^vllm:inter_token_latency_seconds_{end}\S* (\S+)$", page, re.MULTILINE)[0])
            for end in ("sum", "count")
        )
        gaps.append(total / count)
    assert gaps[1] < gaps[0]
    assert per_token[1] > per_token[0]
    assert gaps[1] == pytest.approx(per_token[1])  # an event is a token where nothing is drafted
