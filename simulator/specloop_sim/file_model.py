"""YAML files as pydantic models: one line that names file, line, field, mistake and mend for whatever is wrong."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from specloop_sim.plain_yaml import BadYaml, Document, Where, read_document

Fault = tuple[Where, str]
"""Where something is wrong, and what, with the mend."""

MISSING = "is missing; add it"
KINDS = {
    "dict_type": "a mapping, such as {prose: 80, chat: 20}",
    "model_type": "a mapping of fields",
    "list_type": "a list",
    "float_type": "a number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "string_type": "a text; put it in quotes",
    "bool_type": "true or false",
}
"""What pydantic calls otherwise."""


class Part(BaseModel):
    """A piece of a file: frozen, strict, and closed to unknown fields."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, strict=True)


class BadFile(ValueError):
    """A file that cannot be used."""


M = TypeVar("M", bound=Part)


def read_model(text: str, name: str, model: type[M], what: str, contradictions: Callable[[M], Iterable[Fault]]) -> M:
    """The model in a text; `name` is the file's and `what` says what it should be, for errors.

    `contradictions` finds what the fields get wrong together.  Raises BadFile in one line.
    """
    try:
        document = read_document(text)
    except BadYaml as error:
        raise BadFile(f"{name}:{error.line}: {error}") from None
    if not isinstance(document.data, dict):
        required = [to_camel(key) for key, one in model.model_fields.items() if one.is_required()]
        raise BadFile(f"{name}:1: this is no {what}; one has {', '.join(required)}")
    found, faults = _judge(document.data, model, contradictions)
    if found is None or faults:
        # What is missing comes last: it often is there, under a name with a mistake in it.
        raise BadFile(_line(name, document, sorted(faults, key=lambda one: (one[1] == MISSING, document.line(one[0])))))
    return found


def _judge(
    data: object, model: type[M], contradictions: Callable[[M], Iterable[Fault]]
) -> tuple[M | None, list[Fault]]:
    """The model that the data is, or at least one fault."""
    try:
        found = model.model_validate(data)
    except ValidationError as error:
        return None, [_described(model, one) for one in error.errors()]
    return found, list(contradictions(found))


def _described(model: type[BaseModel], error: Any) -> Fault:
    """What pydantic found wrong, with its place in the file."""
    where = tuple(key for key in error["loc"] if key != "[key]")
    message = error["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    if error["type"] == "extra_forbidden":
        fields = ", ".join(to_camel(name) for name in _model_at(model, where[:-1]).model_fields)
        return where, f"unknown field; fields here: {fields}"
    if error["type"] == "missing":
        return where, MISSING
    if error["type"] in KINDS:
        return where, f"must be {KINDS[error['type']]}"
    if error["type"] in ("too_short", "too_long"):
        most = error["ctx"].get("max_length")
        return where, "must not be empty; leave it out, or fill it" if most is None else f"has more than {most} entries"
    if error["type"] == "string_pattern_mismatch":
        return where, "is not a name: lower-case letters, digits and dashes"
    return where, message if error["type"] == "value_error" else f"must be {message}"


def _model_at(model: type[BaseModel], where: Where) -> type[BaseModel]:
    """The model of the piece at a place; keys of lists and mappings lead nowhere else."""
    for key in where:
        fields = {to_camel(name): one for name, one in model.model_fields.items()}
        if key in fields:
            model = _model_in(fields[str(key)].annotation) or model
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for one in get_args(annotation) if (found := _model_in(one)) is not None), None)


def _line(name: str, document: Document, faults: list[Fault]) -> str:
    where, message = faults[0]
    field = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in where).removeprefix(".")
    rest = f"; and {len(faults) - 1} more" if len(faults) > 1 else ""
    line = f"{name}:{document.line(where)}: {field}{': ' if field else ''}{message}{rest}"
    return "".join(letter if letter.isprintable() else "?" for letter in line)
