"""How kopf is set: nothing is waited for without end, nothing is written, nothing is looked for."""

from dataclasses import fields

import kopf

from specloop_operator.kopf_settings import (
    BACKOFFS,
    REQUEST_SECONDS,
    SILENT_SECONDS,
    STALLED_SECONDS,
    WATCH_SECONDS,
    kopf_settings,
)

BOOKMARK_SECONDS, REMEMBERED_SECONDS = 60.0, 75.0
"""Kubernetes' watch cache: a bookmark a minute (`defaultBookmarkFrequency`), events for 75 s at least
(`DefaultEventFreshDuration`)."""
PROXY_SECONDS = 300.0
"""After which common proxies cut a connection off."""
SERVER_SECONDS = 60.0
"""The API server's own limit for a request, `--request-timeout`."""


def test_every_request_and_every_watch_has_its_end() -> None:
    found = kopf_settings()
    limits = [
        getattr(part, one.name)
        for part in (found.networking, found.watching)
        for one in fields(part)
        if one.name.endswith("_timeout")
    ]
    assert len(limits) == 6
    assert all(one is not None and 0.0 < one < PROXY_SECONDS for one in limits)
    assert str(found.watching.server_timeout).isdecimal()  # so kopf sends it, and the API server takes whole seconds
    assert REQUEST_SECONDS < SERVER_SECONDS


def test_a_watch_is_taken_for_dead_once_a_bookmark_is_missing_and_before_events_are_forgotten() -> None:
    assert BOOKMARK_SECONDS < kopf_settings().watching.inactivity_timeout == SILENT_SECONDS < REMEMBERED_SECONDS


def test_an_api_server_in_trouble_is_asked_until_the_operator_counts_as_stalled() -> None:
    """A watch that has had its time may begin again so late that its pulse is just not missed."""
    assert tuple(kopf_settings().networking.error_backoffs) == BACKOFFS  # type: ignore[arg-type]
    assert WATCH_SECONDS + sum(BACKOFFS) == STALLED_SECONDS
    assert sorted(BACKOFFS) == list(BACKOFFS)


def test_kopf_writes_nothing_and_looks_for_no_definitions() -> None:
    """The role has no rights for either."""
    found = kopf_settings()
    assert not found.posting.enabled
    assert found.scanning.disabled
    assert found.persistence.diffbase_storage.fetch(body=kopf.Body({})) is None
