"""The engine's command with the plugin's flags, and with its speculative setting in an annotation that has a table."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from specloop_cli.inject_additions import Options, Plan, Run
from specloop_cli.inject_engine import EngineContainer, Object, mappings
from specloop_cli.inject_yaml import Path, Refusal
from specloop_engine.command_line import read, write_config
from specloop_engine.configuration import LAST_REQUESTS, TABLE, Config, speculation_of
from specloop_engine.flags import Form
from specloop_engine.json_object import dumps
from specloop_engine.known_failures import start_of
from specloop_engine.releases import Releases, parse_version
from specloop_engine.words import CommandLineError, Edit, Source
from specloop_policy.engine import Engine

SETTING = "specloop.dev/speculative-config"
VARIABLE = "SPECULATIVE_CONFIG"
CONFIG_RELEASES = Releases(since=(0, 8, 2))
HERE = "SPECLOOP-SETTING"
"""Stands for the variable's name while a command is edited: of letters that no shell changes."""


def write_command(made: Plan, engine: EngineContainer, options: Options, flags: Sequence[str], *, live: bool) -> None:
    """The setting with a table, as an annotation, and the flags after all others."""
    line = engine.line
    config = line.config
    if live and config is not None and line.speculation is not None and not line.speculation.table:
        requests = start_of(line).sequences or LAST_REQUESTS
        config = {**config, TABLE: [[1, requests, line.speculation.tokens]]}
        made.speculation = speculation_of(config, Engine.VLLM)
    set_lists: tuple[Sequence[str], Sequence[str]] = line.source.command, line.source.args
    environment = dict(line.environment or {})
    try:
        if line.form is Form.VARIABLE:
            environment |= _change_variable(made, engine, config)
        elif config is not None and options.annotation:
            made.setting = SETTING
            value = _annotation_value(engine, config)
            made.annotations[SETTING] = environment[VARIABLE] = value
            made.items["spec", "containers", engine.name, "env"].append(_variable())
            made.added.append(f"the annotation {SETTING}")
            set_lists = _with_reference(line.source, engine)
            _note_companions(made, engine)
        elif config is not None and config != line.config:
            written = write_config(line, config)
            set_lists = written.command, written.args
        again = read(*set_lists, engine=Engine.VLLM, version=line.version, environment=environment)
        final_lists = again.source.edited(Edit(added=tuple(flags)))
    except CommandLineError as error:
        raise Refusal(f"container {engine.name}: {error}") from error
    for key, old, with_setting, final in zip(
        ("command", "args"), (line.source.command, line.source.args), set_lists, final_lists, strict=True
    ):
        path = "spec", "containers", engine.name, key
        appended = final[len(with_setting) :] if final[: len(with_setting)] == tuple(with_setting) else ()
        if appended:
            made.items[path] = list(appended)
        made.runs += _runs(path, old, with_setting if appended else final)
    made.added.append(" ".join(flags))


def _change_variable(made: Plan, engine: EngineContainer, config: Config | None) -> Mapping[str, str]:
    """The table in the annotation that holds the setting already."""
    if engine.setting is None:
        words = f"container {engine.name}: the setting stands in a variable which no annotation of the pod fills"
        raise Refusal(f"{words}: write it into the command, or fill the variable from an annotation")
    if config == engine.line.config or config is None:
        return {}
    ((variable, value),) = write_config(engine.line, config).variables.items()
    made.values["metadata", "annotations", engine.setting] = value
    return {variable: value}


def _variable() -> Object:
    # With the apiVersion: the server would add it, and a later server-side apply of the same file conflict with that.
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{SETTING}']"}}
    return {"name": VARIABLE, "valueFrom": source}


def _annotation_value(engine: EngineContainer, config: Config) -> str:
    """The setting as JSON, in its author's spelling where it was JSON."""
    line, place = engine.line, f"container {engine.name}"
    if parse_version(line.version) not in CONFIG_RELEASES:
        raise Refusal(f"{place}: --speculative-config takes vLLM {CONFIG_RELEASES}: give --no-annotation")
    if any(one.get("name") == VARIABLE for one in mappings(engine.data.get("env"))):
        raise Refusal(f"{place}: env has a {VARIABLE} already: rename it, or give --no-annotation")
    text = replace(line.setting, own=()).json(config) if line.form is Form.JSON else dumps(config)
    if "\n" in text:
        text = dumps(config)
    if "$(" in text:
        words = f"{place}: the setting names a variable whose value the manifest does not say, and an annotation cannot"
        raise Refusal(f"{words}: write the value out, or give --no-annotation")
    return text.replace("'", r"\u0027")  # an apostrophe would end the quotes of a shell's script


def _with_reference(source: Source, engine: EngineContainer) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The command with a variable in the place of the setting's flags."""
    if any(HERE in item for item in source.items):
        raise Refusal(f"container {engine.name}: {HERE} is in its command: rename it")
    places = [place for flag in engine.line.setting.flags for place in flag.places]
    edit = Edit(dict.fromkeys(places), (f"--speculative-config={HERE}",), max(places))
    name = f"'$({VARIABLE})'" if source.in_script else f"$({VARIABLE})"
    command, args = source.edited(edit)
    return tuple(one.replace(HERE, name) for one in command), tuple(one.replace(HERE, name) for one in args)


def _note_companions(made: Plan, engine: EngineContainer) -> None:
    for flag in engine.line.setting.companions:
        made.notes.append(f"vLLM does not start with {flag.name} while speculation is off: remove it to allow for that")


def _runs(path: Path, old: Sequence[str], new: Sequence[str]) -> list[Run]:
    """The items that differ, in runs of at least one item on both sides: by what is there one finds the way back."""
    found: list[tuple[int, int, int, int]] = []
    for kind, first, last, new_first, new_last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        if first == last or new_first == new_last:  # with the item behind it, or else the one before
            behind = last < len(old)
            last, new_last = last + behind, new_last + behind
            first, new_first = first - (not behind), new_first - (not behind)
        if found and first < found[-1][1]:
            first, _, new_first, _ = found.pop()
        found.append((first, last, new_first, new_last))
    return [Run(path, first, last, tuple(new[begin:end]), begin) for first, last, begin, end in found]
