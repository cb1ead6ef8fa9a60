"""The pages name the limits that the operator has."""

from pathlib import Path

import pytest

from specloop_operator.connections import ANSWER_SECONDS, CONNECTIONS, IDLE_SECONDS
from specloop_operator.health import SCRAPES
from specloop_operator.webhook import BODY_SECONDS, BURST, MAX_BYTES, RATE, RECORD_SECONDS

DOCS = Path(__file__).resolve().parents[3] / "docs"
ANSWERS = (
    f"longer than {MAX_BYTES / 2**20:g} MiB",
    f"not written down within {RECORD_SECONDS:g} s",
    f"more than {RATE:g} messages a second after the first {BURST:g}",
    f"the body did not come within {BODY_SECONDS:g} s",
)
DEFENCES = (
    f"{BODY_SECONDS:g} s and {MAX_BYTES / 2**20:g} MiB for a body, {RECORD_SECONDS:g} s to write it down",
    f"{RATE:g} messages a second after the first {BURST:g}",
    f"{CONNECTIONS} at a time at a port",
    f"{IDLE_SECONDS:g} s for TLS, for a head and between requests, {ANSWER_SECONDS:g} s for an answer",
    f"{SCRAPES} pages of metrics at a time",
)


@pytest.mark.parametrize("words", ANSWERS)
def test_the_table_of_the_webhooks_answers_has_its_limits(words: str) -> None:
    assert words in (DOCS / "operator.md").read_text(encoding="utf-8").partition("| answer | when |")[2]


@pytest.mark.parametrize("words", DEFENCES)
def test_the_threat_model_has_the_limits_of_both_ports(words: str) -> None:
    assert words in (DOCS / "threat-model.md").read_text(encoding="utf-8")
