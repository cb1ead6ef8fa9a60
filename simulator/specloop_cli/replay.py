"""`specloop replay`: what a policy would have decided on a recorded fleet, when and why, and what cannot be known."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specloop_cli.errors import InputError
from specloop_cli.named_files import read_profile
from specloop_cli.output import Format, console, print_document, refuse_writing, write_file
from specloop_cli.policy_file import load_policies, title
from specloop_cli.replay_unknown import unknown
from specloop_cli.times import moment
from specloop_control.recording import Header, Recording, RecordingError
from specloop_policy.decision import Inputs
from specloop_policy.ladder import Drafter, Method
from specloop_policy.model import SpecPolicy
from specloop_policy.policy import Policy, PolicyError, resolve
from specloop_policy.times import rfc3339
from specloop_sim.profile import Profile
from specloop_sim.recordings.recorded import LevelUnclear, Named, first_tokens
from specloop_sim.recordings.replay import replay
from specloop_sim.recordings.replayed import Change, Replay

MOMENT = "a time such as 2026-03-01T12:00:00Z before the ="
OUTSIDE = "outside the ladder"
"""Stands for a level in figures of time: no level can be called that."""


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for beside the recording and the policies."""

    levels: Sequence[str] = ()
    """[TIME=]NAME: which level ran where the recording leaves several."""
    profile: str | None = None
    drafter: Method = Method.DRAFT_MODEL
    """What drafts where a policy leaves its ladder to what runs: metrics do not say."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """One policy's replay with what it was made from."""

    document: SpecPolicy
    profile: Profile | None
    found: Replay


def run(
    policy_files: Sequence[str],
    recording: str,
    options: Options,
    output: Format,
    *,
    report: str | None = None,
    force: bool = False,
) -> int:
    """Replay; 0 when it ran to its end."""
    page = Path(report) if report is not None else None
    refuse_writing({"--report": page}, [recording, *policy_files], force=force)
    if Path(recording).is_dir():
        raise InputError(f"{recording or '.'} is a folder; name the file that specloop record wrote")
    documents = _documents(policy_files)
    profile = read_profile(options.profile) if options.profile is not None else None
    try:
        with Recording.open(Path(recording)) as opened:
            header = opened.header
            replays = _replays(documents, opened, profile, options)
    except RecordingError as error:
        raise InputError(str(error)) from error
    answer = answer_of(header, replays)
    answer["unknown"] += _never_shown(options.levels, replays)
    if page is not None:
        from specloop_cli.reports import replay_report
        from specloop_sim.report.page import render

        told = replay_report(Path(recording).name, header, [one.found for one in replays], answer["unknown"])
        write_file(page, render(told), force=force)
    if output is Format.JSON:
        print_document(answer)
    else:
        from specloop_cli import replay_text  # JSON does without

        replay_text.show(answer)
    return 0


def _never_shown(levels: Sequence[str], replays: Sequence[Replayed]) -> list[str]:
    """What was named with `--level` and contradicts the metrics, which go first."""
    shown = {stay.level for one in replays for stay in one.found.stays}
    named = dict.fromkeys(text.rpartition("=")[2] for text in levels)
    return [
        f"The recording never shows the fleet at {name}, which --level names: what the metrics show goes first."
        for name in named
        if name not in shown
    ]


def answer_of(header: Header, replays: Sequence[Replayed]) -> dict[str, Any]:
    """The answer as the command prints it."""
    return {
        "recording": header.document(),
        "policies": {one.document.metadata.name: _policy(one.found) for one in replays},
        "unknown": unknown([(one.document, one.profile, one.found) for one in replays]),
    }


def _policy(found: Replay) -> dict[str, Any]:
    return {
        "ticks": found.ticks,
        "decisions": [_decision(change) for change in found.changes],
        "lastReason": None if found.last is None else found.last.reason,
        "outcomes": {str(outcome): count for outcome, count in sorted(found.outcomes.items())},
        "recordedLevels": [
            {
                "seconds": round(stay.start, 3),
                "untilSeconds": round(stay.end, 3),
                "level": stay.level,
                "setting": stay.setting or None,
                "decided": stay.decided,
            }
            for stay in found.stays
        ],
        "timeAtLevelSeconds": {level or OUTSIDE: seconds for level, seconds in found.seconds_at_level.items()},
    }


def _decision(change: Change) -> dict[str, Any]:
    decision = change.decision
    return {
        "seconds": round(change.seconds, 3),
        "time": rfc3339(change.at),
        "from": change.before,
        "to": decision.level,
        "action": decision.action,
        "rule": decision.rule,
        "reason": decision.reason,
        "gainPercent": decision.gain_percent,
        "carriedOut": change.carried_out,
        "untilSeconds": round(change.until_seconds, 3),
    }


def _documents(policy_files: Sequence[str]) -> list[SpecPolicy]:
    if list(policy_files).count("-") > 1:
        raise InputError("-: standard input can be read only once; give all other files by name")
    found: dict[str, SpecPolicy] = {}
    for path in policy_files:
        for one in load_policies(path):
            name = one.metadata.name
            if name in found:
                raise InputError(f"{title(path)}: a second policy is called {name}: give one of them another name")
            found[name] = one
    return list(found.values())


def _replays(
    documents: Sequence[SpecPolicy], recording: Recording, profile: Profile | None, options: Options
) -> list[Replayed]:
    """Every policy's replay, with progress on a terminal."""
    replays = []
    with console(stderr=True).status("") as status:
        for place, document in enumerate(documents, 1):
            status.update(f"replaying {document.metadata.name} ({place} of {len(documents)})")
            replays.append(_replayed(document, recording, profile, options))
    return replays


def _replayed(document: SpecPolicy, recording: Recording, profile: Profile | None, options: Options) -> Replayed:
    policy = _resolved(document, recording, options)
    header = recording.header
    try:
        found = replay(
            policy,
            recording.samples(),
            start=header.start,
            end=header.end,
            inputs=_inputs(document, profile),
            named=tuple(_named(policy, one) for one in options.levels),
            lag_seconds=header.lag_seconds,
            deadline_seconds=float(document.spec.rollout.progress_deadline_seconds),
        )
    except LevelUnclear as error:
        raise InputError(f"{policy.name}: {error}") from error
    return Replayed(document, profile, found)


def _resolved(document: SpecPolicy, recording: Recording, options: Options) -> Policy:
    """The policy made ready; a ladder that is left to what runs begins with the K that is shown first."""
    running, tokens = None, 0
    if document.spec.levels is None:
        tokens = first_tokens(recording.samples()) or _tokens_named(options.levels)
        running = Drafter("running", options.drafter) if tokens else None
    name = document.metadata.name
    try:
        return resolve(name, document.spec, running, tokens, enforce=True)
    except PolicyError as error:
        raise InputError(f"{name}: {error}") from error


def _tokens_named(levels: Sequence[str]) -> int:
    """K of the first level that is named like those of a derived ladder, for recordings that show none: 5 for k5."""
    names = (one.rpartition("=")[2] for one in levels)
    found = (re.fullmatch(r"k([1-8])", name, re.ASCII) for name in names)
    return next((int(one[1]) for one in found if one is not None), 0)


def _named(policy: Policy, text: str) -> Named:
    time, equals, name = text.rpartition("=")
    level = policy.ladder.find(name)
    if level is None:
        known = ", ".join(policy.ladder.names())
        raise InputError(f"--level {text}: no level of {policy.name} is called {name!r}; its levels: {known}")
    return Named(level, moment(f"--level {text}", time, MOMENT) if equals else None)


def _inputs(document: SpecPolicy, profile: Profile | None) -> Callable[[float], Inputs]:
    """What decisions depend on beside the recording: step times where a profile gives them, and schedules."""
    times = None if profile is None else profile.times
    restart = None if profile is None else profile.startup_seconds
    plain = Inputs(step_times=times, restart_seconds=restart)
    schedules = document.spec.schedules
    if not schedules:
        return lambda now: plain
    from specloop_policy.schedules import scheduled_level  # a quarter of a second, for the few with schedules

    return lambda now: Inputs(step_times=times, restart_seconds=restart, scheduled=scheduled_level(schedules, now))
