"""What a user asks of an injection, and what it adds to a pod template and changes in it, as values."""

from dataclasses import dataclass, field
from typing import Any

from specloop_cli.inject_yaml import Path
from specloop_engine.speculation import Speculation


@dataclass(frozen=True, slots=True)
class Options:
    """What a user may ask for."""

    image: str | None = None
    """With the plugin; None: this release's, by the name that scripts/build-images gives it."""
    token_secret: str = "specloop-live"
    token_key: str = "token"
    container: str | None = None
    version: str | None = None
    live: bool = True
    annotation: bool = True
    drain_seconds: int = 300


@dataclass(frozen=True, slots=True)
class Run:
    """Items of a list that others come in the place of."""

    path: Path
    first: int
    last: int
    items: tuple[str, ...]
    place: int
    """Of the first of them, once all is done."""


@dataclass(slots=True)
class Plan:
    """Additions and changes to a template, each mapping and list named once."""

    keys: dict[Path, dict[str, Any]] = field(default_factory=dict)
    items: dict[Path, list[Any]] = field(default_factory=dict)
    values: dict[Path, Any] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)
    added: list[str] = field(default_factory=list)
    """What is added, in words."""
    notes: list[str] = field(default_factory=list)
    """What is left out, or asks for attention, in words."""
    speculation: Speculation | None = None
    """What the command must ask for afterwards."""
    setting: str | None = None
    """The annotation that must then hold it."""
