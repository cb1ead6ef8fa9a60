"""`explain`: the command line with files of its own."""

from pathlib import Path

import pytest

from tests.unit.explain.calls import Explain


@pytest.fixture
def explain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Explain:
    return Explain(tmp_path, capsys)
