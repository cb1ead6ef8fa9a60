"""Metrics from a real Prometheus: a roll-out by them, and what happens when it does not give any."""

from collections.abc import Callable

import pytest

from tests.component.sources.servers import serving as answering
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.environment import Object
from tests.support.cluster.llama import LABELS, LADDER, LLAMA, RECORDS, STORIES, generation, serving
from tests.support.cluster.operator import Operator
from tests.support.cluster.policies import LOW, asked_for, follow, policy, until_ticks
from tests.support.cluster.scraping import Monitor, monitored

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


def settings(monitor: Monitor) -> Object:
    """Of an operator that asks nothing else."""
    return {"sources": {"default": monitor.source}}


def test_a_roll_out_is_judged_by_what_prometheus_has_scraped(cluster: Cluster) -> None:
    """Canary and the pods left alone are told apart by their names there."""
    serving(cluster)
    with monitored(cluster, LABELS) as monitor, Operator(cluster, settings(monitor)):
        with cluster.traffic(LABELS, RECORDS):
            chat = follow(cluster, asked_for("k3", LLAMA, **LADDER))
            chat.until_level("k3")
        assert chat.condition("Progressing")["reason"] == "Promoted"
        assert "of requests failed" in chat.condition("Progressing")["message"]
        assert "vllm:" in chat.status["decisions"][0]["query"]


def test_a_canary_that_prometheus_says_no_more_of_is_taken_back(cluster: Cluster) -> None:
    """What was heard before is no verdict, and silence is none either."""
    serving(cluster)
    with (
        monitored(cluster, LABELS) as monitor,
        Operator(cluster, settings(monitor)),
        cluster.traffic(LABELS, RECORDS),
    ):
        patient = {"soakSeconds": 20, "progressDeadlineSeconds": 30}
        chat = follow(cluster, asked_for("k3", LLAMA, rollout=patient, **LADDER))
        chat.until_phase("Soaking")
        monitor.stop()
        said = chat.until_condition("Progressing", "RolledBack")["message"]
        assert said.startswith("no verdict within 30 s of soaking")
        chat.until_level("k5")
        assert chat.condition("MetricsAvailable")["status"] == "False"
        monitor.start()
        chat.until_condition("MetricsAvailable", "Heard")


def dies(monitor: Monitor) -> Callable[[], None]:
    """Its process is gone."""
    monitor.stop()
    return monitor.start


def hangs(monitor: Monitor) -> Callable[[], None]:
    """It takes questions and answers none."""
    monitor.hold()
    return monitor.release


def forgets(monitor: Monitor) -> Callable[[], None]:
    """It answers that there is nothing."""
    monitor.page = ""

    def remember() -> None:
        monitor.page = None

    return remember


@pytest.mark.parametrize("fails", [dies, hangs, forgets])
def test_nothing_changes_while_prometheus_gives_nothing(
    cluster: Cluster, fails: Callable[[Monitor], Callable[[], None]]
) -> None:
    """A rule would lower the level on what the pods serve; it does once that is heard of."""
    serving(cluster)
    with monitored(cluster, LABELS) as monitor, Operator(cluster, settings(monitor)) as operator:
        chat = follow(cluster, policy("chat", LLAMA, mode="Enforce", rules=[LOW], **LADDER))
        chat.until_condition("MetricsAvailable", "Heard")
        mend = fails(monitor)
        with cluster.traffic(LABELS, STORIES):
            chat.until(lambda: chat.condition("MetricsAvailable")["status"] == "False", "nothing heard")
            held = generation(cluster)
            until_ticks(cluster, operator, 6)
            assert generation(cluster) == held
            assert chat.decisions == []
            assert chat.condition("MetricsAvailable")["message"]
            assert chat.condition("Ready")["status"] == "False"
            mend()
            chat.until_condition("MetricsAvailable", "Heard")
            chat.until_phase("Soaking")
            assert chat.decisions == [("low", "k5", "k3")]


def test_figures_that_are_no_numbers_change_nothing(cluster: Cluster) -> None:
    """What counts no requests but NaN is no evidence, and the reason says so."""
    serving(cluster)
    drafting = (f"spec_decode_num_{one}" for one in ("drafts", "draft_tokens", "accepted_tokens"))
    counters = ("generation_tokens", *drafting)
    page = "".join(f'vllm:{one}_total{{model_name="x",engine="0"}} NaN\n' for one in counters)
    with (
        answering(page) as engine,
        monitored(cluster, LABELS) as monitor,
        Operator(cluster, settings(monitor)) as operator,
    ):
        monitor.page = engine.url.removeprefix("http://")
        chat = follow(cluster, policy("chat", LLAMA, mode="Enforce", rules=[LOW], **LADDER))
        chat.until(lambda: "nan" in chat.status.get("recommendation", {}).get("reason", "").lower(), "NaN in words")
        held = generation(cluster)
        until_ticks(cluster, operator, 6)
        assert generation(cluster) == held
        assert chat.decisions == []
