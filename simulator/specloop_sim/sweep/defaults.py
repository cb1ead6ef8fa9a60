"""What a sweep varies where nobody says: the limits and durations of the rules that the policy has."""

from collections.abc import Iterator, Mapping
from typing import Any

from specloop_sim.sweep.fields import Field, field_at
from specloop_sim.sweep.values import Parameter, parameter_of, tenths

AROUND_PERCENT = range(-15, 16, 5)
"""Either way of an acceptance limit: as far as the field report's two limits, 40 and 55 %, lie apart."""
AROUND_TENTHS = range(-2, 3)
"""Either way of a temperature limit: the steps in which sidecars count temperatures are 0.1."""


def default_parameters(spec: Mapping[str, Any]) -> tuple[Parameter, ...]:
    """Acceptance and temperature limits, durations, the cool-down, and the gap before probes."""
    return tuple(one for one in _all(spec) if len(one.values) > 1)


def _all(spec: Mapping[str, Any]) -> Iterator[Parameter]:
    for rule in spec.get("rules") or ():
        yield from _of_rule(spec, rule)
    for path in ("guardrails.cooldownSeconds", "guardrails.probe.afterSeconds"):
        yield _halved_and_doubled(field_at(spec, path))


def _of_rule(spec: Mapping[str, Any], rule: Mapping[str, Any]) -> Iterator[Parameter]:
    path = f"rules.{rule['name']}"
    for side in rule["when"].get("acceptance", ()):
        yield _around(field_at(spec, f"{path}.when.acceptance.{side}"), AROUND_PERCENT)
    if "temperature" in rule["when"]:
        yield _around(field_at(spec, f"{path}.when.temperature.above"), AROUND_TENTHS)
    yield _halved_and_doubled(field_at(spec, f"{path}.forSeconds"))


def _around(field: Field, offsets: range) -> Parameter:
    middle = _number(field)
    return parameter_of(field, (middle + one for one in offsets))


def _halved_and_doubled(field: Field) -> Parameter:
    middle = _number(field)
    return parameter_of(field, (middle // 2, middle, 2 * middle))


def _number(field: Field) -> int:
    assert field.given is not None  # the rule has it, or the schema a default
    return tenths(field.given) if field.is_decimal else int(field.given)
