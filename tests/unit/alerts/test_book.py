"""Which policies an alert concerns, and what is written into their status, by any operator and beside any other."""

import asyncio
import copy
from typing import Any

import pytest

from specloop_operator.alert_book import TRIES
from specloop_operator.alertmanager import read_message
from specloop_operator.cluster import ApiError, Conflict, Forbidden
from specloop_operator.store import POLICIES
from specloop_operator.watching import Watching, kept
from specloop_policy.alerts import TRUNCATED
from specloop_policy.report import as_time
from tests.support.alerts import (
    CHAT,
    FIVE_MINUTES_AGO,
    LOW,
    NOW,
    STEP_DOWN,
    Hearing,
    alert_json,
    message_json,
    policy_body,
)

OFF = {"match": {"severity": "warning"}, "action": {"type": "Disable"}}


def moment(seconds: float) -> str:
    """A time as Kubernetes writes it."""
    return as_time(seconds).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def names(hearing: Hearing, policy: str = "chat", namespace: str = "llm") -> list[str]:
    """Alerts that a policy knows of, by name."""
    return [one["name"] for one in hearing.known((namespace, policy))]


async def test_an_alert_is_written_into_the_status_of_its_policy() -> None:
    """With its times as Kubernetes has them; half a day is a binding's default."""
    hearing = Hearing(policy_body(STEP_DOWN, observedLevel="k5"))
    await hearing.hear(alert_json())
    assert hearing.cluster.policies[CHAT]["status"] == {
        "observedLevel": "k5",
        "alerts": [
            {
                "fingerprint": "4f3c2b1a09080706",
                "name": LOW,
                "startsAt": moment(FIVE_MINUTES_AGO),
                "receivedAt": moment(NOW),
                "until": moment(NOW + 43_200.0),
                "action": "StepDown",
            }
        ],
    }
    assert hearing.posted.said == [("chat", "AlertReceived", f"alert {LOW} fires")]
    assert hearing.counted() == {"received": 1}


async def test_what_is_said_again_is_no_write_and_no_event() -> None:
    """Alertmanager says it again at every repeat_interval."""
    hearing = Hearing(policy_body(STEP_DOWN))
    await hearing.hear(alert_json())
    await hearing.hear(alert_json())
    assert hearing.cluster.writes == [CHAT]
    assert len(hearing.posted.events) == 1
    assert hearing.counted() == {"received": 1, "repeated": 1}


async def test_its_end_is_written_and_said() -> None:
    """The alert stays in the status, with the time of its end."""
    hearing = Hearing(policy_body(STEP_DOWN))
    await hearing.hear(alert_json())
    hearing.clock.time += 60.0
    await hearing.hear(alert_json(firing=False))
    [known] = hearing.known()
    assert known["resolvedAt"] == moment(NOW + 60.0)
    assert [reason for _, reason, _ in hearing.posted.said] == ["AlertReceived", "AlertResolved"]
    assert hearing.counted() == {"received": 1, "resolved": 1}


async def test_an_alert_concerns_every_policy_in_its_namespace_that_asks_for_it() -> None:
    """Never one of another namespace, whatever its labels match."""
    same, other = policy_body(STEP_DOWN, name="same"), policy_body(STEP_DOWN, namespace="other")
    hearing = Hearing(policy_body(STEP_DOWN), same, other, policy_body(name="silent"))
    await hearing.hear(alert_json())
    assert (names(hearing), names(hearing, "same")) == ([LOW], [LOW])
    assert (names(hearing, namespace="other"), names(hearing, "silent")) == ([], [])
    assert hearing.counted() == {"received": 2}


async def test_an_alert_without_a_namespace_is_nobodys() -> None:
    """Even where there is one policy in all; what Prometheus itself is about has none."""
    hearing = Hearing(policy_body(STEP_DOWN))
    await hearing.hear(alert_json(namespace=None), alert_json(namespace=""), alert_json(namespace=None, pod="llama-0"))
    assert hearing.cluster.writes == []
    assert hearing.counted() == {"nowhere": 3}


async def test_an_alert_that_no_policy_of_its_namespace_asks_for_is_counted() -> None:
    """There a binding's label has another value, or there is no policy at all."""
    hearing = Hearing(policy_body(STEP_DOWN))
    await hearing.hear(alert_json(name="Other"), alert_json(namespace="empty"))
    assert hearing.cluster.writes == []
    assert hearing.counted() == {"unmatched": 2}


async def test_all_labels_of_a_binding_must_be_there() -> None:
    """A label that the alert lacks is no match."""
    both = {"match": {"alertname": LOW, "team": "a"}, "action": {"type": "StepDown"}}
    hearing = Hearing(policy_body(both))
    await hearing.hear(alert_json(), alert_json(team="b"))
    assert names(hearing) == []
    await hearing.hear(alert_json(team="a"))
    assert names(hearing) == [LOW]


async def test_of_two_bindings_the_first_that_matches_decides() -> None:
    """And asks for how long the alert counts."""
    hearing = Hearing(policy_body({**OFF, "expireSeconds": 60}, STEP_DOWN))
    await hearing.hear(alert_json())
    [known] = hearing.known()
    assert (known["action"], known["until"]) == ("Disable", moment(NOW + 60.0))


async def test_other_installations_name_namespace_and_pod_by_other_labels() -> None:
    """What they call `namespace` and `pod` is then the monitor's own."""
    hearing = Hearing(policy_body(STEP_DOWN), namespace_label="exported_namespace", pod_label="exported_pod")
    hearing.has_pods("llama-a", labels={"app": "llama"})
    await hearing.hear(alert_json(namespace="monitoring", exported_namespace="llm", pod="x", exported_pod="other"))
    assert names(hearing) == []
    await hearing.hear(alert_json(namespace="monitoring", exported_namespace="llm", pod="x", exported_pod="llama-a"))
    assert names(hearing) == [LOW]


@pytest.mark.parametrize(
    ("labels", "concerned"),
    [
        ({}, True),
        ({"deployment": "llama"}, True),
        ({"deployment": "other"}, False),
        ({"statefulset": "llama"}, False),
        ({"deployment": "llama", "statefulset": "llama"}, False),
        ({"deployment": ""}, False),
    ],
)
async def test_a_workload_that_an_alert_names_must_be_the_target(labels: Any, concerned: bool) -> None:
    """By its kind and its name, as kube-state-metrics labels them."""
    hearing = Hearing(policy_body(STEP_DOWN))
    await hearing.hear(alert_json(**labels))
    assert names(hearing) == ([LOW] if concerned else [])


@pytest.mark.parametrize(
    ("pod", "concerned"),
    [
        ("llama-a", True),  # it is there, whatever it is called
        ("other-b", False),
        ("llama-6d5f8b9c47-x2x4z", True),  # gone by now, and called as its pods are
        ("llama-70b-6d5f8b9c47-x2x4z", False),  # of the Deployment llama-70b
        ("llama-70b-0", False),  # of the StatefulSet llama-70b
        ("llama-0", False),
        ("xllama-6d5f8b9c47-x2x4z", False),
        ("", True),
    ],
)
async def test_a_pod_that_an_alert_names_must_be_the_targets(pod: str, concerned: bool) -> None:
    """One that exists by its labels, one that is gone by its name."""
    hearing = Hearing(policy_body(STEP_DOWN))
    hearing.has_pods("llama-a", labels={"app": "llama"})
    hearing.has_pods("other-b", labels={"app": "other"})
    await hearing.hear(alert_json(pod=pod))
    assert names(hearing) == ([LOW] if concerned else [])


@pytest.mark.parametrize(
    ("command", "concerned"),
    [
        ("vllm serve org/llama --served-model-name chat", True),
        ("vllm serve chat", True),
        ("vllm serve org/llama", False),
        ("vllm serve org/llama --served-model-name llama chat", False),
        ("vllm serve $(MODEL)", True),  # who knows
        ("./start", True),
    ],
)
async def test_a_model_that_an_alert_names_must_be_the_one_that_the_target_serves(
    command: str, concerned: bool
) -> None:
    """Where the target's command says its name: a namespace may have several models."""
    hearing = Hearing(policy_body(STEP_DOWN))
    hearing.has_target(*command.split())
    await hearing.hear(alert_json(model_name="chat"))
    assert names(hearing) == ([LOW] if concerned else [])
    assert hearing.counted() == ({"received": 1} if concerned else {"unmatched": 1})


async def test_a_model_that_the_binding_names_is_taken_at_its_word() -> None:
    """Somebody's relabelling may call it otherwise than the command does."""
    binding = {"match": {"alertname": LOW, "model_name": "chat"}, "action": {"type": "StepDown"}}
    hearing = Hearing(policy_body(binding))
    hearing.has_target("vllm", "serve", "org/llama")
    await hearing.hear(alert_json(model_name="chat"))
    assert names(hearing) == [LOW]


@pytest.mark.parametrize(("pod", "concerned"), [("llama-12", True), ("llama-70b-0", False), ("llama-x2x4z", False)])
async def test_a_pod_of_a_stateful_set_is_known_by_its_number(pod: str, concerned: bool) -> None:
    """Where it is gone, or its target is not known yet."""
    hearing = Hearing(policy_body(STEP_DOWN, kind="StatefulSet"))
    await hearing.hear(alert_json(pod=pod))
    assert names(hearing) == ([LOW] if concerned else [])


async def test_alerts_of_one_message_are_written_together() -> None:
    """One write for each policy, though one alert ends and another begins."""
    hearing = Hearing(policy_body(OFF))
    await hearing.hear(alert_json(name="One", fingerprint="a"))
    await hearing.hear(alert_json(name="One", fingerprint="a", firing=False), alert_json(name="Two", fingerprint="b"))
    assert hearing.cluster.writes == [CHAT, CHAT]
    assert [(one["name"], "resolvedAt" in one) for one in hearing.known()] == [("One", True), ("Two", False)]


async def test_a_policy_that_somebody_wrote_meanwhile_is_read_anew() -> None:
    """What they wrote stays: the watch of this operator had not shown it yet."""
    hearing = Hearing(policy_body(STEP_DOWN))
    hearing.cluster.change(CHAT, status={"observedLevel": "k3"})
    await hearing.hear(alert_json())
    assert hearing.cluster.policies[CHAT]["status"]["observedLevel"] == "k3"
    assert names(hearing) == [LOW]


async def test_two_operators_that_hear_of_two_alerts_at_once_lose_neither() -> None:
    """Each knows what the other wrote only by the API server."""
    hearing = Hearing(policy_body(OFF))
    one, two = alert_json(name="One", fingerprint="a"), alert_json(name="Two", fingerprint="b")
    other = Hearing(policy_body(OFF))
    other.cluster.policies = hearing.cluster.policies
    await asyncio.gather(hearing.hear(one), other.hear(two))
    assert sorted(names(hearing)) == ["One", "Two"]


async def test_an_end_is_not_lost_where_the_watch_is_behind() -> None:
    """Alertmanager says it once: another operator wrote that the alert fires, and this one has not seen that yet."""
    hearing, other = Hearing(policy_body(STEP_DOWN)), Hearing(policy_body(STEP_DOWN))
    other.cluster.policies = hearing.cluster.policies
    await other.hear(alert_json())
    await hearing.hear(alert_json(firing=False))
    [known] = hearing.known()
    assert "resolvedAt" in known


async def test_conflicts_without_end_are_an_error_that_may_pass() -> None:
    """Nothing is said of what was not written, and the next try writes it."""
    hearing = Hearing(policy_body(STEP_DOWN))
    hearing.cluster.failing = [Conflict("written meanwhile")] * TRIES
    with pytest.raises(Conflict):
        await hearing.hear(alert_json())
    assert (hearing.posted.events, hearing.counted()) == ([], {})
    await hearing.hear(alert_json())
    assert names(hearing) == [LOW]
    assert hearing.counted() == {"received": 1}


@pytest.mark.parametrize("error", [ApiError("HTTP 500"), Forbidden("no role")])
async def test_a_policy_that_cannot_be_written_keeps_no_other_from_it(error: ApiError) -> None:
    """The message has failed all the same, and comes again: what was written by then is a repetition."""
    hearing = Hearing(policy_body(STEP_DOWN), policy_body(STEP_DOWN, name="second"))
    hearing.cluster.failing = [error]
    with pytest.raises(type(error)):
        await hearing.hear(alert_json())
    await hearing.hear(alert_json())
    assert (names(hearing), names(hearing, "second")) == ([LOW], [LOW])
    assert len(hearing.cluster.writes) == 2


async def test_a_policy_that_is_gone_is_no_error() -> None:
    """Whether the write or the look says so; the watch had not shown it yet."""
    hearing = Hearing(policy_body(STEP_DOWN))
    del hearing.cluster.policies[CHAT]
    await hearing.hear(alert_json())
    await hearing.hear(alert_json(firing=False))
    assert hearing.cluster.writes == []


async def test_what_a_policy_asks_for_by_now_counts() -> None:
    """It was edited meanwhile, so that the alert is nobody's any more."""
    hearing = Hearing(policy_body(STEP_DOWN))
    hearing.cluster.change(CHAT, spec=policy_body()["spec"])
    await hearing.hear(alert_json())
    assert (names(hearing), hearing.cluster.writes, hearing.posted.events) == ([], [], [])


async def test_a_policy_that_cannot_be_followed_hears_nothing() -> None:
    """Its bindings cannot be read; others are not kept from theirs."""
    broken = policy_body(STEP_DOWN, name="broken")
    broken["spec"]["alerts"][0]["expireSeconds"] = -1
    hearing = Hearing(broken, policy_body(STEP_DOWN))
    await hearing.hear(alert_json())
    assert (names(hearing), names(hearing, "broken")) == ([LOW], [])


@pytest.mark.parametrize("unreadable", ["none", [{"name": "x"}], [1]])
async def test_alerts_that_somebody_has_made_unreadable_are_begun_anew(unreadable: Any) -> None:
    """Whoever may write a status can; the next alert mends it."""
    hearing = Hearing(policy_body(STEP_DOWN, alerts=unreadable))
    await hearing.hear(alert_json())
    assert names(hearing) == [LOW]


async def test_alerts_whose_time_is_over_go_with_the_next_write() -> None:
    """An operator that does not lead tells nobody of them; the leader's tick does."""
    hearing = Hearing(policy_body({**OFF, "expireSeconds": 60}))
    await hearing.hear(alert_json(name="One", fingerprint="a"))
    hearing.clock.time += 60.0
    await hearing.hear(alert_json(name="Two", fingerprint="b"))
    assert names(hearing) == ["Two"]


async def test_a_message_that_leaves_alerts_out_has_every_policy_with_bindings_look() -> None:
    """None of another namespace, where all of the group are of one; none that asks for no alert."""
    there, silent = policy_body(STEP_DOWN, namespace="other"), policy_body(name="silent")
    hearing = Hearing(policy_body(STEP_DOWN), there, silent)
    await hearing.hear(alert_json(name="Unknown"), truncated=3, groupLabels={"namespace": "llm"})
    [known] = hearing.known()
    assert (known["fingerprint"], known["action"]) == (TRUNCATED, "EvaluateNow")
    assert names(hearing, namespace="other") == names(hearing, "silent") == []
    await hearing.hear(truncated=1)
    assert len(names(hearing)) == len(names(hearing, namespace="other")) == 1
    assert hearing.posted.events == []


class Runner:
    """The part of a runner that the watch wakes policies by."""

    started = True

    def __init__(self) -> None:
        self.woken: list[str] = []

    def governs(self, name: tuple[str, str]) -> bool:
        """All policies are known."""
        return True

    def start(self) -> None:
        """It acts from now on."""

    def govern(self, name: tuple[str, str], interval_seconds: int, source: str, *, at_once: bool) -> None:
        """Keep who is to look, and whether at once."""
        self.woken += [name[1]] if at_once else []


class World:
    """The part of a world that the watch of policies needs."""

    def __init__(self, hearing: Hearing) -> None:
        self.store, self.now = hearing.store, hearing.clock.now


async def test_the_operator_that_hears_of_an_alert_itself_looks_at_once_too() -> None:
    """Its watch brings what it wrote, and that must be news to it; what the store has already would wake nobody."""
    hearing, runner = Hearing(policy_body(STEP_DOWN)), Runner()
    watching = Watching(World(hearing), runner)  # type: ignore[arg-type]
    await hearing.book.record(read_message(message_json(alert_json())))
    event: dict[str, Any] = {"type": "MODIFIED", "object": copy.deepcopy(hearing.cluster.policies[CHAT])}
    await watching.policy(event)
    assert runner.woken == ["chat"]
    await watching.policy(event)
    assert runner.woken == ["chat"]
    assert hearing.store.policy(CHAT) == kept(POLICIES, event["object"])


async def test_an_alert_that_was_heard_of_before_this_operator_led_is_looked_at_at_once() -> None:
    """Another replica has answered 200 to it; who has none waits for its turn, as does one whose alert is over."""
    fires = {"fingerprint": "a", "name": LOW, "action": "StepDown", "until": moment(NOW + 3600.0)}
    fires |= {"startsAt": moment(FIVE_MINUTES_AGO), "receivedAt": moment(NOW)}
    over = {**fires, "resolvedAt": moment(NOW)}
    hearing, runner = Hearing(), Runner()
    for name, alerts in (("chat", [fires]), ("quiet", []), ("over", [over])):
        hearing.store.put(POLICIES, policy_body(STEP_DOWN, name=name, alerts=alerts), NOW)
    Watching(World(hearing), runner).lead()  # type: ignore[arg-type]
    assert runner.woken == ["chat"]


async def test_an_alert_that_comes_with_a_new_list_is_looked_at_at_once() -> None:
    """The watch broke, and the list that it begins with has what was missed."""
    hearing, runner = Hearing(policy_body(STEP_DOWN)), Runner()
    watching = Watching(World(hearing), runner)  # type: ignore[arg-type]
    await hearing.book.record(read_message(message_json(alert_json())))
    await watching.policy({"type": None, "object": copy.deepcopy(hearing.cluster.policies[CHAT])})
    assert runner.woken == ["chat"]
