"""Which container of a pod template runs vLLM, and its command line as the operator will read it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specloop_cli.inject_yaml import Refusal
from specloop_engine.command_line import CommandLine, read
from specloop_engine.container import annotation_variables, engine_release, environment, image_name
from specloop_engine.releases import parse_version
from specloop_engine.words import CommandLineError, shortened
from specloop_policy.engine import Engine

Object = Mapping[str, Any]

STARTS_VLLM = re.compile(r"\bvllm\s+serve\b|\bvllm\.entrypoints\.")
VLLM_IMAGE = re.compile(
    r"(?!.*(?:router|exporter|proxy|gateway|sidecar|scheduler|operator|controller)).*vllm.*", re.IGNORECASE
)
"""An image's name, without registry and folders, that has vLLM as its program."""


@dataclass(frozen=True, slots=True)
class EngineContainer:
    """A container that runs vLLM."""

    name: str
    image: str
    data: Object
    line: CommandLine
    annotations: Mapping[str, str]
    """Annotations by the variable that each of them fills."""
    setting: str | None
    """The annotation that is all of the speculative setting; None where it stands elsewhere, or there is none."""

    @property
    def images_tag(self) -> str:
        """What is known of the release, for people."""
        return self.image.rpartition("/")[2] or "no image"


class NoEngine(Exception):
    """There is no vLLM in a template; the message says why where it looks as if there were, and is empty elsewhere."""


def find(template: Object, container: str | None, version: str | None) -> EngineContainer:
    """The one container that runs vLLM, by its command or its image; `version` where the image's tag does not say it.

    NoEngine where none does, Refusal where one does and cannot be read for sure, or where several do.
    """
    containers = _containers(template)
    if container is not None:
        named = next((one for one in containers if one.get("name") == container), None)
        if named is None:
            raise NoEngine(f"no container is called {container}")
        return _read(named, template, version, Engine.VLLM)
    found, others = [], []
    for one in containers:
        try:
            found.append(_read(one, template, version, Engine.AUTO))
        except NoEngine as other:
            others.append(str(other))
    if len(found) > 1:
        names = ", ".join(one.name for one in found)
        raise Refusal(f"several containers run vLLM ({names}): name one by --container")
    if not found:
        raise NoEngine("; ".join(filter(None, others)))
    return found[0]


def _containers(template: Object) -> Sequence[Object]:
    containers = mapping(template.get("spec")).get("containers")
    if not isinstance(containers, list) or not all(isinstance(one, Mapping) and one.get("name") for one in containers):
        raise NoEngine("")
    return containers


def mapping(value: object) -> Object:
    """A mapping as it is; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: object) -> Sequence[Object]:
    """The mappings of a list; none for anything else."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _read(container: Object, template: Object, version: str | None, engine: Engine) -> EngineContainer:
    name, image = str(container["name"]), str(container.get("image") or "")
    command, args = _items(container, "command"), _items(container, "args")
    has_image = VLLM_IMAGE.fullmatch(image_name(image)) is not None
    surely = engine is Engine.VLLM or STARTS_VLLM.search(" ".join((*command, *args))) is not None
    variables = mappings(container.get("env"))
    filled = annotation_variables(variables)
    annotations = mapping(mapping(template.get("metadata")).get("annotations"))
    known = environment(variables, annotations)
    try:
        line = read(command, args, engine=engine, version=version or release_of(image), environment=known)
    except CommandLineError as error:
        words = f"container {name}: {_words(error)}"
        if surely or (has_image and not command and any(item.startswith("--") for item in args)):
            raise Refusal(words) from error
        raise NoEngine(words if has_image else "") from error
    if line.engine is Engine.LLAMACPP:
        raise NoEngine(f"container {name} runs llama.cpp, and the plugin is for vLLM only")
    if not surely and (command or not has_image):
        raise NoEngine("")
    variable = line.setting.variable.variable if line.setting.variable else None
    return EngineContainer(name, image, container, line, filled, filled.get(variable or ""))


def _words(error: CommandLineError) -> str:
    mend = "name its container by --container" if "policy" in error.mend else error.mend
    return f"{shortened(error.item)}: {error.problem}; {mend}"


def _items(container: Object, key: str) -> tuple[str, ...]:
    items = container.get(key) or ()
    if not isinstance(items, list | tuple) or not all(isinstance(one, str) for one in items):
        raise Refusal(f"container {container['name']}: {key} is no list of texts: put each of its items in quotes")
    return tuple(items)


def release_of(image: str) -> str | None:
    """The tag of a vLLM image that names a release; None where it names none."""
    tag = engine_release(image) if "vllm" in image_name(image).lower() else None
    return tag if tag and parse_version(tag) else None
