"""The command line before an API server of the test's own."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from specloop_cli.main import main
from tests.component.cluster_cli.api_server import ApiServer, api_server


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """A server without any policy."""
    with api_server() as found:
        yield found


@dataclass(frozen=True)
class Terminal:
    """A user before the command line, whose kubeconfig leads to the server."""

    kubeconfig: str
    capture: pytest.CaptureFixture[str]

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr."""
        code = main([*arguments, "--kubeconfig", self.kubeconfig])
        out, err = self.capture.readouterr()
        return code, out, err

    def document(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        """The JSON document of a command that ends so."""
        ended, out, err = self.run(*arguments, "-o", "json")
        assert ended == code, err
        found: dict[str, Any] = json.loads(out)
        return found

    def refusal(self, *arguments: str) -> str:
        """The one line on stderr of a command that cannot do what it is asked."""
        code, out, err = self.run(*arguments)
        assert (code, out) == (2, "")
        assert err.startswith("specloop: ")
        assert err.count("\n") == 1
        return err.removeprefix("specloop: ").rstrip("\n")


@pytest.fixture
def terminal(server: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Terminal:
    """A user whose kubeconfig leads to the server."""
    return Terminal(server.kubeconfig(tmp_path), capsys)
