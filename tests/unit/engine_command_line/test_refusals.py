"""What cannot be read for sure is refused, in one line that names the item and the mend."""

from typing import Any

import pytest

from specloop_engine.command_line import read, write
from specloop_engine.words import CommandLineError
from specloop_policy.engine import Engine
from specloop_policy.ladder import DISABLED, Drafter, Level, Method
from tests.unit.engine_command_line.levels import DRAFT_JSON, K5, NGRAM, NGRAM_JSON

JSON = "--speculative-config"
LLAMA = ["llama-server", "-m", "t.gguf"]


def script(text: str) -> list[str]:
    return ["bash", "-c", text]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        # What vLLM reads in a way that surprises.
        (["vllm", "serve", "m", JSON, DRAFT_JSON, f"{JSON}.method=ngram"], "silently drops the JSON"),
        (["vllm", "serve", "m", JSON, DRAFT_JSON, "-sc", NGRAM_JSON], "given twice"),
        (["vllm", "serve", "m", f"{JSON}.model=a", "-sc.method=ngram"], "given twice"),
        (["vllm", "serve", "m", JSON, DRAFT_JSON, "--spec-tokens", "3"], "num_speculative_tokens is named twice"),
        (["vllm", "serve", "m", "--spec-tokens", "3", "--spec-tokens", "5"], "named twice"),
        (["vllm", "serve", "m", JSON, '{"model":"a","model":"b"}'], "'model' comes twice"),
        (["vllm", "serve", "m", JSON, '{"num-speculative-tokens":1,"num_speculative_tokens":2}'], "named twice"),
        (["vllm", "serve", "m", "--config", "x.yaml"], "the file may hold"),
        (["vllm", "serve", "m", "--speculative-conf", DRAFT_JSON], "no speculative flag in full"),
        (["vllm", "serve", "m", "--spec-tok", "3"], "no speculative flag in full"),
        (["vllm", "serve", "m", "-s", DRAFT_JSON], "no speculative flag in full"),
        (["vllm", "serve", "m", f"{JSON}.a+", "1"], "a list in pieces"),
        (["vllm", "serve", "m", f"{JSON}.model a"], "takes all of this for a key"),
        (["vllm", "serve", "m", f"{JSON}.num_speculative_tokens=1k"], "differ over whether this is a number"),
        (["vllm", "serve", "m", JSON, "{}"], "does not start with an empty setting"),
        (["vllm", "serve", "m", JSON, "[]"], "no JSON object"),
        (["vllm", "serve", "m", JSON, '{"method": "ngram"'], "no JSON"),
        (["vllm", "serve", "m", JSON, '{"num_speculative_tokens": NaN}'], "NaN is no JSON"),
        (["vllm", "serve", "m", JSON, '{"num_speculative_tokens": true}'], "no whole number"),
        (["vllm", "serve", "m", JSON, '{"model": 5}'], "no text"),
        (["vllm", "serve", "m", JSON], "no value"),
        (["vllm", "serve", "m", JSON, "--port", "80"], "no value"),
        (["vllm", "serve", "m", "--spec-tokens", "three"], "no value that fits"),
        (["vllm", "serve", "m", "--speculative-model", "d", JSON, DRAFT_JSON], "old flag stands beside a new one"),
        (["vllm", "serve", "m", "--", JSON, DRAFT_JSON], "no flags"),
        (["vllm", "serve", "m", JSON, "\0"], "no program starts"),
        (["vllm", "serve", "m", "x" * 131_072], "no program starts"),
        # Programs.
        (["vllm", "bench", "serve"], "no engine"),
        (["python3", "serve.py", JSON, DRAFT_JSON], "no engine"),
        (["sh", "-c"], "no engine"),
        # What only the shell will know.
        (script(f'vllm serve m {JSON} "$CONFIG"'), "only known when it runs"),
        (script(f'vllm serve m {JSON} "$(cat /config.json)"'), "only known when it runs"),
        (script(f"vllm serve m {JSON} `cat /config.json`"), "only known when it runs"),
        (script("vllm serve m $EXTRA"), "may hold flags"),
        (script("vllm serve m --port 80 ${ARGS[@]}"), "may hold flags"),
        (script("vllm serve m --enable-lora $VLLM_ARGS"), "may hold flags"),
        (script('vllm serve "$@"'), "may hold flags"),
        (script(f'vllm serve m {JSON} {{\\"method\\":\\"ngram\\",\\"model\\":\\"x\\"}}'), "the shell may expand"),
        # Scripts.
        (script("vllm serve a & vllm serve b"), "more than one command"),
        (script("vllm serve m | tee log"), "part of a pipe"),
        (script("yes | vllm serve m"), "part of a pipe"),
        (script("(vllm serve m)"), "part of a pipe or a subshell"),
        (script("(\nvllm serve m)"), "part of a pipe or a subshell"),
        (script("eval vllm serve m"), "no command is seen"),
        (script("if true; then vllm serve m; fi"), "no command is seen"),
        (script("xargs vllm serve m"), "no command is seen"),
        (script("bash -c 'vllm serve m'"), "no command is seen"),
        (script(f"A='{JSON}'; run {JSON} x; vllm serve m"), "another command"),
        (script("vllm serve m <<E\nE"), "here-document"),
        (script("vllm serve m 'x"), "not closed"),
        (script('vllm serve m "x'), "not closed"),
        (script("vllm serve m $(x"), "not closed"),
        (script("vllm serve m ${A:-'x'}"), "too involved"),
        (script("vllm serve m \\"), "backslash"),
        # llama-server.
        ([*LLAMA, "-md", "d.gguf"], "depends on the build"),
        ([*LLAMA, "--spec-type=none"], "takes no value after ="),
        ([*LLAMA, "--spec-type", "none", "--spec-type", "ngram-simple"], "twice"),
        ([*LLAMA, "-md", "a", "--model-draft", "b", "--spec-type", "draft-simple"], "twice"),
        ([*LLAMA, "--spec-default"], "stands for"),
        ([*LLAMA, "-md", "a", "-hfd", "b", "--spec-type", "draft-simple"], "together"),
        ([*LLAMA, "-md", "a", "--draft-max", "5", "--spec-draft-n-max", "5"], "old flag stands beside a new one"),
        ([*LLAMA, "--spec-draft-n-max", "-1"], "no value"),
        ([*LLAMA, "--spec-type", "ngram"], "none that llama-server has"),
    ],
)
def test_what_is_not_sure_is_refused_in_one_line_with_a_mend(command: list[str], reason: str) -> None:
    with pytest.raises(CommandLineError) as refusal:
        read(command)
    text = str(refusal.value)
    assert reason in text
    assert "\n" not in text
    assert len(text) < 300
    assert refusal.value.mend in text


@pytest.mark.parametrize(
    ("version", "flags", "reason"),
    [
        ("0.8.3", ["--speculative-model", "d", "--num-speculative-tokens", "5"], "0.4.1 to before 0.8.3"),
        ("0.8.1", [JSON, DRAFT_JSON], "0.8.2 and later"),
        ("0.18.0", ["-sc", DRAFT_JSON], "0.19 and later"),
        ("0.21.0", ["--spec-method", "ngram", "--spec-tokens", "4"], "0.22 and later"),
        ("0.8.5", [f"{JSON}.method=ngram"], "0.9 and later"),
    ],
)
def test_a_form_that_the_release_does_not_know_is_refused(version: str, flags: list[str], reason: str) -> None:
    with pytest.raises(CommandLineError, match=reason):
        read(["vllm", "serve", "m", *flags], version=version)
    assert read(["vllm", "serve", "m", *flags]).speculation


def test_a_flag_that_the_build_has_removed_is_refused() -> None:
    with pytest.raises(CommandLineError, match="removed"):
        read([*LLAMA, "-md", "d", "--draft-max", "5"], version="b11434")


def test_the_policys_engine_must_be_the_one_that_starts() -> None:
    with pytest.raises(CommandLineError, match="this starts VLLM, not LlamaCpp"):
        read(["vllm", "serve", "m"], engine=Engine.LLAMACPP)


@pytest.mark.parametrize(
    ("args", "environment", "reason"),
    [
        (["m", f"{JSON}=$(SPEC)"], None, "value is not known"),
        (["m", f"{JSON}=$(SPEC)"], {}, "value is not known"),
        (["m", f"{JSON}=$(A)$(B)"], {"A": "", "B": ""}, "only part of the setting"),
        (["m", f"{JSON}=$(SPEC)", "--spec-tokens", "3"], {"SPEC": '{"model":"d"}'}, "only part of the setting"),
        (["m", "--seed", "1", "$(MORE)"], {}, "may hold flags"),
        (["-m", "t.gguf"], {"LLAMA_ARG_SPEC_TYPE": "ngram-simple"}, "this variable is part of the setting"),
    ],
)
def test_a_variable_that_leaves_something_open_is_refused(
    args: list[str], environment: dict[str, str] | None, reason: str
) -> None:
    with pytest.raises(CommandLineError, match=reason):
        read([], args, environment=environment)


def test_a_variable_that_the_script_sets_itself_is_not_known() -> None:
    for text in ("SPEC=x\n", "export SPEC=x; ", ". /env.sh\n", "read SPEC; ", ': "${SPEC:=x}"\n'):
        with pytest.raises(CommandLineError, match="only known when it runs"):
            read(script(f'{text}vllm serve m {JSON} "$SPEC"'), environment={"SPEC": DRAFT_JSON})


@pytest.mark.parametrize(
    ("command", "known", "level", "reason"),
    [
        (
            ["vllm", "serve", "m"],
            {"version": "0.12.0"},
            K5,
            "does not run draft_model, which runs in releases before 0.10 and 0.14.2",
        ),
        (
            ["vllm", "serve", "m"],
            {"version": "0.8.1"},
            Level("e", Drafter("e", Method.EAGLE, "x"), 2),
            "know draft_model",
        ),
        (LLAMA, {}, Level("s", Drafter("s", Method.SUFFIX), 2), "no suffix"),
        (
            script(f"vllm serve m {JSON}=$(SPEC)"),
            {"environment": {"SPEC": ""}},
            NGRAM,
            "just these quotes",
        ),
        (script(f'vllm serve m {JSON}="$(SPEC)"'), {"environment": {"SPEC": ""}}, NGRAM, "just these quotes"),
        # vLLM takes a draft model of this name for an EAGLE head.
        (
            ["vllm", "serve", "m"],
            {},
            Level("d", Drafter("d", Method.DRAFT_MODEL, "org/EAGLE3-x"), 2),
            "would take this",
        ),
        (
            ["vllm", "serve", "m", f"{JSON}=$(SPEC)", "--per-request-spec-decode-metrics", "summary"],
            {"environment": {"SPEC": DRAFT_JSON}},
            DISABLED,
            "while speculation is off",
        ),
    ],
)
def test_a_level_that_cannot_be_written_for_sure_is_refused(
    command: list[str], known: dict[str, Any], level: Level, reason: str
) -> None:
    with pytest.raises(CommandLineError, match=reason):
        write(read(command, **known), level)
