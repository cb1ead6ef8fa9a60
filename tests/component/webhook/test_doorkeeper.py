"""Tokens are compared so that the time that it takes tells nothing of them."""

import hmac
import inspect
from hashlib import sha256
from pathlib import Path

import pytest

from specloop_operator.webhook import Doorkeeper

TOKENS = ("a", "bb", "a-much-longer-token " * 100)
"""Of different lengths, which a comparison may give away."""


class Comparisons:
    """Compares, and keeps what was compared."""

    def __init__(self) -> None:
        self.made: list[tuple[bytes, bytes]] = []

    def __call__(self, one: bytes, other: bytes) -> bool:
        """Whether they are the same."""
        self.made.append((one, other))
        return one == other


@pytest.mark.parametrize(
    ("header", "comes_in"),
    [
        (f"Bearer {TOKENS[0]}", True),
        (f"Bearer {TOKENS[2]}", True),
        ("Bearer other", False),
        (f"Basic {TOKENS[0]}", False),
    ],
    ids=["the first", "the last", "none", "another kind"],
)
def test_every_token_is_compared_by_its_digest_also_after_one_that_fits(
    tmp_path: Path, header: str, comes_in: bool
) -> None:
    """SHA-256 has 32 bytes, whatever it is of."""
    file, comparisons = tmp_path / "tokens", Comparisons()
    file.write_text("\n".join(TOKENS))
    assert Doorkeeper(file, comparisons).admits(header) is comes_in
    shown = sha256(header.partition(" ")[2].strip().encode()).digest()
    assert comparisons.made == [(shown, sha256(token.strip().encode()).digest()) for token in TOKENS]


def test_a_comparison_takes_the_same_time_wherever_the_first_difference_is() -> None:
    """The standard library's is made for that."""
    assert inspect.signature(Doorkeeper).parameters["same"].default is hmac.compare_digest
