"""Two sentences with the same gist differ in figures only."""

import pytest

from specloop_operator.gist import gist


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("acceptance 35.2 % [33.9, 36.5] over 300 s", "acceptance 34.8 % [33.1, 36.6] over 600 s"),
        ("cool-down: 840 s left", "cool-down: 825 s left"),
        ("gain −3 % (limit 0 %)", "gain +2 % (limit 0 %)"),
    ],
)
def test_figures_are_no_news(before: str, after: str) -> None:
    """A value moves at every tick."""
    assert gist(before) == gist(after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from k5 to k3", "from k3 to k5"),
        ("target llama-70b", "target llama-8b"),
        ("override until 2026-11-30T12:00:00Z", "override until 2026-11-30T13:00:00Z"),
        ("acceptance 35 % is below 40 %", "acceptance 35 % is above 30 %"),
    ],
)
def test_names_times_and_words_are_news(before: str, after: str) -> None:
    """Levels and pods have figures in their names."""
    assert gist(before) != gist(after)
