"""The values that a parameter takes in a sweep: `LOW..HIGH`, `LOW..HIGH:STEP`, or a list `A,B,C`."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from specloop_sim.sweep.fields import Field, Value, VaryError

RANGE = re.compile(r"(?P<low>[^:]+?)\.\.(?P<high>[^:]+?)(:(?P<step>.+))?")
INTEGER = re.compile(r"-?[0-9]{1,18}")
DECIMAL = re.compile(r"[0-9]\.[0-9]")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A field with the values that it takes, rising where they are numbers, each once."""

    field: Field
    values: Sequence[Value]
    asked: str
    """The values as they are written: in a study's header, and in answers."""

    @property
    def ordered(self) -> bool:
        """Whether values that stand side by side are alike."""
        return self.field.schema.get("type") == "integer" or self.field.is_decimal


def parameter(field: Field, text: str) -> Parameter:
    """A field with the values in a text.  Raises VaryError for what the field does not take."""
    numeric = field.schema.get("type") == "integer" or field.is_decimal
    if numeric and (found := RANGE.fullmatch(text)):
        low, high = _number(field, found["low"]), _number(field, found["high"])
        step = 1 if found["step"] is None else _step(field, found["step"])
        if low > high:
            raise VaryError(f"{field.path}: {found['low']} is above {found['high']}; write the smaller one first")
        return _of_numbers(field, range(low, high + 1, step), text)
    texts = [one.strip() for one in text.split(",")]
    if numeric:
        return _of_numbers(field, sorted({_number(field, one) for one in texts}), text)
    return Parameter(field, tuple(dict.fromkeys(_word(field, one) for one in texts)), text)


def parameter_of(field: Field, numbers: Iterable[int]) -> Parameter:
    """A numeric field with those of some numbers that it takes; decimals in tenths."""
    low, high = _bounds(field)
    kept = sorted({one for one in numbers if low <= one <= high})
    return _of_numbers(field, kept, ",".join(_spell(field, one) for one in kept))


def tenths(value: Value) -> int:
    """A decimal, "0.6", in tenths."""
    return int(str(value).replace(".", ""))


def _of_numbers(field: Field, numbers: Sequence[int], asked: str) -> Parameter:
    values: Sequence[Value] = tuple(_spell(field, one) for one in numbers) if field.is_decimal else numbers
    return Parameter(field, values, asked)


def _spell(field: Field, number: int) -> str:
    return f"{number // 10}.{number % 10}" if field.is_decimal else str(number)


def _bounds(field: Field) -> tuple[int, int]:
    """Smallest and largest number; of decimals in tenths."""
    return (0, 99) if field.is_decimal else (field.schema["minimum"], field.schema["maximum"])


def _number(field: Field, text: str) -> int:
    """A number within the field's bounds; a decimal in tenths."""
    low, high = _bounds(field)
    allowed = f"{_spell(field, low)} to {_spell(field, high)}"
    number = _plain(field, text, f"allowed: {allowed}")
    if not low <= number <= high:
        raise VaryError(f"{field.path}: {text} is out of range; allowed: {allowed}")
    return number


def _step(field: Field, text: str) -> int:
    step = _plain(field, text, "a step is one too")
    if step < 1:
        raise VaryError(f"{field.path}: a step of {text} leads nowhere; write one above 0")
    return step


def _plain(field: Field, text: str, hint: str) -> int:
    if field.is_decimal:
        if not DECIMAL.fullmatch(text):
            raise VaryError(f"{field.path}: {text!r} is not a number with one decimal, such as 0.6; {hint}")
        return tenths(text)
    if not INTEGER.fullmatch(text):
        raise VaryError(f"{field.path}: {text!r} is not a whole number; {hint}")
    return int(text)


def _word(field: Field, text: str) -> Value:
    """A value of a field that is no number."""
    if field.schema.get("type") == "boolean":
        if text not in ("true", "false"):
            raise VaryError(f"{field.path}: {text!r} is neither true nor false")
        return text == "true"
    if (choices := field.schema.get("enum")) is not None and text not in choices:
        raise VaryError(f"{field.path}: {text!r} is not known there; one of: {', '.join(choices)}")
    if not text or not re.fullmatch(field.schema.get("pattern", ".*"), text):
        raise VaryError(f"{field.path}: {text!r} cannot stand there; {field.schema.get('description', '')}")
    return text
