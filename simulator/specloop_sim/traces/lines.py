"""A trace's bytes as lines of text: gzip, encodings and line ends out of the way, everything else refused by name."""

import gzip
import io
import re
import zlib
from collections.abc import Iterator
from typing import BinaryIO, cast

HEAD_BYTES = 4096
LONGEST_LINE = 1 << 20
"""Characters: a row of a trace has some hundred, with a prompt's hashes some thousand."""

LOOKS = (
    (b"PAR1", "a Parquet file", "convert it to CSV"),
    (b"ARROW1", "an Arrow file", "convert it to CSV"),
    (b"PK\x03\x04", "a zip archive or a spreadsheet", "unpack it, or save the sheet as CSV"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", "unpack it: zstd -d"),
    (b"BZh", "compressed with bzip2", "unpack it: bunzip2"),
    (b"\xfd7zXZ", "compressed with xz", "unpack it: unxz"),
    (b"\x1f\x8b", "compressed twice", "unpack it once: gunzip"),
    (b"SQLite format 3", "an SQLite database", "export the table as CSV"),
    (b"%PDF", "a PDF", "a trace is CSV or JSON lines"),
    (b"version https://git-lfs", "a pointer of Git LFS, not the file itself", "fetch it: git lfs pull"),
)


class TraceError(ValueError):
    """A trace that cannot be read; the message begins with its name and line and says how to mend it."""

    def __init__(self, name: str, line: int, message: str) -> None:
        super().__init__(f"{name}:{line}: {message}")


class Lines(Iterator[str]):
    """Lines of a trace without byte order mark, each ending in a newline but perhaps the last.

    Raises TraceError for what is no text, OSError when reading fails.
    """

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self.name = name
        self.number = 0
        """Of the last line read, counted from 1."""
        self.whole = True
        """Whether the last line read ends in a newline."""
        self._latin = 0
        """How many lines were no UTF-8."""
        self._first_latin = 0
        head, stream = _peek(stream)
        if head.startswith(b"\x1f\x8b"):
            head, stream = self._unpack(stream)
        self._refuse_binary(head)
        self._text = io.TextIOWrapper(stream, _encoding(head), errors=_errors(head))

    def __next__(self) -> str:
        line = self._read()
        if not line:
            raise StopIteration
        self.number += 1
        self.whole = line.endswith("\n")
        if len(line) > LONGEST_LINE:
            raise self.wrong(f"a line of more than {LONGEST_LINE:,} characters; is this a trace, with one row a line?")
        return line if line.isascii() else self._repaired(line)

    def repairs(self) -> list[str]:
        """What was mended in the lines read so far, in words."""
        if not self._latin:
            return []
        lines = "1 line was" if self._latin == 1 else f"{self._latin:,} lines were"
        return [f"{lines} not UTF-8, from line {self._first_latin} on, and read as Latin-1"]

    def wrong(self, message: str, line: int | None = None) -> TraceError:
        """An error at this line, or at the last one read."""
        return TraceError(self.name, max(1, self.number if line is None else line), message)

    def _read(self) -> str:
        try:
            return self._text.readline(LONGEST_LINE + 1)
        except UnicodeError as error:
            message = f"the file is not the {self._text.encoding.upper()} that it begins as; save it as UTF-8"
            raise self.wrong(message, self.number + 1) from error
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise self.wrong("the gzip file is cut off or damaged; fetch it again", self.number + 1) from error

    def _unpack(self, stream: BinaryIO) -> tuple[bytes, BinaryIO]:
        try:
            return _peek(cast("BinaryIO", gzip.GzipFile(fileobj=stream)))
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise self.wrong("the gzip file is cut off or damaged; fetch it again") from error

    def _refuse_binary(self, head: bytes) -> None:
        if not head:
            raise self.wrong("the file is empty; a trace has a header and one row for each request")
        for magic, what, mend in LOOKS:
            if head.startswith(magic):
                raise self.wrong(f"this looks like {what}; {mend}")
        if re.match(rb"\s*<(!doctype|html|\?xml)", head, re.IGNORECASE):
            raise self.wrong("this looks like a web page; download the file itself")
        if b"\0" in head and _encoding(head) == "utf-8-sig":
            few = head.count(b"\0") < len(head) // 3
            what = "binary data" if few else "UTF-16 without a byte order mark"
            raise self.wrong(f"this looks like {what}; {'a trace is CSV or JSON lines' if few else 'save it as UTF-8'}")

    def _repaired(self, line: str) -> str:
        """Bytes that are no UTF-8 came through as lone surrogates: the line is then Latin-1."""
        try:
            line.encode()
        except UnicodeEncodeError:
            self._latin += 1
            self._first_latin = self._first_latin or self.number
            return line.encode("utf-8", "surrogateescape").decode("latin-1")
        return line


def _encoding(head: bytes) -> str:
    if head.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return "utf-32"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    return "utf-8-sig"


def _errors(head: bytes) -> str:
    return "surrogateescape" if _encoding(head) == "utf-8-sig" else "strict"


def _peek(stream: BinaryIO) -> tuple[bytes, BinaryIO]:
    """The first bytes of a stream that cannot go back, and the stream with them still in it."""
    head = b""
    while len(head) < HEAD_BYTES and (more := stream.read(HEAD_BYTES - len(head))):
        head += more
    return head, cast("BinaryIO", io.BufferedReader(_Joined(head, stream), 1 << 16))


class _Joined(io.RawIOBase):
    """Bytes that were read ahead, then the rest of the stream."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        super().__init__()
        self._head = head
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # what BufferedReader hands in
        data, self._head = self._head or self._rest.read(len(buffer)), b""
        if len(data) > len(buffer):
            data, self._head = data[: len(buffer)], data[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)
