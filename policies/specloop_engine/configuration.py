"""Level ↔ configuration: the keys by which an engine is told its drafter and K.

For vLLM the keys are those of `--speculative-config`; for llama.cpp they are the server's flags.
"""

from collections.abc import Mapping
from typing import Any

from specloop_engine.json_object import dumps
from specloop_engine.releases import Releases, Version, has_method, method_releases
from specloop_engine.speculation import LOOKUP_RANGE_METHODS, BatchTable, Speculation, fits
from specloop_policy.engine import Engine
from specloop_policy.ladder import LOOKUP_METHODS, NGRAM_FALLBACK, Drafter, Level, Method

Config = Mapping[str, Any]

TOKENS = "num_speculative_tokens"
TABLE = "num_speculative_tokens_per_batch_size"
LAST_REQUESTS = 1024
"""Where a table of ours ends: vLLM's largest default of max_num_seqs; beyond its end the last K counts (0.32.0)."""
VLLM_KEYS = frozenset({"method", "model", TOKENS, TABLE, "prompt_lookup_min", "prompt_lookup_max"})
VLLM_DEFAULT_LOOKUP = 5
NAMED_METHODS = (
    ("eagle-", Method.EAGLE),
    ("eagle3", Method.EAGLE3),
    ("dflash", Method.DFLASH),
    ("dspark", Method.DSPARK),
)
"""What vLLM takes a draft model for whose name, in small letters, has this in it."""

SPEC_TYPE, DRAFT_MODEL, DRAFT_HF = "--spec-type", "--spec-draft-model", "--spec-draft-hf"
DRAFT_MAX, OLD_DRAFT_MAX = "--spec-draft-n-max", "--draft-max"
NGRAM_LENGTH, NGRAM_DRAFT = "--spec-ngram-simple-size-n", "--spec-ngram-simple-size-m"
SPEC_TYPES = {
    "draft-simple": Method.DRAFT_MODEL,
    "draft-eagle3": Method.EAGLE3,
    "draft-mtp": Method.MTP,
    "draft-dflash": Method.DFLASH,
    "draft-dspark": Method.DSPARK,
    "ngram-simple": Method.NGRAM,
}
NGRAM_LENGTH_DEFAULT, NGRAM_DRAFT_DEFAULT = 12, 48
OLD_BUILDS = Releases(until=(7000,))
"""Builds of llama.cpp that surely know `--draft-max` only; some later ones do too."""


class ConfigurationError(ValueError):
    """A configuration that says nothing clear, or a level that an engine cannot be given."""


def speculation_of(config: Config | None, engine: Engine) -> Speculation | None:
    """The setting that a configuration asks for; None: off.

    What is known only from a model's files stays unknown: a `speculators` checkpoint given as the target turns
    speculation on with no configuration at all, and a drafter without `method` passes for a draft model unless its
    name says more.  Raises ConfigurationError.
    """
    if config is None:
        return None
    return _vllm_speculation(config) if engine is Engine.VLLM else _llamacpp_speculation(config)


def to_config(level: Level, base: Config | None, engine: Engine, version: Version | None = None) -> Config | None:
    """The configuration of a level; None: off.

    `base` is the configuration that was found.  Where it has the same drafter, its other keys stay; where it is the
    level already, all of it does.  Raises ConfigurationError for a level that the engine, or this release, has not.
    """
    running = speculation_of(base, engine)
    if fits(running, level):
        return base
    if level.drafter is None:
        return None
    keep = base if running is not None and running.is_kind_of(level.drafter) else None
    if engine is Engine.LLAMACPP:
        old = OLD_DRAFT_MAX in base if base else version is not None and version in OLD_BUILDS
        return _llamacpp_config(level, level.drafter, keep, old)
    if not has_method(version, level.drafter.method):
        runs = method_releases(level.drafter.method)
        raise ConfigurationError(f"this release of vLLM does not run {level.drafter.method}, which runs in {runs}")
    return _vllm_config(level, level.drafter, keep)


def _vllm_speculation(config: Config) -> Speculation:
    method, model = _vllm_method(_text(config, "method"), _text(config, "model"))
    low, high = _whole(config, "prompt_lookup_min"), _whole(config, "prompt_lookup_max")
    if low is None and high is None:
        low = high = VLLM_DEFAULT_LOOKUP
    table = _table(config.get(TABLE))
    known = VLLM_KEYS if table or config.get(TABLE) is None else VLLM_KEYS - {TABLE}
    ranged = method in LOOKUP_RANGE_METHODS
    return Speculation(
        method,
        None if method in LOOKUP_METHODS else model,
        _whole(config, TOKENS),
        # vLLM copies the one that is given to the one that is not.
        (low if low is not None else high) if ranged else None,
        (high if high is not None else low) if ranged else None,
        table,
        tuple(sorted((key, dumps(value)) for key, value in config.items() if key not in known)),
    )


def _vllm_method(method: str | None, model: str | None) -> tuple[str, str | None]:
    """The method that vLLM takes, by the rules of its SpeculativeConfig (0.32.0), and the model."""
    if method == "[ngram]" or (method is None and model in ("ngram", "[ngram]")):
        return Method.NGRAM, model
    if method is None and model is not None and _is_class_path(model):
        return Method.CUSTOM_CLASS, model
    if method is not None and method.endswith("_mtp"):
        return Method.MTP, model
    if method in (None, Method.DRAFT_MODEL):
        name = (model or "").lower()
        return next((kind for part, kind in NAMED_METHODS if part in name), Method.DRAFT_MODEL), model
    return method or "", model


def _is_class_path(model: str) -> bool:
    parts = model.split(".")
    return len(parts) >= 2 and all(part.isidentifier() for part in parts)


def _table(value: Any) -> BatchTable:
    """A batch table; empty where there is none, or none that makes sense."""
    if not isinstance(value, list) or not all(_is_row(row) for row in value):
        return ()
    return tuple((first, last, tokens) for first, last, tokens in value)


def _is_row(row: Any) -> bool:
    return isinstance(row, list) and len(row) == 3 and all(type(number) is int for number in row)


def _text(config: Config, key: str) -> str | None:
    value = config.get(key)
    if value is not None and not isinstance(value, str):
        raise ConfigurationError(f"{key} is {dumps(value)}, which is no text")
    return value


def _whole(config: Config, key: str) -> int | None:
    value = config.get(key)
    if value is not None and type(value) is not int:
        raise ConfigurationError(f"{key} is {dumps(value)}, which is no whole number")
    return value


def _vllm_config(level: Level, drafter: Drafter, keep: Config | None) -> Config:
    own: dict[str, Any] = {TOKENS: level.tokens}
    if drafter.method in LOOKUP_RANGE_METHODS:
        lengths = {"prompt_lookup_max": drafter.lookup_max, "prompt_lookup_min": drafter.lookup_min}
        own |= {key: length for key, length in lengths.items() if length is not None}
    if level.by_batch:
        own[TABLE] = [list(row) for row in level.table(LAST_REQUESTS)]
    if keep is None:
        model = {"model": drafter.model} if drafter.model is not None else {}
        return {"method": drafter.method.value, **model, **own}
    before = _vllm_speculation(keep)
    if before.table and not level.by_batch:
        own[TABLE] = [[*rows, _followed(tokens, before, level)] for *rows, tokens in before.table]
    return {**keep, **own}


def _followed(tokens: int, before: Speculation, level: Level) -> int:
    """A table's K at a new level: the largest follow the level, the others are only cut."""
    return level.tokens if tokens >= (before.largest or 0) else min(tokens, level.tokens)


def _llamacpp_speculation(config: Config) -> Speculation | None:
    model = _text(config, DRAFT_MODEL) or _text(config, DRAFT_HF)
    if OLD_DRAFT_MAX in config:
        return Speculation(Method.DRAFT_MODEL, model, _whole(config, OLD_DRAFT_MAX)) if model else None
    kind = _text(config, SPEC_TYPE) or "none"
    method = SPEC_TYPES.get(kind)
    if "none" in kind.split(","):
        return None
    if method is Method.NGRAM:
        tokens, length = _whole(config, NGRAM_DRAFT), _whole(config, NGRAM_LENGTH)
        return Speculation(
            method,
            tokens=NGRAM_DRAFT_DEFAULT if tokens is None else tokens,
            lookup_min=NGRAM_LENGTH_DEFAULT if length is None else length,
        )
    if method is None and kind in set(Method):
        raise ConfigurationError(f"{SPEC_TYPE} {kind} is none that llama-server has")
    if method is None:
        return Speculation(kind, model)
    if model is None and method is not Method.MTP:
        return None  # the server says so in its log, and serves without speculation
    return Speculation(method, model, _whole(config, DRAFT_MAX))


def _llamacpp_config(level: Level, drafter: Drafter, keep: Config | None, old: bool) -> Config:
    kind = next((kind for kind, method in SPEC_TYPES.items() if method is drafter.method), None)
    if kind is None or (old and drafter.method is not Method.DRAFT_MODEL):
        what = "a build that takes --draft-max" if old else "llama.cpp"
        raise ConfigurationError(f"{what} has no {drafter.method} that SpecLoop could set")
    if drafter.method is Method.NGRAM:
        length = drafter.lookup_min if drafter.lookup_min is not None else NGRAM_FALLBACK.lookup_min
        return {**(keep or {SPEC_TYPE: kind}), NGRAM_LENGTH: length, NGRAM_DRAFT: level.tokens}
    fresh = {DRAFT_MODEL: drafter.model} if drafter.model is not None else {}
    if old:
        return {**(keep or fresh), OLD_DRAFT_MAX: level.tokens}
    return {**(keep or {**fresh, SPEC_TYPE: kind}), DRAFT_MAX: level.tokens}
