"""A policy with other values in some of its fields, or why that is no policy."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from specloop_policy.contradictions import contradictions
from specloop_policy.ladder import Ladder
from specloop_policy.model import ActionType, Rule, SpecPolicy, SpecPolicySpec
from specloop_policy.policy import field_report_rules
from specloop_sim.sweep.fields import Value, Where, with_values

Data = Mapping[str, Any]


class NoPolicy(ValueError):
    """Values that contradict each other; the message says how."""


def with_rules(data: Data, ladder: Ladder) -> dict[str, Any]:
    """A policy that has rules: where it leaves them out, those of the field report are written into it."""
    spec = data["spec"]
    if spec.get("rules"):
        return dict(data)
    rules = [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in field_report_rules(ladder)]
    return {**data, "spec": {**spec, "rules": rules}}


def variant(data: Data, settings: Mapping[Where, Value]) -> dict[str, Any]:
    """The policy with some fields of its spec set.  Raises NoPolicy where they contradict each other or the rest."""
    changed = {**data, "spec": with_values(data["spec"], settings)}
    spec = read(changed).spec
    for one in contradictions(spec):
        raise NoPolicy(f"{'.'.join(map(str, one.field))}: {one.message}")
    for reason in crossed(spec):
        raise NoPolicy(reason)
    return changed


def read(data: Data) -> SpecPolicy:
    """Plain data as a policy.  Raises NoPolicy."""
    try:
        return SpecPolicy.model_validate_json(json.dumps(data), by_alias=True, by_name=False)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join(str(step) for step in first["loc"] if step != "spec")
        raise NoPolicy(f"{path}: {first['msg'].removeprefix('Value error, ')}") from error


def crossed(spec: SpecPolicySpec) -> Iterator[str]:
    """Rules that would both hold at the same acceptance, one to lower the level and one to raise it."""
    alone = [one for one in spec.rules or () if _asks_for_acceptance_alone(one)]
    for low in alone:
        for high in alone:
            below, above = _limits(low)[0], _limits(high)[1]
            if below is not None and above is not None and below > above:
                yield f"{low.name} asks for less than {below} % and {high.name} for more than {above} %"


def _asks_for_acceptance_alone(rule: Rule) -> bool:
    """Rules with more conditions may exclude each other by those, and alerts change nothing."""
    return rule.action.type is not ActionType.ALERT and rule.when.model_fields_set == {"acceptance"}


def _limits(rule: Rule) -> tuple[int | None, int | None]:
    limit = rule.when.acceptance
    return (None, None) if limit is None else (limit.below_percent, limit.above_percent)
