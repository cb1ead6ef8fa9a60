"""A Prometheus that wants to know who asks: passwords, headers, and certificates either way."""

import json
import shutil
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from specloop_control.credentials import BasicAuth
from specloop_control.prometheus_server import Answer, Prometheus, PrometheusError, PrometheusSettings
from tests.component.sources.certificates import Pair, authority, signed
from tests.component.sources.servers import Server, serving

GOOD = json.dumps(
    {
        "status": "success",
        "data": {
            "resultType": "matrix",
            "result": [{"metric": {"__name__": "vllm:x", "pod": "a"}, "values": [[109.0, "1"]]}],
        },
    }
)


def ask(url: str, **settings: Any) -> Answer:
    """What comes of one query."""
    with closing(Prometheus(PrometheusSettings(url, timeout_seconds=10.0, **settings))) as prometheus:
        return prometheus.values('{__name__="vllm:x"}', 100.0, 110.0)


def basic(user: str, password: str) -> str:
    """The header that RFC 7617 asks for."""
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(GOOD) as server:
        yield server


def test_the_query_comes_back_as_it_was_sent(server: Server) -> None:
    assert ask(server.url).query == '{__name__="vllm:x"}[10000ms]'


def test_a_user_and_a_password_are_read_again_for_every_query(server: Server, tmp_path: Path) -> None:
    user, password = tmp_path / "user", tmp_path / "password"
    settings = PrometheusSettings(server.url, basic_auth=BasicAuth(password, username_file=user))
    with closing(Prometheus(settings)) as prometheus:
        for number in (1, 2):
            user.write_text(f"user{number}\n")
            password.write_text(f"secret{number}\n")
            prometheus.values("{}", 100.0, 110.0)
    sent = [asked["Authorization"] for asked in server.asked]
    assert sent == [basic("user1", "secret1"), basic("user2", "secret2")]


def test_a_user_may_be_named_in_the_settings(server: Server, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("secret")
    ask(server.url, basic_auth=BasicAuth(tmp_path / "password", "alice"))
    assert server.asked[0]["Authorization"] == basic("alice", "secret")


@pytest.mark.parametrize("content", ["", "two\nlines", "caf\u00e9"])
def test_a_file_without_a_password_is_one_sentence_without_the_content(
    server: Server, tmp_path: Path, content: str
) -> None:
    (tmp_path / "password").write_text(content)
    with pytest.raises(PrometheusError, match=r"^the password in .*password is not one line of plain letters$"):
        ask(server.url, basic_auth=BasicAuth(tmp_path / "password", "alice"))
    assert server.asked == []


def test_headers_and_the_tenant_are_sent_with_every_query(server: Server) -> None:
    ask(server.url, headers={"X-Team": "ml"}, tenant="llm")
    assert (server.asked[0]["X-Team"], server.asked[0]["X-Scope-OrgID"]) == ("ml", "llm")


BAD_SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "a secret among the headers": ({"headers": {"authorization": "Bearer x"}}, "holds a secret: give it as a file"),
    "a header of two lines": ({"headers": {"X-Team": "a\r\nX-Other: b"}}, "must be one line"),
    "a name that is none": ({"headers": {"X Team": "a"}}, "is no name of a header"),
    "a tenant of two lines": ({"tenant": "a\nb"}, "must be one line"),
    "a token and a password": (
        {"token_file": Path("t"), "basic_auth": BasicAuth(Path("p"), "alice")},
        "give one of them",
    ),
    "a key alone": ({"key_file": Path("k")}, "give both"),
}


@pytest.mark.parametrize("case", BAD_SETTINGS)
def test_what_cannot_be_sent_is_refused_before_it_is(case: str) -> None:
    settings, words = BAD_SETTINGS[case]
    with pytest.raises(PrometheusError, match=words):
        PrometheusSettings("http://127.0.0.1:9", **settings)


@dataclass(frozen=True)
class Certificates:
    """Two authorities, a server's certificate by the one, and a client's by each."""

    ours: Pair
    theirs: Pair
    server: Pair
    client: Pair
    stranger: Pair


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    ours = authority(tmp_path_factory.mktemp("ours"), "ours")
    theirs = authority(tmp_path_factory.mktemp("theirs"), "theirs")
    return Certificates(ours, theirs, signed(ours, "server"), signed(ours, "client"), signed(theirs, "stranger"))


def test_a_server_is_trusted_by_the_authority_that_is_named(known: Certificates) -> None:
    with serving(GOOD, known.server) as server:
        assert ask(server.url, ca_file=known.ours.cert).values == 1


def test_the_environment_does_not_replace_the_authority_that_is_named(
    known: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(known.theirs.cert))
    with serving(GOOD, known.server) as server:
        assert ask(server.url, ca_file=known.ours.cert).values == 1


@pytest.mark.parametrize("authority", [None, "theirs"])
def test_a_server_that_others_vouch_for_is_one_sentence(known: Certificates, authority: str | None) -> None:
    """Neither the system's authorities nor another one have signed its certificate."""
    trusted = None if authority is None else known.theirs.cert
    with serving(GOOD, known.server) as server, pytest.raises(PrometheusError) as caught:
        ask(server.url, ca_file=trusted)
    words = str(caught.value)
    assert words.startswith(f"{server.url} cannot be reached: its certificate is not trusted: ")
    assert words.endswith("unable to get local issuer certificate")
    assert server.asked == []


def test_a_server_of_another_name_is_one_sentence(known: Certificates) -> None:
    other = signed(known.ours, "other", "DNS:prometheus.test")
    with serving(GOOD, other) as server, pytest.raises(PrometheusError, match="not trusted: IP address mismatch"):
        ask(server.url, ca_file=known.ours.cert)


@pytest.mark.parametrize("in_one_file", [False, True])
def test_a_server_may_ask_for_our_certificate(known: Certificates, tmp_path: Path, in_one_file: bool) -> None:
    cert, key = known.client.cert, known.client.key
    both = tmp_path / "both.pem"
    both.write_text(cert.read_text() + key.read_text())
    own = {"cert_file": both} if in_one_file else {"cert_file": cert, "key_file": key}
    with serving(GOOD, known.server, asks_for=known.ours) as server:
        assert ask(server.url, ca_file=known.ours.cert, **own).values == 1


@pytest.mark.parametrize("client", [None, "stranger"])
def test_a_server_that_does_not_take_our_certificate_is_one_sentence(known: Certificates, client: str | None) -> None:
    pair = known.stranger if client else None
    own = {} if pair is None else {"cert_file": pair.cert, "key_file": pair.key}
    with (
        serving(GOOD, known.server, asks_for=known.ours) as server,
        pytest.raises(PrometheusError, match=r"cannot be reached: \w"),  # told by TLS, or by a connection that breaks
    ):
        ask(server.url, ca_file=known.ours.cert, **own)
    assert server.asked == []


@pytest.mark.parametrize("name", ["ca_file", "cert_file", "key_file"])
@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_certificate_that_cannot_be_read_is_one_sentence(
    known: Certificates, tmp_path: Path, name: str, content: str | None
) -> None:
    file = tmp_path / "file.pem"
    if content is not None:
        file.write_text(content)
    good = {"ca_file": known.ours.cert, "cert_file": known.client.cert, "key_file": known.client.key}
    with serving(GOOD, known.server) as server, pytest.raises(PrometheusError) as caught:
        ask(server.url, **{**good, name: file})
    assert "\n" not in str(caught.value)
    assert (str(file) if content is None else "are the certificates and the key the right ones?") in str(caught.value)


def test_certificates_are_read_again_for_every_connection(known: Certificates, tmp_path: Path) -> None:
    """The server closes each connection after its answer."""
    ca = tmp_path / "ca.pem"
    with serving(GOOD, known.server) as server:
        settings = PrometheusSettings(server.url, ca_file=ca)
        with closing(Prometheus(settings)) as prometheus:
            shutil.copy(known.theirs.cert, ca)
            with pytest.raises(PrometheusError, match="not trusted"):
                prometheus.values("{}", 100.0, 110.0)
            shutil.copy(known.ours.cert, ca)
            assert prometheus.values("{}", 100.0, 110.0).values == 1
