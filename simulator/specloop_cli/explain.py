"""`specloop explain`: what a policy makes of two metric pages, and why."""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from specloop_cli.errors import InputError, cannot
from specloop_cli.output import Format, console, print_document
from specloop_cli.policy_file import load_policy
from specloop_engine.page import PageError
from specloop_engine.reader import read_sample
from specloop_engine.sample import Sample
from specloop_engine.window import difference
from specloop_policy.acceptance import Pool
from specloop_policy.decision import Decision, Inputs
from specloop_policy.evidence import Evidence, gather
from specloop_policy.faults import find_faults
from specloop_policy.ladder import DISABLED, Drafter, Ladder, Method, derive_ladder, matching
from specloop_policy.model import SpecPolicy
from specloop_policy.observation import Observation, Outcome, Window, Workload
from specloop_policy.policy import Policy, PolicyError, resolve
from specloop_policy.step import fresh, if_it_lasts, step

ONE_POD = "engine"
"""Name of the pod when pages are given without one."""

DECIDABLE = (Outcome.MEASURED, Outcome.OFF)


@dataclass(frozen=True, slots=True)
class Pages:
    """Two pages of one pod, read."""

    pod: str
    before: Sample
    after: Sample


def run(policy_file: str, metrics: Sequence[str], elapsed: float, level: str | None, output: Format) -> int:
    """Print what the policy makes of the pages; always answers 0 when it can be said."""
    if not (math.isfinite(elapsed) and elapsed > 0.0):
        raise InputError(f"--elapsed {elapsed:g}: must be a number of seconds above 0, the time between the two pages")
    document = load_policy(policy_file)
    pages = read_pages(metrics, elapsed)
    answer = explain(document, pages, elapsed, level)
    if output is Format.JSON:
        print_document(answer)
    else:
        show(answer)
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
            of = "" if pod == ONE_POD else f" of pod {pod}"
            raise InputError(f"--metrics: {len(names)} page{of}, and two are needed: the one before and the one after")
    if sum(names.count("-") for names in files.values()) > 1:
        raise InputError("--metrics -: standard input can be read only once")
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
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
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
    """The answer as cli.md has it: the window, each pod's own, the decision now and if the evidence lasts."""
    windows = [difference(one.pod, one.before, one.after) for one in pages]
    policy = _whole_window(_resolved(document, pages, level), elapsed)
    name = _level(policy.ladder, pages, windows, level)
    tagged = tuple(_tagged(window, name) for window in windows)
    now = max(one.after.at for one in pages)
    observation = Observation(tagged, Workload(name, len(tagged), _setting(pages)))
    state = fresh(name, now - elapsed - policy.signals.settle_seconds)
    evidence = gather(policy, tagged, name or "", state.changed_at, now)
    decided, _ = step(policy, state, observation, Inputs(), now)
    later = if_it_lasts(policy, state, observation, Inputs(), now)
    return {
        "policy": policy.name,
        "pods": [_pod(policy, window, evidence) for window in tagged],
        "window": _window(policy, evidence, elapsed),
        "now": _decision(decided),
        "ifItLasts": {**_decision(later), "afterSeconds": later.after_seconds},
    }


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


def _level(ladder: Ladder, pages: Sequence[Pages], windows: Sequence[Window], asked: str | None) -> str | None:
    """The level that the pages are about: the one asked for, else the only one that fits what they show."""
    levels = ", ".join(ladder.names())
    if asked is not None:
        if ladder.find(asked) is None:
            raise InputError(f"--level {asked}: no level of the ladder is called that; levels: {levels}")
        return asked
    if all(window.outcome is Outcome.OFF for window in windows):
        return DISABLED.name
    shown = {one.after.tokens for one in pages if one.after.dialect is not None}
    decidable = any(window.outcome in DECIDABLE for window in windows)
    if len(shown) == 1 and (tokens := next(iter(shown))) is not None:
        fitting = _fitting(ladder, tokens)
        if len(fitting) == 1:
            return fitting[0]
        if decidable:
            fits = "several levels fit" if fitting else "no level fits"
            raise InputError(f"the pages show K = {tokens}, which {fits}: say --level (levels: {levels})")
    if decidable:
        what = "different K" if len(shown) > 1 else "no K"
        raise InputError(f"the pages show {what}: say --level (levels: {levels})")
    return None


def _fitting(ladder: Ladder, tokens: int) -> list[str]:
    found = [level.name for level in matching(ladder.levels, tokens)]
    derived = derive_ladder(Drafter("running", Method.DRAFT_MODEL), tokens) if tokens else None
    # A ladder that was derived from these pages has what runs at its top, whatever else has that K.
    return [ladder.levels[0].name] if ladder == derived else found


def _tagged(window: Window, level: str | None) -> Window:
    if level == DISABLED.name and window.outcome is Outcome.MEASURED:
        return replace(window, level=level, outcome=Outcome.OFF, tokens=0)
    return replace(window, level=level or "")


def _setting(pages: Sequence[Pages]) -> str:
    shown = sorted({one.after.tokens for one in pages if one.after.tokens is not None})
    return "K = " + ", ".join(map(str, shown)) if shown else "no K is shown"


def _pod(policy: Policy, window: Window, evidence: Evidence) -> Mapping[str, Any]:
    """One pod's window; as thin as the whole when that is thin."""
    outcome = window.outcome
    if outcome is Outcome.MEASURED and evidence.outcome is Outcome.THIN:
        outcome = Outcome.THIN
    pool = Pool((window,), window.seconds, policy.signals.design_effect) if window.outcome in DECIDABLE else None
    return {"pod": window.pod, "reason": window.reason, **_figures(policy, outcome, window.seconds, pool), "faults": []}


def _window(policy: Policy, evidence: Evidence, elapsed: float) -> Mapping[str, Any]:
    pool = Pool(evidence.windows, elapsed, policy.signals.design_effect) if evidence.windows else None
    faults = sorted({fault.name for fault in find_faults(policy, evidence)})
    return {**_figures(policy, evidence.outcome, elapsed, pool), "faults": faults}


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


def show(answer: Mapping[str, Any]) -> None:
    """The answer for people."""
    from rich.table import Table

    out = console()
    pods = answer["pods"]
    rows = [answer["window"], *(pods if len(pods) > 1 else [])]
    table = Table(box=None, pad_edge=False)
    for heading in ("pod", "outcome", "requests", "drafts", "acceptance", "by position", "coverage", "faults"):
        table.add_column(heading)
    for row in rows:
        table.add_row(
            row.get("pod", "all"),
            row["outcome"],
            _shown(row["finishedRequests"]),
            _shown(row["drafts"]),
            _interval(row["acceptanceRate"], row["acceptanceRateInterval"]),
            " ".join(f"{share:.2f}" for share in row["survival"]),
            _shown(row["coverage"]),
            " ".join(row["faults"]),
        )
    out.print(table)
    for title, key in (("now", "now"), ("if it lasts", "ifItLasts")):
        decision = answer[key]
        out.print(f"{title:12} {decision['action']} {decision['level'] or ''}".rstrip())
        out.print(f"{'':12} {decision['reason']}")


def _shown(value: object) -> str:
    if value is None:
        return "unknown"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _interval(rate: object, interval: object) -> str:
    if not isinstance(rate, float) or not isinstance(interval, list):
        return "unknown"
    return f"{100 * rate:.0f} % ({100 * interval[0]:.0f} to {100 * interval[1]:.0f} %)"
