"""A level is written with the keys that its drafter had before, though the command has another drafter now, or none."""

import json

import pytest

from specloop_engine.command_line import read, write
from specloop_policy.ladder import DISABLED, Level
from tests.unit.engine_command_line.levels import DRAFT_NAME, K3, K5, NGRAM, NGRAM_JSON, SMALL

OWN = {
    "method": "draft_model",
    "model": DRAFT_NAME,
    "num_speculative_tokens": 5,
    "draft_tensor_parallel_size": 1,
    "num_speculative_tokens_per_batch_size": [[1, 256, 5]],
}


def written(setting: str | None, level: Level, *before: dict[str, object]) -> dict[str, object] | None:
    """What a command with this setting says at a level; None: nothing."""
    flags = [] if setting is None else ["--speculative-config", setting]
    line = read(["vllm", "serve", "tiny", *flags])
    again = read(write(line, level, before).command)
    return dict(again.config) if again.config is not None else None


@pytest.mark.parametrize("setting", [None, NGRAM_JSON])
def test_keys_of_the_drafter_come_back(setting: str | None) -> None:
    """The tensor parallelism and the table of the draft model, with the level's own K."""
    assert written(setting, K5, OWN) == OWN
    followed = {"num_speculative_tokens": 3, "num_speculative_tokens_per_batch_size": [[1, 256, 3]]}
    assert written(setting, K3, OWN) == {**OWN, **followed}


def test_another_drafter_s_keys_do_not() -> None:
    """n-gram has no tensor parallelism."""
    assert written(None, NGRAM, OWN) == json.loads(NGRAM_JSON)
    assert written(None, Level("other", SMALL, 2), {"method": "eagle", "model": "e"}) == {
        "method": "draft_model",
        "model": DRAFT_NAME,
        "num_speculative_tokens": 2,
    }


def test_what_the_command_says_now_counts_first() -> None:
    """Somebody has changed it since."""
    now = {**OWN, "draft_tensor_parallel_size": 2}
    assert written(json.dumps(now), K3, OWN) == {
        **now,
        "num_speculative_tokens": 3,
        "num_speculative_tokens_per_batch_size": [[1, 256, 3]],
    }


def test_off_is_off() -> None:
    """Whatever was before."""
    assert written(json.dumps(OWN), DISABLED, OWN) is None
