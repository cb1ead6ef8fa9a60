"""SVG as text: elements with their attributes escaped, numbers as short as the eye needs them."""

from html import escape

NUMBER_DIGITS = 1
"""A tenth of a user unit is below a pixel on every screen that these pictures are drawn for."""

LETTER_WIDTH = 0.56
"""Width of a letter against the font size: the mean of Latin text in common sans-serif fonts, a little generous."""


def number(value: float) -> str:
    """A coordinate, rounded, without trailing zeros."""
    text = f"{value:.{NUMBER_DIGITS}f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def element(name: str, *children: str, **attributes: str | float | None) -> str:
    """An element; children are SVG already, attributes are escaped, and `class_` and `text_anchor` lose their `_`."""
    shown = "".join(
        f' {_attribute(key)}="{escape(value) if isinstance(value, str) else number(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{shown}>{''.join(children)}</{name}>" if children else f"<{name}{shown}/>"


def text(words: str, x: float, y: float, **attributes: str | float | None) -> str:
    """A line of text at its baseline."""
    return element("text", escape(words), x=x, y=y, **attributes)


def fitted(words: str, width: float, font_size: float) -> str:
    """The words, cut with an ellipsis where they would be wider than this; "" where next to nothing fits."""
    room = int(width / (LETTER_WIDTH * font_size))
    if len(words) <= room:
        return words
    return f"{words[: room - 1]}…" if room >= 4 else ""


def width_of(words: str, font_size: float) -> float:
    """About how wide a line of text is."""
    return LETTER_WIDTH * font_size * len(words)


def _attribute(key: str) -> str:
    return "viewBox" if key == "view_box" else key.rstrip("_").replace("_", "-")
