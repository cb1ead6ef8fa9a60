"""What pydantic found wrong in a policy, in words that say how to mend it."""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from specloop_cli.yaml_file import Document, Mistake, Where, spell
from specloop_policy.model import GROUP, KIND, VERSION, Metadata

Schema = Mapping[str, Any]

EMPTY = "empty"
"""Kind of a field that is there without a value; pydantic has no word for it."""


@dataclass(frozen=True, slots=True)
class Flaw:
    """One thing that pydantic, or what stands in for it, found wrong."""

    where: Where
    kind: str
    """pydantic's name for the kind of error, such as `int_type`."""
    value: Any = None
    details: Mapping[str, Any] = field(default_factory=dict)
    """What the error kind adds: bounds, patterns, the exception of a validator."""
    shown: Where | None = None
    """Path in the file, where that differs because the name of a field around it is misspelt."""

    @property
    def place(self) -> Where:
        """Path in the file."""
        return self.where if self.shown is None else self.shown


def describe(flaw: Flaw, document: Document) -> Mistake:
    """The flaw as a reader of the file sees it."""
    message, hint = _WORDS.get(flaw.kind, _unexpected)(flaw, document)
    return Mistake(spell(flaw.place), document.line(flaw.place), message, hint)


@cache
def whole_schema() -> Schema:
    """The policy's schema without references; it has every bound, default and description."""
    from specloop_policy.crd import crd  # only mistakes need it, and it takes a while

    schema: dict[str, Any] = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    name = Metadata.model_json_schema()["properties"]["name"]
    return {
        **schema,
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "properties": {
            **schema["properties"],
            "apiVersion": {"type": "string", "enum": [f"{GROUP}/{VERSION}"]},
            "kind": {"type": "string", "enum": [KIND]},
            "metadata": {"type": "object", "required": ["name"], "properties": {"name": name}},
        },
    }


def schema_at(where: Where) -> Schema:
    """The schema of the field at this path; empty where there is none."""
    schema = whole_schema()
    for key in where:
        inner = schema.get("items") if isinstance(key, int) else schema.get("properties", {}).get(key)
        schema = inner or schema.get("additionalProperties") or {}
    return schema


def nearest(word: str, known: Iterable[str], likeness: float = 0.7) -> str | None:
    """The known word that was probably meant: case, dashes and underscores do not count."""
    plain = {_plain(one): one for one in known}
    close = difflib.get_close_matches(_plain(word), plain, n=1, cutoff=likeness)
    return plain[close[0]] if close else None


def intended(flaw: Flaw) -> str | None:
    """The field that an unknown field was probably meant to be."""
    return nearest(str(flaw.where[-1]), schema_at(flaw.where[:-1]).get("properties", ()))


def _plain(word: str) -> str:
    return re.sub(r"[^a-z0-9]", "", word.lower())


Words = tuple[str, str]


def _unknown(flaw: Flaw, document: Document) -> Words:
    if meant := intended(flaw):
        return "unknown field", f"did you mean {meant}?"
    known = ", ".join(schema_at(flaw.where[:-1]).get("properties", ()))
    return "unknown field", f"fields here: {known}" if known else "remove it"


def _missing(flaw: Flaw, document: Document) -> Words:
    schema = schema_at(flaw.where)
    if "enum" in schema:
        return "is missing", "one of: " + ", ".join(schema["enum"])
    return "is missing", "add it: " + schema.get("description", str(flaw.where[-1]))


def _empty(flaw: Flaw, document: Document) -> Words:
    return "has no value", "write one, or remove the line"


def _no_text(flaw: Flaw, document: Document) -> Words:
    written = document.written(flaw.place)
    if written is None:
        return f"must be text, not {_kind(flaw.value)}", schema_at(flaw.where).get("description", "write a text")
    if isinstance(flaw.value, bool):
        return f"YAML reads {written} as {str(flaw.value).lower()}, not as text", _bool_hint(flaw, written)
    return f"must be text, and {written} is a number", f'put it in quotes: "{written}"'


def _bool_hint(flaw: Flaw, written: str) -> str:
    if flaw.where[-1] in ("name", "level") and not flaw.value:
        return "the level without speculation is called `disabled`"
    return f'choose another word, or put it in quotes: "{written}"'


def _no_whole_number(flaw: Flaw, document: Document) -> Words:
    allowed = _range(schema_at(flaw.where))
    written = document.written(flaw.place)
    if isinstance(flaw.value, str) and re.fullmatch(r"-?[0-9]+", flaw.value):
        return "must be a number, not text", f"remove the quotes: {flaw.value}"
    if isinstance(flaw.value, float) and str(flaw.where[-1]).endswith("Percent") and 0 < flaw.value < 1:
        return f"{written} is not in percent", f"write {round(flaw.value * 100)}"
    if isinstance(flaw.value, float):
        return f"{written} is not a whole number", f"a whole number, {allowed}"
    if isinstance(flaw.value, str):
        return f"{_quoted(flaw.value)} is not a whole number", f"a whole number without unit, {allowed}"
    return f"must be a whole number, not {_kind(flaw.value)}", f"a whole number, {allowed}"


def _out_of_range(flaw: Flaw, document: Document) -> Words:
    return f"{_quoted(flaw.value)} is out of range", f"allowed: {_range(schema_at(flaw.where))}"


def _range(schema: Schema) -> str:
    return f"{schema.get('minimum', 'any')} to {schema.get('maximum', 'any')}"


def _no_choice(flaw: Flaw, document: Document) -> Words:
    choices = schema_at(flaw.where).get("enum", ())
    written = document.written(flaw.place)
    message = f"{_quoted(written or flaw.value)} is not known here"
    if meant := nearest(str(written or flaw.value), choices):
        return message, f"did you mean {meant}?"
    return message, ("one of: " if len(choices) > 1 else "write ") + ", ".join(choices)


def _bad_pattern(flaw: Flaw, document: Document) -> Words:
    pattern = flaw.details.get("pattern", "")
    if "a-z0-9" in pattern:
        proposal = re.sub(r"[^a-z0-9]+", "-", str(flaw.value).lower()).strip("-")[:63]
        letters = (
            "lower-case letters, digits, dashes and dots" if "." in pattern else "lower-case letters, digits and dashes"
        )
        hint = f"{letters}, beginning and ending with a letter or digit"
        return f"{_quoted(flaw.value)} is not a name", hint + (f", such as {proposal}" if proposal else "")
    if "._" in pattern:
        return f"{_quoted(flaw.value)} is no key of a Secret", "letters, digits, dots, dashes and underscores"
    if r"\." in pattern:
        return f"{_quoted(flaw.value)} is not a number with one decimal", 'quoted, with one decimal, such as "0.6"'
    return f"{_quoted(flaw.value)} is not a label name", "letters, digits and underscores, no digit first"


def _bad_length(flaw: Flaw, document: Document) -> Words:
    schema = schema_at(flaw.where)
    if isinstance(flaw.value, str):
        allowed = f"{schema.get('minLength', 0)} to {schema.get('maxLength', 'any number of')} characters"
        return f"{len(flaw.value)} characters are too {_too(flaw)}", f"allowed: {allowed}"
    kind = "Items" if isinstance(flaw.value, list) else "Properties"
    allowed = f"{schema.get('min' + kind, 0)} to {schema.get('max' + kind, 'any number of')} entries"
    return f"{len(flaw.value)} entries are too {_too(flaw)}", f"allowed: {allowed}; without any, remove the field"


def _too(flaw: Flaw) -> str:
    short = flaw.kind.endswith("short")
    return ("short" if short else "long") if isinstance(flaw.value, str) else ("few" if short else "many")


def _no_boolean(flaw: Flaw, document: Document) -> Words:
    return f"{_quoted(flaw.value)} is neither true nor false", "write true or false, without quotes"


def _no_mapping(flaw: Flaw, document: Document) -> Words:
    fields = ", ".join(schema_at(flaw.where).get("properties", ()))
    return f"must be a mapping, not {_kind(flaw.value)}", f"fields here: {fields}" if fields else "write name: value"


def _no_list(flaw: Flaw, document: Document) -> Words:
    return f"must be a list, not {_kind(flaw.value)}", "begin every entry with a dash"


def _clash(flaw: Flaw, document: Document) -> Words:
    error = flaw.details.get("error")
    return str(error), getattr(error, "hint", "")


def _unexpected(flaw: Flaw, document: Document) -> Words:
    return f"{_quoted(flaw.value)} is not allowed here", schema_at(flaw.where).get("description", "see the reference")


def _kind(value: Any) -> str:
    names = {dict: "a mapping", list: "a list", bool: "true or false", int: "a number", float: "a number"}
    return names.get(type(value), "text")


def _quoted(value: Any) -> str:
    text = str(value)
    short = text if len(text) <= 40 else text[:37] + "..."
    return repr(short) if isinstance(value, str) else short


_WORDS: Mapping[str, Callable[[Flaw, Document], Words]] = {
    EMPTY: _empty,
    "bool_type": _no_boolean,
    "dict_type": _no_mapping,
    "enum": _no_choice,
    "extra_forbidden": _unknown,
    "greater_than_equal": _out_of_range,
    "int_from_float": _no_whole_number,
    "int_parsing_size": _out_of_range,
    "int_type": _no_whole_number,
    "less_than_equal": _out_of_range,
    "list_type": _no_list,
    "literal_error": _no_choice,
    "missing": _missing,
    "model_type": _no_mapping,
    "string_pattern_mismatch": _bad_pattern,
    "string_too_long": _bad_length,
    "string_too_short": _bad_length,
    "string_type": _no_text,
    "too_long": _bad_length,
    "too_short": _bad_length,
    "tuple_type": _no_list,
    "value_error": _clash,
}
"""Words for each kind of error that pydantic reports on our models."""
