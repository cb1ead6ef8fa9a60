"""What is printed after an installation is right for what was chosen."""

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from tests.cluster.chart.conftest import Chart

WEBHOOK = {"enabled": True, "tokenSecret": {"name": "am-token", "key": "tokens"}}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "SpecLoop governs Deployments and StatefulSets in all namespaces."),
        ({"namespaces": ["llm", "chat"], "targetKinds": ["StatefulSet"]}, "governs StatefulSets in llm, chat."),
        ({}, "Metrics are scraped from the pods themselves."),
        (
            {"webhook": WEBHOOK},
            "http://specloop.specloop-system.svc:8443/alerts\nwith the bearer token in the Secret am-token",
        ),
        ({"webhook": WEBHOOK}, "the token goes over the network as it is"),
        (
            {"webhook": {"enabled": True, "tls": {"secretName": "tls", "clientCa": True}}},
            "https://specloop.specloop-system.svc:8443/alerts\nwith a client certificate by the ca.crt in the Secret",
        ),
        ({"metrics": {"tlsSecret": "own"}}, "served over HTTPS with the certificate in the Secret own"),
        ({"namespaces": ["llm"], "live": {"createTokenSecrets": True}}, "the Secret specloop-live of their namespace"),
        ({}, "stays after `helm uninstall`"),
        ({"monitoring": {"rules": {"enabled": True}}}, "The alert SpecLoopOperatorDown fires until"),
    ],
)
def test_the_notes_say_what_was_chosen(chart: Chart, values: Mapping[str, Any], said: str) -> None:
    assert said in chart.notes(**values)


@pytest.mark.parametrize(
    ("values", "unsaid"),
    [
        ({"settings": {"sources": {"default": {"type": "pods"}}}}, "Metrics are scraped"),
        ({}, "Alertmanager"),
        ({}, "HTTPS"),
        ({"webhook": {**WEBHOOK, "tls": {"secretName": "tls"}}}, "as it is"),
        ({"crds": {"install": False}}, "stays after"),
        ({}, "SpecLoopOperatorDown"),
        ({"monitoring": {part: {"enabled": True} for part in ("rules", "operatorMonitor")}}, "SpecLoopOperatorDown"),
    ],
)
def test_the_notes_say_nothing_of_what_was_not_chosen(chart: Chart, values: Mapping[str, Any], unsaid: str) -> None:
    assert unsaid not in chart.notes(**values)


@pytest.mark.parametrize("kinds", [["Deployment", "StatefulSet"], ["StatefulSet"]])
def test_the_policy_that_they_show_is_one_that_the_operator_governs(chart: Chart, kinds: list[str]) -> None:
    notes = chart.notes(namespaces=["chat"], targetKinds=kinds)
    text = notes[notes.index("  apiVersion") : notes.index("\n\nWhat it sees")]
    policy = yaml.safe_load(text)
    assert (policy["kind"], policy["metadata"]["namespace"]) == ("SpecPolicy", "chat")
    assert policy["spec"]["targetRef"]["kind"] == kinds[0]
