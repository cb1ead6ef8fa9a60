"""Words of a command: what the engine reads, and where in a container's `command` and `args` it stands.

Kubernetes puts values in place of `$(NAME)`, then a shell may unquote and split.  Both are undone piece by piece,
each piece with its place in the item, so that one word can be rewritten with all else untouched byte for byte.
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate, chain

REFERENCE = re.compile(r"\$\([^)]*\)")
ITEM_PARTS = re.compile(r"[^$]+|\$\$|\$\(([^)]*)\)|\$")
"""What Kubernetes tells apart in an item: plain text, `$$` for `$`, `$(NAME)`, and a `$` that is only that."""
BLANKS_AT_THE_END = re.compile(r"(?:[ \t]|\\\n)+\Z")


class CommandLineError(ValueError):
    """A command that cannot be read or edited for sure; trying again does not help until it is changed."""

    def __init__(self, item: str, problem: str, mend: str) -> None:
        self.item, self.problem, self.mend = item, problem, mend
        super().__init__(f"{shortened(item)}: {problem}; {mend}")


def shortened(item: str) -> str:
    """An item on one line of at most 100 characters, for a message."""
    line = item.encode("unicode_escape").decode("ascii")
    return line if len(line) <= 100 else f"{line[:66]} ... {line[-29:]}"


class Quote(StrEnum):
    """How a piece of a word is quoted; NONE where there is no shell."""

    NONE = "none"
    BARE = "bare"
    ESCAPED = "escaped"
    SINGLE = "single"
    DOUBLE = "double"


@dataclass(frozen=True, slots=True)
class Piece:
    """Text as the engine reads it, from `start` to `end` of the item."""

    text: str
    start: int
    end: int
    quote: Quote = Quote.NONE
    variable: str | None = None
    """The variable whose value this is."""
    known: bool = True
    """False where only the shell will know the value; `text` is then what the item says."""

    @property
    def vanished(self) -> bool:
        """Whether it is a variable that is empty now."""
        return self.variable is not None and self.text == ""


@dataclass(frozen=True, slots=True)
class Word:
    """One argument as the engine reads it, from `start` to `end` of the item with this place."""

    item: int
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
        """Whether the whole value is known."""
        return all(piece.known for piece in self.pieces)

    def variable_after(self, offset: int) -> Piece | None:
        """The variable that makes up all of the value from `offset` on, if one does."""
        ends = accumulate(len(piece.text) for piece in self.pieces)
        tail = [piece for piece, end in zip(self.pieces, ends, strict=True) if end - len(piece.text) >= offset]
        return tail[0] if len(tail) == 1 and tail[0].variable else None

    def rewritten(self, raw: str, value: str, kubernetes: bool) -> str:
        """The word's part of the item `raw`, changed so that the engine reads `value`, and no more than that."""
        if value == self.value:
            return raw[self.start : self.end]
        left, right = self._unchanged(value)
        changed = self.pieces[left:right]
        kept = sum(len(piece.text) for piece in self.pieces[:left])
        text = value[kept : len(value) - sum(len(piece.text) for piece in self.pieces[right:])]
        ends = (changed[0], changed[-1]) if changed else self.pieces[max(left - 1, 0) : max(left, 1)]
        quotes = {Quote.BARE if piece.quote is Quote.ESCAPED else piece.quote for piece in ends}
        if len(quotes) != 1:
            return self._written_anew(value, kubernetes)
        start, end = (changed[0].start, changed[-1].end) if changed else (self._place(left),) * 2
        return raw[self.start : start] + quoted(text, quotes.pop(), kubernetes) + raw[end : self.end]

    def _unchanged(self, value: str) -> tuple[int, int]:
        """How many pieces at the left stay, and where those that stay at the right begin."""
        left, start = 0, 0
        while left < len(self.pieces) and value.startswith(self.pieces[left].text, start):
            start += len(self.pieces[left].text)
            left += 1
        right, end = len(self.pieces), len(value)
        while right > left and value.endswith(self.pieces[right - 1].text, start, end):
            right -= 1
            end -= len(self.pieces[right].text)
        return left, right

    def _place(self, index: int) -> int:
        return self.pieces[index - 1].end if index else self.pieces[0].start

    def _written_anew(self, value: str, kubernetes: bool) -> str:
        variable = next((piece.variable for piece in self.pieces if piece.variable), None)
        if variable:
            mend = f"write its value out instead of ${variable}"
            raise CommandLineError(self.value, "a variable among different quotes cannot be kept", mend)
        return quoted(value, Quote.BARE if self.shell else Quote.NONE, kubernetes) or ("''" if self.shell else "")


def quoted(text: str, quote: Quote, kubernetes: bool) -> str:
    """Text as it must stand in an item to be read as `text`, between quotes of this kind."""
    if quote is Quote.BARE:
        text = shlex.quote(text) if text else ""
    elif quote is Quote.SINGLE:
        text = text.replace("'", "'\\''")
    elif quote is Quote.DOUBLE:
        text = re.sub(r'[\\"$`]', r"\\\g<0>", text)
    return text.replace("$", "$$") if kubernetes else text


def item_pieces(item: str, environment: Mapping[str, str] | None) -> tuple[Piece, ...]:
    """An item as Kubernetes hands it on: `$(NAME)` is the variable's value, or stays where there is none.

    Without an environment nothing is put in, as for a process that is started by hand.
    """
    if environment is None:
        return (Piece(item, 0, len(item)),) if item else ()
    return tuple(_item_piece(found, environment) for found in ITEM_PARTS.finditer(item))


def _item_piece(found: re.Match[str], environment: Mapping[str, str]) -> Piece:
    text, name = found[0], found[1]
    if name is not None and name in environment:
        return Piece(environment[name], *found.span(), variable=name)
    return Piece("$" if text == "$$" else text, *found.span())


@dataclass(frozen=True, slots=True)
class Edit:
    """Changes to the engine's arguments, each named by its place among them."""

    values: Mapping[int, str | None] = field(default_factory=dict)
    """New values; None takes the argument away."""
    added: tuple[str, ...] = ()
    after: int | None = None
    """Where the added arguments come; None: after the last."""


@dataclass(frozen=True, slots=True)
class Source:
    """The items of a command, and the words in them that are the engine's arguments."""

    command: tuple[str, ...]
    args: tuple[str, ...]
    words: tuple[Word, ...]
    program: Word | None
    """The word before the arguments; None where the image names the program."""
    kubernetes: bool
    """Whether `$$` stands for `$`."""

    @property
    def items(self) -> tuple[str, ...]:
        """All items, in the order in which they are put together."""
        return self.command + self.args

    @property
    def in_script(self) -> bool:
        """Whether the engine is started by a shell's script, which is then one item."""
        return self.program is not None and self.program.shell

    def edited(self, edit: Edit) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """`command` and `args` after an edit."""
        after = len(self.words) - 1 if edit.after is None else edit.after
        items = self._with_script(edit, after) if self.in_script else self._with_items(edit, after)
        cut = len(self.command)
        return tuple(chain.from_iterable(items[:cut])), tuple(chain.from_iterable(items[cut:]))

    def _with_items(self, edit: Edit, after: int) -> list[list[str]]:
        items = [[item] for item in self.items] or [[]]
        for place, value in edit.values.items():
            word = self.words[place]
            changed = value is not None and word.rewritten(self.items[word.item], value, self.kubernetes)
            items[word.item] = [changed] if isinstance(changed, str) else []
        anchor = self.words[after] if after >= 0 else self.program
        items[anchor.item if anchor else -1] += (quoted(one, Quote.NONE, self.kubernetes) for one in edit.added)
        return items

    def _with_script(self, edit: Edit, after: int) -> list[list[str]]:
        assert self.program is not None
        raw, words = self.items[self.program.item], (self.program, *self.words)
        out, cursor = "", 0
        for place, word in enumerate(words, -1):
            added = edit.added if place == after else ()
            if place not in edit.values and not added:
                continue
            end_before = words[place].end if place >= 0 else word.start
            gap, value = raw[end_before : word.start], edit.values.get(place, word.value)
            out += raw[cursor:end_before]
            out += (
                BLANKS_AT_THE_END.sub("", gap) if value is None else gap + word.rewritten(raw, value, self.kubernetes)
            )
            out += "".join(" " + quoted(one, Quote.BARE, self.kubernetes) for one in added)
            cursor = word.end
            if raw[cursor : cursor + 1] in ("<", ">"):
                out += " "  # a number right before it would be a file's
        items = [[item] for item in self.items]
        items[self.program.item] = [out + raw[cursor:]]
        return items
