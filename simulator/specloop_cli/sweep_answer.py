"""The answer of `specloop sweep`: JSON, text, a page to look at, and the best policy as YAML."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import PurePath
from typing import Any

import yaml
from rich.table import Table

from specloop_cli.errors import one_line
from specloop_cli.output import console, print_table
from specloop_cli.scene import Scene
from specloop_cli.simulated import replicas, simulated
from specloop_sim.report.model import Candidate as Shown
from specloop_sim.report.model import Kind, Report
from specloop_sim.sweep.fields import Value
from specloop_sim.sweep.figures import Judged
from specloop_sim.sweep.front import Candidate, front
from specloop_sim.sweep.space import Space
from specloop_sim.sweep.sweep import Swept

SHOWN_FRONT = 20
"""Rows of the table in text; a screen is 24 lines."""
SPEED = "Percent less mean request time than with speculation off"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a sweep found, and on what."""

    policy: str
    scenes: tuple[Scene, ...]
    space: Space
    swept: Swept
    best: Candidate
    fresh: tuple[Judged, ...]
    """The given and the best policy on the trace that was held out; empty where none was."""
    first_reason: str | None
    """Why the first combination that was skipped is no policy."""
    front: tuple[Candidate, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Find the front."""
        object.__setattr__(self, "front", front(self.swept.candidates))

    @property
    def given(self) -> Candidate:
        """The policy as it is."""
        return self.swept.candidates[0]

    @property
    def fitted(self) -> tuple[Scene, ...]:
        """The traces that candidates were judged by."""
        return self.scenes[:-1] if self.fresh else self.scenes

    @property
    def names(self) -> str:
        """Names of the traces that candidates were judged by."""
        return ", ".join(map(_short_name, self.fitted))

    def changed(self, one: Candidate) -> dict[str, tuple[Value | None, Value | None]]:
        """Where a candidate differs from the policy as it is: before and after."""
        rows = zip(self.space.paths, self.space.given, one.values, strict=True)
        return {path: (before, after) for path, before, after in rows if before != after}


def _short_name(scene: Scene) -> str:
    """Without the folders that a trace lies in."""
    return PurePath(scene.trace.name).name


def answer(found: Answer, wall_seconds: float) -> dict[str, Any]:
    """The JSON document."""
    swept = found.swept
    return {
        "policy": found.policy,
        "traces": [_trace(scene, held_out=scene not in found.fitted) for scene in found.scenes],
        "seed": found.scenes[0].setup.seed,
        "wallSeconds": wall_seconds,
        "trials": len(swept.candidates),
        "skipped": swept.skipped,
        "vary": {one.field.path: one.asked for one in found.space.parameters},
        "simulated": list(simulated(found.scenes[0])),
        "baseline": {
            "contestant": "disabled",
            "meanRequestSeconds": sum(one.mean_request_seconds for one in swept.disabled) / len(swept.disabled),
        },
        "given": _candidate(found, found.given),
        "candidates": [_candidate(found, one) for one in swept.candidates],
        "best": {
            **_candidate(found, found.best),
            "changed": {path: {"from": one, "to": other} for path, (one, other) in found.changed(found.best).items()},
        },
        "heldOut": _held_out(found),
        "said": list(said(found)),
    }


def _trace(scene: Scene, *, held_out: bool) -> dict[str, Any]:
    trace = scene.trace
    return {
        "name": trace.name,
        "requests": len(trace),
        "seconds": round(trace.seconds, 1),
        "repairs": list(trace.repairs),
        "heldOut": held_out,
    }


def _candidate(found: Answer, one: Candidate) -> dict[str, Any]:
    return {
        "parameters": found.space.named(one.values),
        **_judged(one.judged),
        "front": one in found.front,
        "best": one is found.best,
    }


def _judged(judged: Judged) -> dict[str, Any]:
    return {
        "speedPercent": judged.speed_percent,
        "changes": judged.changes,
        "restarts": judged.restarts,
        "meanRequestSeconds": judged.mean_request_seconds,
        "unansweredRequests": judged.unanswered,
    }


def _held_out(found: Answer) -> dict[str, Any] | None:
    if not found.fresh:
        return None
    given, best = found.fresh
    return {"trace": found.scenes[-1].trace.name, "given": _judged(given), "best": _judged(best)}


def said(found: Answer) -> Iterator[str]:
    """What to make of it, in sentences."""
    yield from _of_candidates(found)
    yield from _of_fit(found)


def _of_candidates(found: Answer) -> Iterator[str]:
    swept = found.swept
    count = len(swept.candidates)
    yield _of_best(found)
    if len({one.judged for one in swept.candidates}) == 1 and count > 1:
        yield "All candidates came out alike: on this traffic none of these parameters changes a decision."
    if swept.exhausted:
        yield f"Every combination was tried: {found.space.size:,}."
    if swept.skipped:
        reason = "" if found.first_reason is None else f", the first because {found.first_reason.rstrip('.')}"
        yield f"{_are(swept.skipped, 'combination')} no policy and left out{reason}."
    left = sum(not one.answers_all for one in swept.candidates)
    if left:
        yield f"{_are(left, 'candidate')} out of question: they left requests unanswered that speculation off answers."


def _of_best(found: Answer) -> str:
    best, given = found.best, found.given
    if best is given:
        return (
            f"No candidate is faster than {found.policy} as it is without more changes; it has {_short(given.judged)}."
        )
    ours = f"has {_short(given.judged)}"
    if not given.answers_all:
        ours = f"leaves {given.judged.unanswered:,} requests unanswered"
    return f"The best candidate has {_short(best.judged)}; {found.policy} as it is {ours}."


def _of_fit(found: Answer) -> Iterator[str]:
    names = found.names
    if len(found.scenes) == 1:
        yield f"It was fitted to {names} alone: try it on other traffic before you trust it."
    elif not found.fresh:
        yield f"It was fitted to all of {names}: try it on other traffic before you trust it, or --hold-out one."
    else:
        given, best = found.fresh
        yield (
            f"On {_short_name(found.scenes[-1])}, to which nothing was fitted, it has {_short(best)}, "
            f"and {found.policy} as it is {_short(given)}."
        )


def _short(judged: Judged) -> str:
    more = "less" if judged.speed_percent >= 0 else "more"
    return f"{abs(judged.speed_percent):.1f} % {more} request time than speculation off and {_times(judged.changes)}"


def _changes(one: Candidate) -> str:
    return _times(one.judged.changes)


def _times(count: int) -> str:
    return f"{count:,} change" if count == 1 else f"{count:,} changes"


def _are(count: int, noun: str) -> str:
    return f"{count:,} {noun} is" if count == 1 else f"{count:,} {noun}s are"


def show(found: Answer, out: str | None) -> None:
    """The answer for people."""
    screen = console()
    for sentence in (*simulated(found.scenes[0]), *_other_traces(found)):
        screen.print(sentence)
    screen.print()
    tried, kept = len(found.swept.candidates), len(found.front)
    have = "has" if kept == 1 else "have"
    screen.print(f"Of {tried:,} candidates {kept:,} {have} no other that is faster without more changes:")
    print_table(screen, _table(found))
    if len(found.front) > SHOWN_FRONT:
        screen.print(f"… and {len(found.front) - SHOWN_FRONT:,} more (-o json has them all)")
    screen.print()
    for sentence in said(found):
        screen.print(sentence)
    if out is not None:
        screen.print(f"Written to {one_line(out)}.")


def _other_traces(found: Answer) -> Iterator[str]:
    for scene in found.scenes[1:]:
        use = "held out" if scene not in found.fitted else "as well"
        yield f"{_short_name(scene)}, {use}: {len(scene.trace):,} requests in {scene.trace.seconds:,.0f} s."
    for scene in found.scenes:
        yield from (f"Repaired in {_short_name(scene)}: {one}." for one in scene.trace.repairs)


def _table(found: Answer) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for heading in ("speed %", "changes", "restarts", "request s"):
        table.add_column(heading, justify="right")
    table.add_column("differs from the policy in", overflow="fold")
    for one in _rows(found):
        table.add_row(*_row(found, one))
    return table


def _rows(found: Answer) -> Sequence[Candidate]:
    """The front, with the best one and the given one in their places."""
    rows = {one.number: one for one in (*found.front[:SHOWN_FRONT], found.best, found.given)}
    return sorted(rows.values(), key=lambda one: (one.judged.changes, one.judged.speed_percent))


def _row(found: Answer, one: Candidate) -> tuple[str, ...]:
    judged = one.judged
    mark = "best" if one is found.best else "given" if one is found.given else ""
    changed = [f"{path}: {_word(before)} → {_word(after)}" for path, (before, after) in found.changed(one).items()]
    return (
        mark,
        f"{judged.speed_percent:.1f}",
        f"{judged.changes:,}",
        f"{judged.restarts:,}",
        f"{judged.mean_request_seconds:.2f}",
        "\n".join(changed) or "nothing",
    )


def _word(value: Value | None) -> str:
    return "unset" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def policy_text(found: Answer, policy: Mapping[str, Any], command: str) -> str:
    """The best policy as YAML, with what it came from in front."""
    best, given = found.best.judged, found.given.judged
    changed = [
        f"{path}: {_word(before)} -> {_word(after)}" for path, (before, after) in found.changed(found.best).items()
    ]
    lines = (
        f"Written by specloop {version('specloop')}: {one_line(command)}",
        f"Fitted to {one_line(found.names)}, simulated: {_short(best)};",
        f"  before, {_short(given)}.",
        "Changed: " + ("; ".join(changed) or "nothing, for no candidate was better"),
    )
    head = "".join(f"# {line}\n" for line in lines)
    return head + yaml.safe_dump(dict(policy), sort_keys=False, allow_unicode=True, width=120)


def sweep_report(found: Answer) -> Report:
    """The page of `specloop sweep`."""
    scene = found.scenes[0]
    return Report(
        kind=Kind.SWEEP,
        title=f"{found.policy} on {found.names}",
        seconds=max(one.trace.seconds for one in found.fitted),
        facts=(
            *(
                ("Traffic", f"{one.trace.name}, {len(one.trace):,} requests in {one.trace.seconds:,.0f} s")
                for one in found.scenes
            ),
            ("Workload", f"{scene.workload.name}: {scene.workload.description}"),
            ("Hardware", f"{scene.profile.name}, {replicas(scene)} of {scene.profile.model}"),
            (
                "Candidates",
                f"{len(found.swept.candidates):,}, and {found.swept.skipped:,} combinations that are no policy",
            ),
            ("Seed", str(scene.setup.seed)),
            ("SpecLoop", version("specloop")),
        ),
        simulated=(*simulated(scene), *_of_candidates(found)),
        unknown=(*_of_fit(found), "How this traffic differs from yours, and the profile from your hardware."),
        speed_label=SPEED,
        candidates=tuple(_shown(found, one) for one in found.swept.candidates if one.answers_all),
    )


def _shown(found: Answer, one: Candidate) -> Shown:
    judged = one.judged
    return Shown(
        judged.speed_percent,
        judged.changes,
        judged.restarts,
        {path: _word(value) for path, value in found.space.named(one.values).items()},
        front=one in found.front,
        chosen=one is found.best,
    )
