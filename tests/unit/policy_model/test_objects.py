"""Example objects get the same verdict from the models as from an API server, each for the reason in its name.

`objects/accepted` and `objects/refused` are tried on a real API server too; a refused object is named after the one
rule that it breaks, or begins with `schema` when a single field is wrong.
"""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from pydantic import BaseModel, ValidationError

from specloop_policy import contradictions, model
from specloop_policy.crd import RULES, crd
from specloop_policy.model import SpecPolicy

OBJECTS = Path(__file__).parent / "objects"
ACCEPTED = sorted((OBJECTS / "accepted").glob("*.yaml"))
REFUSED = sorted((OBJECTS / "refused").glob("*.yaml"))
VALIDATOR = jsonschema.Draft202012Validator(crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
IN_A_TYPE = {"LabelName"}
"""Rules that hold in one field's type in Python, and need CEL all the same."""


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def parse(data: Any) -> SpecPolicy:
    return SpecPolicy.model_validate_json(json.dumps(data), by_alias=True, by_name=False)


def broken_rules(data: Any) -> set[str]:
    """Names of the rules that an object breaks."""
    try:
        policy = parse(data)
    except ValidationError as error:
        return {name_of(one) for one in error.errors() if not only_seems_short(one)}
    return {check.__name__ for check in contradictions.CHECKS if any(check(policy.spec))}


def only_seems_short(error: Any) -> bool:
    return error["type"] == "too_short" and len(error["input"]) > 0


def name_of(error: Any) -> str:
    if error["type"] != "value_error":
        return "LabelName" if error["loc"][-1] == "[key]" else "schema"
    message = str(error["ctx"]["error"])
    return next(name for name, words in VALIDATOR_WORDS.items() if words in message)


VALIDATOR_WORDS = {
    "one_side": "exactly one of",
    "some_condition": "names no condition",
    "level_with_switch": "SwitchTo needs a level",
    "direction": "acceptance or gain may only",
}


@pytest.mark.parametrize("path", ACCEPTED, ids=lambda path: path.stem)
def test_an_accepted_object_breaks_no_rule(path: Path) -> None:
    assert broken_rules(read(path)) == set()


@pytest.mark.parametrize("path", ACCEPTED, ids=lambda path: path.stem)
def test_an_accepted_object_fits_the_schema(path: Path) -> None:
    assert [error.message for error in VALIDATOR.iter_errors(read(path))] == []


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.stem)
def test_a_refused_object_breaks_the_rule_in_its_name_and_no_other(path: Path) -> None:
    assert broken_rules(read(path)) == {path.stem.partition("-")[0]}


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.stem)
def test_the_schema_refuses_exactly_what_single_fields_decide(path: Path) -> None:
    fits = VALIDATOR.is_valid(read(path))
    assert fits == (not path.stem.startswith("schema"))


def python_rules() -> set[str]:
    """Every rule about several fields: the validators of the models, and the contradictions."""
    parts = [one for one in vars(model).values() if isinstance(one, type) and issubclass(one, BaseModel)]
    validators = {name for part in parts for name in part.__pydantic_decorators__.model_validators}
    return validators | {check.__name__ for check in contradictions.CHECKS} | IN_A_TYPE


def test_every_rule_of_the_models_has_a_twin_in_cel_and_the_other_way_round() -> None:
    assert {one.mirrors for rules in RULES.values() for one in rules} - {None} == python_rules()


def test_every_rule_has_an_object_that_it_refuses() -> None:
    assert python_rules() <= {path.stem.partition("-")[0] for path in REFUSED}


def test_every_rule_that_compares_fields_has_an_object_that_just_passes() -> None:
    explained = "\n".join(path.read_text(encoding="utf-8").partition("\n")[0] for path in ACCEPTED)
    named = {rule for rule in python_rules() if rule in explained}
    assert named >= {"tokens_not_falling", "direction", "evidence_short", "interval_long", "probe_gap_shrinks"}
