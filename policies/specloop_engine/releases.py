"""Which release of an engine knows what."""

import re
from dataclasses import dataclass

from specloop_policy.ladder import Method

Version = tuple[int, ...]
"""A release: (0, 32, 0) of vLLM, (11434,) of llama.cpp."""


def parse_version(text: str | None) -> Version | None:
    """The release in what an engine calls itself (`0.32.0+cpu`, `v0.9.2rc1`, `b11434`); None when it names none.

    A development build (`0.1.dev1+g0123abc`) names none: it may be older or newer than any release.
    """
    found = re.match(r"\s*(?:version:\s*)?[vb]?(\d{1,9}(?:\.\d{1,9})*)(?!\.?dev|[\d.]*\.dev)", text or "")
    return tuple(int(part) for part in found[1].split(".")) if found else None


@dataclass(frozen=True, slots=True)
class Releases:
    """Releases from `since` on, up to but without `until`; None: no limit."""

    since: Version | None = None
    until: Version | None = None

    def __contains__(self, version: object) -> bool:
        """Whether a release has it; an unknown one (None) is given the benefit of the doubt."""
        if not isinstance(version, tuple):
            return True
        return (self.since is None or version >= self.since) and (self.until is None or version < self.until)

    def __str__(self) -> str:
        """In words: "0.8.2 and later", "0.4.1 to before 0.8.3"."""
        since, until = (".".join(map(str, end)) if end else "" for end in (self.since, self.until))
        if since and until:
            return f"{since} to before {until}"
        return f"{since} and later" if since else f"releases before {until}"


ALL_RELEASES = Releases()

METHODS: dict[str, tuple[Releases, ...]] = {
    # Refused by the V1 engine until it came back.
    Method.DRAFT_MODEL: (Releases(until=(0, 10)), Releases(since=(0, 14, 2))),
    Method.NGRAM_GPU: (Releases(since=(0, 18)),),
    Method.SUFFIX: (Releases(since=(0, 11, 1)),),
    Method.DFLASH: (Releases(since=(0, 20)),),
    Method.DSPARK: (Releases(since=(0, 25)),),
    Method.CUSTOM_CLASS: (Releases(since=(0, 22)),),
    Method.MEDUSA: (Releases(until=(0, 33)),),
    Method.MLP_SPECULATOR: (Releases(until=(0, 33)),),
}
"""Releases of vLLM that run a method; those left out run wherever they are known to us."""


def has_method(version: Version | None, method: str) -> bool:
    """Whether a release of vLLM runs a method; where either is unknown it may."""
    return any(version in releases for releases in METHODS.get(method, (ALL_RELEASES,)))


def method_releases(method: str) -> str:
    """The releases of vLLM that run a method, in words."""
    return " and ".join(map(str, METHODS.get(method, (ALL_RELEASES,))))
