"""Commands get a policy out of a file, or one line that says what to mend."""

from pathlib import Path

import pytest

from specloop_cli.errors import InputError
from specloop_cli.policy_file import load_policies, load_policy, read_file, read_files

POLICY = """\
apiVersion: specloop.dev/v1alpha1
kind: SpecPolicy
metadata: {name: chat-70b}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: llama-70b}
"""
LIBRARY = Path(__file__).parents[3] / "policies" / "library"
DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: llama-70b}\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "policy.yaml"


def warnings_of(path: Path, text: str) -> list[tuple[str, str]]:
    """Fields with warnings, each with its message, of a policy with these lines added."""
    path.write_text(POLICY + text)
    (report,) = read_files([str(path)])
    assert report.valid, report.errors
    return [(one.field, one.message) for one in report.warnings]


def errors_of(path: Path, text: str) -> list[tuple[str, str]]:
    path.write_text(POLICY + text)
    return [(one.field, one.message) for one in read_file(str(path)).errors]


def test_a_policy_is_loaded(path: Path) -> None:
    path.write_text(POLICY)
    assert load_policy(str(path)).metadata.name == "chat-70b"


def test_one_mistake_is_one_line_with_file_line_field_and_hint(path: Path) -> None:
    path.write_text(POLICY + "  intervalSeconds: 0\n")
    with pytest.raises(InputError) as caught:
        load_policy(str(path))
    assert str(caught.value) == f"{path}:6: spec.intervalSeconds: 0 is out of range (allowed: 1 to 3600)"


def test_several_mistakes_are_the_first_and_a_count(path: Path) -> None:
    path.write_text(POLICY + "  intervalSeconds: 0\n  suspend: maybe\n  mode: X\n")
    with pytest.raises(InputError, match=r":6: .* and 2 more; run specloop check "):
        load_policy(str(path))


def test_documents_of_other_kinds_are_passed_over_with_a_warning(path: Path) -> None:
    path.write_text(DEPLOYMENT + "---\n" + POLICY)
    assert load_policy(str(path)).metadata.name == "chat-70b"
    (warning,) = read_file(str(path)).warnings
    assert (warning.line, warning.message) == (1, "Deployment of apps/v1 is passed over")


def test_lines_count_from_the_top_of_the_file(path: Path) -> None:
    path.write_text(DEPLOYMENT + "---\n" + POLICY + "  mode: X\n")
    assert [one.line for one in read_file(str(path)).errors] == [10]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("# nothing\n---\n", "the file is empty"),
        (DEPLOYMENT, "no SpecPolicy in this file"),
        ("just words", "must be a mapping, not text"),
        ("- a\n- b\n", "must be a mapping, not a list"),
        ("a: b: c", "mapping values are not allowed"),
        ("kind: SpecPolicie\napiVersion: specloop.dev/v1alpha1\n", "'SpecPolicie' is not known here"),
        (POLICY.replace("v1alpha1", "v1"), "'specloop.dev/v1' is not known here"),
    ],
)
def test_a_file_without_a_policy_says_what_it_is(path: Path, text: str, message: str) -> None:
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        load_policy(str(path))


def test_policies_before_a_syntax_error_are_still_judged(path: Path) -> None:
    path.write_text(POLICY + "  mode: X\n---\na: b: c\n")
    assert [one.line for one in read_file(str(path)).errors] == [6, 8]


def test_a_key_given_twice_is_an_error(path: Path) -> None:
    assert errors_of(path, "  mode: Enforce\n  mode: Recommend\n") == [("spec.mode", "given twice, on lines 6 and 7")]


def test_one_policy_means_one(path: Path) -> None:
    path.write_text(POLICY + "---\n" + POLICY.replace("chat-70b", "other"))
    assert [one.metadata.name for one in load_policies(str(path))] == ["chat-70b", "other"]
    with pytest.raises(InputError, match="one policy is asked for, and here are 2: chat-70b, other"):
        load_policy(str(path))


def schedule(cron: str = "0 22 * * *", zone: str = "Europe/Berlin") -> str:
    entry = f'{{name: n, cron: "{cron}", timeZone: "{zone}", durationSeconds: 60, level: disabled}}'
    return f"  schedules: [{entry}]\n"


@pytest.mark.parametrize("cron", ["0 22 * * *", "*/15 8-18 1,15 * mon-fri", "0 0 1 jan *", "0 0 * * 7", "0 0 * * 0-6"])
def test_a_cron_expression_may_be(path: Path, cron: str) -> None:
    assert errors_of(path, schedule(cron)) == []


@pytest.mark.parametrize(
    ("cron", "words"),
    [
        ("0 22 * * * *", "has 6 fields and needs five"),
        ("@dailyyyy", "has 1 fields and needs five"),
        ("0 25 * * *", "the last value (25) is higher than the maximum value (23)"),
        ("0 22 31 feb xyz", "is no cron expression"),
        ("5-1 * * * *", "is no cron expression"),
        ("0 0 30 feb *", "never comes"),
        ("0 22 * * 999999999999999999999", "is no cron expression"),
    ],
)
def test_a_cron_expression_may_not_be(path: Path, cron: str, words: str) -> None:
    ((field, message),) = errors_of(path, schedule(cron))
    assert field == "spec.schedules[0].cron"
    assert words in message


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Etc/UTC", "UTC", "America/Argentina/Buenos_Aires"])
def test_a_time_zone_may_be(path: Path, zone: str) -> None:
    assert errors_of(path, schedule(zone=zone)) == []


@pytest.mark.parametrize(
    ("zone", "hint"),
    [
        ("Europe/Berlni", "did you mean Europe/Berlin?"),
        ("europe/berlin", "did you mean Europe/Berlin?"),
        ("berlin", "did you mean Europe/Berlin?"),
        ("../../etc/passwd", "an IANA name"),
        ("America", "an IANA name"),
    ],
)
def test_a_time_zone_may_not_be(path: Path, zone: str, hint: str) -> None:
    path.write_text(POLICY + schedule(zone=zone))
    (error,) = read_file(str(path)).errors
    assert error.field == "spec.schedules[0].timeZone"
    assert error.hint.startswith(hint)


def rule(when: str, action: str = "{type: StepDown}") -> str:
    return f"  rules: [{{name: r, when: {when}, action: {action}}}]\n"


@pytest.mark.parametrize(("level", "warned"), [("disabled", False), ("ngram", True), ("k3", True)])
def test_names_of_a_derived_ladder_may_be_missing_there(path: Path, level: str, warned: bool) -> None:
    found = warnings_of(path, rule("{running: {above: 9}}", f"{{type: SwitchTo, level: {level}}}"))
    assert [field for field, _ in found] == (["spec.rules[0].action.level"] if warned else [])


@pytest.mark.parametrize("level", ["k9", "k0", "small", "lookup"])
def test_names_that_no_derived_ladder_has_are_errors(path: Path, level: str) -> None:
    found = errors_of(path, rule("{running: {above: 9}}", f"{{type: SwitchTo, level: {level}}}"))
    assert found == [("spec.rules[0].action.level", f"without spec.levels no level can be called {level!r}")]


@pytest.mark.parametrize(
    "when",
    [
        "{acceptance: {belowPercent: 0}}",
        "{coverage: {abovePercent: 100}}",
        '{temperature: {above: "0.6", sharePercent: 100}}',
        "{running: {below: 0}}",
        "{kvCache: {abovePercent: 100}}",
        "{gain: {belowPercent: -100}}",
    ],
)
def test_a_rule_that_can_never_hold_is_warned_of(path: Path, when: str) -> None:
    ((_, message),) = warnings_of(path, rule(when, "{type: Alert}"))
    assert message.startswith("rule 'r' can never hold: ")


def test_a_drafter_that_no_level_uses_is_warned_of(path: Path) -> None:
    ((field, message),) = warnings_of(path, "  drafters: [{name: lookup, method: ngram}]\n")
    assert (field, message) == ("spec.drafters[0]", "no level uses drafter 'lookup'")


LADDER = """\
  drafters: [{name: small, method: draft_model, model: Qwen/Qwen2.5-1.5B}, {name: lookup, method: ngram}]
  levels:
    - {name: k5, drafter: small, tokens: 5}
    - {name: k3, drafter: small, tokens: 3}
    - {name: ngram, drafter: lookup, tokens: 1}
    - {name: disabled}
"""


def test_a_drafter_with_another_vocabulary_is_warned_of_once(path: Path) -> None:
    path.write_text(POLICY.replace("llama-70b", "llama-3-70b") + LADDER)
    (warning,) = read_files([str(path)])[0].warnings
    assert warning.field == "spec.levels[0]"
    assert "llama-3-70b and Qwen/Qwen2.5-1.5B have different vocabularies" in warning.message


def test_what_fails_on_one_engine_is_said_where_that_engine_is_named(path: Path) -> None:
    assert warnings_of(path, LADDER) == []
    ((field, message),) = warnings_of(path, "  engine: LlamaCpp\n" + LADDER)
    assert field == "spec.levels[2]"
    assert "so never any" in message


def test_a_method_that_the_engine_lacks_is_warned_of(path: Path) -> None:
    ladder = (
        "  drafters: [{name: m, method: medusa}]\n  levels: [{name: m1, drafter: m, tokens: 1}, {name: disabled}]\n"
    )
    ((_, message),) = warnings_of(path, "  engine: LlamaCpp\n" + ladder)
    assert message == "level 'm1': llama.cpp has no medusa that SpecLoop could set"


def test_two_policies_on_one_target_are_warned_of_across_files(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(POLICY)
    (tmp_path / "b.yaml").write_text(POLICY.replace("chat-70b", "other"))
    first, second = read_files([str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml")])
    assert first.warnings == ()
    (warning,) = second.warnings
    assert warning.message == f"Deployment llama-70b is the target of chat-70b ({tmp_path / 'a.yaml'}) too"


def test_namespaces_keep_targets_apart(path: Path) -> None:
    moved = POLICY.replace("{name: chat-70b}", "{name: chat-70b, namespace: other}")
    path.write_text(POLICY + "---\n" + moved)
    assert read_files([str(path)])[0].warnings == ()


def test_a_ready_made_policy_is_found_by_its_name_and_a_file_goes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_policy("temperature-guard").metadata.name == "temperature-guard"
    (tmp_path / "prose").write_text((LIBRARY / "nightly-batch.yaml").read_text())
    assert load_policy("prose").metadata.name == "nightly-batch"
    with pytest.raises(InputError, match="cannot read no-such"):
        load_policy("no-such")
