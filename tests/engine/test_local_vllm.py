"""`specloop local` round a real vLLM with the plugin: K live, another drafter and none by a restart, and back."""

from pathlib import Path

import httpx
import pytest

from specloop_engine.reader import read_sample
from tests.engine.conftest import HERE, Traffic
from tests.support.local_loop import Local
from tests.support.real_vllm import READY_SECONDS, command, drafts, environment, vllm_python

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(900)]

PLUGIN = ("--middleware", "specloop_vllm.Middleware", "--scheduler-cls", "specloop_vllm.LiveScheduler")


WORDS = ("a", "b", "c", "d", "e", "f", "g", "h", "the", "cat", "dog", "sun")


def story(client: int, turn: int) -> str:
    """One of the prompts on which acceptance was measured for the policy's limit."""
    return f"{WORDS[(client + turn) % len(WORDS)]} once upon a time {turn % 24}"


class Completions(Traffic):
    """Requests as vLLM takes them, each run to its full length."""

    def request(self, prompt: str, tokens: int) -> tuple[str, object]:
        """Path and body of one request."""
        own = {"max_tokens": tokens, "temperature": self.temperature, "ignore_eos": True}
        return "/v1/completions", {"model": "target", "prompt": prompt, **own}


def said(local: Local, words: str) -> bool:
    """Whether it has said this."""
    return any(words in line for line in local.lines if line.startswith("specloop "))


def drafted(local: Local) -> tuple[float, float]:
    """Drafts and draft tokens, as the engine's own page has them; none while it is away, or without a drafter."""
    try:
        drafting = read_sample(httpx.get(f"{local.url}/metrics", timeout=5.0).text, 0.0).drafting
    except httpx.HTTPError:
        return 0.0, 0.0
    return (0.0, 0.0) if drafting is None else (drafting.drafts or 0.0, drafting.draft_tokens or 0.0)


def test_k_goes_down_live_and_the_drafter_goes_and_comes_back_by_restarts(tmp_path: Path) -> None:
    """Above temperature 0 this build accepts next to nothing, from 0 to 8 %, so what leads away from the drafter is its
    acceptance, or the traffic's temperature where that is sure first."""
    line = command(vllm_python(), 0, [*PLUGIN, *drafts(5, [[1, 32, 5]])])
    place = line.index("--port")
    own = [*line[:place], *line[place + 2 :]]
    with (
        Local(
            own,
            policy=HERE / "local-vllm-policy.yaml",
            environment=environment(tmp_path),
            ready_seconds=READY_SECONDS,
        ) as local,
        Completions(local.url, 0.0, prompt=story, seconds=800, tokens=60) as traffic,
    ):
        local.wait_for_level("k3", 60)
        local.wait_until(lambda: said(local, "k3 is reached live: no restart"), 10, "how")
        traffic.temperature = 2.0
        traffic.wait_for(1)  # the page counts the last steps at K = 5 when they are over
        before = drafted(local)
        traffic.wait_for(4)
        drafts_made, tokens = (later - earlier for earlier, later in zip(before, drafted(local), strict=True))
        assert tokens == 3.0 * drafts_made > 0.0
        local.wait_for_level("ngram", 120)
        traffic.temperature = 0.0
        with Completions(local.url, 0.0, prompt=story, clients=8, seconds=200, tokens=60):
            local.wait_for_level("disabled", 200)
        local.wait_for_level("ngram", 240)
        local.wait_until(lambda: drafted(local)[0] > 0.0, READY_SECONDS, "drafts of n-gram lookup")
    assert [(before, after) for _, before, after in local.changes][:3] == [
        ("k5", "k3"),
        ("k3", "ngram"),
        ("ngram", "disabled"),
    ]
