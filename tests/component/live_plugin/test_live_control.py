"""Live control over simulated servers that run the real plugin, over HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from specloop_control.live import LiveControl, Standing
from specloop_engine.sample import Drafting
from specloop_vllm.tables import constant
from tests.component.sim.servers import DRAFT_K5, MIDDLEWARE, Server, serving

TOKEN = "secret"
LIVE = (*MIDDLEWARE, "--scheduler-cls", "specloop_vllm.LiveAsyncScheduler")
K5_TABLE = (
    "--speculative-config",
    json.dumps(
        {
            "method": "draft_model",
            "model": "small",
            "num_speculative_tokens": 5,
            "num_speculative_tokens_per_batch_size": [[1, 256, 5]],
        }
    ),
)

pytestmark = pytest.mark.timeout(120)


def environment(folder: Path) -> dict[str, str]:
    """Of a server that may be controlled."""
    (folder / "token").write_text(TOKEN)
    return {"SPECLOOP_LIVE_FOLDER": str(folder / "live"), "SPECLOOP_LIVE_TOKEN_FILE": str(folder / "token")}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """One that drafts five tokens, ten times as fast as a real one."""
    with serving(*LIVE, *K5_TABLE, speed=10.0, **environment(tmp_path)) as found:
        yield found


@pytest.fixture
async def control() -> AsyncIterator[LiveControl]:
    async with httpx.AsyncClient(trust_env=False) as client:
        yield LiveControl(client, {"Authorization": f"Bearer {TOKEN}"})


def drafting(server: Server) -> Drafting:
    """The engine's own counters of drafts."""
    found = server.sample().drafting
    assert found is not None
    return found


async def ask(server: Server, **values: object) -> None:
    """One request, to its end."""
    await asyncio.to_thread(server.complete, model="tiny", prompt="x", max_tokens=100, **values)


async def test_an_idle_pod_takes_a_wish_and_has_it_in_force_at_its_next_request(
    control: LiveControl, server: Server
) -> None:
    first = await control.bring({"pod": server.url}, constant(2))
    assert (first["pod"].standing, first["pod"].asked) == (Standing.PENDING, True)
    again = await control.bring({"pod": server.url}, constant(2))
    assert (again["pod"].standing, again["pod"].asked) == (Standing.PENDING, False)
    await ask(server)
    assert (await control.bring({"pod": server.url}, constant(2)))["pod"].standing is Standing.APPLIED


async def test_positions_above_the_live_k_stop_counting(control: LiveControl, server: Server) -> None:
    """By the engine's own counters, not by what anybody says."""
    await ask(server)
    assert len(drafting(server).accepted_per_position) == 5
    await control.bring({"pod": server.url}, constant(2))
    await ask(server)
    before = drafting(server)
    await ask(server)
    after = drafting(server)
    moved = [
        later - earlier
        for earlier, later in zip(before.accepted_per_position, after.accepted_per_position, strict=True)
    ]
    assert moved[2:] == [0, 0, 0]
    assert moved[0] > 0
    await control.bring({"pod": server.url}, constant(0))
    await ask(server)
    off = drafting(server)
    await ask(server)
    assert drafting(server).draft_tokens == off.draft_tokens


async def test_more_than_the_start_up_maximum_is_clamped_and_said(control: LiveControl, server: Server) -> None:
    await control.bring({"pod": server.url}, constant(9))
    await ask(server)
    found = (await control.bring({"pod": server.url}, constant(9)))["pod"]
    assert (found.standing, found.reason) == (Standing.CLAMPED, "K = 5 is the most that it was started for")


async def test_each_pod_that_is_not_as_wanted_says_why(control: LiveControl, server: Server, tmp_path: Path) -> None:
    """A pod without a table, one without the plugin, one that is gone, and one that expects another token."""
    bare, other = tmp_path / "bare", tmp_path / "other"
    bare.mkdir()
    other.mkdir()
    expecting = {**environment(other)}
    (other / "token").write_text("another")
    with (
        serving(*LIVE, *DRAFT_K5, **environment(bare)) as no_table,
        serving(*K5_TABLE) as no_plugin,
        serving(*LIVE, *K5_TABLE, **expecting) as stranger,
    ):
        pods = {
            "good": server.url,
            "no table": no_table.url,
            "no plugin": no_plugin.url,
            "stranger": stranger.url,
            "gone": "http://127.0.0.1:1",
        }
        found = await control.bring(pods, constant(3))
    assert {name: one.standing for name, one in found.items()} == {
        "good": Standing.PENDING,
        "no table": Standing.REFUSED,
        "no plugin": Standing.REFUSED,
        "stranger": Standing.REFUSED,
        "gone": Standing.UNREACHABLE,
    }
    assert "num_speculative_tokens_per_batch_size" in found["no table"].reason
    assert "specloop inject" in found["no plugin"].reason
    assert found["stranger"].reason == "it expects another token"


async def test_a_pod_that_restarts_keeps_what_was_wanted(control: LiveControl, tmp_path: Path) -> None:
    """Its folder outlives its process."""
    own = environment(tmp_path)
    with serving(*LIVE, *K5_TABLE, **own) as first:
        await control.bring({"pod": first.url}, constant(3))
        await ask(first)
        assert (await control.bring({"pod": first.url}, constant(3)))["pod"].standing is Standing.APPLIED
    with serving(*LIVE, *K5_TABLE, **own) as second:
        found = (await control.bring({"pod": second.url}, constant(3)))["pod"]
        assert (found.standing, found.asked) == (Standing.APPLIED, False)


async def test_a_table_goes_by_the_number_of_requests(control: LiveControl, server: Server) -> None:
    """K = 5 alone, none from two requests on."""
    table = ((1, 1, 5), (2, 65536, 0))
    await control.bring({"pod": server.url}, table)
    await asyncio.gather(*(ask(server) for _ in range(4)))
    before = drafting(server).draft_tokens or 0
    await ask(server)
    assert (drafting(server).draft_tokens or 0) > before
    assert 'specloop_live_tokens{model_name="tiny",requests="2",side="applied"} 0.0' in server.page()
