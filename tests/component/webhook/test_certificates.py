"""The webhook over TLS: whose certificates are asked for, and that new ones are taken up without a restart."""

import asyncio
import shutil
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from specloop_operator.serving import ListenError, Tls
from tests.component.sources.certificates import Pair, authority, signed
from tests.component.webhook.doors import BEARER, LOOPBACK, TOKEN, Door
from tests.support.alerts import alert_json, message_json

MESSAGE = message_json(alert_json())
LOOK_SECONDS = 0.02
PATIENCE_SECONDS = 60.0
"""What a test waits for at most on a machine with other things to do."""


@dataclass(frozen=True)
class Known:
    """Two authorities, and what each has signed."""

    ours: Pair
    theirs: Pair
    server: Pair
    other_server: Pair
    client: Pair
    stranger: Pair


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Known:
    """Made once."""
    ours = authority(tmp_path_factory.mktemp("ours"), "ours")
    theirs = authority(tmp_path_factory.mktemp("theirs"), "theirs")
    servers = signed(ours, "server"), signed(theirs, "other-server")
    return Known(ours, theirs, *servers, signed(ours, "client"), signed(theirs, "stranger"))


@dataclass(frozen=True)
class Files:
    """What the webhook is served with, in files that change as those of a Secret do."""

    folder: Path

    @property
    def tls(self) -> Tls:
        """Where they are."""
        return Tls(self.folder / "tls.crt", self.folder / "tls.key", self.folder / "ca.crt")

    def become(self, server: Pair, clients: Pair) -> None:
        """They have another server's certificate, and another authority of clients."""
        wanted = {"tls.crt": server.cert, "tls.key": server.key, "ca.crt": clients.cert}
        for name, source in wanted.items():
            aside = self.folder / f"{name}.new"
            shutil.copyfile(source, aside)
            aside.replace(self.folder / name)

    def become_half_written(self) -> None:
        """The certificate ends in its middle."""
        whole = (self.folder / "tls.crt").read_bytes()
        (self.folder / "tls.crt").write_bytes(whole[: len(whole) // 2])


@pytest.fixture
def files(tmp_path: Path, known: Known) -> Files:
    """Ours."""
    found = Files(tmp_path)
    found.become(known.server, known.ours)
    return found


def trusting(server: Pair, shown: Pair | None) -> ssl.SSLContext:
    """A client that trusts an authority, and shows a certificate."""
    context = ssl.create_default_context(cafile=str(server.cert))
    if shown is not None:
        context.load_cert_chain(shown.cert, shown.key)
    return context


async def send(door: Door, context: ssl.SSLContext, headers: dict[str, str] | None = None) -> int | None:
    """The status of the answer to a message on a new connection; None where there was none."""
    async with httpx.AsyncClient(verify=context, trust_env=False, timeout=PATIENCE_SECONDS) as client:
        try:
            url = f"https://{LOOPBACK}:{door.port}/alerts"
            return (await client.post(url, content=MESSAGE, headers=headers)).status_code
        except httpx.TransportError:
            return None


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            if await true():
                return
            await asyncio.sleep(LOOK_SECONDS)


async def test_a_client_needs_a_certificate_of_the_authority_that_is_named(known: Known, files: Files) -> None:
    """Who has none, or one of another authority, does not even reach the door."""
    door = Door(tls=files.tls)
    async with door.opened():
        assert await send(door, trusting(known.ours, known.client)) == 200
        assert await send(door, trusting(known.ours, None)) is None
        assert await send(door, trusting(known.ours, known.stranger)) is None
    assert door.answered() == {200: 1}


async def test_a_certificate_and_a_token_may_be_asked_for_together(
    known: Known, files: Files, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Neither takes the place of the other."""
    token = tmp_path_factory.mktemp("token") / "token"
    token.write_text(TOKEN)
    door = Door(token, tls=files.tls)
    async with door.opened():
        assert await send(door, trusting(known.ours, known.client)) == 401
        assert await send(door, trusting(known.ours, None), BEARER) is None
        assert await send(door, trusting(known.ours, known.client), BEARER) == 200


async def test_without_an_authority_of_clients_none_is_asked_for_a_certificate(known: Known, files: Files) -> None:
    """The server shows its own all the same, and speaks nothing else."""
    door = Door(tls=Tls(files.tls.certificate, files.tls.key))
    async with door.opened() as plain:
        assert await send(door, trusting(known.ours, None)) == 200
        assert await send(door, trusting(known.theirs, None)) is None
        with pytest.raises(httpx.TransportError):
            await plain.post("/alerts", content=MESSAGE)


async def test_certificates_that_were_renewed_are_taken_up(known: Known, files: Files) -> None:
    """Both the server's own and those of clients; who came in by the old ones does so no more."""
    door = Door(tls=files.tls, options={"renewal_seconds": LOOK_SECONDS})
    before, after = trusting(known.ours, known.client), trusting(known.theirs, known.stranger)
    async with door.opened():
        assert (await send(door, before), await send(door, after)) == (200, None)
        files.become(known.other_server, known.theirs)

        async def renewed() -> bool:
            return await send(door, after) == 200

        await until(renewed)
        assert await send(door, before) is None
        assert await send(door, trusting(known.theirs, known.client)) is None
        assert await send(door, trusting(known.theirs, None)) is None


async def test_files_that_are_half_written_are_looked_at_again(known: Known, files: Files) -> None:
    """Until then the old ones are served."""
    door = Door(tls=files.tls, options={"renewal_seconds": LOOK_SECONDS})
    before, after = trusting(known.ours, known.client), trusting(known.theirs, known.stranger)
    async with door.opened():
        files.become_half_written()
        for _ in range(5):
            await asyncio.sleep(LOOK_SECONDS)
            assert await send(door, before) == 200
        files.become(known.other_server, known.theirs)

        async def renewed() -> bool:
            return await send(door, after) == 200

        await until(renewed)


async def test_files_that_cannot_be_read_at_the_start_are_one_sentence(files: Files) -> None:
    """It names them."""
    files.become_half_written()
    with pytest.raises(ListenError, match=r"cannot serve /alerts with \S+/tls\.crt and \S+/tls\.key: "):
        async with Door(tls=files.tls).opened():
            pass
