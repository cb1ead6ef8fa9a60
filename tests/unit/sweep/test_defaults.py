"""What is varied where nobody says."""

from specloop_sim.sweep.defaults import default_parameters
from tests.unit.sweep.specs import HIGH, LOW, SPEC


def test_limits_and_durations_of_the_rules_that_there_are() -> None:
    found = {one.field.path: list(one.values) for one in default_parameters(SPEC)}
    assert found == {
        "rules.hot.when.temperature.above": ["0.4", "0.5", "0.6", "0.7", "0.8"],
        "rules.hot.forSeconds": [150, 300, 600],
        LOW: [25, 30, 35, 40, 45, 50, 55],
        "rules.low.forSeconds": [300, 600, 1200],
        HIGH: [40, 45, 50, 55, 60, 65, 70],
        "rules.high.forSeconds": [300, 600, 1200],
        "guardrails.cooldownSeconds": [450, 900, 1800],
        "guardrails.probe.afterSeconds": [1800, 3600, 7200],
    }


def test_values_stay_within_what_a_field_takes() -> None:
    rule = {**SPEC["rules"][1], "when": {"acceptance": {"belowPercent": 5}}, "forSeconds": 80_000}
    found = {one.field.path: list(one.values) for one in default_parameters({**SPEC, "rules": [rule]})}
    assert found[LOW] == [0, 5, 10, 15, 20]
    assert found["rules.low.forSeconds"] == [40_000, 80_000], "a day has 86,400 seconds"


def test_nothing_is_varied_that_has_one_value() -> None:
    rule = {**SPEC["rules"][1], "forSeconds": 0}
    paths = [one.field.path for one in default_parameters({**SPEC, "rules": [rule]})]
    assert "rules.low.forSeconds" not in paths
