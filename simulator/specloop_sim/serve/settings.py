"""What a simulated server is told: vLLM's own flags, and in the environment what vLLM has no flag for.

| variable | meaning | default |
|---|---|---|
| SPECLOOP_SIM_PROFILE | hardware and model, by name (profile.py) | 4xh100-llama-3.3-70b |
| SPECLOOP_SIM_SEED | seed of the requests' luck | 0 |
| SPECLOOP_SIM_SPEED | model seconds per second of the wall | 1 |
| SPECLOOP_SIM_EPOCH | moment, in seconds since 1970, at which the model's time is the wall's | when it starts |
| SPECLOOP_SIM_CLUSTERING | 0: all requests are equally easy to guess | 1 |
| SPECLOOP_SIM_STARTUP_SECONDS | model seconds from the start of the process to the open port | the profile's |
| SPECLOOP_SIM_FAULTS | what is wrong with it, by level, in JSON (faults.py) | nothing |

Servers with the same epoch and speed have the same time: `model = epoch + (wall - epoch) * speed`.
"""

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specloop_engine.command_line import CommandLine, read, write_config
from specloop_engine.configuration import TOKENS
from specloop_engine.failure import Harm
from specloop_engine.json_object import dumps
from specloop_engine.known_failures import known_failures, start_of
from specloop_engine.speculation import BatchTable, Speculation
from specloop_engine.words import CommandLineError
from specloop_policy.engine import Engine
from specloop_policy.ladder import DISABLED, Drafter, Level, Method
from specloop_sim.profile import Profile, UnknownProfile, profile_named
from specloop_sim.serve.faults import VARIABLE, Faults, read_faults
from specloop_sim.text import known_methods
from specloop_vllm.exchange import FOLDER

VERSION = "0.32.0"
"""The vLLM that is simulated."""
MIDDLEWARE = "specloop_vllm.Middleware"
SCHEDULERS = ("specloop_vllm.LiveScheduler", "specloop_vllm.LiveAsyncScheduler")
"""What it takes for `--scheduler-cls`; the simulated engine steps as it does with either."""
DEFAULT_PROFILE = "4xh100-llama-3.3-70b"


class StartFailure(Exception):
    """The engine does not start with this configuration; trying again does not help until it changes."""


class BadEnvironment(ValueError):
    """A variable of the environment has a value that means nothing."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that a simulated server is told."""

    model: str
    served_names: tuple[str, ...]
    """What clients may call the model; the first stands in metrics and answers."""
    host: str
    port: int
    level: Level
    probabilistic: bool
    max_num_seqs: int | None
    max_model_len: int | None
    plugin: bool
    """Whether the plugin's middleware stands before the server."""
    live: bool
    """Whether the plugin's scheduler looks at what is wanted before each step."""
    table: BatchTable
    live_folder: str | None
    shutdown_seconds: float
    """Model seconds that requests under way are given when it is told to end."""
    profile: Profile
    seed: int
    speed: float
    epoch: float
    clustering: bool
    startup_seconds: float
    faults: Faults


def read_settings(arguments: Sequence[str], environment: Mapping[str, str], now: float) -> Settings:
    """Settings from a command line and an environment, at `now` on the wall.

    Exits as vLLM does on flags that it does not know; raises StartFailure and BadEnvironment.
    """
    if list(arguments[:1]) != ["serve"]:
        _parser().error("the simulated server knows one command: serve")
    line = _read_speculation(arguments)
    for finding in known_failures(start_of(line)):
        if finding.harm is Harm.NO_START:
            raise StartFailure(finding.message)
    flags = _parser().parse_args(_with_dashes(write_config(line, None).command[2:]))
    for name in flags.middleware:
        if name != MIDDLEWARE:
            raise StartFailure(f"the simulated server loads {MIDDLEWARE}, and not the middleware {name}")
    if flags.scheduler_cls not in (None, *SCHEDULERS):
        raise StartFailure(f"the simulated server loads {' and '.join(SCHEDULERS)}, and not {flags.scheduler_cls}")
    profile = _profile(environment)
    level = _level(line.speculation, profile)
    model = flags.model_tag or flags.model
    return Settings(
        model=model,
        served_names=tuple(flags.served_model_name or [model]),
        host=flags.host,
        port=flags.port,
        level=level,
        probabilistic=_is_probabilistic(line.speculation),
        max_num_seqs=flags.max_num_seqs,
        max_model_len=flags.max_model_len,
        plugin=bool(flags.middleware),
        live=flags.scheduler_cls is not None,
        table=() if line.speculation is None else line.speculation.table,
        live_folder=environment.get(FOLDER) or None,
        shutdown_seconds=flags.shutdown_timeout,
        profile=profile,
        seed=int(_number(environment, "SPECLOOP_SIM_SEED", 0.0)),
        speed=_number(environment, "SPECLOOP_SIM_SPEED", 1.0, positive=True),
        epoch=_number(environment, "SPECLOOP_SIM_EPOCH", now),
        clustering=environment.get("SPECLOOP_SIM_CLUSTERING", "1") != "0",
        startup_seconds=_number(environment, "SPECLOOP_SIM_STARTUP_SECONDS", profile.startup_seconds),
        faults=_faults(environment, level),
    )


def _read_speculation(arguments: Sequence[str]) -> CommandLine:
    try:
        return read(("vllm", *arguments), engine=Engine.VLLM, version=VERSION)
    except CommandLineError as error:
        _parser().parse_args(_with_dashes(arguments[1:]))  # it may be a flag that vLLM has no more
        raise StartFailure(str(error)) from error


def _with_dashes(arguments: Sequence[str]) -> list[str]:
    """Arguments with underscores of flags made dashes, as vLLM reads them."""
    parts = [word.partition("=") for word in arguments]
    return [
        name.replace("_", "-") + sign + value if name.startswith("--") else name + sign + value
        for name, sign, value in parts
    ]


def _level(speculation: Speculation | None, profile: Profile) -> Level:
    """The level that a setting is; raises StartFailure where vLLM would not start with it, or cannot be simulated."""
    if speculation is None:
        return DISABLED
    if speculation.tokens is None:
        raise StartFailure(f"{TOKENS} must be provided with speculative model, which has no n_predict here.")
    if speculation.method not in known_methods():
        known = ", ".join(known_methods())
        raise StartFailure(
            f"the simulated server has no figures for drafts by {speculation.method}; it has for {known}"
        )
    method = Method(speculation.method)
    drafter = Drafter("drafter", method, speculation.model, speculation.lookup_min, speculation.lookup_max)
    level = Level(f"{method}-{speculation.tokens}", drafter, speculation.tokens)
    try:
        profile.timer(level)
    except UnknownProfile as error:
        raise StartFailure(str(error)) from error
    return level


def _is_probabilistic(speculation: Speculation | None) -> bool:
    return speculation is not None and ("draft_sample_method", dumps("probabilistic")) in speculation.others


def _profile(environment: Mapping[str, str]) -> Profile:
    try:
        return profile_named(environment.get("SPECLOOP_SIM_PROFILE") or DEFAULT_PROFILE)
    except UnknownProfile as error:
        raise BadEnvironment(f"SPECLOOP_SIM_PROFILE: {error}") from error


def _faults(environment: Mapping[str, str], level: Level) -> Faults:
    try:
        return read_faults(environment.get(VARIABLE, ""), level)
    except ValueError as error:
        raise BadEnvironment(f"{VARIABLE}: {error}") from error


def _number(environment: Mapping[str, str], name: str, default: float, *, positive: bool = False) -> float:
    text = environment.get(name, "")
    if not text:
        return default
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number < 0.0 or (positive and number == 0.0):
        raise BadEnvironment(f"{name} is {text!r}; give it a {'positive ' if positive else ''}number")
    return number


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def _parser() -> argparse.ArgumentParser:
    """The flags of `vllm serve` that are simulated, and some that change nothing here."""
    parser = argparse.ArgumentParser("vllm serve", usage="vllm serve [model_tag] [options]", allow_abbrev=False)
    parser.add_argument("model_tag", nargs="?")
    parser.add_argument("--model", default="Qwen/Qwen3-0.6B")  # vLLM's default
    parser.add_argument("--host", default="0.0.0.0")  # vLLM listens everywhere by default
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--served-model-name", nargs="+")
    parser.add_argument("--max-num-seqs", type=_at_least_one)
    parser.add_argument("--max-model-len", type=_at_least_one)
    parser.add_argument("--middleware", action="append", default=[])
    parser.add_argument("--scheduler-cls")
    parser.add_argument("--shutdown-timeout", type=float, default=0.0)
    parser.add_argument("--speculative-config", "-sc")
    for name in ("--tensor-parallel-size", "--gpu-memory-utilization", "--dtype", "--seed", "--quantization"):
        parser.add_argument(name, help="changes nothing here")
    for name in ("--enforce-eager", "--no-enable-prefix-caching", "--enable-log-requests"):
        parser.add_argument(name, action="store_true", help="changes nothing here")
    return parser
