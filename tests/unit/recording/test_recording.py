"""A recording gives back what was written, and what is no recording is refused with what to do."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from specloop_control.recorder import Recorder
from specloop_control.recording import Gap, Header, Recording, RecordingError, write_recording
from specloop_engine.sample import Dialect, Drafting, Sample

HEADER = Header("http://host:9090", "{}", "vllm:", {"pod": "pod"}, 0.0, 3000.0, 10.0, created_at=4000.0)


def samples(count: int, *, begin: float = 15.0, tokens: int = 2) -> list[Sample]:
    """Samples every 15 s, in which counters move by their number."""
    return [
        Sample(
            begin + 15.0 * step,
            Dialect.VLLM_V1,
            1.5,
            drafting=Drafting(step, 2.0 * step, float(step), (float(step),) * tokens),
            tokens=tokens,
            finished_requests=float(step),
        )
        for step in range(count)
    ]


def merged(**pods: list[Sample]) -> list[tuple[str, Sample]]:
    """Samples of all pods in the order of time and pod."""
    return sorted(((pod, one) for pod, ones in pods.items() for one in ones), key=lambda one: (one[1].at, one[0]))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "week.rec"


@pytest.fixture
def written(path: Path) -> Iterator[Recording]:
    """Two pods over two thousand samples, which is several blocks of each."""
    write_recording(path, HEADER, merged(a=samples(1000), b=samples(1000, begin=16.0)))
    with Recording.open(path) as recording:
        yield recording


def test_samples_come_back_in_the_order_of_time_and_pod_as_often_as_asked_for(written: Recording) -> None:
    there = merged(a=samples(1000), b=samples(1000, begin=16.0))
    assert list(written.samples()) == there
    assert list(written.samples()) == there


def test_pods_at_the_same_time_come_in_the_order_of_their_names(path: Path) -> None:
    write_recording(path, HEADER, merged(b=samples(2), a=samples(2)))
    with Recording.open(path) as recording:
        assert [pod for pod, _ in recording.samples()] == ["a", "b", "a", "b"]


def test_restarts_and_changes_of_positions_come_back(path: Path) -> None:
    there = [*samples(3), *samples(3, begin=100.0, tokens=5), Sample(200.0, Dialect.VLLM_V1, 190.0, tokens=0)]
    write_recording(path, HEADER, merged(a=there))
    with Recording.open(path) as recording:
        assert [sample for _, sample in recording.samples()] == there


def test_the_header_says_what_there_is(written: Recording) -> None:
    header = written.header
    assert (header.source, header.prefix, header.start, header.end) == ("http://host:9090", "vllm:", 0.0, 3000.0)
    assert (header.pods, header.samples, header.interval_seconds) == (("a", "b"), 2000, 15.0)
    assert (header.gaps, header.created_at, header.lag_seconds) == ((), 4000.0, 10.0)
    assert header.document()["endTime"] == "1970-01-01T00:50:00Z"


def test_two_scrapes_that_were_missed_are_a_gap_and_one_is_not(path: Path) -> None:
    """At 15 s: 30 s between two samples is one missed, 45 s are two."""
    one_missed, two_missed = samples(9), samples(9)
    del one_missed[4]
    del two_missed[4:6]
    header = write_recording(path, HEADER, merged(a=one_missed, b=two_missed))
    assert header.gaps == (Gap("b", 60.0, 105.0),)


def test_samples_out_of_order_are_refused(path: Path) -> None:
    with pytest.raises(ValueError, match="order of time"):
        write_recording(path, HEADER, [("a", one) for one in reversed(samples(3))])


def test_no_sample_at_all_is_a_recording_too(path: Path) -> None:
    write_recording(path, HEADER, [])
    with Recording.open(path) as recording:
        assert (list(recording.samples()), recording.header.interval_seconds) == ([], None)


def refusal(path: Path) -> str:
    """What is said of a file, on opening or on reading it."""
    with pytest.raises(RecordingError) as caught, Recording.open(path) as recording:
        list(recording.samples())
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


def test_a_missing_file_is_named(path: Path) -> None:
    assert "No such file" in refusal(path)


def test_a_folder_is_no_recording(tmp_path: Path) -> None:
    assert "directory" in refusal(tmp_path)


@pytest.mark.parametrize("content", [b"", b"time,input\n1,2\n", b"\x00" * 5000])
def test_another_file_is_no_recording(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert "is no recording" in refusal(path)


def test_another_programs_database_is_no_recording(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE bookmarks (url)")
    assert "another program's database" in refusal(path)


def test_a_newer_format_asks_for_a_newer_specloop(written: Recording, path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 2")
    assert "has format 2, and this specloop reads 1: update specloop" in refusal(path)


def test_an_unfinished_recording_says_how_to_finish_it(path: Path) -> None:
    recorder = Recorder.begin(path, HEADER)
    recorder.add({"a": samples(3)}, 100.0)
    recorder.close()
    assert "run the same record command again" in refusal(path)
    assert "run the same record command again" in refusal(recorder.part)


@pytest.mark.parametrize("share", [0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 0.9999])
def test_a_file_that_is_cut_short_is_refused_never_read_in_part(written: Recording, path: Path, share: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    assert "is cut short" in refusal(path)


def test_a_damaged_block_is_named_by_its_pod_and_span(written: Recording, path: Path) -> None:
    """Blocks of 960 samples: the second of pod b begins at 16 + 960 · 15 s."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE chunk SET blob = substr(blob, 1, 100) WHERE pod = 'b' AND start > 16.0")
    assert "the samples of b from 1970-01-01T04:00:16Z to 1970-01-01T04:10:01Z are damaged" in refusal(path)


def test_a_header_that_was_changed_is_noticed(written: Recording, path: Path) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE meta SET value = replace(value, 'lag_seconds', 'lag_seconds') WHERE key = 'header'")
    with Recording.open(path):
        pass  # nothing is different yet
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE meta SET value = replace(value, ': 10.0', ': 20.0') WHERE key = 'header'")
        assert database.total_changes == 1
    assert "has a header that was changed: it is damaged" in refusal(path)


def test_a_chunk_that_is_missing_is_noticed(written: Recording, path: Path) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DELETE FROM chunk WHERE pod = 'b' AND start > 16.0")
    assert "has 1960 of 2000 samples" in refusal(path)


def test_a_header_without_its_fields_is_refused(written: Recording, path: Path) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE meta SET value = '{}' WHERE key = 'header'")
    assert "no header that can be read" in refusal(path)
