"""A study holds what was found out, whatever ended the sweep."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from specloop_sim.sweep.figures import Measured
from specloop_sim.sweep.study import Study, StudyError

HEADER: dict[str, Any] = {"seed": 1, "live": False, "vary": {"a": "1..3"}}
ONE, TWO = Measured(1.1, 2, 3, 4), Measured(0.1 + 0.2, 0, 0, 0)
"""Figures; floats come back to the last bit."""


@contextmanager
def study(path: Path, header: dict[str, Any] = HEADER, *, anew: bool = False) -> Iterator[Study]:
    """A study, closed again."""
    opened = Study.open(path, header, anew=anew)
    try:
        yield opened
    finally:
        opened.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A study with two runs."""
    with study(tmp_path / "s.jsonl") as kept:
        kept.keep((0, None), ONE)
        kept.keep((1, (40, "0.6", True, None)), TWO)
    return tmp_path / "s.jsonl"


def test_runs_are_found_again(path: Path) -> None:
    with study(path) as kept:
        assert kept.find((0, None)) == ONE
        assert kept.find((1, (40, "0.6", True, None))) == TWO
        assert kept.find((0, (40, "0.6", True, None))) is None
        assert len(kept) == 2


@pytest.mark.parametrize("lost", [1, 5, 40])
def test_a_line_that_was_cut_off_is_dropped_and_the_rest_stays(path: Path, lost: int) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:-lost])
    with study(path) as kept:
        assert len(kept) == 1
        kept.keep((1, (40, "0.6", True, None)), TWO)
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ({**HEADER, "seed": 2}, "seed is 1 there and 2 here"),
        ({**HEADER, "live": True}, "live is false there and true here"),
        ({**HEADER, "vary": {"a": "1..4"}}, "vary differs"),
        ({"seed": 1, "vary": {"a": "1..3"}}, "live is false there and not given here"),
        ({**HEADER, "seed": 2, "live": True}, "seed is 1 there and 2 here; live is"),
    ],
)
def test_the_study_of_another_sweep_is_refused_with_what_differs(
    path: Path, header: dict[str, Any], words: str
) -> None:
    before = path.read_bytes()
    with pytest.raises(StudyError) as raised, study(path, header):
        pass
    assert words in str(raised.value)
    assert path.read_bytes() == before


def test_another_sweep_begins_anew_when_told_to(path: Path) -> None:
    with study(path, {**HEADER, "seed": 2}, anew=True) as kept:
        assert len(kept) == 0
    with study(path, {**HEADER, "seed": 2}) as kept:
        assert len(kept) == 0


def test_the_same_sweep_goes_on_even_then(path: Path) -> None:
    with study(path, anew=True) as kept:
        assert len(kept) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("time,input,output\n1,2,3\n", ":1: no line of a sweep's study"),
        ('{"a": 1}\n', "is no study of a sweep"),
        ("", "is no study of a sweep"),
        ("[1, 2]\n", ":1: no line of a sweep's study"),
        ("\xff\n", ":1: no line of a sweep's study"),
    ],
)
def test_another_file_is_refused_and_left_alone(tmp_path: Path, text: str, words: str) -> None:
    other = tmp_path / "other.csv"
    other.write_bytes(text.encode("latin-1"))
    with pytest.raises(StudyError) as raised, study(other):
        pass
    assert words in str(raised.value)
    assert other.read_bytes() == text.encode("latin-1")


@pytest.mark.parametrize("line", ["nonsense", "{}", '{"trace": 0, "values": [1], "changes": 1}', "3"])
def test_a_spoilt_line_is_named(path: Path, line: str) -> None:
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], line + "\n", *lines[1:]]))
    with pytest.raises(StudyError, match=r":2: no "), study(path):
        pass


def test_two_sweeps_do_not_write_one_study(path: Path) -> None:
    with study(path), pytest.raises(StudyError, match="another sweep is writing it"), study(path):
        pass


def test_without_a_file_nothing_is_written(tmp_path: Path) -> None:
    kept = Study()
    kept.keep((0, None), ONE)
    assert kept.find((0, None)) == ONE
    kept.close()
    assert list(tmp_path.iterdir()) == []


def test_every_line_is_json(path: Path) -> None:
    first, *rest = [json.loads(line) for line in path.read_text().splitlines()]
    assert first == {"format": "specloop sweep 1", **HEADER}
    assert [one["trace"] for one in rest] == [0, 1]
