"""Policies with other values, and those that are none."""

import pytest

from specloop_policy.ladder import DISABLED, Drafter, Ladder, Level, Method
from specloop_sim.sweep.variants import NoPolicy, read, variant, with_rules
from tests.unit.sweep.specs import DATA, SPEC, limits

LADDER = Ladder((Level("k5", Drafter("small", Method.DRAFT_MODEL, "m"), 5), DISABLED))
SPACE = limits("30..60", "50..70")


def test_a_variant_has_its_values_and_all_else_as_it_was() -> None:
    changed = variant(DATA, SPACE.settings((30, 60)))
    spec = read(changed).spec
    assert spec.rules is not None
    assert [one.when.acceptance for one in spec.rules[1:]] != [None, None]
    assert changed["metadata"] == DATA["metadata"]
    assert changed["spec"]["rules"][0] == SPEC["rules"][0]


def test_limits_that_cross_contradict_each_other() -> None:
    with pytest.raises(NoPolicy, match="low asks for less than 60 % and high for more than 55 %"):
        variant(DATA, SPACE.settings((60, 55)))


def test_limits_that_meet_do_not() -> None:
    assert variant(DATA, SPACE.settings((55, 55)))["spec"]["rules"][1]["when"]["acceptance"] == {"belowPercent": 55}


def test_limits_of_rules_with_more_conditions_may_cross() -> None:
    rule = {**SPEC["rules"][1], "when": {"acceptance": {"belowPercent": 60}, "running": {"above": 8}}}
    data = {**DATA, "spec": {**SPEC, "rules": [rule, SPEC["rules"][2]]}}
    assert variant(data, {})["spec"]["rules"][0] == rule


def test_fields_that_contradict_each_other_are_no_policy() -> None:
    with pytest.raises(NoPolicy, match="intervalSeconds"):
        variant(DATA, {("intervalSeconds",): 600})
    with pytest.raises(NoPolicy, match="needs exactly one"):
        variant(DATA, {("rules", 1, "when", "acceptance", "abovePercent"): 80})


def test_a_policy_without_rules_gets_those_of_the_field_report() -> None:
    bare = {**DATA, "spec": {name: value for name, value in SPEC.items() if name != "rules"}}
    written = with_rules(bare, LADDER)
    assert [one["name"] for one in written["spec"]["rules"]] == [
        "hot-traffic",
        "acceptance-low",
        "does-not-pay",
        "acceptance-healthy",
    ]
    assert written["spec"]["rules"][0]["action"] == {"type": "SwitchTo", "level": "disabled"}
    assert read(written).spec.rules is not None


def test_a_policy_with_rules_stays_as_it_is() -> None:
    assert with_rules(DATA, LADDER) == DATA
