"""The engine core's side: what it takes from its folder, what it leaves, and what it says."""

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from specloop_vllm.exchange import MOST_BYTES, Profile, read_applied, schema
from specloop_vllm.steering import POLL_SECONDS, Steering
from specloop_vllm.tables import constant, lookup

PROFILE = Profile("0.32.0", "draft_model", "small", 5, 8)
START = [0, 5, 5, 5, 5, 5, 5, 5, 5]
"""K = 5 for 1 to 8 requests; vLLM leaves index 0 at 0."""


class Engine:
    """A folder, and a clock that goes one look on at each step."""

    def __init__(self, folder: Path, profile: Profile = PROFILE) -> None:
        self.folder = folder
        self.now = 0.0
        self.warned: list[str] = []
        self.steering = Steering(folder, profile, START, self.warned.append, lambda: self.now)

    def wish(self, **content: Any) -> None:
        """Somebody writes what is wanted."""
        self.leave(json.dumps({"profile": PROFILE.hash, **content}).encode())

    def leave(self, data: bytes) -> None:
        """Somebody writes anything at all."""
        draft = self.folder / "draft"
        draft.write_bytes(data)
        draft.replace(self.folder / "desired.json")

    def step(self) -> list[int] | None:
        """A step, one look later."""
        self.now += POLL_SECONDS
        return self.steering.look()

    @property
    def said(self) -> dict[str, Any]:
        """What it shows."""
        data = (self.folder / "applied.json").read_bytes()
        found: dict[str, Any] = json.loads(data)
        jsonschema.validate(found, schema("applied"))
        assert read_applied(data) == self.steering.applied
        return found


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """One that has just begun."""
    return Engine(tmp_path)


def test_it_says_at_once_what_it_was_started_with(engine: Engine) -> None:
    said = engine.said
    assert (said["generation"], said["table"], said["error"], said["pid"]) == (None, [[1, 8, 5]], None, os.getpid())
    assert said["profile"] == {
        "hash": PROFILE.hash, "vllm": "0.32.0", "method": "draft_model", "model": "small", "tokens": 5, "requests": 8,
    }  # fmt: skip
    assert engine.step() is None


def test_a_wish_is_taken_at_the_next_look_and_once(engine: Engine) -> None:
    engine.wish(generation=1, k=2)
    assert engine.step() == [2] * 9
    assert (engine.said["generation"], engine.said["table"]) == (1, [[1, 8, 2]])
    assert engine.step() is None


def test_between_two_looks_nothing_is_asked(engine: Engine) -> None:
    engine.step()
    engine.wish(generation=1, k=2)
    engine.now += POLL_SECONDS / 2
    assert engine.steering.look() is None
    engine.now += POLL_SECONDS / 2
    assert engine.steering.look() == [2] * 9


def test_a_table_is_taken_too(engine: Engine) -> None:
    engine.wish(generation=1, table=[[1, 2, 5], [3, 100, 0]])
    assert engine.step() == [5, 5, 5, 0, 0, 0, 0, 0, 0]
    assert engine.said["table"] == [[1, 2, 5], [3, 8, 0]]


def test_a_wish_for_more_than_there_is_is_cut_down_and_says_so(engine: Engine) -> None:
    engine.wish(generation=1, k=9)
    assert engine.step() == [5] * 9
    assert engine.said["clamped"] is True
    engine.wish(generation=2, k=1)
    engine.step()
    assert engine.said["clamped"] is False


HOSTILE = {
    "torn": b'{"generation": 2, "k"',
    "empty": b"",
    "no object": b"[]",
    "deep": b"[" * 60_000,
    "huge": b'{"generation": 2, "k": 1, "x": "' + b"x" * MOST_BYTES + b'"}',
    "a number of a million digits": b"1" * 60_000,
    "no K": json.dumps({"generation": 2, "profile": PROFILE.hash}).encode(),
    "both": json.dumps({"generation": 2, "profile": PROFILE.hash, "k": 1, "table": [[1, 8, 1]]}).encode(),
    "K below": json.dumps({"generation": 2, "profile": PROFILE.hash, "k": -1}).encode(),
    "K of text": json.dumps({"generation": 2, "profile": PROFILE.hash, "k": "1"}).encode(),
    "not a number": b'{"generation": 2, "profile": "x", "k": NaN}',
    "other profile": json.dumps({"generation": 2, "profile": "other", "k": 1}).encode(),
    "unknown field": json.dumps({"generation": 2, "profile": PROFILE.hash, "k": 1, "force": True}).encode(),
    "no text": b"\xff\xfe\x00",
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_is_no_wish_for_it_leaves_what_there_was_and_is_counted(engine: Engine, data: bytes) -> None:
    """Once, and the next good one is taken."""
    engine.wish(generation=1, k=2)
    engine.step()
    engine.leave(data)
    assert [engine.step() for _ in range(3)] == [None] * 3
    said = engine.said
    assert (said["generation"], said["table"], said["ignored"]) == (1, [[1, 8, 2]], 1)
    assert said["error"]
    engine.wish(generation=3, k=1)
    assert engine.step() == [1] * 9
    assert (engine.said["ignored"], engine.said["error"]) == (1, None)


@pytest.mark.parametrize("kind", ["pipe", "folder", "link"])
def test_what_is_no_file_is_neither_waited_for_nor_followed(engine: Engine, kind: str) -> None:
    path = engine.folder / "desired.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    assert engine.step() is None
    assert engine.said["ignored"] == 1


def test_a_wish_that_is_taken_away_leaves_what_there_was(engine: Engine) -> None:
    engine.wish(generation=1, k=2)
    engine.step()
    (engine.folder / "desired.json").unlink()
    assert [engine.step(), engine.step()] == [None, None]
    assert (engine.said["generation"], engine.said["ignored"]) == (1, 1)


def test_a_restart_takes_the_wish_of_before_and_another_profile_does_not(tmp_path: Path) -> None:
    before = Engine(tmp_path)
    before.wish(generation=4, k=3)
    before.step()
    assert Engine(tmp_path).steering.look() == [3] * 9
    other = Engine(tmp_path, Profile("0.32.0", "ngram", None, 4, 8))
    assert other.steering.look() is None
    assert other.said["ignored"] == 1
    assert PROFILE.hash in other.said["error"]


def test_where_nothing_can_be_written_the_wish_is_taken_and_a_warning_given(engine: Engine) -> None:
    engine.wish(generation=1, k=2)
    (engine.folder / "applied.json").unlink()
    (engine.folder / "applied.json").mkdir()
    assert engine.step() == [2] * 9
    assert "applied.json cannot be written" in engine.warned[0]


def test_one_k_for_all_fits_an_engine_of_any_size() -> None:
    assert lookup(constant(3), 5, 5).tokens == (3,) * 5
