"""What a node says to the API server and hears from it, over plain HTTP, until it is heard."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Coroutine
from datetime import UTC, datetime
from typing import Any

import httpx

from tests.support.cluster.environment import Object
from tests.support.cluster.kubeconfig import Kubeconfig

RETRY_SECONDS = 0.2
LEASE_SECONDS = 40
TOKEN_SECONDS = 3600
"""As pods get them."""


def now() -> str:
    """The time as the API writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class NodeApi:
    """The API server as one node uses it; an API server that is away or busy is asked again."""

    def __init__(self, kubeconfig: Kubeconfig, node: str) -> None:
        trust = ssl.create_default_context(cafile=kubeconfig.ca)
        headers = {"Authorization": f"Bearer {kubeconfig.token}", "User-Agent": "process-kubelet"}
        self._http = httpx.AsyncClient(base_url=kubeconfig.url, headers=headers, verify=trust, timeout=10.0)
        self._node = node
        self.address = httpx.URL(kubeconfig.url)
        """Where it is."""
        self._under_way: set[asyncio.Task[httpx.Response]] = set()

    async def close(self) -> None:
        """Hang up, when everything that was asked is answered."""
        await asyncio.gather(*self._under_way, return_exceptions=True)
        await self._http.aclose()

    async def join(self, labels: dict[str, str], capacity: dict[str, str]) -> None:
        """Create the node, ready for pods."""
        await self._apply("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"labels": labels}})
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "pods are processes here"}
        times = {"lastHeartbeatTime": now(), "lastTransitionTime": now()}
        status = {"capacity": capacity, "allocatable": capacity, "conditions": [{**ready, **times}]}
        node = f"/api/v1/nodes/{self._node}"
        await self._send("PATCH", f"{node}/status", {"status": status})
        while True:  # the node comes with taints, which the controllers take off once it is ready
            found = await self._send("GET", node)
            if found is not None and not found["spec"].get("taints"):
                return
            await asyncio.sleep(RETRY_SECONDS / 4)

    async def leave(self) -> None:
        """Delete the node."""
        await self._send("DELETE", f"/api/v1/nodes/{self._node}")

    async def renew(self) -> None:
        """Say that the node is alive."""
        spec = {"holderIdentity": self._node, "leaseDurationSeconds": LEASE_SECONDS}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        renewed = {"renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
        await self._apply(
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", {**lease, "spec": {**spec, **renewed}}
        )

    async def pods(self) -> AsyncIterator[tuple[str, Any]]:
        """`LISTED` with all pods of the node, first and after every break, and then the events of a watch."""
        query = {"fieldSelector": f"spec.nodeName={self._node}"}
        while True:
            listed = await self._send("GET", "/api/v1/pods", params=query)
            assert listed is not None
            yield "LISTED", listed.get("items") or []
            since = {"watch": "1", "resourceVersion": listed["metadata"]["resourceVersion"]}
            try:
                async with self._http.stream("GET", "/api/v1/pods", params={**query, **since}, timeout=None) as lines:
                    async for line in lines.aiter_lines():
                        event = json.loads(line)
                        if event["type"] == "ERROR":
                            break
                        yield event["type"], event["object"]
            except httpx.TransportError:
                await asyncio.sleep(RETRY_SECONDS)

    async def say_status(self, pod: Object, status: Object) -> None:
        """Write a pod's status, unless the pod is gone."""
        body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        await self._send("PATCH", f"{_path(pod)}/status", body)

    async def forget(self, pod: Object) -> None:
        """Take a pod whose processes have ended out of the API."""
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        await self._send("DELETE", _path(pod), options)

    async def read(self, namespace: str, plural: str, name: str) -> Object | None:
        """An object of the core group, or None."""
        return await self._send("GET", f"/api/v1/namespaces/{namespace}/{plural}/{name}")

    async def token(self, namespace: str, account: str) -> str:
        """A fresh token of a service account."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        answer = await self._send("POST", path, {"spec": {"expirationSeconds": TOKEN_SECONDS}})
        assert answer is not None, f"{namespace} has no service account {account}"
        found: str = answer["status"]["token"]
        return found

    async def _apply(self, collection: str, body: Object) -> None:
        named = {**body, "metadata": {**body.get("metadata", {}), "name": self._node}}
        parameters = {"fieldManager": "kubelet", "force": "true"}
        await self._send("PATCH", f"{collection}/{self._node}", named, parameters, "application/apply-patch+yaml")

    async def _send(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        params: dict[str, str] | None = None,
        kind: str = "application/strategic-merge-patch+json",
    ) -> Object | None:
        """The answer, once there is one; None where the object is not there, or is another of the same name."""
        headers = {"Content-Type": kind if method == "PATCH" else "application/json"}
        content = None if body is None else json.dumps(body)
        while True:
            try:
                answer = await self._whole(
                    self._http.request(method, path, content=content, params=params, headers=headers)
                )
            except httpx.TransportError:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if answer.status_code in (404, 409):
                return None
            if answer.is_success:
                value: Object = answer.json()
                return value
            if answer.status_code < 500 and answer.status_code != 429:
                raise AssertionError(f"{method} {path}: {answer.status_code} {answer.text}")
            await asyncio.sleep(RETRY_SECONDS)

    async def _whole(self, request: Coroutine[None, None, httpx.Response]) -> httpx.Response:
        """A request that outlives a cancelled caller: cut off in a TLS handshake, httpcore leaves its socket open."""
        task = asyncio.create_task(request)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)


def _path(pod: Object) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
