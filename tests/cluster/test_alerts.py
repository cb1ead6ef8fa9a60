"""From an alert to an action and back: engines, Prometheus with the shipped rules, Alertmanager, and two operators."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster.alerting import alert_by, shown
from tests.support.cluster.alertmanager import Alertmanager, alerting
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.command_line import run_specloop
from tests.support.cluster.daemons import free_port
from tests.support.cluster.environment import Object
from tests.support.cluster.live import TOKEN_REF, serving_live, tokens_in_force
from tests.support.cluster.llama import LABELS, LADDER, LLAMA, RECORDS, STORIES, lives
from tests.support.cluster.operator import Operator
from tests.support.cluster.policies import Followed, follow, policy
from tests.support.cluster.scraping import monitored

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

ALERT = "SpecDecodeAcceptanceLow"
WARM_STORIES = replace(STORIES, name="warm stories", temperature=0.3)
"""Of drafts, few enough are accepted at k3 too that the alert does not end by itself."""
NEVER = {"name": "never", "when": {"acceptance": {"belowPercent": 1}}, "action": {"type": "StepDown"}}
"""A rule that asks for nothing here: the alert does."""


def webhook(folder: Path) -> Object:
    """Settings of an operator that takes alerts on a port of its own from who has the token."""
    return {"webhook": {"address": "127.0.0.1", "port": free_port(), "tokenFile": str(folder / "webhook-token")}}


def firing(alertmanager: Alertmanager, namespace: str) -> dict[str, Any]:
    """The alert as Alertmanager has it; empty while it does not fire."""
    labels = {"alertname": ALERT, "namespace": namespace}
    return next((one for one in alertmanager.alerts() if labels.items() <= one["labels"].items()), {})


def said(cluster: Cluster, reason: str) -> list[str]:
    """What events of a reason on the policy say."""
    return [one["message"] for one in cluster.events("chat") if one["reason"] == reason]


def counted(operator: Operator, outcome: str) -> int:
    """How many alerts were this to one operator."""
    found = re.findall(
        rf'^specloop_alerts_total{{outcome="{outcome}"}} (\S+)$', operator.get("/metrics").text, re.MULTILINE
    )
    return round(float(found[0]))


def until_tokens(cluster: Cluster, chat: Followed, tokens: int) -> None:
    """Wait until this K is in force in all pods, by their own pages."""
    chat.until(lambda: set(tokens_in_force(cluster).values()) == {tokens}, f"K = {tokens} in all pods")


def test_an_alert_lowers_k_in_running_pods_and_its_end_raises_it_again(cluster: Cluster, tmp_path: Path) -> None:
    """It comes in by the operator that does not lead.  Pods, alert, event, status and dashboard tell one story."""
    (tmp_path / "webhook-token").write_text("a token\n")
    serving_live(cluster, tmp_path, replicas=2)
    pods, standby = lives(cluster), webhook(tmp_path)
    with (
        Operator(cluster, webhook(tmp_path), replica="leader") as leader,
        Operator(cluster, standby, replica="standby") as other,
        alerting(
            cluster.folder / "alertmanager",
            f"http://127.0.0.1:{standby['webhook']['port']}/alerts",
            {"authorization": {"type": "Bearer", "credentials_file": str(tmp_path / "webhook-token")}},
            ["alertname", "namespace"],
        ) as alertmanager,
        monitored(cluster, LABELS) as monitor,
        cluster.traffic(LABELS, WARM_STORIES) as traffic,
    ):
        cluster.until(lambda: leader.leads, "a leader")
        assert not other.leads
        binding = {"match": {"alertname": ALERT}, "action": {"type": "StepDown"}}
        manifest = policy("chat", LLAMA, mode="Enforce", rules=[NEVER], alerts=[binding], live=TOKEN_REF, **LADDER)
        chat = follow(cluster, manifest)
        chat.until_condition("LiveControl", "InLine")
        alert_by(monitor, alertmanager, (leader.address, other.address))

        fired = chat.until(lambda: firing(alertmanager, cluster.namespace), "an alert in Alertmanager")
        [known] = chat.until(lambda: chat.status.get("alerts"), "an alert in the status")
        assert (known["name"], known["action"], known["fingerprint"]) == (ALERT, "StepDown", fired["fingerprint"])
        cluster.until(lambda: said(cluster, "AlertReceived"), "an event")
        assert said(cluster, "AlertReceived") == [f"alert {ALERT} fires"]
        assert (counted(other, "received"), counted(leader, "received")) == (1, 0)

        chat.until_level("k3")
        until_tokens(cluster, chat, 3)
        assert chat.decisions == [(ALERT, "k5", "k3")]
        assert f"alert {ALERT}" in chat.status["decisions"][0]["reason"]
        chat.until(lambda: shown(monitor, "Level that runs", "level") == {"k3": 1.0}, "the level on the dashboard")
        chat.until(lambda: set(shown(monitor, "K by pod", "pod").values()) == {3.0}, "K on the dashboard")
        assert shown(monitor, "K by pod", "pod").keys() == pods.keys()
        words = run_specloop(cluster, "status", "chat")
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
        assert (counted(other, "resolved"), counted(leader, "resolved")) == (1, 0)
        assert lives(cluster) == pods
        assert not other.leads
