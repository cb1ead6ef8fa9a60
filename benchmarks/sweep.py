"""How long a sweep takes: 500 candidates over a trace, such as an hour of the Azure 2023 conversation trace.

    python benchmarks/sweep.py [--trace FILE] [-o json] [--policy FILE] [--trials 500] [--jobs 2]

The policy is, unless another is given, one with K = 5 and 3 of a draft model, a lookup, and the field report's rules.
Memory is the peak of the largest process.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TRACE = Path(__file__).parent / "traces" / "azure-2023-conv.csv.gz"
POLICY = {
    "apiVersion": "specloop.dev/v1alpha1",
    "kind": "SpecPolicy",
    "metadata": {"name": "chat-70b"},
    "spec": {
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "llama-70b"},
        "drafters": [
            {"name": "small", "method": "draft_model", "model": "meta-llama/Llama-3.2-1B-Instruct"},
            {"name": "lookup", "method": "ngram", "lookupMin": 2, "lookupMax": 4},
        ],
        "levels": [
            {"name": "k5", "drafter": "small", "tokens": 5},
            {"name": "k3", "drafter": "small", "tokens": 3},
            {"name": "ngram", "drafter": "lookup", "tokens": 4},
            {"name": "disabled"},
        ],
    },
}


def sweep(policy: str, trace: str, trials: int, jobs: int) -> dict[str, float]:
    """Sweep once, as a user does, and say how long that took and what it needed."""
    command = [sys.executable, "-m", "specloop_cli", "sweep", "--policy", policy, "--trace", trace, "-o", "json"]
    began = time.perf_counter()
    done = subprocess.run([*command, "--trials", str(trials), "--jobs", str(jobs)], stdout=subprocess.PIPE, check=True)
    seconds = time.perf_counter() - began
    answer = json.loads(done.stdout)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "sweepSeconds": round(seconds, 1),
        "candidates": answer["trials"],
        "candidatesPerSecond": round(answer["trials"] / seconds, 2),
        "cpuSeconds": round(used.ru_utime + used.ru_stime, 1),
        "peakMegabytes": round(used.ru_maxrss / 1e3, 1),
        "jobs": jobs,
        "requests": answer["traces"][0]["requests"],
    }


def main() -> None:
    """Measure, and print a table or one line of JSON."""
    parser = argparse.ArgumentParser(description="Seconds to try 500 candidates.")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.add_argument("--trace", default=str(TRACE))
    parser.add_argument("--policy")
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policy.json"
        path.write_text(json.dumps(POLICY))
        figures = sweep(given.policy or str(path), given.trace, given.trials, given.jobs)
    if given.output == "json":
        print(json.dumps(figures))
        return
    for name, figure in figures.items():
        print(f"{name:20} {figure:12,.10g}")


if __name__ == "__main__":
    main()
