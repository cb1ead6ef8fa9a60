"""How long people wait for the command line: `specloop --help`, and the demo on its virtual clock.

python -P benchmarks/command_line.py [-o json]
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

RUNS = 5


def seconds_of(*arguments: str, runs: int) -> float:
    """Median seconds of a whole process."""
    taken = []
    for _ in range(runs):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "specloop_cli", *arguments], check=True, stdout=subprocess.DEVNULL)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    wanted = parser.parse_args().output
    bare = []
    for _ in range(RUNS):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        bare.append(time.perf_counter() - began)
    figures = {
        "barePythonSeconds": round(statistics.median(bare), 3),
        "helpSeconds": round(seconds_of("--help", runs=RUNS), 3),
        "demoFastSeconds": round(seconds_of("demo", "--fast", runs=1), 2),
    }
    if wanted == "json":
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:20} {value:8.3f}")


if __name__ == "__main__":
    main()
