"""`specloop demo --fast`: the whole loop on the virtual clock, its figures and its decisions in their order."""

import json
from pathlib import Path
from typing import Any

import pytest

from specloop_cli.main import main
from specloop_policy.decision import ActionName, Decision, PolicyState
from tests.support.programs import run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

FIGURES = {
    *("outputTokens", "outputTokensPerSecond", "tpotMillisecondsP50", "tpotMillisecondsP99", "ttftMillisecondsP50"),
    *("ttftMillisecondsP99", "meanRequestSeconds", "busyGpuSeconds", "restarts", "changes"),
}
DECISION = {"policy", "seconds", "from", "to", "action", "rule", "reason"}
BRIEF = ("--phases", "structured,prose")
"""Ten minutes in which one decision is due: enough to compare, and a third of the time."""


def demo(*flags: str) -> dict[str, Any]:
    """The answer of a demo as a user starts it."""
    code, out, err = run("demo", "--fast", "-o", "json", *flags)
    assert (code, err) == (0, "")
    answer: dict[str, Any] = json.loads(out)
    return answer


@pytest.fixture(scope="module")
def answer() -> dict[str, Any]:
    """The demo as it is shown to everybody."""
    return demo()


def moves(answer: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Phase, action and level to go to of every decision."""
    return [(one["phase"], one["action"], one["to"]) for one in answer["decisions"]]


def test_the_shape_is_that_of_a_simulation(answer: dict[str, Any]) -> None:
    assert {"trace", "seed", "wallSeconds", "contestants", "decisions"} <= set(answer)
    assert answer["seed"] == 1
    assert answer["trace"]["seconds"] == 1860
    assert answer["trace"]["requests"] > 1000
    assert set(answer["contestants"]) == {"demo", "disabled"}
    for figures in answer["contestants"].values():
        assert set(figures) >= FIGURES
        assert all(value >= 0 for value in figures.values())
    for decision in answer["decisions"]:
        assert set(decision) >= DECISION
        assert decision["policy"] == "demo"
        assert decision["reason"]


def test_k_drops_then_n_gram_then_disabled_then_a_probe_and_up_again(answer: dict[str, Any]) -> None:
    """The order in which the phases ask for them: cool prose, hot talk, a heavy batch, and structured text again."""
    found = moves(answer)
    assert found[:3] == [
        ("prose", "StepDown", "k3"),
        ("hot", "SwitchTo", "ngram"),
        ("heavy", found[2][1], "disabled"),
    ]
    assert found[2][1] in ("StepDown", "Disable")
    assert ("heavy", "Probe", "ngram") in found[3:]
    again = [(action, to) for phase, action, to in found if phase == "structured-again"]
    raised = [place for place, (action, _) in enumerate(again) if action == "StepUp"]
    assert again[raised[0] - 1] == ("Probe", again[raised[0]][1])  # back by a probe that was won
    assert [to for _, to in again][-1] == "k5"
    assert "k3" in [again[place][1] for place in raised]


def test_every_decision_says_why_with_its_figures(answer: dict[str, Any]) -> None:
    reasons = [one["reason"] for one in answer["decisions"]]
    assert "is below the limit of 40 %" in reasons[0]
    assert "share of requests hotter than 0.6" in reasons[1]
    assert all(one["seconds"] > 0 for one in answer["decisions"])


def test_decisions_join_up(answer: dict[str, Any]) -> None:
    """Each begins where the one before it left the level; a probe leaves it where it was."""
    level = "k5"
    for one in answer["decisions"]:
        probing = one["action"] == "Probe"
        lost = one["action"] == "Disable" and one["to"] == level
        assert lost or one["from"] == level
        level = level if probing else one["to"]
    assert level == "k5"


def test_the_policy_answers_more_tokens_a_second_than_no_speculation(answer: dict[str, Any]) -> None:
    """Clients ask again when they are answered, so tokens a second compare."""
    ours, off = answer["contestants"]["demo"], answer["contestants"]["disabled"]
    assert ours["outputTokensPerSecond"] > off["outputTokensPerSecond"]
    assert (off["restarts"], off["changes"]) == (0, 0)
    assert ours["changes"] == len(answer["decisions"])
    assert ours["restarts"] >= ours["changes"]


def test_nothing_is_decided_before_the_traffic_changes(answer: dict[str, Any]) -> None:
    assert [one for one in answer["decisions"] if one["phase"] == "structured"] == []


def test_other_phases_lead_to_other_decisions() -> None:
    """Hot traffic first: the switch to n-gram comes first; then k3 is probed once the traffic is cool again."""
    found = moves(demo("--phases", "hot,structured"))
    assert found[0] == ("hot", "SwitchTo", "ngram")
    assert [one for one in found if one[1] == "StepDown" and one[2] == "k3"] == []
    assert all(phase == "structured" for phase, _, to in found if to in ("k3", "k5"))


def test_the_same_seed_gives_the_same_answer_and_another_seed_another() -> None:
    first, again, other = demo(*BRIEF), demo(*BRIEF), demo(*BRIEF, "--seed", "2")
    for one in (first, again, other):
        del one["wallSeconds"]
    assert json.dumps(first) == json.dumps(again)
    assert first["contestants"] != other["contestants"]
    assert moves(other) == moves(first) == [("prose", "StepDown", "k3")]


def test_a_core_that_always_keeps_would_show(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The one place where something is replaced: to see that the tests above rest on what the core decides."""

    def keeper(policy: object, state: PolicyState, *_: object) -> tuple[Decision, PolicyState]:
        return Decision(ActionName.HOLD, "k5", "whatever comes"), state

    monkeypatch.setattr("specloop_sim.loop.step", keeper)
    assert main(["demo", "--fast", "-o", "json", *BRIEF]) == 0
    assert json.loads(capsys.readouterr().out)["decisions"] == []


def test_the_text_names_every_change_and_compares() -> None:
    code, out, err = run("demo", "--fast", *BRIEF)
    assert (code, err) == (0, "")
    assert "StepDown  k5 → k3" in out
    assert "is below the limit of 40 %" in out
    assert out.splitlines()[0] == "Simulated: engines, traffic and time. Decisions: by the code that runs live."
    assert "\x1b" not in out


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--phases", "structured,poetry"], "--phases: there is no phase 'poetry'; phases: structured, prose, hot"),
        (["--phases", ""], "--phases"),
        (["--policy", "/no/such.yaml"], "cannot read /no/such.yaml"),
        (["--seed", "one"], "--seed"),
    ],
)
def test_a_wrong_call_is_refused_in_one_line(flags: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--fast", *flags]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert words in err


def test_a_report_is_written_once_and_never_over_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "demo.html"
    assert main(["demo", "--fast", "--phases", "structured", "--report", str(page)]) == 0
    assert "<svg" in page.read_text()
    capsys.readouterr()
    assert main(["demo", "--fast", "--report", str(page)]) == 2
    assert "exists already; use --force" in capsys.readouterr().err
