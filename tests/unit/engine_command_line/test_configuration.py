"""Level ↔ configuration."""

from typing import Any

import pytest

from specloop_engine.configuration import ConfigurationError, speculation_of, to_config
from specloop_engine.releases import Releases, parse_version
from specloop_engine.speculation import (
    Speculation,
    configuration_key,
    fits,
    match,
    running_drafter,
    startup_profile,
)
from specloop_policy.engine import Engine
from specloop_policy.ladder import DISABLED, Drafter, Level, Method, derive_ladder
from tests.unit.engine_command_line.levels import DRAFT_NAME, K3, K5, LADDER, LOOKUP, NGRAM, SMALL

DRAFT = {"method": "draft_model", "model": DRAFT_NAME, "num_speculative_tokens": 5}
TABLE = "num_speculative_tokens_per_batch_size"


def vllm(config: dict[str, Any]) -> Speculation:
    found = speculation_of(config, Engine.VLLM)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("config", "method", "model"),
    [
        # The rules of SpeculativeConfig.__post_init__ in vLLM 0.32.0.
        ({"model": "org/llama-1b"}, Method.DRAFT_MODEL, "org/llama-1b"),
        ({"model": "ngram"}, Method.NGRAM, None),
        ({"model": "[ngram]"}, Method.NGRAM, None),
        ({"model": "pkg.Proposer"}, Method.CUSTOM_CLASS, "pkg.Proposer"),
        ({"model": "yuhuili/EAGLE-LLaMA3-Instruct-8B"}, Method.EAGLE, "yuhuili/EAGLE-LLaMA3-Instruct-8B"),
        ({"model": "AngelSlim/Qwen3-8B_eagle3"}, Method.EAGLE3, "AngelSlim/Qwen3-8B_eagle3"),
        ({"method": "draft_model", "model": "deepseek-ai/dspark_qwen3"}, Method.DSPARK, "deepseek-ai/dspark_qwen3"),
        ({"method": "deepseek_mtp"}, Method.MTP, None),
        ({"method": "eagle", "model": "org/eagle3-x"}, Method.EAGLE, "org/eagle3-x"),
        ({"method": "suffix"}, Method.SUFFIX, None),
    ],
)
def test_a_method_is_the_one_that_vllm_takes(config: dict[str, Any], method: Method, model: str | None) -> None:
    found = vllm({**config, "num_speculative_tokens": 2})
    assert (found.method, found.model) == (method, model)


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [({}, (5, 5)), ({"prompt_lookup_max": 4}, (4, 4)), ({"prompt_lookup_min": 2}, (2, 2))],
)
def test_lookup_lengths_are_those_that_vllm_uses(lengths: dict[str, int], expected: tuple[int, int]) -> None:
    found = vllm({"method": "ngram", "num_speculative_tokens": 4, **lengths})
    assert (found.lookup_min, found.lookup_max) == expected


@pytest.mark.parametrize("engine", [Engine.VLLM, Engine.LLAMACPP])
@pytest.mark.parametrize("level", LADDER.levels, ids=lambda level: level.name)
@pytest.mark.parametrize("before", LADDER.levels, ids=lambda level: level.name)
def test_a_level_is_found_again_in_its_configuration(engine: Engine, level: Level, before: Level) -> None:
    config = to_config(level, to_config(before, None, engine), engine)
    assert match(speculation_of(config, engine), LADDER) is level


def test_a_configuration_at_the_level_already_is_left_alone() -> None:
    config = {"model": DRAFT_NAME, "num_speculative_tokens": 5, "quantization": "fp8"}
    assert to_config(K5, config, Engine.VLLM) is config


def test_other_keys_stay_with_their_drafter() -> None:
    config = {**DRAFT, "draft_tensor_parallel_size": 1, "quantization": "fp8"}
    assert to_config(K3, config, Engine.VLLM) == {**config, "num_speculative_tokens": 3}
    assert to_config(NGRAM, config, Engine.VLLM) == {
        "method": "ngram",
        "num_speculative_tokens": 4,
        "prompt_lookup_max": 4,
        "prompt_lookup_min": 2,
    }
    assert to_config(DISABLED, config, Engine.VLLM) is None


@pytest.mark.parametrize(
    ("found", "level", "expected"),
    [
        # The largest K follow the level, the others are only cut.
        ([[1, 8, 5], [9, 64, 3], [65, 256, 0]], 4, [[1, 8, 4], [9, 64, 3], [65, 256, 0]]),
        ([[1, 8, 5], [9, 64, 3], [65, 256, 0]], 2, [[1, 8, 2], [9, 64, 2], [65, 256, 0]]),
        ([[1, 256, 3]], 8, [[1, 256, 8]]),
        ([[1, 256, 9]], 6, [[1, 256, 6]]),
    ],
)
def test_a_batch_table_follows_the_level(found: list[list[int]], level: int, expected: list[list[int]]) -> None:
    config = to_config(Level("new", SMALL, level), {**DRAFT, TABLE: found}, Engine.VLLM)
    assert config is not None
    assert config[TABLE] == expected
    assert fits(speculation_of(config, Engine.VLLM), Level("new", SMALL, level))


@pytest.mark.parametrize("base", [None, DRAFT, {**DRAFT, TABLE: [[1, 256, 5]]}])
def test_k_by_batch_is_written_as_a_table(base: dict[str, Any] | None) -> None:
    """Beyond its end the last K counts."""
    level = Level("k4", SMALL, 4, ((9, 2), (65, 0)))
    config = to_config(level, base, Engine.VLLM)
    assert config is not None
    assert (config["num_speculative_tokens"], config[TABLE]) == (4, [[1, 8, 4], [9, 64, 2], [65, 1024, 0]])


def test_the_largest_k_is_what_the_table_leaves_of_it() -> None:
    assert vllm({**DRAFT, TABLE: [[1, 256, 3]]}).largest == 3
    assert vllm({**DRAFT, TABLE: [[1, 256, 9]]}).largest == 5
    assert match(vllm({**DRAFT, TABLE: [[1, 256, 3]]}), LADDER) is K3


def test_what_is_not_in_the_ladder_is_unmanaged() -> None:
    assert match(vllm({**DRAFT, "num_speculative_tokens": 4}), LADDER) is None
    assert match(vllm({**DRAFT, "model": "org/other"}), LADDER) is None
    assert match(vllm({"method": "ngram", "num_speculative_tokens": 4}), LADDER) is None  # looks up 5 only
    assert match(vllm({"method": "eagle9", "num_speculative_tokens": 5}), LADDER) is None
    assert match(None, LADDER) is DISABLED


def test_a_drafter_that_names_no_model_takes_the_one_that_runs() -> None:
    level = Level("m2", Drafter("heads", Method.MTP), 2)
    config = {"method": "mtp", "model": "org/heads", "num_speculative_tokens": 1}
    assert to_config(level, config, Engine.VLLM) == {**config, "num_speculative_tokens": 2}


@pytest.mark.parametrize("config", [DRAFT, {"method": "ngram", "num_speculative_tokens": 4}])
def test_a_derived_ladder_holds_the_level_that_runs(config: dict[str, Any]) -> None:
    running = running_drafter(vllm(config))
    assert running is not None
    ladder = derive_ladder(*running)
    level = match(vllm(config), ladder)
    assert level is ladder.levels[0]


def test_what_runs_unknown_derives_nothing() -> None:
    assert running_drafter(None) is None
    assert running_drafter(vllm({"method": "extract_hidden_states", "num_speculative_tokens": 1})) is None
    assert running_drafter(vllm({"method": "mtp"})) is None


def test_equal_profiles_need_no_restart() -> None:
    live = {**DRAFT, TABLE: [[1, 256, 5]]}
    profile = startup_profile(vllm(live))
    assert profile == startup_profile(vllm({**live, "method": None}))
    assert profile != startup_profile(vllm({**live, "num_speculative_tokens": 6}))
    assert profile != startup_profile(vllm({**live, "quantization": "fp8"}))
    assert profile is not None
    assert [level.name for level in LADDER.levels if profile.reaches(level)] == ["k5", "k3", "disabled"]
    assert not profile.reaches(Level("k6", SMALL, 6))


def test_without_a_table_nothing_is_live() -> None:
    profile = startup_profile(vllm(DRAFT))
    assert profile is not None
    assert not any(profile.reaches(level) for level in LADDER.levels)


def test_a_configuration_is_known_again_by_its_key() -> None:
    key = configuration_key(DRAFT, "vllm:1")
    assert key == configuration_key(dict(reversed(DRAFT.items())), "vllm:1")
    assert len({key, configuration_key(DRAFT, "vllm:2"), configuration_key({**DRAFT, "x": 1}, "vllm:1")}) == 3
    assert configuration_key(None, "vllm:1") not in (key, configuration_key(None, "vllm:2"))


def test_llama_server_gets_the_shortest_length_for_it_looks_up_one_only() -> None:
    assert to_config(NGRAM, None, Engine.LLAMACPP) == {
        "--spec-type": "ngram-simple",
        "--spec-ngram-simple-size-n": 2,
        "--spec-ngram-simple-size-m": 4,
    }


@pytest.mark.parametrize("method", [Method.EAGLE, Method.SUFFIX, Method.MEDUSA, Method.NGRAM_GPU])
def test_what_llama_cpp_has_not_is_refused(method: Method) -> None:
    with pytest.raises(ConfigurationError, match="no " + method):
        to_config(Level("x", Drafter("x", method, "m"), 2), None, Engine.LLAMACPP)


def test_a_lookup_in_n_grams_of_another_length_is_another_level() -> None:
    config = to_config(NGRAM, None, Engine.VLLM)
    assert not fits(speculation_of(config, Engine.VLLM), Level("x", Drafter("x", Method.NGRAM, None, 1, 4), 4))
    assert vllm({"method": "ngram", "num_speculative_tokens": 4}).is_kind_of(LOOKUP)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("0.32.0+cpu", (0, 32, 0)),
        ("v0.9.2rc1", (0, 9, 2)),
        ("b11434", (11434,)),
        ("version: 11434 (abc)", (11434,)),
        ("0.1.dev1+g0123abc", None),
        ("nightly", None),
        (None, None),
    ],
)
def test_a_release_is_read_from_what_an_engine_calls_itself(text: str | None, version: tuple[int, ...] | None) -> None:
    assert parse_version(text) == version


def test_releases_say_themselves_in_words() -> None:
    assert str(Releases((0, 4, 1), (0, 8, 3))) == "0.4.1 to before 0.8.3"
    assert str(Releases(since=(0, 9))) == "0.9 and later"
    assert (0, 9, 1) in Releases(since=(0, 9))
    assert (0, 8, 3) not in Releases(until=(0, 8, 3))
    assert None in Releases(since=(0, 9))
