"""Values are put into YAML, changed and taken out with every other byte left as it is."""

import pytest
import yaml

from specloop_cli.inject_edits import Edits
from specloop_cli.inject_yaml import Refusal, Sheet, shared_nodes
from specloop_cli.yaml_file import read_nodes
from tests.unit.inject.manifests import inject, speculating, templates, uninject


def sheet(text: str) -> Sheet:
    """The first document of a text."""
    root = next(read_nodes(text))
    return Sheet(Edits(text), root, shared_nodes(root))


def with_key(text: str) -> str:
    """A text with a key `z` in its mapping `a`."""
    one = sheet(text)
    one.add_keys(("a",), {"z": 1})
    return one.edits.text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:\n  b: 1\n", "a:\n  b: 1\n  z: 1\n"),
        ("a:\n  b: 1  # one\n\n# two\nc: 1\n", "a:\n  b: 1  # one\n  z: 1\n\n# two\nc: 1\n"),
        ("a:\n  b: 1\n   # of b\n# of c\nc: 1\n", "a:\n  b: 1\n   # of b\n  z: 1\n# of c\nc: 1\n"),
        ("a:\n  b: 1", "a:\n  b: 1\n  z: 1"),
        ("a:\n  b:\n  - c\nd:\n", "a:\n  b:\n  - c\n  z: 1\nd:\n"),
        ("a:\n  b: |\n    x\n\nc: 1\n", "a:\n  b: |\n    x\n  z: 1\n\nc: 1\n"),
        ("a:\n  b: |+\n    x\n\nc: 1\n", "a:\n  b: |+\n    x\n\n  z: 1\nc: 1\n"),
        ("a:\n  b: {\n    c: 1 }\n", "a:\n  b: {\n    c: 1 }\n  z: 1\n"),
        ("a: {b: 1}\n", 'a: {b: 1, "z": 1}\n'),
        ("a: {b: 1, }\n", 'a: {b: 1, "z": 1, }\n'),
        ("a: { }\n", 'a: { "z": 1}\n'),
        ("a: {b: 1  # one\n  }\n", 'a: {b: 1, "z": 1  # one\n  }\n'),
        ("a:  # none\nb: 1\n", 'a: {"z": 1}  # none\nb: 1\n'),
        ("a: ~\n", 'a: {"z": 1}\n'),
        ("b: 1\n", "b: 1\na:\n  z: 1\n"),
        ("a:\r\n  b: 1\r\n", "a:\r\n  b: 1\r\n  z: 1\r\n"),
    ],
)
def test_a_key_comes_after_the_others(text: str, expected: str) -> None:
    assert with_key(text) == expected


def test_what_is_put_in_at_one_place_goes_in_by_depth() -> None:
    one = sheet("a:\n- b:\n  - c")
    one.add_keys((), {"z": 1})
    one.add_items(("a",), [{"y": 1}])
    one.add_items(("a", 0, "b"), ["x"])
    assert yaml.safe_load(one.edits.text) == {"a": [{"b": ["c", "x"]}, {"y": 1}], "z": 1}
    assert one.edits.text.startswith("a:\n- b:\n  - c\n")


@pytest.mark.parametrize(("text", "words"), [("a: text\n", "neither a list nor a mapping"), ("a: [1]\n", "a mapping")])
def test_a_value_of_another_kind_is_refused(text: str, words: str) -> None:
    with pytest.raises(Refusal, match=words):
        with_key(text)


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        ("- plain\n", "--flag=a b", "- --flag=a b\n"),
        ("- plain\n", "true", "- 'true'\n"),
        ("- plain\n", "1e3", "- '1e3'\n"),
        ("- plain  # c\n", "a: b # d", "- 'a: b # d'  # c\n"),
        ("- 'one'\n", "it's", "- 'it''s'\n"),
        ('- "one"\n', 'a "b"', '- "a \\"b\\""\n'),
        ("- |\n  a \\\n    b\n", "a \\\n  b c\n", "- |\n  a \\\n    b c\n"),
        ("- |-  # c\n  a\n\n  b\n", "a\n\nb c", "- |-  # c\n  a\n\n  b c\n"),
        ("- >-\n  a --b\n  --c\n", "a --b --c --d", "- >-\n  a\n  --b\n  --c\n  --d\n"),
        ("- >\n  a\n", "  a\n", '- "  a\\n"\n'),
        ("[plain]\n", "a, b", '["a, b"]\n'),
        ("[plain]\n", "$(A)", "[$(A)]\n"),
    ],
)
def test_a_text_keeps_its_style_where_it_can(before: str, value: str, after: str) -> None:
    one = sheet(before)
    one.change_items((), 0, 1, [value])
    assert one.edits.text == after
    assert yaml.safe_load(after) == [value]


def test_a_literal_that_keeps_its_blank_lines_is_read_as_before() -> None:
    """Lines put in behind it must not cut them off."""
    text = speculating(container="tty: false\nworkingDir: |+\n  /a\n\n")
    (template,) = templates(inject(text).after)
    assert template["spec"]["containers"][0]["workingDir"] == "/a\n\n"
    assert uninject(inject(text).after) == text


def test_what_stands_in_several_places_is_left_alone() -> None:
    text = "x: &x {b: 1}\na: *x\n"
    with pytest.raises(Refusal, match="a is an anchor or alias"):
        with_key(text)
    assert with_key("x: &x {b: 1}\na: {b: 1}\n") == 'x: &x {b: 1}\na: {b: 1, "z": 1}\n'
