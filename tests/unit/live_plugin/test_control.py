"""GET and PUT: who may, what is taken, and what the answer shows."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from specloop_vllm.control import Control
from specloop_vllm.exchange import Profile, schema
from specloop_vllm.steering import Steering, say_refused

PROFILE = Profile("0.32.0", "draft_model", "small", 5, 8)


class Engine:
    """An engine that runs in this very process, and control over it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.control = Control(folder, folder / "token")
        self.now = 0.0
        self.steering = Steering(folder, PROFILE, [5] * 9, lambda words: None, lambda: self.now)

    def put(self, **wish: Any) -> tuple[int, dict[str, Any]]:
        """Status and content."""
        reply = self.control.put(json.dumps(wish).encode())
        return reply.status, reply.content

    def step(self) -> None:
        """The engine looks."""
        self.now += 1.0
        self.steering.look()


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(tmp_path)


def test_a_wish_is_wanted_first_and_in_force_at_the_next_step(engine: Engine) -> None:
    """An idle engine differs until then, and that is said and no failure."""
    status, shown = engine.put(generation=1, k=2)
    assert status == 200
    assert shown["desired"] == {"generation": 1, "profile": PROFILE.hash, "k": 2}
    assert (shown["applied"]["generation"], shown["pending"], shown["live"]) == (None, True, True)
    assert "between two steps" in shown["reason"]
    engine.step()
    shown = engine.control.get().content
    assert (shown["applied"]["generation"], shown["applied"]["table"]) == (1, [[1, 8, 2]])
    assert (shown["pending"], shown["reason"]) == (False, None)


def test_what_is_written_is_as_the_schema_says(engine: Engine) -> None:
    wishes: list[dict[str, Any]] = [{"k": 0}, {"table": [[1, 2, 3], [3, 8, 0]]}]
    for number, wish in enumerate(wishes, start=1):
        assert engine.put(generation=number, **wish)[0] == 200
        written = json.loads((engine.folder / "desired.json").read_text())
        jsonschema.validate(written, schema("desired"))
        assert written == {"generation": number, "profile": PROFILE.hash, **wish}


@pytest.mark.parametrize(
    ("wish", "status", "words"),
    [
        ({"generation": 1}, 400, "one of k and table"),
        ({"generation": 0, "k": 1}, 400, "from 1 on"),
        ({"generation": 1, "k": "2"}, 400, "whole number from 0 to 64"),
        ({"generation": 1, "k": 1, "x": 1}, 400, "unknown field 'x'"),
        ({"generation": 1, "k": 1, "profile": "other"}, 409, "profile other"),
    ],
)
def test_what_cannot_be_taken_is_refused_without_effect(
    engine: Engine, wish: dict[str, Any], status: int, words: str
) -> None:
    found, content = engine.put(**wish)
    assert found == status
    assert words in content["error"]
    assert not (engine.folder / "desired.json").exists()


def test_generations_only_rise(engine: Engine) -> None:
    """Two who both control it do not undo each other's words unseen; the same wish again changes nothing."""
    assert engine.put(generation=5, k=2)[0] == 200
    written = (engine.folder / "desired.json").stat().st_mtime_ns
    assert engine.put(generation=5, k=2)[0] == 200
    assert (engine.folder / "desired.json").stat().st_mtime_ns == written
    for generation in (4, 5):
        status, content = engine.put(generation=generation, k=3)
        assert (status, content["error"]) == (409, f"generation {generation} is not above 5")
    assert engine.put(generation=6, k=3)[0] == 200


def test_a_wish_that_another_profile_left_behind_does_not_count_generations(engine: Engine) -> None:
    left = {"generation": 90, "profile": "of before", "k": 1}
    (engine.folder / "desired.json").write_text(json.dumps(left))
    assert engine.put(generation=1, k=2)[0] == 200


def test_an_engine_without_our_scheduler_takes_no_wish(tmp_path: Path) -> None:
    control = Control(tmp_path, tmp_path / "token")
    reply = control.put(b'{"generation": 1, "k": 2, "profile": "x"}')
    assert reply.status == 409
    assert "--scheduler-cls" in reply.content["error"]
    assert control.get().content["live"] is False


def test_an_engine_that_cannot_be_controlled_says_why(tmp_path: Path) -> None:
    say_refused(tmp_path, "the engine was started without a table")
    control = Control(tmp_path, tmp_path / "token")
    assert control.get().content["reason"] == "the engine was started without a table"
    assert control.put(b'{"generation": 1, "k": 2, "profile": "x"}').content == {
        "error": "the engine was started without a table"
    }


@pytest.mark.parametrize("field", ["pid", "started"])
def test_an_engine_core_that_is_gone_is_said(engine: Engine, field: str) -> None:
    """No such process, or one that began at another time: numbers are given again."""
    path = engine.folder / "applied.json"
    said = json.loads(path.read_text())
    path.write_text(json.dumps({**said, field: 2**22 + 1 if field == "pid" else said["started"] + 1}))
    assert engine.control.get().content["reason"] == "the engine core that wrote applied.json is gone"
    assert engine.put(generation=1, k=2)[0] == 409


@pytest.mark.parametrize(
    ("header", "allowed"),
    [
        (b"Bearer secret", True),
        (b"bearer secret", True),
        (b"Bearer secre", False),
        (b"Bearer secret2", False),
        (b"Basic secret", False),
        (b"secret", False),
        (b"", False),
        ("Bearer sécret".encode(), False),
    ],
)
def test_only_the_token_of_the_file_counts(engine: Engine, header: bytes, allowed: bool) -> None:
    (engine.folder / "token").write_text("secret\n")
    assert engine.control.allowed(header) is allowed


@pytest.mark.parametrize("content", [None, "", " \n"])
def test_without_a_token_nobody_may(engine: Engine, content: str | None) -> None:
    """Least of all who shows an empty one."""
    if content is not None:
        (engine.folder / "token").write_text(content)
    assert engine.control.allowed(b"Bearer ") is None


def test_a_token_that_is_changed_counts_from_then_on(engine: Engine) -> None:
    (engine.folder / "token").write_text("old")
    assert engine.control.allowed(b"Bearer old")
    (engine.folder / "token").write_text("new")
    assert not engine.control.allowed(b"Bearer old")
    assert engine.control.allowed(b"Bearer new")
