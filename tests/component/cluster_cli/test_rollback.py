"""`specloop rollback` asks the operator, says what for, and waits for the answer if it is told to."""

import json
import time
from typing import Any

import pytest

from specloop_policy.annotations import ROLLBACK, read_rollback
from tests.component.cluster_cli.api_server import ApiServer, Refusal
from tests.component.cluster_cli.conftest import Terminal
from tests.support.live_policies import decision, moment, policy, rollout, status


@pytest.fixture(autouse=True)
def chat(server: ApiServer) -> None:
    """A policy that went from k5 to k3."""
    down = decision("StepDown", "k5", "k3")
    server.add(policy(status=status(decisions=[down], memory={"level": "k3", "changedAt": moment(180)})))


def obedient(looks: int) -> Any:
    """An operator that puts the old level back, so many looks after it was asked."""
    left = looks

    def operator(found: dict[str, Any]) -> None:
        nonlocal left
        if ROLLBACK in found["metadata"]["annotations"]:
            left -= 1
            found["status"]["memory"]["rolledBackAt"] = json.loads(found["metadata"]["annotations"][ROLLBACK])["at"]
            found["status"]["desiredLevel"] = "k5"
            found["status"]["observedLevel"] = "k5" if left <= 0 else "k3"

    return operator


def test_the_wish_has_its_time_and_who_asks(server: ApiServer, terminal: Terminal) -> None:
    """The time tells it from any other."""
    before = time.time()
    code, out, err = terminal.run("rollback", "chat-70b")
    found = read_rollback(server.annotations())
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "chat-70b: asked the operator to go back to k5 from k3",
        "k3 will not be tried again until it or its image changes",
    ]
    assert found is not None
    assert before - 1e-6 <= found.at <= time.time()
    assert found.by == "alice@example.com"


def test_a_roll_out_under_way_is_ended(server: ApiServer, terminal: Terminal) -> None:
    """The output names both ends."""
    server.add(policy(status=status(desiredLevel="ngram", memory={"rollout": rollout()})))
    assert (
        "asked the operator to end the roll-out to ngram and go back to k3" in terminal.run("rollback", "chat-70b")[1]
    )


def test_it_waits_until_the_status_has_followed(server: ApiServer, terminal: Terminal) -> None:
    """What it sees on the way goes to stderr."""
    server.operator = obedient(looks=3)
    code, out, err = terminal.run("rollback", "chat-70b", "--wait", "30")
    assert code == 0
    assert out.endswith("chat-70b: done\n")
    assert "chat-70b: at k3, to be at k5\n" in err


def test_an_operator_that_does_not_answer_is_exit_code_1(terminal: Terminal) -> None:
    """It may still do it later; the wish stays."""
    code, out, _ = terminal.run("rollback", "chat-70b", "--wait", "1")
    assert code == 1
    assert out.endswith("chat-70b: not there after 1 s; see specloop status chat-70b\n")


def test_the_document_says_whether_the_status_followed(server: ApiServer, terminal: Terminal) -> None:
    """One document, after the wait."""
    server.operator = obedient(looks=1)
    found = terminal.document("rollback", "chat-70b", "--wait", "30")
    assert found.pop("rollback").keys() == {"at", "by"}
    assert found == {
        "policy": "chat-70b",
        "namespace": "llm",
        "from": "k3",
        "to": "k5",
        "endsRollout": False,
        "followed": True,
        "notes": [],
    }


def test_without_waiting_nothing_is_said_of_what_follows(terminal: Terminal) -> None:
    """Not known is null."""
    assert terminal.document("rollback", "chat-70b")["followed"] is None


def test_where_there_is_nothing_to_go_back_to_nothing_is_written(server: ApiServer, terminal: Terminal) -> None:
    """One line."""
    server.add(policy("new"))
    assert terminal.refusal("rollback", "new") == "new: nothing to roll back: its level has not changed"
    assert server.patches == []


def test_what_keeps_the_operator_from_it_is_said(server: ApiServer, terminal: Terminal) -> None:
    """Before anybody waits in vain."""
    server.policies["llm", "chat-70b"]["spec"]["suspend"] = True
    assert "note: it is suspended by spec.suspend" in terminal.run("rollback", "chat-70b")[1]


def test_a_change_in_between_is_read_and_written_over_once(server: ApiServer, terminal: Terminal) -> None:
    """A second one is one line."""
    server.refusals.append(Refusal("PATCH", 409, "the object has been modified"))
    assert terminal.run("rollback", "chat-70b")[0] == 0
    server.refusals += [Refusal("PATCH", 409, "the object has been modified")] * 2
    assert "somebody else changed it" in terminal.refusal("rollback", "chat-70b")
