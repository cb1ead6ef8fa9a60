"""Where a pod template keeps its speculative setting, and how another level is written there.

Annotation    the command names a variable that Kubernetes fills from an annotation of the pod: one key of one map is
              written, which nobody else owns (recommended)
Args          the flags stand in the container's `command` or `args`: lists that belong whole to whoever writes them

BindingError  the setting cannot be read or written for sure; trying again does not help until the target is changed
"""

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from specloop_engine.command_line import CommandLine, Written, read, write
from specloop_engine.configuration import Config, ConfigurationError, speculation_of
from specloop_engine.container import annotation_variables, engine_release, environment
from specloop_engine.failure import Harm
from specloop_engine.json_object import dumps
from specloop_engine.known_failures import known_failures, start_of
from specloop_engine.speculation import configuration_key, match
from specloop_engine.words import CommandLineError, Edit
from specloop_policy.engine import Engine
from specloop_policy.ladder import Ladder, Level
from specloop_policy.model import ClientFeature
from specloop_policy.status import MAX_CONFIGURATION, MAX_CONFIGURATIONS

ENGINE_IMAGE = re.compile(r"vllm|llama", re.IGNORECASE)

FATAL = {Harm.NO_START: "would not start", Harm.OUTPUT: "would spoil answers"}
"""Harms for which a level is never gone to, in words."""

BLANKS = re.compile(r"[ \t]+(?=[<>])")

Template = Mapping[str, Any]
"""A pod template as Kubernetes says it, or a pod: both have metadata and spec."""


class Place(StrEnum):
    """Where the setting stands."""

    ANNOTATION = "Annotation"
    ARGS = "Args"


class BindingError(ValueError):
    """A target whose setting cannot be read or written for sure."""


@dataclass(frozen=True, slots=True)
class Binding:
    """A container of a template and its command line, read."""

    container: str
    image: str
    line: CommandLine
    place: Place
    annotation: str | None = None
    """The annotation that holds the setting, for `Place.ANNOTATION`."""
    value: str | None = None
    """What it says; None: it is not there, which reads as off."""
    before: tuple[Config, ...] = ()
    """Configurations that it said once, the latest of each drafter."""

    def level(self, ladder: Ladder) -> Level | None:
        """The level that the template asks for; None where it is none of the ladder's."""
        return match(self.line.speculation, ladder)

    @property
    def configurations(self) -> tuple[str, ...]:
        """This one and those before as JSON, the latest of each drafter; what is too long to remember is left out."""
        found: dict[tuple[str, str | None], str] = {}
        for one in (self.line.config, *self.before):
            try:
                speculation = speculation_of(one, self.line.engine)
            except ConfigurationError:
                continue  # somebody wrote a status by hand
            if one is not None and speculation is not None:
                found.setdefault((speculation.method, speculation.model), dumps(one))
        return tuple(text for text in found.values() if len(text) <= MAX_CONFIGURATION)[:MAX_CONFIGURATIONS]

    @property
    def setting(self) -> str:
        """Hash of the configuration that it says now, whatever the image."""
        return configuration_key(self.line.config, "")

    def setting_at(self, level: Level) -> str:
        """The same as it will be once a level is written."""
        return configuration_key(self._configured(level).config, "")

    def key(self, level: Level, clients_send: Collection[ClientFeature] = ()) -> str:
        """Hash of a level's configuration and the image: what a failure is remembered by.

        BindingError where the level cannot be written, is known not to start, or to spoil what clients send.
        """
        line = self._configured(level)
        start = replace(
            start_of(line),
            min_p_or_logit_bias=bool({ClientFeature.MIN_P, ClientFeature.LOGIT_BIAS} & set(clients_send)) or None,
            grammar=ClientFeature.GRAMMAR in clients_send or None,
        )
        for found in known_failures(start):
            if found.harm in FATAL:
                raise BindingError(f"{level.name} {FATAL[found.harm]}: {found.message} ({found.mend})")
        return configuration_key(line.config, self.image)

    def _configured(self, level: Level) -> CommandLine:
        """The command line at a level."""
        written = self._written(level)
        environment = {**(self.line.environment or {}), **written.variables}
        return read(
            written.command, written.args, engine=self.line.engine, version=self.line.version, environment=environment
        )

    def patch(self, level: Level) -> dict[str, Any]:
        """The part of a template that says a level, for server-side apply."""
        return self._patch(self._written(level))

    def restored(self, old: "Binding") -> dict[str, Any]:
        """The part of a template that says the setting of another one, word for word.

        An annotation that was not there is left out, and so given up: an empty one would make another template of it.
        """
        if old.place is Place.ANNOTATION and old.value is None:
            return {}
        return old._patch(Written(old.line.source.command, old.line.source.args))

    def _patch(self, written: Written) -> dict[str, Any]:
        if self.place is Place.ANNOTATION:
            (value,) = written.variables.values() or (self.value or "",)
            return {"metadata": {"annotations": {self.annotation: value}}}
        source = self.line.source
        lists = {"command": (written.command, source.command), "args": (written.args, source.args)}
        # A list that is emptied is said to be empty: left out, it would keep what others own of it.
        own = {name: list(items) for name, (items, before) in lists.items() if items or before}
        return {"spec": {"containers": [{"name": self.container, **own}]}}

    def _written(self, level: Level) -> Written:
        try:
            return write(self.line, level, self.before)
        except CommandLineError as error:
            raise BindingError(f"{level.name} cannot be written: {error}") from error


def bind(template: Template, container: str | None = None, engine: Engine = Engine.AUTO) -> Binding:
    """Find the engine's container and read its command; BindingError where that is not sure.

    Without a name it is the one container that runs an engine.  Beside others it must say so, by its command or by its
    image: a sidecar with nothing but flags looks like an engine as well.
    """
    containers = template["spec"]["containers"]
    if container is not None:
        named = next((one for one in containers if one["name"] == container), None)
        if named is None:
            names = ", ".join(one["name"] for one in containers)
            raise BindingError(f"no container is called {container}; here: {names}; correct containerName")
        return _bind(template, named, engine)
    found, refusals = [], []
    for one in containers:
        try:
            binding = _bind(template, one, engine)
        except BindingError as error:
            refusals.append(f"{one['name']}: {error}")
            continue
        if len(containers) == 1 or _says_engine(binding):
            found.append(binding)
        else:
            refusals.append(f"{one['name']}: neither command nor image names an engine; set containerName if it is one")
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(one.container for one in found)
        raise BindingError(f"several containers run an engine ({names}); name one as containerName")
    raise BindingError("; ".join(refusals))


def _says_engine(binding: Binding) -> bool:
    return binding.line.source.program is not None or ENGINE_IMAGE.search(binding.image) is not None


def rest_of(template: Template, binding: Binding) -> str:
    """Hash of everything in a template but the setting: another one means that somebody changed the target."""
    metadata, spec = dict(template.get("metadata") or {}), dict(template["spec"])
    spec["containers"] = [
        one if one["name"] != binding.container else _without_setting(one, binding) for one in spec["containers"]
    ]
    annotations = dict(metadata.get("annotations") or {})
    annotations.pop(binding.annotation or "", None)
    text = json.dumps([metadata.get("labels") or {}, annotations, spec], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _without_setting(container: Mapping[str, Any], binding: Binding) -> dict[str, Any]:
    if binding.place is Place.ANNOTATION:
        return dict(container)
    setting = binding.line.setting
    places = [place for flag in (*setting.flags, *setting.companions) for place in flag.places]
    command, args = binding.line.source.edited(Edit(dict.fromkeys(places)))
    if binding.line.source.in_script:  # an edit may have put a blank before a redirection
        command, args = (tuple(BLANKS.sub("", item) for item in items) for items in (command, args))
    return {**container, "command": command, "args": args}


def _bind(template: Template, container: Mapping[str, Any], engine: Engine) -> Binding:
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    variables = container.get("env") or ()
    filled = annotation_variables(variables)
    image = container.get("image") or ""
    try:
        line = read(
            container.get("command") or (),
            container.get("args") or (),
            engine=engine,
            version=engine_release(image),
            environment=environment(variables, annotations),
        )
    except CommandLineError as error:
        raise BindingError(str(error)) from error
    variable = _variable(line)
    if variable is None:
        return Binding(container["name"], image, line, Place.ARGS)
    if variable not in filled:
        raise BindingError(
            f"the setting stands in the variable {variable}, which no annotation of the pod fills: "
            "write it into the command, or fill the variable from an annotation"
        )
    annotation = filled[variable]
    return Binding(container["name"], image, line, Place.ANNOTATION, annotation, annotations.get(annotation))


def _variable(line: CommandLine) -> str | None:
    """The variable that is all of the setting, if one is."""
    return line.setting.variable.variable if line.setting.variable else None
