"""The log: a line a decision, nothing said over and over, and no credentials."""

import logging
import re
from collections.abc import Iterator
from typing import Literal

import kopf
import pytest

from specloop_operator.decision_log import FIELDS, log_decision
from specloop_operator.logs import MAX_REMEMBERED, QUIET, REPEAT_SECONDS, Repeats
from specloop_policy.decision import ActionName, Decision
from tests.support.logs import Log, own_log

LOG = logging.getLogger("specloop.test")
POD = {"apiVersion": "v1", "kind": "Pod", "namespace": "llm", "name": "llama-0", "uid": "u"}


@pytest.fixture
def log() -> Iterator[Log]:
    """A log for one test."""
    with own_log() as one:
        yield one


def decide(reason: str, *, action: ActionName = ActionName.HOLD, level: str = "k5", rule: str | None = None) -> None:
    """Log a decision of one policy at k5 in mode Enforce."""
    decision = Decision(action, level, reason, rule)
    log_decision("llm", "chat", "Deployment/llama", "Enforce", "k5", decision, 35.5)


def test_a_decision_is_one_line_of_json_with_every_field_by_its_name(log: Log) -> None:
    """The time is RFC 3339 with its zone."""
    log.configure("json")
    reason = "acceptance 35.5 % is below 40 %\nfor 600 s"
    decide(reason, action=ActionName.STEP_DOWN, level="k3", rule="acceptance-low")
    (record,) = log.records
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00", record.pop("time"))
    sentence = "acceptance 35.5 % is below 40 % for 600 s"
    assert record == {
        "level": "INFO",
        "logger": "specloop.decisions",
        "message": f"llm/chat Deployment/llama: StepDown, k5 to k3 (Enforce): {sentence}",
        "namespace": "llm",
        "policy": "chat",
        "target": "Deployment/llama",
        "mode": "Enforce",
        "action": "StepDown",
        "from": "k5",
        "to": "k3",
        "rule": "acceptance-low",
        "reason": sentence,
        "acceptancePercent": 35.5,
    }
    assert set(FIELDS) < set(record)


def test_text_is_for_people(log: Log) -> None:
    """One line as well."""
    log.configure("text")
    decide("acceptance 62.0 %: no rule asks for a change")
    (line,) = log.lines
    assert line.endswith(
        "+00:00 INFO specloop.decisions llm/chat Deployment/llama: Hold, at k5 (Enforce): "
        "acceptance 62.0 %: no rule asks for a change"
    )


def test_the_same_decision_with_other_figures_is_written_once(log: Log) -> None:
    """Ticks come every few seconds."""
    log.configure("json")
    for percent in range(60, 70):
        decide(f"acceptance {percent} %: no rule asks for a change")
    assert len(log.lines) == 1


def test_a_decision_that_changes_is_written_and_tells_what_was_left_out(log: Log) -> None:
    """Three holds, then a step down; then two holds are three lines in all."""
    log.configure("json")
    for _ in range(3):
        decide("no rule asks for a change")
    decide("acceptance 35 % is below 40 %", action=ActionName.STEP_DOWN, level="k3")
    decide("no rule asks for a change")
    decide("no rule asks for a change")
    assert [record["action"] for record in log.records] == ["Hold", "StepDown", "Hold"]
    assert [record.get("leftOut") for record in log.records] == [None, 2, None]


def test_levels_called_by_numbers_are_no_figures(log: Log) -> None:
    """A step to level 3 is not one to level 2."""
    log.configure("json")
    for level in ("3", "2"):
        decide(f"from 5 to {level}", action=ActionName.STEP_DOWN, level=level)
    assert len(log.lines) == 2


def record_at(seconds: float, message: str = "it is so", line: int = 1, **extra: object) -> logging.LogRecord:
    """A record of this time about the pod, unless `extra` says otherwise."""
    record = logging.LogRecord("kopf.objects", logging.INFO, "kopf.py", line, message, None, None)
    record.created = seconds
    record.__dict__.update(extra or {"k8s_ref": POD})
    return record


def test_a_line_about_an_object_comes_again_after_an_hour() -> None:
    """What stays so is said now and then, for logs that are kept for a day."""
    repeats = Repeats()
    times = (0.0, 15.0, REPEAT_SECONDS - 1.0, REPEAT_SECONDS, REPEAT_SECONDS + 15.0)
    assert [repeats.filter(record_at(time)) for time in times] == [True, False, False, True, False]


def test_other_objects_other_places_and_other_words_are_other_lines() -> None:
    """Each was not said before; a line about nothing in particular always counts as news."""
    repeats = Repeats()
    assert repeats.filter(record_at(0.0))
    assert repeats.filter(record_at(0.0, k8s_ref={**POD, "name": "llama-1"}))
    assert repeats.filter(record_at(0.0, line=2))
    assert repeats.filter(record_at(0.0, message="it is not so"))
    assert all(repeats.filter(record_at(0.0, name="kopf")) for _ in range(3))


def test_an_error_of_another_kind_is_news() -> None:
    """The words are the same."""
    repeats = Repeats()
    errors = [ValueError("x"), ValueError("x"), KeyError("x")]
    found = [repeats.filter(record_at(0.0, k8s_ref=POD, exc_info=(type(one), one, None))) for one in errors]
    assert found == [True, False, True]


def test_only_so_many_lines_are_remembered() -> None:
    """The first one is forgotten by then, the last one is not."""
    repeats = Repeats()
    for number in range(MAX_REMEMBERED + 1):
        repeats.filter(record_at(0.0, line=number))
    assert repeats.filter(record_at(0.0, line=0))
    assert not repeats.filter(record_at(0.0, line=MAX_REMEMBERED))


def test_a_wrong_format_does_no_harm_to_whoever_logs(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    """logging itself complains on standard error, and goes on."""
    log.configure("json")
    LOG.info("only %s and %s", "one", extra={"k8s_ref": POD})
    assert "not enough arguments" in capsys.readouterr().err


def test_lines_of_kopf_about_an_object_carry_it_and_none_of_kopfs_own_fields(log: Log) -> None:
    """Its settings are no business of a log."""
    log.configure("json")
    extra = {"k8s_ref": POD, "k8s_skip": True, "settings": kopf.OperatorSettings()}
    logging.getLogger("kopf.objects").warning("Handler 'pods' failed.", extra=extra)
    (record,) = log.records
    assert record["object"] == POD
    assert set(record) == {"time", "level", "logger", "message", "object"}


def test_in_text_a_line_of_kopf_begins_with_its_object(log: Log) -> None:
    """The object is in no field there."""
    log.configure("text")
    logging.getLogger("kopf.objects").warning("retrying", extra={"k8s_ref": POD})
    assert log.lines[0].endswith("WARNING kopf.objects Pod llm/llama-0: retrying")


def test_an_error_brings_its_traceback(log: Log) -> None:
    """In JSON within the same line."""
    log.configure("json")
    try:
        raise ValueError("no such level")
    except ValueError:
        LOG.exception("the tick failed")
    (record,) = log.records
    assert "ValueError: no such level" in record["exc_info"]


@pytest.mark.parametrize("log_format", ["json", "text"])
@pytest.mark.parametrize(
    "text",
    [
        "GET https://admin:s3cret-s3cret-s3cret@prometheus/api failed",
        "sent {'Authorization': 'Bearer s3cret-s3cret-s3cret'}",
        'sent {"authorization": "Basic s3cret-s3cret-s3cret="}',
        "sent Authorization: s3cret-s3cret-s3cret",
        "curl -H 'X-Auth: bearer s3cret-s3cret-s3cret'",
    ],
)
def test_what_looks_like_a_credential_is_not_written(log: Log, log_format: Literal["json", "text"], text: str) -> None:
    """Wherever it stands: in the message, in a field, in a traceback."""
    log.configure(log_format)
    LOG.info(text, extra={"detail": text})
    try:
        raise ValueError(text)
    except ValueError:
        LOG.exception("failed")
    written = log.stream.getvalue()
    assert "s3cret" not in written
    assert "***" in written


def test_a_token_of_a_service_account_is_not_written(log: Log) -> None:
    """Made of three parts in base64; the first begins like every JSON object, {"."""
    log.configure("json")
    LOG.info("got eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl from the file")
    assert log.records[0]["message"] == "got *** from the file"


def test_plain_words_are_left_alone(log: Log) -> None:
    """They only sound like credentials."""
    log.configure("json")
    said = "bearer authentication is set, basic idea: 5 draft tokens, see https://example.org/a@b, mail a@example.org"
    LOG.info(said)
    assert log.records[0]["message"] == said


def test_libraries_that_report_every_request_are_heard_from_warning_up(log: Log) -> None:
    """httpx writes a line for each scrape, apscheduler one for each tick."""
    log.configure("json", "DEBUG")
    for name in QUIET:
        logging.getLogger(name).info("as always")
        logging.getLogger(name).warning("look at this")
    assert [record["message"] for record in log.records] == ["look at this"] * len(QUIET)


def test_the_level_is_kept(log: Log) -> None:
    """At WARNING decisions are not heard."""
    log.configure("json", "WARNING")
    decide("no rule asks for a change")
    LOG.warning("this is")
    assert [record["message"] for record in log.records] == ["this is"]
