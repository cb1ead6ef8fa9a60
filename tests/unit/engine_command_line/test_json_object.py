"""JSON text: what stays is untouched."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specloop_engine.json_object import JsonError, changed_object, parse


@pytest.mark.parametrize(
    ("text", "new", "expected"),
    [
        ('{"a":1,"b":2}', {"a": 3, "b": 2}, '{"a":3,"b":2}'),
        ('{"a": 1.50, "b": "\\u00e9"}', {"a": 1.5, "b": "é", "c": 1}, '{"a": 1.50, "b": "\\u00e9", "c": 1}'),
        ('{ "a" : 1, "b" : 2 }', {"b": 2}, '{ "b" : 2 }'),
        ('{ "a" : 1, "b" : 2 }', {"a": 1}, '{ "a" : 1 }'),
        ('{\n  "a": 1,\n  "b": 2\n}\n', {"a": 1, "c": [1]}, '{\n  "a": 1,\n  "c": [1]\n}\n'),
        ('{"a": {"x" : 1}}', {"a": {"x": 1}, "b": True}, '{"a": {"x" : 1}, "b": true}'),
        ('{"a":1}', {"a": True}, '{"a":true}'),
        ('{"a":1}', {}, "{}"),
        (" {} ", {"a": 1}, '{"a":1}'),
    ],
)
def test_members_that_stay_keep_their_text(text: str, new: dict[str, Any], expected: str) -> None:
    assert changed_object(text, new) == expected


KEYS = st.sampled_from(("a", "b", 'c"', "d:e", ",", "}", "ü"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=4,
)
BLANKS = st.sampled_from(("", " ", "\n", "\t "))


@st.composite
def objects(draw: st.DrawFn) -> str:
    """The text of an object, with blanks where JSON allows them."""
    blanks = iter(draw(st.lists(BLANKS, min_size=20, max_size=20)))
    members = [
        f"{next(blanks)}{json.dumps(key)}{next(blanks)}:{next(blanks)}{json.dumps(value)}{next(blanks)}"
        for key, value in draw(st.dictionaries(KEYS, VALUES, max_size=4)).items()
    ]
    return f"{next(blanks)}{{{','.join(members) or next(blanks)}}}{next(blanks)}"


@given(objects(), st.dictionaries(KEYS, VALUES, max_size=4))
def test_a_changed_object_holds_what_it_is_told(text: str, new: dict[str, Any]) -> None:
    assert parse(changed_object(text, new)) == new


@given(objects())
def test_an_object_told_what_it_holds_is_unchanged(text: str) -> None:
    found = parse(text)
    assert changed_object(text, found) == text or found == {}


@given(st.text(st.sampled_from('{}[]":,0e-. \\nultrfas\ud800'), max_size=20))
def test_any_text_is_json_or_refused(text: str) -> None:
    try:
        value = parse(text)
    except JsonError:
        return
    if isinstance(value, dict):
        assert parse(changed_object(text, value)) == value


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":2}',
        '{"a":{"b":1,"b":1}}',
        "NaN",
        "-Infinity",
        "",
        "{",
        "[" * 100_000,
        "[" * 60 + "]" * 60,
        "1" * 5_000,
    ],
)
def test_what_readers_understand_differently_is_refused(text: str) -> None:
    with pytest.raises(JsonError):
        parse(text)
