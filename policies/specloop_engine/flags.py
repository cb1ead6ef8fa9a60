"""Flags of a command line, and a speculative setting written as flags: what the engines' readers share."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from specloop_engine.configuration import Config
from specloop_engine.json_object import changed_object, dumps
from specloop_engine.words import REFERENCE, CommandLineError, Edit, Piece, Quote, Word

FLAG = re.compile(r"(-{1,2}[A-Za-z][^=\s]*)(=|\s+|\Z)(.*)", re.DOTALL)
SHELL_EXPANDS = frozenset("*?[{~")
"""What a shell may make something else of where it stands unquoted."""


class Form(StrEnum):
    """How a speculative setting is written."""

    ABSENT = "nothing"
    JSON = "JSON"
    VARIABLE = "a variable"
    """JSON in an environment variable, which the command only names."""
    DOTTED = "dotted flags"
    SHORT = "short flags"
    LEGACY = "legacy flags"
    FLAGS = "flags"
    """llama-server's."""


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag with its value, and their places among the arguments."""

    name: str
    """With dashes for underscores before the first dot, as vLLM compares it."""
    place: int
    value_place: int
    offset: int
    """Where the value begins in its word."""
    joint: str
    """What stands between name and value: "=", blanks within one word, or "" for the next word."""
    value: str | None
    """None where it has none, or none is looked for."""

    @property
    def places(self) -> tuple[int, ...]:
        """Places of its one or two words."""
        return tuple(dict.fromkeys((self.place, self.value_place)))


def find_flags(words: Sequence[Word], takes_value: Callable[[str], bool]) -> Iterator[Flag]:
    """The flags among the arguments, in order; one that takes a value has the next word unless it is joined to one."""
    place = 0
    while place < len(words):
        if found := FLAG.match(words[place].value):
            name, joint = normalised(found[1]), found[2]
            if joint:
                flag = Flag(name, place, place, found.start(3), joint, found[3])
            elif takes_value(name) and place + 1 < len(words):
                flag = Flag(name, place, place + 1, 0, "", words[place + 1].value)
            else:
                flag = Flag(name, place, place, 0, "", None)
            yield flag
            place = flag.value_place
        place += 1


def normalised(name: str) -> str:
    """A flag's name as vLLM compares it."""
    head, dot, rest = name.partition(".")
    return (head.replace("_", "-") if name.startswith("--") else head) + dot + rest


def clear_value(flag: Flag, words: Sequence[Word]) -> str:
    """The value of a flag that must have one; CommandLineError where it has none, or none that is sure."""
    item = " ".join(words[place].value for place in flag.places)
    value = words[flag.value_place]
    lacks = flag.value == "" if flag.joint.isspace() else not flag.joint and (flag.value or "").startswith("-")
    if flag.value is None or lacks:
        raise CommandLineError(item, "this flag has no value", "give it one, or remove it")
    if not all(words[place].known for place in flag.places):
        mend = "write the value out, or give the container's environment"
        raise CommandLineError(item, "the value is only known when it runs", mend)
    if REFERENCE.fullmatch(flag.value):
        raise CommandLineError(item, "the variable's value is not known", "give the container's environment")
    bare = "".join(piece.text for piece in value.pieces if piece.quote is Quote.BARE and piece.variable is None)
    if SHELL_EXPANDS & set(bare):
        raise CommandLineError(item, "the shell may expand this value", "put the value in single quotes")
    return flag.value


@dataclass(frozen=True, slots=True)
class Setting:
    """The speculative setting of a command, and the places where it is written."""

    form: Form = Form.ABSENT
    config: Config | None = None
    """In the engine's keys; None: off."""
    own: tuple[tuple[str, Flag], ...] = ()
    """Keys with a flag of their own."""
    holder: Flag | None = None
    """The flag whose value is JSON."""
    spelled: Mapping[str, str] = field(default_factory=dict)
    """Keys as the JSON spells them."""
    variable: Piece | None = None
    """The variable that is all of the JSON."""
    companions: tuple[Flag, ...] = ()
    """Flags with which the engine does not start while speculation is off."""

    @property
    def flags(self) -> tuple[Flag, ...]:
        """All flags that are part of it."""
        return tuple(flag for flag in (*(flag for _, flag in self.own), self.holder) if flag)

    def json(self, config: Config) -> str:
        """What the JSON must be for those of its keys that have no flag of their own; the rest of it is untouched."""
        keys = dict(self.own)
        rest = {self.spelled.get(key, key): value for key, value in config.items() if key not in keys}
        old = self.holder.value if self.holder and self.holder.value else ""
        return changed_object(old, rest) if old.lstrip().startswith("{") else dumps(rest)


NewFlags = Callable[[Config], Iterable[tuple[str, str]]]
"""The flags and values by which keys are written that have no place yet."""


def edit(setting: Setting, words: Sequence[Word], new: Config, text: Callable[[Any], str], add: NewFlags) -> Edit:
    """The edit that makes the setting `new`, where nothing at all is off; `text` is how a flag's value is written."""
    own = dict(setting.own)
    values: dict[int, str | None] = {}
    for key, flag in setting.own:
        if key not in new:
            values |= dict.fromkeys(flag.places)
        elif setting.config is None or dumps(new[key]) != dumps(setting.config[key]):
            values[flag.value_place] = words[flag.value_place].value[: flag.offset] + text(new[key])
    rest = {key: value for key, value in new.items() if key not in own}
    holder, added = setting.holder, []
    if holder and rest:
        values[holder.value_place] = words[holder.value_place].value[: holder.offset] + setting.json(new)
    elif holder:
        values |= dict.fromkeys(holder.places)
    else:
        joint = setting.flags[-1].joint if setting.flags else ""
        added = [part for name, value in add(rest) for part in _joined(name, joint, value)] if rest else []
    for flag in setting.companions if not new else ():
        values |= dict.fromkeys(flag.places)
    after = max((flag.value_place for flag in setting.flags), default=None)
    return Edit(values, tuple(added), after)


def _joined(name: str, joint: str, value: str) -> tuple[str, ...]:
    return (name + joint + value,) if joint else (name, value)
