"""What `specloop local` makes of a command: where the engine answers, its ladder, and the command at each level."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from specloop_control.local import LocalError, LocalSetup, prepare
from specloop_policy.policy import PolicyError
from tests.support.policies import DRAFTERS, LEVELS, spec

DRAFT = {"method": "draft_model", "model": "small", "num_speculative_tokens": 5}
LLAMA = ["llama-server", "-m", "target.gguf", "--metrics"]
LLAMA_DRAFT = [*LLAMA, "-md", "draft.gguf", "--spec-type", "draft-simple", "--spec-draft-n-max", "5"]


def vllm(config: dict[str, Any] | None = None, *more: str) -> list[str]:
    speculative = ["--speculative-config", json.dumps(config)] if config is not None else []
    return ["vllm", "serve", "big", *speculative, *more]


def prepared(command: Sequence[str], *, recommend: bool = False, **fields: Any) -> LocalSetup:
    return prepare("local", spec(**fields), list(command), {}, recommend=recommend)


@pytest.mark.parametrize(
    ("command", "url"),
    [
        (vllm(), "http://127.0.0.1:8000"),
        (LLAMA, "http://127.0.0.1:8080"),
        (vllm(None, "--port", "9000"), "http://127.0.0.1:9000"),
        (vllm(None, "--port=9000"), "http://127.0.0.1:9000"),
        (vllm(None, "--host", "0.0.0.0"), "http://127.0.0.1:8000"),
        (vllm(None, "--host", "::"), "http://127.0.0.1:8000"),
        (vllm(None, "--host", "localhost"), "http://127.0.0.1:8000"),
        (vllm(None, "--host", "10.1.2.3"), "http://10.1.2.3:8000"),
        (vllm(None, "--host", "::1", "--port", "9000"), "http://[::1]:9000"),
    ],
)
def test_it_is_watched_where_it_listens(command: list[str], url: str) -> None:
    assert prepared(command).url == url


@pytest.mark.parametrize("port", ["0", "65536", "-1", "http", "8000.5"])
def test_a_port_that_is_none_is_refused(port: str) -> None:
    with pytest.raises(LocalError) as raised:
        prepared(vllm(None, f"--port={port}"))
    assert f"--port {port} is no port" in str(raised.value)


@pytest.mark.parametrize(
    ("command", "level", "ladder"),
    [
        (vllm(DRAFT), "k5", ("k5", "k3", "ngram", "disabled")),
        (vllm({**DRAFT, "num_speculative_tokens": 2}), "k2", ("k2", "ngram", "disabled")),
        (vllm(), "disabled", ("ngram", "disabled")),
        (LLAMA_DRAFT, "k5", ("k5", "k3", "ngram", "disabled")),
        (LLAMA, "disabled", ("ngram", "disabled")),
    ],
)
def test_a_policy_without_levels_takes_its_ladder_from_the_command(
    command: list[str], level: str, ladder: tuple[str, ...]
) -> None:
    setup = prepared(command)
    assert (setup.level.name, setup.policy.ladder.names()) == (level, ladder)
    assert set(setup.commands) == set(ladder)


def test_the_command_at_its_own_level_is_the_one_that_was_given() -> None:
    command = vllm(DRAFT, "--max-num-seqs", "64")
    assert list(prepared(command).commands["k5"].command) == command


def test_each_level_has_the_command_that_leads_to_it() -> None:
    commands = prepared(LLAMA_DRAFT).commands
    assert list(commands["k3"].command) == [*LLAMA_DRAFT[:-1], "3"]
    assert list(commands["disabled"].command) == LLAMA
    assert "ngram-simple" in commands["ngram"].command
    assert "draft.gguf" not in commands["ngram"].command


def test_a_setting_that_stands_in_a_variable_is_changed_there() -> None:
    """The shell puts it in: the command stays as it is, and the engine is started with another value."""
    command = ["sh", "-c", 'exec vllm serve big --speculative-config "$SPECULATION"']
    environment = {"SPECULATION": json.dumps(DRAFT)}
    setup = prepare("local", spec(), command, environment, recommend=False)
    assert setup.level.name == "k5"
    assert (list(setup.commands["k5"].command), setup.commands["k5"].variables) == (command, {})
    k3, off = setup.commands["k3"], setup.commands["disabled"]
    assert list(k3.command) == command
    assert json.loads(k3.variables["SPECULATION"]) == {**DRAFT, "num_speculative_tokens": 3}
    assert off.variables == {"SPECULATION": ""}


def test_declared_levels_are_written_into_the_command() -> None:
    setup = prepared(vllm(), drafters=DRAFTERS, levels=LEVELS)
    assert setup.level.name == "disabled"
    assert json.loads(setup.commands["k3"].command[-1]) == {
        "method": "draft_model",
        "model": "meta-llama/Llama-3.2-1B-Instruct",
        "num_speculative_tokens": 3,
    }


def test_a_setting_outside_the_ladder_is_kept_and_called_unmanaged() -> None:
    command = vllm({**DRAFT, "num_speculative_tokens": 7})
    setup = prepared(command, drafters=DRAFTERS, levels=LEVELS)
    assert setup.level.name == "unmanaged"
    assert setup.level not in setup.policy.ladder.levels
    assert list(setup.commands["unmanaged"].command) == command


def test_recommending_does_not_enforce_and_all_else_does() -> None:
    """On one machine there is nothing to fear: the policy's own mode is not asked."""
    assert prepared(vllm(DRAFT)).policy.enforce
    assert prepared(vllm(DRAFT), mode="Recommend").policy.enforce
    assert not prepared(vllm(DRAFT), mode="Enforce", recommend=True).policy.enforce


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["llama-server", "-m", "target.gguf"], "add it to the command"),
        (vllm(None, "--disable-log-stats"), "remove it from the command"),
        (["python", "train.py"], "no engine is seen to start here"),
    ],
)
def test_what_cannot_be_watched_is_refused_with_the_mend(command: list[str], words: str) -> None:
    with pytest.raises(LocalError) as raised:
        prepared(command)
    assert words in str(raised.value)


def test_a_level_that_the_engine_cannot_be_given_is_left_out_with_the_reason() -> None:
    drafters = [{"name": "head", "method": "medusa"}]
    levels = [{"name": "m3", "drafter": "head", "tokens": 3}, {"name": "disabled"}]
    (refused,) = prepared(LLAMA, drafters=drafters, levels=levels).refused
    assert refused.level == "m3"
    assert refused.reason.startswith("it cannot be written into the command: ")


def test_a_level_that_is_known_not_to_start_is_left_out_with_the_reason() -> None:
    """Llama with a Qwen draft: the vocabularies differ (the field report's crash)."""
    command = ["vllm", "serve", "meta-llama/Llama-3.1-70B-Instruct"]
    drafters = [{"name": "alien", "method": "draft_model", "model": "Qwen/Qwen2.5-1.5B-Instruct"}]
    levels = [{"name": "k3", "drafter": "alien", "tokens": 3}, {"name": "disabled"}]
    (refused,) = prepared(command, drafters=drafters, levels=levels).refused
    assert refused.level == "k3"
    assert refused.reason.startswith("the engine would not start: ")


def test_a_schedule_for_a_level_that_the_derived_ladder_lacks_is_refused() -> None:
    schedules = [{"name": "night", "cron": "0 22 * * *", "durationSeconds": 3600, "level": "k5"}]
    with pytest.raises(PolicyError, match="levels here: k4, k3, ngram, disabled"):
        prepared(vllm({**DRAFT, "num_speculative_tokens": 4}), schedules=schedules)


@pytest.mark.parametrize(("recommend", "tokens"), [(False, 8), (True, 10)])
def test_a_k_above_eight_is_cut_where_the_policy_may_act(recommend: bool, tokens: int) -> None:
    setup = prepared(vllm({**DRAFT, "num_speculative_tokens": 10}), recommend=recommend)
    assert setup.policy.ladder.names() == ("k8", "k5", "k3", "ngram", "disabled")
    assert setup.level.name == "k8"
    assert json.loads(setup.commands["k8"].command[-1])["num_speculative_tokens"] == tokens
