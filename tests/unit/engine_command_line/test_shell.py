"""The shell's reading is the real bash's."""

import shlex

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from specloop_engine.shell import simple_commands
from specloop_engine.words import CommandLineError, item_pieces
from tests.unit.engine_command_line.bash import bash_words

TEXT = st.text(st.sampled_from("ab1 -='\"\\$#;&|<>(){}*~`,:{\n\té"), max_size=8)


def read_words(script: str, environment: dict[str, str] | None = None) -> list[list[str]]:
    """The words of each simple command, as they are read here."""
    commands = simple_commands(item_pieces(script, None), environment)
    return [["".join(piece.text for piece in word.pieces) for word in command.words] for command in commands]


def double_quoted(text: str) -> str:
    return '"' + "".join("\\" + char if char in '\\"$`' else char for char in text) + '"'


def escaped(text: str) -> str:
    return "".join(char if char.isalnum() else "'\n'" if char == "\n" else "\\" + char for char in text) or "''"


QUOTED = st.builds(lambda quote, text: quote(text), st.sampled_from((shlex.quote, double_quoted, escaped)), TEXT)
WORD = st.lists(QUOTED, min_size=1, max_size=3).map("".join)
BETWEEN = st.sampled_from((" ", "  ", "\t", " \\\n  ", " \\\n"))


@given(st.lists(st.tuples(BETWEEN, WORD), max_size=5), st.sampled_from(("", " # it's", " >/dev/null", " 2>&1", "\n")))
@settings(max_examples=60, deadline=None)
def test_words_are_those_that_bash_hands_on(words: list[tuple[str, str]], end: str) -> None:
    script = "engine" + "".join(between + word for between, word in words) + end
    expected = bash_words(script)
    assert expected is not None
    assert read_words(script) == [["engine", *expected]]


PIECES = st.sampled_from(
    ("a", "b", " ", "'", '"', "\\", "$", "\n", "#", ";", "$A", "${A}", '"$A"', "$B", "`", "2>&1", "=")
)


@given(st.lists(PIECES, max_size=9).map("".join), st.sampled_from(("", "x", "x y", "*'$A")))
@settings(max_examples=80, deadline=None)
def test_any_text_is_read_as_bash_does_or_refused(text: str, value: str) -> None:
    script, environment = f"engine {text}", {"A": value, "B": ""}
    try:
        commands = simple_commands(item_pieces(script, None), environment)
    except CommandLineError:
        return
    pieces = [piece for word in commands[0].words for piece in word.pieces]
    assume(all(piece.known for piece in pieces))
    expected = bash_words(script, environment)
    assume(expected is not None)
    assert read_words(script, environment)[0][1:] == expected
