"""Which series and labels a query names: enough of PromQL for the queries of this project."""

import re
from dataclasses import dataclass

WORDS = frozenset({"and", "or", "unless", "offset", "bool"})
GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
DURATION = re.compile(r"\[[^\]]*\]")
SELECTOR = re.compile(r'(?<![\w:."])([a-zA-Z_:][\w:]*)?\s*\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\}')
ARGUMENT = re.compile(r',\s*"(?:[^"\\]|\\.)*"')
"""A string that a function is given, such as a pattern of `label_replace`; in a selector a label stands before it."""
NAME = re.compile(r'(?<![\w:."])[a-zA-Z_:][\w:]*(?!\s*\()(?![\w:])')
MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Query:
    """What a query names."""

    series: frozenset[tuple[str, frozenset[str]]]
    """Each series by its name, with the labels that it is chosen by."""
    grouped: frozenset[str]
    """Labels by which it adds up or joins."""

    @property
    def names(self) -> frozenset[str]:
        """The names of all series."""
        return frozenset(name for name, _ in self.series)


def read(query: str) -> Query:
    """What a query names."""
    grouped = {label.strip() for found in GROUPING.findall(query) for label in found.split(",")} - {""}
    rest = DURATION.sub("", ARGUMENT.sub("", GROUPING.sub("", query)))
    found = set()
    for name, chosen in SELECTOR.findall(rest):
        matchers = dict(MATCHER.findall(chosen))
        names = [name] if name else matchers.pop("__name__").split("|")
        found |= {(one, frozenset(matchers)) for one in names}
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", SELECTOR.sub("", rest))
    found |= {(one, frozenset[str]()) for one in NAME.findall(bare) if one not in WORDS}
    return Query(frozenset(found), frozenset(grouped))
