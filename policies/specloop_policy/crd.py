"""The custom resource definition of SpecPolicy, made from its models.

Kubernetes takes a structural schema: no references, no null alternatives, closed objects without saying so, and
`default: {}` on every parent whose fields have defaults.  What fields decide together becomes a CEL rule; `RULES` has
one for every validator and every contradiction of the models, under the same name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from specloop_policy import model
from specloop_policy.contradictions import NEEDS_MODEL, YAML_BOOLEANS
from specloop_policy.ladder import LOOKUP_METHODS
from specloop_policy.status import Condition, SpecPolicyStatus

PLURAL = "specpolicies"

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CelRule:
    """A rule that the API server holds."""

    mirrors: str | None
    """Name of the function, or of the constrained type, that says the same in Python; None for a rule on edits."""
    rule: str
    """CEL expression over `self`, true when all is well."""
    message: str


def _words(items: frozenset[Any]) -> str:
    return "[" + ", ".join(f"'{item}'" for item in sorted(items)) + "]"


def _asks(side: str) -> str:
    """CEL: the condition of a rule limits acceptance or gain on this side."""
    return " || ".join(f"(has(self.when.{name}) && has(self.when.{name}.{side}))" for name in ("acceptance", "gain"))


def _unique(items: str) -> CelRule:
    return CelRule(
        "duplicate_names",
        f"!has(self.{items}) || self.{items}.all(x, self.{items}.exists_one(y, y.name == x.name))",
        f"names of {items} must be unique",
    )


def _known_level(mirrors: str, items: str, field: str) -> CelRule:
    *parents, last = field.split(".")
    owner = ".".join(["x", *parents])
    return CelRule(
        mirrors,
        f"!has(self.levels) || !has(self.{items}) || self.{items}.all(x, "
        f"!has({owner}.{last}) || self.levels.exists(y, y.name == {owner}.{last}))",
        f"{items} must name levels of this policy",
    )


_ONE_SIDE = CelRule(
    "one_side",
    "has(self.belowPercent) != has(self.abovePercent)",
    "exactly one of belowPercent and abovePercent is needed",
)
_LEVEL_WITH_SWITCH = CelRule(
    "level_with_switch",
    "(self.type == 'SwitchTo') == has(self.level)",
    "SwitchTo needs a level, and no other action takes one",
)

RULES: Mapping[type[BaseModel], tuple[CelRule, ...]] = {
    model.TargetRef: (
        CelRule(
            None,
            "self == oldSelf",
            "targetRef cannot be changed: delete the policy, which leaves its target as it is, and create another",
        ),
    ),
    model.PercentLimit: (_ONE_SIDE,),
    model.GainLimit: (_ONE_SIDE,),
    model.CountLimit: (
        CelRule("one_side", "has(self.below) != has(self.above)", "exactly one of below and above is needed"),
    ),
    model.When: (
        CelRule(
            "some_condition",
            " || ".join(f"has(self.{field.alias})" for field in model.When.model_fields.values()),
            "at least one condition is needed",
        ),
    ),
    model.Action: (_LEVEL_WITH_SWITCH,),
    model.AlertAction: (_LEVEL_WITH_SWITCH,),
    model.Rule: (
        CelRule(
            "direction",
            f"self.action.type != 'StepUp' || !({_asks('belowPercent')})",
            "low acceptance or gain may only lower the level",
        ),
        CelRule(
            "direction",
            f"self.action.type in ['StepUp', 'Alert'] || !({_asks('abovePercent')})",
            "high acceptance or gain may only raise the level",
        ),
    ),
    model.DrafterSpec: (
        CelRule(
            "models_missing",
            f"!(self.method in {_words(NEEDS_MODEL)}) || has(self.model)",
            "draft_model, eagle, eagle3 and dflash need a model",
        ),
        CelRule(
            "models_unwanted",
            f"!(self.method in {_words(LOOKUP_METHODS)}) || !has(self.model)",
            "n-gram methods have no model",
        ),
        CelRule(
            "lookups_unwanted",
            f"self.method in {_words(LOOKUP_METHODS)} || !(has(self.lookupMin) || has(self.lookupMax))",
            "lookupMin and lookupMax are for n-gram methods",
        ),
        CelRule(
            "lookups_swapped",
            "!has(self.lookupMin) || !has(self.lookupMax) || self.lookupMin <= self.lookupMax",
            "lookupMin must not be above lookupMax",
        ),
    ),
    model.LevelSpec: (
        CelRule(
            "levels_misread",
            f"!(self.name in {_words(YAML_BOOLEANS)})",
            "a level cannot have a name that YAML reads as something other than text",
        ),
        CelRule(
            "disabled_drafts",
            "self.name != 'disabled' || !(has(self.drafter) || has(self.tokens))",
            "disabled has neither drafter nor tokens",
        ),
        CelRule(
            "levels_incomplete",
            "self.name == 'disabled' || (has(self.drafter) && has(self.tokens))",
            "every level but disabled needs a drafter and tokens",
        ),
        CelRule(
            "ranges_unclear",
            "!has(self.tokensByBatch) || (has(self.tokens) && self.tokensByBatch.all(x, x.tokens < self.tokens) && "
            "self.tokensByBatch.map(x, x.fromRequests).isSorted() && self.tokensByBatch.all(x, "
            "self.tokensByBatch.exists_one(y, y.fromRequests == x.fromRequests)))",
            "tokensByBatch must rise in requests, each with fewer tokens than the level's own",
        ),
    ),
    model.AlertBinding: (
        CelRule(
            "LabelName",
            "self.match.all(k, size(k) <= 128 && k.matches('^[a-zA-Z_][a-zA-Z0-9_]*$'))",
            "match must have label names as keys",
        ),
    ),
    model.SpecPolicySpec: (
        *(_unique(items) for items in ("drafters", "levels", "rules", "schedules")),
        CelRule(
            "disabled_not_last",
            "!has(self.levels) || (self.levels[size(self.levels) - 1].name == 'disabled' && "
            "self.levels.exists_one(x, x.name == 'disabled'))",
            "the last level must be disabled, and no other may be",
        ),
        CelRule(
            "drafters_unknown",
            "!has(self.levels) || self.levels.all(x, !has(x.drafter) || "
            "(has(self.drafters) && self.drafters.exists(y, y.name == x.drafter)))",
            "levels must name drafters of this policy",
        ),
        CelRule(
            "tokens_not_falling",
            "!has(self.levels) || !has(self.drafters) || self.drafters.all(d, self.levels.filter(x, "
            "has(x.drafter) && has(x.tokens) && x.drafter == d.name).map(x, 0 - x.tokens).isSorted())",
            "tokens must fall from level to level of one drafter",
        ),
        CelRule(
            "tokens_not_falling",
            "!has(self.levels) || self.levels.all(x, !has(x.drafter) || !has(x.tokens) || self.levels.exists_one(y, "
            "has(y.drafter) && has(y.tokens) && y.drafter == x.drafter && y.tokens == x.tokens))",
            "no two levels may have the same drafter and tokens",
        ),
        _known_level("rule_levels_unknown", "rules", "action.level"),
        _known_level("schedule_levels_unknown", "schedules", "level"),
        _known_level("alert_levels_unknown", "alerts", "action.level"),
        # Durations with defaults are compared here, not where they stand: there `default: {}` itself would be refused.
        CelRule(
            "evidence_short",
            "self.signals.maxEvidenceSeconds >= self.signals.windowSeconds",
            "signals.maxEvidenceSeconds must be at least signals.windowSeconds",
        ),
        CelRule(
            "interval_long",
            "self.intervalSeconds <= self.signals.windowSeconds",
            "intervalSeconds must be at most signals.windowSeconds",
        ),
        CelRule(
            "probe_gap_shrinks",
            "self.guardrails.probe.maxSeconds >= self.guardrails.probe.afterSeconds",
            "guardrails.probe.maxSeconds must be at least guardrails.probe.afterSeconds",
        ),
    ),
}

_PART = "x-part"
"""Remembers in a schema under work which model it came from."""
_RULES_BY_NAME = {part.__name__: rules for part, rules in RULES.items()}
_LIST_MAPS = {Condition.__name__: ["type"]}
_KEPT = (
    "description", "type", "format", "enum", "default", "minimum", "maximum", "pattern", "minLength", "maxLength",
    "minItems", "maxItems", "minProperties", "maxProperties", "required",
)  # fmt: skip

PRINTER_COLUMNS = (
    ("Target", "string", ".spec.targetRef.name", "The workload that the policy governs."),
    ("Mode", "string", ".spec.mode", "Recommend says what it would do; Enforce does it."),
    ("Level", "string", ".status.observedLevel", "The level that runs."),
    ("Acceptance", "integer", ".status.acceptancePercent", "Acceptance rate in the latest evidence, percent."),
    ("Ready", "string", ".status.conditions[?(@.type=='Ready')].status", "Whether the policy works."),
    ("Age", "date", ".metadata.creationTimestamp", "When the policy was created."),
)


def crd() -> Schema:
    """The CustomResourceDefinition, as plain data in the order that a reader wants."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{model.GROUP}"},
        "spec": {
            "group": model.GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": model.KIND,
                "listKind": f"{model.KIND}List",
                "plural": PLURAL,
                "singular": model.KIND.lower(),
                "shortNames": ["specpol"],
            },
            "versions": [_version()],
        },
    }


def _version() -> Schema:
    return {
        "name": model.VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": name, "type": kind, "jsonPath": path, "description": description}
            for name, kind, path, description in PRINTER_COLUMNS
        ],
        "schema": {"openAPIV3Schema": _object()},
    }


def _object() -> Schema:
    return {
        "description": " ".join((model.SpecPolicy.__doc__ or "").split()),
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": structural_schema(model.SpecPolicySpec),
            "status": structural_schema(SpecPolicyStatus),
        },
    }


def structural_schema(part: type[BaseModel]) -> Schema:
    """The schema of a model as Kubernetes takes it, CEL rules included."""
    schema = part.model_json_schema(by_alias=True)
    definitions = schema.pop("$defs", {})
    return _structural({**schema, _PART: part.__name__}, definitions)


def _structural(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    schema = _resolved(schema, definitions)
    result = {key: schema[key] for key in _KEPT if key in schema and schema[key] is not None}
    if "description" in result:
        result["description"] = " ".join(result["description"].split())
    if "properties" in schema:
        result["properties"] = {
            name: _property(field, name in schema.get("required", ()), definitions)
            for name, field in schema["properties"].items()
        }
    if "items" in schema:
        result |= _list_type(schema["items"])
        result["items"] = _structural(schema["items"], definitions)
    if (values := _values(schema)) is not None:
        result["additionalProperties"] = _structural(values, definitions)
    if rules := _RULES_BY_NAME.get(schema.get(_PART, "")):
        result["x-kubernetes-validations"] = [{"rule": one.rule, "message": one.message} for one in rules]
    return result


def _property(field: Schema, required: bool, definitions: Mapping[str, Schema]) -> Schema:
    result = _structural(field, definitions)
    always_there = not required and "anyOf" not in field and "default" not in result
    if always_there and result["type"] == "object":
        # Defaults of the fields inside are filled in only where their parent is.
        result = {key: result[key] for key in ("description", "type")} | {"default": {}} | result
    return result


def _resolved(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """Without references and null alternatives; what stands beside one of them wins."""
    if "anyOf" in schema:
        (other,) = (one for one in schema["anyOf"] if one != {"type": "null"})
        beside = {key: value for key, value in schema.items() if key != "anyOf"}
        return _resolved({**other, **beside}, definitions)
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return {**definitions[name], **beside, _PART: name}
    return schema


def _list_type(items: Schema) -> Schema:
    keys = _LIST_MAPS.get(items.get("$ref", "").rpartition("/")[2])
    if keys is None:
        return {"x-kubernetes-list-type": "atomic"}
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys}


def _values(schema: Schema) -> Schema | None:
    """The schema of a map's values; what pydantic asks of its keys is a CEL rule."""
    patterns = list(schema.get("patternProperties", {}).values())
    values = patterns[0] if patterns else schema.get("additionalProperties")
    return values if isinstance(values, dict) else None
