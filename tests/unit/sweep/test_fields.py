"""Fields are found by the paths that people write, and a wrong path is answered with what is there."""

import pytest

from specloop_sim.sweep.fields import VaryError, field_at, with_values
from tests.unit.sweep.specs import LOW, SPEC


@pytest.mark.parametrize(
    "path",
    [
        LOW,
        "spec.rules.low.when.acceptance.belowPercent",
        "rules.1.when.acceptance.belowPercent",
        "rules[1].when.acceptance.belowPercent",
    ],
)
def test_items_of_lists_go_by_name_or_number(path: str) -> None:
    found = field_at(SPEC, path)
    assert found.path == LOW
    assert found.where == ("rules", 1, "when", "acceptance", "belowPercent")
    assert found.given == 40


def test_a_field_left_out_has_the_value_of_its_default() -> None:
    assert field_at(SPEC, "guardrails.probe.afterSeconds").given == 3600
    assert field_at(SPEC, "rules.low.forSeconds").given == 600


def test_a_field_left_out_without_a_default_has_no_value() -> None:
    assert field_at(SPEC, "containerName").given is None


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("rules.lo.forSeconds", "rules has no 'lo'; there are hot, low, high"),
        ("rules[3].forSeconds", "rules has no '3'; there are hot, low, high"),
        ("alerts.0.action.level", "alerts has no '0'; the policy lists none"),
        ("guardrails.cooldown", "guardrails has no field 'cooldown'; fields there: cooldownSeconds, maxChangesPerDay"),
        ("guardrails.probe", "guardrails.probe has fields of its own; name one of them: afterSeconds"),
        ("guardrails.cooldownSeconds.x", "guardrails.cooldownSeconds has no field 'x'; it is a single value"),
        ("rules", "rules is no single value"),
        ("rules..x", "'rules..x' is no path of a field"),
        ("", "'' is no path of a field"),
    ],
)
def test_a_wrong_path_is_answered_with_what_is_there(path: str, words: str) -> None:
    with pytest.raises(VaryError) as raised:
        field_at(SPEC, path)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_values_are_set_in_a_copy_and_parts_come_into_being() -> None:
    changed = with_values(SPEC, {("guardrails", "probe", "afterSeconds"): 60, ("rules", 1, "forSeconds"): 5})
    assert changed["guardrails"] == {"cooldownSeconds": 900, "probe": {"afterSeconds": 60}}
    assert changed["rules"][1]["forSeconds"] == 5
    assert "probe" not in SPEC["guardrails"]
    assert "forSeconds" not in SPEC["rules"][1]
