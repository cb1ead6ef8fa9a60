"""Letters and lines stand out from what is behind them, in light, in dark and on paper (WCAG 2.2, 1.4.3 and 1.4.11)."""

import re
from importlib.resources import files

import pytest

SHEET = files("specloop_sim.report").joinpath("page.css").read_text(encoding="utf-8")
ROOTS = re.findall(r":root \{(.*?)\}", SHEET, re.DOTALL)
COLOURS = [dict(re.findall(r"--([\w-]+): (#\w{6})", root)) for root in ROOTS]
SCHEMES = dict(zip(("light", "dark", "print"), COLOURS, strict=True))
EACH_SCHEME = pytest.mark.parametrize("scheme", SCHEMES)

LETTERS = ("ink", "quiet", "policy", "best")
LINES = ("policy", "best", "off", "second", "third", "static", "hot", "load", "limit", "focus")


def luminance(colour: str) -> float:
    """Relative luminance of a colour, WCAG's formula."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_formula_gives_what_the_standard_says_of_black_on_white() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)


@EACH_SCHEME
@pytest.mark.parametrize("behind", ["paper", "card", "shade"])
def test_letters_can_be_read(scheme: str, behind: str) -> None:
    colours = SCHEMES["light"] | SCHEMES[scheme]
    found = {name: contrast(colours[name], colours[behind]) for name in LETTERS}
    assert {name: ratio for name, ratio in found.items() if ratio < 4.5} == {}


@EACH_SCHEME
@pytest.mark.parametrize("behind", ["paper", "shade"])
def test_lines_can_be_seen(scheme: str, behind: str) -> None:
    colours = SCHEMES["light"] | SCHEMES[scheme]
    found = {name: contrast(colours[name], colours[behind]) for name in LINES}
    assert {name: ratio for name, ratio in found.items() if ratio < 3.0} == {}


@EACH_SCHEME
def test_numbers_can_be_read_on_their_markers(scheme: str) -> None:
    colours = SCHEMES[scheme]
    assert contrast(colours["on-policy"], colours["policy"]) >= 4.5
