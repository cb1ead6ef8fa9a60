"""A node whose pods are processes of this machine, each with a loopback address of its own.

It honours of a pod: command, args, env, readinessProbe.httpGet, terminationMessagePolicy, restart policies, the grace
period, what the scheduler looks at, and of the operator's image volumes and readOnlyRootFilesystem.  It has no images,
init containers, users, other probes, or volumes of other containers.
"""

import asyncio
import os
import random
import signal
import socket
from collections.abc import Coroutine
from pathlib import Path
from typing import Self

from tests.support.cluster.container import BackOff, Container
from tests.support.cluster.environment import Object
from tests.support.cluster.kubeconfig import Kubeconfig
from tests.support.cluster.node_api import NodeApi
from tests.support.cluster.pod import Pod

HEARTBEAT_SECONDS = 10.0
GPU = "nvidia.com/gpu"


class Addresses:
    """Loopback addresses 127.n.*.* that no other kubelet of this machine hands out, never the same one twice."""

    def __init__(self) -> None:
        self._given = 0
        self._claim = socket.socket()
        self._network = next(filter(self._claimed, random.SystemRandom().sample(range(64, 255), 190)))

    def _claimed(self, network: int) -> bool:
        """Whether a network is ours now, by a port in it that is held."""
        try:
            self._claim.bind((f"127.{network}.0.1", 65_000))
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Give the network back."""
        self._claim.close()

    def next(self) -> str:
        """A new address."""
        self._given += 1
        high, low = divmod(self._given, 250)
        return f"127.{self._network}.{high}.{low + 2}"


class Kubelet:
    """A node for the length of an async block; everything that it started ends with it."""

    def __init__(
        self,
        kubeconfig: Kubeconfig,
        node: str,
        folder: Path,
        *,
        labels: dict[str, str] | None = None,
        gpus: int = 8,
        back_off: BackOff | None = None,
    ) -> None:
        self.node = node
        self._kubeconfig = kubeconfig
        self._folder = folder
        self._labels = {"kubernetes.io/hostname": node, **(labels or {})}
        self._capacity = {"cpu": "1k", "memory": "1Ti", "pods": "1k", GPU: str(gpus)}
        self._back_off = back_off or BackOff()
        self._pods: dict[str, Pod] = {}
        """By uid."""
        self._ended: set[str] = set()
        """Uids of pods that are no more, of which the API's watch may still tell something older."""
        self.hosts: dict[str, str] = {}
        """Addresses by the names that pods of the operator's image can look up, for there is no DNS and Services lead
        nowhere; read when a container starts."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        """Join the cluster."""
        self._addresses = Addresses()
        self._api = NodeApi(self._kubeconfig, self.node)
        await self._api.join(self._labels, self._capacity)
        self._spawn(self._stay_alive())
        self._spawn(self._follow())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Kill all pods and leave the cluster; raises what went wrong meanwhile."""
        for task in self._tasks:
            task.cancel()
        ends = await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(pod.forget() for pod in self._pods.values()))
        await self._api.leave()
        await self._api.close()
        self._addresses.close()
        if failures := [end for end in ends if isinstance(end, Exception)]:
            raise ExceptionGroup(f"the kubelet of {self.node} failed", failures)

    def pid(self, pod: str, container: str | None = None) -> int:
        """The process of a pod's container, by default its only one."""
        return self._container(pod, container).pid

    def kill(self, pod: str, container: str | None = None) -> None:
        """Kill a container's process, as running out of memory would; the kubelet starts it again."""
        os.kill(self.pid(pod, container), signal.SIGKILL)

    def command_line(self, pod: str, container: str | None = None) -> list[str]:
        """The command line of the process that runs now, as the kernel knows it."""
        words = Path(f"/proc/{self.pid(pod, container)}/cmdline").read_bytes()
        return words.decode().rstrip("\0").split("\0")

    def log(self, pod: str, container: str | None = None) -> str:
        """All that a container has printed, over its restarts."""
        return self._container(pod, container).log.read_text(errors="replace")

    def _container(self, pod: str, container: str | None) -> Container:
        found = [one for one in self._pods.values() if one.name == pod]
        assert found, f"{self.node} has no pod {pod}"
        containers = found[-1].containers
        return containers[container or next(iter(containers))]

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        self._tasks.add(asyncio.create_task(work))

    async def _stay_alive(self) -> None:
        while True:
            await self._api.renew()
            await asyncio.sleep(HEARTBEAT_SECONDS)

    async def _follow(self) -> None:
        async for kind, found in self._api.pods():
            match kind:
                case "LISTED":
                    self._see_all(found)
                case "DELETED":
                    self._lose(found["metadata"]["uid"])
                case _:
                    self._see(found)

    def _see_all(self, pods: list[Object]) -> None:
        for pod in pods:
            self._see(pod)
        for uid in self._pods.keys() - {pod["metadata"]["uid"] for pod in pods}:
            self._lose(uid)

    def _see(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        if uid in self._ended:
            return
        if uid in self._pods:
            self._pods[uid].update(pod)
            return
        folder = self._folder / f"{pod['metadata']['name']}-{uid[:8]}"
        self._pods[uid] = Pod(pod, self._addresses.next(), folder, self._api, self._back_off, self.hosts)
        self._spawn(self._run(uid))

    async def _run(self, uid: str) -> None:
        await self._pods[uid].run()
        self._ended.add(uid)
        del self._pods[uid]

    def _lose(self, uid: str) -> None:
        if uid in self._pods:
            self._pods[uid].end(0.0)
