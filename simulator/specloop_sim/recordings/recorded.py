"""The recorded fleet: what it ran at any time, and whether it came to what was decided.

Samples are taken as time passes.  Whether a decision was carried out is answered by looking ahead, no further than a
roll-out may take, so that no more than that is held in memory.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from specloop_engine.feed import level_shown
from specloop_engine.sample import Sample
from specloop_policy.ladder import Ladder, Level
from specloop_policy.observation import Workload
from specloop_policy.times import rfc3339

UNKNOWN_SETTING = "a setting that the recording does not show"


class LevelUnclear(ValueError):
    """A sample fits several levels and nobody said which one it is at; the message says how to name it."""


@dataclass(frozen=True, slots=True)
class Named:
    """Somebody's word that pods are at `level` from `at` on (seconds since the epoch), wherever their K fits it."""

    level: Level
    at: float | None = None
    """None: from the start."""


def level_reader(ladder: Ladder, named: Sequence[Named]) -> Callable[[str, Sample], Level | None]:
    """What tells the level of a sample: its K, and what was named where several levels have that K.

    It raises LevelUnclear where that leaves several, and answers None where no level fits.
    """
    in_order = sorted(named, key=lambda one: float("-inf") if one.at is None else one.at)

    def level_of(pod: str, sample: Sample) -> Level | None:
        told = None
        for one in in_order:
            if one.at is None or one.at <= sample.at:
                told = one.level
        found = level_shown(sample, ladder, told)
        if found is None:
            _check_clear(ladder, pod, sample, told)
        return found

    return level_of


def _check_clear(ladder: Ladder, pod: str, sample: Sample, told: Level | None) -> None:
    """Raise LevelUnclear when any level of the ladder would do if it were named."""
    fitting = [level.name for level in ladder.levels if level_shown(sample, ladder, level) is not None]
    if not fitting:
        return
    shown = "no K" if sample.tokens is None else f"K = {sample.tokens}"
    time = rfc3339(sample.at)
    but = "" if told is None else f" and not the level {told.name} that is named for then"
    raise LevelUnclear(
        f"{pod} shows {shown} at {time}, which fits {', '.join(fitting)}{but}: "
        f"say which one ran with --level NAME, or --level {time}=NAME from then on"
    )


@dataclass(frozen=True, slots=True)
class Wanted:
    """Where a decision is to bring the fleet: every pod to `level`, or one of them where `probe` is set."""

    level: str
    probe: bool = False

    def reached(self, levels: Sequence[str | None]) -> bool:
        """Whether pods at these levels are there: for a probe, not all of several."""
        here = levels.count(self.level)
        if not self.probe:
            return 0 < here == len(levels)
        return here > 0 and (here < len(levels) or len(levels) == 1)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a pod showed last."""

    at: float
    level: str | None
    tokens: int | None
    speaks: bool
    """Whether the page had anything of an engine."""


class RecordedFleet:
    """The samples of a recording, and the levels that its pods show.

    A pod that has been silent for `patience_seconds` counts no more: it is gone, and another has come for it.
    """

    def __init__(
        self,
        samples: Iterable[tuple[str, Sample]],
        level_of: Callable[[str, Sample], Level | None],
        patience_seconds: float,
    ) -> None:
        self._samples: Iterator[tuple[str, Sample]] = iter(samples)
        self._level_of = level_of
        self._patience_seconds = patience_seconds
        self._ahead: deque[tuple[str, Sample]] = deque()
        self._pods: dict[str, Seen] = {}
        self._workload = Workload(None, 0, UNKNOWN_SETTING)

    def take(self, until: float) -> list[tuple[str, Sample]]:
        """The samples up to `until` that nobody has taken yet."""
        self._read(until)
        taken = []
        while self._ahead and self._ahead[0][1].at <= until:
            taken.append(self._ahead.popleft())
        return taken

    def level_of(self, pod: str, sample: Sample) -> Level | None:
        """The level of a sample that was taken; the pod is known to be there from now on."""
        level = self._level_of(pod, sample)
        self._pods[pod] = _seen(sample, level)
        return level

    def workload(self, until: float) -> Workload:
        """The level that most pods are at, by what they have shown up to `until`; the one before where it is a tie."""
        self._pods = _present(self._pods, until, self._patience_seconds) or self._pods
        speaking = [one for one in self._pods.values() if one.speaks]
        if not speaking:
            return self._workload
        level = _most(Counter(one.level for one in speaking), self._workload.level)
        setting = "" if level is not None else _setting(speaking)
        found = Workload(level, len(speaking), setting)
        if found != self._workload:
            self._workload = found
        return self._workload

    def reaches(self, wanted: Wanted, since: float, until: float) -> float | None:
        """When after `since`, and not after `until`, the pods come to what is wanted; None when they do not."""
        self._read(until)
        pods = dict(self._pods)
        for pod, sample in self._ahead:
            if sample.at > until:
                return None
            pods[pod] = _seen(sample, self._level_of(pod, sample))
            if sample.at <= since:
                continue
            present = _present(pods, sample.at, self._patience_seconds)
            if wanted.reached([one.level for one in present.values() if one.speaks]):
                return sample.at
        return None

    def _read(self, until: float) -> None:
        """Read ahead, up to the first sample after `until`."""
        if self._ahead and self._ahead[-1][1].at > until:
            return
        for pod, sample in self._samples:
            self._ahead.append((pod, sample))
            if sample.at > until:
                return


def _seen(sample: Sample, level: Level | None) -> Seen:
    return Seen(sample.at, None if level is None else level.name, sample.tokens, sample.dialect is not None)


def _present(pods: Mapping[str, Seen], at: float, patience_seconds: float) -> dict[str, Seen]:
    """The pods that were heard not long before `at`."""
    return {pod: one for pod, one in pods.items() if one.at >= at - patience_seconds}


def _most(counts: Counter[str | None], present: str | None) -> str | None:
    most = max(counts.values())
    if counts[present] == most:
        return present
    return next(level for level, count in counts.items() if count == most)


def _setting(speaking: Sequence[Seen]) -> str:
    """What pods outside the ladder show, in words."""
    tokens = next((one.tokens for one in speaking if one.level is None), None)
    return UNKNOWN_SETTING if tokens is None else f"K = {tokens}"


def first_tokens(samples: Iterable[tuple[str, Sample]]) -> int:
    """The first K above 0 that anybody shows; 0 when nobody does."""
    return next(chain((sample.tokens for _, sample in samples if sample.tokens), (0,))) or 0
