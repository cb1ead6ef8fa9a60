"""vLLM's schedulers with a look before each step, over classes like vLLM's, each in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = """
import json, logging, sys
from pathlib import Path
from types import SimpleNamespace

logging.basicConfig(format="%(message)s", stream=sys.stderr)
import specloop_vllm

given = json.loads(sys.argv[1])
config = SimpleNamespace(
    speculative_config=SimpleNamespace(method="draft_model", model="small") if given["speculates"] else None,
    parallel_config=SimpleNamespace(data_parallel_size=given["ranks"], _api_process_count=given["servers"]),
    scheduler_config=SimpleNamespace(max_num_seqs=8, async_scheduling=given["async"]),
    table=given["table"],
    renamed=given["renamed"],
)
scheduler = getattr(specloop_vllm, given["scheduler"])(config)
steps = [scheduler.schedule()]
folder = Path(given["folder"])
for wish in given["wishes"]:
    profile = json.loads((folder / "applied.json").read_text())["profile"]
    (folder / "desired.json").write_text(json.dumps({"profile": profile["hash"], **wish}))
    scheduler._steering._next_look = 0.0
    steps.append(scheduler.schedule())
print(json.dumps(steps))
"""


def run(folder: Path, *, place: Path | None = None, named: bool = True, **given: Any) -> tuple[list[int], str]:
    """K of each step, the first before any wish, and what was logged."""
    values = {
        "speculates": True, "ranks": 1, "servers": 1, "async": True, "table": True, "renamed": False,
        "scheduler": "LiveAsyncScheduler", "wishes": [], "folder": str(folder), **given,
    }  # fmt: skip
    path = os.pathsep.join((str(ROOT / "operator"), str(ROOT / "tests" / "support" / "like_vllm")))
    own = {"PYTHONPATH": path, **({"SPECLOOP_LIVE_FOLDER": str(place or folder)} if named else {})}
    command = [sys.executable, "-c", PROGRAM, json.dumps(values)]
    result = subprocess.run(command, env={**os.environ, **own}, capture_output=True, text=True, cwd=folder)
    assert result.returncode == 0, result.stderr
    steps: list[int] = json.loads(result.stdout)
    return steps, result.stderr


def test_each_step_has_the_k_that_is_wanted_by_then(tmp_path: Path) -> None:
    wishes = [{"generation": 1, "k": 2}, {"generation": 2, "k": 0}, {"generation": 3, "table": [[1, 2, 5], [3, 8, 1]]}]
    assert run(tmp_path, wishes=wishes) == ([5, 2, 0, 1], "")


def test_a_wish_of_before_is_in_force_at_the_first_step(tmp_path: Path) -> None:
    run(tmp_path, wishes=[{"generation": 1, "k": 2}])
    assert run(tmp_path) == ([2], "")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"speculates": False}, "started without speculation"),
        ({"ranks": 2}, "data parallelism"),
        ({"servers": 2}, "--api-server-count 1"),
        ({"table": False}, "num_speculative_tokens_per_batch_size"),
        ({"table": False, "renamed": True}, "dynamic_sd_lookup"),
        ({"scheduler": "LiveScheduler"}, "--scheduler-cls specloop_vllm.LiveAsyncScheduler"),
        ({"async": False}, "--scheduler-cls specloop_vllm.LiveScheduler"),
    ],
)
def test_where_there_can_be_no_control_it_steps_as_without_and_says_why(
    tmp_path: Path, given: dict[str, Any], words: str
) -> None:
    """Once in the log, and in applied.json for whoever asks."""
    steps, log = run(tmp_path, **given)
    assert steps == [5]
    assert log.count("SpecLoop: live control is off") == 1
    said = json.loads((tmp_path / "applied.json").read_text())
    assert words in said["error"]
    assert said["profile"] is None


def test_without_a_folder_it_steps_as_without(tmp_path: Path) -> None:
    steps, log = run(tmp_path, named=False)
    assert steps == [5]
    assert "SPECLOOP_LIVE_FOLDER names no folder" in log


def test_a_folder_that_cannot_be_had_costs_no_step(tmp_path: Path) -> None:
    """A file stands in its place."""
    place = tmp_path / "file"
    place.write_text("")
    steps, log = run(tmp_path, place=place)
    assert steps == [5]
    assert "live control is off" in log
