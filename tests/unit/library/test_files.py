"""The files of the policy library: each is valid, says what it is for, and has its place in the docs."""

import re
from pathlib import Path

import pytest

from specloop_cli.policy_file import read_files
from specloop_policy.model import Mode
from specloop_sim.profile_file import load_profile
from specloop_sim.workload import load_workload

ROOT = Path(__file__).resolve().parents[3]
LIBRARY = ROOT / "policies" / "library"
FILES = sorted(LIBRARY.glob("*.yaml"))
NAMES = [file.stem for file in FILES]
SITUATIONS = {
    *("acceptance-ladder", "temperature-guard", "structured-output", "prose", "ngram-summaries", "memory-saver"),
    *("nightly-batch", "alert-driven", "recommend-only"),
}


def test_there_is_a_policy_for_each_situation() -> None:
    assert set(NAMES) == SITUATIONS


def test_check_finds_no_mistake_and_nothing_to_warn_of_in_all_of_them_together() -> None:
    reports = read_files([str(file) for file in FILES])
    assert [(one.path, one.errors, one.warnings) for one in reports if one.errors or one.warnings] == []


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_a_file_holds_one_policy_of_its_own_name_for_a_target_to_be_filled_in(file: Path) -> None:
    (report,) = read_files([str(file)])
    (found,) = report.found
    assert found.policy is not None
    assert found.policy.metadata.name == file.stem
    assert found.policy.spec.target_ref.name.startswith("your-")


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_a_file_begins_with_three_to_eight_lines_that_say_for_whom_and_at_what_cost(file: Path) -> None:
    lines = file.read_text(encoding="utf-8").splitlines()
    comment = lines[: next(place for place, line in enumerate(lines) if not line.startswith("#"))]
    assert 3 <= len(comment) <= 8
    assert comment[0].startswith("# For ")
    assert any(re.search(r"\bcosts?\b", line) for line in comment)


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_all_but_recommend_only_act(file: Path) -> None:
    (report,) = read_files([str(file)])
    (found,) = report.found
    assert found.policy is not None
    assert (found.policy.spec.mode is Mode.ENFORCE) == (file.stem != "recommend-only")


def test_every_trial_is_a_workload_for_a_policy_or_the_profile_of_one() -> None:
    for file in sorted((LIBRARY / "trials").glob("*.yaml")):
        text = file.read_text(encoding="utf-8")
        if file.stem == "large-draft-profile":
            load_profile(text, file.name)
            continue
        assert file.stem in SITUATIONS
        workload = load_workload(text, file.name)
        assert workload.source
        assert workload.description
        assert workload.traffic is not None


def test_the_page_about_the_library_names_every_file() -> None:
    page = (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")
    assert [name for name in NAMES if f"policies/library/{name}.yaml" not in page] == []
