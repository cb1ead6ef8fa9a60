"""vLLM's speculative flags: read in every form and release, and changed in the form found.

`--speculative-config JSON`; the same dotted (`--speculative-config.model X`); `--spec-method`, `--spec-model` and
`--spec-tokens`; and the flags of releases before 0.8.3.  What vLLM reads in a way that surprises is refused.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from specloop_engine.configuration import TOKENS, Config, ConfigurationError
from specloop_engine.flags import Flag, Form, Setting, clear_value, edit, find_flags
from specloop_engine.json_object import JsonError, dumps, parse
from specloop_engine.releases import Releases, Version
from specloop_engine.words import CommandLineError, Edit, Word
from specloop_policy.ladder import Method

CONFIG = "--speculative-config"
ALIAS = "-sc"
METRICS = "--per-request-spec-decode-metrics"
CONFIG_FILE = "--config"
SHORT = {"--spec-method": "method", "--spec-model": "model", "--spec-tokens": TOKENS}
LEGACY = {
    "--speculative-model": "model",
    "--num-speculative-tokens": TOKENS,
    "--ngram-prompt-lookup-max": "prompt_lookup_max",
    "--ngram-prompt-lookup-min": "prompt_lookup_min",
    "--speculative-draft-tensor-parallel-size": "draft_tensor_parallel_size",
    "-spec-draft-tp": "draft_tensor_parallel_size",
    "--speculative-disable-by-batch-size": "disable_by_batch_size",
    "--speculative-model-quantization": "quantization",
    "--speculative-max-model-len": "max_model_len",
}
UNRELATED = frozenset({"--specialize-active-lora"})
"""Flags that only look like speculative ones."""
KNOWN = frozenset({CONFIG, METRICS, *SHORT, *LEGACY})
SHORTEST_ABBREVIATION = len("--spec")
OFF = frozenset({"", "None"})
"""Values that vLLM takes as no value."""

FORM_RELEASES = {
    Form.JSON: Releases(since=(0, 8, 2)),
    Form.VARIABLE: Releases(since=(0, 8, 2)),
    Form.DOTTED: Releases(since=(0, 9)),
    Form.SHORT: Releases(since=(0, 22)),
    Form.LEGACY: Releases(since=(0, 4, 1), until=(0, 8, 3)),
}
ALIAS_RELEASES = Releases(since=(0, 19))


def find_setting(words: Sequence[Word], version: Version | None) -> Setting:
    """The speculative setting among vLLM's arguments; CommandLineError where it cannot be read for sure."""
    flags = list(find_flags(words, _takes_value))
    for flag in flags:
        _check_certain(flag, words)
    holders = [flag for flag in flags if flag.name in (CONFIG, ALIAS)]
    kinds = {
        Form.JSON: holders,
        Form.DOTTED: [flag for flag in flags if _is_dotted(flag)],
        Form.SHORT: [flag for flag in flags if flag.name in SHORT],
        Form.LEGACY: [flag for flag in flags if flag.name in LEGACY],
    }
    forms = [form for form, found in kinds.items() if found]
    _check_forms(kinds, forms, words, version)
    own = [(key, flag, value) for form in forms for key, flag, value in _own(form, kinds[form], words)]
    companions = tuple(flag for flag in flags if flag.name == METRICS and clear_value(flag, words) != "none")
    setting = Setting(
        form=forms[0] if forms else Form.ABSENT,
        config=_merged(own, words) if own else None,
        own=tuple((key, flag) for key, flag, _ in own),
        companions=companions,
    )
    return _with_json(setting, holders[0], words) if holders else setting


def edit_setting(setting: Setting, words: Sequence[Word], new: Config | None, version: Version | None) -> Edit:
    """The edit that makes the setting `new` (None: off), in the form found or, for a new one, the release's own."""
    legacy = setting.form is Form.LEGACY or (setting.form is Form.ABSENT and version not in FORM_RELEASES[Form.JSON])
    if legacy:
        return edit(setting, words, _legacy_config(new or {}), str, _legacy_flags)
    if setting.form is Form.DOTTED:
        return edit(setting, words, new or {}, _dotted_text, _dotted_flags)
    return edit(setting, words, new or {}, str, _short_flags if setting.form is Form.SHORT else _json_flag)


def _takes_value(name: str) -> bool:
    return name in KNOWN or name.partition(".")[0] in (CONFIG, ALIAS) or name == CONFIG_FILE


def _is_dotted(flag: Flag) -> bool:
    head, dot, _ = flag.name.partition(".")
    return bool(dot) and head in (CONFIG, ALIAS)


def _check_certain(flag: Flag, words: Sequence[Word]) -> None:
    """Refuse what may hold a setting that this reader does not see."""
    head, written = flag.name.partition(".")[0], words[flag.place].value
    if flag.name == CONFIG_FILE and flag.joint != "=":
        item = " ".join(words[place].value for place in flag.places)
        raise CommandLineError(item, "the file may hold the speculative setting", "move its flags to the command line")
    if head in KNOWN or head in UNRELATED or head == ALIAS:
        return
    shortened = len(head) >= SHORTEST_ABBREVIATION and any(known.startswith(head) for known in KNOWN)
    if shortened or head.startswith("--spec") or head == ALIAS[:2]:
        raise CommandLineError(written, "this is no speculative flag in full", "write the flag's whole name")


def _check_forms(
    kinds: Mapping[Form, list[Flag]], forms: list[Form], words: Sequence[Word], version: Version | None
) -> None:
    for form in forms:
        if version not in FORM_RELEASES[form]:
            flag = words[kinds[form][0].place].value
            raise CommandLineError(flag, f"vLLM knows this in {FORM_RELEASES[form]}", "use the release's own flag")
    holders, dotted = kinds[Form.JSON], kinds[Form.DOTTED]
    both = [words[flag.place].value for flag in (*holders, *dotted)]
    heads = {flag.name.partition(".")[0] for flag in dotted}
    if any(flag.name.startswith(ALIAS) for flag in (*holders, *dotted)) and version not in ALIAS_RELEASES:
        raise CommandLineError(both[0], f"vLLM knows -sc in {ALIAS_RELEASES}", f"write {CONFIG}")
    if len(holders) > 1 or len(heads) > 1:
        raise CommandLineError(both[-1], "the setting is given twice, and vLLM takes the last", "remove one of them")
    if holders and dotted:
        problem = "vLLM silently drops the JSON beside dotted flags"
        raise CommandLineError(both[-1], problem, "write all of it as JSON, or all of it dotted")
    if Form.LEGACY in forms and len(forms) > 1:
        flag = words[kinds[Form.LEGACY][0].place].value
        raise CommandLineError(flag, "an old flag stands beside a new one", "keep one kind of flag")


def _own(form: Form, flags: Iterable[Flag], words: Sequence[Word]) -> Iterable[tuple[str, Flag, Any]]:
    """Keys, flags and values of the flags that hold one key each."""
    for flag in flags if form is not Form.JSON else ():
        text = clear_value(flag, words)
        if form is Form.DOTTED:
            path, item = flag.name.partition(".")[2].split("."), words[flag.place].value
            if not all(path) or path[-1].endswith("+"):
                raise CommandLineError(item, "a list in pieces cannot be edited", "write the key's whole value")
            if flag.joint.isspace():
                raise CommandLineError(item, "vLLM takes all of this for a key", "write = for the blank")
            yield _key(path[0]), flag, _nested(path[1:], _dotted_value(text, flag, words))
        else:
            yield {**SHORT, **LEGACY}[flag.name], flag, _plain_value(flag, text, words)


def _nested(path: Sequence[str], value: Any) -> Any:
    return {path[0]: _nested(path[1:], value)} if path else value


def _key(spelled: str) -> str:
    """A key as vLLM compares it."""
    return spelled.replace("-", "_")


def _plain_value(flag: Flag, text: str, words: Sequence[Word]) -> str | int:
    key = {**SHORT, **LEGACY}[flag.name]
    if key in ("method", "model", "quantization"):
        if text not in OFF:
            return text
    elif re.fullmatch(r"\d{1,9}", text, re.ASCII):
        return int(text)
    mend = "give it one, or remove it"
    raise CommandLineError(f"{words[flag.place].value} {text}", f"{flag.name} has no value that fits", mend)


def _dotted_value(text: str, flag: Flag, words: Sequence[Word]) -> Any:
    """A dotted flag's value: JSON, or else text."""
    if _is_json(text):
        return _parsed(text, flag, words)
    if _is_loose_number(text):
        item = " ".join(words[place].value for place in flag.places)
        raise CommandLineError(item, "releases differ over whether this is a number", "write the number out")
    return text


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _is_loose_number(text: str) -> bool:
    """Whether newer releases take text for a number: 1k, 1_000."""
    return re.fullmatch(r"\s*(?:\d+(?:\.\d+)?[kKmMgGtT]|[+-]?\d[\d_]*)\s*", text) is not None


def _parsed(text: str, flag: Flag, words: Sequence[Word]) -> Any:
    try:
        return parse(text)
    except JsonError as error:
        item = " ".join(words[place].value for place in flag.places)
        raise CommandLineError(item, str(error), "correct the JSON, in single quotes where a shell reads it") from None


def _merged(own: Sequence[tuple[str, Flag, Any]], words: Sequence[Word]) -> dict[str, Any]:
    config: dict[str, Any] = {}
    for key, flag, value in own:
        _merge(config, key, value, words[flag.place].value)
    return config


def _merge(config: dict[str, Any], key: str, value: Any, item: str) -> None:
    if isinstance(value, dict) and isinstance(config.get(key), dict):
        for inner, inner_value in value.items():
            _merge(config[key], inner, inner_value, item)
    elif key in config:
        raise CommandLineError(item, f"{key} is named twice", "name it once")
    else:
        config[key] = value


def _with_json(setting: Setting, holder: Flag, words: Sequence[Word]) -> Setting:
    """The setting with what the JSON says as well."""
    text, word = clear_value(holder, words), words[holder.value_place]
    variable = word.variable_after(holder.offset)
    item = " ".join(words[place].value for place in holder.places)
    if (variable and setting.own) or (not variable and any(piece.vanished for piece in word.pieces)):
        raise CommandLineError(item, "a variable is only part of the setting", "let the variable be all of it")
    value = None if text in OFF else _parsed(text, holder, words)
    if value is not None and not isinstance(value, dict):
        raise CommandLineError(item, "the setting is no JSON object", 'write {"method": ...}, or remove the flag')
    spelled: dict[str, str] = {}
    config = dict(setting.config or {})
    for key, inner in (value or {}).items():
        _merge(config, _key(key), inner, item)
        spelled[_key(key)] = key
    if value is not None and not config:
        raise CommandLineError(item, "vLLM does not start with an empty setting", "remove the flag to turn it off")
    form = Form.VARIABLE if variable else Form.JSON
    return replace(setting, form=form, config=config or None, holder=holder, spelled=spelled, variable=variable)


def _dotted_text(value: Any) -> str:
    """A value as a dotted flag says it: text stays text unless it would be read as something else."""
    is_text = isinstance(value, str) and not _is_json(value) and not _is_loose_number(value)
    return str(value) if is_text else dumps(value)


def _dotted_flags(config: Config) -> list[tuple[str, str]]:
    return [(f"{CONFIG}.{key}", _dotted_text(value)) for key, value in config.items()]


def _json_flag(config: Config) -> list[tuple[str, str]]:
    return [(CONFIG, dumps(config))]


def _short_flags(config: Config) -> list[tuple[str, str]]:
    """Short flags for the keys that have one, JSON beside them for the others."""
    flags = {key: flag for flag, key in SHORT.items()}
    others = {key: value for key, value in config.items() if key not in flags}
    short = [(flags[key], str(value)) for key, value in config.items() if key in flags]
    return [*short, *(_json_flag(others) if others else ())]


def _legacy_config(config: Config) -> Config:
    """The keys as the legacy flags have them: n-gram is a model's name, and there is no method."""
    method = config.get("method")
    rest = {key: value for key, value in config.items() if key != "method"}
    if method == Method.NGRAM:
        rest["model"] = "[ngram]"
    elif method not in (None, Method.DRAFT_MODEL):
        raise ConfigurationError(f"the flags of vLLM before 0.8.2 know draft_model and ngram, not {method}")
    unknown = next((key for key in rest if key not in LEGACY.values()), None)
    if unknown:
        raise ConfigurationError(f"the flags of vLLM before 0.8.2 have no {unknown}")
    return rest


def _legacy_flags(config: Config) -> list[tuple[str, str]]:
    flags = {key: flag for flag, key in reversed(LEGACY.items())}
    return [(flags[key], str(value)) for key, value in config.items()]
