"""Which policies an alert concerns, and what is written into their status, by any operator and beside any other."""

import asyncio
import copy
from typing import Any

import pytest

from specloop_operator.alert_book import AT_ONCE, TRIES, AlertBook, NoRoom
from specloop_operator.alertmanager import read_message
from specloop_operator.cluster import ApiError, Body, Conflict, Forbidden
from specloop_operator.store import POLICIES, Store
from specloop_operator.watching import Watching, kept
from specloop_operator.workload import Target
from specloop_policy.alerts import TRUNCATED, TRUNCATED_SECONDS
from specloop_policy.report import as_time
from specloop_policy.status import MAX_ALERTS
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


async def test_an_alert_is_believed_what_namespace_it_is_of() -> None:
    """Whoever wrote its rule: docs/install.md asks that Prometheus sets the label, and of nobody else's word."""
    hold = {"match": {"severity": "warning"}, "action": {"type": "Suspend"}}
    hearing = Hearing(policy_body(hold), policy_body(hold, namespace="theirs"))
    await hearing.hear(alert_json(name="OfTheirs", exported_namespace="theirs", prometheus="theirs/main"))
    assert (names(hearing), names(hearing, namespace="theirs")) == (["OfTheirs"], [])


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


async def test_that_alerts_were_left_out_is_told_once_while_it_is_remembered() -> None:
    """Each message counts, once for each policy that looks; the event comes again after five minutes without any."""
    hearing = Hearing(policy_body(STEP_DOWN), policy_body(STEP_DOWN, name="second"))
    await hearing.hear(truncated=3)
    words = "a message leaves alerts out: the policy looks at once, and does not know which they are"
    assert hearing.posted.said == [("chat", "AlertsLeftOut", words), ("second", "AlertsLeftOut", words)]
    hearing.clock.time += 299.0
    await hearing.hear(truncated=3)
    assert len(hearing.posted.events) == 2
    assert hearing.counted() == {"truncated": 4}
    hearing.clock.time += TRUNCATED_SECONDS
    await hearing.hear(truncated=3)
    assert len(hearing.posted.events) == 4


def thirty_two(**fields: Any) -> list[dict[str, Any]]:
    """As many alerts as a status holds, A0 to A31."""
    return [alert_json(name=f"A{place}", fingerprint=f"a{place}", **fields) for place in range(MAX_ALERTS)]


LIMIT = "the status holds 32, and others come first"
STAYS_AT_OFF = {"match": {"alertname": "Fire"}, "action": {"type": "Disable"}}
LOWER = {"match": {"severity": "warning"}, "action": {"type": "StepDown"}}


async def test_an_alert_without_room_is_an_error_and_told_once() -> None:
    """All others of its message are written first; sent again, nothing is written or told, until there is room."""
    hearing = Hearing(policy_body(LOWER), policy_body(LOWER, namespace="other"))
    message = [*thirty_two(), alert_json(name="More", fingerprint="more"), alert_json(namespace="other")]
    full = "the status of policy llm/chat holds 32 alerts, as many as it can, and has no room for 1 that fire"
    for _ in range(3):
        with pytest.raises(NoRoom, match=f"^{full}$"):
            await hearing.hear(*message)
        hearing.watch()
    assert names(hearing) == [f"A{place}" for place in range(32)]
    assert names(hearing, namespace="other") == [LOW]
    assert len(hearing.cluster.writes) == 2
    assert [note for _, reason, note in hearing.posted.said if reason == "AlertCrowded"] == [
        f"no room for alert More: {LIMIT}"
    ]
    assert hearing.counted() == {"received": 33, "crowded": 1, "repeated": 2 * 34}
    await hearing.hear(alert_json(name="A7", fingerprint="a7", firing=False))
    await hearing.hear(alert_json(name="More", fingerprint="more"))
    assert "More" in names(hearing)
    assert hearing.counted() == {"received": 34, "crowded": 1, "repeated": 2 * 34, "resolved": 1}


async def test_alerts_that_nobody_asks_for_any_more_keep_no_room() -> None:
    """The policy was edited: what it held before makes room for what it asks for now."""
    hearing = Hearing(policy_body(LOWER))
    await hearing.hear(*thirty_two())
    now = {"match": {"alertname": "More"}, "action": {"type": "Disable"}}
    hearing.cluster.change(CHAT, spec=policy_body(now)["spec"])
    hearing.watch()
    await hearing.hear(alert_json(name="More", fingerprint="more"))
    assert names(hearing) == ["More"]


async def test_an_alert_that_was_without_room_and_fires_anew_is_told_again() -> None:
    """Whether only its new start was heard of, or its end too."""
    hearing = Hearing(policy_body(LOWER))
    await hearing.hear(*thirty_two())
    first, again = (alert_json(name="More", fingerprint="more", starts_at=start) for start in (FIVE_MINUTES_AGO, NOW))
    for alert in (first, again, again):
        with pytest.raises(NoRoom):
            await hearing.hear(alert)
    assert hearing.counted() == {"received": 32, "crowded": 2, "repeated": 1}
    await hearing.hear(alert_json(name="More", fingerprint="more", starts_at=NOW, firing=False))
    with pytest.raises(NoRoom):
        await hearing.hear(again)
    assert hearing.counted() == {"received": 32, "crowded": 3, "repeated": 2}


async def test_alerts_without_room_are_told_together() -> None:
    """Three by name: the events of one object are few a minute."""
    hearing = Hearing(policy_body(LOWER), policy_body(LOWER, name="second"))
    more = [alert_json(name=f"B{place}", fingerprint=f"b{place}") for place in range(10)]
    with pytest.raises(NoRoom, match=r"llm/chat .* no room for 10 that fire; policies without room: 2$"):
        await hearing.hear(*thirty_two(), *more)
    crowded = [(policy, note) for policy, reason, note in hearing.posted.said if reason == "AlertCrowded"]
    assert crowded == [(policy, f"no room for alert B0, B1, B2 and 7 more: {LIMIT}") for policy in ("chat", "second")]


async def test_an_alert_that_makes_room_is_told_of_once() -> None:
    """The last of them, for one that turns off; its next message finds no room, and that is an error."""
    hearing = Hearing(policy_body(STAYS_AT_OFF, LOWER))
    await hearing.hear(*thirty_two())
    hearing.clock.time += 60.0
    await hearing.hear(alert_json(name="Fire", fingerprint="fire"))
    told = [f"alert A31 had to make room: {LIMIT}", "alert Fire fires"]
    assert [note for _, _, note in hearing.posted.said[-2:]] == told
    assert names(hearing) == [*(f"A{place}" for place in range(31)), "Fire"]
    with pytest.raises(NoRoom):
        await hearing.hear(*thirty_two())
    assert hearing.counted() == {"received": 33, "evicted": 1, "repeated": 32}
    assert [note for _, _, note in hearing.posted.said[-2:]] == told


async def test_what_could_not_be_told_of_an_alert_without_room_is_told_by_its_next_message() -> None:
    """An object gets ten events a minute, and 32 alerts have just begun to fire; it is counted once all the same."""
    hearing = Hearing(policy_body(LOWER))
    await hearing.hear(*thirty_two())
    more = alert_json(name="More", fingerprint="more")
    for seconds in (0.0, 60.0, 60.0):
        hearing.clock.time += seconds
        with pytest.raises(NoRoom):
            await hearing.hear(more)
    assert [note for _, reason, note in hearing.posted.said if reason == "AlertCrowded"] == [
        f"no room for alert More: {LIMIT}"
    ]
    assert hearing.counted() == {"received": 32, "crowded": 1, "repeated": 2}


async def test_an_alert_that_makes_room_for_a_list_that_leaves_alerts_out_is_told_of() -> None:
    """It counts no more either."""
    hearing = Hearing(policy_body(LOWER))
    await hearing.hear(*thirty_two())
    hearing.clock.time += 60.0
    await hearing.hear(truncated=1)
    assert hearing.counted() == {"received": 32, "evicted": 1, "truncated": 1}
    assert ("chat", "AlertCrowded", f"alert A31 had to make room: {LIMIT}") in hearing.posted.said


async def test_an_end_with_an_earlier_start_than_the_beginning_had_is_an_end() -> None:
    """Alertmanager heard of it by a second Prometheus, or when it was started anew, and keeps the earlier start."""
    hearing = Hearing(policy_body(STEP_DOWN))
    for alert in (alert_json(starts_at=NOW - 280.0), alert_json(), alert_json(firing=False, ends_at=NOW)):
        await hearing.hear(alert)
    [known] = hearing.known()
    assert "resolvedAt" in known
    assert hearing.counted() == {"received": 1, "repeated": 1, "resolved": 1}


class Counted(dict[str, Any]):
    """A policy or a workload that counts how often its spec is read."""

    reads = 0

    def __getitem__(self, key: str) -> Any:
        """Its part of that name."""
        self.reads += key == "spec"
        return super().__getitem__(key)


class CountingStore(Store):
    """A store that counts how often pods are looked for."""

    looks = 0

    def pods_of(self, target: Target) -> list[Body]:
        """The pods of a workload."""
        self.looks += 1
        return super().pods_of(target)


async def test_what_alerts_are_compared_with_is_worked_out_once_for_a_message() -> None:
    """Ten thousand of them, with twenty policies, would hold up the renewal of the Lease."""
    counts = []
    for many in (1, 100):
        hearing, store = Hearing(policy_body(STEP_DOWN)), CountingStore()
        hearing.has_pods("llama-a", labels={"app": "llama"})
        policy = Counted(policy_body(STEP_DOWN))
        target = Counted(hearing.store.target("Deployment", ("llm", "llama")).body)  # type: ignore[union-attr]
        store.put(POLICIES, policy, NOW)
        store.put("deployments", target, NOW)
        read = (policy.reads, target.reads)
        book = AlertBook(store, hearing.cluster, hearing.telling, hearing.clock.now, "namespace", "pod")
        about: dict[str, Any] = {"model_name": "org/llama", "pod": "llama-6d5f8b9c47-x2x4z"}
        await book.record(read_message(message_json(*[alert_json(**about)] * many)))
        assert names(hearing) == [LOW]
        counts.append((policy.reads - read[0], target.reads - read[1], store.looks))
    assert counts[0] == counts[1]
    assert all(counts[0]), "each is looked at"


async def test_a_message_of_many_alerts_gives_way_to_others() -> None:
    """To whatever else is to be done, before each fifty of them."""
    hearing, turns = Hearing(policy_body(STEP_DOWN)), 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    beside = asyncio.create_task(others())
    alerts = [alert_json(name="Unknown", fingerprint=str(place)) for place in range(20 * AT_ONCE)]
    await hearing.hear(*alerts)
    beside.cancel()
    assert turns >= 20 - 1


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


async def test_a_list_that_leaves_alerts_out_has_the_policy_look_at_once() -> None:
    """Every one of them does, and none that only repeats what is known."""
    hearing, runner = Hearing(policy_body(STEP_DOWN)), Runner()
    watching = Watching(World(hearing), runner)  # type: ignore[arg-type]
    for at, woken in ((0.0, 1), (10.0, 2)):
        hearing.clock.time = NOW + at
        await hearing.book.record(read_message(message_json(truncated=1)))
        await watching.policy({"type": "MODIFIED", "object": copy.deepcopy(hearing.cluster.policies[CHAT])})
        assert runner.woken == ["chat"] * woken


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
