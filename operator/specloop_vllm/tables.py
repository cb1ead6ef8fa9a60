"""K by the number of requests in a step, as vLLM takes it: ranges that begin at 1, one after the other.

[[1, 8, 5], [9, 256, 2]]  ->  [5, 5, 5, ..., 2, 2]   (index: number of requests)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

MOST_RANGES = 64
"""More edges than any measured table has; what comes from outside must end somewhere."""

MOST_REQUESTS = 65536
"""In a step; vLLM's largest default is 1,024."""

MOST_TOKENS = 64
"""Drafted at once; the most that vLLM's own figures show is 16."""

Table = tuple[tuple[int, int, int], ...]
"""Ranges of numbers of requests, both ends included, with the K of each."""


def constant(tokens: int) -> Table:
    """One K whatever the number of requests."""
    return ((1, MOST_REQUESTS, tokens),)


def one_k(table: Table) -> int | None:
    """The K of a table that has one whatever the number of requests; None for any other."""
    first, last, tokens = table[0]
    return tokens if len(table) == 1 and (first, last) == (1, MOST_REQUESTS) else None


class TableError(ValueError):
    """A table that cannot be, and why."""


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number; JSON's true and false are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def read_table(value: object) -> Table:
    """A table as JSON has it; raises TableError."""
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_RANGES:
        raise TableError(f"table must be a list of 1 to {MOST_RANGES} ranges [first, last, K]")
    next_first = 1
    ranges = []
    for one in value:
        if not isinstance(one, list) or len(one) != 3 or not all(is_whole(number) for number in one):
            raise TableError(f"{one!r:.60} is no range: give three whole numbers, [first, last, K]")
        first, last, tokens = one
        if first != next_first or not first <= last <= MOST_REQUESTS:
            raise TableError(f"range [{first}, {last}] must begin at {next_first} and end at most at {MOST_REQUESTS}")
        ranges.append((first, last, read_tokens(tokens)))
        next_first = last + 1
    return tuple(ranges)


def read_tokens(value: object) -> int:
    """A K as JSON has it; raises TableError."""
    if not is_whole(value) or not 0 <= value <= MOST_TOKENS:
        raise TableError(f"K must be a whole number from 0 to {MOST_TOKENS}, not {value!r:.60}")
    return value


@dataclass(frozen=True, slots=True)
class Lookup:
    """What an engine takes in the place of its own: K by number of requests, of exactly its length."""

    tokens: tuple[int, ...]
    clamped: bool
    """Whether a K above what the engine was started for was cut down to that, or a range beyond its largest batch."""

    @property
    def table(self) -> Table:
        """The same as ranges."""
        ranges: list[tuple[int, int, int]] = []
        for place, tokens in enumerate(self.tokens[1:], start=1):
            if ranges and ranges[-1][2] == tokens:
                ranges[-1] = ranges[-1][0], place, tokens
            else:
                ranges.append((place, place, tokens))
        return tuple(ranges)


def lookup(table: Sequence[tuple[int, int, int]], length: int, most_tokens: int) -> Lookup:
    """A table for an engine with steps of up to `length` - 1 requests; its last K stands beyond its last range.

    Index 0 is no number of requests; vLLM has the first K there.
    """
    tokens = [min(table[0][2], most_tokens)]
    for first, last, wanted in table:
        tokens += [min(wanted, most_tokens)] * (min(last, length - 1) - first + 1)
    tokens += [tokens[-1]] * (length - len(tokens))
    return Lookup(tuple(tokens[:length]), any(wanted > most_tokens for _, _, wanted in table))
