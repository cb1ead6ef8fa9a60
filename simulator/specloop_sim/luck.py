"""Chance, dealt to requests: the same request meets the same luck whatever engine, level and schedule it meets.

That is what lets two contestants be compared on few requests (common random numbers).
"""

from bisect import bisect_left
from collections.abc import Iterable
from hashlib import shake_128

import numpy as np
from numpy.typing import NDArray

WHOLE = 2**32
"""A number dealt is below this, each equally likely."""

HARDNESS = np.geomspace(1e-6, 40.0, 2049)
"""Points at which its distribution is tabled, evenly spaced in ln x, where the density x^k e^(-kx) has no pole."""


def deal(seed: int, request: str, count: int) -> NDArray[np.uint32]:
    """`count` numbers below 2^32 for a request; asking for more repeats the first ones.

    They are the SHAKE-128 output of seed and id, which takes 5 µs for 200 numbers, less than seeding a generator.
    """
    return np.frombuffer(shake_128(f"{seed}/{request}".encode()).digest(4 * count), dtype="<u4")


def deal_all(seed: int, requests: Iterable[tuple[str, int]]) -> NDArray[np.uint32]:
    """The numbers of many requests, one after the other; each is given with how many it gets."""
    dealt = (shake_128(f"{seed}/{request}".encode()).digest(4 * count) for request, count in requests)
    return np.frombuffer(b"".join(dealt), dtype="<u4")


def deal_normal(seed: int, request: str) -> float:
    """A standard normal number (Box and Muller 1958) for a request, apart from its other luck."""
    first, second = (deal(seed, f"normal/{request}", 2).astype(np.float64) + 0.5) / WHOLE
    return float(np.sqrt(-2.0 * np.log(first)) * np.cos(2.0 * np.pi * second))


class Spread:
    """How survival differs between requests: p_i(x) = s_i^x with a hardness x of its own for each request.

    x is gamma-distributed with mean 1, so p_i(x) has a unit-gamma distribution (Grassia 1977), the beta's cousin with
    two advantages: E[s^x] = (1 - ln s / k)^-k can be solved for s, so the mean at *every* position stays the given
    survival, and one x serves all positions, drafters and temperatures.

    The mean is over drafts, as engines count them, not over requests: a hard request makes more drafts for the same
    text.  Requests are therefore drawn with weight 1 + m sum(p_i(x)), the tokens that a step yields at match share m.
    """

    __slots__ = ("_cumulative", "_logs")

    def __init__(self, survival: tuple[float, ...], match_share: float, shape: float) -> None:
        means = np.maximum(np.array(survival), 1e-12)
        self._logs = shape * (1.0 - means ** (-1.0 / shape))
        density = np.exp(shape * (np.log(HARDNESS) - HARDNESS + 1.0))
        density *= 1.0 + match_share * np.exp(np.outer(HARDNESS, self._logs)).sum(axis=1)
        cumulative = np.cumsum(density)
        self._cumulative: list[float] = (cumulative / cumulative[-1]).tolist()

    def place(self, share: float) -> int:
        """Place in the table of hardness of the request at this share (0 to 1) of all requests, easiest first."""
        return bisect_left(self._cumulative, share)

    def survival(self, place: int) -> NDArray[np.float64]:
        """Survival by position of a request at this place in the table of hardness."""
        survival: NDArray[np.float64] = np.exp(self._logs * HARDNESS[place])
        return survival
