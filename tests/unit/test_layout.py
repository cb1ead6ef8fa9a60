"""The folder operator/ must neither hide the standard library's module nor lose a package of ours."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE_FOLDERS = ("policies", "operator", "simulator")
IN_EACH_SOURCE_FOLDER = pytest.mark.parametrize("folder", SOURCE_FOLDERS)


@IN_EACH_SOURCE_FOLDER
def test_a_source_folder_is_no_package_and_holds_no_loose_modules(folder: str) -> None:
    assert list((ROOT / folder).glob("*.py")) == []


@IN_EACH_SOURCE_FOLDER
def test_a_source_folder_holds_no_tests(folder: str) -> None:
    found = [path for name in ("test_*.py", "*_test.py", "conftest.py") for path in (ROOT / folder).rglob(name)]
    assert found == []
    assert [path for path in (ROOT / folder).rglob("tests") if path.is_dir()] == []


def test_no_folder_of_tests_is_named_operator() -> None:
    assert not (ROOT / "tests" / "operator").exists()


def test_every_folder_that_leads_to_a_test_is_a_package() -> None:
    modules = (ROOT / "tests").rglob("*.py")
    folders = {folder for module in modules for folder in module.parents if folder.is_relative_to(ROOT / "tests")}
    assert [folder for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []


def test_python_started_in_the_root_finds_the_standard_operator_module() -> None:
    """PYTHONSAFEPATH would take the root off the import path, and with it the reason for this test."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONSAFEPATH", "PYTHONPATH")}
    program = "import operator; operator.add(1, 2); print(operator.__file__)"
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert Path(result.stdout.strip()) == Path(os.__file__).with_name("operator.py")


def test_the_wheel_names_every_package_on_disk() -> None:
    assert sorted(project()["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) == packages_on_disk()


def test_every_package_is_type_checked() -> None:
    assert set(packages_on_disk()) | {"tests"} <= set(project()["tool"]["mypy"]["files"])


def test_every_package_is_under_the_import_rules() -> None:
    names = {Path(package).name for package in packages_on_disk()}
    assert names == set(project()["tool"]["importlinter"]["root_packages"])


def packages_on_disk() -> list[str]:
    """Folders right under a source folder that hold Python modules, with an `__init__.py` or without."""
    folders = (path for folder in SOURCE_FOLDERS for path in (ROOT / folder).iterdir() if any(path.glob("*.py")))
    return sorted(str(path.relative_to(ROOT)) for path in folders)


def project() -> dict[str, Any]:
    """The project's own description."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
