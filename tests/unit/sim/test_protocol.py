"""Filler for answers."""

import pytest

from specloop_sim.serve.protocol import WORDS, count_tokens, filler


@pytest.mark.parametrize("cut", [0, 1, 7, 10, 23, 40])
def test_pieces_of_an_answer_make_up_the_whole(cut: int) -> None:
    whole = filler(0, 40)
    assert filler(0, cut) + filler(cut, 40) == whole
    assert whole.split() == list(WORDS) * 4


@pytest.mark.parametrize(("text", "tokens"), [("", 1), ("abcd", 1), ("abcde", 2), ("x" * 400, 100)])
def test_four_characters_are_a_token(text: str, tokens: int) -> None:
    assert count_tokens(text) == tokens
