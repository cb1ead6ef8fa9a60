"""What the metrics say of one policy's pods: windows for the rules, blocks for the gate and for the watch."""

from collections.abc import Sequence

from specloop_engine.blocks import Block, Blocks
from specloop_engine.feed import Feed
from specloop_engine.history import History
from specloop_engine.sample import Sample
from specloop_engine.span import flaw
from specloop_operator.pods import Pod
from specloop_operator.sight import Sight
from specloop_operator.turn import NOTHING_SERVED, Measured
from specloop_policy.canary import Kind, Rollout, soak_deadline
from specloop_policy.gate import Evidence, GateVerdict, add, failed_share
from specloop_policy.ladder import Level
from specloop_policy.model import Signals
from specloop_policy.observation import Service, Window
from specloop_policy.soak import judge_soak
from specloop_policy.watch import Watch

BLOCKS = 512
"""Blocks kept: a soak of half an hour at the default interval has 120."""

HEARD_WINDOWS = 2
"""A pod whose latest sample is older than so many windows is not heard from: one window may just have begun."""

CANARY, CONTROL, ALL = "canary", "control", "all"


class Meter:
    """Samples of one policy's pods, fed look by look; a new process begins anew."""

    def __init__(self, signals: Signals) -> None:
        self._signals = signals
        self._history = History.of(signals)
        self._feed = Feed(self._history, self._level_of)
        self._at = 0.0
        self._levels: dict[str, Level | None] = {}
        self._before = Blocks(BLOCKS)
        self._soak: Blocks | None = None
        self._watched: tuple[Watch, Blocks] | None = None

    def fits(self, signals: Signals) -> bool:
        """Whether it cuts windows as these signals ask for."""
        return signals == self._signals

    def look(
        self,
        sight: Sight,
        rollout: Rollout | None,
        watch: Watch | None,
        samples: Sequence[tuple[str, Sample]],
        until: float,
        now: float,
    ) -> None:
        """Take the samples since the last look; who has none up to `until` was silent."""
        self._at = now
        self._levels = {pod.name: sight.policy.ladder.find(pod.level) for pod in sight.pods}
        self._feed.feed(samples, until)
        serving = [pod for pod in sight.pods if pod.serving]
        if rollout is None:
            self._before.look(self._feed.latest, {ALL: [pod.name for pod in serving]}, now)
            # Hundreds of policies would keep hours of what only the last minutes before a roll-out are asked for.
            self._before.closed = list(self._before.since(now - sight.spec.rollout.soak_seconds))
        self._look_at_soak(sight, rollout, serving, now)
        self._look_at_watched(watch, serving, now)

    def heard(self, pods: Sequence[Pod]) -> int:
        """How many pods are heard from: they gave a sample lately, and it is of use."""
        return sum(flaw(sample) is None for sample in self._lately(pods).values())

    def flawed(self, pods: Sequence[Pod]) -> str | None:
        """Why what a pod said lately is of no use, in words; None where all is."""
        flaws = ((pod, flaw(sample)) for pod, sample in self._lately(pods).items())
        return next((f"{pod}: {why}" for pod, why in flaws if why is not None), None)

    def _lately(self, pods: Sequence[Pod]) -> dict[str, Sample]:
        oldest = self._at - HEARD_WINDOWS * self._signals.window_seconds
        latest = {pod.name: self._feed.latest[pod.name] for pod in pods if pod.name in self._feed.latest}
        return {pod: sample for pod, sample in latest.items() if sample.at >= oldest}

    def measured(self, sight: Sight, rollout: Rollout | None) -> Measured:
        """What it all says, as of the last look."""
        verdict = self._verdict(sight, rollout)
        return Measured(self.windows(), verdict, self._failed_share(), self._served())

    def windows(self) -> tuple[Window, ...]:
        """Every window that is still of interest, oldest first."""
        return self._history.windows()

    def _level_of(self, pod: str, sample: Sample) -> Level | None:
        return self._levels.get(pod)

    def _look_at_soak(self, sight: Sight, rollout: Rollout | None, serving: Sequence[Pod], now: float) -> None:
        if rollout is None or not rollout.soaking:
            self._soak = None
            return
        if now < rollout.since + sight.limits.warmup_seconds:
            return
        if self._soak is None:
            self._soak = Blocks(BLOCKS)
        groups = {
            CANARY: [pod.name for pod in serving if pod.is_new(rollout)],
            CONTROL: [pod.name for pod in serving if not pod.is_new(rollout)],
        }
        self._soak.look(self._feed.latest, {name: pods for name, pods in groups.items() if pods}, now)

    def _look_at_watched(self, watch: Watch | None, serving: Sequence[Pod], now: float) -> None:
        if watch is None:
            self._watched = None
            return
        if self._watched is None or self._watched[0] != watch:
            self._watched = watch, Blocks(BLOCKS)
        pods = [pod.name for pod in serving if pod.level == watch.level]
        self._watched[1].look(self._feed.latest, {ALL: pods}, now)

    def _verdict(self, sight: Sight, rollout: Rollout | None) -> GateVerdict | None:
        if self._soak is None or rollout is None:
            return None
        soak, rules, forced = self._soak, sight.spec.rollout, rollout.kind is Kind.FORCED

        def until(end: float) -> Evidence:
            return self._evidence([block for block in soak.closed if block.end <= end], rollout, rules.soak_seconds)

        return judge_soak(
            until,
            rules.gate,
            rules.min_requests,
            sight.limits.soak_seconds,
            rollout.since + sight.limits.warmup_seconds,
            soak_deadline(rollout, sight.limits),
            self._at,
            speed=not forced,
        )

    def _evidence(self, blocks: Sequence[Block], rollout: Rollout, soak_seconds: float) -> Evidence:
        """The canary beside the pods left alone; without any, beside all pods as they were before."""
        canary = [block for block in blocks if CANARY in block.services]
        paired = [block for block in canary if CONTROL in block.services]
        if paired and paired[-1] is canary[-1]:  # else somebody let the rest follow
            return Evidence(_services(paired, CANARY), _services(paired, CONTROL))
        before = [block for block in self._before.closed if block.end > rollout.started_at - soak_seconds]
        after, earlier = _loads(canary, CANARY), _loads(before, ALL)
        load = (_mean(after), _mean(earlier)) if after and earlier else None
        return Evidence(_services(canary, CANARY), _services(before, ALL), paired=False, load=load)

    def _failed_share(self) -> float:
        control = [block for block in self._soak.closed if CONTROL in block.services] if self._soak else []
        return failed_share(add(_services(control, CONTROL))) or 0.0

    def _served(self) -> Service:
        return add(_services(self._watched[1].closed, ALL)) if self._watched else NOTHING_SERVED


def _services(blocks: Sequence[Block], group: str) -> tuple[Service, ...]:
    return tuple([block.services[group] for block in blocks])


def _loads(blocks: Sequence[Block], group: str) -> list[float]:
    return [block.loads[group] for block in blocks if group in block.loads]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
