"""A picture on the page: the same drawing on both sheets, with its caption and the key to its lines."""

from collections.abc import Callable
from dataclasses import dataclass

from markupsafe import Markup

from specloop_sim.report.frame import SHEETS, Sheet


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart with its caption; `key` has style and name of each line that needs explaining."""

    caption: str
    svg: Markup
    note: str = ""
    key: tuple[tuple[str, str], ...] = ()


def both(draw: Callable[[Sheet], str]) -> Markup:
    """A drawing on both sheets; what draws has escaped every word of it."""
    return Markup("".join(draw(sheet) for sheet in SHEETS))
