"""Certificates made by openssl for a test: an authority, and what it signs."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

LOOPBACK = "IP:127.0.0.1"
OF_AN_AUTHORITY = ("basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign")
CONFIGURATION = "[req]\ndistinguished_name = name\n[name]\n"
"""Without the system's own defaults, which differ."""


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, in PEM."""

    cert: Path
    key: Path


def authority(folder: Path, name: str) -> Pair:
    """A certificate that signs others."""
    return _made(folder, name, OF_AN_AUTHORITY)


def signed(by: Pair, name: str, subject: str = LOOPBACK) -> Pair:
    """A certificate for an address such as IP:127.0.0.1 or DNS:vllm.test, beside its authority's."""
    extensions = ("basicConstraints=critical,CA:FALSE", f"subjectAltName={subject}")
    return _made(by.cert.parent, name, extensions, "-CA", str(by.cert), "-CAkey", str(by.key))


def _made(folder: Path, name: str, extensions: Sequence[str], *more: str) -> Pair:
    pair = Pair(folder / f"{name}.pem", folder / f"{name}.key")
    configuration = folder / "openssl.cnf"
    configuration.write_text(CONFIGURATION)
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-keyout", str(pair.key))
    added = [word for one in extensions for word in ("-addext", one)]
    words = ("req", "-x509", "-config", str(configuration), "-subj", f"/CN={name}", "-days", "2", *key)
    command = [_openssl(), *words, "-out", str(pair.cert), *added, *more]
    subprocess.run(command, check=True, capture_output=True)
    return pair


def _openssl() -> str:
    found = shutil.which("openssl")
    if found is None:
        reason = "no openssl: install the package of this name"
        if os.environ.get("SPECLOOP_REQUIRE_ENGINES"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found
