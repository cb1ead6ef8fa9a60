"""`specloop crd` prints what lies in crds/."""

import json
from pathlib import Path

import pytest
import yaml

from specloop_cli.main import main
from specloop_policy.crd import crd

FILE = Path(__file__).resolve().parents[3] / "crds" / "specpolicies.specloop.dev.yaml"


def test_the_file_in_crds_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    """When this fails: `make crd docs`."""
    assert main(["crd"]) == 0
    assert capsys.readouterr().out == FILE.read_text(encoding="utf-8")


def test_json_says_the_same_as_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crd", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == crd() == yaml.safe_load(FILE.read_text(encoding="utf-8"))
