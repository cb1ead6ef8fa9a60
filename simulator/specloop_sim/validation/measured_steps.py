"""C: measured step times and survival in the engine model, and the K that it finds best at each batch."""

from specloop_policy.cost import MeasuredStepTimes, tokens_per_step
from specloop_policy.ladder import Method
from specloop_sim.validation.bench import Traffic, closed_loop
from specloop_sim.validation.models import acceptance_of, level, profile_of
from specloop_sim.validation.picture import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    Axis,
    Chart,
    Mark,
    Series,
    draw,
    numbers,
)
from specloop_sim.validation.published import (
    BEST_TOKENS,
    CHOSEN_TOKENS,
    STEP_MILLISECONDS,
    STEP_TOKENS,
    SURVIVAL,
)
from specloop_sim.validation.section import Section, beyond, off, table

ENGINE_WITHIN = 0.01
"""Chance in 100,000 tokens (bench.py), and the step that each request spends on its prompt: one in 300 or more."""
BETWEEN_TOKENS = 2
"""Not measured: read off the line between K=1 and K=3."""
TIMES = MeasuredStepTimes(
    Method.EAGLE,
    tuple(
        (float(batch), tokens, milliseconds / 1e3)
        for batch, row in STEP_MILLISECONDS.items()
        for tokens, milliseconds in zip(STEP_TOKENS, row, strict=True)
    ),
)
PROFILE = profile_of("vllm-32374", TIMES, Method.EAGLE)
TRAFFIC = Traffic(128, 768, acceptance=acceptance_of("vllm-32374", Method.EAGLE, SURVIVAL))

Rates = dict[int, dict[int, float]]
"""Tokens per second by batch and K."""


def simulated() -> Rates:
    """Of the engine model with so many clients."""
    return {
        batch: {
            tokens: closed_loop(PROFILE, level(Method.EAGLE, tokens), batch, TRAFFIC).tokens_per_second
            for tokens in sorted({*STEP_TOKENS, BETWEEN_TOKENS})
        }
        for batch in STEP_MILLISECONDS
    }


def formula() -> Rates:
    """b E(K) / T(b, K), for the K that were measured."""
    return {
        batch: {
            tokens: 1e3 * batch * tokens_per_step(SURVIVAL[:tokens]) / milliseconds
            for tokens, milliseconds in zip(STEP_TOKENS, row, strict=True)
        }
        for batch, row in STEP_MILLISECONDS.items()
    }


def best(rates: dict[int, float], among: tuple[int, ...]) -> int:
    """The K of the most tokens per second."""
    return max(among, key=lambda tokens: rates[tokens])


def section() -> Section:
    """Five batches, four K."""
    engine = simulated()
    named = {batch: best(rates, STEP_TOKENS) for batch, rates in engine.items()}
    errors = _errors(engine)
    return Section(
        letter="C",
        title="measured step times",
        text=_text(engine, named, max(error for _, error in errors)),
        summary=(
            "nothing: step times and survival are measured",
            "the order of K at each batch",
            f"{sum(named[batch] == BEST_TOKENS[batch] for batch in named)} of {len(named)} right",
        ),
        picture=_picture(engine),
        misses=(
            *beyond(ENGINE_WITHIN, "C, engine model against formula", errors),
            *(
                f"C, batch {batch}: the best K is named {named[batch]}, not {BEST_TOKENS[batch]}"
                for batch in named
                if named[batch] != BEST_TOKENS[batch]
            ),
        ),
    )


def _errors(engine: Rates) -> list[tuple[str, float]]:
    """How far the run is off the formula."""
    expected = formula()
    return [
        (f"batch {batch} K={tokens}", off(engine[batch][tokens], expected[batch][tokens]))
        for batch in engine
        for tokens in STEP_TOKENS
    ]


def _text(engine: Rates, named: dict[int, int], worst: float) -> str:
    with_between = {batch: best(rates, tuple(rates)) for batch, rates in engine.items()}
    chosen = ", ".join(f"{tokens} at batch {batch}" for batch, tokens in CHOSEN_TOKENS.items())
    agrees = all(with_between[batch] == tokens for batch, tokens in CHOSEN_TOKENS.items())
    rows = [
        (
            str(batch),
            *(f"{rates[tokens]:,.0f}" for tokens in STEP_TOKENS),
            str(named[batch]),
            str(BEST_TOKENS[batch]),
            f"{rates[BETWEEN_TOKENS]:,.0f}",
            str(with_between[batch]),
        )
        for batch, rates in engine.items()
    ]
    header = (
        "batch",
        *(f"K={tokens}" for tokens in STEP_TOKENS),
        "best",
        "published",
        f"K={BETWEEN_TOKENS}, between",
        "best then",
    )
    return f"""\
Source: vLLM pull request 32374 (EAGLE, Llama-3.1-8B): step times by batch and K, and survival by position.

- **Measured by others and taken over:** the step times (read between batches on straight lines, never beyond the
  table) and the survival by position, {", ".join(f"{p:g}" for p in SURVIVAL)}. **Fitted:** nothing.
- **Predicted:** tokens per second of the engine model with b clients in a closed loop, and so the order of the K at
  each batch. Throughput itself was not published, so there is no error to state for it; against b·E(K)/T(b, K) the run
  is off by {100 * worst:.2f} % at most.
- **Best K:** {", ".join(str(named[batch]) for batch in engine)} at batch {", ".join(map(str, engine))}; published:
  {", ".join(str(BEST_TOKENS[batch]) for batch in engine)}.
- **Against what its author chose:** K=2 was not measured. Read off the line between K=1 and 3 it is best at batch 64.
  The schedule that the author of the pull request set by hand says {chosen}:
  {"the same" if agrees else "not the same"}.
- **Verdict:** with measured step times and measured survival the right K comes out at every batch.

Tokens per second of the engine model; requests of {TRAFFIC.prompt_tokens} tokens of prompt, which cost nothing here,
and {TRAFFIC.answer_tokens} of answer in the mean.

{table(header, rows)}
"""


def _picture(engine: Rates) -> str:
    series: list[Series] = []
    stars: list[tuple[float, float]] = []
    for colour, (batch, rates) in zip((BLUE, GREEN, PURPLE, ORANGE, RED), engine.items(), strict=True):
        gains = {tokens: rate / rates[0] for tokens, rate in rates.items()}
        series.append(Series(f"batch {batch}", Mark.LINE, colour, tuple(gains.items())))
        top = best(rates, STEP_TOKENS)
        stars.append((top, gains[top]))
    series.append(Series("best of the measured K", Mark.RING, GREY, tuple(stars)))
    return draw(
        Chart(
            title="C: throughput of the engine model over K=0, by batch",
            across=Axis("draft tokens K (2 is read between 1 and 3)", -0.2, 5.2, numbers((0, 1, 2, 3, 5))),
            up=Axis("times K=0", 0.4, 1.8, numbers((0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8), ".1f")),
            series=tuple(series),
            rules=((1.0, "no gain"),),
        )
    )
