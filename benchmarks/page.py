"""How long a metrics page takes: as it is read here, and by the other ways there are."""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console
from rich.table import Table

from specloop_engine.page import parse_page
from specloop_engine.reader import read_sample, wanted_series

PAGES = Path(__file__).parents[1] / "tests" / "unit" / "engine_metrics" / "pages"
REPEATS = 50


def main() -> None:
    """Print a table, or one line of JSON for the recorded page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    output = parser.parse_args().output
    page = (PAGES / "vllm-0.32.0-ngram.txt").read_text(encoding="utf-8")
    if output == "json":
        figures = {
            "pageMilliseconds": round(milliseconds(lambda: read_sample(page, 0.0)), 3),
            "pageKilobytes": round(len(page) / 1000.0, 1),
            "fullParseMilliseconds": round(milliseconds(lambda: parse_all(page)), 3),
        }
        print(json.dumps(figures))
        return
    table = Table("page", "kB", "way", "ms", title="One page of metrics, median of 50")
    for name, text in (("vLLM 0.32.0, n-gram", page), ("the same with four ranks", with_ranks(page, 4))):
        for way, read in WAYS.items():
            table.add_row(name, f"{len(text) / 1000.0:.0f}", way, f"{milliseconds(lambda: read(text)):.2f}")  # noqa: B023
    Console().print(table)


def parse_all(page: str) -> None:
    """prometheus_client on every line."""
    list(text_string_to_metric_families(page))


def filter_by_prefix(page: str) -> None:
    """Wanted lines by str.startswith, then prometheus_client on them."""
    names = tuple(wanted_series())
    parse_all("\n".join(line for line in page.split("\n") if line.startswith(names)))


WAYS: dict[str, Callable[[str], object]] = {
    "read_sample: the page, and what it says of the engine": lambda page: read_sample(page, 0.0),
    "parse_page: regular expression, prometheus_client, checks": lambda page: parse_page(page, wanted_series()),
    "startswith, prometheus_client, no checks": filter_by_prefix,
    "prometheus_client on the whole page": parse_all,
}


def with_ranks(page: str, ranks: int) -> str:
    """The page of a process with several engine ranks."""
    own = "".join(line for line in page.splitlines(keepends=True) if 'engine="0"' in line)
    return page + "".join(own.replace('engine="0"', f'engine="{rank}"') for rank in range(1, ranks))


def milliseconds(call: Callable[[], object]) -> float:
    """Median time of a call."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1000.0 * statistics.median(times)


if __name__ == "__main__":
    main()
