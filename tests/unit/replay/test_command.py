"""`specloop replay`: what a user types, and what comes back."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from specloop_cli.main import main
from specloop_cli.replay_text import spell
from specloop_control.recording import Header, write_recording
from specloop_engine.sample import Sample
from specloop_policy.ladder import Drafter, Level, Method
from tests.support.policies import DRAFTERS, LEVELS, TARGET
from tests.unit.replay.fleets import LOW, SIGNALS, START, Fleet

DECLARED: dict[str, Any] = {"drafters": DRAFTERS, "levels": LEVELS, "signals": SIGNALS, "rules": [LOW]}
SMALL = Drafter("small", Method.DRAFT_MODEL)
K5, K4, K3, OFF = (Level(f"k{k}" if k else "disabled", SMALL if k else None, k) for k in (5, 4, 3, 0))


@dataclass
class Command:
    """The command line, run in this process; files are written to `folder`."""

    folder: Path
    capture: pytest.CaptureFixture[str]

    def policy(self, name: str = "chat-70b", **spec: Any) -> str:
        """A file with a policy of these fields besides its target."""
        path = self.folder / f"{name}.yaml"
        head = {"apiVersion": "specloop.dev/v1alpha1", "kind": "SpecPolicy", "metadata": {"name": name}}
        path.write_text(json.dumps({**head, "spec": {"targetRef": TARGET, **(spec or DECLARED)}}))
        return str(path)

    def recording(self, samples: Sequence[tuple[str, Sample]]) -> str:
        """A file with these samples, of a source that is not late."""
        path = self.folder / "fleet.rec"
        header = Header("http://prometheus:9090", "", "vllm:", {}, START, samples[-1][1].at, 0.0)
        write_recording(path, header, samples)
        return str(path)

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of a call."""
        code = main(["replay", *arguments])
        captured = self.capture.readouterr()
        return code, captured.out, captured.err

    def answer(self, *arguments: str) -> dict[str, Any]:
        """The JSON answer of a call that succeeds."""
        code, out, err = self.run(*arguments, "-o", "json")
        assert (code, err) == (0, "")
        found: dict[str, Any] = json.loads(out)
        return found

    def refused(self, *arguments: str) -> str:
        """What a call says that is refused."""
        code, out, err = self.run(*arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        return err


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command in a folder of its own."""
    return Command(tmp_path, capsys)


def collapsing(level: Level = K5, seconds: float = 9000.0) -> list[tuple[str, Sample]]:
    """A fleet whose acceptance falls to 20 % after 3000 s, and which nobody governs."""
    return Fleet(level, lambda at, level: 0.7 if at <= 3000.0 else 0.2).run(seconds).recording


def test_the_answer_names_the_decision_its_time_and_what_became_of_it(command: Command) -> None:
    """3000 s, a window of 300 s and a rule of 600 s; the recording ends at 9000 s (its last pod a third earlier)."""
    answer = command.answer("--policy", command.policy(), command.recording(collapsing()))
    (decision,) = answer["policies"]["chat-70b"]["decisions"]
    assert decision == {
        "seconds": 3900.0,
        "time": "2027-01-15T09:05:00Z",
        "from": "k5",
        "to": "k3",
        "action": "StepDown",
        "rule": "acceptance-low",
        "reason": decision["reason"],
        "gainPercent": None,
        "carriedOut": False,
        "untilSeconds": 9000.0,
    }
    assert "is below the limit of 40 %" in decision["reason"]
    assert answer["recording"]["pods"] == ["pod-0", "pod-1"]
    assert answer["policies"]["chat-70b"]["timeAtLevelSeconds"] == {"k5": 9000.0 - 15.0}
    assert answer["policies"]["chat-70b"]["outcomes"] == {"Measured": 2 * 30 - 1}  # the last one of pod-1 is open


def test_what_cannot_be_known_is_said(command: Command) -> None:
    answer = command.answer("--policy", command.policy(), command.recording(collapsing()))
    words = " ".join(answer["unknown"])
    assert "did not follow one of the decisions: how k3 would have done" in words
    assert "Step times of this hardware are unknown" in words
    answer = command.answer(
        "--policy", command.policy(), command.recording(collapsing()), "--profile", "4xh100-llama-3.3-70b"
    )
    words = " ".join(answer["unknown"])
    assert "Step times are taken from the profile 4xh100-llama-3.3-70b" in words


def test_a_level_that_is_named_against_what_the_metrics_show_is_told(command: Command) -> None:
    ours = command.policy(**DECLARED)
    recording = command.recording(collapsing())
    said = " ".join(command.answer("-p", ours, recording, "--level", "k3")["unknown"])
    assert "The recording never shows the fleet at k3, which --level names" in said
    assert "which --level names" not in " ".join(command.answer("-p", ours, recording, "--level", "k5")["unknown"])


def test_text_is_a_timeline_with_reasons_and_what_cannot_be_known(command: Command) -> None:
    code, out, _ = command.run("--policy", command.policy(), command.recording(collapsing()))
    assert code == 0
    assert "     1h05m  StepDown  k5 → k3  2027-01-15T09:05:00Z\n" in out
    assert "asked for until 2h30m; not carried out\n" in out
    assert "What cannot be known:\n- The recorded fleet did not follow" in out


def test_what_somebody_else_did_stands_in_the_timeline(command: Command) -> None:
    fleet = Fleet(K5, lambda seconds, level: 0.7).run(1785.0)
    fleet.apply({one.name: K3 for one in fleet.running})
    _, out, _ = command.run("--policy", command.policy(), command.recording(fleet.run(1800.0).recording))
    assert "recorded  k5 → k3: by somebody else" in out
    assert "No decision would have changed anything." in out


def test_several_policies_see_the_same_recording(command: Command) -> None:
    other = {**DECLARED, "rules": [{**LOW, "forSeconds": 0}]}
    answer = command.answer(
        "-p", command.policy(), "-p", command.policy("quick", **other), command.recording(collapsing())
    )
    found = {name: one["decisions"][0]["seconds"] for name, one in answer["policies"].items()}
    assert found == {"chat-70b": 3900.0, "quick": 3300.0}
    assert all(one.startswith(("chat-70b: ", "quick: ")) for one in answer["unknown"])


def test_a_schedule_of_the_policy_is_in_force_as_live(command: Command) -> None:
    """08:30 UTC is 1800 s after the start of the recording, and the window lasts 1200 s."""
    nightly = {"name": "nightly", "cron": "30 9 * * *", "timeZone": "Europe/Berlin", "durationSeconds": 1200}
    ours = command.policy(**DECLARED, schedules=[{**nightly, "level": "disabled"}])
    recording = command.recording(Fleet(K5, lambda seconds, level: 0.7).run(6000.0).recording)
    (decision,) = command.answer("-p", ours, recording)["policies"]["chat-70b"]["decisions"]
    assert (decision["seconds"], decision["untilSeconds"], decision["rule"]) == (1800.0, 2985.0, "nightly")


def test_the_deadline_of_a_change_is_the_policys_own(command: Command) -> None:
    """The fleet is at k3 1700 s after the decision at 3900 s or so."""
    fleet = Fleet(K5, lambda seconds, level: 0.7 if seconds <= 3000.0 else 0.2).run(5460.0)
    fleet.apply({one.name: K3 for one in fleet.running})
    recording = command.recording(fleet.run(3000.0).recording)
    for seconds, carried_out in ((1800, True), (900, False)):
        ours = command.policy(**DECLARED, rollout={"progressDeadlineSeconds": seconds})
        decisions = command.answer("-p", ours, recording)["policies"]["chat-70b"]["decisions"]
        assert decisions[0]["carriedOut"] is carried_out


def test_a_ladder_that_is_left_to_what_runs_begins_with_the_first_k_shown(command: Command) -> None:
    ours = command.policy(signals=SIGNALS)
    answer = command.answer("-p", ours, command.recording(collapsing()))
    assert [one["to"] for one in answer["policies"]["chat-70b"]["decisions"]] == ["k3"]
    assert any("draft_model is assumed (--drafter)" in one for one in answer["unknown"])
    answer = command.answer("-p", ours, command.recording(collapsing()), "--drafter", "eagle3")
    assert any("eagle3 is assumed (--drafter)" in one for one in answer["unknown"])


def test_a_k_of_several_levels_asks_for_a_name_and_takes_it(command: Command) -> None:
    """A draft model at K = 4 and n-gram lookup look the same."""
    ours = command.policy(signals=SIGNALS)
    recording = command.recording(collapsing(K4))
    err = command.refused("-p", ours, recording)
    assert "pod-1 shows K = 4 at 2027-01-15T08:00:14.667Z, which fits k4, ngram: say which one ran with" in err
    for level in ("k4", f"{START:.0f}=k4", "2027-01-15T08:00:00Z=k4", "2027-01-15T09:00:00+01:00=k4"):
        answer = command.answer("-p", ours, recording, "--level", level)
        assert answer["policies"]["chat-70b"]["recordedLevels"][0]["level"] == "k4"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--level", "k7"], "--level k7: no level of chat-70b is called 'k7'; its levels: k5, k3, ngram, disabled"),
        (["--level", "noon=k5"], "--level noon=k5: give a time such as 2026-03-01T12:00:00Z before the ="),
        (["--level", "2027-01-15T08:00:00=k5"], "the time has no zone; add Z for UTC"),
        (["--profile", "abacus"], "--profile: there is no file abacus, nor a profile of that name: h100"),
        (["--drafter", "abacus"], "'abacus' is not one of 'draft_model'"),
    ],
)
def test_an_option_that_cannot_be_is_refused(command: Command, arguments: list[str], words: str) -> None:
    err = command.refused("-p", command.policy(), command.recording(collapsing(seconds=60.0)), *arguments)
    assert words in err


def test_two_policies_of_one_name_are_refused(command: Command) -> None:
    ours = command.policy()
    assert "a second policy is called chat-70b: give one of them another name" in command.refused(
        "-p", ours, "-p", ours, command.recording(collapsing(seconds=60.0))
    )


def test_what_is_no_recording_is_refused(command: Command) -> None:
    assert "is no recording" in command.refused("-p", command.policy(), command.policy())
    assert "nowhere.rec" in command.refused("-p", command.policy(), "nowhere.rec")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0s"), (59.4, "59s"), (59.6, "1m00s"), (750, "12m30s"), (3600, "1h00m"), (101_700, "1d04h15m")],
)
def test_spans_are_spelled_as_people_say_them(seconds: float, words: str) -> None:
    assert spell(seconds) == words
