"""Student's t against a published table and what is known of it in closed form."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specloop_policy.student import quantile, within

CONFIDENCES = (0.8, 0.9, 0.95, 0.98, 0.99)
TABLE = {
    1: (3.078, 6.314, 12.706, 31.821, 63.657),
    2: (1.886, 2.920, 4.303, 6.965, 9.925),
    3: (1.638, 2.353, 3.182, 4.541, 5.841),
    4: (1.533, 2.132, 2.776, 3.747, 4.604),
    5: (1.476, 2.015, 2.571, 3.365, 4.032),
    6: (1.440, 1.943, 2.447, 3.143, 3.707),
    7: (1.415, 1.895, 2.365, 2.998, 3.499),
    8: (1.397, 1.860, 2.306, 2.896, 3.355),
    9: (1.383, 1.833, 2.262, 2.821, 3.250),
    10: (1.372, 1.812, 2.228, 2.764, 3.169),
    15: (1.341, 1.753, 2.131, 2.602, 2.947),
    20: (1.325, 1.725, 2.086, 2.528, 2.845),
    30: (1.310, 1.697, 2.042, 2.457, 2.750),
    60: (1.296, 1.671, 2.000, 2.390, 2.660),
    100: (1.290, 1.660, 1.984, 2.364, 2.626),
}
"""NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2, by degrees of freedom; its columns are upper tails of
0.10, 0.05, 0.025, 0.01 and 0.005, and a two-sided confidence is 1 less twice the tail."""


@pytest.mark.parametrize("freedom", TABLE)
def test_half_widths_are_those_of_the_published_table(freedom: int) -> None:
    """To its last digit."""
    assert [round(quantile(confidence, freedom), 3) for confidence in CONFIDENCES] == list(TABLE[freedom])


def test_many_degrees_of_freedom_are_the_normal_distribution() -> None:
    """1.960 at 95 % in any table."""
    assert quantile(0.95, 100_000) == pytest.approx(1.960, abs=5e-4)


@given(st.floats(0.0, 50.0))
def test_one_and_two_degrees_of_freedom_have_closed_forms(t: float) -> None:
    """Cauchy's 2/π arctan t, and t / sqrt(2 + t²)."""
    assert within(t, 1) == pytest.approx(2.0 / math.pi * math.atan(t))
    assert within(t, 2) == pytest.approx(t / math.sqrt(2.0 + t * t))


@given(st.floats(0.01, 0.99), st.integers(1, 200))
def test_a_half_width_holds_the_confidence_that_was_asked_for(confidence: float, freedom: int) -> None:
    """Asked for twice, there and back."""
    assert within(quantile(confidence, freedom), freedom) == pytest.approx(confidence)


@given(st.floats(0.5, 0.99), st.integers(1, 200))
def test_more_blocks_never_make_an_interval_wider(confidence: float, freedom: int) -> None:
    """The fewer there are, the less is known of their spread."""
    assert quantile(confidence, freedom + 1) <= quantile(confidence, freedom)
