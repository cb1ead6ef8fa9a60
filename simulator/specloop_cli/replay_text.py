"""The answer of `specloop replay` for people."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from rich.console import Console
from rich.table import Table

from specloop_cli.output import console, print_table


def show(answer: Mapping[str, Any]) -> None:
    """Print the recording, each policy's timeline, and what cannot be known."""
    out = console()
    recording = answer["recording"]
    out.print(
        f"Recorded: {len(recording['pods'])} pods, {recording['samples']:,} samples, "
        f"{recording['startTime']} to {recording['endTime']} ({spell(recording['seconds'])})"
    )
    for name, policy in answer["policies"].items():
        _show_policy(out, name, policy)
    if answer["unknown"]:
        out.print("\nWhat cannot be known:")
        for sentence in answer["unknown"]:
            out.print(f"- {sentence}")


def _show_policy(out: Console, name: str, policy: Mapping[str, Any]) -> None:
    out.print(f"\n{name}, looking {policy['ticks']:,} times:")
    for one in _timeline(policy):
        out.print(f"{spell(one['seconds']):>10}  {one['line']}")
        for more in one["more"]:
            out.print(f"{'':12}{more}")
    if not policy["decisions"]:
        out.print(f"{'':12}No decision would have changed anything.  At the end: {policy['lastReason'] or 'no sample'}")
    table = Table(box=None, pad_edge=False)
    for heading in ("recorded at", "for"):
        table.add_column(heading)
    for level, seconds in policy["timeAtLevelSeconds"].items():
        table.add_row(level, spell(seconds))
    print_table(out, table)
    outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in policy["outcomes"].items())
    out.print(f"windows: {outcomes or 'none is complete'}")


def _timeline(policy: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Decisions, and the levels that the fleet came to without having been asked, in order of time."""
    lines = [
        {
            "seconds": one["seconds"],
            "line": f"{one['action']:8}  {one['from']} → {one['to']}  {one['time']}",
            "more": [one["reason"], _followed(one)],
        }
        for one in policy["decisions"]
    ]
    stays = policy["recordedLevels"]
    for before, after in pairwise(stays):
        if not after["decided"]:
            line = f"recorded  {_ran(before)} → {_ran(after)}: by somebody else, and taken as it is"
            lines.append({"seconds": after["seconds"], "line": line, "more": []})
    return sorted(lines, key=lambda one: float(one["seconds"]))


def _followed(one: Mapping[str, Any]) -> str:
    seconds = one["untilSeconds"] - one["seconds"]
    if one["carriedOut"]:
        return f"carried out: the fleet was there {spell(seconds)} later"
    until = f"asked for until {spell(one['untilSeconds'])}" if seconds else "asked for once"
    if one["carriedOut"] is None:
        return f"{until}; the recording ends too soon to say whether it was carried out"
    return f"{until}; not carried out"


def _ran(stay: Mapping[str, Any]) -> str:
    return str(stay["level"] or stay["setting"])


def spell(seconds: float) -> str:
    """A span as people say it, to the second below an hour and to the minute above: 45s, 12m30s, 1d04h15m."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    minutes = round(seconds / 60.0)
    days, hours = minutes // 1440, minutes // 60 % 24
    return f"{days}d{hours:02}h{minutes % 60:02}m" if days else f"{hours}h{minutes % 60:02}m"
