"""B: a step of a + bK, fitted on some K and met by the others."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from specloop_policy.cost import Line, LineStepTimes
from specloop_sim.validation.bench import Traffic, closed_loop
from specloop_sim.validation.models import METHODS, acceptance_of, level, profile_of, survival_of
from specloop_sim.validation.picture import BLUE, GREEN, ORANGE, PURPLE, Axis, Chart, Mark, Series, draw, numbers
from specloop_sim.validation.published import DRAFT_LENGTHS, PLAIN_MILLISECONDS, DraftLength
from specloop_sim.validation.section import Section, beyond, off, percent, table

FITTED_TOKENS = (2, 7)
"""The ends of the range, so that nothing is extrapolated."""
OTHERS_WITHIN = 0.05
"""Where the line is fitted on other rows: neighbouring K differ by 1 to 6 %, so more would not do to compare them."""
ENGINE_WITHIN = 0.01
"""Chance in 100,000 tokens: bench.py."""


@dataclass(frozen=True, slots=True)
class StepLine:
    """Milliseconds of a step: the verification, and what each draft token adds."""

    verify: float
    per_token: float

    def milliseconds_per_token(self, row: DraftLength) -> float:
        """Of a step at this row's K, over the tokens that it yields."""
        return (self.verify + self.per_token * row.tokens) / row.acceptance_length


def fit(rows: Iterable[DraftLength]) -> StepLine:
    """The line of least squares through the milliseconds of a step: acceptance length times time per token."""
    points = [(row.tokens, row.acceptance_length * row.milliseconds_per_token) for row in rows]
    tokens, steps = np.array(points).T
    slope, constant = np.polyfit(tokens, steps, 1)
    return StepLine(float(constant), float(slope))


def simulated(drafter: str, line: StepLine, row: DraftLength) -> float:
    """Milliseconds per token of one client of the engine model, with this line and the acceptance of table B."""
    method = METHODS[drafter]
    times = LineStepTimes(
        target=Line(0.0, 0.0, line.verify / 1e3),
        drafts=((method, Line(0.0, 0.0, line.per_token / 1e3)),),
        draft_passes=True,
    )
    traffic = Traffic(1, 4000, acceptance=acceptance_of(drafter, method, survival_of(drafter)))
    return (
        1e3 / closed_loop(profile_of(drafter, times, method), level(method, row.tokens), 1, traffic).tokens_per_second
    )


@dataclass(frozen=True, slots=True)
class Predicted:
    """One row and what the others say of it, in milliseconds per token."""

    row: DraftLength
    by_others: float
    """By the line through the other five rows."""
    by_ends: float | None
    """By the line through K=2 and K=7; None for those two."""
    by_engine: float | None
    """The engine model with that line."""

    @property
    def error(self) -> float:
        """Of the line through the other five, as a share."""
        return off(self.by_others, self.row.milliseconds_per_token)


def predictions(drafter: str) -> list[Predicted]:
    """All rows of a drafter."""
    rows = DRAFT_LENGTHS[drafter]
    ends = fit(row for row in rows if row.tokens in FITTED_TOKENS)
    found = []
    for row in rows:
        others = fit(other for other in rows if other is not row).milliseconds_per_token(row)
        if row.tokens in FITTED_TOKENS:
            found.append(Predicted(row, others, None, None))
        else:
            found.append(Predicted(row, others, ends.milliseconds_per_token(row), simulated(drafter, ends, row)))
    return found


def section() -> Section:
    """Both drafters."""
    found = {drafter: predictions(drafter) for drafter in DRAFT_LENGTHS}
    ends = {drafter: fit(row for row in rows if row.tokens in FITTED_TOKENS) for drafter, rows in DRAFT_LENGTHS.items()}
    return Section(
        letter="B",
        title="draft length at batch 1",
        text=_text(found, ends),
        summary=(
            "a + b·K per drafter, on the other rows",
            "the row left out; the best K",
            f"{100 * max(one.error for _, one in _all(found)):.1f} % at most; best K right",
        ),
        picture=_picture(found, ends),
        misses=_misses(found),
    )


def _text(found: dict[str, list[Predicted]], ends: dict[str, StepLine]) -> str:
    worst_others = max(one.error for _, one in _all(found))
    worst_inner = max(one.error for _, one in _all(found) if one.by_ends)
    worst_ends = max(off(one.by_ends, one.row.milliseconds_per_token) for _, one in _all(found) if one.by_ends)
    lines = "; ".join(f"{drafter} {line.verify:.2f} + {line.per_token:.2f}·K ms" for drafter, line in ends.items())
    best = " and ".join(f"K={_best(rows)} for {drafter}" for drafter, rows in found.items())
    header = ("drafter", "K", "length", "measured", "from the other five", "error", "from K=2 and 7", "error", "engine")
    return f"""\
Source: vLLM issue 20780 (Llama-3.1-8B, MT-Bench, batch 1; {PLAIN_MILLISECONDS:g} ms per token without speculation).
Milliseconds per token; a step takes acceptance length times that.

- **Fitted:** a and b of a step of a + b·K milliseconds, twice. Once for each row on the other five of its drafter, by
  least squares. Once on K=2 and 7 alone ({lines}).
- **Predicted:** the row that was left out, from its acceptance length; and K=3 to 6. The engine model, one client, runs
  with the second line and with the survival that the lengths give.
- **Error:** {100 * worst_others:.1f} % at most from the other five, at the ends, where the line is carried on beyond
  what it was fitted on, and {100 * worst_inner:.1f} % at most for K=3 to 6; {100 * worst_ends:.1f} % at most from the
  two ends. EAGLE-3's steps are not quite a line: the last two tokens add .7 and .8 ms, those before 1.1 and 1.2.
- **Best K:** {best}, as measured, by either fit (the ends themselves taken as measured).
- **Verdict:** good enough to choose K by.

{table(header, (_row(drafter, one) for drafter, one in _all(found)))}
"""


def _misses(found: dict[str, list[Predicted]]) -> tuple[str, ...]:
    inner = [(f"{drafter} K={one.row.tokens}", one) for drafter, one in _all(found)]
    return (
        *beyond(
            OTHERS_WITHIN,
            "B, from the other five",
            ((name, one.error) for name, one in inner),
        ),
        *beyond(
            OTHERS_WITHIN,
            "B, from K=2 and 7",
            ((name, off(one.by_ends, one.row.milliseconds_per_token)) for name, one in inner if one.by_ends),
        ),
        *beyond(
            ENGINE_WITHIN,
            "B, engine model against formula",
            ((name, off(one.by_engine, one.by_ends)) for name, one in inner if one.by_engine and one.by_ends),
        ),
        *(
            f"B, {drafter}: the best K is named {_best(rows)}, not {_best_measured(rows)}"
            for drafter, rows in found.items()
            if _best(rows) != _best_measured(rows) or _best_by_ends(rows) != _best_measured(rows)
        ),
    )


def _all(found: dict[str, list[Predicted]]) -> list[tuple[str, Predicted]]:
    return [(drafter, one) for drafter, rows in found.items() for one in rows]


def _best(rows: list[Predicted]) -> int:
    return min(rows, key=lambda one: one.by_others).row.tokens


def _best_by_ends(rows: list[Predicted]) -> int:
    return min(rows, key=lambda one: one.by_ends or one.row.milliseconds_per_token).row.tokens


def _best_measured(rows: list[Predicted]) -> int:
    return min(rows, key=lambda one: one.row.milliseconds_per_token).row.tokens


def _row(drafter: str, one: Predicted) -> tuple[str, ...]:
    measured = one.row.milliseconds_per_token
    ends = ("", "fitted") if one.by_ends is None else (f"{one.by_ends:.2f}", percent(one.by_ends, measured))
    cells = (
        drafter,
        str(one.row.tokens),
        f"{one.row.acceptance_length:.2f}",
        f"{measured:.2f}",
        f"{one.by_others:.2f}",
        percent(one.by_others, measured),
        *ends,
    )
    return (*cells, "" if one.by_engine is None else f"{one.by_engine:.2f}")


def _picture(found: dict[str, list[Predicted]], ends: dict[str, StepLine]) -> str:
    series: list[Series] = []
    for drafter, dark, light in (("EAGLE", ORANGE, PURPLE), ("EAGLE-3", BLUE, GREEN)):
        rows = found[drafter]
        measured = [(one.row.tokens, one.row.milliseconds_per_token) for one in rows]
        fitted = tuple(point for point in measured if point[0] in FITTED_TOKENS)
        met = tuple(point for point in measured if point[0] not in FITTED_TOKENS)
        line = tuple((one.row.tokens, ends[drafter].milliseconds_per_token(one.row)) for one in rows)
        others = tuple((one.row.tokens, one.by_others) for one in rows)
        series += [
            Series(f"{drafter}, measured", Mark.DOT, dark, met),
            Series("fitted on", Mark.RING, dark, fitted),
            Series("line through both", Mark.LINE, dark, line),
            Series("from the other five", Mark.CROSS, light, others),
        ]
    return draw(
        Chart(
            title="B: milliseconds per token at batch 1",
            across=Axis("draft tokens K", 1.7, 7.3, numbers(range(2, 8))),
            up=Axis("ms per token", 3.8, 5.4, numbers((3.8, 4.2, 4.6, 5.0, 5.4), ".1f")),
            series=tuple(series),
        )
    )
