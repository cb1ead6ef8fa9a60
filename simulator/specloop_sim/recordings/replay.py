"""A policy on a recorded fleet: what it would have decided and when, by the same windows and the same `step` as live.

The fleet ran at the levels that the recording shows, whatever is decided here.  A decision that the fleet came to
within the time of a roll-out was carried out: its memory is kept.  Any other is a recommendation: nothing is remembered
of it, it is told once for as long as it is repeated, and what it would have done cannot be known from the recording.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from specloop_engine.feed import Feed
from specloop_engine.history import History
from specloop_engine.sample import Sample
from specloop_policy.decision import Decision, Inputs, PolicyState
from specloop_policy.evidence import STALE_WINDOWS
from specloop_policy.observation import Observation
from specloop_policy.policy import Policy
from specloop_policy.step import level_before, step
from specloop_sim.recordings.recorded import Named, RecordedFleet, Wanted, level_reader
from specloop_sim.recordings.replayed import Change, Notes, Replay

DEADLINE_SECONDS = 1800.0
"""How long a roll-out may take where the policy does not say: the default of its `progressDeadlineSeconds`."""

Listener = Callable[[float, Decision], None]
"""Is told of the decision at every tick."""


@dataclass(frozen=True, slots=True)
class Timing:
    """When a replay looks, and how long it waits; times in seconds since the epoch."""

    start: float
    end: float
    lag_seconds: float
    deadline_seconds: float

    def ticks(self, interval_seconds: float) -> Iterable[float]:
        """Multiples of the interval at which samples from start to end are old enough to be seen."""
        first = math.ceil((self.start + self.lag_seconds) / interval_seconds)
        last = math.floor((self.end + self.lag_seconds) / interval_seconds)
        return (place * interval_seconds for place in range(first, last + 1))


def replay(
    policy: Policy,
    samples: Iterable[tuple[str, Sample]],
    *,
    start: float,
    end: float,
    inputs: Callable[[float], Inputs],
    named: Sequence[Named] = (),
    lag_seconds: float = 0.0,
    deadline_seconds: float = DEADLINE_SECONDS,
    listener: Listener = lambda now, decision: None,
) -> Replay:
    """Run the policy over samples in order of time, at every multiple of its interval, and say what it decides.

    A tick sees the samples up to `lag_seconds` before it, as a live loop does whose source is late by that.  Raises
    LevelUnclear where samples fit several levels and `named` does not say which.
    """
    timing = Timing(start, end, lag_seconds, deadline_seconds)
    patience_seconds = float(STALE_WINDOWS * policy.signals.window_seconds)
    fleet = RecordedFleet(samples, level_reader(policy.ladder, named), patience_seconds)
    loop = _Loop(policy, fleet, timing, inputs, listener)
    for now in timing.ticks(policy.interval_seconds):
        loop.tick(now)
    return loop.notes.finish()


@dataclass(frozen=True, slots=True)
class _Look:
    """All that a decision rests on beside the time."""

    state: PolicyState
    observation: Observation
    inputs: Inputs

    def sees_the_same(self, other: "_Look") -> bool:
        """Whether two looks see the same; windows are the same objects then, which makes this quick."""
        return self.state is other.state and self.observation == other.observation and self.inputs == other.inputs


class _Loop:
    """The loop round a recorded fleet."""

    def __init__(
        self,
        policy: Policy,
        fleet: RecordedFleet,
        timing: Timing,
        inputs: Callable[[float], Inputs],
        listener: Listener,
    ) -> None:
        self._recommending = replace(policy, enforce=False)
        self._enforcing = replace(policy, enforce=True)
        self._fleet = fleet
        self._timing = timing
        self._inputs = inputs
        self._listener = listener
        self._history = History.of(policy.signals)
        self._feed = Feed(self._history, fleet.level_of)
        self._state = PolicyState()
        self._answered: tuple[_Look, Decision] | None = None
        """The last answer that changed no memory."""
        self._arrival: tuple[float, str | None] | None = None
        """When the fleet comes to what was decided, and the level that it is meant to be at until that shows."""
        self.notes = Notes(policy, timing.start)

    def tick(self, now: float) -> None:
        """Look at what the recording shows by now, and decide when no change is under way."""
        until = now - self._timing.lag_seconds
        self._feed.feed(self._fleet.take(until), until)
        if not self._feed.latest:
            return
        windows, workload = self._history.windows(), self._fleet.workload(until)
        self.notes.look(now, windows, workload, self._state)
        if self._arrival is not None:
            arrives, level = self._arrival
            if now < arrives:
                return  # as live, where the loop waits for its change
            if until < arrives:
                workload = replace(workload, level=level)
            else:
                self._arrival = None
        self._decide(_Look(self._state, Observation(windows, workload), self._inputs(now)), now)

    def _decide(self, look: _Look, now: float) -> None:
        decision, self._state = self._answer(look, now)
        self.notes.decided(decision)
        self._listener(now, decision)
        if decision.changes_level:
            self._note_change(look, decision, now)

    def _answer(self, look: _Look, now: float) -> tuple[Decision, PolicyState]:
        """What a policy that recommends answers, with its memory.

        Decisions are taken in the windows' own time, so that the same look has the same answer again as long as the
        newest window is not stale and no override may have run out.
        """
        windows = look.observation.windows
        stale_after = STALE_WINDOWS * self._recommending.signals.window_seconds
        timeless = bool(windows) and now - windows[-1].end <= stale_after and look.inputs.override is None
        if timeless and self._answered is not None and look.sees_the_same(self._answered[0]):
            return self._answered[1], look.state
        decision, state = step(self._recommending, look.state, look.observation, look.inputs, now)
        if state != look.state:
            self._answered = None
            return decision, state
        self._answered = (look, decision) if timeless else None
        return decision, look.state

    def _note_change(self, look: _Look, decision: Decision, now: float) -> None:
        """Note a decision to change; its memory is that of an enforcing policy where the recording shows the change."""
        before = level_before(look.state, look.observation, decision)
        seconds = now - self._timing.start
        if self._again(before, decision, seconds):
            self.notes.replay.changes[-1] = replace(self.notes.replay.changes[-1], until_seconds=seconds)
            return
        _, enforced = step(self._enforcing, look.state, look.observation, look.inputs, now)
        arrives = self._arrives(enforced, now)
        if arrives is not None:
            self._state, self._arrival = enforced, (arrives, enforced.level)
        carried_out = None if now + self._timing.deadline_seconds > self._timing.end else False
        self.notes.replay.changes.append(
            Change(seconds, now, before, decision, carried_out, seconds)
            if arrives is None
            else Change(seconds, now, before, decision, True, arrives - self._timing.start)
        )

    def _again(self, before: str | None, decision: Decision, seconds: float) -> bool:
        """Whether a decision repeats the recommendation before it.

        A break shorter than the cool-down does not end a recommendation: rules would not act twice in that time.
        """
        if not self.notes.replay.changes:
            return False
        last = self.notes.replay.changes[-1]
        pause = max(self._recommending.interval_seconds, self._recommending.guardrails.cooldown_seconds)
        return not last.carried_out and last.asks_for(before, decision) and seconds - last.until_seconds <= pause

    def _arrives(self, enforced: PolicyState, now: float) -> float | None:
        """When the recorded fleet comes to where the memory of an enforcing policy would have it."""
        if enforced.level is None:
            return None
        probe = enforced.probe
        wanted = Wanted(enforced.level) if probe is None else Wanted(probe.level, probe=True)
        return self._fleet.reaches(wanted, now, now + self._timing.deadline_seconds)
