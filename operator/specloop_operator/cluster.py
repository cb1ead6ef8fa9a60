"""The API server, as far as the operator writes to it or asks for what is not watched.

ApiError        a request that failed; `retry`: the next tick may succeed
    Conflict    somebody else wrote in between: look again
    Forbidden   the role does not allow it
    Busy        the server asks to come back later, as for a second after a definition was made
    NotThere    the object is gone
    NotLeading  another operator leads now, and this one writes nothing any more
"""

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, Protocol

import aiohttp
from kubernetes.aio.client import (
    ApiClient,
    AppsV1Api,
    CoreV1Api,
    CustomObjectsApi,
    V1DeleteOptions,
    V1Preconditions,
)
from kubernetes.aio.client.exceptions import ApiException

from specloop_operator.store import POLICIES
from specloop_operator.workload import MANAGER, Target
from specloop_policy.model import GROUP, VERSION

Body = Mapping[str, Any]

TIMEOUT_SECONDS = 10.0
"""The client's own is 300 s.  A write that takes longer is taken again at the next tick, for every one may be."""

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"


class ApiError(Exception):
    """A request that failed; the message says which, and how."""

    retry = True


class Conflict(ApiError):
    """The object is not any more what it was when it was read."""


class Forbidden(ApiError):
    """The operator's role does not allow it."""

    retry = False


class Busy(ApiError):
    """The server asks to come back later."""


class NotThere(ApiError):
    """The object is gone."""

    retry = False


class NotLeading(ApiError):
    """Another operator leads; this process ends soon."""

    retry = False


def _always() -> bool:
    return True


class Cluster(Protocol):
    """What a tick asks of the API server."""

    async def apply(self, target: Target, application: Body) -> Body:
        """Apply part of a workload's spec; raises ApiError.  What the workload is afterwards."""

    async def old_templates(self, target: Target) -> list[Body]:
        """The pod templates that a workload had before, the latest first; raises ApiError."""

    async def delete_pod(self, namespace: str, name: str, uid: str) -> None:
        """Delete this pod, and none that has taken its name since; raises ApiError."""

    async def write_status(self, policy: Body, status: Body) -> Body:
        """Replace a policy's status if it is still as it was read; raises ApiError.  The policy afterwards."""

    async def policy(self, namespace: str, name: str) -> Body:
        """A policy as it is now; raises ApiError."""


class KubernetesCluster:
    """The real one, through the asynchronous client.

    `leads` is asked right before every write, so that a process that was stopped in between sends nothing once it goes
    on.  What it had sent before carries the resourceVersion that it read, and so does what the new leader wrote.
    """

    def __init__(self, client: ApiClient, leads: Callable[[], bool] = _always) -> None:
        self._client = client
        self._leads = leads
        self._apps = AppsV1Api(client)
        self._core = CoreV1Api(client)
        self._custom = CustomObjectsApi(client)

    async def apply(self, target: Target, application: Body) -> Body:
        """Apply with our field manager, by force: who else owned a field was seen before, and held for."""
        kind = target.kind.name
        patches = {
            "Deployment": self._apps.patch_namespaced_deployment_without_preload_content,
            "StatefulSet": self._apps.patch_namespaced_stateful_set_without_preload_content,
        }
        patch = patches[kind]
        what = f"applying to {kind} {target.namespace}/{target.name}"
        self._fenced(what)
        answer = await _asked(
            what,
            patch(
                target.name,
                target.namespace,
                dict(application),
                field_manager=MANAGER,
                force=True,
                _content_type=APPLY,
                _request_timeout=TIMEOUT_SECONDS,
            ),
        )
        return await _body(what, answer)

    async def old_templates(self, target: Target) -> list[Body]:
        """Those of its ReplicaSets or ControllerRevisions, by their revision."""
        selector = _selector(target)
        what = f"listing the revisions of {target.kind.name} {target.namespace}/{target.name}"
        stateful = target.kind.name == "StatefulSet"
        lister = (
            self._apps.list_namespaced_controller_revision_without_preload_content
            if stateful
            else self._apps.list_namespaced_replica_set_without_preload_content
        )
        answer = await _asked(
            what,
            lister(target.namespace, label_selector=selector, _request_timeout=TIMEOUT_SECONDS),
        )
        items = (await _body(what, answer))["items"]
        own = [one for one in items if _owned(one, target)]
        templates = [
            (_revision(one), one["data"]["spec"]["template"] if stateful else one["spec"]["template"]) for one in own
        ]
        return [template for _, template in sorted(templates, key=lambda pair: pair[0], reverse=True)]

    async def delete_pod(self, namespace: str, name: str, uid: str) -> None:
        """Delete it, with its own grace period."""
        what = f"deleting pod {namespace}/{name}"
        self._fenced(what)
        answer = await _asked(
            what,
            self._core.delete_namespaced_pod_without_preload_content(
                name,
                namespace,
                body=V1DeleteOptions(preconditions=V1Preconditions(uid=uid)),
                _request_timeout=TIMEOUT_SECONDS,
            ),
        )
        await _body(what, answer)

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes]:
        """Read it."""
        what = f"reading Secret {namespace}/{name}"
        read = self._core.read_namespaced_secret_without_preload_content
        body = await _body(what, await _asked(what, read(name, namespace, _request_timeout=TIMEOUT_SECONDS)))
        return {key: base64.b64decode(value) for key, value in (body.get("data") or {}).items()}

    async def policy(self, namespace: str, name: str) -> Body:
        """Read it."""
        what = f"reading SpecPolicy {namespace}/{name}"
        read = self._custom.get_namespaced_custom_object_without_preload_content
        asking = read(GROUP, VERSION, namespace, POLICIES, name, _request_timeout=TIMEOUT_SECONDS)
        return await _body(what, await _asked(what, asking))

    def _fenced(self, what: str) -> None:
        if not self._leads():
            raise NotLeading(f"{what}: not sent, for another operator leads now")

    async def write_status(self, policy: Body, status: Body) -> Body:
        """Merge it into the subresource; what is not in it any more is said to be null."""
        metadata = policy["metadata"]
        what = f"writing the status of SpecPolicy {metadata['namespace']}/{metadata['name']}"
        self._fenced(what)
        patch = {
            "metadata": {"resourceVersion": metadata["resourceVersion"]},
            "status": merged(policy.get("status") or {}, status),
        }
        answer = await _asked(
            what,
            self._custom.patch_namespaced_custom_object_status_without_preload_content(
                GROUP,
                VERSION,
                metadata["namespace"],
                POLICIES,
                metadata["name"],
                patch,
                field_manager=MANAGER,
                _content_type=MERGE,
                _request_timeout=TIMEOUT_SECONDS,
            ),
        )
        return await _body(what, answer)


def merged(old: Body, new: Body) -> dict[str, Any]:
    """The merge patch that makes one object the other (RFC 7396)."""
    patch: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        if isinstance(value, Mapping) and isinstance(old.get(name), Mapping):
            inner = merged(old[name], value)
            if inner:
                patch[name] = inner
        elif name not in old or old[name] != value:
            patch[name] = value
    return patch


async def _asked(what: str, call: Any) -> Any:
    try:
        return await call
    except ApiException as error:
        _failed(what, int(error.status or 0), str(error.body or error.reason or ""), error)
    except (aiohttp.ClientError, TimeoutError) as error:
        raise ApiError(f"{what}: {str(error) or type(error).__name__}") from error


async def _body(what: str, response: Any) -> dict[str, Any]:
    """The answer as JSON; responses that are not preloaded raise nothing by themselves."""
    try:
        data = await response.read()
        status = response.status
    except (aiohttp.ClientError, TimeoutError) as error:
        raise ApiError(f"{what}: {str(error) or type(error).__name__}") from error
    if status >= 400:
        _failed(what, status, data.decode(errors="replace"), None)
    found: dict[str, Any] = json.loads(data)
    return found


def _failed(what: str, status: int, text: str, cause: BaseException | None) -> NoReturn:
    try:
        said = str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        said = text[:300]
    kind = {409: Conflict, 403: Forbidden, 404: NotThere, 429: Busy}.get(status, ApiError)
    raise kind(f"{what}: HTTP {status}: {said}") from cause


def _selector(target: Target) -> str:
    labels = (target.body["spec"].get("selector") or {}).get("matchLabels") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def _owned(body: Body, target: Target) -> bool:
    return any(owner.get("uid") == target.uid for owner in body["metadata"].get("ownerReferences") or ())


def _revision(body: Body) -> int:
    """ControllerRevisions have a field, ReplicaSets an annotation."""
    annotations = body["metadata"].get("annotations") or {}
    return int(body.get("revision") or annotations.get("deployment.kubernetes.io/revision") or 0)


async def listed(what: str, call: Any) -> list[Body]:
    """The items of a list that is asked for; raises ApiError."""
    items: list[Body] = (await _body(what, await _asked(what, call)))["items"]
    return items
