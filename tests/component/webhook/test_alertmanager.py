"""Messages of a real Alertmanager: what it shows as its token, and how it goes on after an error."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from specloop_operator.cluster import ApiError
from specloop_operator.serving import Tls
from tests.component.sources.certificates import authority, signed
from tests.component.webhook.doors import LOOPBACK, TOKEN, Door
from tests.support.alerts import LOW
from tests.support.cluster.alertmanager import Alertmanager, alerting

PATIENCE_SECONDS = 60.0
"""What a test waits for at most on a machine with other things to do."""


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    """The token, for both sides."""
    file = tmp_path / "token"
    file.write_text(TOKEN)
    return file


@contextmanager
def sending(folder: Path, door: Door, http: dict[str, Any], *, max_alerts: int = 0) -> Iterator[Alertmanager]:
    """An Alertmanager that sends to a door that is open."""
    url = f"{'http' if door.tls is None else 'https'}://{LOOPBACK}:{door.port}/alerts"
    with alerting(folder / "alertmanager", url, http, ["alertname"], max_alerts=max_alerts) as found:
        yield found


def low(namespace: str = "llm", *, over: bool = False, seconds: float = 60.0, **labels: str) -> dict[str, Any]:
    """An alert as Prometheus tells it: it has been firing for a minute, and does for another one or no more."""
    now = datetime.now(UTC)
    return {
        "labels": {"alertname": LOW, "namespace": namespace, "severity": "warning", **labels},
        "annotations": {"summary": "Few draft tokens are accepted"},
        "startsAt": (now - timedelta(seconds=seconds)).isoformat(),
        "endsAt": now.isoformat() if over else (now + timedelta(minutes=1)).isoformat(),
    }


async def until(true: Callable[[], bool]) -> None:
    """Wait until something is so, while the door answers."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            if true():
                return
            await asyncio.sleep(0.05)


async def test_what_a_real_alertmanager_sends_is_recorded(token_file: Path, tmp_path: Path) -> None:
    """An alert that fires and is over again, with the token in the file that it is configured with."""
    door = Door(token_file)
    by_token = {"authorization": {"type": "Bearer", "credentials_file": str(token_file)}}
    async with door.opened():
        with sending(tmp_path, door, by_token) as alertmanager:
            await asyncio.to_thread(alertmanager.tell, [low()])
            await until(lambda: door.hearing.counted().get("received") == 1)
            [shown] = await asyncio.to_thread(alertmanager.alerts)
            [known] = door.hearing.known()
            assert (known["fingerprint"], known["name"]) == (shown["fingerprint"], LOW)
            assert _moment(known["startsAt"]) == pytest.approx(_moment(shown["startsAt"]), abs=0.001)
            await asyncio.to_thread(alertmanager.tell, [low(over=True)])
            await until(lambda: door.hearing.counted().get("resolved") == 1)
            assert (await asyncio.to_thread(alertmanager.notified))["failed"] == 0.0
    assert door.answered() == {200: 2}


async def test_a_real_alertmanager_sends_again_what_was_not_recorded(token_file: Path, tmp_path: Path) -> None:
    """After 503, without being asked."""
    door = Door(token_file)
    door.hearing.cluster.failing = [ApiError("HTTP 500"), ApiError("HTTP 500")]
    by_token = {"authorization": {"credentials": TOKEN}}
    async with door.opened():
        with sending(tmp_path, door, by_token) as alertmanager:
            await asyncio.to_thread(alertmanager.tell, [low()])
            await until(lambda: door.hearing.counted().get("received") == 1)
    assert door.answered() == {503: 2, 200: 1}


async def test_what_a_real_alertmanager_leaves_out_makes_the_policy_look(token_file: Path, tmp_path: Path) -> None:
    """Of two alerts of a group it sends one, and says that there is another."""
    door = Door(token_file)
    async with door.opened():
        with sending(tmp_path, door, {"authorization": {"credentials": TOKEN}}, max_alerts=1) as alertmanager:
            await asyncio.to_thread(alertmanager.tell, [low(pod="llama-1"), low(pod="llama-2")])
            await until(lambda: door.hearing.counted().get("truncated", 0) >= 1)
            assert "EvaluateNow" in [one["action"] for one in door.hearing.known()]
    assert [reason for _, reason, _ in door.hearing.posted.said].count("AlertsLeftOut") == 1


async def test_a_real_alertmanager_tells_the_end_with_an_earlier_start(token_file: Path, tmp_path: Path) -> None:
    """A second Prometheus saw it begin 20 s before the first one did: Alertmanager keeps the earlier start."""
    door = Door(token_file)
    async with door.opened():
        with sending(tmp_path, door, {"authorization": {"credentials": TOKEN}}) as alertmanager:
            await asyncio.to_thread(alertmanager.tell, [low(seconds=60.0)])
            await until(lambda: door.hearing.counted().get("received") == 1)
            await asyncio.to_thread(alertmanager.tell, [low(seconds=80.0)])
            await asyncio.to_thread(alertmanager.tell, [low(seconds=80.0, over=True)])
            await until(lambda: door.hearing.counted().get("resolved") == 1)
            [known] = door.hearing.known()
    assert "resolvedAt" in known


async def test_a_real_alertmanager_shows_its_certificate(tmp_path: Path) -> None:
    """And trusts ours by the authority that it is told of."""
    ours = authority(tmp_path, "ours")
    server, client = signed(ours, "server"), signed(ours, "client")
    door = Door(tls=Tls(server.cert, server.key, ours.cert))
    shown = {"ca_file": str(ours.cert), "cert_file": str(client.cert), "key_file": str(client.key)}
    async with door.opened():
        with sending(tmp_path, door, {"tls_config": shown}) as alertmanager:
            await asyncio.to_thread(alertmanager.tell, [low(), low("other")])
            await until(lambda: door.answered() == {200: 1})
    assert door.hearing.counted() == {"received": 1, "unmatched": 1}


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
