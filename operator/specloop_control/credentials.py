"""Secrets that a server asks for, in files that are read again for every use, because secrets are changed.

CredentialError    a file cannot be read, or holds no secret; the message names it
"""

from dataclasses import dataclass
from pathlib import Path


class CredentialError(ValueError):
    """A secret that is not there; trying again helps once its file is mended."""


@dataclass(frozen=True, slots=True)
class BasicAuth:
    """A user and a password; the user's name is given as it is, or in a file as well."""

    password_file: Path
    username: str = ""
    username_file: Path | None = None

    def read(self) -> tuple[str, str]:
        """The user's name and the password; raises CredentialError."""
        username = self.username if self.username_file is None else secret(self.username_file, "user's name")
        return username, secret(self.password_file, "password")


def is_plain(text: str) -> bool:
    """Whether a text can go into a header: one line of plain letters, and not empty."""
    return text.isascii() and text.isprintable() and bool(text)


def secret(file: Path, what: str) -> str:
    """The secret in a file, without the space around it; raises CredentialError."""
    try:
        found = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CredentialError(f"cannot read the {what} in {file}: {error}") from error
    if not is_plain(found):
        raise CredentialError(f"the {what} in {file} is not one line of plain letters")
    return found


def bearer(file: Path | None) -> dict[str, str]:
    """The header that carries the token in a file, or none; raises CredentialError."""
    return {} if file is None else {"Authorization": f"Bearer {secret(file, 'token')}"}
