"""What an attacker would send: texts that steer terminals and forge lines, and answers that grow when unpacked."""

import gzip
import zlib

MEBIBYTE = 1024 * 1024

FORGED = "2026-01-01T00:00:00.000+00:00 INFO specloop.decisions llm/chat Deployment/llama: Disable (Enforce): forged"
"""A line as the operator's own log has them in text."""

HOSTILE = f"boom\n{FORGED}\r\x1b[31m\x1b]0;title\x07\x9b2J\u2028\u2029\x85\u202etxt\u200b\0" + '"}]'
"""Line ends of every kind, sequences that colour a terminal, name its window and clear it (ECMA-48: ESC [, ESC ], and
CSI in one character), a change of direction (U+202E), what nobody sees, and what ends JSON."""

HALF = "\ud800"
"""Half a character: JSON can say it, and no encoding can write it."""


def steers(text: str, *, line_ends: str = "") -> list[str]:
    """Characters of a text that do not print, line ends that belong there apart."""
    return [letter for letter in text if not letter.isprintable() and letter not in line_ends]


def packed(mebibytes: int) -> bytes:
    """So many mebibytes of one letter, packed with gzip to about a thousandth of it."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    letters = b"#" * MEBIBYTE
    return b"".join([packer.compress(letters) for _ in range(mebibytes)]) + packer.flush()


def packed_twice(mebibytes: int) -> bytes:
    """The same packed once more, to a few kilobytes: what is read from a socket at once unpacks to all of it."""
    return gzip.compress(packed(mebibytes), 9)


def laughs(name: str = "x", depth: int = 9) -> str:
    """YAML whose anchors name each other ten times over, ten to the power of `depth` values once written out."""
    lines = [f"a0: &a0 [{', '.join([name] * 10)}]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, depth)]
    return "\n".join(lines) + "\n"
