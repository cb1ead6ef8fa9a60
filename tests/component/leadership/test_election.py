"""Candidates for one Lease: who wins, who loses it and when, and what an API server in trouble changes of that."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from specloop_operator.leadership import (
    LEASE_SECONDS,
    RENEW_SECONDS,
    REQUEST_SECONDS,
    RETRY_SECONDS,
    Deposed,
    Election,
    Leadership,
    Lease,
)
from tests.component.leadership.lease_server import LeaseServer, Spec
from tests.component.leadership.no_waiting import loop, without_waiting
from tests.component.operator_health.api_server import client_of
from tests.support.logs import own_log

A_FEW_LOOKS = 5 * RETRY_SECONDS

FREE: Spec = {
    "holderIdentity": "",
    "leaseDurationSeconds": LEASE_SECONDS,
    "acquireTime": "2026-11-30T12:00:00.000001Z",
    "renewTime": "2026-11-30T12:00:00.000001Z",
}
"""A Lease that somebody gave away."""


@dataclass
class Candidate:
    """One that takes part."""

    leadership: Leadership
    looks: int = 0
    _looked: asyncio.Event = field(default_factory=asyncio.Event)

    def look(self) -> None:
        """It looks at the Lease."""
        self.looks += 1
        self._looked.set()

    async def until_it_looks(self) -> None:
        """Wait for the next look."""
        self._looked.clear()
        await self._looked.wait()

    async def until_it_leads(self) -> None:
        """Wait for that."""
        async with asyncio.timeout(10 * LEASE_SECONDS):
            await self.election.won.wait()
        assert self.leadership.holds()

    def takes_part(self, election: Election) -> None:
        """From now on."""
        self.election, self.task = election, election.start()


@asynccontextmanager
async def candidate(url: str, identity: str) -> AsyncIterator[Candidate]:
    """One more for the Lease, which gives it away at the end if it holds it."""
    found = Candidate(Leadership(loop().time))
    async with client_of(url, loop().trace()) as client:
        lease = Lease(client, "specloop", "specloop", identity, found.leadership, found.look)
        found.takes_part(Election(lease, found.leadership))
        try:
            yield found
        finally:
            await found.election.stop()


@without_waiting
async def test_of_two_that_begin_together_one_leads_for_as_long_as_it_lives() -> None:
    """Both find no Lease and make one; fifty looks later the same one leads."""
    server = LeaseServer()
    async with server.served() as url, candidate(url, "a") as a, candidate(url, "b") as b:
        winning = [asyncio.create_task(one.election.won.wait()) for one in (a, b)]
        await asyncio.wait(winning, timeout=LEASE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        leader, follower = (a, b) if a.leadership.holds() else (b, a)
        for _ in range(50):
            await asyncio.sleep(RETRY_SECONDS)
            assert leader.leadership.holds()
            assert not follower.leadership.holds()
        assert len(set(server.holders)) == 1
        assert follower.looks > 25


@without_waiting
async def test_a_lease_counts_whole_seconds_and_says_who_holds_it() -> None:
    """The API's own types: coordination.k8s.io/v1 LeaseSpec, `leaseDurationSeconds` is an int32."""
    server = LeaseServer()
    async with server.served() as url, candidate(url, "a") as a:
        await a.until_it_leads()
        assert server.spec is not None
        assert (server.spec["holderIdentity"], server.spec["leaseDurationSeconds"]) == ("a", 9)


@without_waiting
async def test_a_leader_that_ends_gives_the_lease_away_and_leads_no_more_by_then() -> None:
    """The next one takes it at its next look, not when it has run out."""
    server = LeaseServer()
    async with server.served() as url, candidate(url, "a") as a:
        await a.until_it_leads()
        async with candidate(url, "b") as b:
            await asyncio.sleep(A_FEW_LOOKS)
            led: list[bool] = []
            server.before_write = lambda: led.append(a.leadership.holds())
            await a.election.stop()
            assert (server.holders[-1], led) == ("", [False])
            await asyncio.sleep(2 * RETRY_SECONDS)
            assert (b.leadership.holds(), server.holders[-1]) == (True, "b")


@without_waiting
async def test_a_leader_that_ends_gives_away_nothing_that_is_anothers_already() -> None:
    """Its lease was taken since its last look."""
    server = LeaseServer()
    async with server.served() as url, candidate(url, "a") as a:
        await a.until_it_leads()
        await a.until_it_looks()
        await asyncio.sleep(RETRY_SECONDS / 2)
        server.taken_by("b")
        await a.election.stop()
        assert server.spec is not None
        assert server.spec["holderIdentity"] == "b"


@without_waiting
async def test_a_follower_that_ends_leaves_the_lease_alone() -> None:
    """It is another's."""
    server = LeaseServer()
    async with server.served() as url, candidate(url, "a") as a:
        await a.until_it_leads()
        async with candidate(url, "b"):
            await asyncio.sleep(A_FEW_LOOKS)
        assert set(server.holders) == {"a"}
        assert a.leadership.holds()


@pytest.mark.parametrize("trouble", [{"status": 500}, {"status": 429}, {"silent": True}, {"mute": True}])
@without_waiting
async def test_an_api_server_in_trouble_for_less_long_than_a_renewal_may_take_changes_nothing(
    trouble: dict[str, Any],
) -> None:
    """A look or two fail, or their answers are lost; the next begins 1.5 + 2 + 1.5 = 5 s after the last renewal."""
    server = LeaseServer()
    async with server.served() as url, candidate(url, "a") as a:
        await a.until_it_leads()
        await asyncio.sleep(A_FEW_LOOKS)
        await a.until_it_looks()
        before = len(server.holders)
        _set(server, trouble)
        await asyncio.sleep(REQUEST_SECONDS + RETRY_SECONDS / 2)
        _set(server, {"status": None, "silent": False, "mute": False})
        for _ in range(20):
            await asyncio.sleep(RETRY_SECONDS)
            assert a.leadership.holds()
        assert len(server.holders) > before + 10
        assert not a.task.done()


@pytest.mark.parametrize("trouble", [{"status": 503}, {"status": 403}, {"silent": True}])
@without_waiting
async def test_a_leader_that_cannot_renew_leads_no_more_before_others_may(trouble: dict[str, Any]) -> None:
    """It ends in words, and no answer afterwards makes it lead again: what it remembers is old."""
    server, time = LeaseServer(), loop().time
    async with server.served() as url, candidate(url, "a") as a:
        await a.until_it_leads()
        await asyncio.sleep(A_FEW_LOOKS)
        _set(server, trouble)
        renewed_at = server.written_at
        await asyncio.sleep(renewed_at + RENEW_SECONDS - 1.0 - time())
        assert a.leadership.holds()
        await asyncio.sleep(renewed_at + RENEW_SECONDS - time())
        assert not a.leadership.holds()
        with pytest.raises(Deposed, match=r"the lease specloop was not renewed within 6 s"):
            await a.task
        assert time() < renewed_at + LEASE_SECONDS
        _set(server, {"status": None, "silent": False})
        before = list(server.holders)
        await a.election.stop()
        assert (a.leadership.holds(), server.holders) == (False, before)


@without_waiting
async def test_a_leader_whose_lease_is_anothers_ends_at_its_next_look() -> None:
    """As one that was stopped for long finds it; it writes nothing any more."""
    server = LeaseServer()
    async with server.served() as url, candidate(url, "a") as a:
        await a.until_it_leads()
        await a.until_it_looks()
        await asyncio.sleep(RETRY_SECONDS / 2)
        server.taken_by("b")
        looks, before = a.looks, list(server.holders)
        with pytest.raises(Deposed, match="the lease specloop is held by b now"):
            await a.task
        assert a.looks == looks + 1
        await a.election.stop()
        assert (a.leadership.holds(), server.holders) == (False, before)


@without_waiting
async def test_a_leader_whose_lease_is_taken_between_its_read_and_its_write_takes_nothing_back() -> None:
    """The write says which version it is about, and is refused; the next look says whose it is."""
    server = LeaseServer()
    async with server.served() as url, candidate(url, "a") as a:
        await a.until_it_leads()
        server.before_write = lambda: server.taken_by("b")
        with pytest.raises(Deposed, match="the lease specloop is held by b now"):
            await a.task
        assert server.spec is not None
        assert server.spec["holderIdentity"] == "b"


@without_waiting
async def test_of_two_that_find_the_lease_free_the_slower_one_does_not_lead() -> None:
    """Its write is refused, and it waits as before."""
    server = LeaseServer(FREE)
    server.before_write = lambda: server.taken_by("b")
    async with server.served() as url, candidate(url, "a") as a:
        await asyncio.sleep(A_FEW_LOOKS)
        assert not a.leadership.holds()
        assert (server.holders, a.task.done()) == ([], False)


@without_waiting
async def test_who_wins_without_hearing_of_it_leads_once_it_reads_its_own_name() -> None:
    """The write got through, and its answer did not."""
    server = LeaseServer(FREE, mute=True)
    async with server.served() as url, candidate(url, "a") as a:
        await asyncio.sleep(REQUEST_SECONDS / 2)
        assert (server.holders, a.leadership.holds()) == (["a"], False)
        server.mute = False
        await a.until_it_leads()


@without_waiting
async def test_a_lease_that_somebody_deletes_is_made_anew() -> None:
    """The leader does so at its next look, and goes on."""
    server = LeaseServer()
    async with server.served() as url, candidate(url, "a") as a:
        await a.until_it_leads()
        server.spec = None
        await asyncio.sleep(2 * RETRY_SECONDS)
        assert server.holders[-2:] == ["a", "a"]
        assert a.leadership.holds()


@pytest.mark.parametrize("status", [403, 500])
@without_waiting
async def test_a_follower_that_cannot_read_the_lease_waits_until_it_can(status: int) -> None:
    """Without a role, for one; it goes on to look, which its liveness probe is about."""
    server = LeaseServer(status=status)
    async with server.served() as url, candidate(url, "a") as a:
        await asyncio.sleep(10 * LEASE_SECONDS)
        assert (a.leadership.holds(), a.task.done()) == (False, False)
        assert a.looks > 25
        server.status = None
        await a.until_it_leads()


@without_waiting
async def test_what_is_wrong_with_the_lease_is_said_once_and_not_at_every_look() -> None:
    """For a minute and a half it can be read and not written, before that neither."""
    server = LeaseServer(status=403)
    with own_log() as log:
        log.configure("text")
        async with server.served() as url, candidate(url, "a") as a:
            await asyncio.sleep(10 * LEASE_SECONDS)
            server.status, server.write_status = None, 403
            await asyncio.sleep(10 * LEASE_SECONDS)
            server.write_status = None
            await a.until_it_leads()
    said = [line.partition(" ")[2] for line in log.lines if "aiohttp.access" not in line]  # which is the server's
    assert [line.partition(" [")[0] for line in said] == [
        "WARNING specloop.leadership Lease specloop/specloop: the lease cannot be read: Forbidden",
        "WARNING specloop.leadership Lease specloop/specloop: the lease cannot be written: Forbidden",
        "INFO specloop.leadership this operator leads",
    ]


def _set(server: LeaseServer, trouble: dict[str, Any]) -> None:
    for name, value in trouble.items():
        setattr(server, name, value)
