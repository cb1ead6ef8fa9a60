"""The environment of a container, as far as its manifest says it: what a command's variables stand for.

The rules are those of the Kubernetes API reference, EnvVar: a later variable may be made of earlier ones, `$$` is a
dollar, and a name that is not known stays as it is.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

ANNOTATION_FIELD = re.compile(r"metadata\.annotations\['([^']+)'\]")
"""How a variable names the annotation that fills it."""

TAGGED_BY_THEMSELVES = frozenset({"lmcache"})
"""Folders of images that are called as vLLM's are and tagged by another release."""

VLLM_RELEASE = re.compile(r"v?[01]\.\d")
"""How a tag begins that names a release of vLLM; those of others name a year."""

REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")

Variables = Iterable[Mapping[str, Any]]
"""A container's `env`."""


def annotation_variables(variables: Variables) -> dict[str, str]:
    """Variables that an annotation of the pod fills, with that annotation; the last of two of one name counts."""
    found: dict[str, str] = {}
    for one in variables:
        name, source = str(one.get("name")), one.get("valueFrom")
        field = source.get("fieldRef") if isinstance(source, Mapping) else None
        path = field.get("fieldPath") if isinstance(field, Mapping) else None
        found.pop(name, None)
        if named := ANNOTATION_FIELD.fullmatch(str(path)):
            found[name] = named[1]
    return found


def environment(variables: Variables, annotations: Mapping[str, Any]) -> dict[str, str]:
    """The variables whose values the manifest says, with those that the pod's annotations fill."""
    variables = list(variables)
    filled, known = annotation_variables(variables), dict[str, str]()
    for one in variables:
        name = str(one.get("name"))
        if name in filled:
            known[name] = str(annotations.get(filled[name], ""))
        elif "valueFrom" in one:
            known.pop(name, None)
        else:
            known[name] = _expanded(str(one.get("value") or ""), known)
    return known


def image_name(image: str) -> str:
    """An image's name without registry, folders, tag and digest."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def engine_release(image: str) -> str | None:
    """The engine's release, as an image's tag says it: v0.11.0, server-b4567; None where the tag is not the engine's.

    Images that hold an engine beside something else are tagged by that: lmcache/vllm-openai:v0.3.9 by LMCache,
    llm-d-cuda:v0.9.0 by llm-d.
    """
    place, _, last = image.partition("@")[0].rpartition("/")
    name, _, tag = last.partition(":")
    if place.rpartition("/")[2].lower() in TAGGED_BY_THEMSELVES:
        return None
    if name.lower().startswith("vllm"):
        return tag if VLLM_RELEASE.match(tag) else None
    return tag if name.lower().startswith("llama") and tag else None


def _expanded(value: str, known: Mapping[str, str]) -> str:
    def filled(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else known.get(found[1], found[0])

    return REFERENCE.sub(filled, value)
