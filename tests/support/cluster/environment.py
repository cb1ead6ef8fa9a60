"""What a container's `env` becomes when it starts, and `$(VAR)` in its command line.

The rules are those of the Kubernetes API reference, EnvVar and Container.args.
"""

import base64
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

Object = dict[str, Any]
ReadObject = Callable[[str, str], Awaitable[Object | None]]
"""Plural and name of an object in the pod's namespace, to the object or None."""

_REFERENCE = re.compile(r"\$(?:(?P<dollar>\$)|\((?P<name>[^)]*)\))")
_MAP_ENTRY = re.compile(r"metadata\.(annotations|labels)\['(.+)'\]")


class ConfigError(Exception):
    """A container that cannot start until an object that it names appears."""


def expand(text: str, environment: Mapping[str, str]) -> str:
    """`$(NAME)` replaced where the name is known, `$$` by one dollar, all else left."""

    def value(found: re.Match[str]) -> str:
        return "$" if found["dollar"] else environment.get(found["name"], found[0])

    return _REFERENCE.sub(value, text)


async def environment_of(container: Object, pod: Object, read: ReadObject) -> dict[str, str]:
    """The variables that a container asks for, from its pod as it is now; raises ConfigError."""
    variables: dict[str, str] = {}
    for one in container.get("env", ()):
        if "valueFrom" in one:
            value = await _value_from(one["valueFrom"], pod, read)
        else:
            value = expand(one.get("value", ""), variables)
        if value is not None:
            variables[one["name"]] = value
    return variables


async def _value_from(source: Object, pod: Object, read: ReadObject) -> str | None:
    match source:
        case {"fieldRef": {"fieldPath": path}}:
            return field(pod, path)
        case {"configMapKeyRef": {"name": name, "key": key, **rest}}:
            found = await read("configmaps", name)
            values = (found or {}).get("data", {})
        case _:
            raise ConfigError(f"tests know no valueFrom {source}")
    if key not in values and not rest.get("optional"):
        raise ConfigError(f'couldn\'t find key {key} in configmap "{name}"')
    value: str | None = values.get(key)
    return value


def decoded(found: Object) -> dict[str, bytes]:
    """The values of a ConfigMap or a Secret."""
    if found.get("kind") == "Secret":
        return {key: base64.b64decode(value) for key, value in found.get("data", {}).items()}
    return {key: value.encode() for key, value in found.get("data", {}).items()}


def field(pod: Object, path: str) -> str:
    """A field of a pod by the downward API's path; an annotation or label that is not there is empty."""
    if entry := _MAP_ENTRY.fullmatch(path):
        return str(pod["metadata"].get(entry[1], {}).get(entry[2], ""))
    value: Any = pod
    for name in path.split("."):
        value = value[name]
    return str(value)
