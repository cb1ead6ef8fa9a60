"""What is read of a page, and what is refused with which words."""

import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from specloop_engine import page as page_module
from specloop_engine.page import MAX_CHARACTERS, MAX_LINE_CHARACTERS, MAX_WANTED_CHARACTERS, PageError, parse_page
from specloop_engine.reader import wanted_series
from tests.unit.engine_metrics.builders import RECORDED, recorded

WANTED = frozenset({"a_total", "b"})


def problem(page: str | bytes) -> str:
    """The words of the error that a page gets."""
    with pytest.raises(PageError) as raised:
        parse_page(page, WANTED)
    return str(raised.value)


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_page_reads_as_prometheus_client_reads_all_of_it(name: str) -> None:
    text = recorded(name.removesuffix(".txt"))
    wanted = wanted_series()
    whole = [
        (sample.name, sample.labels, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name in wanted
    ]
    page = parse_page(text, wanted)
    read = [(one.name, one.labels, one.value) for name in wanted for one in page[name]]
    assert sorted(read, key=repr) == sorted(whole, key=repr)


def test_bytes_text_byte_order_mark_and_windows_line_ends_read_the_same() -> None:
    text = '# TYPE a_total counter\na_total{x="ü"} 1.5\n'
    pages: list[str | bytes] = [text, text.encode(), b"\xef\xbb\xbf" + text.encode(), text.replace("\n", "\r\n")]
    assert all(parse_page(page, WANTED) == parse_page(text, WANTED) for page in pages)


def test_a_series_knows_its_labels_its_value_and_its_line() -> None:
    (one,) = parse_page('\n# HELP b x\n  b { x="a\\"}\\\\,\\n" , y="" , } \t-1e3 \n', WANTED)["b"]
    assert (one.labels, one.value, one.line) == ({"x": 'a"}\\,\n', "y": ""}, -1000.0, 3)


def test_a_name_that_only_begins_like_a_wanted_one_is_another_series() -> None:
    page = parse_page("a_total_created 1\na_total:rate 2\na_tota 3\nxa_total 4\n", WANTED)
    assert page["a_total"] == ()


@pytest.mark.parametrize(
    "line",
    [
        "a_total 17 1700000000000",
        'a_total{x="y"} 17 # {trace_id="KOO5S4vxi0o"} 0.67 1520879607.789',
        'a_total 17 # {trace_id="KOO5S4vxi0o"} 0.67',
    ],
    ids=["timestamp", "exemplar", "exemplar without labels"],
)
def test_timestamps_and_exemplars_are_accepted(line: str) -> None:
    assert [one.value for one in parse_page(line + "\n", WANTED)["a_total"]] == [17.0]


@pytest.mark.parametrize("end", ["# EOF", "# EOF\n"])
def test_the_end_mark_of_openmetrics_is_accepted(end: str) -> None:
    assert len(parse_page(f"a_total 1\n{end}", WANTED)["a_total"]) == 1


def test_nan_and_infinity_are_values() -> None:
    values = [one.value for one in parse_page('b 0\nb{x="1"} NaN\nb{x="2"} +Inf\nb{x="3"} -Inf\n', WANTED)["b"]]
    assert values[0] == 0.0
    assert math.isnan(values[1])
    assert values[2:] == [math.inf, -math.inf]


def test_a_malformed_line_of_another_series_does_not_matter() -> None:
    assert len(parse_page('c{x=} oops\na_total 1\nd{"" 1\n', WANTED)["a_total"]) == 1


def test_a_page_of_other_series_has_none_of_ours() -> None:
    assert parse_page("# TYPE c gauge\nc 1\n", WANTED).series == {}
    assert parse_page('c{x="y"} NaN 1700000000000\n', WANTED).series == {}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a_total", "line 2: cannot be read as a name, labels and a number: 'a_total'"),
        ("a_total one", "line 2: cannot be read as a name, labels and a number: 'a_total one'"),
        ("a_total 1_000", "cannot be read"),
        ("a_total=1", "cannot be read"),
        ('a_total{x="y" 1', "cannot be read"),
        ('a_total{x="y"}', "cannot be read"),
        ("a_total{x=y} 1", "cannot be read"),
        ('a_total{x="1",x="2"} 1', "cannot be read"),
        ('a_total{ ="1"} 1', "cannot be read"),
        ("a_total{,,} 1", "cannot be read"),
        ("a_total " + "9" * 400, "cannot be read"),
        ('a_total{__name__="b"} 1', "cannot be read"),
        ('a_total b{x="1"} 1', "line 2: a_total is not followed by labels or a value: 'a_total b{x=\"1\"} 1'"),
    ],
)
def test_a_malformed_line_of_a_wanted_series_is_named(line: str, words: str) -> None:
    assert words in problem(f"# HELP a_total x\n{line}\nb 1\n")


def test_a_quoted_line_is_short_and_safe_to_print() -> None:
    words = problem("a_total \x1b[31m" + "x" * 500 + "\n")
    assert "\x1b" not in words
    assert len(words) < 200


def test_a_series_that_occurs_twice_is_refused() -> None:
    assert problem('b{x="1",y="2"} 1\nb 2\nb{y="2",x="1"} 3\n') == "line 3: b with the same labels is on line 1 already"


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("", "line 1: the page is empty"),
        (" \n\n", "line 1: the page is empty"),
        pytest.param(b"", "line 1: the page is empty", id="no bytes"),
        ("<!DOCTYPE html>\n<html>", "line 1: this is HTML or XML, not metrics: '<!DOCTYPE html>'"),
        ('\n{"detail": "Not Found"}', 'line 1: this is JSON, not metrics: \'{"detail": "Not Found"}\''),
        ("[1, 2]\n", "this is JSON"),
        ("{}", "this is JSON"),
        ("\nService Not Found\n", "line 2: this is not metrics: 'Service Not Found'"),
        ("404 page not found\n", "this is not metrics"),
        ("upstream connect error or disconnect/reset before headers", "this is not metrics"),
        ("a_total 1\nb 6", "line 2: the page ends inside this line: truncated"),
        ("a_total 1\nvllm:gen", "line 2: the page ends inside this line: truncated"),
        (b"a_total 1\n\xff\n", "line 2: byte 0xff is not UTF-8"),
        (b"\x1f\x8b\x08\x00", "the page is compressed with gzip"),
        ("a_total 1\n".encode("utf-16"), "the page is UTF-16; save it as UTF-8"),
        ("a_total 1\n".encode("utf-16-le"), "line 1: a NUL character: this is binary, not text"),
    ],
)
def test_what_is_no_complete_page_of_metrics_is_refused_in_words(page: str | bytes, words: str) -> None:
    assert words in problem(page)


def test_a_huge_page_is_refused() -> None:
    assert problem(b"#" * (MAX_CHARACTERS + 1)) == (
        "line 1: the page has 16,777,217 characters; 16,777,216 are read at most"
    )


def test_a_huge_line_is_refused() -> None:
    labels = ",".join(f'x{i}="1"' for i in range(3000))
    assert len(labels) > MAX_LINE_CHARACTERS
    assert problem(f"b 1\na_total{{{labels}}} 1\n").startswith("line 2: the line is longer than 16,384 characters")


def test_too_much_of_wanted_series_is_refused() -> None:
    line = f'b{{x="{"y" * 1000}"}} 1\n'  # 1009 characters without its end
    page = line * (MAX_WANTED_CHARACTERS // 1009 + 1)
    assert problem(page) == "line 1040: the engine's series alone have more than 1,048,576 characters"


LABELS = st.dictionaries(
    st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True).filter(lambda name: not name.startswith("__")),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8),
    max_size=3,
)


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


@given(labels=LABELS, value=st.floats(allow_nan=False))
def test_what_is_written_is_what_is_read(labels: dict[str, str], value: float) -> None:
    inner = ",".join(f'{name}="{escaped(text)}"' for name, text in labels.items())
    (one,) = parse_page(f"a_total{{{inner}}} {value!r}\n", WANTED)["a_total"]
    assert (one.labels, one.value) == (labels, value)


@given(text=st.one_of(st.text(max_size=200), st.binary(max_size=200)))
def test_any_text_is_a_page_or_a_page_error(text: str | bytes) -> None:
    with suppress(PageError):
        parse_page(text, WANTED)


TOKENS = [*'{}"=, #-\\\t\n\r', "a_total", "b", "x", "1", "NaN", "e9", "é", "__name__"]


@given(tokens=st.lists(st.sampled_from(TOKENS), max_size=30))
def test_any_order_of_the_format_s_own_tokens_is_a_page_or_a_page_error(tokens: list[str]) -> None:
    with suppress(PageError):
        parse_page("a_total" + "".join(tokens) + "\n", WANTED)


def test_the_limits_leave_room_for_a_real_page_many_times_over() -> None:
    longest = max((recorded(name.removesuffix(".txt")) for name in RECORDED), key=len)
    assert len(longest) * 100 < page_module.MAX_CHARACTERS
