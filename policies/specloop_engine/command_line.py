"""An engine's command as its user wrote it: the speculative setting read from it, and a level written into it.

    line = read(command, args, environment=environment)
    line.speculation       # what it asks for; None: off
    write(line, level)     # the same command at another level

Write every level into the command as its user wrote it, never into what an earlier `write` made of it: off takes
flags away, and only the user's own command knows them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from specloop_engine import llamacpp_flags, vllm_flags
from specloop_engine.configuration import Config, ConfigurationError, speculation_of, to_config
from specloop_engine.flags import Flag, Form, Setting, clear_value, find_flags
from specloop_engine.program import find_engine
from specloop_engine.releases import parse_version
from specloop_engine.speculation import Speculation, fits
from specloop_engine.words import REFERENCE, CommandLineError, Source, Word
from specloop_policy.engine import Engine
from specloop_policy.ladder import Level

SERVED_NAME = tuple(accumulate("ved-model-name", initial="--ser"))
"""The flag of the names that a model is served by, and what argparse takes for it."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A command that has been read."""

    source: Source
    engine: Engine
    """VLLM or LLAMACPP, never AUTO."""
    version: str | None
    environment: Mapping[str, str] | None
    setting: Setting
    speculation: Speculation | None
    """What the command asks for; None: off."""

    @property
    def form(self) -> Form:
        """How the setting is written."""
        return self.setting.form

    @property
    def config(self) -> Config | None:
        """The setting in the engine's own keys, verbatim."""
        return self.setting.config

    def flag(self, *names: str) -> Flag | None:
        """The last flag with one of these names, with its value where it is joined to one or a word follows it."""
        words = self.source.words
        found = [flag for flag in find_flags(words, lambda name: name in names) if flag.name in names]
        return found[-1] if found else None

    @property
    def others(self) -> list[str]:
        """The arguments that are no part of the setting."""
        flags = (*self.setting.flags, *self.setting.companions)
        taken = {place for flag in flags for place in flag.places}
        return [word.value for place, word in enumerate(self.source.words) if place not in taken]

    @property
    def target(self) -> str | None:
        """The model that is served, as the command names it; None where it does not."""
        if self.engine is Engine.LLAMACPP:
            named = self.flag("-m", "--model") or self.flag("-hf", "-hfr", "--hf-repo")
            return named.value if named else None
        named = self.flag("--model")
        first = next((word.value for word in self.source.words), "-")
        return named.value if named else None if first.startswith("-") else first

    @property
    def served_name(self) -> str | None:
        """The label `model_name` of vLLM's metrics: the first name given, else the model; None where that is not sure.

        As `get_served_model_name` of vLLM's vllm/config/model.py has it.  llama-server has no such label.
        """
        if self.engine is not Engine.VLLM:
            return None
        words, target = self.source.words, self.target
        flag = self.flag(*SERVED_NAME) or self.flag("--model")
        if flag is not None:
            try:
                return clear_value(flag, words)
            except CommandLineError:
                return None
        return target if target is not None and words[0].known and not REFERENCE.search(target) else None


@dataclass(frozen=True, slots=True)
class Written:
    """A command after a change; where the setting stands in a variable, the variable's new value instead."""

    command: tuple[str, ...]
    args: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)


def read(
    command: Sequence[str],
    args: Sequence[str] = (),
    *,
    engine: Engine = Engine.AUTO,
    version: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> CommandLine:
    """Read a container's `command` and `args`, or the command of a process as `command` alone.

    `environment` holds the container's variables, which Kubernetes and the shell put in; without one, nothing is put
    in.  `version` is the engine's, where it is known.  Raises CommandLineError where the setting cannot be read for
    sure.  A `speculators` checkpoint as the target speculates with no flag at all: that cannot be seen here.
    """
    source, engine = find_engine(tuple(command), tuple(args), engine, environment)
    release = parse_version(version)
    if engine is Engine.VLLM:
        setting = vllm_flags.find_setting(source.words, release)
    else:
        setting = llamacpp_flags.find_setting(source.words, release, environment or {})
    try:
        speculation = speculation_of(setting.config, engine)
    except ConfigurationError as error:
        raise CommandLineError(_written(setting, source.words), str(error), "correct the setting") from error
    return CommandLine(source, engine, version, environment, setting, speculation)


def write(line: CommandLine, level: Level, before: Sequence[Config] = ()) -> Written:
    """The command at a level, in the form that it was found in; a command that is there already stays as it is.

    Off takes the setting away, and with it the flags that keep the engine from starting without one.  `before` are
    configurations that the command once had: keys of the level's own drafter come back from there.  Raises
    CommandLineError where the level cannot be written so that reading finds it again.
    """
    base = next((one for one in (line.config, *before) if _drafts(one, level, line.engine)), line.config)
    try:
        config = to_config(level, base, line.engine, parse_version(line.version))
        written, again = _changed(line, config)
    except ConfigurationError as error:
        raise CommandLineError(level.name, str(error), "choose a drafter that this engine has") from error
    if not fits(again.speculation, level):
        problem = f"the engine would take this for {again.speculation}"
        raise CommandLineError(level.name, problem, "correct the level's drafter")
    return written


def _drafts(config: Config | None, level: Level, engine: Engine) -> bool:
    """Whether a configuration has a level's drafter."""
    if config is None or level.drafter is None:
        return False
    try:
        speculation = speculation_of(config, engine)
    except ConfigurationError:
        return False
    return speculation is not None and speculation.is_kind_of(level.drafter)


def write_config(line: CommandLine, config: Config | None) -> Written:
    """The command with a configuration in the engine's own keys; None: off.  Raises CommandLineError."""
    try:
        return _changed(line, config)[0]
    except ConfigurationError as error:
        raise CommandLineError(_item(line), str(error), "correct the configuration") from error


def _changed(line: CommandLine, config: Config | None) -> tuple[Written, CommandLine]:
    """The command with a configuration, and that read again: the same configuration, and all else unchanged."""
    if config == line.config:
        return Written(line.source.command, line.source.args), line
    written = _edited(line, config)
    again = _read_again(line, written)
    if again.speculation != speculation_of(config, line.engine) or again.others != line.others:
        raise CommandLineError(_item(line), "this cannot be edited for sure", "quote it more plainly")
    return written, again


def _read_again(line: CommandLine, written: Written) -> CommandLine:
    environment = None if line.environment is None else {**line.environment, **written.variables}
    try:
        return read(written.command, written.args, engine=line.engine, version=line.version, environment=environment)
    except CommandLineError as error:
        quotes = """a shell's script needs '$(NAME)' or "$NAME" in just these quotes"""
        mend = quotes if line.setting.variable else error.mend
        raise CommandLineError(_item(line), f"once edited, {error.problem}", mend) from error


def _edited(line: CommandLine, config: Config | None) -> Written:
    setting, words = line.setting, line.source.words
    if setting.variable and setting.variable.variable:
        if not config and setting.companions:
            flag = words[setting.companions[0].place].value
            raise CommandLineError(flag, "vLLM does not start with this while speculation is off", "remove it")
        # An apostrophe would end the single quotes that keep the variable whole in a script.
        value = setting.json(config).replace("'", r"\u0027") if config else ""
        return Written(line.source.command, line.source.args, {setting.variable.variable: value})
    if line.engine is Engine.VLLM:
        edit = vllm_flags.edit_setting(setting, words, config, parse_version(line.version))
    else:
        edit = llamacpp_flags.edit_setting(setting, words, config)
    return Written(*line.source.edited(edit))


def _item(line: CommandLine) -> str:
    """The setting as it is written, or all of the command where it has none."""
    return _written(line.setting, line.source.words) or " ".join(line.source.items)


def _written(setting: Setting, words: Sequence[Word]) -> str:
    return " ".join(words[place].value for flag in setting.flags for place in flag.places)
