"""Traces read: the known formats, every repair in words, every other mistake by its line."""

import gzip
import io
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specloop_sim.traces.trace import Trace, TraceError, parse_columns, read_trace

EXCERPT = Path(__file__).parent / "data" / "azure-2023-conv-excerpt.csv"
POSITIONS = "time=0,input=1,output=2,unit=s"
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
THREE = AZURE + "2023-11-16 18:00:00,10,1\n2023-11-16 18:00:02,20,2\n2023-11-16 18:00:05,30,3\n"


def read(data: str | bytes, columns: str | None = None) -> Trace:
    raw = data.encode() if isinstance(data, str) else data
    return read_trace(io.BytesIO(raw), "x.csv", parse_columns(columns) if columns else None)


def plain(trace: Trace) -> list[tuple[float, int, int]]:
    rows = zip(trace.arrivals, trace.prompt_tokens, trace.output_tokens, strict=True)
    return [(float(when), int(prompt), int(output)) for when, prompt, output in rows]


THREE_ROWS = [(0.0, 10, 1), (2.0, 20, 2), (5.0, 30, 3)]


class TestFormats:
    """What is recognised, and what --columns adds."""

    def test_the_azure_trace(self) -> None:
        with EXCERPT.open("rb") as file:
            trace = read_trace(file, "conv")
        assert len(trace) == 180
        # 2023-11-16 18:15:46.6805900,374,44, then 18:15:50.9951690,396,109
        assert plain(trace)[:2] == [(0.0, 374, 44), (pytest.approx(4.314579, abs=1e-6), 396, 109)]
        assert trace.start == pytest.approx(datetime(2023, 11, 16, 18, 15, 46, 680590, tzinfo=UTC).timestamp())
        assert trace.repairs == ()
        assert trace.seconds == trace.arrivals[-1]

    def test_azure_2024_has_dates_with_a_zone(self) -> None:
        trace = read(AZURE + "2024-05-10 02:00:00.009930+02:00,10,1\n2024-05-10T00:00:01.509930Z,20,2\n")
        assert plain(trace) == [(0.0, 10, 1), (1.5, 20, 2)]
        assert trace.start == pytest.approx(datetime(2024, 5, 10, 0, 0, 0, 9930, tzinfo=UTC).timestamp())

    def test_mooncake_counts_milliseconds(self) -> None:
        lines = '{"timestamp": 0, "input_length": 6755, "output_length": 500, "hash_ids": [0, 1]}\n'
        lines += '{"hash_ids": [], "output_length": 26.0, "timestamp": "3052", "input_length": 7322}\n'
        trace = read(lines)
        assert plain(trace) == [(0.0, 6755, 500), (3.052, 7322, 26)]
        assert trace.start is None
        assert plain(read('timestamp,input_length,output_length,ids\n0,1,2,"[1, 2]"\n500,3,4,"[]"\n')) == [
            (0.0, 1, 2),
            (0.5, 3, 4),
        ]

    def test_burstgpt_has_failures_without_answer_which_are_left_out(self) -> None:
        header = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        trace = read(header + "5,ChatGPT,472,18,490,API log\n9,GPT-4,30,0,30,API log\n45,ChatGPT,0,230,230,API log\n")
        assert plain(trace) == [(0.0, 472, 18), (40.0, 0, 230)]
        assert trace.repairs == ("1 row was without output tokens, from line 3 on, and left out",)

    def test_case_and_spaces_in_the_header_do_not_matter(self) -> None:
        assert plain(read(THREE.replace("TIMESTAMP,ContextTokens", " timestamp , Context Tokens"))) == THREE_ROWS

    @pytest.mark.parametrize("delimiter", [",", ";", "\t"])
    def test_delimiters(self, delimiter: str) -> None:
        assert plain(read(THREE.replace(",", delimiter))) == THREE_ROWS

    @pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
    def test_line_ends_and_blank_lines(self, end: str) -> None:
        assert plain(read(("\n" + THREE.replace("\n", "\n\n") + ",,\n  \n").replace("\n", end))) == THREE_ROWS

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
    def test_encodings(self, encoding: str) -> None:
        assert plain(read(THREE.encode(encoding))) == THREE_ROWS

    def test_gzip_is_seen_by_its_magic(self) -> None:
        assert plain(read(gzip.compress(THREE.encode(), mtime=0))) == THREE_ROWS

    def test_quotes_extra_columns_and_other_spellings_of_numbers(self) -> None:
        text = 'a,"the ""time""",in,out,note\nx,"0", 12.0 ,1e3,"a, b"\ny,7,+5,2,\n'
        assert plain(read(text, 'time=the "time",input=in,output=out,unit=s')) == [(0.0, 12, 1000), (7.0, 5, 2)]

    def test_columns_by_position_need_no_header_and_pass_one_over(self) -> None:
        assert plain(read("5,10,1\n6,20,2\n", POSITIONS)) == [(0.0, 10, 1), (1.0, 20, 2)]
        trace = read("when,in,out\n5,10,1\n", POSITIONS)
        assert plain(trace) == [(0.0, 10, 1)]
        assert trace.repairs == ("line 1 was taken for a header: when, in, out",)

    def test_a_unit_beside_dates_does_no_harm(self) -> None:
        assert plain(read(THREE, "time=TIMESTAMP,input=ContextTokens,output=GeneratedTokens,unit=s")) == THREE_ROWS

    def test_numbers_since_1970_say_when_the_trace_began(self) -> None:
        trace = read("1700158546500,1,1\n1700158547000,1,1\n", "time=0,input=1,output=2,unit=ms")
        assert trace.start == pytest.approx(1700158546.5)
        assert trace.arrivals.tolist() == pytest.approx([0.0, 0.5], abs=1e-6)

    def test_json_lines_with_other_names(self) -> None:
        text = '\n{"t": "2024-01-01T00:00:00Z", "i": 1, "o": 2}\n\n{"t": "2024-01-01T00:00:03Z", "i": 3, "o": 4}'
        assert plain(read(text, "time=t,input=i,output=o")) == [(0.0, 1, 2), (3.0, 3, 4)]


class TestRepairs:
    """What is mended is said."""

    def test_rows_out_of_order_are_sorted(self) -> None:
        trace = read("0,1,1\n9,2,2\n5,3,3\n7,4,4\n9,5,5\n", POSITIONS)
        assert plain(trace) == [(0.0, 1, 1), (5.0, 3, 3), (7.0, 4, 4), (9.0, 2, 2), (9.0, 5, 5)]
        assert trace.repairs == ("2 rows were out of order, from line 3 on, and sorted",)

    def test_gaps_are_kept_and_said(self) -> None:
        assert read("0,1,1\n7200,1,1\n", POSITIONS).repairs == (
            "1 gap longer than an hour, 2.0 hours before line 2, was kept",
        )
        assert read("0,1,1\n7200,1,1\n18000,1,1\n", POSITIONS).repairs == (
            "2 gaps longer than an hour, the longest 3.0 hours before line 3, were kept",
        )

    @pytest.mark.parametrize("rest", ["2023-11-16 18:00:07,4", "2023-11-16 18:00:07,40,", "2023", '"2023-11-16 18:'])
    def test_a_last_line_that_is_cut_off_is_left_out(self, rest: str) -> None:
        trace = read(THREE + rest)
        assert plain(trace) == THREE_ROWS
        assert trace.repairs == ("the last line, 5, is cut off and was left out",)

    def test_a_last_json_line_that_is_cut_off_is_left_out(self) -> None:
        whole = '{"timestamp": 0, "input_length": 1, "output_length": 2}\n'
        trace = read(whole + whole[:30])
        assert len(trace) == 1
        assert trace.repairs == ("the last line, 2, is cut off and was left out",)

    def test_latin_1_is_read_and_said(self) -> None:
        trace = read("t,i,o,name\n0,1,1,Jürgen\n1,2,2,Ana\n".encode("latin-1"), "time=t,input=i,output=o,unit=s")
        assert len(trace) == 2
        assert trace.repairs == ("1 line was not UTF-8, from line 2 on, and read as Latin-1",)

    def test_a_row_over_several_lines_is_said(self) -> None:
        trace = read('t,i,o,text\n0,1,1,"two\nlines"\n5,2,2,x\n', "time=t,input=i,output=o,unit=s")
        assert plain(trace) == [(0.0, 1, 1), (5.0, 2, 2)]
        assert trace.repairs == ("1 row spans several lines, as quotes allow, from line 2 on",)

    def test_equal_times_are_kept(self) -> None:
        trace = read("0,1,1\n0,2,2\n3,3,3\n", POSITIONS)
        assert plain(trace) == [(0.0, 1, 1), (0.0, 2, 2), (3.0, 3, 3)]
        assert trace.repairs == ()


ROWS = "0,1,1\n1,2,2\n"


@pytest.mark.parametrize(
    ("data", "columns", "message"),
    [
        ("", None, "x.csv:1: the file is empty"),
        ("\n \n", None, "x.csv:2: the file has only blank lines"),
        (AZURE, None, "x.csv:1: there is a header and no row"),
        (ROWS, None, "x.csv:1: no header here; name the columns by position: --columns time=0"),
        ("a,b,c\n1,2,3\n", None, "x.csv:1: none of the known formats has these columns: a, b, c; name them"),
        ("a,b,c\n1,2,3\n", "time=a,input=b,output=d,unit=s", "x.csv:1: no column 'd'; there are a, b, c; name them"),
        ("a,b,b,c\n1,2,3,4\n", "time=a,input=b,output=c,unit=s", "x.csv:1: 2 columns are called 'b'"),
        (ROWS, "time=0,input=1,output=3,unit=s", "x.csv:1: there is no column 3, only 0 to 2"),
        ("a,b,c\n1,2,3\n", "time=a,input=b,output=c", "x.csv:2: times are numbers, such as '1', of an unknown unit"),
        (AZURE + "5,1,1\n", None, "x.csv:2: times are numbers"),
        (AZURE + "16.11.2023 18:00,1,1\n", None, "x.csv:2: time '16.11.2023 18:00' is neither a number nor a date"),
        (THREE + "1234,1,1\n", None, "x.csv:5: time '1234' is not a date.*earlier ones are dates"),
        (THREE + "2023-11-16 18:00:09Z,1,1\n", None, "x.csv:5: time .* has a zone, and earlier ones have none"),
        (THREE + "20231116,1,1\n", None, "x.csv:5: time '20231116' is not a date"),
        (ROWS + "2023-11-16 18:00:09,1,1\n", POSITIONS, "x.csv:3: time .* is a date, and earlier ones are numbers"),
        (ROWS + "-1,1,1\n", POSITIONS, "x.csv:3: time '-1' cannot be"),
        (ROWS + "nan,1,1\n", POSITIONS, "x.csv:3: time 'nan' cannot be"),
        (ROWS + "inf,1,1\n", POSITIONS, "x.csv:3: time 'inf' in s is beyond the year 2100"),
        (ROWS + "1700158546000,1,1\n", POSITIONS, "x.csv:3: time .* in s is beyond the year 2100.*unit=ms"),
        (ROWS + "2,-5,1\n", POSITIONS, "x.csv:3: input tokens '-5' cannot be"),
        (ROWS + "2,5,-1\n", POSITIONS, "x.csv:3: output tokens '-1' cannot be"),
        (ROWS + "2,5,nan\n", POSITIONS, "x.csv:3: output tokens 'nan' cannot be"),
        (ROWS + "2,5,1e300\n", POSITIONS, "x.csv:3: output tokens '1e300' cannot be"),
        (ROWS + "2,5,1.5\n", POSITIONS, "x.csv:3: output tokens '1.5' is not whole"),
        (ROWS + '2,"1,234",1\n', POSITIONS, "x.csv:3: input tokens '1,234' has a comma in it"),
        (ROWS + "2,1_000,1\n", POSITIONS, "x.csv:3: input tokens '1_000' is not a number"),
        (ROWS + "2,١٢,1\n", POSITIONS, "x.csv:3: input tokens .* is not a number"),
        (ROWS + "2,,1\n", POSITIONS, "x.csv:3: input tokens '' is missing"),
        (ROWS + "2,5,\n", POSITIONS, "x.csv:3: output tokens '' is missing"),
        (ROWS + "2,1,234,1\n", POSITIONS, "x.csv:3: 4 fields where the first line has 3; is a comma in a number"),
        (ROWS + "2,5\n3,1,1\n", POSITIONS, "x.csv:3: 2 fields where the first line has 3; is it cut off"),
        (ROWS + "(2 rows affected)\n", POSITIONS, "x.csv:3: 1 fields where"),
        (ROWS + '2,5,"1\n3,1,1\n', POSITIONS, "x.csv:3: a quote that opens here is never closed"),
        (ROWS + '2,5,"1"x\n', POSITIONS, "x.csv:3: a quote stands inside a field"),
        (ROWS + "2,5,1," + "x" * 200_000 + "\n", POSITIONS, "x.csv:3: a field of more than 131,072 characters"),
        (ROWS + "2" * (1 << 21), POSITIONS, "x.csv:3: a line of more than 1,048,576 characters"),
        ("0,1,0\n1,2,0\n", POSITIONS, "none of the 2 requests has an answer"),
        ("0,1,1\n40000000,2,2\n", POSITIONS, "x.csv:2: the times span 463 days from line 1 to here"),
        ("".join(f"{n / 1000},1,1\n" for n in range(101)), POSITIONS, "101 requests within 0.1 s; give the unit"),
        ('[{"timestamp": 0}]', None, "x.csv:1: this looks like one JSON list; write one object a line"),
        ('{"timestamp": 0}\n', None, "x.csv:1: none of the known formats has these columns: timestamp"),
        ('{"t": 0, "i": 1, "o": 1}\n{"t": 1, "i": 1}\n', "time=t,input=i,output=o,unit=s", "x.csv:2: no 'o' here"),
        ('{"t": 0, "i": 1, "o": true}\n', "time=t,input=i,output=o,unit=s", "output tokens 'True' is not a number"),
        ('{"t": 0, "i": 1, "o": 1}\n{"t\n{}\n', "time=t,input=i,output=o,unit=s", "x.csv:2: not JSON at character"),
        ('{"t": 0, "i": 1, "o": 1}\n[1]\n', "time=t,input=i,output=o,unit=s", "x.csv:2: no JSON object"),
        ('{"t": ' + "[" * 100_000 + "\n", "time=t,input=i,output=o,unit=s", "x.csv:1: (brackets nested|not JSON)"),
        (b"PAR1\x15\x04\x15", None, "x.csv:1: this looks like a Parquet file; convert it to CSV"),
        (b"PK\x03\x04\x14\0", None, "x.csv:1: this looks like a zip archive"),
        (b"\x7fELF\x02\x01\x01\0\0\0aaaaaaaaaaaa", None, "x.csv:1: this looks like binary data"),
        (
            THREE.encode("utf-16-le"),
            None,
            "x.csv:1: this looks like UTF-16 without a byte order mark; save it",
        ),
        (THREE.encode("utf-16")[:-1], None, "the file is not the UTF-16 that it begins as"),
        (gzip.compress(THREE.encode(), mtime=0)[:-9], None, "the gzip file is cut off or damaged; fetch it again"),
        (
            gzip.compress(gzip.compress(THREE.encode(), mtime=0), mtime=0),
            None,
            "x.csv:1: this looks like compressed twice",
        ),
        (b"<!DOCTYPE html><html>", None, "x.csv:1: this looks like a web page"),
    ],
)
def test_everything_else_is_an_error_with_its_line_and_how_to_mend_it(
    data: str | bytes, columns: str | None, message: str
) -> None:
    with pytest.raises(TraceError, match=message) as caught:
        read(data, columns)
    assert str(caught.value).startswith("x.csv:")
    assert str(caught.value).isprintable()


SEEDS = (
    EXCERPT.read_bytes()[:400],
    b'{"timestamp": 0, "input_length": 6, "output_length": 5}\n' * 2,
    gzip.compress(THREE.encode(), mtime=0),
    THREE.encode("utf-16"),
)
PIECES = st.sampled_from([b",", b'"', b"\n", b"\r", b"\0", b"\xff", b"-", b"nan", b"1e999", b"_", b"{", b"[", b";"])


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(SEEDS), st.data())
def test_damaged_bytes_give_an_error_or_a_sound_trace(seed: bytes, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(seed)))
    cut = data.draw(st.integers(0, 4))
    damaged = seed[:place] + data.draw(PIECES | st.binary(max_size=4)) + seed[place + cut :]
    try:
        trace = read(damaged)
    except TraceError:
        return
    assert len(trace) >= 1
    assert np.isfinite(trace.arrivals).all()
    assert (np.diff(trace.arrivals) >= 0).all()
    assert (trace.output_tokens >= 1).all()
    assert (trace.prompt_tokens >= 0).all()


def test_chunks_make_no_difference() -> None:
    """70,000 rows are two chunks: the sums are those of the series 0 + 1 + ... + n - 1."""
    count = 70_000
    trace = read("".join(f"{n},{n},{n % 7 + 1}\n" for n in range(count)), POSITIONS)
    assert len(trace) == count
    assert trace.seconds == count - 1
    assert int(trace.prompt_tokens.sum()) == count * (count - 1) // 2


def test_the_first_seconds_of_a_trace_are_a_trace() -> None:
    cut = read(THREE).cut(2.0)
    assert plain(cut) == THREE_ROWS[:2]
    assert cut.seconds == 2.0
