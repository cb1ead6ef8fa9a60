"""`specloop check` names every mistake with its line and a hint, and answers with the exit code."""

import json
from pathlib import Path
from typing import Any

import pytest

from specloop_cli.main import main

OBJECTS = Path(__file__).resolve().parents[1] / "policy_model" / "objects"

BAD = """\
apiVersion: specloop.dev/v1alpha1
kind: SpecPolicy
metadata: {name: Chat_70b}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment}
  mode: enforce
  suspend: maybe
  intervalSecs: 15
  signals: {windowSeconds: "300", maxEvidenceSeconds: 10m, settleSeconds: 0.5}
  drafters:
    - {name: small, method: draftmodel, model: x/y}
    - {name: lookup, method: ngram, lookupMin: 5, lookupMax: 4}
  levels:
    - {name: k5, drafter: small, token: 5}
    - {name: k3, drafter: smal, tokens: 99}
    - {name: ngram, drafter: lookup, tokens: 4}
    - {name: off}
  rules:
    - name: hot
      when: {temperature: {above: 0.6}}
      action: {type: SwitchTo, level: ngram}
    - name: low
      when: {acceptance: {belowPercent: 0.4}}
      action: {type: StepUp}
    - name: both
      when: {acceptance: {belowPercent: 40, abovePercent: 50}}
      action: {type: StepDown, level: k3}
  schedules: [{name: n, cron: "0 25 * * *", timeZone: Europe/Berlni, durationSeconds: 10, level: disabled}]
  alerts: [{match: {alert-name: 5}, action: {type: Page}}]
  guardrails:
  rollout: {soakSeconds: 5, soakSeconds: 6}
"""
EXPECTED = [
    (3, "metadata.name", "'Chat_70b' is not a name"),
    (5, "spec.targetRef.name", "is missing"),
    (6, "spec.mode", "'enforce' is not known here"),
    (7, "spec.suspend", "'maybe' is neither true nor false"),
    (8, "spec.intervalSecs", "unknown field"),
    (9, "spec.signals.maxEvidenceSeconds", "'10m' is not a whole number"),
    (9, "spec.signals.settleSeconds", "0.5 is not a whole number"),
    (9, "spec.signals.windowSeconds", "must be a number, not text"),
    (11, "spec.drafters[0].method", "'draftmodel' is not known here"),
    (12, "spec.drafters[1].lookupMin", "lookupMin 5 is above lookupMax 4"),
    (14, "spec.levels[0].token", "unknown field"),
    (15, "spec.levels[1].drafter", "no drafter is called 'smal'"),
    (15, "spec.levels[1].tokens", "99 is out of range"),
    (17, "spec.levels[3].name", "YAML reads off as false, not as text"),
    (20, "spec.rules[0].when.temperature.above", "must be text, and 0.6 is a number"),
    (23, "spec.rules[1].when.acceptance.belowPercent", "0.4 is not in percent"),
    (26, "spec.rules[2].when.acceptance", "needs exactly one of belowPercent and abovePercent"),
    (27, "spec.rules[2].action", "SwitchTo needs a level, and no other action takes one"),
    (28, "spec.schedules[0].cron", "'0 25 * * *' is no cron expression: the last value (25) is higher than the maximum "
     "value (23)"),
    (28, "spec.schedules[0].durationSeconds", "10 is out of range"),
    (28, "spec.schedules[0].timeZone", "no time zone is called 'Europe/Berlni'"),
    (29, "spec.alerts[0].action.type", "'Page' is not known here"),
    (29, "spec.alerts[0].match.alert-name", "'alert-name' is not a label name"),
    (29, "spec.alerts[0].match.alert-name", "must be text, and 5 is a number"),
    (30, "spec.guardrails", "has no value"),
    (31, "spec.rollout.soakSeconds", "given twice, on lines 31 and 31"),
]  # fmt: skip
HINTS = {
    "spec.mode": "did you mean Enforce?",
    "spec.intervalSecs": "did you mean intervalSeconds?",
    "spec.levels[0].token": "did you mean tokens?",
    "spec.levels[1].tokens": "allowed: 1 to 8",
    "spec.levels[1].drafter": "drafters here: lookup, small",
    "spec.levels[3].name": "the level without speculation is called `disabled`",
    "spec.signals.windowSeconds": "remove the quotes: 300",
    "spec.rules[0].when.temperature.above": 'put it in quotes: "0.6"',
    "spec.rules[1].when.acceptance.belowPercent": "write 40",
    "spec.schedules[0].timeZone": "did you mean Europe/Berlin?",
}


@pytest.fixture
def bad(tmp_path: Path) -> str:
    path = tmp_path / "bad.yaml"
    path.write_text(BAD)
    return str(path)


def check(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    """Exit code and document of `check ... -o json`."""
    code = main(["check", *arguments, "-o", "json"])
    out, err = capsys.readouterr()
    assert err == ""
    return code, json.loads(out)


def test_every_mistake_is_named_with_its_line_and_nothing_else(bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, document = check(capsys, bad)
    errors = document["files"][0]["errors"]
    assert sorted((one["line"], one["field"], one["message"]) for one in errors) == EXPECTED


def test_every_mistake_comes_with_the_way_to_mend_it(bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, document = check(capsys, bad)
    hints = {one["field"]: one["hint"] for one in document["files"][0]["errors"]}
    assert all(hints.values())
    assert {field: hints[field] for field in HINTS} == HINTS


def test_the_document_has_the_published_shape(bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    good = str(OBJECTS / "accepted" / "derived-ladder.yaml")
    code, document = check(capsys, bad, good)
    assert code == 1
    assert list(document) == ["files"]
    assert [list(file) for file in document["files"]] == [["path", "valid", "errors", "warnings"]] * 2
    assert [(file["path"], file["valid"]) for file in document["files"]] == [(bad, False), (good, True)]
    for one in (document["files"][0]["errors"][0], document["files"][1]["warnings"][0]):
        assert list(one) == ["field", "line", "message", "hint"]


@pytest.mark.parametrize("path", sorted((OBJECTS / "accepted").glob("*.yaml")), ids=lambda path: path.stem)
def test_accepted_objects_pass(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(capsys, str(path))[0] == 0


@pytest.mark.parametrize("path", sorted((OBJECTS / "refused").glob("*.yaml")), ids=lambda path: path.stem)
def test_refused_objects_have_one_mistake_each(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, document = check(capsys, str(path))
    assert code == 1
    assert len({one["field"] for one in document["files"][0]["errors"]}) == 1


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        (
            "schema-target-elsewhere",
            "digits, dashes and dots, beginning and ending with a letter or digit, such as other-llama",
        ),
        ("schema-secret-name", "such as live-token"),
        ("schema-secret-key", "letters, digits, dots, dashes and underscores"),
    ],
)
def test_a_name_that_no_object_can_have_comes_with_what_it_may_hold(
    name: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, document = check(capsys, str(OBJECTS / "refused" / f"{name}.yaml"))
    (error,) = document["files"][0]["errors"]
    assert hint in error["hint"]


@pytest.mark.parametrize("content", [b"", b"a: b: c", b"\xff\xfe", b"\x00", b"- 1", b"%", b"a: &a [*a]", b"\xe9"])
def test_a_readable_file_that_is_no_policy_is_exit_code_1(
    tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_bytes(content)
    code, document = check(capsys, str(tmp_path / "file"))
    assert code == 1
    assert document["files"][0]["errors"][0]["line"] == 1


def test_an_unreadable_file_is_exit_code_2_and_nothing_is_printed(
    tmp_path: Path, bad: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", bad, str(tmp_path), "-o", "json"]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"specloop: cannot read {tmp_path}: Is a directory\n")


def test_text_is_a_line_as_compilers_write_it_and_a_hint_below(bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", bad]) == 1
    lines = capsys.readouterr().out.splitlines()
    place = lines.index(f"{bad}:8: error: spec.intervalSecs: unknown field")
    assert lines[place + 1] == "    did you mean intervalSeconds?"


def test_a_good_file_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    path = OBJECTS / "accepted" / "full.yaml"
    assert main(["check", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: ok (full)\n"
