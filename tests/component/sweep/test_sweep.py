"""`specloop sweep` as its users run it: the same answer whatever happens on the way."""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from specloop_cli.main import main
from tests.component.sweep.sweeps import POLICY, VARY, answer, start, sweep, write_policy, write_trace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

GUIDED = (*VARY, "--trials", "24", "-o", "json")
PATIENCE_SECONDS = 120.0
"""How long a machine with other things to do may take for a few runs."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy and a trace."""
    made = tmp_path_factory.mktemp("sweep")
    write_policy(made)
    write_trace(made)
    return made


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, Any]:
    """The answer of one process that nobody disturbed."""
    return answer(sweep(folder, *GUIDED, "--jobs", "1"))


def wait_for_lines(path: Path, count: int, process: "subprocess.Popen[str]") -> None:
    """Until a study has so many lines."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not path.exists() or path.read_bytes().count(b"\n") < count:
        assert process.poll() is None, "it ended before anybody could disturb it"
        assert time.monotonic() < deadline
        time.sleep(0.02)


def wait_until_gone(group: int) -> None:
    """Until no process of a group is left."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise AssertionError("processes are left")


def test_the_answer_has_what_was_tried_and_what_it_is_worth(found: dict[str, Any]) -> None:
    assert found["policy"] == "chat"
    assert [one["requests"] for one in found["traces"]] == [500]
    assert found["trials"] == len(found["candidates"])
    assert 24 <= found["trials"] <= 26, "at the end the best one is tried with each of its two fields as it was"
    assert found["candidates"][0]["parameters"] == {
        "rules.low.when.acceptance.belowPercent": 40,
        "rules.low.forSeconds": 40,
    }
    assert len({tuple(one["parameters"].values()) for one in found["candidates"]}) == found["trials"]
    off = found["baseline"]["meanRequestSeconds"]
    for one in found["candidates"]:
        assert one["speedPercent"] == pytest.approx(100 * (1 - one["meanRequestSeconds"] / off))
    assert sum(one["best"] for one in found["candidates"]) == 1
    assert found["best"]["changes"] <= found["given"]["changes"]
    assert found["best"]["speedPercent"] >= found["given"]["speedPercent"]
    assert any("alone: try it on other traffic" in one for one in found["said"])


def test_limits_that_prose_never_meets_keep_the_level(found: dict[str, Any]) -> None:
    changes = {
        limit: {
            one["changes"]
            for one in found["candidates"]
            if one["parameters"]["rules.low.when.acceptance.belowPercent"] in limit
        }
        for limit in (range(31), range(40, 61))
    }
    assert changes[range(31)] == {0}, "prose is accepted at 34 %"
    assert min(changes[range(40, 61)]) > 0


def test_two_processes_say_the_same_as_one(folder: Path, found: dict[str, Any]) -> None:
    assert answer(sweep(folder, *GUIDED, "--jobs", "2")) == found


def test_a_sweep_that_was_killed_goes_on_and_comes_to_the_same(folder: Path, found: dict[str, Any]) -> None:
    study = folder / "killed.jsonl"
    process = start(folder, *GUIDED, "--jobs", "2", "--study", str(study))
    wait_for_lines(study, 6, process)
    process.kill()
    process.communicate()
    wait_until_gone(process.pid)
    study.write_bytes(study.read_bytes()[:-7])  # the last line was not finished
    kept = study.read_bytes().rpartition(b"\n")[0]
    assert answer(sweep(folder, *GUIDED, "--jobs", "2", "--study", str(study))) == found
    assert study.read_bytes().startswith(kept), "what was there is still there"
    assert study.read_bytes().count(b"\n") == 1 + 1 + found["trials"], (
        "a header, speculation off, and every candidate once"
    )


@pytest.mark.parametrize("lines", [1, 4], ids=["while workers start", "while they work"])
def test_ctrl_c_ends_everything_keeps_what_ended_and_says_how_to_go_on(
    folder: Path, found: dict[str, Any], lines: int
) -> None:
    study = folder / f"interrupted-{lines}.jsonl"
    process = start(folder, *GUIDED, "--jobs", "2", "--study", str(study))
    wait_for_lines(study, lines, process)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, out) == (130, "")
    kept = study.read_bytes().count(b"\n") - 1
    assert err == f"specloop: interrupted; {kept} runs are kept in {study}, and the same command goes on from there\n"
    wait_until_gone(process.pid)
    assert answer(sweep(folder, *GUIDED, "--study", str(study))) == found


def test_a_study_of_another_sweep_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = folder / "other.jsonl"
    sweep(folder, "--vary", "rules.low.forSeconds=40", "--study", str(study))
    process = start(folder, "--vary", "rules.low.forSeconds=40", "--study", str(study), "--seed", "2")
    _, err = process.communicate()
    assert process.returncode == 2
    assert "seed is 1 there and 2 here" in err
    assert err.count("\n") == 1


def test_the_best_policy_is_written_out_and_passes_check(folder: Path, found: dict[str, Any]) -> None:
    best, page = folder / "best.yaml", folder / "page.html"
    text = sweep(folder, *VARY, "--trials", "24", "--out", str(best), "--report", str(page))
    assert "no other that is faster without more changes" in text
    assert main(["check", str(best)]) == 0
    written = yaml.safe_load(best.read_text())
    values = found["best"]["parameters"]
    assert (
        written["spec"]["rules"][0]["when"]["acceptance"]["belowPercent"]
        == values["rules.low.when.acceptance.belowPercent"]
    )
    assert written["metadata"] == POLICY["metadata"]
    assert best.read_text().startswith("# Written by specloop ")
    assert "<svg" in page.read_text()


def test_the_whole_grid_is_tried_once(folder: Path) -> None:
    grid = answer(sweep(folder, "--vary", "rules.low.when.acceptance.belowPercent=30..60:10", "--grid", "-o", "json"))
    tried = [one["parameters"]["rules.low.when.acceptance.belowPercent"] for one in grid["candidates"]]
    assert tried == [40, 30, 50, 60], "the policy as it is comes first"
    assert "Every combination was tried: 4." in grid["said"]


def test_the_last_trace_judges_what_was_fitted_to_the_others(folder: Path) -> None:
    write_trace(folder, "second.csv", seed=6)
    more = ("--trace", str(folder / "second.csv"), "--hold-out", *VARY, "--trials", "8", "-o", "json")
    both = answer(sweep(folder, *more))
    assert [one["heldOut"] for one in both["traces"]] == [False, True]
    assert both["heldOut"]["trace"].endswith("second.csv")
    assert any("second.csv, to which nothing was fitted" in one for one in both["said"])
    # the policy as it is on the held-out trace alone, in a sweep of its own
    (folder / "swapped").mkdir()
    write_policy(folder / "swapped")
    write_trace(folder / "swapped", seed=6)
    alone = answer(sweep(folder / "swapped", "--vary", "rules.low.forSeconds=40", "-o", "json"))
    assert both["heldOut"]["given"]["speedPercent"] == alone["given"]["speedPercent"]


def test_combinations_that_contradict_themselves_are_counted(folder: Path) -> None:
    fields = ("signals.windowSeconds=20,200", "signals.maxEvidenceSeconds=120,240")
    found = answer(sweep(folder, "--vary", fields[0], "--vary", fields[1], "-o", "json"))
    assert (found["trials"], found["skipped"]) == (3, 1)
    assert any(
        "1 combination is no policy and left out" in one and "maxEvidenceSeconds" in one for one in found["said"]
    )
