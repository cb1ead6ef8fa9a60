"""YAML from strangers becomes data with lines, or a mistake with its line; never a surprise."""

from pathlib import Path
from typing import Any

import pytest

from specloop_cli.errors import InputError
from specloop_cli.yaml_file import BadFile, Document, read_nodes, read_text, spell, to_document


def documents(text: str) -> list[Document]:
    return [to_document(node) for node in read_nodes(text)]


def only(text: str) -> Document:
    (document,) = documents(text)
    return document


def refusal(text: str) -> tuple[int, str]:
    with pytest.raises(BadFile) as caught:
        documents(text)
    return caught.value.mistake.line, caught.value.mistake.message


def refused_bytes(tmp_path: Path, data: bytes) -> tuple[int, str]:
    path = tmp_path / "policy.yaml"
    path.write_bytes(data)
    with pytest.raises(BadFile) as caught:
        read_text(str(path))
    return caught.value.mistake.line, caught.value.mistake.message


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("0.5", 0.5),
        ('"0.6"', "0.6"),
        ("off", False),
        ("true", True),
        ("~", None),
        ("2024-01-01", "2024-01-01"),
        ("0x10", 16),
        ("!!str 5", "5"),
    ],
)
def test_scalars_are_what_json_has(text: str, value: Any) -> None:
    assert only(f"a: {text}").data == {"a": value}


def test_every_value_knows_its_line_and_its_own_words() -> None:
    document = only("spec:\n  levels:\n    - name: k5\n      tokens: 5\n    - {name: off}\n")
    assert document.line(("spec", "levels", 0, "tokens")) == 4
    assert document.line(("spec", "levels", 1)) == 5
    assert document.written(("spec", "levels", 1, "name")) == "off"


def test_a_field_that_is_not_there_has_the_line_of_what_is_around_it() -> None:
    assert only("spec:\n  signals:\n    windowSeconds: 5\n").line(("spec", "signals", "nothing", 3)) == 2


def test_a_key_given_twice_names_both_lines() -> None:
    (mistake,) = only("spec:\n  mode: A\n  suspend: true\n  mode: B\n").mistakes
    assert (mistake.field, mistake.line) == ("spec.mode", 4)
    assert mistake.message == "given twice, on lines 2 and 4"


def test_aliases_and_merges_are_written_out() -> None:
    text = "base: &base {a: 1, b: 2}\none: *base\ntwo: {<<: *base, b: 3}\n"
    assert only(text).data == {"base": {"a": 1, "b": 2}, "one": {"a": 1, "b": 2}, "two": {"a": 1, "b": 3}}


def test_aliases_that_grow_without_end_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    assert "more than 10000 values, aliases written out" in refusal("\n".join(lines))[1]


def test_a_value_that_holds_itself_is_refused() -> None:
    assert "more than 10000 values, aliases written out" in refusal("a: &a [*a]")[1]


def test_deep_nesting_is_refused_with_its_line() -> None:
    assert refusal("a: 1\nb: " + "[\n" * 200) == (101, "nested more than 100 deep")
    assert "depth" in refusal("[" * 100_000)[1]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: [1, 2\n", 3, "not YAML"),
        ("a: b: c\n", 1, "mapping values are not allowed"),
        ("a:\n\tb: 1\n", 2, "in the indentation"),
        ("a: *nobody\n", 1, "undefined alias"),
        ("a: 'open\n", 2, "unexpected end of stream"),
        ("a: 1\n  b: 2\n", 2, "not YAML"),
    ],
)
def test_a_syntax_error_has_its_line(text: str, line: int, words: str) -> None:
    found = refusal(text)
    assert abs(found[0] - line) <= 1
    assert words in found[1]


@pytest.mark.parametrize("text", ["a: !!python/object:os.system x", "a: !mine 5", "a: !!int x", "a: 0x" + "f" * 5000])
def test_tags_and_numbers_that_no_api_takes_are_mistakes(text: str) -> None:
    (mistake,) = only(text).mistakes
    assert (mistake.field, mistake.line) == ("a", 1)


def test_a_key_that_is_no_text_is_a_mistake() -> None:
    assert "must be a text" in only("? [a, b]\n: 1\n").mistakes[0].message


def test_empty_documents_are_passed_over() -> None:
    assert [one.data for one in documents("---\n---\na: 1\n---\n# nothing\n---\nb: 2\n")] == [{"a": 1}, {"b": 2}]


def test_other_encodings_are_named(tmp_path: Path) -> None:
    assert refused_bytes(tmp_path, "a: 1".encode("utf-16")) == (1, "the file is UTF-16 or UTF-32")
    assert refused_bytes(tmp_path, b"a: 1\nb: caf\xe9\n") == (2, "byte 0xe9 is not UTF-8")


def test_a_byte_order_mark_is_fine(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1")
    assert only(read_text(str(path))).data == {"a": 1}


def test_control_characters_are_named_with_their_line(tmp_path: Path) -> None:
    assert refused_bytes(tmp_path, b"a: 1\nb: \x00\n") == (2, "control character U+0000")


def test_a_file_over_a_mebibyte_is_refused(tmp_path: Path) -> None:
    assert refused_bytes(tmp_path, b"#" * (1 << 20) + b"\n") == (1, "the file is larger than 1 MiB")


@pytest.mark.parametrize("name", [".", "missing", "a\x00b"])
def test_what_cannot_be_read_at_all_is_an_input_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="cannot read"):
        read_text(f"{tmp_path}/{name}")


def test_a_path_is_spelt_as_kubernetes_spells_it() -> None:
    where = ("spec", "alerts", 0, "match", "alert name")
    assert spell(where) == "spec.alerts[0].match['alert name']"
