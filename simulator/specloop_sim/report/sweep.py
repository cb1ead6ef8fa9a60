"""A sweep's candidates: the picture of speed against calm, and a table of those that nothing beats in both."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from specloop_sim.report import scatter
from specloop_sim.report.figures import shown, signed
from specloop_sim.report.model import Candidate, Report
from specloop_sim.report.picture import Picture, both

LISTED = 50
"""Rows at most; a front of more is cut, and the page says so."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A candidate in the table."""

    speed: str
    changes: str
    restarts: str
    parameters: tuple[str, ...]
    chosen: bool


@dataclass(frozen=True, slots=True)
class Sweep:
    """What the template shows of a sweep."""

    picture: Picture
    speed_label: str
    parameters: tuple[str, ...]
    rows: tuple[Tried, ...]
    left_out: int


def sweep(report: Report) -> Sweep | None:
    """The candidates; None where there are none."""
    if not report.candidates:
        return None
    front = sorted(filter(_worth_a_row, report.candidates), key=_calm_first)
    names = tuple(dict.fromkeys(name for one in front for name in one.parameters))
    draw = partial(scatter.draw, report.candidates, report.speed_label)
    return Sweep(
        Picture(report.speed_label, both(draw), "up is faster, left is calmer", tuple(_key(report.candidates))),
        report.speed_label,
        names,
        tuple(_tried(one, names) for one in front[:LISTED]),
        max(0, len(front) - LISTED),
    )


def _worth_a_row(one: Candidate) -> bool:
    return one.front or one.chosen


def _calm_first(one: Candidate) -> tuple[bool, float, float]:
    return not one.chosen, one.changes, -one.speed_percent


def _key(candidates: Sequence[Candidate]) -> list[tuple[str, str]]:
    shapes = [("dot-front", "no other is both faster and calmer"), ("dot", "the others")]
    return [("ring", "chosen"), *shapes] if any(one.chosen for one in candidates) else shapes


def _tried(one: Candidate, names: Sequence[str]) -> Tried:
    values = tuple(one.parameters.get(name, "–") for name in names)
    return Tried(signed(one.speed_percent), shown(one.changes), shown(one.restarts), values, one.chosen)
