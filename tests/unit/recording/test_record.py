"""Recording chunk by chunk: nothing is lost, nothing doubled, and what is refused says what to do."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from specloop_control.prometheus_server import PrometheusError
from specloop_control.record import Plan, RecordError, record
from specloop_control.recorder import Recorder
from specloop_control.recording import Gap, Header, Recording, RecordingError
from specloop_control.recording_file import part_of
from specloop_engine.sample import Sample
from tests.unit.recording.store import BEGIN, SETTINGS, Store, expected, failure, filled, target, text

PLAN = Plan(SETTINGS, BEGIN - 1.0, BEGIN + 601.0)
CREATED = BEGIN + 1000.0
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out.rec"


def recorded(
    store: Store,
    path: Path,
    plan: Plan = PLAN,
    *,
    chunk_seconds: float = 100.0,
    force: bool = False,
    max_bytes: int = 10**9,
    progress: Callable[[float], None] = lambda share: None,
) -> Header:
    """Record, with small chunks."""
    return record(
        store,
        plan,
        path,
        now=lambda: CREATED,
        progress=progress,
        force=force,
        max_bytes=max_bytes,
        chunk_seconds=chunk_seconds,
    )


def samples(path: Path) -> list[tuple[str, Sample]]:
    """What a recording holds."""
    with Recording.open(path) as recording:
        return list(recording.samples())


def all_of_it(pods: str = "ab") -> list[tuple[str, Sample]]:
    """What a filled store holds, read from the text of its pages."""
    return [
        (pod, expected(10.0 * passed, BEGIN + passed + place * 0.25))
        for passed in range(0, 601, 15)
        for place, pod in enumerate(pods)
    ]


def test_a_recording_holds_what_the_pages_said(path: Path) -> None:
    header = recorded(filled(), path)
    assert samples(path) == all_of_it()
    assert (header.pods, header.samples, header.interval_seconds, header.gaps) == (("a", "b"), 82, 15.0, ())
    assert (header.source, header.created_at) == ("http://prometheus:9090", CREATED)
    assert not part_of(path).exists()


def test_only_samples_after_the_start_and_up_to_the_end_are_taken(path: Path) -> None:
    recorded(filled("a"), path, replace(PLAN, start=BEGIN + 15.0, end=BEGIN + 45.0))
    assert [one.at - BEGIN for _, one in samples(path)] == [30.0, 45.0]


@pytest.mark.parametrize("chunk_seconds", [1.0, 15.0, 37.0, 5000.0])
def test_the_length_of_chunks_does_not_matter(path: Path, chunk_seconds: float) -> None:
    recorded(filled(), path, chunk_seconds=chunk_seconds)
    assert samples(path) == all_of_it()


def test_a_server_that_refuses_long_answers_is_asked_for_shorter_ones(path: Path) -> None:
    """A page has some fifty series, so that 500 values are five scrapes of two pods: chunks of 75 s at most."""
    store = filled()
    store.most_values = 500
    recorded(store, path, chunk_seconds=5000.0)
    assert samples(path) == all_of_it()


def test_a_server_that_refuses_even_a_second_ends_it(path: Path) -> None:
    store = filled()
    store.most_values = 10
    with pytest.raises(PrometheusError, match="too many samples"):
        recorded(store, path)


def test_progress_rises_to_all(path: Path) -> None:
    told: list[float] = []
    recorded(filled(), path, progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0
    assert len(told) > 2


@pytest.mark.parametrize("number", [1, 2, 3, 4])
@pytest.mark.parametrize("error", [failure(), KeyboardInterrupt()])
def test_an_interruption_loses_nothing_and_the_same_call_goes_on(path: Path, number: int, error: Exception) -> None:
    store = filled()
    store.failing[number] = error
    with pytest.raises(type(error)):
        recorded(store, path)
    assert not path.exists()
    before = len(store.asked)
    header = recorded(store, path)
    assert samples(path) == all_of_it()
    assert header.samples == 82
    if number > 2:  # what was finished is not asked for again, but for the two minutes that tell jobs apart
        assert store.asked[before][0] > PLAN.start


KILLED = """
import os, signal, sys
from pathlib import Path
from specloop_control.recorder import Recorder
from tests.unit.recording.store import BEGIN, expected
from tests.unit.recording.test_record import PLAN

class Killing(list):
    def __getitem__(self, place):
        os.kill(os.getpid(), signal.SIGKILL)

recorder = Recorder.begin(Path(sys.argv[1]), PLAN.header())
recorder.add({"a": [expected(0.0, BEGIN)]}, BEGIN + 0.1)
recorder.add({"a": [expected(150.0, BEGIN + 15.0)], "b": Killing([None])}, BEGIN + 20.0)
"""
"""A recorder that is killed in the middle of its second chunk, when pod a's samples are in."""


def test_a_kill_in_the_middle_of_a_chunk_costs_that_chunk_alone(path: Path) -> None:
    assert subprocess.run([sys.executable, "-P", "-c", KILLED, path], env=ENVIRONMENT).returncode == -signal.SIGKILL
    recorded(filled(), path)
    assert samples(path) == all_of_it()


def test_a_finished_part_only_needs_its_name(path: Path) -> None:
    """As after a kill between the last chunk and the new name."""
    store = filled()
    recorded(store, path)
    path.rename(part_of(path))
    asked = len(store.asked)
    recorded(store, path)
    assert samples(path) == all_of_it()
    assert len(store.asked) == asked


def test_a_span_in_words_goes_on_with_the_times_that_it_had(path: Path) -> None:
    """`--last 10m` means other times a minute later; the recording keeps those with which it began."""
    store = filled()
    store.failing[3] = failure()
    plan = replace(PLAN, asked="--last 10m")
    with pytest.raises(PrometheusError):
        recorded(store, path, plan)
    header = recorded(store, path, replace(plan, start=plan.start + 60.0, end=plan.end + 60.0))
    assert (header.start, header.end) == (PLAN.start, PLAN.end)
    assert samples(path) == all_of_it()


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (replace(PLAN, settings=replace(SETTINGS, namespace="other")), "its query is"),
        (replace(PLAN, settings=replace(SETTINGS, url="http://another:9090")), "its source is http://prometheus:9090"),
        (replace(PLAN, settings=replace(SETTINGS, pod_label="pod_name")), "its labels is"),
        (replace(PLAN, end=PLAN.end - 60.0), "it goes from 2023-11-14T22:13:19Z to"),
        (replace(PLAN, asked="--last 7d"), "its span is another, not --last 7d"),
    ],
)
def test_another_recording_in_the_way_is_not_gone_on_with(path: Path, plan: Plan, words: str) -> None:
    store = filled()
    store.failing[3] = failure()
    with pytest.raises(PrometheusError):
        recorded(store, path)
    with pytest.raises(RecordError, match="of another recording") as caught:
        recorded(store, path, plan)
    assert words in str(caught.value)
    assert "--force" in str(caught.value)


def test_force_begins_anew(path: Path) -> None:
    store = filled()
    store.failing[3] = failure()
    with pytest.raises(PrometheusError):
        recorded(store, path)
    short = replace(PLAN, end=BEGIN + 100.0)
    header = recorded(store, path, short, force=True)
    assert header.end == short.end
    assert len(samples(path)) == 14
    recorded(store, path, force=True)  # over a finished one too
    assert samples(path) == all_of_it()


def test_a_file_that_is_there_is_not_replaced_and_nothing_is_asked(path: Path) -> None:
    path.write_text("precious")
    store = filled()
    with pytest.raises(RecordError, match="exists already; use --force"):
        recorded(store, path)
    assert (path.read_text(), store.asked) == ("precious", [])


def test_a_part_that_cannot_be_read_asks_for_force(path: Path) -> None:
    part_of(path).write_text("something else")
    with pytest.raises(RecordError, match="--force to begin anew"):
        recorded(filled(), path)


def test_two_at_once_do_not_write_one_file(path: Path) -> None:
    first = Recorder.begin(path, PLAN.header())
    try:
        with pytest.raises(RecordError, match="being written by another"):
            recorded(filled(), path)
    finally:
        first.close()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"cannot write .*missing/out\.rec\.part"):
        recorded(filled(), tmp_path / "missing" / "out.rec")


def test_a_recording_that_grows_too_large_stops_and_goes_on_with_a_larger_limit(path: Path) -> None:
    """An empty file has five pages of 4 kB."""
    store = filled()
    with pytest.raises(RecordError, match=r"has reached 0 MB .* larger --max-bytes"):
        recorded(store, path, max_bytes=5 * 4096)
    recorded(store, path)
    assert samples(path) == all_of_it()


def test_warnings_of_prometheus_are_kept_once(path: Path) -> None:
    store = filled()
    store.warnings = ("a store is away",)
    assert recorded(store, path).warnings == ("a store is away",)


def test_a_page_that_contradicts_itself_is_left_out_and_said(path: Path) -> None:
    """Position 1 is missing where 0 and 2 are there, in the one scrape at 30 s."""
    store = filled("a")
    for key, values in store.series.items():
        if dict(key).get("position") == "1":
            del values[2]
    header = recorded(store, path)
    assert [one for one in all_of_it("a") if one[1].at != BEGIN + 30.0] == samples(path)
    assert header.warnings[0].startswith("pages of a that could not be read: ")


def test_a_gap_is_told(path: Path) -> None:
    """Nothing between 105 and 300 s."""
    header = recorded(filled("a", gap=(105, 300)), path)
    assert header.gaps == (Gap("a", BEGIN + 105.0, BEGIN + 300.0),)


def test_a_pod_counts_once_however_many_jobs_scrape_it(path: Path) -> None:
    store = filled("a")
    for passed in range(7, 601, 15):
        store.scrape(target("a", "zz-monitor"), BEGIN + passed, text(10.0 * passed))
    recorded(store, path)
    assert samples(path) == all_of_it("a")


def test_the_second_job_counts_once_the_first_was_silent_for_two_minutes(path: Path) -> None:
    """The first is silent from 150 to 450 s; the second, seven seconds later, counts from 277 on: 127 s after."""
    store = filled("a", gap=(150, 450))
    for passed in range(7, 601, 15):
        store.scrape(target("a", "zz-monitor"), BEGIN + passed, text(10.0 * passed))
    recorded(store, path)
    found = [one.at - BEGIN for _, one in samples(path)]
    first, second = [float(n) for n in range(0, 151, 15)], [float(n) for n in range(277, 450, 15)]
    assert found == [*first, *second, *(float(n) for n in range(450, 601, 15))]


def test_a_pair_of_servers_counts_once(path: Path) -> None:
    store = Store()
    for passed in range(0, 601, 15):
        for offset, replica in ((0.0, "prometheus-0"), (4.0, "prometheus-1")):
            labels = target("a", prometheus_replica=replica)
            store.scrape(labels, BEGIN + passed + offset, text(10.0 * passed))
    recorded(store, path)
    assert samples(path) == all_of_it("a")


def test_other_programs_are_no_pods(path: Path) -> None:
    """Prometheus itself shows when it started, and a router series of an engine's name without a model."""
    store = filled("a")
    other = 'process_start_time_seconds 1.0\nvllm:num_requests_running{server="a"} 5\n'
    store.scrape({"job": "prometheus", "instance": "localhost:9090", "namespace": "llm"}, BEGIN + 15.0, other)
    assert recorded(store, path).pods == ("a",)


def test_without_a_label_for_the_pod_its_instance_names_it(path: Path) -> None:
    store = Store()
    store.scrape({"job": "vllm", "instance": "10.0.0.7:8000"}, BEGIN, text(0.0))
    assert recorded(store, path).pods == ("10.0.0.7:8000",)


def test_pods_of_one_name_in_two_namespaces_are_two(path: Path) -> None:
    store = Store()
    for namespace in ("llm", "test"):
        store.scrape(target("a") | {"namespace": namespace}, BEGIN, text(0.0))
    plan = replace(PLAN, settings=replace(SETTINGS, namespace=None, matchers=('namespace="llm"',)))
    assert recorded(store, path, plan).pods == ("llm/a", "test/a")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (replace(SETTINGS, prefix="kserve_vllm:"), ["kserve_vllm:.*", "try --prefix vllm:"]),
        (
            replace(SETTINGS, namespace="elsewhere"),
            ['without namespace="elsewhere" it has vllm:generation_tokens_total', "mend --namespace or --match"],
        ),
    ],
)
def test_where_nothing_is_found_it_says_what_there_is_instead(path: Path, settings: object, words: list[str]) -> None:
    with pytest.raises(RecordError) as caught:
        recorded(filled(), path, replace(PLAN, settings=settings))  # type: ignore[arg-type]
    message = str(caught.value)
    assert all(one in message for one in words), message
    assert not part_of(path).exists()


def test_where_there_is_nothing_at_all_it_asks_whether_anybody_scrapes(path: Path) -> None:
    with pytest.raises(RecordError, match="does it scrape the pods"):
        recorded(Store(), path)


def test_names_without_a_sample_in_the_span_are_nothing_too(path: Path) -> None:
    """Prometheus tells names by the block of two hours."""
    later = replace(PLAN, start=BEGIN + 5000.0, end=BEGIN + 6000.0)
    with pytest.raises(RecordError, match="has no series of an engine"):
        recorded(filled(), path, later)
    assert not part_of(path).exists()
