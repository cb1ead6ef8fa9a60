"""F: n-gram lookup by task: whether the published speed-ups are possible, and what the kinds of text say."""

from specloop_policy.cost import closed_form_tokens
from specloop_policy.ladder import DISABLED, Method
from specloop_sim.text import CHARACTERS, Kind
from specloop_sim.validation.bench import Traffic, closed_loop
from specloop_sim.validation.models import H100, level
from specloop_sim.validation.picture import BLUE, GREEN, ORANGE, PURPLE, Axis, Chart, Mark, Series, draw, numbers
from specloop_sim.validation.published import LOOKUP_SPEEDUPS
from specloop_sim.validation.section import Section, table

TOKENS = 4
"""The K of the project's own lookup level; the K of the table is not published with it."""
ACCEPTANCES = (0.5, 0.6, 0.81)
"""Those that the kinds of text have."""
TASKS = {
    Kind.PROSE: "between translation (1.06) and question answering (1.19), by assumption",
    Kind.STRUCTURED: "no task of the table; assumed",
    Kind.CHAT: "set from chat (1.60)",
    Kind.REPETITION: "α from the field report (58–64 % accepted), m from summarisation (2.66)",
}


def formula(match_share: float, acceptance: float) -> float:
    """Tokens per step, 1 + m (E(α, K) − 1): the speed-up when a draft costs nothing."""
    return 1.0 + match_share * (closed_form_tokens(acceptance, TOKENS) - 1.0)


def needed_share(speedup: float, acceptance: float) -> float:
    """The m that gives a speed-up at this acceptance."""
    return (speedup - 1.0) / (closed_form_tokens(acceptance, TOKENS) - 1.0)


def simulated(kind: Kind) -> float:
    """Speed-up of one client of the engine model."""
    traffic = Traffic(512, 2000, kind=kind)
    speculative, plain = (
        closed_loop(H100, one, 1, traffic).tokens_per_second for one in (level(Method.NGRAM, TOKENS), DISABLED)
    )
    return speculative / plain


def section() -> Section:
    """Four kinds of text, six tasks."""
    gains = {kind: simulated(kind) for kind in TASKS}
    return Section(
        letter="F",
        title="n-gram lookup by task",
        text=_text(gains),
        summary=(
            "m and α by kind, two of four kinds from this table",
            "plausibility and order only",
            "every speed-up is possible with m < 1; order right",
        ),
        picture=_picture(gains),
        misses=(
            *(
                f"F, {task}: {speedup:g} is not possible at any α in use"
                for task, speedup in LOOKUP_SPEEDUPS.items()
                if min(needed_share(speedup, acceptance) for acceptance in ACCEPTANCES) > 1.0
            ),
            *([] if list(gains.values()) == sorted(gains.values()) else ["F: the order of the kinds is wrong"]),
        ),
    )


def _text(gains: dict[Kind, float]) -> str:
    kinds = [
        (
            kind.value,
            f"{CHARACTERS[kind].match_share:.2f}",
            f"{CHARACTERS[kind].match_acceptance:.2f}",
            f"{formula(CHARACTERS[kind].match_share, CHARACTERS[kind].match_acceptance):.2f}",
            f"{gain:.2f}",
            TASKS[kind],
        )
        for kind, gain in gains.items()
    ]
    tasks = [
        (task, f"{speedup:.2f}", *(_share(needed_share(speedup, acceptance)) for acceptance in ACCEPTANCES))
        for task, speedup in LOOKUP_SPEEDUPS.items()
    ]
    return f"""\
Source: Spec-Bench, prompt lookup, Vicuna-7B, batch 1. Only speed-ups are published, neither the share of steps with a
match (m) nor the acceptance of what was found (α). Many pairs give the same speed-up, so this table tests plausibility.

- **Fitted or assumed:** m and α of each kind of text, as said in each row; chat and repetition were set from this table
  and are no predictions of it.
- **Predicted:** that tokens per step, 1 + m·(E(α, {TOKENS}) − 1), are the speed-up, less a few percent for verifying
  drafts. One client of the engine model on the H100 lines, K={TOKENS}, prompts of 512 tokens.
- **Plausible:** each of the six speed-ups is met by an m below 1 at one of the α in use, and only summarisation needs
  the high one. The order holds: prose < structured < chat < repetition, as translation < question answering < chat <
  summarisation.
- **Verdict:** plausible. Nothing finer can be said.

{table(("kind of text", "m", "α", "formula", "engine model", "where m and α come from"), kinds, words=(0, 5))}

The m that each published speed-up asks for, at three α:

{table(("task", "speed-up", *(f"m at α={acceptance:g}" for acceptance in ACCEPTANCES)), tasks)}
"""


def _share(share: float) -> str:
    return f"{share:.2f}" if share <= 1.0 else f"{share:.2f}, impossible"


def _rules() -> tuple[tuple[float, str], ...]:
    """The published speed-ups; chat and maths lie on each other."""
    words = {**{task: task for task in LOOKUP_SPEEDUPS}, "chat": "chat, maths"}
    return tuple((speedup, words[task]) for task, speedup in LOOKUP_SPEEDUPS.items() if task != "maths")


def _picture(gains: dict[Kind, float]) -> str:
    shares = (0.0, 1.0)
    curves = tuple(
        Series(
            f"α = {acceptance:g}", Mark.DASHES, colour, tuple((share, formula(share, acceptance)) for share in shares)
        )
        for acceptance, colour in zip(ACCEPTANCES, (PURPLE, GREEN, BLUE), strict=True)
    )
    dots = tuple((CHARACTERS[kind].match_share, gain) for kind, gain in gains.items())
    return draw(
        Chart(
            title="F: speed-up by n-gram lookup, over the share of steps with a match",
            across=Axis("share of steps with a match, m", 0.0, 1.0, numbers((0.0, 0.2, 0.4, 0.6, 0.8, 1.0), ".1f")),
            up=Axis("speed-up", 0.8, 3.6, numbers((1.0, 1.5, 2.0, 2.5, 3.0, 3.5), ".1f")),
            series=(*curves, Series("engine model: prose, structured, chat, repetition", Mark.DOT, ORANGE, dots)),
            rules=_rules(),
        )
    )
