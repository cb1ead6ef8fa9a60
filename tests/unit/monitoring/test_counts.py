"""What several jobs scrape, as two monitors that both find a pod, counts once."""

import re
from pathlib import Path

import pytest

from tests.unit.monitoring.known import SCRAPED, all_series
from tests.unit.monitoring.promql import read
from tests.unit.monitoring.shipped import dashboard_queries, rules

QUERIES = {
    **{f"rule {rule.get('record') or rule['alert']}": rule["expr"] for rule in rules()},
    **{f"panel {place}": query for place, query in dashboard_queries()},
}
SCRAPERS = frozenset({"job", "instance"})
"""Labels in which a pod's series differ by who scraped them."""

ADDED_UP = re.compile(r"\b(?:sum|count|avg)\b(?: by \([^)]*\))?\s*\(")
ONE_OF = re.compile(r"\s*max by \(([^)]*)\)\s*\(")
PLAIN = re.compile(r"\s*[\w:]+\s*\)")


def inside(query: str, start: int) -> str:
    """What stands in the parentheses that were opened before this place."""
    depth = 1
    for place in range(start, len(query)):
        depth += {"(": 1, ")": -1}.get(query[place], 0)
        if not depth:
            return query[start:place]
    raise AssertionError(query)


@pytest.mark.parametrize("place", QUERIES)
def test_one_scrape_of_a_pod_is_chosen_before_pods_are_added_up(place: str, tmp_path: Path) -> None:
    """What is added up keeps all labels that a series has of its own, or figures of one pod would be lost."""
    query, known = QUERIES[place], all_series(tmp_path)
    for found in ADDED_UP.finditer(query):
        rest = query[found.end() :]
        if PLAIN.match(rest) and rest.lstrip().startswith("specloop:"):
            continue  # recorded: one for each pod
        chosen = ONE_OF.match(rest)
        assert chosen, rest
        labels = set(chosen[1].split(", "))
        assert {"namespace", "pod"} <= labels
        for name, given in read(inside(rest, chosen.end())).series:
            lost = (known[name] | SCRAPED) - SCRAPERS - labels - given
            assert not lost or found[0].startswith("count"), (name, lost)
