"""Fleets whose counters are plain arithmetic, and a loop that governs one directly: what a recording of it holds."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from specloop_engine.feed import Feed
from specloop_engine.history import History
from specloop_engine.sample import Dialect, Drafting, Sample
from specloop_policy.decision import Decision, Inputs, PolicyState
from specloop_policy.ladder import Level
from specloop_policy.observation import Observation, Workload
from specloop_policy.policy import Policy
from specloop_policy.rollout import next_pod, placement
from specloop_policy.step import step
from specloop_sim.recordings.recorded import level_reader
from specloop_sim.recordings.replay import replay
from specloop_sim.recordings.replayed import Replay
from tests.support.policies import policy_of, rule

START = 1_800_000_000.0
"""A multiple of 300 and of 15, so that windows and ticks begin here."""

STEPS, REQUESTS = 30.0, 1.0
"""Decode steps and finished requests of one pod a second: 300 requests a window of 300 s, of 30 steps each."""

LOW = rule("acceptance-low", {"acceptance": {"belowPercent": 40}}, "StepDown", for_seconds=600)
HIGH = rule("acceptance-high", {"acceptance": {"abovePercent": 60}}, "StepUp", for_seconds=600)

SIGNALS: dict[str, Any] = {"windowSeconds": 300, "settleSeconds": 0, "maxEvidenceSeconds": 1200}


def policy(*rules: Any, **fields: Any) -> Policy:
    """A policy over k5, k3, ngram, disabled that neither models cost nor, unless asked to, probes for days."""
    guardrails = {"cooldownSeconds": 900, "probe": {"afterSeconds": 86400 * 20, "maxSeconds": 86400 * 20}}
    given = {
        "signals": SIGNALS,
        "guardrails": guardrails,
        "costModel": {"policy": "Ignore"},
        "rules": list(rules) or [LOW],
    }
    return policy_of(**{**given, **fields})


Rate = Callable[[float, Level], float]
"""Acceptance of every position by seconds after the start and level."""


@dataclass
class Pod:
    """One pod: counters since its process started."""

    name: str
    level: Level
    started: float
    seconds: float = 0.0
    """Seconds of work that are counted."""
    accepted: float = 0.0
    """Accepted tokens at each position."""
    hot: float = 0.0
    """Requests above a temperature of 0.6."""

    def work(self, seconds: float, rate: float, hot_share: float) -> None:
        """Count some seconds more."""
        self.seconds += seconds
        self.accepted += seconds * STEPS * rate
        self.hot += seconds * REQUESTS * hot_share

    def sample(self, at: float) -> Sample:
        """What its page says."""
        steps, requests, k = STEPS * self.seconds, REQUESTS * self.seconds, self.level.tokens
        return Sample(
            at,
            Dialect.VLLM_V1,
            self.started,
            drafting=Drafting(steps, steps * k, self.accepted * k, (self.accepted,) * k) if k else None,
            tokens=k,
            generation_tokens=steps + self.accepted * k + requests,
            prompt_tokens=500.0 * requests,
            finished_requests=requests,
            one_token_requests=0.0,
            length_requests=0.0,
            first_tokens=requests,
            engine_steps=steps,
            running=4.0,
            waiting=0.0,
            kv_cache_percent=10.0,
            temperatures=((0.6, requests - self.hot), (float("inf"), requests)),
        )


@dataclass
class Fleet:
    """Pods that are scraped every `scrape_seconds`, a third of a second after one another, and restart one by one."""

    ladder_level: Level
    rate: Rate
    pods: int = 2
    scrape_seconds: float = 15.0
    restart_seconds: float = 60.0
    hot: Callable[[float], float] = lambda seconds: 0.0
    silent: Callable[[float, str], bool] = lambda seconds, pod: False
    """Whether the scrape of a pod fails then."""
    at: float = START
    running: list[Pod] = field(init=False)
    away: dict[str, tuple[float, Level]] = field(default_factory=dict)
    wanted: dict[str, Level] = field(default_factory=dict)
    samples: list[tuple[str, Sample]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """All pods started an hour before."""
        self.running = [Pod(f"pod-{place}", self.ladder_level, START - 3600.0) for place in range(self.pods)]

    @property
    def levels(self) -> dict[str, str]:
        """What every pod is at, or on its way to."""
        return {one.name: (self.away[one.name][1] if one.name in self.away else one.level).name for one in self.running}

    @property
    def changing(self) -> bool:
        """Whether a change is under way."""
        return bool(self.away) or any(self.wanted.get(one.name, one.level) != one.level for one in self.running)

    def apply(self, wanted: dict[str, Level]) -> None:
        """Set out to bring every pod to its level."""
        self.wanted = dict(wanted)

    def advance(self) -> None:
        """To the next round of scrapes."""
        self.at += self.scrape_seconds
        seconds = self.at - START
        for place, pod in enumerate(self.running):
            if pod.name in self.away:
                until, level = self.away[pod.name]
                if self.at < until:
                    continue
                del self.away[pod.name]
                pod.level, pod.started, pod.seconds, pod.accepted, pod.hot = level, until, 0.0, 0.0, 0.0
            pod.work(self.scrape_seconds, self.rate(seconds, pod.level), self.hot(seconds))
            if not self.silent(seconds, pod.name):
                self.samples.append((pod.name, pod.sample(self.at - place / 3.0)))
        self._restart_next()

    def _restart_next(self) -> None:
        running = {one.name: one.level.name for one in self.running}
        name = next_pod(running, {pod: level.name for pod, level in self.wanted.items()})
        if not self.away and name is not None:
            self.away[name] = self.at + self.restart_seconds, self.wanted[name]

    def restart(self, name: str) -> None:
        """Restart a pod at the level that it is at."""
        self.away[name] = self.at + self.restart_seconds, next(one.level for one in self.running if one.name == name)

    def run(self, seconds: float) -> "Fleet":
        """So long without anybody governing it."""
        for _ in range(round(seconds / self.scrape_seconds)):
            self.advance()
        return self

    @property
    def recording(self) -> list[tuple[str, Sample]]:
        """All samples in order of time."""
        return sorted(self.samples, key=lambda one: (one[1].at, one[0]))


Told = list[tuple[float, Decision]]
"""Decisions with their seconds after the start."""


def govern(fleet: Fleet, policy: Policy, seconds: float, inputs: Inputs = Inputs()) -> Told:  # noqa: B008  # frozen
    """Run the loop round a fleet, as live: look at the end of every interval, decide, act at once."""
    history = History.of(policy.signals)
    feed = Feed(history, level_reader(policy.ladder, ()))
    state, told, taken = PolicyState(), Told(), 0
    for tick in itertools.count(1):
        now = START + tick * policy.interval_seconds
        if now > START + seconds:
            return told
        while fleet.at < now:
            fleet.advance()
        feed.feed(fleet.samples[taken:], now)
        taken = len(fleet.samples)
        if fleet.changing:
            continue
        workload = Workload(fleet.levels[fleet.running[-1].name], len(fleet.running))
        decision, state = step(policy, state, Observation(history.windows(), workload), inputs, now)
        told.append((now - START, decision))
        if decision.changes_level and state.level is not None:
            probed = state.probe.level if state.probe is not None else None
            wanted = placement([one.name for one in fleet.running], state.level, probed)
            fleet.apply({pod: level for pod, name in wanted.items() if (level := policy.ladder.find(name)) is not None})
    raise AssertionError("time ends")


def replayed(recording: Sequence[tuple[str, Sample]], policy: Policy, **given: Any) -> tuple[Replay, Told]:
    """The replay of a recording from the start to its last sample, and what it decided tick by tick."""
    told = Told()
    settings: dict[str, Any] = {"inputs": lambda now: Inputs(), "end": recording[-1][1].at, **given}
    found = replay(
        policy,
        iter(recording),
        start=START,
        listener=lambda now, decision: told.append((now - START, decision)),
        **settings,
    )
    return found, told


def changes(told: Told) -> Iterator[tuple[float, str, str | None]]:
    """Seconds, action and level of the decisions that change something."""
    return ((seconds, str(one.action), one.level) for seconds, one in told if one.changes_level)
