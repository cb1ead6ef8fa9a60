"""Chance, dealt to requests: the same request meets the same luck whatever engine, level and schedule it meets.

That is what lets two contestants be compared on few requests (common random numbers).  Luck belongs to a *token*: a
token of the answer is as easy or as hard to guess at K=3 as at K=5, and in a batch of one as in a batch of sixty.
"""

from functools import lru_cache
from hashlib import shake_128

import numpy as np
from numpy.typing import NDArray

WHOLE = 2**32
"""A number dealt is below this, each equally likely."""


def deal(seed: int, request: str, purpose: str, count: int) -> NDArray[np.uint32]:
    """`count` numbers below 2^32 for one purpose of one request; asking for more repeats the first ones.

    They are the SHAKE-128 output of seed, purpose and request, which takes 3 µs for 200 numbers.
    """
    stream = shake_128(f"{seed}/{purpose}/{request}".encode())
    return np.frombuffer(stream.digest(4 * count), dtype=np.dtype("<u4")).astype(np.uint32, copy=False)


def deal_share(seed: int, request: str, purpose: str) -> float:
    """One number strictly between 0 and 1."""
    return (float(deal(seed, request, purpose, 1)[0]) + 0.5) / WHOLE


HARDNESS = np.geomspace(1e-6, 40.0, 2049)
"""Points at which its distribution is tabled, evenly spaced in ln x, where the density x^k e^(-kx) has no pole."""


class Spread:
    """How survival differs between requests: p_i(x) = s_i^x with a hardness x of its own for each request.

    x is gamma-distributed, so p_i(x) has a unit-gamma distribution (Grassia 1977), the beta's cousin with two
    advantages: E[s^x] = (1 - ln s / k)^-k can be solved for s, so the mean at *every* position stays the given
    survival, and one x serves all positions, drafters and temperatures.

    The mean is over drafts, as engines count them, not over requests: a hard request makes more drafts for the same
    text.  Requests are therefore drawn with weight 1 + m * sum(p_i(x)), the tokens that a step yields.
    """

    __slots__ = ("_cumulative", "_logs")

    def __init__(self, survival: tuple[float, ...], match_share: float, shape: float) -> None:
        means = np.maximum(np.array(survival), 1e-12)
        logs = shape * (1.0 - means ** (-1.0 / shape))
        self._logs = np.diff(logs, prepend=0.0)
        density = np.exp(shape * (np.log(HARDNESS) - HARDNESS + 1.0))
        density *= 1.0 + match_share * np.exp(np.outer(HARDNESS, logs)).sum(axis=1)
        cumulative = np.cumsum(density)
        self._cumulative = cumulative / cumulative[-1]

    def acceptance(self, share: float) -> NDArray[np.float64]:
        """Conditional acceptance by position of the request at this share (0 to 1) of all requests, easiest first."""
        hardness = np.interp(share, self._cumulative, HARDNESS)
        return np.exp(self._logs * hardness)


@lru_cache(maxsize=512)
def spread_of(survival: tuple[float, ...], match_share: float, shape: float) -> Spread:
    """The spread with these figures, made once."""
    return Spread(survival, match_share, shape)
