"""Pulling what a Prometheus has of a target into a recording, chunk by chunk, from where it stopped last.

RecordError    there is nothing to record, or no room, or another recording is in the way; the message says the mend
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from specloop_control.prometheus_pages import SCRAPER_SECONDS, Pages
from specloop_control.prometheus_server import PrometheusSettings, Server, pull
from specloop_control.recorder import Recorder
from specloop_control.recording_file import Header, RecordingError, part_of
from specloop_engine.reader import LLAMACPP_PREFIX, NOT_AN_ENGINES, wanted_series
from specloop_engine.sample import Sample
from specloop_policy.times import rfc3339

CHUNK_SECONDS = 900.0
"""Asked for at first: a thousand pods at 15 s have 3.6 million values in it, less than any limit."""

MAX_BYTES = 2 * 10**9
"""Largest recording: a week of ten pods has some 16 MB, so that this is room for 1,200 pods."""

SIMILAR = ("num_requests_running", "generation_tokens_total", "requests_processing", "tokens_predicted_total")
"""Ends of names that every release of vLLM or llama.cpp has, whatever they were made to begin with."""


class RecordError(ValueError):
    """A recording that cannot be made, or not gone on with; what was recorded stays."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be recorded."""

    settings: PrometheusSettings
    start: float
    end: float
    asked: str = ""
    """The span in the words that asked for it: the last seven days are others when it is asked for again."""

    def header(self) -> Header:
        """The header that a recording of this begins with."""
        settings = self.settings
        labels = {"namespace": settings.namespace_label, "pod": settings.pod_label}
        return Header(
            settings.source,
            settings.selector,
            settings.prefix,
            labels,
            self.start,
            self.end,
            settings.lag_seconds,
            self.asked,
        )


def record(
    server: Server,
    plan: Plan,
    path: Path,
    *,
    now: Callable[[], float],
    progress: Callable[[float], None] = lambda share: None,
    force: bool = False,
    max_bytes: int = MAX_BYTES,
    chunk_seconds: float = CHUNK_SECONDS,
) -> Header:
    """Record into a new file, or go on with the one at the path with `.part`; the finished header.

    `progress` is told the share that is done.  `force` begins anew.  Raises RecordError, RecordingError and
    PrometheusError; whatever ends it, the same call goes on where it stopped.
    """
    if path.exists() and not force:
        raise RecordError(f"{path} exists already; use --force to replace it")
    recorder = _begin(server, plan, path, force=force)
    try:
        for share in _chunks(server, plan.settings, recorder, max_bytes, chunk_seconds):
            progress(share)
        if recorder.empty:
            recorder.drop()
            raise RecordError(_nothing(server, plan))
        return recorder.finish(now())
    finally:
        recorder.close()


def _begin(server: Server, plan: Plan, path: Path, *, force: bool) -> Recorder:
    wanted = plan.header()
    if part_of(path).exists() and not force:
        recorder = _resume(path)
        differences = _differences(recorder.header, wanted)
        if differences:
            recorder.close()
            raise RecordError(
                f"{recorder.part} is of another recording ({'; '.join(differences)}): give another file, or --force to "
                f"begin anew"
            )
        return recorder
    if not _has_engine(server.names(plan.settings.selector, plan.start, plan.end)):
        raise RecordError(_nothing(server, plan))
    return Recorder.begin(path, wanted)


def _resume(path: Path) -> Recorder:
    try:
        return Recorder.resume(path)
    except RecordingError as error:
        raise RecordError(f"{error}, or give --force to begin anew") from error


def _differences(there: Header, wanted: Header) -> list[str]:
    """How two recordings differ, in words; those whose spans have the same words do not differ in them."""
    found = [
        f"its {name} is {getattr(there, name)}, not {getattr(wanted, name)}"
        for name in ("source", "query", "prefix", "labels", "lag_seconds")
        if getattr(there, name) != getattr(wanted, name)
    ]
    if there.asked != wanted.asked:
        found.append(f"its span is {there.asked or 'another'}, not {wanted.asked or 'that'}")
    elif not there.asked and (there.start, there.end) != (wanted.start, wanted.end):
        found.append(f"it goes from {rfc3339(there.start)} to {rfc3339(there.end)}")
    return found


def _chunks(
    server: Server, settings: PrometheusSettings, recorder: Recorder, max_bytes: int, chunk_seconds: float
) -> Iterator[float]:
    """Record chunk by chunk; after each, the share that is done."""
    header, pages = recorder.header, Pages(settings)
    begin = recorder.done_until
    if begin >= header.end:
        return
    for until, answer in pull(server, settings.selector, begin - SCRAPER_SECONDS, header.end, span=chunk_seconds):
        samples = [one for one in pages.samples(answer) if one[1].at > begin]
        if until <= begin:
            continue
        _refuse_large(recorder, max_bytes)
        unreadable = [f"pages of {pod} that could not be read: {why}" for pod, why in sorted(pages.unreadable.items())]
        recorder.add(_by_pod(samples), until, (*answer.warnings, *unreadable))
        yield (until - header.start) / (header.end - header.start)


def _by_pod(samples: Iterable[tuple[str, Sample]]) -> dict[str, list[Sample]]:
    ordered = sorted(samples, key=lambda one: one[0])  # stable: each pod's stay in the order of time
    return {pod: [sample for _, sample in ones] for pod, ones in groupby(ordered, key=lambda one: one[0])}


def _refuse_large(recorder: Recorder, max_bytes: int) -> None:
    if recorder.bytes_written >= max_bytes:
        raise RecordError(
            f"{recorder.part} has reached {max_bytes / 1e6:.0f} MB at {rfc3339(recorder.done_until)}: go on with a "
            "larger --max-bytes, or record less into another file"
        )


def _has_engine(names: Iterable[str]) -> bool:
    """Whether any series is an engine's own."""
    return bool(set(names) - NOT_AN_ENGINES)


def _nothing(server: Server, plan: Plan) -> str:
    """What to say where there is no series of an engine: what there is instead."""
    settings = plan.settings
    span = f"{rfc3339(plan.start)} to {rfc3339(plan.end)}"
    chosen = ",".join(settings.chosen)
    query = f'{{__name__=~"{settings.prefix}.*|{LLAMACPP_PREFIX}.*"' + (f",{chosen}" if chosen else "") + "}"
    text = f"{settings.source} has no series of an engine, {query}, from {span}"
    similar = [name for name in _similar(server, plan, chosen) if name not in wanted_series(settings.prefix)]
    if similar:
        prefixes = ", ".join(f"--prefix {prefix}" for prefix in _prefixes(similar))
        return f"{text}; it has {', '.join(similar[:3])}: try {prefixes}"
    if chosen and (others := _similar(server, plan, "")):
        return f"{text}; without {chosen} it has {', '.join(others[:3])}: mend --namespace or --match"
    return f"{text}: does it scrape the pods, and did it at that time?"


def _similar(server: Server, plan: Plan, chosen: str) -> list[str]:
    selector = f'{{__name__=~".*({"|".join(SIMILAR)})"' + (f",{chosen}" if chosen else "") + "}"
    return sorted(server.names(selector, plan.start, plan.end))


def _prefixes(names: Iterable[str]) -> list[str]:
    """What the names begin with, each once."""
    found = {name.removesuffix(end) for name in names for end in SIMILAR if name.endswith(end)}
    return sorted(found - {"", LLAMACPP_PREFIX})
