"""What a Containerfile says, as values; what ours have no use for is refused.

The language is Docker's (Dockerfile reference); the forms that are read are those in which every builder agrees.
"""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

NAMES = frozenset({"ARG", "FROM", "ENV", "LABEL", "WORKDIR", "COPY", "RUN", "USER", "ENTRYPOINT", "CMD"})
WITHOUT_VARIABLES = frozenset({"RUN", "ENTRYPOINT", "CMD"})
"""A shell fills in those of RUN; in the others nothing does."""


class Refused(Exception):
    """Something that the reader does not know how to carry out."""


@dataclass(frozen=True)
class Instruction:
    """One step: its name in capitals, and the rest of it on one line."""

    name: str
    rest: str


@dataclass
class Stage:
    """What stands between one FROM and the next."""

    image: str
    name: str | None
    steps: list[Instruction] = field(default_factory=list)


def read(text: str, arguments: Mapping[str, str]) -> list[Stage]:
    """The stages in order; arguments are those of the build, and reach what stands before the first FROM too."""
    stages: list[Stage] = []
    known: dict[str, str] = {}
    for step in instructions(text):
        if step.name == "FROM":
            words = filled(step, known).split()
            if len(words) not in (1, 3) or (len(words) == 3 and words[1].upper() != "AS") or words[0].startswith("-"):
                raise Refused(f"FROM {step.rest}: it may be FROM IMAGE or FROM IMAGE AS NAME")
            stages.append(Stage(words[0], words[2] if len(words) == 3 else None))
        elif stages:
            stages[-1].steps.append(step)
        elif step.name == "ARG":
            known.update(argument(step, arguments))
        else:
            raise Refused(f"{step.name} before the first FROM")
    return stages


def instructions(text: str) -> list[Instruction]:
    """The steps, with comments left out and continued lines joined."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    found = []
    for line in re.sub(r"\\\n", "", "\n".join(lines)).splitlines():
        if not line.strip():
            continue
        name, _, rest = line.strip().partition(" ")
        if name.upper() not in NAMES:
            raise Refused(f"{name} is none of {', '.join(sorted(NAMES))}")
        found.append(Instruction(name.upper(), rest.strip()))
    return found


def argument(step: Instruction, arguments: Mapping[str, str]) -> dict[str, str]:
    """What an ARG is worth: the build's, else its default."""
    name, equals, default = step.rest.partition("=")
    if not equals and name not in arguments:
        raise Refused(f"ARG {name} has no default and no value")
    return {name: arguments.get(name, default)}


def filled(step: Instruction, known: Mapping[str, str]) -> str:
    """The rest of a step with its variables; a builder would take an unknown one as nothing, and hide a slip."""
    if step.name in WITHOUT_VARIABLES:
        return step.rest
    try:
        return Template(step.rest).substitute(known)
    except (KeyError, ValueError) as error:
        raise Refused(f"{step.name} {step.rest}: a variable that nobody set ({error})") from error


def pairs(text: str) -> dict[str, str]:
    """The values of ENV and LABEL."""
    found = [word.partition("=") for word in shlex.split(text)]
    if any(not equals for _, equals, _ in found):
        raise Refused(f"{text}: it may be NAME=VALUE, one or several")
    return {name: value for name, _, value in found}


def words_of(step: Instruction) -> tuple[str, ...]:
    """A command in the form that needs no shell: a shell would take the signals that the program should have."""
    try:
        found = json.loads(step.rest)
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
        raise Refused(f"{step.name} {step.rest}: it may be a list in brackets")
    return tuple(found)


@dataclass(frozen=True)
class Context:
    """The folder that an image is built from, without what its .dockerignore keeps out."""

    root: Path

    def path(self, source: str) -> Path:
        """A file or folder by its path; refused where a builder would not find it."""
        allowed, _ = self._rules()
        path = Path(source)
        if not any(path.is_relative_to(one) for one in allowed) or not (self.root / path).exists():
            raise Refused(f"{source} is not in the build's context: .dockerignore names what is")
        return self.root / path

    def kept_out(self) -> tuple[str, ...]:
        """Names that are kept out wherever they are."""
        return self._rules()[1]

    def _rules(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What is let in, and the names that are kept out everywhere; the last rule that fits decides."""
        lines = (self.root / ".dockerignore").read_text().splitlines()
        rules = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
        allowed = tuple(rule[1:] for rule in rules if rule.startswith("!"))
        names = tuple(rule.removeprefix("**/") for rule in rules if rule.startswith("**/"))
        expected = ["*", *(f"!{one}" for one in allowed), *(f"**/{name}" for name in names)]
        if rules != expected or any("*" in one for one in (*allowed, *names)):
            raise Refused(".dockerignore may be *, then !PATH, then **/NAME")
        return allowed, names
