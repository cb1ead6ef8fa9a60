"""The documents say what the code does."""

import re
from pathlib import Path

from specloop_cli.main import app
from specloop_policy.rollout import rollout_table

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def test_the_roll_out_plan_in_the_docs_is_the_one_in_the_code() -> None:
    assert rollout_table() in (ROOT / "docs" / "architecture.md").read_text()


def test_links_between_documents_lead_somewhere() -> None:
    broken = [
        f"{document.relative_to(ROOT)}: {target}"
        for document in DOCUMENTS
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text())
        if "://" not in target and not (document.parent / target).exists()
    ]
    assert broken == []


def test_the_commands_in_the_readme_exist() -> None:
    known = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    named = set(re.findall(r"^specloop (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE))
    assert named
    assert named <= known


def test_the_layout_in_the_readme_is_the_one_on_disk() -> None:
    text = (ROOT / "README.md").read_text()
    for folder in ("policies/", "operator/", "simulator/", "crds/", "docs/", "tests/", "benchmarks/"):
        assert f"`{folder}`" in text
        assert (ROOT / folder).is_dir()
