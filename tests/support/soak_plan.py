"""What a soak does to a cluster, and when: drawn from a seed, so that a run can be had again.

    plan(seed, seconds)      -> what is done, oldest first
    each_once(seed, seconds) -> the same with each kind of trouble once, for a run that is too short for all

What is done stands in lanes.  A lane does one thing at a time to each of its victims, and all lanes go on side by side,
so that an operator is never frozen while it is down, but may well be while Prometheus hangs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random

OPERATORS = ("a", "b", "c")
"""One leads; two that follow can be in each other's way."""
RESTARTED, LIVE, STATEFUL = "chat", "llama", "ranks"
TARGETS = (RESTARTED, LIVE, STATEFUL)
PROMETHEUS = "prometheus"
ALERTS: Mapping[str, Mapping[str, str]] = {
    "Slow": {"type": "StepDown"},
    "Idle": {"type": "StepUp"},
    "Crowded": {"type": "SwitchTo", "level": "k3"},
    "Useless": {"type": "Disable"},
    "Stop": {"type": "Suspend"},
    "Odd": {"type": "EvaluateNow"},
}
"""What each alert asks of the policies; there is one of each kind."""


class What(StrEnum):
    """What may be done, in words for the table."""

    KILL = "operator killed"
    END = "operator asked to end"
    FREEZE = "operator stopped in its tracks"
    REFUSE = "API server refuses everything"
    CUT = "API server's connections cut"
    DELAY = "API server slow"
    PROMETHEUS_DOWN = "Prometheus killed"
    PROMETHEUS_HANGS = "Prometheus hangs"
    PROMETHEUS_EMPTY = "Prometheus knows no pods"
    HOT = "traffic that is hard to guess"
    DELETE_POD = "pod deleted"
    CRASH = "container killed"
    SCALE = "target scaled"
    OVERRIDE = "override"
    SUSPEND = "policy suspended"
    EDIT = "policy edited"
    ALERT = "alert"


@dataclass(frozen=True, slots=True)
class Deed:
    """One thing that is done, `at` seconds after the beginning, and undone after `lasts` more."""

    at: float
    what: What
    whom: str
    lasts: float
    how: str
    """The rest of it: a status, seconds, replicas, a level, an alert."""
    luck: float
    """From 0 to 1: which of the pods or operators that are there by then."""

    @property
    def row(self) -> str:
        """Its row in the table."""
        return f"{self.at:7.1f}  {self.lasts:5.1f}  {self.whom:<10}  {self.what}{f': {self.how}' if self.how else ''}"


@dataclass(frozen=True, slots=True)
class Trouble:
    """What a lane may do: for how many seconds, and in which ways."""

    what: What
    lasts: tuple[float, float] = (0.0, 0.0)
    ways: Sequence[str] = ("",)


@dataclass(frozen=True, slots=True)
class Lane:
    """Troubles of which a victim has one at a time, with pauses of so many seconds in between."""

    victims: Sequence[str]
    pause: tuple[float, float]
    troubles: Sequence[Trouble]


LANES = (
    Lane(
        OPERATORS,
        (90.0, 240.0),
        (
            Trouble(What.KILL, (0.0, 15.0)),
            Trouble(What.END, (0.0, 10.0)),
            Trouble(What.FREEZE, (12.0, 20.0)),  # longer than a Lease lasts, which is 9 s
        ),
    ),
    Lane(
        OPERATORS,
        (60.0, 150.0),
        (
            Trouble(What.REFUSE, (2.0, 12.0), ("500", "429", "409")),  # of which a leader survives 6 s
            Trouble(What.CUT, (0.0, 8.0)),
            # A leader sends for 6 s after it has begun to renew a Lease of 9 s: what comes 3 s late comes too late.
            Trouble(What.DELAY, (5.0, 15.0), ("0.5", "1", "2.5")),
        ),
    ),
    Lane(
        (PROMETHEUS,),
        (20.0, 60.0),
        (
            Trouble(What.PROMETHEUS_DOWN, (5.0, 20.0)),
            Trouble(What.PROMETHEUS_HANGS, (5.0, 20.0)),
            Trouble(What.PROMETHEUS_EMPTY, (5.0, 15.0)),
        ),
    ),
    Lane(TARGETS, (20.0, 60.0), (Trouble(What.HOT, (30.0, 60.0)),)),
    Lane(
        TARGETS,
        (15.0, 45.0),
        (Trouble(What.DELETE_POD), Trouble(What.CRASH), Trouble(What.SCALE, ways=("1", "2", "3", "4"))),
    ),
    Lane(
        TARGETS,
        (15.0, 45.0),
        (
            Trouble(What.OVERRIDE, (15.0, 45.0), ("k5", "k3", "disabled")),
            Trouble(What.SUSPEND, (10.0, 30.0)),
            Trouble(What.EDIT),
        ),
    ),
    Lane(TARGETS, (40.0, 120.0), (Trouble(What.ALERT, (15.0, 40.0), tuple(ALERTS)),)),
)
"""Durations of seconds, as those of the policies: a roll-out takes half a minute."""


def plan(seed: int, seconds: float) -> list[Deed]:
    """What is done within so many seconds, and undone by then; a shorter plan is the beginning of a longer one."""
    deeds = [
        deed
        for number, lane in enumerate(LANES)
        for victim in lane.victims
        for deed in _in_turn(lane, victim, Random(f"{seed} {number} {victim}"), seconds)
    ]
    return sorted(deeds, key=lambda deed: deed.at)


def each_once(seed: int, seconds: float) -> list[Deed]:
    """Every trouble of every lane once, over within so many seconds, 60 at least; a victim's follow each other."""
    deeds = []
    for number, lane in enumerate(LANES):
        dice = Random(f"{seed} {number}")
        victims = dice.sample(lane.victims, len(lane.victims))
        troubles = dice.sample(lane.troubles, len(lane.troubles))
        for place, victim in enumerate(victims):
            own = [(one, dice.uniform(*one.lasts)) for one in troubles[place :: len(victims)]]
            at = dice.uniform(0.0, seconds - sum(lasts for _, lasts in own))
            for trouble, lasts in own:
                deeds.append(Deed(at, trouble.what, victim, lasts, dice.choice(trouble.ways), dice.random()))
                at += lasts
    return sorted(deeds, key=lambda deed: deed.at)


def _in_turn(lane: Lane, victim: str, dice: Random, seconds: float) -> Iterator[Deed]:
    """One lane's doings to one victim."""
    at = dice.uniform(0.0, lane.pause[1])
    while True:
        trouble = dice.choice(lane.troubles)
        lasts = dice.uniform(*trouble.lasts)
        if at + lasts > seconds:
            return
        yield Deed(at, trouble.what, victim, lasts, dice.choice(trouble.ways), dice.random())
        at += lasts + dice.uniform(*lane.pause)
