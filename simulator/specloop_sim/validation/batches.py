"""D: throughput by batch: the lines of one H100 as they are, and with two constants per drafter of another engine."""

from dataclasses import dataclass, replace
from math import log

import numpy as np

from specloop_policy.cost import Line, LineStepTimes, Load, tokens_per_step
from specloop_policy.ladder import DISABLED
from specloop_sim.validation.bench import Traffic, closed_loop
from specloop_sim.validation.models import H100, METHODS, acceptance_of, level, profile_of, survival_of
from specloop_sim.validation.picture import BLUE, ORANGE, Axis, Chart, Mark, Series, draw, numbers
from specloop_sim.validation.published import BATCHES, CHAIN_TOKENS, THROUGHPUT_GAINS
from specloop_sim.validation.section import Section, beyond, off, percent, table, whole_percents

FITTED_BATCHES = (2, 24, 64)
OTHERS_WITHIN = 0.15
ENGINE_WITHIN = 0.02
"""Chance (bench.py), and prompts, which the formula leaves out: 128 tokens of 21 µs, 1 % of what an answer takes of a
batch of 64 without speculation (1,654 tokens at 11 ms / 64)."""
CONTEXT_TOKENS = 1024.0
"""Not published; assumed.  What it does is said in the text."""
SHORT_CONTEXT_TOKENS = 512.0
TRAFFIC = Traffic(prompt_tokens=128, answer_tokens=1654)
"""1,024 tokens of context in the mean: 128 + 1,654 x 13/24."""


@dataclass(frozen=True, slots=True)
class Extra:
    """What a speculative step of this engine takes beside the lines, in seconds: at all, and per draft token."""

    per_step: float = 0.0
    per_draft_token: float = 0.0


def times_with(drafter: str, extra: Extra) -> LineStepTimes:
    """The H100's lines with what a drafter takes beside them, put to its proposal."""
    assert isinstance(H100.times, LineStepTimes)
    method = METHODS[drafter]
    line = dict(H100.times.drafts)[method]
    slower = Line(line.per_context_token, line.per_token + extra.per_draft_token, line.constant + extra.per_step)
    return replace(H100.times, drafts=((method, slower),))


def gain(drafter: str, extra: Extra, batch: int, context: float) -> float:
    """Throughput over none, E(K) T(b, 0) / T(b, K), with the acceptance of table B."""
    times, load = times_with(drafter, extra), Load(float(batch), context)
    plain = times.seconds(DISABLED, load)
    speculative = times.seconds(level(METHODS[drafter], CHAIN_TOKENS), load)
    assert plain is not None
    assert speculative is not None
    return tokens_per_step(survival_of(drafter)[:CHAIN_TOKENS]) * plain / speculative


def fit(drafter: str, context: float) -> Extra:
    """The two constants with the least sum of squares of log(predicted / measured) over the fitted batches.

    Gauss and Newton's steps from nothing: the step time is linear in both constants, and its logarithm nearly so.
    """
    measured = dict(zip(BATCHES, THROUGHPUT_GAINS[drafter], strict=True))
    extra = Extra()
    for _ in range(20):  # it is still to 12 digits after eight
        times, rows, wanted = times_with(drafter, extra), list[tuple[float, float]](), list[float]()
        for batch in FITTED_BATCHES:
            seconds = times.seconds(level(METHODS[drafter], CHAIN_TOKENS), Load(float(batch), context))
            assert seconds is not None
            rows.append((1.0 / seconds, batch * CHAIN_TOKENS / seconds))
            wanted.append(log(gain(drafter, extra, batch, context) / measured[batch]))
        step = np.linalg.lstsq(np.array(rows), np.array(wanted), rcond=None)[0]
        extra = Extra(extra.per_step + float(step[0]), extra.per_draft_token + float(step[1]))
    return extra


def simulated(drafter: str, extra: Extra) -> dict[int, float]:
    """Throughput over none of the engine model with so many clients."""
    method = METHODS[drafter]
    traffic = replace(TRAFFIC, acceptance=acceptance_of(drafter, method, survival_of(drafter)))
    profile = profile_of(drafter, times_with(drafter, extra), method)
    chain = level(method, CHAIN_TOKENS)
    return {
        batch: closed_loop(profile, chain, batch, traffic).tokens_per_second
        / closed_loop(profile, DISABLED, batch, traffic).tokens_per_second
        for batch in BATCHES
    }


@dataclass(frozen=True, slots=True)
class Row:
    """One batch of one drafter."""

    drafter: str
    batch: int
    measured: float
    plain_lines: float
    """By the lines as they are."""
    fitted: float
    """By the lines with both constants."""
    plain_engine: float
    fitted_engine: float

    @property
    def met(self) -> bool:
        """Whether the constants were not fitted on it."""
        return self.batch not in FITTED_BATCHES


def rows_of(drafter: str, extra: Extra) -> list[Row]:
    """All batches of one drafter."""
    plain, slower = simulated(drafter, Extra()), simulated(drafter, extra)
    return [
        Row(
            drafter,
            batch,
            measured,
            gain(drafter, Extra(), batch, CONTEXT_TOKENS),
            gain(drafter, extra, batch, CONTEXT_TOKENS),
            plain[batch],
            slower[batch],
        )
        for batch, measured in zip(BATCHES, THROUGHPUT_GAINS[drafter], strict=True)
    ]


def section() -> Section:
    """Both drafters."""
    extras = {drafter: fit(drafter, CONTEXT_TOKENS) for drafter in THROUGHPUT_GAINS}
    rows = [row for drafter, extra in extras.items() for row in rows_of(drafter, extra)]
    return Section(
        letter="D",
        title="throughput by batch",
        text=_text(extras, rows),
        summary=(
            "two constants per drafter, on batch 2, 24, 64",
            "the other six batches of each",
            f"{100 * max(off(row.fitted, row.measured) for row in rows if row.met):.0f} % at worst; "
            f"without fitting {_without(rows)} % too high",
        ),
        picture=_picture(rows),
        misses=_misses(rows),
    )


def _text(extras: dict[str, Extra], rows: list[Row]) -> str:
    met = [row for row in rows if row.met]
    worst = max(met, key=lambda row: off(row.fitted, row.measured))
    worst_run = max(met, key=lambda row: off(row.fitted_engine, row.measured))
    pairs = [pair for row in rows for pair in ((row.plain_engine, row.plain_lines), (row.fitted_engine, row.fitted))]
    return f"""\
Source: EAGLE-3 paper, table 3 (SGLang, one H100, Llama-3.1-8B, a chain of {CHAIN_TOKENS}): throughput over none.

- **Taken over:** the H100 lines, fitted by others on another engine (SpecDecode-Bench), and the acceptance lengths of
  table B at K=3. The context is not published; {CONTEXT_TOKENS:,.0f} tokens are assumed.
- **Without fitting:** {_without(rows)} % too high.
- **Fitted:** two constants per drafter on batch {", ".join(map(str, FITTED_BATCHES))}, put on top of its line:
  milliseconds per speculative step (what the engine does between draft and verification, whatever the batch) and
  microseconds per draft token (sampling, bookkeeping of accepted and rejected tokens, KV slots taken and given back).
  K is {CHAIN_TOKENS} throughout, so the second may as well be per request. {_constants(extras)}
  They are of the size of what they stand beside: a verified token takes 21 µs, a proposal 2.1 ms. EAGLE's head computes
  the whole vocabulary of 128,256 words in each of three passes, EAGLE-3's one of 32,000: 2.4 GB less to read a step,
  which is .7 ms of the difference between them. They also take up whatever else differs, such as another acceptance.
- **Predicted:** the other six batches. The formula is E(K)·T(b, 0) / T(b, K). The engine model runs b clients in a
  closed loop, with and without speculation, prompts included (requests of {TRAFFIC.prompt_tokens} tokens and
  {TRAFFIC.answer_tokens:,} of answer in the mean, so the same context).
- **Error on the other six:** {whole_percents(worst.fitted / worst.measured - 1.0)} at worst ({_name(worst)});
  the engine model {whole_percents(worst_run.fitted_engine / worst_run.measured - 1.0)} ({_name(worst_run)}).
  Formula and run differ by {100 * max(off(run, formula) for run, formula in pairs):.1f} % at most.
- **What stays wrong:** from batch 24 on the measured gains stay where they are (EAGLE .88 to .99, EAGLE-3 1.32 to
  1.39), while the model's go on falling. So it says too much in the middle. For EAGLE it sees a gain of 15 % at
  batch 16, where there was one of 2 %, and of 4 % at batch 32, where there was a loss of 6 %: there it would name the
  wrong level.
- **At {SHORT_CONTEXT_TOKENS:.0f} tokens of context** instead: {_short_context()}
- **Verdict:** within 15 % once an engine is known by three batches; without that, only the trend is right. Measure your
  own step times.

Error in each row; rows that the constants were fitted on are marked and are no prediction.

{table(HEADER, map(_cells, rows))}
"""


def _without(rows: list[Row]) -> str:
    """Percent by which the lines alone are too high, from the best row to the worst."""
    errors = [100.0 * (row.plain_lines / row.measured - 1.0) for row in rows]
    return f"{min(errors):.0f} to {max(errors):.0f}"


def _misses(rows: list[Row]) -> tuple[str, ...]:
    met = [row for row in rows if row.met]
    return (
        *beyond(OTHERS_WITHIN, "D, formula", ((_name(row), off(row.fitted, row.measured)) for row in met)),
        *beyond(OTHERS_WITHIN, "D, engine model", ((_name(row), off(row.fitted_engine, row.measured)) for row in met)),
        *beyond(
            ENGINE_WITHIN,
            "D, engine model against formula",
            ((_name(row), off(row.fitted_engine, row.fitted)) for row in rows),
        ),
    )


HEADER = (
    "drafter",
    "batch",
    "measured",
    "lines alone",
    "error",
    "engine model",
    "with constants",
    "error",
    "engine model",
    "error",
)


def _cells(row: Row) -> tuple[str, ...]:
    fitted = (percent(row.fitted, row.measured), percent(row.fitted_engine, row.measured))
    formula_error, engine_error = fitted if row.met else ("fitted", "fitted")
    return (
        row.drafter,
        str(row.batch),
        f"{row.measured:.2f}",
        f"{row.plain_lines:.2f}",
        percent(row.plain_lines, row.measured),
        f"{row.plain_engine:.2f}",
        f"{row.fitted:.2f}",
        formula_error,
        f"{row.fitted_engine:.2f}",
        engine_error,
    )


def _name(row: Row) -> str:
    return f"{row.drafter}, batch {row.batch}"


def _constants(extras: dict[str, Extra]) -> str:
    return (
        "; ".join(
            f"{drafter}: {1e3 * extra.per_step:.2f} ms and {1e6 * extra.per_draft_token:.0f} µs"
            for drafter, extra in extras.items()
        )
        + "."
    )


def _short_context() -> str:
    """Errors with half the context, in words."""
    without, met = list[float](), list[float]()
    for drafter, gains in THROUGHPUT_GAINS.items():
        extra = fit(drafter, SHORT_CONTEXT_TOKENS)
        for batch, measured in zip(BATCHES, gains, strict=True):
            without.append(gain(drafter, Extra(), batch, SHORT_CONTEXT_TOKENS) / measured - 1.0)
            if batch not in FITTED_BATCHES:
                met.append(off(gain(drafter, extra, batch, SHORT_CONTEXT_TOKENS), measured))
    low, high = 100 * min(without), 100 * max(without)
    return f"{low:.0f} to {high:.0f} % too high without fitting, and {100 * max(met):.0f} % at worst with it."


def _picture(rows: list[Row]) -> str:
    series: list[Series] = []
    for drafter, colour in (("EAGLE", ORANGE), ("EAGLE-3", BLUE)):
        own = [row for row in rows if row.drafter == drafter]
        met = tuple((row.batch, row.measured) for row in own if row.met)
        fitted = tuple((row.batch, row.measured) for row in own if not row.met)
        series += [
            Series(f"{drafter}, measured", Mark.DOT, colour, met),
            Series("fitted on", Mark.RING, colour, fitted),
            Series("with constants", Mark.LINE, colour, tuple((row.batch, row.fitted) for row in own)),
            Series("engine model", Mark.CROSS, colour, tuple((row.batch, row.fitted_engine) for row in own)),
            Series("lines alone", Mark.DASHES, colour, tuple((row.batch, row.plain_lines) for row in own)),
        ]
    return draw(
        Chart(
            title="D: throughput over none, by batch",
            across=Axis("batch", 1.8, 72.0, numbers((2, 4, 8, 16, 24, 32, 48, 64)), doubling=True),
            up=Axis(
                "times no speculation", 0.6, 2.4, numbers((0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2, 2.4), ".1f")
            ),
            series=tuple(series),
            rules=((1.0, "no gain"),),
        )
    )
