"""`specloop override` writes one annotation, as the operator reads it, and only what the ladder has."""

import json
import time

import pytest

from specloop_policy.annotations import OVERRIDE, read_override
from specloop_policy.decision import Override
from tests.component.cluster_cli.api_server import ApiServer, Refusal
from tests.component.cluster_cli.conftest import Terminal
from tests.support.live_policies import condition, policy, status


@pytest.fixture(autouse=True)
def chat(server: ApiServer) -> None:
    """A policy that enforces, at k3."""
    server.add(policy(status=status(), annotations={"kept": "as it is"}))


def test_a_level_is_set_for_a_time(server: ApiServer, terminal: Terminal) -> None:
    """Two hours are 7,200 s; ends are whole seconds."""
    before = time.time()
    code, out, err = terminal.run("override", "chat-70b", "k5", "--for", "2h")
    found = read_override(server.annotations())
    assert (code, err) == (0, "")
    assert out.startswith("chat-70b: level k5 for 2 h, until 20")
    assert found is not None
    assert found.until is not None
    assert before + 7200 - 1 <= found.until <= time.time() + 7200 + 1
    assert (found.level, found.by) == ("k5", "alice@example.com")
    assert server.annotations()["kept"] == "as it is"


def test_without_a_time_it_stays_until_it_is_taken_back(server: ApiServer, terminal: Terminal) -> None:
    """And the output says how."""
    _, out, _ = terminal.run("override", "deploy/llama-70b", "disabled")
    assert "until it is taken back by specloop override chat-70b --clear" in out
    assert read_override(server.annotations()) == Override("disabled", None, "alice@example.com")


def test_an_override_is_taken_back(server: ApiServer, terminal: Terminal) -> None:
    """The annotation is gone, the others are not."""
    terminal.run("override", "chat-70b", "k5")
    assert terminal.run("override", "chat-70b", "--clear")[:2] == (0, "chat-70b: the override to k5 is taken back\n")
    assert server.annotations() == {"kept": "as it is"}


def test_taking_back_what_is_not_there_writes_nothing(server: ApiServer, terminal: Terminal) -> None:
    """Twice is as good as once."""
    assert terminal.run("override", "chat-70b", "--clear")[0] == 0
    assert server.patches == []


def test_an_override_that_cannot_be_read_is_taken_back_or_replaced(server: ApiServer, terminal: Terminal) -> None:
    """This is its mend."""
    server.annotations()[OVERRIDE] = "k5!"
    assert terminal.document("override", "chat-70b", "k5")["before"] is None
    server.annotations()[OVERRIDE] = "k5!"
    assert terminal.run("override", "chat-70b", "--clear")[0] == 0
    assert OVERRIDE not in server.annotations()


def test_the_document_has_before_and_after(server: ApiServer, terminal: Terminal) -> None:
    """And what hinders it."""
    terminal.run("override", "chat-70b", "k5")
    found = terminal.document("override", "chat-70b", "ngram")
    by = "alice@example.com"
    assert found == {
        "policy": "chat-70b",
        "namespace": "llm",
        "override": {"level": "ngram", "until": None, "by": by, "expired": False},
        "before": {"level": "k5", "until": None, "by": by, "expired": False},
        "observedLevel": "k3",
        "notes": [],
    }


def test_what_keeps_it_from_working_is_said(server: ApiServer, terminal: Terminal) -> None:
    """A policy that recommends, a level that failed, and one that only rules are kept from."""
    slower = {"level": "k3", "key": "def", "reason": "slower", "rulesOnly": True}
    failed = {"quarantine": [{"level": "k5", "key": "abc", "reason": "out of memory"}, slower]}
    server.add(policy("quiet", status=status(memory=failed), mode="Recommend"))
    _, out, _ = terminal.run("override", "quiet", "k5")
    assert "note: its mode is Recommend" in out
    assert "note: k5 failed before (out of memory): it is not tried again until its configuration" in out
    _, out, _ = terminal.run("override", "quiet", "k3")
    assert "note: k3 failed before (slower)\n" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["chat-70b", "k9"], "k9 is no level of chat-70b: give one of k5, k3, ngram, disabled"),
        (["new", "k5"], "new has no ladder yet"),
        (["nope", "k5"], "no policy is called nope in namespace llm; there is chat-70b"),
        (["chat-70b"], "name the level"),
        (["chat-70b", "k5", "--clear"], "--clear takes the override back: give no level"),
        (["chat-70b", "--clear", "--for", "2h"], "--clear takes the override back: give no level"),
        (["chat-70b", "k5", "--for", "soon"], "--for soon: give a span such as"),
        (["chat-70b", "k5", "--for", "0s"], "--for 0s: give a span above 0"),
        (["chat-70b", "k5", "--for", "999999999w"], "of at most 366d"),
    ],
)
def test_a_wrong_call_writes_nothing(server: ApiServer, terminal: Terminal, arguments: list[str], words: str) -> None:
    """One line says what is wrong."""
    server.add(policy("new"))
    assert words in terminal.refusal("override", *arguments)
    assert server.patches == []


def test_the_version_that_was_read_is_written_with_it(server: ApiServer, terminal: Terminal) -> None:
    """So that nobody's change in between is lost."""
    terminal.run("override", "chat-70b", "k5")
    assert server.patches[0]["metadata"]["resourceVersion"] == "1"


def test_a_change_in_between_is_read_and_written_over_once(server: ApiServer, terminal: Terminal) -> None:
    """The operator writes statuses all the time."""
    server.refusals.append(Refusal("PATCH", 409, "the object has been modified"))
    assert terminal.run("override", "chat-70b", "k5")[0] == 0
    assert read_override(server.annotations()) is not None


def test_a_second_change_in_between_is_one_line(server: ApiServer, terminal: Terminal) -> None:
    """The user may try again."""
    server.refusals += [Refusal("PATCH", 409, "the object has been modified")] * 2
    assert "somebody else changed it at the same time; try again" in terminal.refusal("override", "chat-70b", "k5")


def test_where_the_server_does_not_say_who_asks_the_context_does(server: ApiServer, terminal: Terminal) -> None:
    """Its user is alice."""
    server.username = None
    terminal.run("override", "chat-70b", "k5")
    assert json.loads(server.annotations()[OVERRIDE])["by"] == "alice"


def test_of_two_policies_on_one_target_the_one_in_force_is_overridden(server: ApiServer, terminal: Terminal) -> None:
    """The other does nothing."""
    server.add(policy("loser", status=status(condition("Conflicted", "True"))))
    terminal.run("override", "deploy/llama-70b", "k5")
    assert OVERRIDE in server.annotations()
    assert OVERRIDE not in server.annotations("loser")
