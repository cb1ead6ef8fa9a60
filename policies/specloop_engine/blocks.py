"""How groups of pods served, block of time by block of time: what a roll-out's gate compares.

A look takes the newest sample of every pod.  What a pod did since its sample before is added to its group; a block
closes with the first look at which requests of every group have ended, so that no block is empty on one side.  What a
process did across a restart is left out.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from specloop_engine.sample import Sample
from specloop_engine.service import service
from specloop_policy.gate import add
from specloop_policy.observation import Service


@dataclass(frozen=True, slots=True)
class Block:
    """One block: when it ended, what each group did in it, and requests in the batch of one of its pods."""

    end: float
    services: Mapping[str, Service]
    loads: Mapping[str, float]


@dataclass(slots=True)
class _Open:
    """What a group did since the last block closed."""

    parts: list[Service] = field(default_factory=list)
    running: list[float] = field(default_factory=list)

    @property
    def finished(self) -> bool:
        return any(part.finished_requests or part.failed_requests for part in self.parts)


class Blocks:
    """Closed blocks, oldest first, at most `keep` of them."""

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._before: dict[str, Sample] = {}
        self._open: dict[str, _Open] = {}
        self.closed: list[Block] = []

    def look(self, latest: Mapping[str, Sample], groups: Mapping[str, Collection[str]], now: float) -> None:
        """Take the newest samples; `groups` names the pods of every group that is compared."""
        for group, pods in groups.items():
            opened = self._open.setdefault(group, _Open())
            for pod in pods:
                if pod in latest:
                    self._take(opened, pod, latest[pod])
        self._before = {pod: one for pod, one in self._before.items() if pod in latest}
        if groups and all(self._open[group].finished for group in groups):
            self._close(groups, now)

    def since(self, start: float) -> tuple[Block, ...]:
        """The blocks that ended after `start`."""
        return tuple(block for block in self.closed if block.end > start)

    def _take(self, opened: _Open, pod: str, sample: Sample) -> None:
        before, self._before[pod] = self._before.get(pod), sample
        if before is None or sample.at <= before.at:
            return
        part = service(before, sample)
        if part is None:
            return
        opened.parts.append(part)
        if sample.running is not None:
            opened.running.append(sample.running)

    def _close(self, groups: Collection[str], now: float) -> None:
        services = {group: add(self._open[group].parts) for group in groups}
        loads = {group: sum(found) / len(found) for group in groups if (found := self._open[group].running)}
        self.closed = [*self.closed, Block(now, services, loads)][-self._keep :]
        self._open = {}
