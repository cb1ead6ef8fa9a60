"""One setting in every form that engines take: read, and written back in the form found."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from specloop_engine.command_line import CommandLine, Written, read, write, write_config
from specloop_engine.flags import Form
from specloop_engine.speculation import Speculation, fits, match
from specloop_engine.words import CommandLineError
from specloop_policy.engine import Engine
from specloop_policy.ladder import DISABLED, Level, Method
from tests.unit.engine_command_line.levels import DRAFT_JSON, DRAFT_NAME, K3, K5, LADDER, NGRAM

JSON = "--speculative-config"


@dataclass(frozen=True)
class Case:
    """A command at K = 5, and the same command at K = 3, with n-gram lookup, and off."""

    name: str
    form: Form
    k5: tuple[list[str], list[str]]
    k3: tuple[list[str], list[str]]
    ngram: tuple[list[str], list[str]]
    off: tuple[list[str], list[str]]
    known: dict[str, Any] = field(default_factory=dict)

    def at(self, level: Level) -> tuple[list[str], list[str]]:
        """The command at a level."""
        return {"k5": self.k5, "k3": self.k3, "ngram": self.ngram, "disabled": self.off}[level.name]


def script(text: str) -> tuple[list[str], list[str]]:
    return ["/bin/sh", "-c"], [text]


NGRAM_IN_PLACE = '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4, "prompt_lookup_min": 2}'
K3_JSON = DRAFT_JSON.replace("5}", "3}")
LLAMA = ["llama-server", "-m", "t.gguf"]
CASES = (
    Case(
        "args of an image, two items",
        Form.JSON,
        ([], ["--model", "m", JSON, DRAFT_JSON, "--port", "80"]),
        ([], ["--model", "m", JSON, K3_JSON, "--port", "80"]),
        ([], ["--model", "m", JSON, NGRAM_IN_PLACE, "--port", "80"]),
        ([], ["--model", "m", "--port", "80"]),
    ),
    Case(
        "command and args, one item, underscores",
        Form.JSON,
        (["vllm", "serve", "m"], ["--speculative_config=" + DRAFT_JSON, "-tp", "2"]),
        (["vllm", "serve", "m"], ["--speculative_config=" + K3_JSON, "-tp", "2"]),
        (["vllm", "serve", "m"], ["--speculative_config=" + NGRAM_IN_PLACE, "-tp", "2"]),
        (["vllm", "serve", "m"], ["-tp", "2"]),
    ),
    Case(
        "the alias, behind an init and an interpreter",
        Form.JSON,
        (["tini", "--", "python3", "-m", "vllm.entrypoints.openai.api_server", "-sc", DRAFT_JSON], []),
        (["tini", "--", "python3", "-m", "vllm.entrypoints.openai.api_server", "-sc", K3_JSON], []),
        (["tini", "--", "python3", "-m", "vllm.entrypoints.openai.api_server", "-sc", NGRAM_IN_PLACE], []),
        (["tini", "--", "python3", "-m", "vllm.entrypoints.openai.api_server"], []),
        {"version": "0.19.0"},
    ),
    Case(
        "one item with a blank",
        Form.JSON,
        ([], ["m", f"{JSON} {DRAFT_JSON}", "--port=80"]),
        ([], ["m", f"{JSON} {K3_JSON}", "--port=80"]),
        ([], ["m", f"{JSON} {NGRAM_IN_PLACE}", "--port=80"]),
        ([], ["m", "--port=80"]),
    ),
    Case(
        "a script, single quotes, continued lines, a comment",
        Form.JSON,
        script(f"set -e\nexec vllm serve $MODEL \\\n  {JSON} '{DRAFT_JSON}' \\\n  --api-key \"$KEY\" # it's\n"),
        script(f"set -e\nexec vllm serve $MODEL \\\n  {JSON} '{K3_JSON}' \\\n  --api-key \"$KEY\" # it's\n"),
        script(f"set -e\nexec vllm serve $MODEL \\\n  {JSON} '{NGRAM_IN_PLACE}' \\\n  --api-key \"$KEY\" # it's\n"),
        script('set -e\nexec vllm serve $MODEL \\\n  --api-key "$KEY" # it\'s\n'),
    ),
    Case(
        "a script, double quotes and backslashes, a redirection",
        Form.JSON,
        script("vllm serve m {}={} 2>&1".format(JSON, '"' + DRAFT_JSON.replace('"', '\\"') + '"')),
        script("vllm serve m {}={} 2>&1".format(JSON, '"' + K3_JSON.replace('"', '\\"') + '"')),
        script("vllm serve m {}={} 2>&1".format(JSON, '"' + NGRAM_IN_PLACE.replace('"', '\\"') + '"')),
        script("vllm serve m 2>&1"),
    ),
    Case(
        "a script after another command, with what only the shell knows elsewhere",
        Form.JSON,
        script(f"bash /multi-node.sh leader --ray_cluster_size=$(LWS_GROUP_SIZE); vllm serve m {JSON} '{DRAFT_JSON}'"),
        script(f"bash /multi-node.sh leader --ray_cluster_size=$(LWS_GROUP_SIZE); vllm serve m {JSON} '{K3_JSON}'"),
        script(
            f"bash /multi-node.sh leader --ray_cluster_size=$(LWS_GROUP_SIZE); vllm serve m {JSON} '{NGRAM_IN_PLACE}'"
        ),
        script("bash /multi-node.sh leader --ray_cluster_size=$(LWS_GROUP_SIZE); vllm serve m"),
    ),
    Case(
        "dotted flags, joined and not",
        Form.DOTTED,
        ([], ["m", f"{JSON}.method", "draft_model", f"{JSON}.model={DRAFT_NAME}", f"{JSON}.num_speculative_tokens=5"]),
        ([], ["m", f"{JSON}.method", "draft_model", f"{JSON}.model={DRAFT_NAME}", f"{JSON}.num_speculative_tokens=3"]),
        (
            [],
            [
                *("m", f"{JSON}.method", "ngram", f"{JSON}.num_speculative_tokens=4"),
                *(f"{JSON}.prompt_lookup_max=4", f"{JSON}.prompt_lookup_min=2"),
            ],
        ),
        ([], ["m"]),
        {"version": "0.9.0"},
    ),
    Case(
        "short flags, JSON for what they lack",
        Form.SHORT,
        ([], ["m", "--spec-method", "draft_model", "--spec-model", DRAFT_NAME, "--spec-tokens", "5", "--seed", "1"]),
        ([], ["m", "--spec-method", "draft_model", "--spec-model", DRAFT_NAME, "--spec-tokens", "3", "--seed", "1"]),
        (
            [],
            [
                *("m", "--spec-method", "ngram", "--spec-tokens", "4"),
                *(JSON, '{"prompt_lookup_max":4,"prompt_lookup_min":2}', "--seed", "1"),
            ],
        ),
        ([], ["m", "--seed", "1"]),
        {"version": "0.22.0"},
    ),
    Case(
        "legacy flags",
        Form.LEGACY,
        ([], ["--model", "m", "--speculative-model", DRAFT_NAME, "--num-speculative-tokens=5", "--seed", "1"]),
        ([], ["--model", "m", "--speculative-model", DRAFT_NAME, "--num-speculative-tokens=3", "--seed", "1"]),
        (
            [],
            [
                *("--model", "m", "--speculative-model", "[ngram]", "--num-speculative-tokens=4"),
                *("--ngram-prompt-lookup-max=4", "--ngram-prompt-lookup-min=2", "--seed", "1"),
            ],
        ),
        ([], ["--model", "m", "--seed", "1"]),
        {"version": "0.8.2"},
    ),
    Case(
        "llama-server",
        Form.FLAGS,
        ([*LLAMA, "-md", DRAFT_NAME, "--spec-type", "draft-simple", "--spec-draft-n-max", "5", "--temp", "0"], []),
        ([*LLAMA, "-md", DRAFT_NAME, "--spec-type", "draft-simple", "--spec-draft-n-max", "3", "--temp", "0"], []),
        (
            [
                *(*LLAMA, "--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "2"),
                *("--spec-ngram-simple-size-m", "4", "--temp", "0"),
            ],
            [],
        ),
        ([*LLAMA, "--temp", "0"], []),
        {"version": "b11434"},
    ),
)
EVERY_CASE = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
EVERY_LEVEL = pytest.mark.parametrize("level", LADDER.levels, ids=lambda level: level.name)


@EVERY_CASE
def test_the_setting_is_read(case: Case) -> None:
    line = read(*case.k5, **case.known)
    assert line.speculation == Speculation(Method.DRAFT_MODEL, DRAFT_NAME, 5)
    assert line.form is case.form
    assert match(line.speculation, LADDER) is K5


@EVERY_CASE
@EVERY_LEVEL
def test_a_level_is_written_in_the_form_found_and_all_else_is_untouched(case: Case, level: Level) -> None:
    written = write(read(*case.k5, **case.known), level)
    assert (list(written.command), list(written.args)) == case.at(level)
    assert fits(read(written.command, written.args, **case.known).speculation, level)


@EVERY_CASE
def test_what_runs_at_a_level_already_stays_byte_for_byte(case: Case) -> None:
    assert write(read(*case.k5, **case.known), K5) == Written(tuple(case.k5[0]), tuple(case.k5[1]))


@pytest.mark.parametrize("off", ["", "null", "None"])
def test_a_flag_that_says_off_is_off_and_takes_a_level_in_place(off: str) -> None:
    line = read([], ["m", f"{JSON}={off}", "--seed", "1"])
    assert line.speculation is None
    assert write(line, DISABLED).args == ("m", f"{JSON}={off}", "--seed", "1")
    assert write(line, NGRAM).args == (
        "m",
        JSON + '={"method":"ngram","num_speculative_tokens":4,"prompt_lookup_max":4,"prompt_lookup_min":2}',
        *("--seed", "1"),
    )


@pytest.mark.parametrize(
    ("version", "flag"),
    [(None, JSON), ("0.32.0", JSON), ("0.8.2", JSON), ("0.8.1", "--speculative-model")],
)
def test_a_new_setting_comes_in_the_form_of_the_release(version: str | None, flag: str) -> None:
    written = write(read(["vllm", "serve", "m"], version=version), K5)
    assert written.command[3] == flag


def test_a_new_setting_in_a_script_is_quoted_and_comes_before_redirections() -> None:
    written = write(read(*script("vllm serve m>log")), K5)
    assert written.args == (
        f"""vllm serve m {JSON} '{{"method":"draft_model","model":"{DRAFT_NAME}","num_speculative_tokens":5}}' >log""",
    )


def test_other_keys_of_the_same_drafter_stay_and_those_of_another_go() -> None:
    found = (
        '{ "num-speculative-tokens": 5,\n  "model": "' + DRAFT_NAME + '",\n  "draft_tensor_parallel_size": 1,\n'
        '  "x": {"y": [1.50]}\n}'
    )
    line = read([], [JSON, found])
    assert write(line, K3).args[1] == found.replace("5,", "3,", 1)
    assert write(line, NGRAM).args[1] == (
        '{ "num-speculative-tokens": 4,\n  "method": "ngram",\n  "prompt_lookup_max": 4,\n  "prompt_lookup_min": 2\n}'
    )


def test_both_lookup_lengths_are_always_written() -> None:
    line = read([], [JSON, '{"method":"ngram","num_speculative_tokens":4,"prompt_lookup_max":4}'])
    assert line.speculation == Speculation(Method.NGRAM, None, 4, lookup_min=4, lookup_max=4)  # vLLM copies it
    assert write(line, NGRAM).args[1] == (
        '{"method":"ngram","num_speculative_tokens":4,"prompt_lookup_max":4,"prompt_lookup_min":2}'
    )


@pytest.mark.parametrize("line", [["vllm", "serve", "m"], ["llama-server", "-m", "t.gguf"]])
def test_off_takes_flags_away_that_need_a_setting(line: list[str]) -> None:
    vllm = line[0] == "vllm"
    setting = [JSON, DRAFT_JSON] if vllm else ["-md", DRAFT_NAME, "--spec-type", "draft-simple"]
    needing = ["--per-request-spec-decode-metrics", "summary"] if vllm else ["--spec-synth-rates", "0.7,0.5"]
    found = read([*line, *needing, *setting, "--seed", "1"])
    assert list(write(found, DISABLED).command) == [*line, "--seed", "1"]
    assert set(needing) < set(write(found, NGRAM).command)


def test_metrics_that_are_turned_off_themselves_stay() -> None:
    found = read([], ["m", "--per-request-spec-decode-metrics", "none", JSON, DRAFT_JSON])
    assert write(found, DISABLED).args == ("m", "--per-request-spec-decode-metrics", "none")


VARIABLE = "--speculative-config=$(SPECULATIVE_CONFIG)"


@pytest.mark.parametrize(
    ("command", "args"),
    [
        ([], ["m", VARIABLE]),
        (["vllm", "serve", "m", JSON, "$(SPECULATIVE_CONFIG)"], []),
        script(f"exec vllm serve m {JSON} '$(SPECULATIVE_CONFIG)'"),
        script(f'exec vllm serve m {JSON}="$SPECULATIVE_CONFIG"'),
        script(f'exec vllm serve m "{JSON}=${{SPECULATIVE_CONFIG}}"'),
    ],
)
@pytest.mark.parametrize("value", ["", DRAFT_JSON])
@EVERY_LEVEL
def test_a_setting_in_a_variable_is_changed_there_and_the_command_never(
    command: list[str], args: list[str], value: str, level: Level
) -> None:
    line = read(command, args, environment={"SPECULATIVE_CONFIG": value})
    written = write(line, level)
    assert (line.form, [*written.command], [*written.args]) == (Form.VARIABLE, command, args)
    now = {"SPECULATIVE_CONFIG": value} | dict(written.variables)
    assert fits(read(command, args, environment=now).speculation, level)


def test_a_variable_is_switched_off_by_exactly_an_empty_string() -> None:
    line = read([], ["m", VARIABLE], environment={"SPECULATIVE_CONFIG": DRAFT_JSON})
    assert write(line, DISABLED).variables == {"SPECULATIVE_CONFIG": ""}
    assert write(line, K3).variables == {"SPECULATIVE_CONFIG": K3_JSON}


def test_a_variable_inside_the_json_stays_one() -> None:
    found = '{"method":"draft_model","model":"$(DRAFT)","num_speculative_tokens":5}'
    line = read([], ["m", JSON, found], environment={"DRAFT": DRAFT_NAME})
    assert line.speculation == Speculation(Method.DRAFT_MODEL, DRAFT_NAME, 5)
    assert write(line, K3).args[2] == found.replace("5}", "3}")


def test_a_shell_variable_inside_the_json_stays_one() -> None:
    text = 'vllm serve m --speculative-config "{{\\"model\\":\\"$DRAFT\\",\\"num_speculative_tokens\\":{}}}"'
    line = read(*script(text.format(5)), environment={"DRAFT": DRAFT_NAME})
    assert write(line, K3).args == (text.format(3),)


def test_doubled_dollars_are_kept_and_written_where_kubernetes_reads() -> None:
    line = read([], ["m", "--api-key", "$$(KEY)"], environment={})
    odd = {"method": "draft_model", "model": "a$(b)", "num_speculative_tokens": 2}
    written = write_config(line, odd)
    assert written.args[2] == "$$(KEY)"
    assert written.args[4] == '{"method":"draft_model","model":"a$$(b)","num_speculative_tokens":2}'
    assert read([], written.args, environment={}).config == odd


@pytest.mark.parametrize(
    ("command", "args", "engine"),
    [
        (["vllm", "serve", "m"], [], Engine.VLLM),
        (["/usr/bin/python3", "/usr/local/bin/vllm", "serve", "m"], [], Engine.VLLM),
        (["python", "-u", "-m", "vllm.entrypoints.openai.api_server"], ["--model", "m"], Engine.VLLM),
        (["python3", "-m", "vllm.entrypoints.cli.main", "serve"], ["m"], Engine.VLLM),
        ([], ["--model", "m"], Engine.VLLM),
        ([], ["serve", "m"], Engine.VLLM),
        (["/app/llama-server"], ["-m", "x.gguf"], Engine.LLAMACPP),
        (["./forced-llama-server", "-m", "x.gguf"], [], Engine.LLAMACPP),
        ([], ["-m", "x.gguf"], Engine.LLAMACPP),
        (["bash", "-euo", "pipefail", "-c", "exec numactl -N 0 vllm serve m"], [], Engine.VLLM),
        (["sh", "-c"], ["A=1 exec env B=2 llama-server -m x"], Engine.LLAMACPP),
    ],
)
def test_the_engine_is_known_by_how_it_is_started(command: list[str], args: list[str], engine: Engine) -> None:
    assert read(command, args).engine is engine


def test_another_program_needs_the_policy_to_name_the_engine() -> None:
    command = ["/entrypoint.sh", "--port", "80"]
    with pytest.raises(CommandLineError, match="no engine is seen"):
        read(command)
    assert write(read(command, engine=Engine.VLLM), K5).command[:4] == (*command, JSON)


def test_the_target_is_the_model_that_is_served() -> None:
    def target(*command: str) -> str | None:
        return read(command).target

    assert target("vllm", "serve", "org/m", "--seed", "1") == "org/m"
    assert target("vllm", "serve", "--seed", "1", "--model", "org/m") == "org/m"
    assert target("vllm", "serve", "--seed", "1") is None
    assert target("llama-server", "--port", "1", "-m", "x.gguf") == "x.gguf"
    assert target("llama-server", "-hf", "org/m:Q4") == "org/m:Q4"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("vllm serve org/m", "org/m"),
        ("vllm serve --model org/m", "org/m"),
        ("vllm serve org/m --served-model-name chat chat-8b --seed 1", "chat"),  # metrics have the first
        ("vllm serve org/m --served_model_name=chat", "chat"),
        ("vllm serve org/m --served-model chat", "chat"),  # argparse takes a flag's beginning
        ("vllm serve --seed 1", None),  # a default that differs between releases
        ("vllm serve org/m --served-model-name", None),
        ("vllm serve org/m --served-model-name $(NAME)", None),
        ("vllm serve $(MODEL)", None),
        ("vllm serve --model $(MODEL)", None),
        ("llama-server -m x.gguf", None),
    ],
)
def test_metrics_call_the_model_by_its_first_name(command: str, name: str | None) -> None:
    """By what vLLM's `--served-model-name` says: the label `model_name` is the first of several, else the model."""
    assert read(command.split(), environment={}).served_name == name


def test_a_name_that_only_the_shell_knows_is_none() -> None:
    assert read(["sh", "-c", 'exec vllm serve "$MODEL" --seed 1']).served_name is None
    assert read(["sh", "-c", 'exec vllm serve org/m --served-model-name "$(hostname)"']).served_name is None


def test_old_llama_servers_keep_their_own_flag_and_have_no_ngram() -> None:
    line = read(["llama-server", "-m", "t", "-md", DRAFT_NAME, "--draft-max", "5", "--draft-min", "1"])
    assert write(line, K3).command[-4:] == ("--draft-max", "3", "--draft-min", "1")
    with pytest.raises(CommandLineError, match="no ngram"):
        write(line, NGRAM)


def test_builds_that_know_no_other_flag_get_the_old_one() -> None:
    assert write(read(LLAMA, version="b5000"), K5).command == (*LLAMA, "-md", DRAFT_NAME, "--draft-max", "5")
    assert "--spec-draft-n-max" in write(read(LLAMA, version="b11434"), K5).command


def setting(line: CommandLine) -> tuple[str, int | None] | None:
    return (line.speculation.method, line.speculation.tokens) if line.speculation else None


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        # Tried on build 11434.
        ([], None),
        (["--spec-type", "none", "-md", "d.gguf"], None),
        (["--spec-type", "draft-simple"], None),
        (["--spec-draft-n-max", "5"], None),
        (["--spec_type", "draft-simple", "--spec-draft-model", "d", "--spec-draft-n-max", "4"], ("draft_model", 4)),
        (["--spec-type", "ngram-simple"], ("ngram", 48)),
        (["--spec-type", "ngram-simple", "--spec-ngram-simple-size-m", "4"], ("ngram", 4)),
        (["--spec-type", "draft-mtp", "--spec-draft-n-max", "2"], ("mtp", 2)),
        (["--spec-type", "draft-eagle3", "-hfd", "org/e", "--spec-draft-n-max", "2"], ("eagle3", 2)),
        (["--spec-type", "ngram-mod"], ("ngram-mod", None)),
        (["--spec-type", "ngram-simple,draft-simple", "-md", "d"], ("ngram-simple,draft-simple", None)),
    ],
)
def test_llama_server_flags_mean_what_the_server_makes_of_them(
    flags: list[str], expected: tuple[str, int | None] | None
) -> None:
    assert setting(read([*LLAMA, *flags])) == expected


@pytest.mark.parametrize(
    ("text", "off"),
    [
        (f"vllm serve a\\  {JSON} '{DRAFT_JSON}'", "vllm serve a\\ "),
        (f"vllm serve m --x>log {JSON} '{DRAFT_JSON}' --y>>log", "vllm serve m --x>log --y>>log"),
        (f"vllm serve m \\\n\\\n {JSON} \\\n '{DRAFT_JSON}'\n", "vllm serve m\n"),
    ],
)
def test_blanks_go_with_the_words_that_they_part(text: str, off: str) -> None:
    assert write(read(*script(text)), DISABLED).args == (off,)
