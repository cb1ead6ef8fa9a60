"""`specloop explain`: what a policy makes of two metric pages, and why."""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from specloop_cli.errors import InputError, cannot
from specloop_cli.output import Format, print_document
from specloop_cli.policy_file import load_policy
from specloop_engine.page import MAX_CHARACTERS, PageError
from specloop_engine.reader import read_sample
from specloop_engine.sample import Sample
from specloop_engine.window import difference
from specloop_policy.acceptance import Pool
from specloop_policy.decision import ActionName, Decision, Fault, Inputs, PolicyState
from specloop_policy.evidence import Evidence, gather
from specloop_policy.faults import find_faults
from specloop_policy.ladder import DISABLED, Drafter, Ladder, Level, Method, derive_ladder, matching
from specloop_policy.model import SpecPolicy
from specloop_policy.observation import Observation, Outcome, Window, Workload
from specloop_policy.policy import Policy, PolicyError, resolve
from specloop_policy.step import fresh, if_it_lasts, step

ONE_POD = "engine"
"""Name of the pod when pages are given without one."""

SHORTEST_SECONDS = 0.001
"""Clocks and the arithmetic on them tell shorter spans from none at all no more."""

LONGEST_SECONDS = 366.0 * 86400.0
"""A year: no process is compared with itself over more."""

DECIDABLE = (Outcome.MEASURED, Outcome.OFF)


@dataclass(frozen=True, slots=True)
class Pages:
    """Two pages of one pod, read."""

    pod: str
    before: Sample
    after: Sample


def run(policy_file: str, metrics: Sequence[str], elapsed: float, level: str | None, output: Format) -> int:
    """Print what the policy makes of the pages; always answers 0 when it can be said."""
    if not SHORTEST_SECONDS <= elapsed <= LONGEST_SECONDS:
        span = f"above 0 and at most {LONGEST_SECONDS:.0f}"
        raise InputError(f"--elapsed {elapsed:g}: must be seconds {span}, the time between the two pages")
    if [policy_file, *(_named(one)[1] for one in metrics)].count("-") > 1:
        raise InputError("-: standard input can be read only once; give all other files by name")
    document = load_policy(policy_file)
    pages = read_pages(metrics, elapsed)
    answer = explain(document, pages, elapsed, level)
    if output is Format.JSON:
        print_document(answer)
    else:
        from specloop_cli import explain_text  # JSON does without

        explain_text.show(answer)
    return 0


def read_pages(metrics: Sequence[str], elapsed: float) -> tuple[Pages, ...]:
    """Read the pages named by `--metrics`: BEFORE and AFTER, or POD=FILE in pairs."""
    files: dict[str, list[str]] = {}
    for one in metrics:
        pod, file = _named(one)
        files.setdefault(pod, []).append(file)
    if not files:
        raise InputError("--metrics: give two pages of one process, --metrics BEFORE --metrics AFTER")
    for pod, names in files.items():
        if len(names) != 2:
            pages = "1 page" if len(names) == 1 else f"{len(names)} pages"
            of = "" if pod == ONE_POD else f" of pod {pod}"
            raise InputError(f"--metrics: {pages}{of}, and two are needed: the one before and the one after")
    texts = {pod: [_read(name) for name in names] for pod, names in files.items()}
    starts = [_sample(names[1], texts[pod][1], 0.0).process_start for pod, names in files.items()]
    # Pages have no clock: the span is laid well after the start of every process, so that none is settling.
    base = 2.0 * 3600.0 + max((start for start in starts if start is not None and math.isfinite(start)), default=0.0)
    return tuple(
        Pages(pod, _sample(names[0], texts[pod][0], base), _sample(names[1], texts[pod][1], base + elapsed))
        for pod, names in files.items()
    )


def _named(argument: str) -> tuple[str, str]:
    pod, equals, file = argument.partition("=")
    if not equals or "/" in pod or not pod or Path(argument).exists():
        return ONE_POD, argument
    return pod, file


def _read(name: str) -> bytes:
    """What a file holds, as far as a page may be long: a device may have no end."""
    if name == "-":
        return sys.stdin.buffer.read(MAX_CHARACTERS + 1)
    try:
        with Path(name).open("rb") as file:
            return file.read(MAX_CHARACTERS + 1)
    except OSError as error:
        raise cannot("read", name, error) from error
    except ValueError as error:
        raise InputError(f"cannot read {name!r}: {error}") from error


def _sample(name: str, text: bytes, at: float) -> Sample:
    try:
        return read_sample(text, at)
    except PageError as error:
        raise InputError(f"{'standard input' if name == '-' else name}: {error}") from error


def explain(document: SpecPolicy, pages: Sequence[Pages], elapsed: float, level: str | None) -> Mapping[str, Any]:
    """The answer: the window, each pod's own, the decision now, and what the same evidence leads to if it lasts."""
    policy = _whole_window(_resolved(document, pages, level), elapsed)
    name = _level(policy.ladder, pages, level, derived=document.spec.levels is None)
    windows = _windows(pages, policy.ladder.find(name), told=level is not None)
    now = max(one.after.at for one in pages)
    state = fresh(name, now - elapsed - policy.signals.settle_seconds)
    evidence = gather(policy, windows, name or "", state.changed_at, now)
    faults = find_faults(policy, evidence)
    decided, later = _decisions(policy, state, Observation(windows, Workload(name, len(windows))), evidence, now)
    return {
        "policy": policy.name,
        "pods": [_pod(policy, window, evidence, faults) for window in windows],
        "window": _window(policy, evidence, elapsed, faults),
        "now": _decision(decided),
        "ifItLasts": {**_decision(later), "afterSeconds": later.after_seconds},
    }


def _windows(pages: Sequence[Pages], level: Level | None, *, told: bool = False) -> tuple[Window, ...]:
    """The window of each pod at a level, whose K says what pages leave open; `told`: somebody says it is this one."""
    levels = [] if level is None else [level.name]
    tokens = level.tokens if level is not None and (told or level.speculates) else None
    return tuple(difference(one.pod, one.before, one.after, levels=levels, tokens=tokens) for one in pages)


def _decisions(
    policy: Policy, state: PolicyState, observation: Observation, evidence: Evidence, now: float
) -> tuple[Decision, Decision]:
    """The decision now, and what the same evidence leads to if it lasts."""
    if state.level is None:  # pages that show neither what runs nor anything to decide on
        hold = Decision(ActionName.HOLD, None, f"{evidence.outcome}: {evidence.reason}")
        return hold, hold
    decided, _ = step(policy, state, observation, Inputs(), now)
    return decided, if_it_lasts(policy, state, observation, Inputs(), now)


def _resolved(document: SpecPolicy, pages: Sequence[Pages], level: str | None) -> Policy:
    running, tokens = None, 0
    if document.spec.levels is None:
        tokens = max((one.after.tokens or 0 for one in pages), default=0) or _tokens_named(level)
        running = Drafter("running", Method.DRAFT_MODEL) if tokens else None
    try:
        return resolve(document.metadata.name, document.spec, running, tokens, enforce=True)
    except PolicyError as error:
        raise InputError(f"{document.metadata.name}: {error}") from error


def _tokens_named(level: str | None) -> int:
    """K of a derived level's name, for pages that do not show it: 5 for k5."""
    digits = (level or "").removeprefix("k")
    return int(digits) if level is not None and level != digits and digits.isdecimal() and len(digits) < 4 else 0


def _whole_window(policy: Policy, elapsed: float) -> Policy:
    """The policy with the pages' span as its window: here the window is all the evidence."""
    update = {"window_seconds": elapsed, "max_evidence_seconds": elapsed}
    return replace(policy, signals=policy.signals.model_copy(update=update))


def _level(ladder: Ladder, pages: Sequence[Pages], asked: str | None, *, derived: bool) -> str | None:
    """The level that the pages are about: the one asked for, else the only one that fits what they show.

    None where it cannot be told and need not be, since the pages say nothing that a decision could rest on.
    """
    levels = ", ".join(ladder.names())
    if asked is not None:
        if ladder.find(asked) is None:
            raise InputError(f"--level {asked}: no level of the ladder is called that; levels: {levels}")
        return asked
    if all(window.outcome is Outcome.OFF for window in _windows(pages, None)):
        return DISABLED.name
    shown = {one.after.tokens for one in pages if one.after.dialect is not None}
    found = [] if len(shown) != 1 or None in shown else _fitting(ladder, max(one or 0 for one in shown))
    if len(found) == 1:
        return found[0]
    if not _decidable(ladder, pages):
        return None
    if len(shown) > 1:
        what = "different K on different pods"
    elif None in shown:
        what = "no K"
        levels += ", or k1 to k8 for a draft model" if derived else ""
    else:
        what = f"K = {shown.pop()}, which {'several levels fit' if found else 'no level fits'}"
    raise InputError(f"the pages show {what}: say --level (levels: {levels})")


def _decidable(ladder: Ladder, pages: Sequence[Pages]) -> bool:
    """Whether a decision could rest on the pages if their level were known; V0's say nothing without it."""
    levels = (None, *(level for level in ladder.levels if level.speculates))
    return any(window.outcome in DECIDABLE for level in levels for window in _windows(pages, level))


def _fitting(ladder: Ladder, tokens: int) -> list[str]:
    found = [level.name for level in matching(ladder.levels, tokens)]
    derived = derive_ladder(Drafter("running", Method.DRAFT_MODEL), tokens) if tokens else None
    # A ladder that was derived from these pages has what runs at its top, whatever else has that K.
    return [ladder.levels[0].name] if ladder == derived else found


def _pod(policy: Policy, window: Window, evidence: Evidence, faults: Sequence[Fault]) -> Mapping[str, Any]:
    """One pod's window; as thin as the whole when that is thin."""
    outcome = window.outcome
    if outcome is Outcome.MEASURED and evidence.outcome is Outcome.THIN:
        outcome = Outcome.THIN
    pool = Pool((window,), window.seconds, policy.signals.design_effect) if window.outcome in DECIDABLE else None
    return {
        "pod": window.pod,
        "reason": window.reason,
        **_figures(policy, outcome, window.seconds, pool),
        "faults": sorted(fault.name for fault in faults if not fault.pods or window.pod in fault.pods),
    }


def _window(policy: Policy, evidence: Evidence, elapsed: float, faults: Sequence[Fault]) -> Mapping[str, Any]:
    pool = Pool(evidence.windows, elapsed, policy.signals.design_effect) if evidence.windows else None
    figures = _figures(policy, evidence.outcome, elapsed, pool)
    return {**figures, "faults": sorted({fault.name for fault in faults})}


def _figures(policy: Policy, outcome: Outcome, elapsed: float, pool: Pool | None) -> dict[str, Any]:
    acceptance = pool.acceptance if pool is not None else None
    coverage = pool.coverage if pool is not None else None
    shares = {} if pool is None else {limit: pool.hotter_than(float(limit)) for limit in _temperature_limits(policy)}
    return {
        "outcome": outcome,
        "elapsedSeconds": elapsed,
        "finishedRequests": _count(pool.requests) if pool else None,
        "drafts": _count(pool.drafts) if pool else None,
        "draftTokens": _count(pool.draft_tokens) if pool else None,
        "acceptedTokens": _count(pool.accepted_tokens) if pool else None,
        "acceptanceRate": acceptance.value if acceptance else None,
        "acceptanceRateInterval": [acceptance.low, acceptance.high] if acceptance else None,
        "acceptanceLength": pool.acceptance_length if pool else None,
        "survival": pool.survival if pool else (),
        "coverage": coverage.value if coverage else None,
        "temperatureShareAbove": {limit: share.value for limit, share in shares.items() if share is not None},
        "runningRequests": pool.running if pool else None,
        "kvCachePercent": pool.kv_cache_percent if pool else None,
    }


def _temperature_limits(policy: Policy) -> list[str]:
    return sorted({rule.when.temperature.above for rule in policy.rules if rule.when.temperature is not None})


def _count(value: float) -> int | float:
    return int(value) if value == int(value) else value


def _decision(decision: Decision) -> dict[str, Any]:
    return {
        "action": decision.action,
        "level": decision.level,
        "rule": decision.rule,
        "reason": decision.reason,
    }
