"""Student's t distribution for whole degrees of freedom: how wide an interval from few blocks must be."""

import math
from functools import lru_cache

HALVINGS = 60
"""Bisections of [0, 1000]: far below the last digit of a double."""


def within(t: float, freedom: int) -> float:
    """Probability that |T| is at most `t` (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine = math.cos(angle)
    even = freedom % 2 == 0
    term, total = (1.0, 1.0) if even else (cosine, cosine if freedom > 1 else 0.0)
    for step in range(2 if even else 3, freedom - 1, 2):
        term *= cosine * cosine * (step - 1) / step
        total += term
    if even:
        return math.sin(angle) * total
    return 2.0 / math.pi * (angle + math.sin(angle) * total)


@lru_cache(maxsize=4096)
def quantile(confidence: float, freedom: int) -> float:
    """Half-width in standard errors of an interval that holds the truth with this confidence; 0 < confidence < 1."""
    low, high = 0.0, 1000.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if within(middle, freedom) < confidence else (low, middle)
    return (low + high) / 2.0
