"""One pod of the process kubelet: its containers together, and its status in the API."""

import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.cluster.container import BackOff, Container, Surroundings
from tests.support.cluster.environment import Object, environment_of
from tests.support.cluster.node_api import NodeApi, now
from tests.support.cluster.volumes import write_volumes


class Pod:
    """A pod that runs here, from the moment it is bound to the node until it is gone from the API."""

    def __init__(
        self, pod: Object, address: str, folder: Path, api: NodeApi, back_off: BackOff, hosts: Mapping[str, str]
    ) -> None:
        self.address = address
        self._folder = folder
        self._hosts = hosts
        self._object = pod
        self._api = api
        self._started = now()
        self._changed = asyncio.Event()
        self._grace: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._transitions: dict[str, tuple[str, str]] = {}
        """Status of each condition, and since when it has it."""
        first = pod["spec"].get("initContainers", ())
        self._first = {spec["name"]: self._container(spec, back_off, until_success=True) for spec in first}
        """Containers that prepare it, one after the other."""
        self.containers = {spec["name"]: self._container(spec, back_off) for spec in pod["spec"]["containers"]}

    @property
    def name(self) -> str:
        """Its name."""
        name: str = self._object["metadata"]["name"]
        return name

    def update(self, pod: Object) -> None:
        """Take in what the API says of it now; a pod that is to be deleted begins to end."""
        self._object = pod
        if "deletionTimestamp" in pod["metadata"]:
            self.end(pod["metadata"].get("deletionGracePeriodSeconds", 0))

    def end(self, grace_seconds: float) -> None:
        """Begin to end, if it has not yet."""
        if not self._grace.done():
            self._grace.set_result(grace_seconds)

    async def run(self) -> None:
        """Run all containers and report on them until the pod is to end; then end them, and forget it."""
        every = [*self._first.values(), *self.containers.values()]
        running, reporting = asyncio.create_task(self._run_all()), asyncio.create_task(self._report())
        try:
            grace = await _first_failure_or(self._grace, running, reporting)
            await asyncio.gather(*(container.end(grace) for container in every))
        finally:
            for task in (running, reporting):
                task.cancel()
            await asyncio.gather(*(container.end(0.0) for container in every))
            await asyncio.gather(running, reporting, return_exceptions=True)
        await self.forget()

    async def _run_all(self) -> None:
        for container in self._first.values():
            await container.run()
        await asyncio.gather(*(container.run() for container in self.containers.values()))

    async def forget(self) -> None:
        """Take it out of the API, now that nothing of it runs."""
        await self._api.forget(self._object)

    def _container(self, spec: Object, back_off: BackOff, *, until_success: bool = False) -> Container:
        own = self._folder / spec["name"]
        own.mkdir(parents=True)
        restarts = self._object["spec"]["restartPolicy"] == "Always"
        return Container(
            spec,
            self.address,
            own,
            back_off,
            Surroundings(self._environment, self._mounts, self._changed.set, restarts, until_success),
        )

    async def _environment(self, container: Object) -> Mapping[str, str]:
        """From the pod as it is now, as at every start of a container."""
        pod = {**self._object, "status": {**self._object.get("status", {}), "podIP": self.address}}
        server = self._api.address
        variables = {"KUBERNETES_SERVICE_HOST": server.host, "KUBERNETES_SERVICE_PORT": str(server.port)}
        return variables | await environment_of(container, pod, self._read)

    async def _mounts(self, container: Object) -> Mapping[str, Path]:
        """The volumes, and /etc/hosts, with which kubelets tell pods who they are."""
        hosts = self._folder / "hosts"
        names = {"localhost": "127.0.0.1", self.name: self.address, **self._hosts}
        hosts.write_text("".join(f"{address} {name}\n" for name, address in names.items()))
        namespace, account = self._object["metadata"]["namespace"], self._object["spec"]["serviceAccountName"]
        token = partial(self._api.token, namespace, account)
        folder = self._folder / container["name"] / "volumes"
        shared = self._folder / "shared"
        return {"/etc/hosts": hosts, **await write_volumes(container, self._object, self._read, token, folder, shared)}

    async def _read(self, plural: str, name: str) -> Object | None:
        return await self._api.read(self._object["metadata"]["namespace"], plural, name)

    async def _report(self) -> None:
        """Write the status, and again after every change."""
        while True:
            self._changed.clear()
            await self._api.say_status(self._object, self._status())
            await self._changed.wait()

    def _status(self) -> Object:
        ready = all(container.ready for container in self.containers.values())
        prepared = all(container.exit_code == 0 for container in self._first.values())
        conditions = {"Initialized": prepared, "ContainersReady": ready, "Ready": ready}
        return {
            "phase": self._phase(),
            "hostIP": "127.0.0.1",
            "podIP": self.address,
            "podIPs": [{"ip": self.address}],
            "startTime": self._started,
            "conditions": [self._condition(name, holds) for name, holds in conditions.items()],
            "initContainerStatuses": [container.status() for container in self._first.values()],
            "containerStatuses": [container.status() for container in self.containers.values()],
        }

    def _phase(self) -> str:
        containers = self.containers.values()
        codes = [container.exit_code for container in containers]
        if self._object["spec"]["restartPolicy"] == "Always" or None in codes:
            return "Running" if any(container.began for container in containers) else "Pending"
        return "Failed" if any(codes) else "Succeeded"

    def _condition(self, name: str, holds: bool) -> Object:
        status = str(holds)
        if name not in self._transitions or self._transitions[name][0] != status:
            self._transitions[name] = status, now()
        return {"type": name, "status": status, "lastTransitionTime": self._transitions[name][1]}


async def _first_failure_or(wanted: asyncio.Future[float], *tasks: asyncio.Task[None]) -> float:
    """The result that is waited for, or the exception of a task that fails meanwhile."""
    futures: list[asyncio.Future[Any]] = [wanted, *tasks]
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        if task.done():
            task.result()
    return await wanted
