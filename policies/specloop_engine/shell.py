"""A shell's reading of a script: its simple commands, and the pieces of their words.

Only as much of the shell as it takes to change one word of one command for sure: what is more involved is refused,
and an expansion whose value is not known becomes a piece that says so.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specloop_engine.words import CommandLineError, Piece, Quote

VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})", re.ASCII)
NAME = re.compile(r"(\$\{|\$|\b)([A-Za-z_]\w*)(\}?)", re.ASCII)
OTHER_EXPANSION = re.compile(r"\$(?:\{[^{}'\"\\`$]*\}|[@*#?!$0-9-])|`[^`\\]*`|\$'[^'\\]*'")
INVOLVED_SUBSTITUTION = re.compile(r"<<|`|(?:^|[\s;(])#|\bcase\b")
SETS_VARIABLES = re.compile(r"(?:^|[\s;&|({])(?:\.|source|eval)\s")
ONE_WORD = re.compile(r"[\w@%+=:,./-]*", re.ASCII)
"""Text that a shell neither splits nor expands."""
SINGLE_RUN = re.compile(r"[^'$\0]+")
DOUBLE_RUN = re.compile(r'[^"\\$`\0]+')
OPERATOR = re.compile(r"&&|\|\||\|&|;;|[;&|()\n]")
REDIRECTION = re.compile(r"&>>|&>|>>|>&|>\||<>|<&|[<>]")
JOINING = frozenset({"&&", "||", "|", "|&", "("})
"""Operators after which a new line means nothing."""
DEEPEST = 20
"""Substitutions within substitutions that are followed."""
HOLE = "\0"
"""Stands for a variable that Kubernetes put in; no argument can hold it."""


@dataclass(frozen=True, slots=True)
class ShellWord:
    """A word of a script, from `start` to `end` of it."""

    start: int
    end: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """Words between two operators, redirections left out; an operator is "" at the script's ends."""

    words: tuple[ShellWord, ...]
    before: str
    after: str


def simple_commands(script: Sequence[Piece], environment: Mapping[str, str] | None) -> list[SimpleCommand]:
    """The simple commands of a script, variables put in where the environment has them.

    Raises CommandLineError where the script is more involved than can be followed for sure.
    """
    return _Reader(script, environment or {}).commands()


class _Reader:
    """Reads a script from left to right; `at` is the place of the next character."""

    def __init__(self, script: Sequence[Piece], environment: Mapping[str, str]) -> None:
        self.variables: dict[int, Piece] = {}
        self.ends: list[int] = []
        self.text = "".join(map(self._unrolled, script))
        self.starts = [0, *self.ends]
        self.environment = {} if SETS_VARIABLES.search(self.text) else environment
        names = NAME.finditer(self.text)
        self.changed = {name[2] for name in names if not name[1] or (name[1] == "${" and name[3] != "}")}
        self.at = 0
        self.found: list[SimpleCommand] = []
        self.words: list[ShellWord] = []
        self.pieces: list[Piece] | None = None  # of the word being read
        self.word_at = 0
        self.before = ""
        self.redirecting = False

    def _unrolled(self, piece: Piece) -> str:
        """The characters of a piece; `ends` grows by where each of them ends in the item."""
        whole = piece.variable is not None or len(piece.text) != piece.end - piece.start
        if piece.variable is not None:
            self.variables[len(self.ends)] = piece
        self.ends += [piece.end] if whole else range(piece.start + 1, piece.end + 1)
        return HOLE if piece.variable is not None else piece.text

    def commands(self) -> list[SimpleCommand]:
        while self.at < len(self.text):
            self._step(self.text[self.at])
        self._end_command("")
        return self.found

    def _step(self, char: str) -> None:
        if char in " \t":
            self._end_word()
            self.at += 1
        elif redirection := REDIRECTION.match(self.text, self.at):
            self._redirect(redirection[0])
        elif operator := OPERATOR.match(self.text, self.at):
            self._end_command(operator[0])
            self.at = operator.end()
        elif char == "#" and self.pieces is None:
            end = self.text.find("\n", self.at)
            self.at = end if end >= 0 else len(self.text)
        elif char == "\\":
            self._escaped()
        else:
            self._begin_word()
            self._in_word(char)

    def _in_word(self, char: str) -> None:
        if char == "'":
            self._single_quoted()
        elif char == '"':
            self._double_quoted()
        else:
            self._character(char, Quote.BARE)

    def _character(self, char: str, quote: Quote) -> None:
        """One character, variable or substitution, where the shell looks for them."""
        if char in "$`":
            self._expansion(quote)
        elif char == HOLE:
            self._hole(quote)
        elif run := (DOUBLE_RUN if quote is Quote.DOUBLE else ONE_WORD).match(self.text, self.at):
            self._take(max(run.end(), self.at + 1), run[0] or char, quote)
        else:
            self._take(self.at + 1, char, quote)

    def _hole(self, quote: Quote) -> None:
        piece = self.variables[self.at]
        self._put_in(piece.text, piece.variable, self.at + 1, quote)

    def _single_quoted(self) -> None:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise self._refusal("a single quote is not closed", "close it")
        self.at += 1
        while self.at < end:
            if self.text[self.at] == HOLE:
                self._hole(Quote.SINGLE)
            else:
                run = SINGLE_RUN.match(self.text, self.at)
                self._take(run.end() if run else self.at + 1, run[0] if run else "$", Quote.SINGLE)
        self.at = end + 1

    def _double_quoted(self) -> None:
        self.at += 1
        while (char := self._char()) != '"':
            following = self.text[self.at + 1 : self.at + 2]
            if char == "\\" and following == "\n":
                self.at += 2
            elif char == "\\" and following and following in '\\"$`':
                self._take(self.at + 2, following, Quote.DOUBLE)
            else:
                self._character(char, Quote.DOUBLE)
        self.at += 1

    def _char(self) -> str:
        if self.at >= len(self.text):
            raise self._refusal("a double quote is not closed", "close it")
        return self.text[self.at]

    def _escaped(self) -> None:
        following = self.text[self.at + 1 : self.at + 2]
        if following in ("", HOLE):
            raise self._refusal("a backslash has nothing fixed after it", "remove it")
        if following == "\n":
            self.at += 2
        else:
            self._begin_word()
            self._take(self.at + 2, following, Quote.ESCAPED)

    def _expansion(self, quote: Quote) -> None:
        if variable := VARIABLE.match(self.text, self.at):
            name = variable[1] or variable[2]
            self._put_in(self._value(name), name, variable.end(), quote)
        elif self.text.startswith("$'", self.at) and quote is Quote.DOUBLE:
            self._take(self.at + 1, "$", quote)
        elif other := OTHER_EXPANSION.match(self.text, self.at):
            self._put_in(None, other[0], other.end(), quote)
        elif self.text.startswith("$(", self.at):
            self._put_in(None, "(...)", self._after_substitution(self.at + 2), quote)
        elif self.text.startswith(("${", "$'", "`"), self.at) or self._is_translated(quote):
            raise self._refusal("an expansion is too involved to follow", "write its value out")
        else:
            self._take(self.at + 1, "$", quote)

    def _is_translated(self, quote: Quote) -> bool:
        return quote is Quote.BARE and self.text.startswith('$"', self.at)

    def _value(self, name: str) -> str | None:
        """A variable's value, if the environment has it and the script nowhere does anything but read it."""
        return None if name in self.changed else self.environment.get(name)

    def _after_substitution(self, at: int, depth: int = 0) -> int:
        """Where the `$(` whose inside begins at `at` has ended."""
        start, level = at, 1
        while level:
            char = self.text[at : at + 1]
            if not char or depth > DEEPEST:
                raise self._refusal("a substitution is not closed, or too involved to follow", "write its value out")
            level += (char == "(") - (char == ")")
            at = self._after_quoted(at, char, depth)
        if INVOLVED_SUBSTITUTION.search(self.text, start, at):
            raise self._refusal("a substitution is too involved to follow", "write its value out")
        return at

    def _after_quoted(self, at: int, char: str, depth: int) -> int:
        """The place after a character of a substitution, or after what it quotes."""
        if char == "\\":
            return at + 2
        if char == "'":
            return self.text.find("'", at + 1) + 1 or len(self.text)
        if char != '"':
            return at + 1
        at += 1
        while (inner := self.text[at : at + 1]) != '"':
            if not inner:
                return at
            if self.text.startswith("$(", at):
                at = self._after_substitution(at + 2, depth + 1)
            else:
                at += 2 if inner == "\\" else 1
        return at + 1

    def _put_in(self, value: str | None, name: str | None, end: int, quote: Quote) -> None:
        """The value of a variable: known only where the shell will take it as it is."""
        if value is None or not self._is_taken_as_is(value, quote):
            written = f"$({name})" if self.text[self.at] == HOLE else self.text[self.at : end]
            self._take(end, written, quote, name, known=False)
        else:
            self._take(end, value, quote, name)

    def _is_taken_as_is(self, value: str, quote: Quote) -> bool:
        """Whether a value stays whole: the shell expands its own variables once, what Kubernetes put in again."""
        if quote is Quote.SINGLE:
            return "'" not in value
        if quote is Quote.DOUBLE:
            return self.text[self.at] != HOLE or not re.search(r'[\\"$`]', value)
        return bool(ONE_WORD.fullmatch(value))

    def _take(self, end: int, text: str, quote: Quote, name: str | None = None, known: bool = True) -> None:
        assert self.pieces is not None
        self.pieces.append(Piece(text, self.starts[self.at], self.ends[end - 1], quote, name, known))
        self.at = end

    def _redirect(self, operator: str) -> None:
        if self.text.startswith(("<<", "<(", ">("), self.at):
            raise self._refusal("a here-document or process substitution cannot be followed", "write it as a file")
        if self.pieces and all(piece.text.isdigit() and piece.quote is Quote.BARE for piece in self.pieces):
            self.pieces = None  # the number of a file, not a word
        self._end_word()
        self.redirecting = True
        self.at += len(operator)

    def _begin_word(self) -> None:
        if self.pieces is None:
            self.pieces, self.word_at = [], self.at

    def _end_word(self) -> None:
        if self.pieces is None:
            return
        start, end = self.starts[self.word_at], self.ends[self.at - 1]
        quotes = {"'", '"'} & set(self.text[self.word_at : self.at])
        vanished = all(piece.text == "" for piece in self.pieces) and not quotes
        if not self.redirecting and not vanished:
            self.words.append(ShellWord(start, end, tuple(self.pieces)))
        self.pieces, self.redirecting = None, False

    def _end_command(self, operator: str) -> None:
        self._end_word()
        if self.words:
            self.found.append(SimpleCommand(tuple(self.words), self.before, operator))
        elif operator == "\n" and self.before in JOINING:
            return
        self.words, self.before, self.redirecting = [], operator, False

    def _refusal(self, problem: str, mend: str) -> CommandLineError:
        return CommandLineError(self.text[max(self.at - 20, 0) : self.at + 60].replace(HOLE, "$(...)"), problem, mend)
