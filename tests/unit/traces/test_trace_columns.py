"""Columns as the caller says them."""

import pytest

from specloop_sim.traces.columns import Columns, ColumnsError, parse_columns


def test_columns_by_name_with_a_unit() -> None:
    text = "time=TIMESTAMP,input=ContextTokens,output=GeneratedTokens,unit=s"
    assert parse_columns(text) == Columns("TIMESTAMP", "ContextTokens", "GeneratedTokens", "s")


def test_columns_by_position_in_any_order_and_with_spaces() -> None:
    assert parse_columns("unit=ms, output=2, input=Request tokens, time=0") == Columns(0, "Request tokens", 2, "ms")


def test_the_unit_may_be_left_out() -> None:
    assert parse_columns("time=a,input=b,output=c").unit is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "write time=NAME,input=NAME,output=NAME,unit=s"),
        ("time", "'time' is no part of columns"),
        ("time=,input=1,output=2", "'time=' is no part of columns"),
        ("when=0,input=1,output=2", "'when=0' is no part of columns"),
        ("time=0,time=1,input=1,output=2", "time is given twice"),
        ("time=0", "input and output is missing"),
        ("time=0,input=1,output=1", "same column"),
        ("time=-1,input=1,output=2", "positions count from 0"),
        ("time=0,input=1,output=2,unit=min", "unit=min is not known"),
    ],
)
def test_nonsense_is_refused_with_how_to_write_it(text: str, message: str) -> None:
    with pytest.raises(ColumnsError, match=message):
        parse_columns(text)
