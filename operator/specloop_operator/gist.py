"""What a sentence says, its figures apart: two with the same gist are no news to each other."""

import re

FIGURE = re.compile(r"\W*+\d[\W\d]*+")
"""A word of digits and signs only: `62`, `(0.35,`, `95%`, but not `k5`, `llama-70b` or a date with its time.

Possessive, because words of others are read, and a long one takes the square of its length otherwise."""


def gist(text: str) -> str:
    """The text with every figure replaced by #."""
    return " ".join(["#" if FIGURE.fullmatch(word) else word for word in text.split()])
