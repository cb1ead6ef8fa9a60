"""Recording what a real Prometheus scraped, and a live loop that reads it: both see the same."""

import json
from pathlib import Path
from typing import Any

import pytest

from specloop_control.recording import Recording
from specloop_engine.feed import Feed, ShownLevels
from specloop_policy.observation import Outcome
from tests.component.prometheus.conftest import LADDER, Scraped, history
from tests.support.programs import run

pytestmark = [pytest.mark.slow, pytest.mark.engine, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def recorded(scraped: Scraped, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A recording of it all, made as a user would, and what the command said."""
    path = tmp_path_factory.mktemp("recording") / "all.rec"
    return path, record(scraped, path)


def record(scraped: Scraped, path: Path, *flags: str, code: int = 0) -> dict[str, Any]:
    """What the command answers; when it fails, what it says."""
    span = ("--start", f"{scraped.begin:.3f}", "--end", f"{scraped.looks[-1]:.3f}")
    where = ("--prometheus", scraped.settings.url, "--namespace", "llm", "--lag", "2", "--out", str(path))
    found, out, err = run("record", *where, *span, "-o", "json", *flags)
    assert found == code, err
    answer: dict[str, Any] = json.loads(out) if out else {"error": err.splitlines()[-1]}
    return answer


def test_the_live_loop_saw_every_pod_and_the_restart(scraped: Scraped) -> None:
    by_pod = {pod: [one for one in scraped.live if one.pod == pod] for pod in "abc"}
    assert all(by_pod.values())
    assert Outcome.MEASURED in {one.outcome for one in by_pod["a"]}
    assert {one.level for one in by_pod["a"]} == {"k5"}
    assert Outcome.OFF in {one.outcome for one in by_pod["c"]}
    assert {one.level for one in by_pod["b"] if one.outcome is Outcome.MEASURED} == {"k5", "k3"}
    # The restart falls into a window, or takes longer than one.
    assert {Outcome.RESET, Outcome.STALE} & {one.outcome for one in by_pod["b"]}
    assert len({one.process_start for one in by_pod["b"] if one.process_start is not None}) == 2
    assert all(one.temperatures for one in by_pod["a"] if one.outcome is Outcome.MEASURED)


def test_the_windows_of_a_recording_are_those_of_the_live_loop(
    scraped: Scraped, recorded: tuple[Path, dict[str, Any]]
) -> None:
    target = history()
    feed = Feed(target, ShownLevels(LADDER))
    with Recording.open(recorded[0]) as recording:
        samples = list(recording.samples())
    since = scraped.looks[0]
    for until in scraped.looks[1:]:
        feed.feed([one for one in samples if since < one[1].at <= until], until)
        since = until
    assert target.windows() == scraped.live


def test_the_header_says_what_was_recorded(scraped: Scraped, recorded: tuple[Path, dict[str, Any]]) -> None:
    path, header = recorded
    assert header["source"] == scraped.settings.url
    assert header["pods"] == ["a", "b", "c"]
    assert header["intervalSeconds"] == pytest.approx(0.5, abs=0.1)
    assert [gap["pod"] for gap in header["gaps"] if gap["pod"] == "b"]  # while it was restarted
    assert header["warnings"] == []
    assert header["bytes"] == path.stat().st_size
    with Recording.open(path) as recording:
        assert len(list(recording.samples())) == header["samples"]


def test_how_pods_served_is_recorded_and_of_responses_the_failures_alone(
    recorded: tuple[Path, dict[str, Any]],
) -> None:
    """A series that is not there is unknown: none of pod a's responses failed, and its other ones are not asked for."""
    with Recording.open(recorded[0]) as recording:
        last = dict(recording.samples())
    served = {pod: sample.served for pod, sample in last.items()}
    assert all(one is not None and one.decode_seconds and one.answer_tokens for one in served.values())
    failed = {pod: one.failed_responses for pod, one in served.items() if one is not None}
    assert failed["a"] is None
    assert failed["c"]


def test_a_recording_that_was_stopped_goes_on_to_the_same_end(
    scraped: Scraped, recorded: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    path = tmp_path / "again.rec"
    assert "larger --max-bytes" in record(scraped, path, "--max-bytes", "1", code=2)["error"]
    assert not path.exists()
    record(scraped, path)
    with Recording.open(path) as again, Recording.open(recorded[0]) as first:
        assert list(again.samples()) == list(first.samples())


def test_another_prefix_is_found(scraped: Scraped, tmp_path: Path) -> None:
    said = record(scraped, tmp_path / "none.rec", "--prefix", "kserve_vllm:", code=2)["error"]
    assert said.endswith("it has vllm:generation_tokens_total, vllm:num_requests_running: try --prefix vllm:")


def test_text_says_what_there_is(scraped: Scraped, tmp_path: Path) -> None:
    where = ("--prometheus", scraped.settings.url, "--namespace", "llm", "--out", str(tmp_path / "text.rec"))
    code, out, err = run("record", *where, "--start", f"{scraped.begin:.3f}", "--lag", "2")
    assert code == 0
    assert "3 pods: a, b, c" in out
    assert "samples, one every 0.5" in out
    assert err.splitlines()[-1] == "100 % recorded"
