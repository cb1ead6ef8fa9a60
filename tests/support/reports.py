"""Reports with made-up figures, small enough to be worked out by hand."""

from dataclasses import replace

from specloop_sim.report.model import (
    Candidate,
    Contender,
    Event,
    Kind,
    Limit,
    Phase,
    Point,
    Report,
    Run,
    Rung,
    Stay,
)

HOSTILE = "</script><script>alert(1)</script>\"'&<img src=x onerror=alert(2)>\x00"
"""A name that closes every context it might be put into."""

LADDER = (Rung("k5", 5), Rung("k3", 3), Rung("disabled", 0))


def contender(name: str, seconds: float, **figures: float) -> Contender:
    """A contender by its mean request time."""
    return Contender(name, {"meanRequestSeconds": seconds, **figures})


def policy(name: str, seconds: float, **figures: float) -> Contender:
    """A policy by its mean request time."""
    return replace(contender(name, seconds, **figures), is_policy=True)


def event(seconds: float, **changed: object) -> Event:
    """A step down from k5 to k3."""
    plain = Event(seconds, "StepDown", "k5", "k3", "acceptance-low", "acceptance 32 % is below the limit of 40 %")
    return replace(plain, **changed)  # type: ignore[arg-type]


def run(name: str = "chat", events: tuple[Event, ...] | None = None) -> Run:
    """An hour in which acceptance falls in the middle."""
    points = tuple(
        Point(60.0 * place, value, value - 0.05, value + 0.05) for place, value in enumerate([0.6] * 30 + [0.3] * 30)
    )
    return Run(
        policy=name,
        ladder=LADDER,
        acceptance=points,
        limits=(Limit("step down below", 0.4),),
        stays=(Stay(0.0, 2400.0, "k5"), Stay(2460.0, 3600.0, "k3")),
        temperature=(Point(0.0, 0.1), Point(3600.0, 0.7)),
        load=(Point(0.0, 4.0), Point(3600.0, 9.0)),
        events=(event(2400.0),) if events is None else events,
    )


def simulated(name: str = "chat") -> Report:
    """A simulation with everything in it: 2.0 s against 2.5 s at k3 and 4.0 s without speculation."""
    speed = (Point(900.0, 2.0), Point(2700.0, 3.0))
    return Report(
        kind=Kind.SIMULATE,
        title=f"What {name} would have done",
        seconds=3600.0,
        facts=(("trace", name), ("seed", "1")),
        simulated=("The engines.",),
        measured=("The times of arrival.",),
        unknown=("Your drafter.",),
        runs=(run(name),),
        contenders=(
            replace(policy(name, 2.0, changes=1, restarts=2), speed=speed),
            replace(contender("static-k3", 2.5, changes=0, restarts=0), best=True, speed=speed),
            replace(contender("disabled", 4.0, changes=0, restarts=0), speed=speed),
        ),
        compares_why="Arrivals are given, so request times compare.",
        phases=(Phase("cool", 0.0, 1800.0), Phase(f"hot {name}", 1800.0, 3600.0)),
    )


def replayed(name: str = "chat") -> Report:
    """A replay from a Monday morning: nothing to compare with."""
    recorded = run(name, (event(2400.0, carried_out=False),))
    return Report(Kind.REPLAY, f"Replay of {name}", 3600.0, epoch=1_715_587_200.0, runs=(recorded,))


def swept(name: str = "chat") -> Report:
    """A sweep of three candidates: one calm, one fast, one beaten by both."""
    return Report(
        kind=Kind.SWEEP,
        title=f"Sweep of {name}",
        seconds=3600.0,
        speed_label="speed against the best static level, percent",
        candidates=(
            Candidate(4.0, 1, 2, {name: "600"}, front=True, chosen=True),
            Candidate(9.0, 8, 16, {name: "60"}, front=True),
            Candidate(3.0, 9, 18, {name: "30"}),
        ),
    )
