"""The verdict in front of everything else: what the policy would have done, and whether it would have paid.

Computed from the figures, and honest in both directions.
"""

from collections.abc import Iterator, Sequence

from specloop_sim.report.bars import ranking
from specloop_sim.report.figures import Measure, measure_of, shown, signed
from specloop_sim.report.model import Candidate, Contender, Event, Kind, Report
from specloop_sim.report.scale import duration

ALIKE_PERCENT = 0.5
"""Differences below this are no difference: they round to nought percent."""
DISABLED = "disabled"


def verdict(report: Report) -> str:
    """One sentence or a few: the best policy first, or each policy where nothing can be compared."""
    if report.kind is Kind.SWEEP and report.candidates:
        return _of_sweep(report.candidates, report.speed_label)
    policies = ranking([one for one in report.contenders if one.is_policy], measure_of(report.compares_by))
    if policies:
        return " ".join(_of_contest(report, policies))
    return " ".join(_of_runs(report))


def against(ours: float, theirs: float) -> float | None:
    """How much more ours is, percent; None where theirs is nought."""
    return 100.0 * (ours / theirs - 1.0) if theirs else None


def best_static(report: Report) -> Contender | None:
    """The level that would have been the best to stay at."""
    known = [one for one in report.contenders if report.compares_by in one.figures]
    marked = next((one for one in known if one.best), None)
    if marked is not None:
        return marked
    static = [one for one in known if not one.is_policy]
    return next(iter(ranking(static, measure_of(report.compares_by))), None)


def _of_contest(report: Report, policies: Sequence[Contender]) -> Iterator[str]:
    measure = measure_of(report.compares_by)
    first = policies[0]
    if len(policies) > 1:
        yield f"Of {len(policies)} policies {first.name} did best."
    yield f"{first.name} {_changed(report.kind, int(first.figures.get('changes', 0)))}{_restarts(first)}."
    yield from _compared(report, first, measure)
    yield from _unanswered(report, first)


def _changed(kind: Kind, changes: int) -> str:
    if changes == 0:
        return "did not change the level" if kind is Kind.DEMO else "would not have changed the level"
    verb = "changed" if kind is Kind.DEMO else "would have changed"
    return f"{verb} the level {times(changes)}"


def times(count: int) -> str:
    """ "once", "twice", "7 times"."""
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def _restarts(contender: Contender) -> str:
    restarts = int(contender.figures.get("restarts", 0))
    return f", with {restarts:,} {'restart' if restarts == 1 else 'restarts'} of replicas" if restarts else ""


def _compared(report: Report, ours: Contender, measure: Measure) -> Iterator[str]:
    value = ours.figures[measure.key]
    told = ", and ".join(_told(value, one.figures[measure.key], _called(report, one)) for one in _rivals(report))
    yield f"{_subject(measure, value, report.kind)}{': ' if told else ''}{told}."
    yield from _worth(report, value, measure)


def _rivals(report: Report) -> list[Contender]:
    """The best level to stay at and no speculation, which may be the same."""
    best = best_static(report)
    return [one for one in report.contenders if one is best] + [one for one in _off(report) if one is not best]


def _off(report: Report) -> list[Contender]:
    found = (one for one in report.contenders if one.name == DISABLED and not one.is_policy)
    return [one for one in found if report.compares_by in one.figures]


def _called(report: Report, rival: Contender) -> str:
    name = "no speculation" if rival.name == DISABLED else rival.name
    return f"{name}, the best static level in hindsight" if _several(report) and rival is best_static(report) else name


def _several(report: Report) -> bool:
    """Whether there is more than one level that stays, so that one of them can be the best."""
    return sum(not one.is_policy for one in report.contenders) > 1


def _subject(measure: Measure, value: float, kind: Kind) -> str:
    live = kind is Kind.DEMO
    if measure.key == "meanRequestSeconds":
        return f"Requests {'took' if live else 'would have taken'} {shown(value)} s on average"
    was = "was" if live else "would have been"
    if measure.key == "outputTokensPerSecond":
        return f"Speed {was} {shown(value)} tokens per second"
    return f"The figure “{measure.heading}” {was} {shown(value)}"


def _told(ours: float, theirs: float, name: str) -> str:
    percent = against(ours, theirs)
    if percent is None:
        return f"against {shown(theirs)} with {name}"
    if abs(percent) < ALIKE_PERCENT:
        return f"the same as with {name} ({shown(theirs)})"
    return f"{abs(percent):.0f} % {'less' if percent < 0 else 'more'} than with {name} ({shown(theirs)})"


def _worth(report: Report, ours: float, measure: Measure) -> Iterator[str]:
    """What that means, for those who cannot tell whether more is better."""
    sign = -1 if measure.less_is_better else 1
    off, best = (
        [sign * (against(ours, one.figures[measure.key]) or 0.0) for one in rivals]
        for rivals in (_off(report), _rivals(report)[:1])
    )
    if any(gain <= -ALIKE_PERCENT for gain in off):
        yield "It does harm here: no speculation at all is better."
    elif _several(report) and any(gain <= -ALIKE_PERCENT for gain in best):
        yield "It does not beat the best level, which is known only afterwards."
    elif _several(report) and any(gain >= ALIKE_PERCENT for gain in best):
        yield "No level that stays does better."


def _unanswered(report: Report, ours: Contender) -> Iterator[str]:
    """Clients that wait for answers always have some under way at the end; a trace that is over should not."""
    if report.compares_by != "meanRequestSeconds":
        return
    for key, what in (("unfinishedRequests", "not answered"), ("refusedRequests", "refused as too long")):
        left = int(ours.figures.get(key, 0))
        if left:
            yield f"{left:,} {'request was' if left == 1 else 'requests were'} {what}, which the mean leaves out."


def _of_runs(report: Report) -> Iterator[str]:
    for run in report.runs:
        changed = _changed(report.kind, len(run.events))
        yield f"{run.policy} {changed} in {duration(report.seconds, 2)}{_first(run.events)}{_carried_out(run.events)}."
    if report.kind is Kind.REPLAY:
        yield "What another level would have done cannot be known from recorded data."


def _first(events: Sequence[Event]) -> str:
    if not events:
        return ""
    first, last = (f"from {one.before} to {one.after}" for one in (events[0], events[-1]))
    return f": {first}" if len(events) == 1 else f": first {first}, last {last}"


def _carried_out(events: Sequence[Event]) -> str:
    """How often the fleet did what was decided, where that is known."""
    if all(event.carried_out is None for event in events):
        return ""
    done = sum(event.carried_out is not False for event in events)
    return f"; the fleet itself did so {times(done)}" if done else "; the fleet itself never did so"


def _of_sweep(candidates: Sequence[Candidate], speed_label: str) -> str:
    front = sum(one.front for one in candidates)
    verb = "has" if front == 1 else "have"
    opening = f"Of {len(candidates):,} candidates {front:,} {verb} no other that is both faster and calmer."
    chosen = next((one for one in candidates if one.chosen), None)
    if chosen is None:
        return opening
    changes = f"{shown(chosen.changes)} {'change' if chosen.changes == 1 else 'changes'} of level"
    label = speed_label[:1].lower() + speed_label[1:]
    return f"{opening} The chosen one has {signed(chosen.speed_percent)} ({label}), with {changes}."
