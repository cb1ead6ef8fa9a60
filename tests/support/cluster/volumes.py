"""What the volumes of a pod hold, as files in folders of this machine."""

import shutil
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

from tests.support.cluster.environment import ConfigError, Object, ReadObject, decoded, field

Token = Callable[[], Awaitable[str]]
"""A fresh token of the pod's service account."""


async def write_volumes(
    container: Object, pod: Object, read: ReadObject, token: Token, folder: Path, shared: Path
) -> dict[str, Path]:
    """Write the volumes that a container mounts, as they are now: where it mounts each, to its folder.

    One of kind emptyDir lies under `shared`, the same for all containers of the pod.  ConfigError is raised where an
    object that a volume names is not there yet.
    """
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", ())}
    written = {}
    for mount in container.get("volumeMounts", ()):
        if "emptyDir" in volumes[mount["name"]]:
            written[mount["mountPath"]] = shared / mount["name"]
            written[mount["mountPath"]].mkdir(parents=True, exist_ok=True)
            continue
        place = folder / mount["name"]
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        for source in _sources(volumes[mount["name"]]):
            for path, content in (await _files(source, pod, read, token)).items():
                (place / path).parent.mkdir(parents=True, exist_ok=True)
                (place / path).write_bytes(content)
        written[mount["mountPath"]] = place
    return written


def _sources(volume: Object) -> Iterator[Object]:
    """The parts of a volume, each as a projected volume has it."""
    for kind, content in volume.items():
        match kind:
            case "projected":
                yield from content["sources"]
            case "secret":
                yield {"secret": {**content, "name": content["secretName"]}}
            case "name":
                pass
            case _:
                yield {kind: content}


async def _files(source: Object, pod: Object, read: ReadObject, token: Token) -> dict[str, bytes]:
    [(kind, content)] = source.items()
    match kind:
        case "configMap":
            return _chosen(await read("configmaps", content["name"]), f"configmap {content['name']}", **content)
        case "secret":
            return _chosen(await read("secrets", content["name"]), f"secret {content['name']}", **content)
        case "serviceAccountToken":
            return {content["path"]: (await token()).encode()}
        case "downwardAPI":
            return {item["path"]: field(pod, item["fieldRef"]["fieldPath"]).encode() for item in content["items"]}
        case _:
            raise ConfigError(f"tests know no volume of {source}")


def _chosen(
    found: Object | None, what: str, *, items: Sequence[Object] = (), optional: bool = False, **_: object
) -> dict[str, bytes]:
    """All keys of an object, or those that `items` names by their paths."""
    if found is None and not optional:
        raise ConfigError(f"{what} not found")
    values = decoded(found or {})
    items = items or [{"key": key, "path": key} for key in values]
    if missing := [item["key"] for item in items if item["key"] not in values]:
        raise ConfigError(f"{what} has no key {missing[0]}")
    return {item["path"]: values[item["key"]] for item in items}
