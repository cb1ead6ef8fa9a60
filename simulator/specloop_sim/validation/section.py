"""One section of the document: what was fitted, what was predicted, how far off it is."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import fill


@dataclass(frozen=True, slots=True)
class Section:
    """A table of published figures met by the model."""

    letter: str
    title: str
    text: str
    """Markdown, below the title."""
    summary: tuple[str, str, str]
    """What was fitted, what was predicted, the error: a row of the table at the document's beginning."""
    picture: str
    """SVG."""
    misses: tuple[str, ...] = ()
    """Bounds that are not kept, in words."""


def table(header: Sequence[str], rows: Iterable[Sequence[str]], words: Iterable[int] = (0,)) -> str:
    """A markdown table, with numbers to the right: all columns but those of words."""
    kept = set(words)
    lines = [header, ["---" if place in kept else "---:" for place in range(len(header))], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


WIDTH = 118
"""Characters in a line of the document."""


def wrapped(text: str) -> str:
    """Markdown with its paragraphs and list items filled anew; tables stay as they are."""
    blocks: list[list[str]] = []
    for line in text.splitlines():
        continues = blocks and line and blocks[-1][-1] and not line.startswith(("- ", "|")) and blocks[-1][-1][0] != "|"
        if continues:
            blocks[-1].append(line.strip())
        else:
            blocks.append([line])
    return "\n".join(map(_filled, blocks)) + "\n"


def _filled(block: list[str]) -> str:
    if not block[0] or block[0].startswith("|"):
        return block[0]
    indent = "  " if block[0].startswith("- ") else ""
    return fill(" ".join(block), WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def percent(predicted: float, measured: float) -> str:
    """How far a prediction lies above (+) or below (−) what was measured."""
    return signed(100.0 * (predicted / measured - 1.0)) + " %"


def signed(value: float) -> str:
    """One decimal and the sign; a real minus."""
    text = f"{abs(value):.1f}"
    return text if float(text) == 0.0 else ("+" if value > 0.0 else "−") + text


def whole_percents(share: float) -> str:
    """A share in percent with its sign; a real minus."""
    return f"{100.0 * share:+.0f} %".replace("-", "−")


def off(predicted: float, measured: float) -> float:
    """Share by which a prediction is off, whatever the direction."""
    return abs(predicted / measured - 1.0)


def beyond(bound: float, what: str, errors: Iterable[tuple[str, float]]) -> tuple[str, ...]:
    """The errors above a bound, in words."""
    return tuple(f"{what}, {name}: {error:.3f} is above {bound:g}" for name, error in errors if error > bound)
