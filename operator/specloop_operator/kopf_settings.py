"""kopf's own settings: it writes nothing anywhere, and waits for no answer without end."""

import kopf

from specloop_policy.model import GROUP

WATCH_SECONDS = 240
"""A watch is begun anew after so long: shorter than the five minutes after which common proxies cut it off."""

STALLED_SECONDS = 2.0 * WATCH_SECONDS
"""After so long without a watch that began, a new operator is better: one whole watch, and as long for the next."""

SILENT_SECONDS = 70.0
"""A watch in which nothing was heard for so long is cut off somewhere: the API server sends a bookmark each minute
(`defaultBookmarkFrequency` in its watch cache), and forgets nothing for 75 s."""

BACKOFFS = (1.0, 2.0, 4.0, 8.0, *(15.0,) * 15)
"""Between tries after an error, 240 s in all: as long as is left of STALLED_SECONDS when a watch has had its time.  An
API server that is upgraded meanwhile is waited for, and then looked at four times a minute.  kopf's own are 54 s."""

REQUEST_SECONDS = 30.0
"""For a list with all of its body: the API server itself gives one up after 60 s (`--request-timeout`)."""

CONNECT_SECONDS = 10.0
"""For a connection: Linux has asked for it four times by then, after 0, 1, 3 and 7 s."""


def kopf_settings() -> kopf.OperatorSettings:
    """Those that every operator has."""
    found = kopf.OperatorSettings()
    found.posting.enabled = False  # events are posted on change only, by the announcer
    found.persistence.finalizer = f"{GROUP}/none"
    found.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
    found.persistence.diffbase_storage = _NoDifference()
    found.networking.request_timeout = REQUEST_SECONDS
    found.networking.connect_timeout = CONNECT_SECONDS
    found.networking.error_backoffs = BACKOFFS
    found.watching.server_timeout = WATCH_SECONDS  # a float would be no number to the API server
    found.watching.client_timeout = WATCH_SECONDS + REQUEST_SECONDS
    found.watching.connect_timeout = CONNECT_SECONDS
    found.watching.inactivity_timeout = SILENT_SECONDS
    found.scanning.disabled = True  # the definition is there before kopf is: the first list of policies fails without
    return found


class _NoDifference(kopf.DiffBaseStorage):
    """No handler asks what changed in an object, so that none is copied at every event: a third of its price."""

    def build(self, *, body: kopf.Body, extra_fields: object = None) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        pass
