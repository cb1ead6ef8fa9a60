"""Words of pods, people and alerts in the operator's log, events and status, and on a terminal: they only ever say."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any, Literal

import pytest

from specloop_cli.live_policy import LivePolicy
from specloop_cli.output import console, print_document, say
from specloop_cli.status import report
from specloop_cli.status_text import show, show_all
from specloop_operator.announcer import Event, ObjectRef
from specloop_operator.conditions import ConditionReason, ConditionType, conditions
from specloop_operator.events import Reason
from specloop_operator.gist import gist
from specloop_operator.kubernetes_events import MAX_NOTE_BYTES, KubernetesEvents
from specloop_operator.logs import QUIET, configure_logging
from tests.support.live_policies import NOON, condition, decision, live, rollout, status
from tests.support.threats import FORGED, HALF, HOSTILE, steers

LOG = logging.getLogger("specloop.test")
EVERYWHERE = pytest.mark.parametrize("log_format", ["json", "text"])
Format = Literal["json", "text"]


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """What is logged in one test; afterwards logging is as it was."""
    before = [(logging.getLogger(name), logging.getLogger(name).level) for name in (None, *QUIET)]
    handlers = list(logging.getLogger().handlers)
    yield io.StringIO()
    logging.getLogger().handlers[:] = handlers
    logging.captureWarnings(False)
    for logger, level in before:
        logger.setLevel(level)


def fail(words: str) -> None:
    """Log an error whose own words are an attacker's."""
    try:
        raise ValueError(words)
    except ValueError:
        LOG.exception("the tick failed: %s", words, extra={"namespace": words, "policy": "chat"})


@EVERYWHERE
def test_a_log_line_steers_no_terminal(stream: io.StringIO, log_format: Format) -> None:
    """Neither by its message, nor by a field, nor by what an error says of itself."""
    configure_logging(log_format, "INFO", stream)
    fail(HOSTILE + HALF)
    written = stream.getvalue()
    assert "\\u001b[31m" in written
    assert steers(written, line_ends="\n") == []
    written.encode()


@EVERYWHERE
def test_no_words_pass_for_another_log_line(stream: io.StringIO, log_format: Format) -> None:
    """Lines of ours begin with a brace or a time; what goes on after a line end is indented, or stands in a string."""
    configure_logging(log_format, "INFO", stream)
    fail(HOSTILE)
    assert FORGED in stream.getvalue()
    assert [line for line in stream.getvalue().splitlines() if line.startswith(FORGED[:10])] == []


def test_json_lines_say_what_was_said(stream: io.StringIO) -> None:
    """Whatever is in it, a line is one JSON document with the very words."""
    configure_logging("json", "INFO", stream)
    LOG.info("%s", HOSTILE, extra={"detail": HOSTILE})
    (line,) = stream.getvalue().splitlines()
    found = json.loads(line)
    assert (found["message"], found["detail"]) == (HOSTILE, HOSTILE)


@EVERYWHERE
@pytest.mark.parametrize("piece", ["-eyJ", "eyJ", "eyJaaaaaaaa.", "://", "authorization", "authorization: ", "bearer "])
def test_looking_for_credentials_takes_no_more_than_the_length_of_a_line(
    stream: io.StringIO, log_format: Format, piece: str
) -> None:
    """A megabyte in each shape that looks like the beginning of one; by the square of its length this takes hours."""
    configure_logging(log_format, "INFO", stream)
    LOG.info(piece * (1_000_000 // len(piece)))
    assert stream.tell() > 100_000


@pytest.mark.parametrize("word", ["1" * 200_000 + "a", "-" * 200_000 + "a", "1-" * 100_000 + "k5"])
def test_whether_words_are_news_is_known_within_their_length(word: str) -> None:
    """A word of figures that ends as a name; by the square of its length this takes a quarter of an hour."""
    assert gist(f"it said {word}") == f"it said {word}"


class Posted:
    """The part of the API that takes events, and keeps them."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    async def create_namespaced_event(self, namespace: str, body: Any, **_: Any) -> None:
        """Keep its note."""
        self.notes.append(body.note)


async def test_an_event_is_one_line_that_steers_nothing() -> None:
    """And as long as the API server takes."""
    posted = Posted()
    policy = ObjectRef("specloop.dev/v1alpha1", "SpecPolicy", "llm", "chat", "uid")
    await KubernetesEvents(posted, "operator").post(Event(policy, Reason.FAULT_FOUND, HOSTILE * 100, 0.0))  # type: ignore[arg-type]
    [note] = posted.notes
    assert steers(note) == []
    assert note.startswith(f"boom {FORGED}")
    assert len(note.encode()) <= MAX_NOTE_BYTES


def test_a_condition_is_one_line_that_steers_nothing() -> None:
    """And as long as the definition of the resource lets it be, or the whole status would be refused."""
    found = {ConditionType.DEGRADED: (ConditionReason.FAULT_FOUND, HOSTILE * 1000)}
    [one] = [one for one in conditions(found, (), 1, 0.0) if one.type == ConditionType.DEGRADED]
    assert steers(one.message) == []
    assert one.message.startswith(f"boom {FORGED}")
    assert len(one.message) <= 32_768


def hostile_policy() -> LivePolicy:
    """A policy with a stranger's words wherever the API server takes any text."""
    found = status(
        condition("Degraded", "True", message=HOSTILE),
        decisions=[{**decision("Hold", "k3", "k3", rule=HOSTILE), "reason": HOSTILE}],
        memory={
            "quarantine": [{"level": "k5", "key": "a", "reason": HOSTILE}],
            "rollout": rollout(reason=HOSTILE),
            "forced": {"by": HOSTILE},
        },
        recommendation={"level": "k3", "reason": HOSTILE},
        observedLevel=HOSTILE[:63],
    )
    return live(target=f"{HOSTILE[:63]}/{HOSTILE}", status=found)


def test_a_terminal_shows_a_policy_and_is_not_steered(capsys: pytest.CaptureFixture[str]) -> None:
    """As one of many, and alone."""
    one = report(hostile_policy(), NOON)
    show_all([one], NOON, None)
    show(one, NOON)
    shown = capsys.readouterr().out
    assert "forged" in shown
    assert steers(shown, line_ends="\n") == []
    assert [line for line in shown.splitlines() if line.startswith(FORGED[:10])] == []


def test_whatever_is_printed_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Labels of pods and warnings of a Prometheus among it: `record` prints both."""
    console().print(f"2 pods: {HOSTILE}")
    say(console(), f"warning: {HOSTILE}")
    shown = capsys.readouterr().out
    assert "\\x1b[31m" in shown
    assert steers(shown, line_ends="\n") == []


def test_json_of_a_policy_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    """Its strings are for programs, which get the very words; a program that prints them must know what it does."""
    print_document(report(hostile_policy(), NOON))
    assert json.loads(capsys.readouterr().out)["conditions"][0]["message"] == HOSTILE
