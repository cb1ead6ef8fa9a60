"""An API server of a few lines on loopback: SpecPolicies with resource versions, merge patches, and refusals to order.

It has no schema and no permissions of its own; its refusals are worded as a real one's.
"""

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

GROUP_PATH = "/apis/specloop.dev/v1alpha1"
PATCHES = "application/merge-patch+json"


@dataclass(frozen=True)
class Refusal:
    """One answer to the next request of a method."""

    method: str
    status: int
    message: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def response(self) -> Response:
        """A Status object, or plain text where the real server has no such object either."""
        if self.message is None:
            return PlainTextResponse("404 page not found", self.status, self.headers)
        body = {"kind": "Status", "status": "Failure", "message": self.message, "code": self.status}
        return JSONResponse(body, self.status, self.headers)


@dataclass
class ApiServer:
    """What the server has and what it was asked."""

    url: str = ""
    policies: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    username: str | None = "alice@example.com"
    asked: list[str] = field(default_factory=list)
    """Method and path of every request."""
    patches: list[dict[str, Any]] = field(default_factory=list)
    agents: set[str] = field(default_factory=set)
    operator: Callable[[dict[str, Any]], None] = lambda found: None
    """Changes a policy before it is read, as an operator would between two looks."""

    def add(self, *found: dict[str, Any]) -> None:
        """Put policies there."""
        self.policies |= {(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in found}

    def annotations(self, name: str = "chat-70b", namespace: str = "llm") -> dict[str, str]:
        """Those of a policy."""
        found: dict[str, str] = self.policies[namespace, name]["metadata"]["annotations"]
        return found

    def kubeconfig(self, folder: Path, **changes: Any) -> str:
        """A file that leads here, to the namespace llm; `changes` are of its cluster."""
        path = folder / "kubeconfig"
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "contexts": [
                {"name": "here", "context": {"cluster": "loopback", "user": "alice", "namespace": "llm"}},
                {"name": "default", "context": {"cluster": "loopback", "user": "alice"}},
            ],
            "clusters": [{"name": "loopback", "cluster": {"server": self.url, **changes}}],
            "users": [{"name": "alice", "user": {"token": "secret"}}],
        }
        path.write_text(yaml.safe_dump(document))
        return str(path)

    def application(self) -> Starlette:
        """Its HTTP side."""
        namespaced = f"{GROUP_PATH}/namespaces/{{namespace}}/specpolicies"
        return Starlette(
            routes=[
                Route(f"{GROUP_PATH}/specpolicies", self._answer(self._list)),
                Route(namespaced, self._answer(self._list)),
                Route(f"{namespaced}/{{name}}", self._answer(self._get), methods=["GET"]),
                Route(f"{namespaced}/{{name}}", self._answer(self._patch), methods=["PATCH"]),
                Route("/apis/authentication.k8s.io/v1/selfsubjectreviews", self._answer(self._who), methods=["POST"]),
            ]
        )

    def _answer(self, handler: Callable[[Request, Any], Response]) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            self.asked.append(f"{request.method} {request.url.path}")
            self.agents.add(request.headers["user-agent"])
            for one in self.refusals:
                if one.method == request.method:
                    self.refusals.remove(one)
                    return one.response()
            for found in self.policies.values():
                self.operator(found)
            return handler(request, await request.json() if request.method in ("POST", "PATCH") else None)

        return answer

    def _list(self, request: Request, _: Any) -> Response:
        namespace = request.path_params.get("namespace")
        items = [found for (place, _), found in self.policies.items() if namespace in (None, place)]
        return JSONResponse({"kind": "SpecPolicyList", "items": items})

    def _get(self, request: Request, _: Any) -> Response:
        return JSONResponse(self.policies[request.path_params["namespace"], request.path_params["name"]])

    def _patch(self, request: Request, patch: Any) -> Response:
        if request.headers["content-type"] != PATCHES:
            return Refusal("PATCH", 415, "the body of the request was in an unknown format").response()
        found = self.policies[request.path_params["namespace"], request.path_params["name"]]
        metadata = found["metadata"]
        if patch["metadata"]["resourceVersion"] != metadata["resourceVersion"]:
            return Refusal("PATCH", 409, "the object has been modified").response()
        self.patches.append(patch)
        changed = {**metadata["annotations"], **patch["metadata"]["annotations"]}
        metadata["annotations"] = {name: value for name, value in changed.items() if value is not None}
        metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)
        return JSONResponse(found)

    def _who(self, request: Request, review: Any) -> Response:
        if self.username is None:
            return Refusal("POST", 403, "selfsubjectreviews.authentication.k8s.io is forbidden").response()
        return JSONResponse({**review, "status": {"userInfo": {"username": self.username}}}, 201)


@contextmanager
def api_server() -> Iterator[ApiServer]:
    """A server for the length of a block."""
    found = ApiServer()
    server = uvicorn.Server(uvicorn.Config(found.application(), log_level="error", lifespan="off"))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()  # from here on requests wait for the server rather than fail
        found.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield found
        finally:
            server.should_exit = True
            thread.join()
