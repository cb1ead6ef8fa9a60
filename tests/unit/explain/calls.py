"""Calls of `specloop explain` with pages made from counts, and what it answers."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from specloop_cli.main import main
from tests.support.pages import Counted, page
from tests.support.policies import DRAFTERS, LEVELS, TARGET

RECORDED = Path(__file__).parents[1] / "engine_metrics" / "pages"

Source = Counted | str | Path
"""A page: what a process has counted, the page's text, or a file."""

DECLARED: dict[str, Any] = {"drafters": DRAFTERS, "levels": LEVELS}
"""Levels k5, k3, ngram (K = 4) and disabled."""


@dataclass
class Explain:
    """The command line, run in this process; files are written to `folder`."""

    folder: Path
    capture: pytest.CaptureFixture[str]

    def policy(self, **spec: Any) -> str:
        """A file with a policy of these fields besides its target."""
        path = self.folder / "policy.yaml"
        head = {"apiVersion": "specloop.dev/v1alpha1", "kind": "SpecPolicy", "metadata": {"name": "chat-70b"}}
        path.write_text(json.dumps({**head, "spec": {"targetRef": TARGET, **spec}}))
        return str(path)

    def file(self, name: str, source: Source) -> str:
        """A file with a page."""
        if isinstance(source, Path):
            return str(source)
        path = self.folder / name
        path.write_text(source if isinstance(source, str) else page(source))
        return str(path)

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of a call."""
        code = main(["explain", *arguments])
        captured = self.capture.readouterr()
        return code, captured.out, captured.err

    def arguments(self, pods: Mapping[str, tuple[Source, Source]], policy: Mapping[str, Any] | None) -> list[str]:
        """Arguments for pages by pod; the pod "" has its pages given without a name."""
        found = ["--policy", self.policy(**(policy or {})), "--elapsed", "300"]
        for pod, pair in pods.items():
            for when, source in zip(("before", "after"), pair, strict=True):
                file = self.file(f"{pod}-{when}.txt", source)
                found += ["--metrics", f"{pod}={file}" if pod else file]
        return found

    def pods(
        self, pods: Mapping[str, tuple[Source, Source]], *more: str, policy: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The answer about several pods, which must come with exit code 0 and nothing on stderr."""
        code, out, err = self.run(*self.arguments(pods, policy), "-o", "json", *more)
        assert (code, err) == (0, "")
        answer: dict[str, Any] = json.loads(out)
        return answer

    def __call__(
        self, before: Source, after: Source, *more: str, policy: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The answer about one process."""
        return self.pods({"": (before, after)}, *more, policy=policy)

    def text(self, before: Source, after: Source, *more: str, policy: Mapping[str, Any] | None = None) -> str:
        """The answer for people about one process."""
        code, out, err = self.run(*self.arguments({"": (before, after)}, policy), *more)
        assert (code, err) == (0, "")
        return out

    def refusal(self, *arguments: str) -> str:
        """The one line on stderr of a call that must end with exit code 2 and print nothing else."""
        code, out, err = self.run(*arguments)
        assert (code, out) == (2, "")
        assert err.startswith("specloop: ")
        assert err.endswith("\n")
        assert err.count("\n") == 1
        assert "Traceback" not in err
        return err.removeprefix("specloop: ").rstrip("\n")


def decision(answer: Mapping[str, Any], key: str = "now") -> tuple[str, str | None, str | None]:
    """Action, level and rule of a decision."""
    found = answer[key]
    return found["action"], found["level"], found["rule"]
