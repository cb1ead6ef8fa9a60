"""Alertmanager's webhook messages: what is read of them, and that nothing else comes in.

The format is that of Alertmanager's documentation (Configuration, <webhook_config>), which is `notify/webhook.Message`
around `template.Data` in its source.  `tests/component/webhook/test_alertmanager.py` has a real one send them.
"""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specloop_operator.alertmanager import MessageError, read_message
from tests.support.alerts import NOW, alert_json, message_json

DOCUMENTED = r"""{
  "version": "4",
  "groupKey": "{}/{team=\"llm\"}:{alertname=\"SpecDecodeAcceptanceLow\", namespace=\"llm\"}",
  "truncatedAlerts": 0,
  "status": "firing",
  "receiver": "specloop",
  "groupLabels": {"alertname": "SpecDecodeAcceptanceLow", "namespace": "llm"},
  "commonLabels": {"alertname": "SpecDecodeAcceptanceLow", "namespace": "llm", "severity": "warning"},
  "commonAnnotations": {"summary": "Few draft tokens are accepted"},
  "externalURL": "http://alertmanager-0:9093",
  "alerts": [
    {
      "status": "firing",
      "labels": {"alertname": "SpecDecodeAcceptanceLow", "namespace": "llm", "pod": "llama-0", "severity": "warning"},
      "annotations": {"summary": "Few draft tokens are accepted"},
      "startsAt": "2026-11-30T12:00:00.123456789Z",
      "endsAt": "0001-01-01T00:00:00Z",
      "generatorURL": "http://prometheus-0:9090/graph?g0.expr=a+%3C+0.4\u0026g0.tab=1",
      "fingerprint": "6f1a52d8b7c0e394"
    },
    {
      "status": "resolved",
      "labels": {"alertname": "SpecDecodeAcceptanceLow", "namespace": "llm", "pod": "llama-1", "severity": "warning"},
      "annotations": {"summary": "Few draft tokens are accepted"},
      "startsAt": "2026-11-30T12:00:00+01:00",
      "endsAt": "2026-11-30T12:10:00+01:00",
      "generatorURL": "",
      "fingerprint": "0e394c6f1a52d8b7"
    }
  ]
}"""
"""All fields of the documented format, with nine digits of a second, as Go writes them, and with another zone."""


def start_of(text: object) -> float:
    """When an alert began that says so like this; raises MessageError."""
    return read_message(message_json({**alert_json(), "startsAt": text})).alerts[0].starts_at


def seconds(moment: str) -> float:
    """A moment such as 2026-11-30 12:00:00 in UTC as seconds since the epoch, by Python's own reading."""
    return datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()


def test_a_documented_message_is_read() -> None:
    """Two alerts of one group: one fires, one is over."""
    message = read_message(DOCUMENTED.encode())
    first, second = message.alerts
    assert (first.fingerprint, first.firing, first.name) == ("6f1a52d8b7c0e394", True, "SpecDecodeAcceptanceLow")
    assert first.labels["pod"] == "llama-0"
    assert first.starts_at == pytest.approx(seconds("2026-11-30 12:00") + 0.123456, abs=1e-6)
    assert (second.fingerprint, second.firing) == ("0e394c6f1a52d8b7", False)
    assert second.starts_at == seconds("2026-11-30 11:00")
    assert (first.ends_at, second.ends_at) == (seconds("0001-01-01"), seconds("2026-11-30 11:10"))
    assert message.truncated_alerts == 0
    assert message.namespace("namespace") == "llm"


def test_fields_of_later_versions_are_passed_over() -> None:
    """Alertmanager 0.28 and later add some, to messages and to alerts."""
    known = alert_json()
    more: dict[str, Any] = {"notification_reason": "repeat_interval", "routeLabels": {"team": "llm"}}
    message = read_message(message_json({**known, **more}, **more))
    assert message.alerts == read_message(message_json(known)).alerts


def test_fields_that_a_message_may_leave_out_are_not_missed() -> None:
    """`truncatedAlerts` is younger than version 4, and nothing here is read but alerts."""
    alert = {name: value for name, value in alert_json().items() if name != "endsAt"}
    message = read_message(json.dumps({"version": "4", "alerts": [alert]}).encode())
    assert (len(message.alerts), message.truncated_alerts, message.namespace("namespace")) == (1, 0, None)
    assert message.alerts[0].ends_at is None


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-30T12:00:00Z", seconds("2026-11-30 12:00")),
        ("2026-11-30T12:00:00.5Z", seconds("2026-11-30 12:00") + 0.5),
        ("2026-11-30T12:00:00.000000001Z", seconds("2026-11-30 12:00")),
        ("2026-11-30T12:00:00.25+05:30", seconds("2026-11-30 06:30") + 0.25),
        ("0001-01-01T00:00:00Z", seconds("0001-01-01")),
    ],
)
def test_moments_are_read_as_go_writes_them(text: str, moment: float) -> None:
    """RFC 3339 with as many digits of a second as are not 0, of which the first six count."""
    assert start_of(text) == moment


@pytest.mark.parametrize(
    "text",
    ["0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "2026-11-30T12:00:00", "noon", "", None, [], 1e300],
)
def test_what_is_no_moment_in_utc_is_no_message(text: object) -> None:
    """A year before the first one would fail later, where nobody expects it."""
    with pytest.raises(MessageError, match=r"alerts\.0\.startsAt"):
        start_of(text)


def test_a_long_label_keeps_no_other_alert_of_its_message_out() -> None:
    """Whoever writes rules in one namespace must not silence another's; the body's length is the limit."""
    message = read_message(message_json(alert_json(detail="x" * 100_000), alert_json(fingerprint="b")))
    assert [one.fingerprint for one in message.alerts] == [alert_json()["fingerprint"], "b"]


NO_MESSAGES: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "the body"),
    "no text": (b"\xff\xfe", "the body"),
    "null": (b"null", "the body"),
    "a list": (b"[]", "the body"),
    "brackets without end": (b"[" * 1_000_000, "the body"),
    "objects in objects": (b'{"a":' * 100_000, "the body"),
    "brackets in a message": (b'{"version": "4", "alerts": ' + b"[" * 100_000, "the body"),
    "half a character": (message_json(alert_json(detail="\ud800")), "the body"),
    "no alerts": (b'{"version": "4"}', "alerts"),
    "no list of alerts": (message_json(alerts={}), "alerts"),
    "no version": (b'{"alerts": []}', "version"),
    "another version": (message_json(version="3"), "version"),
    "a number as version": (message_json(version=4), "version"),
    "fewer than no alerts left out": (message_json(truncated=-1), "truncatedAlerts"),
    "no labels of its group": (message_json(groupLabels=[]), "groupLabels"),
    "no fingerprint": (message_json({**alert_json(), "fingerprint": ""}), "alerts.0.fingerprint"),
    "a long fingerprint": (message_json({**alert_json(), "fingerprint": "x" * 65}), "alerts.0.fingerprint"),
    "an end that is no moment": (message_json({**alert_json(), "endsAt": "soon"}), "alerts.0.endsAt"),
    "another status": (message_json({**alert_json(), "status": "pending"}), "alerts.0.status"),
    "a number as label": (message_json({**alert_json(), "labels": {"alertname": 1}}), "alerts.0.labels.alertname"),
}
"""Bodies, and the place that is named."""


@pytest.mark.parametrize("case", NO_MESSAGES)
def test_what_is_no_message_is_refused_in_words(case: str) -> None:
    """Short ones, which name the place: they go into an answer and a log line."""
    body, place = NO_MESSAGES[case]
    with pytest.raises(MessageError) as refused:
        read_message(body)
    said = str(refused.value)
    assert said.startswith(f"{place}: ")
    assert len(said) < 300


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(body: bytes) -> None:
    """Nor pass for a message."""
    with pytest.raises(MessageError):
        read_message(body)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.datetimes().map(str),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.sampled_from(["version", "truncatedAlerts", "groupLabels", "commonLabels", "x"]), VALUES),
    st.lists(st.dictionaries(st.sampled_from(["status", "labels", "startsAt", "fingerprint", "endsAt"]), VALUES)),
)
def test_no_document_raises_anything_else(fields: dict[str, object], alerts: list[dict[str, object]]) -> None:
    """What is read can be written down: its moments are of our years."""
    whole = [{**alert_json(), **one} for one in alerts]
    try:
        message = read_message(json.dumps({**json.loads(message_json()), "alerts": whole, **fields}).encode())
    except MessageError:
        return
    assert all(-62_135_596_800.0 <= one.starts_at < NOW * 1000.0 for one in message.alerts)
