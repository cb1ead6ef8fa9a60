"""Answers of commands as reports to look at (`--report`)."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from itertools import accumulate

from specloop_cli.output import document
from specloop_cli.scene import Scene
from specloop_cli.simulated import compares_by, compares_why, replicas, simulated
from specloop_control.recording import Header
from specloop_policy.acceptance import Interval
from specloop_policy.decision import Decision
from specloop_policy.policy import Policy
from specloop_sim.contest import Entrant
from specloop_sim.figures import Stretch
from specloop_sim.looks import Look, hot_above
from specloop_sim.loop import Decided
from specloop_sim.phases import Phase as DemoPhase
from specloop_sim.recordings.replayed import Replay
from specloop_sim.report.model import Contender, Event, Kind, Limit, Phase, Point, Report, Run, Rung, Stay
from specloop_sim.report.scale import duration
from specloop_sim.simulate import Outcome
from specloop_sim.simulate import Stay as Stayed
from specloop_sim.traffic import phase_spans


def simulation_report(scene: Scene, entrants: Sequence[Entrant], outcomes: Mapping[str, Outcome], best: str) -> Report:
    """The page of `specloop simulate`."""
    trace, names = scene.trace, [one.policy.name for one in entrants]
    return Report(
        kind=Kind.SIMULATE,
        title=f"{', '.join(names)} on {scene.title}",
        seconds=max(one.seconds for one in outcomes.values()),
        facts=(
            ("Traffic", f"{scene.title}, {len(trace):,} requests in {trace.seconds:,.0f} s"),
            ("Workload", f"{scene.workload.name}: {scene.workload.description}"),
            ("Hardware", f"{scene.profile.name}, {replicas(scene)} of {scene.profile.model}"),
            ("Seed", str(scene.setup.seed)),
            ("SpecLoop", version("specloop")),
        ),
        simulated=simulated(scene, entrants),
        measured=tuple(f"The trace was repaired: {one}." for one in trace.repairs),
        unknown=(
            "How this traffic differs from yours, and the profile from your hardware.",
            "Temperatures, kinds of text and acceptance, where the workload assumes them.",
        ),
        epoch=scene.setup.epoch if scene.dated else None,
        runs=tuple(_simulated(one.policy, outcomes[one.policy.name]) for one in entrants),
        contenders=tuple(
            contender(name, outcome, closed_loop=scene.closed_loop, is_policy=name in names, best=name == best)
            for name, outcome in outcomes.items()
        ),
        compares_by=compares_by(closed_loop=scene.closed_loop),
        compares_why=compares_why(closed_loop=scene.closed_loop),
        speed_label="Tokens per second" if scene.closed_loop else "Mean request time, seconds",
        phases=tuple(Phase(*one) for one in phase_spans(scene.workload, scene.setup.seconds)),
    )


def demo_report(
    policy: Policy,
    run: Run,
    phases: Sequence[DemoPhase],
    seed: int,
    simulated: Sequence[str],
    measured: Sequence[str],
    outcomes: Mapping[str, Outcome],
) -> Report:
    """The page of `specloop demo`; with nothing to compare where the servers were real processes."""
    ends = list(accumulate(phase.seconds for phase in phases))
    return Report(
        kind=Kind.DEMO,
        title=f"The demo under policy {policy.name}",
        seconds=ends[-1],
        facts=(
            ("Traffic", ", ".join(phase.name for phase in phases)),
            ("Seed", str(seed)),
            ("SpecLoop", version("specloop")),
        ),
        simulated=tuple(simulated),
        measured=tuple(measured),
        runs=(run,),
        contenders=tuple(
            contender(name, outcome, closed_loop=True, is_policy=name == policy.name, best=False)
            for name, outcome in outcomes.items()
        ),
        compares_by=compares_by(closed_loop=True),
        compares_why=compares_why(closed_loop=True),
        speed_label="Tokens per second",
        phases=tuple(Phase(phase.name, end - phase.seconds, end) for phase, end in zip(phases, ends, strict=True)),
    )


def replay_report(name: str, header: Header, replays: Sequence[Replay], unknown: Sequence[str]) -> Report:
    """The page of `specloop replay`."""
    seconds = header.end - header.start
    return Report(
        kind=Kind.REPLAY,
        title=f"{', '.join(one.policy.name for one in replays)} on {name}",
        seconds=seconds,
        facts=(
            ("Recording", f"{name}, {header.samples:,} samples of {len(header.pods)} pods in {duration(seconds)}"),
            ("From", header.source),
            ("SpecLoop", version("specloop")),
        ),
        measured=(
            "Acceptance, temperatures, load and levels are those of the recorded fleet.",
            "Decisions are taken by the code that runs live, on the same windows.",
        ),
        unknown=tuple(unknown),
        epoch=header.start,
        runs=tuple(_replayed(one) for one in replays),
    )


def _simulated(policy: Policy, outcome: Outcome) -> Run:
    return policy_run(policy, outcome.looks, outcome.stays, outcome.decisions)


def _replayed(found: Replay) -> Run:
    stayed = tuple(Stay(one.start, one.end, one.level) for one in found.stays if one.level is not None)
    events = (
        event(one.seconds, one.before or "", one.decision, carried_out=bool(one.carried_out)) for one in found.changes
    )
    return _told(found.policy, found.looks, stayed, tuple(events))


def policy_run(policy: Policy, looks: Sequence[Look], stayed: Sequence[Stayed], decisions: Sequence[Decided]) -> Run:
    """What a policy saw and did."""
    stays = tuple(Stay(one.start, one.end, one.level.name) for one in stayed)
    return _told(policy, looks, stays, tuple(event(one.seconds, one.before, one.decision) for one in decisions))


def _told(policy: Policy, looks: Sequence[Look], stays: tuple[Stay, ...], events: tuple[Event, ...]) -> Run:
    return Run(
        policy=policy.name,
        ladder=tuple(Rung(level.name, level.tokens) for level in policy.ladder.levels),
        acceptance=tuple(point(one.at, one.acceptance) for one in looks),
        limits=limits(policy),
        stays=stays,
        temperature=tuple(point(one.at, one.hot) for one in looks),
        temperature_label=f"Requests above temperature {hot_above(policy):g}",
        load=tuple(Point(one.at, one.running) for one in looks),
        events=events,
    )


def event(seconds: float, before: str, decision: Decision, *, carried_out: bool | None = None) -> Event:
    """A decision on the time axis."""
    after = decision.level or ""
    return Event(seconds, str(decision.action), before, after, decision.rule, decision.reason, carried_out)


def contender(name: str, outcome: Outcome, *, closed_loop: bool, is_policy: bool, best: bool) -> Contender:
    """A contestant with its figures."""
    figures: Mapping[str, float] = document(outcome.figures)
    return Contender(name, figures, is_policy, best, tuple(_speed(one, closed_loop) for one in outcome.stretches))


def point(at: float, interval: Interval | None) -> Point:
    """A value with its interval."""
    return Point(at, None) if interval is None else Point(at, interval.value, interval.low, interval.high)


def limits(policy: Policy) -> tuple[Limit, ...]:
    """The policy's limits on acceptance."""
    found = []
    for rule in policy.rules:
        limit = rule.when.acceptance
        if limit is not None and limit.below_percent is not None:
            found.append(Limit(f"{rule.name}: below", limit.below_percent / 100.0))
        if limit is not None and limit.above_percent is not None:
            found.append(Limit(f"{rule.name}: above", limit.above_percent / 100.0))
    return tuple(found)


def _speed(stretch: Stretch, closed_loop: bool) -> Point:
    middle = stretch.start + stretch.seconds / 2.0
    return Point(middle, stretch.output_tokens_per_second if closed_loop else stretch.mean_request_seconds)
