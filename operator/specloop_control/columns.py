"""Samples of one pod as compressed columns, and back, without loss.

Counters are whole numbers that grow by little, so a column holds differences in the smallest integers that fit;
times that fit are counted in milliseconds.  Any other column holds the bits of its floats, each xor-ed with the one
before, byte by byte in planes, so that what stays the same is zeros.  A block is

    zlib( length of the head, 4 bytes | head, JSON: the number of samples and each column's name, form and size | data )

Which values are None is a column of bits of its own.
"""

import json
import struct
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from specloop_engine.sample import Dialect, Drafting, Sample, Served

T = TypeVar("T")
Floats = NDArray[np.float64]
Value = float | None

SAMPLE_FLOATS = (
    "process_start",
    "generation_tokens",
    "prompt_tokens",
    "finished_requests",
    "one_token_requests",
    "length_requests",
    "first_tokens",
    "engine_steps",
    "running",
    "waiting",
    "kv_cache_percent",
)
SAMPLE_INTEGERS = ("tokens", "generation")
DRAFTING_FLOATS = ("drafts", "draft_tokens", "accepted_tokens", "lifetime_rate")
SERVED_FLOATS = tuple(one.name for one in fields(Served))

INTEGERS = (np.int8, np.int16, np.int32, np.int64)
FLOAT64, BITS64 = np.dtype("<f8"), np.dtype("<u8")
WHOLE_UP_TO = 2.0**53
"""Whole floats up to here are exact, and so are their differences as 64-bit integers."""
MILLISECONDS = 1000.0
"""Prometheus keeps times in whole milliseconds."""
LEVEL = 6
"""Of zlib: higher ones take several times as long for a few per cent."""
MAX_BLOCK_BYTES = 256 * 1024 * 1024
"""A block that unpacks to more is not ours: ours hold some thousand samples of below 1 kB."""


class ColumnsError(ValueError):
    """A block that is not what was written."""


def pack(samples: Sequence[Sample]) -> bytes:
    """A block of samples, at least one, in the order given."""
    block = _Writer(len(samples))
    block.numbers("at", [one.at for one in samples])
    block.names("dialect", [one.dialect for one in samples])
    block.names("incarnation", [one.incarnation for one in samples])
    block.numbers("shows_drafting", [float(one.shows_drafting) for one in samples])
    for name in (*SAMPLE_FLOATS, *SAMPLE_INTEGERS):
        block.numbers(name, [getattr(one, name) for one in samples])
    drafting = [one.drafting for one in samples]
    _pack_part(block, "drafting", DRAFTING_FLOATS, drafting)
    _pack_part(block, "served", SERVED_FLOATS, [one.served for one in samples])
    block.rows("positions", [one.accepted_per_position if one else () for one in drafting])
    edges = [tuple(edge for edge, _ in one.temperatures) for one in samples]
    block.names("edges", [json.dumps(one) for one in edges])
    block.rows("temperatures", [tuple(count for _, count in one.temperatures) for one in samples])
    return block.finish()


def _pack_part(block: "_Writer", name: str, floats: Iterable[str], parts: Sequence[Drafting | Served | None]) -> None:
    """The numbers of one part of the samples, which some may not have."""
    block.numbers(name, [float(one is not None) for one in parts])
    for number in floats:
        block.numbers(f"{name}.{number}", [getattr(one, number) if one else None for one in parts])


def unpack(data: bytes) -> list[Sample]:
    """The samples of a block; raises ColumnsError where it is damaged."""
    try:
        return _samples(_Reader(data))
    except (zlib.error, ValueError, KeyError, TypeError, struct.error) as error:
        raise ColumnsError(str(error)) from error


def unpack_times(data: bytes) -> list[float]:
    """The times of a block's samples alone."""
    try:
        return [value for value in _Reader(data).numbers("at") if value is not None]
    except (zlib.error, ValueError, KeyError, TypeError, struct.error) as error:
        raise ColumnsError(str(error)) from error


def _samples(block: "_Reader") -> list[Sample]:
    return _made(
        Sample,
        block.samples,
        {name: block.numbers(name) for name in SAMPLE_FLOATS}
        | {name: [None if n is None else int(n) for n in block.numbers(name)] for name in SAMPLE_INTEGERS}
        | {
            "at": block.numbers("at"),
            "dialect": [None if one is None else Dialect(one) for one in block.names("dialect")],
            "incarnation": block.names("incarnation"),
            "shows_drafting": [bool(one) for one in block.numbers("shows_drafting")],
            "drafting": _drafting(block),
            "temperatures": _temperatures(block),
            "served": _served(block),
        },
    )


def _drafting(block: "_Reader") -> list[Drafting | None]:
    columns = {name: block.numbers(f"drafting.{name}") for name in DRAFTING_FLOATS}
    made = _made(Drafting, block.samples, {**columns, "accepted_per_position": block.rows("positions")})
    return _where(block.numbers("drafting"), made)


def _served(block: "_Reader") -> list[Served | None]:
    if "served" not in block:
        return [None] * block.samples  # it was recorded before this was looked at
    columns = {name: block.numbers(f"served.{name}") for name in SERVED_FLOATS}
    return _where(block.numbers("served"), _made(Served, block.samples, columns))


def _where(there: Iterable[float], made: Iterable[T]) -> list[T | None]:
    """Parts of the samples that have them."""
    return [one if has else None for one, has in zip(made, there, strict=True)]


def _temperatures(block: "_Reader") -> Iterator[tuple[tuple[float, float], ...]]:
    edges: dict[str | None, tuple[float, ...]] = {}
    for text, counts in zip(block.names("edges"), block.rows("temperatures"), strict=True):
        found = edges.get(text)
        if found is None:
            found = edges[text] = tuple(json.loads(text or "[]"))
        yield tuple(zip(found, counts, strict=True))


def _made(kind: type[T], count: int, columns: Mapping[str, Iterable[object]]) -> list[T]:
    """This many of a slotted dataclass, field by field.

    A frozen one takes 12 µs to make through its constructor, and 3 µs this way: a week of ten pods has 400,000.
    """
    made = [kind.__new__(kind) for _ in range(count)]
    for name, values in columns.items():
        deque(map(getattr(kind, name).__set__, made, values), maxlen=0)
    return made


@dataclass(slots=True)
class _Writer:
    """Columns on their way into a block."""

    samples: int
    columns: list[list[Any]] = field(default_factory=list)
    data: list[bytes] = field(default_factory=list)

    def numbers(self, name: str, values: Sequence[Value]) -> None:
        """A column of numbers, some of them None."""
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            bits = np.packbits([value is not None for value in values]).tobytes()
            self._add(f"{name}?", "bits", bits)
        form, data = _encode(np.array(known, np.float64))
        self._add(name, form, data)

    def names(self, name: str, values: Sequence[str | None]) -> None:
        """A column of texts, few of which differ."""
        places: dict[str | None, int] = {value: place for place, value in enumerate(dict.fromkeys(values))}
        self._add(f"{name}!", "json", json.dumps(list(places)).encode())
        self.numbers(name, [float(places[value]) for value in values])

    def rows(self, name: str, values: Sequence[Sequence[float]]) -> None:
        """A column of tuples, which may differ in length."""
        self.numbers(f"{name}#", [float(len(one)) for one in values])
        for place in range(max(map(len, values), default=0)):
            self.numbers(f"{name}.{place}", [one[place] for one in values if place < len(one)])

    def finish(self) -> bytes:
        """The block."""
        head = json.dumps({"samples": self.samples, "columns": self.columns}, separators=(",", ":")).encode()
        return zlib.compress(b"".join((struct.pack("<I", len(head)), head, *self.data)), LEVEL)

    def _add(self, name: str, form: str, data: bytes) -> None:
        self.columns.append([name, form, len(data)])
        self.data.append(data)


class _Reader:
    """A block whose columns are decoded as they are asked for."""

    def __init__(self, block: bytes) -> None:
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(block, MAX_BLOCK_BYTES)
        if not unpacking.eof:
            raise ValueError("it is cut short, or unpacks to too much")
        (length,) = struct.unpack_from("<I", data)
        head = json.loads(data[4 : 4 + length])
        self.samples = int(head["samples"])
        self._columns: dict[str, tuple[str, bytes]] = {}
        place = 4 + length
        for name, form, size in head["columns"]:
            self._columns[name] = form, data[place : place + size]
            place += size

    def __contains__(self, name: str) -> bool:
        """Whether there is such a column."""
        return name in self._columns

    def numbers(self, name: str, count: int | None = None) -> list[Any]:
        """The values of a column of numbers; `count` where it is not one a sample."""
        count = self.samples if count is None else count
        known: list[Any] = _decode(*self._columns[name]).tolist()
        if f"{name}?" in self._columns:
            bits = np.frombuffer(self._columns[f"{name}?"][1], np.uint8)
            following = iter(known)
            known = [next(following) if one else None for one in np.unpackbits(bits, count=count).tolist()]
        if len(known) != count:
            raise ValueError(f"the column {name} has {len(known)} values, not {count}")
        return known

    def names(self, name: str) -> list[str | None]:
        """The values of a column of texts."""
        texts: list[str | None] = json.loads(self._columns[f"{name}!"][1])
        return [texts[int(place)] for place in self.numbers(name)]

    def rows(self, name: str) -> Iterator[tuple[float, ...]]:
        """The values of a column of tuples."""
        lengths = [int(length) for length in self.numbers(f"{name}#")]
        longest = max(lengths, default=0)
        columns = [
            self.numbers(f"{name}.{place}", sum(place < length for length in lengths)) for place in range(longest)
        ]
        if min(lengths, default=0) == longest:
            return iter(zip(*columns, strict=True)) if columns else iter([()] * len(lengths))
        following = [iter(column) for column in columns]
        return (tuple([next(one) for one in following[:length]]) for length in lengths)


def _encode(values: Floats) -> tuple[str, bytes]:
    """The form and the bytes of a column: differences of whole numbers, of milliseconds, or bits."""
    if _whole(values):
        return _differences("whole", values)
    thousandths = _thousandths(values)
    if thousandths is not None:
        return _differences("milli", thousandths)
    bits = np.ascontiguousarray(values, FLOAT64).view(BITS64)
    changed = bits.copy()
    changed[1:] ^= bits[:-1]
    return "bits64", changed.view(np.uint8).reshape(-1, 8).T.tobytes()


def _whole(values: Floats) -> bool:
    with np.errstate(invalid="ignore"):
        fits = (np.abs(values) <= WHOLE_UP_TO) & (values == np.floor(values)) & ~(np.signbit(values) & (values == 0.0))
    return bool(fits.all())


def _thousandths(values: Floats) -> Floats | None:
    """The values in thousandths, None where that would lose anything."""
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = np.round(values * MILLISECONDS)
        same = _whole(scaled) and bool((scaled / MILLISECONDS == values).all())
    return scaled if same else None


def _differences(form: str, values: Floats) -> tuple[str, bytes]:
    steps = np.diff(values.astype(np.int64), prepend=np.int64(0))
    first, rest = int(steps[0]) if len(steps) else 0, steps[1:]
    low, high = (int(rest.min()), int(rest.max())) if len(rest) else (0, 0)
    kind = next(one for one in INTEGERS if np.iinfo(one).min <= low and high <= np.iinfo(one).max)
    start = struct.pack("<q", first) if len(steps) else b""
    return f"{form}{np.dtype(kind).itemsize}", start + rest.astype(np.dtype(kind).newbyteorder("<")).tobytes()


def _decode(form: str, data: bytes) -> Floats:
    if form == "bits64":
        planes = np.frombuffer(data, np.uint8).reshape(8, -1)
        changed = np.ascontiguousarray(planes.T).view(BITS64).reshape(-1)
        return np.bitwise_xor.accumulate(changed).astype(np.uint64).view(np.float64)
    if not data:
        return np.zeros(0)
    (first,) = struct.unpack_from("<q", data)
    rest = np.frombuffer(data, np.dtype(f"<i{int(form[-1])}"), offset=8).astype(np.int64)
    total = np.cumsum(np.concatenate((np.array([first], np.int64), rest)), dtype=np.int64)
    values = total.astype(np.float64)
    return values / MILLISECONDS if form.startswith("milli") else values
