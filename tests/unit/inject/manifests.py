"""Manifests to inject, and what they are afterwards."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from specloop_cli.inject_additions import Options
from specloop_cli.inject_manifest import Manifest, injected, restored

Object = dict[str, Any]

FOLDER = Path(__file__).parent / "shapes"
SHAPES = sorted(path.name for path in FOLDER.iterdir())
"""Files in the shapes of well-known documents and charts: a shell's string, a chart's output, bare pods, a List."""

SETTING = "specloop.dev/speculative-config"
RECORD = "specloop.dev/injected"
MODEL = "meta-llama/Llama-3.3-70B-Instruct"
DRAFTS = '{"method": "draft_model", "model": "small", "num_speculative_tokens": 5}'


def shape(name: str) -> str:
    """Text of a file, line ends as they are."""
    return (FOLDER / name).read_bytes().decode()


def deployment(*args: str, image: str = "vllm/vllm-openai:v0.32.0", spec: str = "", container: str = "") -> str:
    """A Deployment with one container `vllm`; `spec` and `container` are lines for the pod and the container."""
    items = "".join(f"        - {item}\n" for item in args)
    return (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: llama\nspec:\n  template:\n    metadata:\n"
        "      labels:\n        app: llama\n    spec:\n"
        + "".join(f"      {line}\n" for line in spec.splitlines())
        + f"      containers:\n      - name: vllm\n        image: {image}\n"
        + (f"        args:\n{items}" if args else "")
        + "".join(f"        {line}\n" for line in container.splitlines())
    )


def speculating(*flags: str, **other: str) -> str:
    """A Deployment with a draft model."""
    return deployment(MODEL, "--speculative-config", f"'{DRAFTS}'", *flags, **other)


def inject(text: str, **options: Any) -> Manifest:
    """A text injected."""
    return injected("file.yaml", text, Options(**options))


def uninject(text: str) -> str:
    """A text as it was before."""
    return restored("file.yaml", text).after


def objects(text: str) -> list[Object]:
    """The objects of a text, those of a List one by one."""
    found = [one for one in yaml.safe_load_all(text) if one is not None]
    return [item for one in found for item in (one["items"] if one["kind"] == "List" else (one,))]


def template_of(one: Object) -> Object:
    """The pod template of a workload."""
    found: Object = one if one["kind"] == "Pod" else one["spec"]["template"]
    return found


def templates(text: str) -> list[Object]:
    """The pod templates of a text."""
    return [template_of(one) for one in objects(text) if one["kind"] in ("Deployment", "StatefulSet", "Pod")]


def engine_of(template: Mapping[str, Any]) -> Object:
    """The first container of a template: it runs the engine in all of our manifests."""
    found: Object = template["spec"]["containers"][0]
    return found


def added(text: str, **options: Any) -> tuple[Object, Object]:
    """Pod spec and engine container of the one workload of a text, injected."""
    (template,) = templates(inject(text, **options).after)
    return template["spec"], engine_of(template)


def variables(container: Object) -> dict[str, Any]:
    """A container's variables by name, those with a value by that."""
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container.get("env") or ()}


def named(items: list[Object]) -> dict[str, Object]:
    """Items by their name."""
    return {one["name"]: one for one in items}
