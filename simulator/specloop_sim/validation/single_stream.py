"""A: the closed form for one request at a time, against Leviathan's table."""

from statistics import mean

from specloop_policy.cost import Line, LineStepTimes, single_stream_speedup
from specloop_policy.ladder import DISABLED, Method
from specloop_sim.text import AcceptanceProfile
from specloop_sim.validation.bench import Traffic, closed_loop
from specloop_sim.validation.models import level, profile_of
from specloop_sim.validation.picture import BLUE, GREY, ORANGE, Axis, Chart, Mark, Series, draw, numbers
from specloop_sim.validation.published import LEVIATHAN, SingleStream
from specloop_sim.validation.section import Section, beyond, off, percent, table, whole_percents

EXPECTED_WITHIN = 0.1
"""The paper rounds α and c to two digits and its speed-ups to one."""
ENGINE_WITHIN = 0.01
"""Chance in 100,000 tokens: bench.py."""
TARGET_SECONDS = 0.01
"""Any plain step will do: speed-ups do not depend on it."""
TRAFFIC = Traffic(prompt_tokens=1, answer_tokens=4000)


def predicted(row: SingleStream) -> float:
    """The speed-up by the formula."""
    return single_stream_speedup(row.acceptance, row.tokens, row.draft_cost)


def simulated(row: SingleStream) -> float:
    """The speed-up of one client of the engine model, whose target step takes 10 ms and each draft pass c of it."""
    times = LineStepTimes(
        target=Line(0.0, 0.0, TARGET_SECONDS),
        drafts=((Method.DRAFT_MODEL, Line(0.0, 0.0, row.draft_cost * TARGET_SECONDS)),),
        draft_passes=True,
    )
    profile = profile_of(row.task, times, Method.DRAFT_MODEL)
    acceptance = AcceptanceProfile(row.task, conditional=((Method.DRAFT_MODEL, (row.acceptance,)),))
    traffic = Traffic(TRAFFIC.prompt_tokens, TRAFFIC.answer_tokens, acceptance=acceptance)
    plain, speculative = (
        closed_loop(profile, one, 1, traffic).tokens_per_second
        for one in (DISABLED, level(Method.DRAFT_MODEL, row.tokens))
    )
    return speculative / plain


def section() -> Section:
    """The twelve rows."""
    formula = [predicted(row) for row in LEVIATHAN]
    engine = [simulated(row) for row in LEVIATHAN]
    return Section(
        letter="A",
        title="one request at a time",
        text=_text(formula, engine),
        summary=(
            "nothing",
            "speed-up at batch 1",
            f"{_worst(formula):.2f} at most against the paper's formula; "
            f"{100 * mean(map(abs, _errors(formula))):.0f} % in the mean against measured",
        ),
        picture=_picture(formula),
        misses=(
            *beyond(
                EXPECTED_WITHIN,
                "A, formula against expected",
                ((row.task, abs(got - row.expected)) for row, got in zip(LEVIATHAN, formula, strict=True)),
            ),
            *beyond(
                ENGINE_WITHIN,
                "A, engine model against formula",
                ((row.task, off(ran, got)) for row, ran, got in zip(LEVIATHAN, engine, formula, strict=True)),
            ),
        ),
    )


def _worst(formula: list[float]) -> float:
    """The largest distance from the paper's own column."""
    return max(abs(got - row.expected) for got, row in zip(formula, LEVIATHAN, strict=True))


def _errors(formula: list[float]) -> list[float]:
    """Of the formula against what was measured, as shares."""
    return [got / row.measured - 1.0 for got, row in zip(formula, LEVIATHAN, strict=True)]


def _text(formula: list[float], engine: list[float]) -> str:
    errors = _errors(formula)
    rows = [
        (
            row.task,
            str(row.tokens),
            f"{row.acceptance:.2f}",
            f"{row.draft_cost:.2f}",
            f"{got:.2f}",
            f"{ran:.2f}",
            f"{row.expected:.1f}",
            f"{row.measured:.1f}",
            percent(got, row.measured),
        )
        for row, got, ran in zip(LEVIATHAN, formula, engine, strict=True)
    ]
    header = ("task", "K", "α", "c", "formula", "engine model", "expected", "measured", "formula − measured")
    return f"""\
Source: Leviathan et al. 2023, table 4 (T5-XXL, TPU-v4, batch 1). "Expected" is the paper's own formula.

- **Fitted:** nothing. α, c and K are the paper's.
- **Predicted:** the speed-up, by the closed form (1 − α^(K+1)) / (1 − α) / (K·c + 1), and by one client of the engine
  model, whose draft pass takes c of a target step.
- **Error against expected:** at most {_worst(formula):.2f}, in all twelve rows within {EXPECTED_WITHIN:g}.
- **Error against measured:** {whole_percents(min(errors))} to {whole_percents(max(errors))},
  {100 * mean(map(abs, errors)):.0f} % in the mean. Translation with the large draft model comes out
  38 to 47 % too high, news in all six rows too low.
- **Verdict:** the formula is the published one, and the engine model follows it. From α and c alone a measured speed-up
  is forecast roughly at best.

{table(header, rows)}
"""


def _picture(formula: list[float]) -> str:
    count = len(LEVIATHAN)
    heights = [float(count - place) for place in range(count)]
    return draw(
        Chart(
            title="A: speed-up of one request at a time, by task",
            across=Axis("speed-up", 1.0, 4.0, numbers((1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0))),
            up=Axis("", 0.0, count + 1.0, tuple(zip(heights, (row.task for row in LEVIATHAN), strict=True))),
            series=(
                Series("measured", Mark.DOT, ORANGE, _points([row.measured for row in LEVIATHAN], heights)),
                Series("expected by the paper", Mark.RING, GREY, _points([row.expected for row in LEVIATHAN], heights)),
                Series("formula here", Mark.CROSS, BLUE, _points(formula, heights)),
            ),
        )
    )


def _points(values: list[float], heights: list[float]) -> tuple[tuple[float, float], ...]:
    return tuple(zip(values, heights, strict=True))
