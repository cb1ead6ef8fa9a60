"""What a simulated server makes of its command line and environment."""

import json

import pytest

from specloop_policy.ladder import DISABLED, Drafter, Level, Method
from specloop_sim.serve.faults import Faults
from specloop_sim.serve.settings import BadEnvironment, Settings, StartFailure, read_settings

NOW = 1000.0


def read(*flags: str, **environment: str) -> Settings:
    return read_settings(("serve", "m", *flags), {f"SPECLOOP_SIM_{k.upper()}": v for k, v in environment.items()}, NOW)


def config(**values: object) -> tuple[str, str]:
    return "--speculative-config", json.dumps(values)


def drafts(**more: object) -> tuple[str, str]:
    return config(method="draft_model", model="small", **more)


def test_without_flags_it_is_vllm_without_speculation_in_real_time() -> None:
    settings = read()
    assert (settings.model, settings.served_names, settings.port) == ("m", ("m",), 8000)
    assert settings.level == DISABLED
    assert (settings.speed, settings.epoch, settings.seed, settings.clustering) == (1.0, NOW, 0, True)
    assert settings.startup_seconds == settings.profile.startup_seconds
    assert (settings.shutdown_seconds, settings.plugin, settings.live, settings.table) == (0.0, False, False, ())


def test_live_control_is_the_plugin_s_scheduler_and_a_table() -> None:
    table = drafts(num_speculative_tokens=5, num_speculative_tokens_per_batch_size=[[1, 8, 5], [9, 64, 2]])
    settings = read("--scheduler-cls", "specloop_vllm.LiveAsyncScheduler", *table)
    assert (settings.live, settings.table, settings.level.tokens) == (True, ((1, 8, 5), (9, 64, 2)), 5)


@pytest.mark.parametrize(
    "flags",
    [
        drafts(num_speculative_tokens=5),
        ("-sc", drafts(num_speculative_tokens=5)[1]),
        (f"--speculative_config={drafts(num_speculative_tokens=5)[1]}",),
        ("--speculative-config.model", "small", "--speculative-config.num_speculative_tokens=5"),
        ("--spec-method", "draft_model", "--spec-model=small", "--spec-tokens", "5"),
    ],
    ids=["json", "alias", "underscores", "dotted", "short"],
)
def test_the_level_is_read_from_every_form(flags: tuple[str, ...]) -> None:
    settings = read(*flags, "--max_num_seqs", "7")
    assert settings.level == Level("draft_model-5", Drafter("drafter", Method.DRAFT_MODEL, "small"), 5)
    assert settings.max_num_seqs == 7


@pytest.mark.parametrize("flags", [("--speculative-config", "null"), ("--speculative-config=",)])
def test_empty_settings_are_off(flags: tuple[str, ...]) -> None:
    assert read(*flags).level == DISABLED


def test_probabilistic_drafts_are_asked_for_by_the_sample_method() -> None:
    assert read(*drafts(num_speculative_tokens=5, draft_sample_method="probabilistic")).probabilistic
    assert not read(*drafts(num_speculative_tokens=5)).probabilistic


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (config(method="ngram", num_speculative_tokens=3, prompt_lookup_min=5, prompt_lookup_max=2), "lookup_min"),
        (drafts(num_speculative_tokens=0), "greater than 0"),
        (drafts(), "num_speculative_tokens"),
        (config(method="eagle", model="h", num_speculative_tokens=3), "no figures for drafts by eagle"),
        (config(method="suffix", num_speculative_tokens=3), "no figures for drafts by suffix"),
        (config(method="draft_model", model="Qwen/Qwen3-0.6B", num_speculative_tokens=3), "vocabular"),
        (drafts(num_speculative_tokens=3, num_speculative_tokens_per_batch_size=[[2, 64, 3]]), "must start at 1"),
        (("--scheduler-cls", "other.Scheduler"), "specloop_vllm.LiveScheduler and specloop_vllm.LiveAsyncScheduler"),
        (("--speculative-config", "{"), "JSON"),
        (("--middleware", "other.Middleware"), "other.Middleware"),
    ],
)
def test_what_vllm_or_the_simulation_cannot_start_with_is_a_failure_with_its_reason(
    flags: tuple[str, ...], message: str
) -> None:
    with pytest.raises(StartFailure, match=message):
        read_settings(("serve", "meta-llama/Llama-3.3-70B-Instruct", *flags), {}, NOW)


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (("--no-such-flag", "3"), "unrecognized arguments: --no-such-flag 3"),
        (("--speculative-model", "m"), "unrecognized arguments: --speculative-model m"),
        (("--max-num-seqs", "0"), "--max-num-seqs"),
        (("--port", "x"), "--port"),
    ],
)
def test_flags_that_vllm_does_not_take_end_as_argparse_ends(
    flags: tuple[str, ...], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        read(*flags)
    assert end.value.code == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [(), ("bench",), ("--port", "1")])
def test_any_command_but_serve_is_refused(arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit):
        read_settings(arguments, {}, NOW)


@pytest.mark.parametrize(
    ("name", "value"), [("speed", "0"), ("speed", "fast"), ("speed", "inf"), ("profile", "tpu"), ("seed", "-1")]
)
def test_a_variable_that_means_nothing_is_named(name: str, value: str) -> None:
    with pytest.raises(BadEnvironment, match=f"^SPECLOOP_SIM_{name.upper()}"):
        read(**{name: value})


def test_variables_set_what_vllm_has_no_flag_for() -> None:
    settings = read(profile="h100-llama-3.1-8b", seed="3", speed="20", epoch="500", clustering="0", startup_seconds="9")
    assert settings.profile.name == "h100-llama-3.1-8b"
    assert (settings.seed, settings.speed, settings.epoch) == (3, 20.0, 500.0)
    assert (settings.clustering, settings.startup_seconds) == (False, 9.0)


LOOKUP = config(method="ngram", num_speculative_tokens=4, prompt_lookup_min=2, prompt_lookup_max=4)
FAULTS = '{"k3": {"stepFactor": 1.1}, "ngram": {"outputFactor": 0.2}, "disabled": {}, "*": {"errorShare": 0.5}}'


@pytest.mark.parametrize(
    ("flags", "faults"),
    [
        (drafts(num_speculative_tokens=3), Faults(step_factor=1.1)),
        (LOOKUP, Faults(output_factor=0.2)),
        ((), Faults()),
        (drafts(num_speculative_tokens=5), Faults(error_share=0.5)),
    ],
    ids=["its K", "lookup", "disabled", "any other"],
)
def test_a_server_has_the_faults_of_its_level(flags: tuple[str, ...], faults: Faults) -> None:
    assert read(*flags, faults=FAULTS).faults == faults


def test_without_being_told_nothing_is_wrong() -> None:
    assert read().faults == read(faults="{}").faults == Faults()


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("{", "JSON"),
        ("[]", "object"),
        ('{"k0": {}}', "k0: String should match"),
        ('{"k3": {"stepFactor": 0}}', "k3.stepFactor: Input should be greater than 0"),
        ('{"*": {"stepfactor": 1.1}}', r"\*.stepfactor: Extra inputs"),
        ('{"*": {"neverReady": "yes"}}', r"\*.neverReady: Input should be a valid boolean"),
    ],
)
def test_faults_that_mean_nothing_are_named_with_their_place(value: str, complaint: str) -> None:
    with pytest.raises(BadEnvironment, match=f"^SPECLOOP_SIM_FAULTS: .*{complaint}"):
        read(faults=value)
