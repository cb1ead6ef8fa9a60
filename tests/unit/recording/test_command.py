"""`specloop record`: what is asked for wrongly is one line with the mend, before anything is asked or written."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from specloop_cli.errors import InputError
from specloop_cli.main import main
from specloop_cli.record import Asked, Times, plan
from specloop_control.prometheus_server import PrometheusSettings

NOW = datetime(2026, 7, 8, 12, 0, 0, tzinfo=UTC).timestamp()
SETTINGS = PrometheusSettings("http://prometheus:9090", lag_seconds=10.0)
COMPLETE = NOW - 10.0
HOUR, DAY = 3600.0, 86400.0


@pytest.mark.parametrize(
    ("times", "start", "end"),
    [
        (Times(None, None, None), COMPLETE - 7 * DAY, COMPLETE),
        (Times(None, None, "1h30m"), COMPLETE - 1.5 * HOUR, COMPLETE),
        (Times(None, "now-1d", "2d"), NOW - 3 * DAY, NOW - DAY),
        (Times("now-6h", None, None), NOW - 6 * HOUR, COMPLETE),
        (Times("2026-07-08T11:00:00Z", "2026-07-08T13:30:00+02:00", None), NOW - HOUR, NOW - HOUR / 2),
        (Times("2026-07-08T11:00:00.5Z", None, None), NOW - HOUR + 0.5, COMPLETE),
        (Times(f"{NOW - HOUR:.0f}", f"{NOW - 60:.3f}", None), NOW - HOUR, NOW - 60.0),
        (Times("now-1h", "2027-01-01T00:00:00Z", None), NOW - HOUR, COMPLETE),
    ],
)
def test_times_are_read_and_end_where_data_is_complete(times: Times, start: float, end: float) -> None:
    found = plan(SETTINGS, times, NOW)
    assert (found.start, found.end) == (start, end)


def test_a_span_is_kept_in_its_words_so_that_the_same_command_goes_on() -> None:
    assert plan(SETTINGS, Times(None, None, None), NOW).asked == "--last 7d --end now"
    assert plan(SETTINGS, Times("now-6h", "now-1h", None), NOW).asked == "--start now-6h --end now-1h"


@pytest.mark.parametrize(
    ("times", "words"),
    [
        (Times("now-6h", None, "1h"), "give one of them"),
        (Times("yesterday", None, None), "--start yesterday: give a time such as 2026-07-01T12:00:00Z"),
        (Times("2026-07-08T11:00:00", None, None), "has no zone; add Z"),
        (Times("now-6", None, None), "--start now-6: give a span such as 7d"),
        (Times(None, None, "week"), "--last week: give a span"),
        (Times(None, None, "1d x"), "give a span"),
        (Times(None, None, "0s"), "is not before the end"),
        (Times("now-1h", "now-2h", None), "is not before the end"),
        (Times("99999999999", None, None), "is not before the end"),
        (Times(None, None, "999999999w"), "before 1970"),
    ],
)
def test_times_that_mean_nothing_say_what_would(times: Times, words: str) -> None:
    with pytest.raises(InputError) as caught:
        plan(SETTINGS, times, NOW)
    assert words in str(caught.value)


def refusal(capsys: pytest.CaptureFixture[str], out: Path, *arguments: str, url: str = "http://127.0.0.1:1") -> str:
    """What the command says of a call that is wrong."""
    assert main(["record", "--prometheus", url, "--out", str(out), *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert list(out.parent.iterdir()) in ([], [out])
    return captured.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--match", "a='x'"), "is no matcher: give one such as"),
        (("--match", 'a="x",b="y"} or {c="d"'), "is no matcher"),
        (("--prefix", "vllm/"), "begins no name of a series"),
        (("--pod-label", "pod-name"), "'pod-name' is no name of a label"),
        (("--token-file", "/nowhere/token"), "cannot read the token in /nowhere/token"),
        (("--last", "week"), "--last week"),
    ],
)
def test_options_that_mean_nothing_say_what_would(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    assert words in refusal(capsys, tmp_path / "out.rec", *arguments)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("prometheus:9090", "give one such as http://host:9090"),
        ("ftp://prometheus", "give one such as http://host:9090"),
        ("http://", "give one such as http://host:9090"),
        ("http://[::1", "give one such as http://host:9090"),
        ("http://host:99999", "give one such as http://host:9090"),
        ("user:secret@host:9090", "the address is none of a Prometheus"),
    ],
)
def test_an_address_that_is_none_is_refused_without_showing_a_password(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], url: str, words: str
) -> None:
    said = refusal(capsys, tmp_path / "out.rec", url=url)
    assert words in said
    assert "secret" not in said


def test_a_file_that_is_there_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.rec"
    out.write_text("precious")
    assert "use --force" in refusal(capsys, out)
    assert out.read_text() == "precious"


def test_credentials_in_the_address_are_used_and_never_shown() -> None:
    asked = Asked("http://user:secret@host:9090/path/", None, (), "pod", "namespace", "vllm:", None, 10.0)
    assert asked.settings().source == "http://host:9090/path/"
