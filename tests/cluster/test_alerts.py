"""From an installation to an action by an alert, and back: helm, engines, rules, Prometheus, Alertmanager, webhook."""

import os
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cluster.alerting import alert_by, annotations_with_figures, panels_with_figures, shown
from tests.support.cluster.alertmanager import Alertmanager, alerting
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.command_line import run_specloop
from tests.support.cluster.environment import Object
from tests.support.cluster.live import serving_injected, tokens_in_force
from tests.support.cluster.llama import LABELS, LLAMA, RECORDS, STORIES, lives
from tests.support.cluster.policies import SOON, Followed, follow
from tests.support.cluster.release import CHART, ROOT_ONLY, Release
from tests.support.cluster.scraping import monitored
from tests.unit.monitoring.shipped import panels

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

ALERT = "SpecDecodeAcceptanceLow"
HOT_STORIES = replace(STORIES, name="hot stories", temperature=0.3)
"""Of drafts, few enough are accepted at k3 too that the alert does not end by itself."""
LIBRARY = Path(__file__).parents[2] / "policies" / "library"
TOKEN = "a token for alerts"

FILLED_BY = {
    "pods that draft": {
        "Acceptance",
        "Acceptance by position",
        "Acceptance by pod",
        "Acceptance length",
        "Gain against disabled, at most",
        "K by pod",
    },
    "requests that are answered": {
        "Answers by how they end",
        "KV cache in use",
        "Requests running",
        "Requests waiting",
        "Time per output token",
        "Time to first token",
        "Tokens generated",
    },
    "the plugin, which `specloop inject` put in": {"Requests above temperature $temperature", "Temperatures"},
    "a policy that lowers K for the alert and raises it again": {
        "Conditions of policies",
        "Decisions",
        "Level that runs",
        "Roll-outs that ended",
        "Roll-outs under way",
    },
    "two operators, one of which leads, looks at pods, and hears of the alert": {
        "Alerts and API",
        "Duration of a tick",
        "Leaders",
        "Metric sources",
        "Operators up",
        "Ticks",
    },
}
"""What in the story makes a panel show something: none is empty."""


def firing(alertmanager: Alertmanager, namespace: str) -> dict[str, Any]:
    """The alert as Alertmanager has it; empty while it does not fire."""
    labels = {"alertname": ALERT, "namespace": namespace}
    return next((one for one in alertmanager.alerts() if labels.items() <= one["labels"].items()), {})


def from_the_library() -> Object:
    """The policy as its file has it, for the test's Deployment and its draft model, and with durations of seconds."""
    found: Object = yaml.safe_load((LIBRARY / "alert-driven.yaml").read_text(encoding="utf-8"))
    found["spec"] |= SOON
    found["spec"]["targetRef"]["name"] = LLAMA
    found["spec"]["drafters"][0]["model"] = "small"
    return found


def said(cluster: Cluster, reason: str) -> list[str]:
    """What events of a reason on the policy say."""
    return [one["message"] for one in cluster.events("alert-driven") if one["reason"] == reason]


def until_tokens(cluster: Cluster, chat: Followed, tokens: int) -> None:
    """Wait until this K is in force in all pods, by their own pages."""
    chat.until(lambda: set(tokens_in_force(cluster).values()) == {tokens}, f"K = {tokens} in all pods")


def test_it_is_known_of_every_panel_what_fills_it() -> None:
    assert {one["title"] for one in panels()} == set().union(*FILLED_BY.values())


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0 and not os.environ.get("SPECLOOP_REQUIRE_ENGINES"), reason=ROOT_ONLY)
def test_an_installation_and_a_policy_of_the_library_lower_k_for_an_alert_and_raise_it_again(
    empty: Cluster,
) -> None:
    """Of engines that were made ready by `specloop inject`; the alert comes in by the operator that does not lead.

    Pods, alert, event, status and dashboard tell one story.
    """
    cluster, release = empty, Release(empty)
    release.kubectl("create", "secret", "generic", "alertmanager-token", f"--from-literal=token={TOKEN}")
    webhook = ("webhook.enabled=true", "webhook.tokenSecret.name=alertmanager-token")
    release.helm("install", str(CHART), *release.values(*webhook, "live.createTokenSecrets=true"), "--wait")
    serving_injected(cluster, replicas=2)
    pods, (leader, standby) = lives(cluster), release.until_one_leads()

    def counted(outcome: str) -> tuple[float, float]:
        """How many alerts were this to the leader and to the other."""
        first, second = (
            release.figure(one, f'specloop_alerts_total{{outcome="{outcome}"}}') for one in (leader, standby)
        )
        return first, second

    began = time.time()
    with (
        alerting(
            cluster.folder / "alertmanager",
            f"http://{standby}:8443/alerts",
            {"authorization": {"type": "Bearer", "credentials": TOKEN}},
            ["alertname", "namespace"],
        ) as alertmanager,
        monitored(cluster, LABELS) as monitor,
        cluster.traffic(LABELS, RECORDS) as traffic,
    ):
        chat = follow(cluster, from_the_library())
        chat.until_condition("LiveControl", "InLine")
        alert_by(monitor, alertmanager, [f"{one}:{release.port}" for one in (leader, standby)])
        chat.until(lambda: set(shown(monitor, "K by pod", "pod").values()) == {5.0}, "K on the dashboard")

        traffic.phase = HOT_STORIES
        fired = chat.until(lambda: firing(alertmanager, cluster.namespace), "an alert in Alertmanager")
        [known] = chat.until(lambda: chat.status.get("alerts"), "an alert in the status")
        assert (known["name"], known["action"], known["fingerprint"]) == (ALERT, "StepDown", fired["fingerprint"])
        cluster.until(lambda: said(cluster, "AlertReceived"), "an event")
        assert said(cluster, "AlertReceived") == [f"alert {ALERT} fires"]
        assert counted("received") == (0.0, 1.0)

        chat.until_level("k3")
        until_tokens(cluster, chat, 3)
        assert chat.decisions == [(ALERT, "k5", "k3")]
        assert f"alert {ALERT}" in chat.status["decisions"][0]["reason"]
        chat.until(lambda: shown(monitor, "Level that runs", "level") == {"k3": 1.0}, "the level on the dashboard")
        chat.until(lambda: set(shown(monitor, "K by pod", "pod").values()) == {3.0}, "K on the dashboard")
        assert shown(monitor, "K by pod", "pod").keys() == pods.keys()
        words = run_specloop(cluster, "status", "alert-driven")
        assert re.search(rf"^alert +{ALERT}, begun .*: asks for StepDown", words, re.MULTILINE), words
        assert re.search(rf"^forced +by alert {ALERT}, afterwards back to k5", words, re.MULTILINE), words

        traffic.phase = RECORDS
        cluster.until(lambda: said(cluster, "AlertResolved"), "the end of the alert", 120.0)
        assert firing(alertmanager, cluster.namespace) == {}
        chat.until_level("k5")
        until_tokens(cluster, chat, 5)
        assert chat.decisions[1:] == [("SwitchTo", "k3", "k5")]
        assert chat.status["decisions"][1]["reason"] == f"alert {ALERT} is over: back to k5"
        [known] = chat.status["alerts"]
        assert "resolvedAt" in known
        assert counted("resolved") == (0.0, 1.0)
        assert lives(cluster) == pods
        assert release.until_one_leads() == (leader, standby)

        seconds = time.time() - began
        assert panels_with_figures(monitor, seconds) == set().union(*FILLED_BY.values())
        assert annotations_with_figures(monitor, seconds) == {"Decisions", "Levels"}
        assert set(shown(monitor, "Operators up", "version").values()) == {2.0}
    assert release.complaints() == []
