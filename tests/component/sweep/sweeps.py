"""A policy and a trace small enough to sweep in a test, and `specloop sweep` as a process."""

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

POLICY: dict[str, Any] = {
    "apiVersion": "specloop.dev/v1alpha1",
    "kind": "SpecPolicy",
    "metadata": {"name": "chat", "labels": {"team": "a"}},
    "spec": {
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
        "intervalSeconds": 5,
        "drafters": [{"name": "small", "method": "draft_model", "model": "m"}],
        "levels": [
            {"name": "k5", "drafter": "small", "tokens": 5},
            {"name": "k3", "drafter": "small", "tokens": 3},
            {"name": "disabled"},
        ],
        "signals": {"windowSeconds": 20, "maxEvidenceSeconds": 120, "settleSeconds": 10, "minRequests": 20},
        "rules": [
            {
                "name": "low",
                "when": {"acceptance": {"belowPercent": 40}},
                "forSeconds": 40,
                "action": {"type": "StepDown"},
            }
        ],
        "guardrails": {"cooldownSeconds": 60},
    },
}
"""Steps down below 40 %, within two minutes of traffic; prose has 34 % at K = 5."""
VARY = ("--vary", "rules.low.when.acceptance.belowPercent=5..60:5", "--vary", "rules.low.forSeconds=20,40,60")
"""12 x 3 combinations."""


def write_policy(folder: Path) -> Path:
    """The policy as a file."""
    path = folder / "chat.yaml"
    path.write_text(yaml.safe_dump(POLICY))
    return path


def write_trace(folder: Path, name: str = "trace.csv", *, seed: int = 5, count: int = 500) -> Path:
    """Two requests a second at random moments, with answers of 1 to 300 tokens."""
    chance, seconds, rows = random.Random(seed), 0.0, ["time,input,output"]
    for _ in range(count):
        rows.append(f"{seconds:.3f},300,{chance.randint(1, 300)}")
        seconds += chance.expovariate(2.0)
    path = folder / name
    path.write_text("\n".join(rows) + "\n")
    return path


def arguments(folder: Path, *more: str) -> list[str]:
    """A sweep over policy and trace in a folder; changes are live, for a restart takes longer than the trace."""
    columns = "time=time,input=input,output=output,unit=s"
    files = ["--policy", str(folder / "chat.yaml"), "--trace", str(folder / "trace.csv")]
    return ["sweep", *files, "--columns", columns, "--live", "--without-step-times", *more]


def start(folder: Path, *more: str) -> "subprocess.Popen[str]":
    """`specloop sweep` as the first process of a group, as a shell starts it."""
    command = [sys.executable, "-m", "specloop_cli", *arguments(folder, *more)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def sweep(folder: Path, *more: str) -> str:
    """What `specloop sweep` prints when all is well."""
    process = start(folder, *more)
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    return out


def answer(text: str) -> dict[str, Any]:
    """An answer in JSON without what differs from call to call."""
    found: dict[str, Any] = json.loads(text)
    assert found.pop("wallSeconds") > 0
    return found
