"""The page on threats names tests that there are."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[^`]+)`", PAGE)))


def functions(path: Path) -> set[str]:
    """Names of the tests in a file, those of classes too."""
    found = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {one.name for one in found if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("named", NAMED)
def test_a_test_that_the_page_names_exists(named: str) -> None:
    """By file and function, by file, or by folder with tests in it."""
    place, _, test = named.partition("::")
    path = ROOT / place
    if path.is_dir():
        assert list(path.glob("test_*.py"))
    else:
        assert path.is_file()
        assert not test or test in functions(path)


def test_every_attack_has_a_test() -> None:
    """Each row of the tables of attacks ends with one."""
    parts = [part for part in re.split(r"^## ", PAGE, flags=re.MULTILINE) if part.startswith("Attacks")]
    lines = [line for part in parts for line in part.splitlines()]
    rows = [line for line in lines if line.startswith("| ") and not line.startswith("| attack |")]
    assert len(rows) > 20
    assert [row for row in rows if "`tests/" not in row.rpartition(" | ")[2]] == []


def test_every_test_of_an_attack_is_on_the_page() -> None:
    """So that the page stays whole: a file of tests on threats is named, in one row or another."""
    files = [*ROOT.glob("tests/unit/threats/test_*.py"), *ROOT.glob("tests/component/threats/test_*.py")]
    assert len(files) > 8
    known = {named.partition("::")[0] for named in NAMED}
    unknown = {str(file.relative_to(ROOT)) for file in files} - known
    assert unknown == {str(Path(__file__).relative_to(ROOT))}
