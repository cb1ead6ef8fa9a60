"""The door for alerts over real HTTP: who comes in, what is taken, and what is answered when."""

import asyncio
import gzip
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest

from specloop_operator.alert_book import TRIES
from specloop_operator.cluster import ApiError, Conflict
from specloop_operator.pulse import Readiness
from specloop_operator.webhook import MAX_BYTES
from specloop_policy.status import SpecPolicyStatus
from tests.component.webhook.doors import BEARER, BURST, TOKEN, Door, connected
from tests.support.alerts import CHAT, LOW, STEP_DOWN, Hearing, alert_json, message_json, policy_body

MESSAGE = message_json(alert_json())
PATIENCE_SECONDS = 60.0
"""What a test waits for at most on a machine with other things to do."""


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    """A file with one token."""
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    return file


def has(file: Path, content: bytes | None) -> None:
    """Somebody changes a file; None: takes it away."""
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)


Headers = Mapping[str, str]


async def sent(client: httpx.AsyncClient, body: bytes = MESSAGE, headers: Headers | None = None) -> tuple[int, str]:
    """Status and words of the answer to a message."""
    answer = await client.post("/alerts", content=body, headers=headers)
    return answer.status_code, answer.text.strip()


async def test_a_message_is_answered_once_it_is_written(token_file: Path) -> None:
    """Not before: the answer finds the alert in the policy's status."""
    door = Door(token_file)
    async with door.opened() as client:
        assert await sent(client, headers=BEARER) == (200, "recorded")
        assert [one["name"] for one in door.hearing.known()] == [LOW]
    assert door.answered() == {200: 1}
    assert door.hearing.counted() == {"received": 1}


async def test_a_message_that_concerns_nobody_is_taken(token_file: Path) -> None:
    """Sending it again would not help."""
    door = Door(token_file)
    async with door.opened() as client:
        assert await sent(client, message_json(alert_json(namespace="other")), BEARER) == (200, "recorded")
        assert await sent(client, message_json(), BEARER) == (200, "recorded")
    assert door.hearing.counted() == {"unmatched": 1}


async def test_what_cannot_be_written_is_to_be_sent_again() -> None:
    """503 and when: Alertmanager tries again after 5xx alone.  Then it is written."""
    door = Door()
    door.hearing.cluster.failing = [ApiError("writing the status: HTTP 500: etcd is away")]
    async with door.opened() as client:
        answer = await client.post("/alerts", content=MESSAGE)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert answer.text == "not recorded: writing the status: HTTP 500: etcd is away\n"
        assert door.hearing.known() == []
        assert (await sent(client))[0] == 200
    assert door.answered() == {503: 1, 200: 1}
    assert len(door.hearing.known()) == 1


async def test_a_conflict_is_no_error_unless_it_does_not_end() -> None:
    """Somebody else wrote the policy meanwhile: it is read anew, five times at most."""
    door = Door()
    async with door.opened() as client:
        door.hearing.cluster.failing = [Conflict("written meanwhile")] * (TRIES - 1)
        assert (await sent(client))[0] == 200
        door.hearing.cluster.failing = [Conflict("written meanwhile")] * TRIES
        again = message_json(alert_json(starts_at=door.hearing.clock.now()))
        assert await sent(client, again) == (503, "not recorded: written meanwhile")
        assert (await sent(client, again))[0] == 200
    assert door.hearing.cluster.writes == [CHAT, CHAT]


async def test_an_alert_without_room_is_to_be_sent_again() -> None:
    """Of 33, 32 are written and one is not: 503 in words, which Alertmanager counts as failed, until there is room."""
    every = {"match": {"severity": "warning"}, "action": {"type": "StepDown"}}
    door = Door(hearing=Hearing(policy_body(every)))
    alerts = [alert_json(name=f"A{place}", fingerprint=f"a{place}") for place in range(33)]
    async with door.opened() as client:
        for _ in range(2):
            assert await sent(client, message_json(*alerts)) == (
                503,
                "not recorded: the status of policy llm/chat holds 32 alerts, as many as it can, and has no room for 1 "
                "that fire",
            )
            door.hearing.watch()
        assert [one["name"] for one in door.hearing.known()] == [f"A{place}" for place in range(32)]
        assert door.hearing.cluster.writes == [CHAT]
        over = alert_json(name="A0", fingerprint="a0", firing=False)
        assert (await sent(client, message_json(over, *alerts[1:])))[0] == 200
    assert door.answered() == {503: 2, 200: 1}
    assert door.hearing.counted() == {"received": 33, "crowded": 1, "repeated": 33 + 31, "resolved": 1}


async def test_a_message_that_leaves_alerts_out_makes_all_policies_look() -> None:
    """Those with bindings, in every namespace."""
    bodies = policy_body(STEP_DOWN), policy_body(STEP_DOWN, namespace="other"), policy_body(name="silent")
    door = Door(hearing=Hearing(*bodies))
    async with door.opened() as client:
        assert (await sent(client, message_json(truncated=7)))[0] == 200
    looking = [door.hearing.known(name) for name in (CHAT, ("other", "chat"))]
    assert [[one["action"] for one in alerts] for alerts in looking] == [["EvaluateNow"], ["EvaluateNow"]]
    assert door.hearing.known(("llm", "silent")) == []


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        f"Basic {TOKEN}",
        TOKEN,
        "Bearer open sesam",
        "Bearer open sesame!",
        "Bearer OPEN SESAME",
        "Bearer " + "x" * 10_000,
        b"Bearer \xff\xfe",
    ],
    ids=lambda header: repr(header)[:30],
)
async def test_nobody_comes_in_without_the_token(token_file: Path, authorization: str | bytes | None) -> None:
    """And nobody is told anything of what is behind the door, which is not even ready."""
    door = Door(token_file, readiness=Readiness("the caches"))
    async with door.opened() as client:
        headers = {} if authorization is None else {"Authorization": authorization}
        answer = await client.post("/alerts", content=b"no message at all", headers=headers)  # type: ignore[arg-type]
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert answer.text == "send the token of this webhook as Authorization: Bearer TOKEN\n"
    assert door.answered() == {401: 1}


async def test_nothing_of_a_strangers_body_is_read(token_file: Path) -> None:
    """The answer comes before a single byte of it was sent."""
    door = Door(token_file)
    async with door.opened(), connected(door.port) as connection:
        await connection.send(b"POST /alerts HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
        assert await connection.status() == 401


async def test_a_token_comes_before_another_goes(token_file: Path) -> None:
    """The file is read at every message: first two tokens, then the new one alone."""
    door, new = Door(token_file), {"Authorization": "bearer  new-token"}
    async with door.opened() as client:
        assert [(await sent(client, headers=who))[0] for who in (BEARER, new)] == [200, 401]
        has(token_file, f"\n  {TOKEN}  \n\nnew-token\r\n".encode())
        assert [(await sent(client, headers=who))[0] for who in (BEARER, new)] == [200, 200]
        has(token_file, b"new-token")
        assert [(await sent(client, headers=who))[0] for who in (BEARER, new)] == [401, 200]


@pytest.mark.parametrize("content", [None, b"", b" \n\n", b"\xff\xfe\n"], ids=["gone", "empty", "blank", "no text"])
async def test_without_a_token_to_compare_with_nobody_comes_in_and_that_may_pass(
    token_file: Path, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    """503 for everybody, and no word of the file to them; the log has it."""
    door = Door(token_file)
    async with door.opened() as client:
        has(token_file, content)
        assert await sent(client, headers=BEARER) == (503, "the webhook's token cannot be read")
        assert await sent(client, headers={"Authorization": "Bearer"}) == (503, "the webhook's token cannot be read")
        has(token_file, TOKEN.encode())
        assert (await sent(client, headers=BEARER))[0] == 200
    assert str(token_file) in caplog.text


async def test_an_operator_that_does_not_know_its_policies_yet_takes_nothing() -> None:
    """It would find the alert to be nobody's; another replica may take it, or this one later."""
    door = Door(readiness=Readiness("the caches", "the watches"))
    async with door.opened() as client:
        assert await sent(client) == (503, "not ready: waiting for the caches, the watches")
        door.readiness.done("the caches")
        assert await sent(client) == (503, "not ready: waiting for the watches")
        door.readiness.done("the watches")
        assert (await sent(client))[0] == 200


async def test_more_messages_than_any_alertmanager_sends_are_put_off(token_file: Path) -> None:
    """Three at once, and one a second; strangers take nobody's turn."""
    door = Door(token_file, burst=BURST)
    async with door.opened() as client:
        for _ in range(10):
            assert (await sent(client))[0] == 401
        assert [(await sent(client, headers=BEARER))[0] for _ in range(3)] == [200, 200, 200]
        assert await sent(client, headers=BEARER) == (503, "more than 1 messages a second")
        door.hearing.clock.time += 1.0
        assert [(await sent(client, headers=BEARER))[0] for _ in range(2)] == [200, 503]


async def test_a_body_as_long_as_one_may_be_is_read() -> None:
    """White space fills it up to the last byte."""
    door = Door()
    async with door.opened() as client:
        assert (await sent(client, MESSAGE.ljust(MAX_BYTES)))[0] == 200
        assert (await sent(client, MESSAGE.ljust(MAX_BYTES + 1)))[0] == 413
    assert door.answered() == {200: 1, 413: 1}


async def test_a_body_without_end_is_not_read_to_its_end() -> None:
    """The answer comes while it is still being sent, in pieces of which none says how many are to come."""
    door, piece = Door(), b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    async with door.opened(), connected(door.port) as connection:
        await connection.send(b"POST /alerts HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(MAX_BYTES // 0x10000 + 1):
            await connection.send(piece)
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await connection.status() == 413


async def test_a_body_that_does_not_come_is_waited_for_no_longer_than_its_time() -> None:
    """The first half of it is there."""
    door = Door(body_seconds=0.05)
    async with door.opened(), connected(door.port) as connection:
        head = f"POST /alerts HTTP/1.1\r\nHost: x\r\nContent-Length: {len(MESSAGE)}\r\n\r\n".encode()
        await connection.send(head + MESSAGE[:100])
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await connection.status() == 503
    assert door.answered() == {503: 1}
    assert door.hearing.counted() == {}


async def test_what_takes_too_long_to_be_written_is_to_be_sent_again() -> None:
    """The API server takes the write, and does not answer it."""
    door = Door(record_seconds=0.05)
    door.hearing.cluster.pause_seconds = PATIENCE_SECONDS
    async with door.opened() as client, asyncio.timeout(PATIENCE_SECONDS / 2):
        assert await sent(client) == (503, "not recorded: it took more than 0.05 s")
    assert door.answered() == {503: 1}
    assert door.hearing.known() == []


async def test_a_body_that_is_cut_off_is_no_message() -> None:
    """Its beginning is one, and nothing of it is written."""
    door = Door()
    async with door.opened(), connected(door.port) as connection:
        await connection.send(b"POST /alerts HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + MESSAGE)
    assert door.answered() == {400: 1}
    assert door.hearing.counted() == {}


@pytest.mark.parametrize(
    "head",
    [b"", b"POST /alerts HTTP/1.1\r\nHost: x\r\n", b"POST /alerts HTTP/1.1\r\nContent-Length: 9\r\nHost: x\r\n\r\n"],
    ids=["nothing", "half a head", "a body after the answer"],
)
async def test_a_connection_is_not_held_by_who_sends_a_byte_now_and_then(token_file: Path, head: bytes) -> None:
    """Such clients would end the connections of others, and none of them has shown a token."""
    door = Door(token_file, options={"idle_seconds": 1})
    async with door.opened(), connected(door.port) as connection:
        await connection.send(head)

        async def drip() -> None:
            while True:
                await asyncio.sleep(0.2)
                await connection.send(b"x")

        dripping = asyncio.create_task(drip())
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await connection.ended()
        dripping.cancel()
        await asyncio.gather(dripping, return_exceptions=True)


async def test_a_slow_answer_is_not_cut_off() -> None:
    """Writing takes longer than a connection may be idle."""
    door = Door(options={"idle_seconds": 1})
    door.hearing.cluster.pause_seconds = 1.5
    async with door.opened() as client:
        assert (await sent(client))[0] == 200


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "identity, gzip"])
async def test_a_body_that_is_compressed_is_not_unpacked(encoding: str) -> None:
    """Alertmanager sends none, and a few kilobytes could be gigabytes."""
    door = Door()
    async with door.opened() as client:
        packed = gzip.compress(MESSAGE)
        assert await sent(client, packed, {"Content-Encoding": encoding}) == (
            415,
            "send the body as it is, not compressed",
        )
        assert (await sent(client, MESSAGE, {"Content-Encoding": "identity"}))[0] == 200


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "the body: Invalid JSON"),
        (b"alert: low", "the body: Invalid JSON"),
        (b"[" * 2_000_000, "the body: Invalid JSON"),
        (b'{"alerts": ' + b'{"labels": ' * 100_000, "the body: Invalid JSON"),
        (message_json(version="3"), "version: '3' is not 4"),
        (message_json({**alert_json(), "startsAt": "0001-01-01T00:00:00+01:00"}), "alerts.0.startsAt: "),
    ],
    ids=["nothing", "no JSON", "brackets", "objects in objects", "another version", "no moment"],
)
async def test_what_is_no_message_is_refused_for_good(body: bytes, words: str) -> None:
    """400, with what is wrong: sending it again would not help."""
    door = Door()
    async with door.opened() as client:
        status, said = await sent(client, body)
    assert status == 400
    assert said.startswith(f"this is no message of Alertmanager: {words}")
    assert door.answered() == {400: 1}
    assert door.hearing.counted() == {}


async def test_there_is_no_other_page_and_no_other_method(token_file: Path) -> None:
    """Neither probes nor metrics are where Alertmanager comes in."""
    async with Door(token_file).opened() as client:
        for path in ("/", "/metrics", "/healthz", "/alerts/x"):
            assert (await client.post(path, content=MESSAGE, headers=BEARER)).status_code == 404
        for method in ("GET", "PUT", "DELETE"):
            assert (await client.request(method, "/alerts", headers=BEARER)).status_code == 405


async def test_the_story_of_an_alert_is_told_in_events_and_metrics() -> None:
    """It fires, fires still, is over, and fires once more."""
    door = Door()
    async with door.opened() as client:
        for body in (
            MESSAGE,
            MESSAGE,
            message_json(alert_json(firing=False)),
            message_json(alert_json(starts_at=door.hearing.clock.now())),
            message_json(alert_json(name="Other")),
            message_json(alert_json(namespace=None)),
        ):
            assert (await sent(client, body))[0] == 200
            door.hearing.watch()
    assert [(reason, note) for _, reason, note in door.hearing.posted.said] == [
        ("AlertReceived", f"alert {LOW} fires"),
        ("AlertResolved", f"alert {LOW} is resolved"),
        ("AlertReceived", f"alert {LOW} fires"),
    ]
    assert door.hearing.counted() == {"received": 2, "repeated": 1, "resolved": 1, "unmatched": 1, "nowhere": 1}
    assert door.answered() == {200: 6}


async def test_an_alert_that_expires_is_told_of_by_the_tick_that_finds_it_so() -> None:
    """Once, and what is over or stands for left-out alerts is not said to expire."""
    hearing = Hearing(policy_body({**STEP_DOWN, "expireSeconds": 60}))
    await hearing.hear(alert_json(), alert_json(name="Over", fingerprint="b"), truncated=1)
    await hearing.hear(alert_json(name="Over", fingerprint="b", firing=False))
    body = hearing.cluster.policies[CHAT]
    before = SpecPolicyStatus.model_validate(body["status"])
    await hearing.telling.expired(body, before, before, hearing.clock.now())
    assert "expired" not in hearing.counted()
    after = before.model_copy(update={"alerts": ()})
    await hearing.telling.expired(body, before, after, hearing.clock.now())
    assert hearing.counted()["expired"] == 1
    assert hearing.posted.said[-1] == (
        "chat",
        "AlertExpired",
        f"alert {LOW} counts no more: nothing was heard of it for its expireSeconds",
    )
