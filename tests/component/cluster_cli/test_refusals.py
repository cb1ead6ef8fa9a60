"""Whatever stands between a user and the cluster is one line that says what to do, and exit code 2."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.component.cluster_cli.api_server import ApiServer, Refusal
from tests.component.cluster_cli.conftest import Terminal
from tests.component.sim.servers import free_port
from tests.support.live_policies import policy, status
from tests.support.programs import run

FORBIDDEN = (
    'specpolicies.specloop.dev is forbidden: User "alice" cannot list resource "specpolicies" '
    'in API group "specloop.dev" in the namespace "llm"'
)


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        (Refusal("GET", 404), "the cluster does not know SpecPolicy: install it by specloop crd | kubectl apply -f -"),
        (Refusal("GET", 401, "Unauthorized"), "does not accept the credentials of the kubeconfig: log in again"),
        (
            Refusal("GET", 403, FORBIDDEN),
            'not permitted to list specpolicies.specloop.dev in namespace llm: User "alice" cannot list',
        ),
        (Refusal("GET", 500, "etcd is away"), "500 etcd is away"),
        (Refusal("GET", 429, "too many requests"), "429 too many requests"),
        (Refusal("GET", 200, headers={"Content-Type": "text/html"}), "cannot read what http://127.0.0.1"),
        (
            Refusal("GET", 200, headers={"Content-Type": "application/json"}),
            "does not answer as a Kubernetes API server does",
        ),
    ],
)
def test_a_refusal_of_the_server_is_one_line(
    server: ApiServer, terminal: Terminal, refusal: Refusal, words: str
) -> None:
    """With the server's own words where it has any."""
    server.refusals.append(refusal)
    assert words in terminal.refusal("status")


def test_a_missing_permission_to_write_is_named(server: ApiServer, terminal: Terminal) -> None:
    """Reading may be allowed and writing not."""
    server.add(policy(status=status()))
    server.refusals.append(Refusal("PATCH", 403, 'User "alice" cannot patch resource "specpolicies"'))
    words = 'not permitted to patch specpolicies.specloop.dev in namespace llm: User "alice" cannot patch'
    assert words in terminal.refusal("override", "chat-70b", "k5")


def test_a_server_that_names_a_time_is_asked_again_then(server: ApiServer, terminal: Terminal) -> None:
    """As kubectl does; right after the CRD's creation the real one answers so."""
    server.refusals.append(Refusal("GET", 429, "storage is (re)initializing", {"Retry-After": "1"}))
    assert terminal.run("status")[0] == 0


def test_a_cluster_that_is_away_is_one_line(server: ApiServer, terminal: Terminal, tmp_path: Path) -> None:
    """Nobody listens there."""
    server.url = f"http://127.0.0.1:{free_port()}"
    server.kubeconfig(tmp_path)
    assert "cannot reach the cluster at http://127.0.0.1:" in terminal.refusal("status")


def test_a_server_that_speaks_no_tls_is_one_line(server: ApiServer, terminal: Terminal, tmp_path: Path) -> None:
    """The port is the right one, the scheme is not."""
    server.url = server.url.replace("http:", "https:")
    server.kubeconfig(tmp_path, **{"insecure-skip-tls-verify": True})
    assert "cannot reach the cluster at https://127.0.0.1:" in terminal.refusal("status")


def test_an_answer_that_is_no_list_of_policies_is_one_line(server: ApiServer, terminal: Terminal) -> None:
    """Some other program listens there, or a release that is much newer."""
    server.add(policy(status=status(decisions=[{"action": "Teleport"}])))
    assert "items.0.status.decisions.0" in terminal.refusal("status")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "there is no such file; name one by --kubeconfig, or by KUBECONFIG"),
        ("", "file is empty"),
        ("{", "while parsing"),
        ("[]", ""),
        ("text", ""),
        ("{}", "Expected key current-context"),
        ("current-context: x\ncontexts: []\nclusters: []\n", "Expected object with name x"),
    ],
)
def test_a_kubeconfig_that_leads_nowhere_is_one_line(terminal: Terminal, content: str | None, words: str) -> None:
    """It names the file."""
    path = Path(terminal.kubeconfig)
    path.unlink() if content is None else path.write_text(content)
    refusal = terminal.refusal("status")
    assert refusal.startswith(f"kubeconfig {path}: ")
    assert words in refusal


def test_a_server_without_a_scheme_is_one_line(server: ApiServer, terminal: Terminal, tmp_path: Path) -> None:
    """It is not guessed whether what is sent there, a token among it, may be read on the way."""
    server.url = server.url.removeprefix("http://")
    server.kubeconfig(tmp_path)
    assert terminal.refusal("status").endswith(f"server {server.url}: begin it with https://")


def test_an_unknown_context_is_one_line(terminal: Terminal) -> None:
    """The client's words name it."""
    assert "Expected object with name nowhere" in terminal.refusal("status", "--context", "nowhere")


def changed(path: str, change: Callable[[Any], None]) -> None:
    """Edit a kubeconfig."""
    document = yaml.safe_load(Path(path).read_text())
    change(document)
    Path(path).write_text(yaml.safe_dump(document))


def test_a_credential_plugin_that_fails_is_one_line(terminal: Terminal) -> None:
    """Its last words are shown: often they say how to log in."""
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", "import sys; sys.exit('run cloud login')"],
    }
    changed(terminal.kubeconfig, lambda document: document["users"][0].update(user={"exec": plugin}))
    assert "run cloud login" in terminal.refusal("status")


def test_a_certificate_that_is_not_there_is_one_line(terminal: Terminal, server: ApiServer, tmp_path: Path) -> None:
    """Its path is relative to the kubeconfig."""
    server.url = "https://127.0.0.1:1"
    server.kubeconfig(tmp_path, **{"certificate-authority": "ca.crt"})
    assert f"File does not exist: {tmp_path / 'ca.crt'}" in terminal.refusal("status")


def test_the_environment_names_the_kubeconfig_as_for_kubectl(server: ApiServer, tmp_path: Path) -> None:
    """In a process of its own: nothing else comes to stderr, and nothing has colours."""
    server.add(policy(status=status()))
    code, out, err = run("status", environment={"KUBECONFIG": server.kubeconfig(tmp_path), "HOME": str(tmp_path)})
    assert (code, err) == (0, "")
    assert "chat-70b" in out
    assert "\x1b" not in out
