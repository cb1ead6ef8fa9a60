"""`specloop record`: what a Prometheus has of a target, pulled into one file for `specloop replay`."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specloop_cli.errors import InputError
from specloop_cli.output import Format, console, print_document
from specloop_cli.times import UNIT_SECONDS, moment, span
from specloop_control.prometheus_server import Prometheus, PrometheusError, PrometheusSettings
from specloop_control.record import MAX_BYTES, Plan, RecordError, record
from specloop_control.recording_file import Header, RecordingError, part_of
from specloop_policy.times import rfc3339

DEFAULT_LAST = "7d"

TRIES = 4
"""A failure that may pass is tried again after 1, 2 and 4 seconds; a longer one ends the command, which then goes on
where it stopped."""

SHOWN_GAPS = 5
"""More are counted, not listed."""


@dataclass(frozen=True, slots=True)
class Times:
    """What was asked for, in the user's words."""

    start: str | None
    end: str | None
    last: str | None


@dataclass(frozen=True, slots=True)
class Asked:
    """The options that say what is recorded from where."""

    prometheus: str
    namespace: str | None
    matchers: Sequence[str]
    pod_label: str
    namespace_label: str
    prefix: str
    token_file: str | None
    lag_seconds: float

    def settings(self) -> PrometheusSettings:
        """The same, checked; raises PrometheusError."""
        return PrometheusSettings(
            self.prometheus,
            prefix=self.prefix,
            namespace=self.namespace,
            namespace_label=self.namespace_label,
            pod_label=self.pod_label,
            matchers=tuple(self.matchers),
            lag_seconds=self.lag_seconds,
            token_file=None if self.token_file is None else Path(self.token_file),
        )


def run(asked: Asked, times: Times, out: str, *, force: bool, max_bytes: int | None, output: Format) -> int:
    """Record; always answers 0 when it is done."""
    path = Path(out)
    try:
        header = _recorded(asked, times, path, force=force, max_bytes=max_bytes or MAX_BYTES)
    except KeyboardInterrupt:
        if part_of(path).exists():
            sys.stderr.write(f"specloop: interrupted; the same command goes on with {part_of(path)}\n")
        raise
    except PrometheusError as error:
        again = "; the same command goes on where it stopped" if part_of(path).exists() else ""
        raise InputError(f"{error}{again}") from error
    except (RecordError, RecordingError) as error:
        raise InputError(str(error)) from error
    if output is Format.JSON:
        print_document(header.document() | {"bytes": path.stat().st_size})
    else:
        _show(header, path)
    return 0


def _recorded(asked: Asked, times: Times, path: Path, *, force: bool, max_bytes: int) -> Header:
    settings = asked.settings()
    wanted = plan(settings, times, time.time())
    with closing(Prometheus(settings, tries=TRIES)) as server, _progress() as progress:
        return record(server, wanted, path, now=time.time, progress=progress, force=force, max_bytes=max_bytes)


def plan(settings: PrometheusSettings, times: Times, now: float) -> Plan:
    """What is to be recorded, nothing of it newer than what is complete; raises InputError."""
    if times.start is not None and times.last is not None:
        raise InputError("--start and --last: give one of them, each says where the recording begins")
    complete = now - settings.lag_seconds
    end = min(complete, _moment("--end", times.end or "now", now))
    last = times.last or DEFAULT_LAST
    start = end - span(f"--last {last}", last) if times.start is None else _moment("--start", times.start, now)
    if start < 0.0:
        raise InputError("the recording would begin before 1970: give a later --start, or a shorter --last")
    if start >= end:
        raise InputError(f"--start {rfc3339(start)} is not before the end, {rfc3339(end)}: give an earlier one")
    words = f"--start {times.start}" if times.start is not None else f"--last {last}"
    return Plan(settings, round(start, 3), round(end, 3), f"{words} --end {times.end or 'now'}")


def _moment(option: str, text: str, now: float) -> float:
    """Seconds since the epoch of a time such as 2026-07-01T12:00:00Z, 1782907200, now or now-6h."""
    if text == "now":
        return now
    if text.startswith("now-"):
        return now - span(f"{option} {text}", text.removeprefix("now-"))
    return moment(f"{option} {text}", text, "a time such as 2026-07-01T12:00:00Z, or now-6h")


@contextmanager
def _progress() -> Iterator[Callable[[float], None]]:
    """What tells how much is done: a bar on a terminal, else a line every ten per cent."""
    errors = console(stderr=True)
    if not errors.is_terminal:
        yield _lines()
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("recording"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True) as bar:
        task = bar.add_task("recording", total=1.0)
        yield lambda share: bar.update(task, completed=share)


def _lines() -> Callable[[float], None]:
    told = 0

    def tell(share: float) -> None:
        nonlocal told
        tenth = int(share * 10.0 + 1e-9)
        if tenth > told:
            told = tenth
            sys.stderr.write(f"{tenth * 10} % recorded\n")

    return tell


def _show(header: Header, path: Path) -> None:
    out = console()
    out.print(f"{path}: {path.stat().st_size / 1e6:.2f} MB from {header.source}")
    out.print(f"{rfc3339(header.start)} to {rfc3339(header.end)}, {_span(header.end - header.start)}")
    every = "" if header.interval_seconds is None else f", one every {header.interval_seconds:g} s for each pod"
    out.print(f"{header.samples:,} samples{every}")
    out.print(f"{len(header.pods)} pods: {', '.join(header.pods)}")
    if header.gaps:
        longest = sorted(header.gaps, key=lambda gap: gap.start - gap.end)[:SHOWN_GAPS]
        missing = sum(gap.end - gap.start for gap in header.gaps)
        out.print(f"{len(header.gaps)} gaps, {_span(missing)} in all; the longest:")
        for gap in longest:
            out.print(f"  {gap.pod}  {rfc3339(gap.start)} to {rfc3339(gap.end)}  {_span(gap.end - gap.start)}")
    else:
        out.print("no gaps")
    for warning in header.warnings:
        out.print(f"warning: {warning}")


def _span(seconds: float) -> str:
    """A span in its two largest units."""
    parts: list[Any] = []
    for unit in ("d", "h", "m", "s"):
        count, seconds = divmod(seconds, UNIT_SECONDS[unit]) if unit != "s" else (round(seconds, 1), 0.0)
        if count or parts:
            parts.append(f"{count:g} {unit}")
    return " ".join(parts[:2]) or "0 s"
