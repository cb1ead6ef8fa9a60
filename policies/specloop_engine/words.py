"""Words of a command: what the engine reads, and where in the container's `command` and `args` it stands.

Kubernetes puts values in place of `$(NAME)`, then a shell may unquote and split.  Both layers are undone piece by
piece, every piece with its place in the item, so that a word can be rewritten with all else untouched byte for byte.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

LONGEST_ITEM = 131_071
"""Bytes in one item: Linux starts no program with a longer argument (MAX_ARG_STRLEN)."""


class CommandLineError(ValueError):
    """A command that cannot be read or edited for sure; trying again does not help until it is changed."""

    def __init__(self, item: str, problem: str, mend: str) -> None:
        self.item, self.problem, self.mend = item, problem, mend
        super().__init__(f"{shortened(item)}: {problem}; {mend}")


def shortened(item: str) -> str:
    """An item in one short line, for a message."""
    line = item.encode("unicode_escape").decode("ascii")
    return line if len(line) <= 100 else f"{line[:60]} ... {line[-30:]}"


class Quote(StrEnum):
    """How a piece of a word is quoted."""

    NONE = "none"
    """No shell: the item is the word."""
    BARE = "bare"
    ESCAPED = "escaped"
    SINGLE = "single"
    DOUBLE = "double"


@dataclass(frozen=True, slots=True)
class Piece:
    """Text that the engine reads, and the part of the item, from `start` to `end`, that it comes from."""

    text: str
    start: int
    end: int
    quote: Quote = Quote.NONE
    variable: str | None = None
    """Name of the variable whose value this is."""
    known: bool = True
    """False where only the shell will know the value; `text` is then the item's own."""


@dataclass(frozen=True, slots=True)
class Word:
    """One argument as the engine reads it."""

    item: int
    """Place of its item, counted over `command` and `args`."""
    start: int
    end: int
    pieces: tuple[Piece, ...]
    shell: bool = False
    value: str = field(init=False)

    def __post_init__(self) -> None:
        """Join the pieces."""
        object.__setattr__(self, "value", "".join(piece.text for piece in self.pieces))

    @property
    def known(self) -> bool:
        """Whether the value is known."""
        return all(piece.known for piece in self.pieces)

    def after(self, offset: int) -> tuple[Piece, ...]:
        """Pieces that begin at `offset` of the value or later."""
        return tuple(piece for place, piece in self._places() if place >= offset)

    def _places(self) -> Iterator[tuple[int, Piece]]:
        place = 0
        for piece in self.pieces:
            yield place, piece
            place += len(piece.text)


def kubernetes_pieces(item: str, environment: Mapping[str, str] | None) -> tuple[Piece, ...]:
    """An item with `$(NAME)` put in as Kubernetes does: `$$` is `$`, and an unknown name stays as it is written.

    Without an environment nothing is put in, as for a process started by hand.
    """
    if environment is None or "$" not in item:
        return tuple(Piece(char, place, place + 1) for place, char in enumerate(item))
    pieces: list[Piece] = []
    place = 0
    while place < len(item):
        reference = re.compile(r"\$\(([^)]*)\)").match(item, place)
        if item.startswith("$$", place):
            pieces.append(Piece("$", place, place + 2))
        elif reference and reference[1] in environment:
            pieces.append(Piece(environment[reference[1]], place, reference.end(), variable=reference[1]))
        elif reference:
            pieces += (Piece(item[i], i, i + 1) for i in range(place, reference.end()))
        else:
            pieces.append(Piece(item[place], place, place + 1))
        place = pieces[-1].end
    return tuple(pieces)


@dataclass(frozen=True, slots=True)
class Edit:
    """Changes to words, by their place among the engine's arguments."""

    values: Mapping[int, str | None] = field(default_factory=dict)
    """New values; None removes the word."""
    added: tuple[str, ...] = ()
    after: int | None = None
    """The added words come after this one; None: after the last."""


@dataclass(frozen=True, slots=True)
class Source:
    """The items of a command, and the words in them that are the engine's arguments."""

    command: tuple[str, ...]
    args: tuple[str, ...]
    kubernetes: bool
    """Whether `$$` stands for `$`."""
    words: tuple[Word, ...]
    program: Word | None
    """The word before the arguments; None where the image names the program."""

    @property
    def items(self) -> tuple[str, ...]:
        """All items in the order in which they are put together."""
        return self.command + self.args

    def edited(self, edit: Edit) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """`command` and `args` after an edit."""
        items: list[list[str]] = [[item] for item in self.items]
        anchor = self.words[edit.after] if edit.after is not None else (*self._before(), *self.words)[-1]
        touched = {self.words[place].item for place in edit.values} | {anchor.item if edit.added else -1}
        for item in touched - {-1}:
            items[item] = self._edited_item(item, edit, anchor)
        cut = len(self.command)
        return tuple(sum(items[:cut], [])), tuple(sum(items[cut:], []))

    def _before(self) -> tuple[Word, ...]:
        return (self.program,) if self.program else (Word(len(self.items) - 1, 0, 0, ()),)

    def _edited_item(self, item: int, edit: Edit, anchor: Word) -> list[str]:
        """What an item becomes: nothing, itself changed, or itself and new items after it."""
        raw = self.items[item]
        words = {self.words[place].start: (self.words[place], value) for place, value in edit.values.items()}
        ...
        return [raw]
