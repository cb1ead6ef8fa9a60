"""llama-server's speculative flags, read and changed (build 11434, and older ones that take `--draft-max`).

Each key of the configuration is a flag of its own.  What stays on the line when speculation goes, such as
`--spec-draft-p-min` or `-ngld`, has no effect then and is there when it comes back.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from specloop_engine.configuration import (
    DRAFT_HF,
    DRAFT_MAX,
    DRAFT_MODEL,
    NGRAM_DRAFT,
    NGRAM_LENGTH,
    OLD_DRAFT_MAX,
    SPEC_TYPE,
    Config,
)
from specloop_engine.flags import Flag, Form, Setting, clear_value, edit, find_flags
from specloop_engine.releases import Releases, Version
from specloop_engine.words import CommandLineError, Edit, Word

NAMES = {
    SPEC_TYPE: (SPEC_TYPE,),
    DRAFT_MODEL: ("-md", "--model-draft", DRAFT_MODEL),
    DRAFT_HF: ("-hfd", "-hfrd", "--hf-repo-draft", DRAFT_HF),
    DRAFT_MAX: (DRAFT_MAX,),
    NGRAM_LENGTH: (NGRAM_LENGTH,),
    NGRAM_DRAFT: (NGRAM_DRAFT,),
    OLD_DRAFT_MAX: (OLD_DRAFT_MAX, "--draft", "--draft-n"),
}
"""The flags of each key, first the one to write: one that all builds know, where there is one."""
KEYS = {name: key for key, names in NAMES.items() for name in names}
NUMBERS = frozenset({DRAFT_MAX, OLD_DRAFT_MAX, NGRAM_LENGTH, NGRAM_DRAFT})
FORCED = frozenset({"--spec-synth-len", "--spec-synth-rates"})
"""Forced acceptance, with which the server does not start while speculation is off."""
PRESETS = frozenset({"--spec-default", "--fim-qwen-7b-spec", "--fim-qwen-14b-spec"})
VARIABLES = frozenset(
    {"LLAMA_ARG_SPEC_TYPE", "LLAMA_ARG_SPEC_DRAFT_MODEL", "LLAMA_ARG_SPEC_DRAFT_HF_REPO", "LLAMA_ARG_SPEC_DRAFT_N_MAX"}
    | {"LLAMA_ARG_DRAFT_MAX", "LLAMA_ARG_SPEC_SYNTH_LEN", "LLAMA_ARG_SPEC_SYNTH_RATES"}
)
"""Variables that the server takes for flags; `--spec-type` even adds to its variable."""
OLD_DRAFT_RELEASES = Releases(until=(11434,))
"""Builds that may still know `--draft-max`: 11434 surely does not."""


def find_setting(words: Sequence[Word], version: Version | None, environment: Mapping[str, str]) -> Setting:
    """The speculative setting among llama-server's arguments; CommandLineError where it cannot be read for sure."""
    flags = list(find_flags(words, lambda name: name in KEYS or name in FORCED))
    config: dict[str, Any] = {}
    own = []
    for flag in flags:
        _check_certain(flag, words, version)
        if flag.name in KEYS:
            key = KEYS[flag.name]
            if key in config:
                raise CommandLineError(words[flag.place].value, "this flag comes twice", "remove one of them")
            config[key] = _value(flag, key, words)
            own.append((key, flag))
    _check_whole(config, environment)
    companions = tuple(flag for flag in flags if flag.name in FORCED and clear_value(flag, words))
    return Setting(Form.FLAGS if own else Form.ABSENT, config or None, tuple(own), companions=companions)


def edit_setting(setting: Setting, words: Sequence[Word], new: Config | None) -> Edit:
    """The edit that makes the setting `new`; None: off."""
    return edit(setting, words, new or {}, str, lambda rest: [(NAMES[key][0], str(rest[key])) for key in rest])


def _check_certain(flag: Flag, words: Sequence[Word], version: Version | None) -> None:
    written = words[flag.place].value
    if flag.name in PRESETS:
        raise CommandLineError(written, "this stands for a speculative setting", "write out the flags it stands for")
    if flag.name in KEYS and flag.joint == "=":
        raise CommandLineError(written, "llama-server takes no value after =", "write it as a word of its own")
    if KEYS.get(flag.name) == OLD_DRAFT_MAX and version not in OLD_DRAFT_RELEASES:
        raise CommandLineError(written, "this build has removed this flag", f"write {DRAFT_MAX}")


def _value(flag: Flag, key: str, words: Sequence[Word]) -> str | int:
    text = clear_value(flag, words)
    if key not in NUMBERS and text:
        return text
    if re.fullmatch(r"\d{1,9}", text, re.ASCII):
        return int(text)
    raise CommandLineError(f"{words[flag.place].value} {text}", f"{flag.name} has no value that fits", "give it one")


def _check_whole(config: Config, environment: Mapping[str, str]) -> None:
    """Refuse flags of which only the build knows what they come to together."""
    for variable in sorted(VARIABLES & set(environment)):
        raise CommandLineError(variable, "this variable is part of the setting", "use the flag that it stands for")
    if DRAFT_MODEL in config and DRAFT_HF in config:
        raise CommandLineError("-md beside -hfd", "together they name a file in a repository", "keep one of them")
    if OLD_DRAFT_MAX in config and (SPEC_TYPE in config or DRAFT_MAX in config):
        raise CommandLineError(OLD_DRAFT_MAX, "an old flag stands beside a new one", f"write {DRAFT_MAX}")
    if (DRAFT_MODEL in config or DRAFT_HF in config) and not {SPEC_TYPE, OLD_DRAFT_MAX} & set(config):
        mend = f"add {SPEC_TYPE} draft-simple, or on an old build {OLD_DRAFT_MAX}"
        raise CommandLineError("-md", "whether a draft model alone drafts depends on the build and the file", mend)
