"""One container of the process kubelet: a process that is started, probed, and started again when it ends."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

import specloop_vllm
from tests.support.cluster.daemons import dies_with_us
from tests.support.cluster.environment import ConfigError, Object, expand
from tests.support.cluster.mounts import mounted
from tests.support.cluster.node_api import now

SIMULATED_VLLM = "specloop.test/simulated-vllm"
"""The image of an engine, by any tag; containers of unknown images run what is on this machine."""
OPERATOR = "specloop"
"""The image of the chart, by any tag: this Python, with the pod's volumes mounted, for which it takes root."""
PLUGIN = "specloop-plugin"
"""The image whose container copies the plugin for vLLM: programs of this machine, and the package where it has it."""
FILES = {PLUGIN: {"/usr/share/specloop/specloop_vllm": Path(specloop_vllm.__path__[0])}}
"""What is in an image that this machine has elsewhere."""
OF_THE_ACCOUNT = "kube-api-access-"
"""The volume that every pod gets, for which a simulated engine has no use."""
ENTRYPOINT = ("vllm", "serve")
"""As that of vllm/vllm-openai."""
BIN = Path(__file__).parent / "bin"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

MESSAGE_BYTES, MESSAGE_LINES = 2048, 80
"""The most of a log that becomes a termination message (Kubernetes: Determine the Reason for Pod Failure)."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a pod gives its containers, asked for anew at every start; both raise ConfigError."""

    environment: Callable[[Object], Awaitable[Mapping[str, str]]]
    mounts: Callable[[Object], Awaitable[Mapping[str, Path]]]
    """Places in the container, to files and folders of this machine."""
    changed: Callable[[], None]
    """Called when the container's status is another."""
    restarts: bool = True
    """Whether containers that end are started again."""
    until_success: bool = False
    """Whether that is over once one has ended well: it prepares the pod."""


@dataclass(frozen=True, slots=True)
class BackOff:
    """Waits before restarts: none, `first`, doubled up to `most`; from the start again after a run of twice `most`.

    A real kubelet has 10 and 300 s.
    """

    first: float = 0.5
    most: float = 4.0

    def after(self, wait: float) -> float:
        """The wait after one of so many seconds."""
        return min(max(2.0 * wait, self.first), self.most)


class Container:
    """What runs, what it looked like last, and whether it is ready."""

    def __init__(
        self,
        spec: Object,
        address: str,
        folder: Path,
        back_off: BackOff,
        pod: Surroundings,
    ) -> None:
        self.name: str = spec["name"]
        self.log = folder / "log"
        self.ready = False
        self.restarts = 0
        self._spec = spec
        self._address = address
        self._folder = folder
        self._back_off = back_off
        self._pod = pod
        self._state: Object = {"waiting": {"reason": "ContainerCreating"}}
        self._last: Object = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._ending = False

    @property
    def began(self) -> bool:
        """Whether it has run at all."""
        return "waiting" not in self._state or bool(self._last)

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs, or is yet to run."""
        code: int | None = self._state.get("terminated", {}).get("exitCode")
        return code

    @property
    def pid(self) -> int:
        """The process that runs now; an AssertionError where none does."""
        if self._process is None or self._process.poll() is not None:
            raise AssertionError(f"container {self.name} does not run now")
        return self._process.pid

    def status(self) -> Object:
        """Its entry in the pod's containerStatuses."""
        return {
            "name": self.name,
            "image": self._spec["image"],
            "imageID": self._spec["image"],
            "ready": self.ready,
            "started": "running" in self._state,
            "restartCount": self.restarts,
            "state": self._state,
            "lastState": self._last,
        }

    async def run(self) -> None:
        """Keep it running until it is told to end."""
        wait = 0.0
        while True:
            began = time.monotonic()
            ended = await self._run_once()
            done = self._pod.until_success and ended["exitCode"] == 0
            if self._ending or done or not self._pod.restarts:
                return
            wait = 0.0 if time.monotonic() - began > 2.0 * self._back_off.most else wait
            self._last = {"terminated": ended}
            if wait:
                self._become({"waiting": {"reason": "CrashLoopBackOff", "message": self._waiting_message(wait)}})
                await asyncio.sleep(wait)
            wait = self._back_off.after(wait)
            self.restarts += 1

    async def end(self, grace_seconds: float) -> None:
        """Tell it to end, and kill it with all its children after the grace period."""
        self._ending = True
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            await asyncio.wait_for(_end_of(process), grace_seconds)
        except TimeoutError:
            _kill_group(process.pid)
            await _end_of(process)

    async def _run_once(self) -> Object:
        """Run the process to its end; the terminated state."""
        started, offset = now(), self.log.stat().st_size if self.log.exists() else 0
        try:
            self._process = self._start(*await self._surroundings_until_known())
        except FileNotFoundError as error:
            message = f'exec: "{error.filename}": executable file not found in $PATH'
            return self._terminated(128, started, message, "StartError")
        self._become({"running": {"startedAt": started}})
        probing = asyncio.create_task(self._probe())
        try:
            code = await _end_of(self._process)
        finally:
            probing.cancel()
            _kill_group(self._process.pid)
        return self._terminated(code if code >= 0 else 128 - code, started, self._message(code, offset))

    async def _surroundings_until_known(self) -> tuple[Mapping[str, str], Mapping[str, Path]]:
        while True:
            try:
                environment = await self._pod.environment(self._spec)
                return environment, await self._mounts()
            except ConfigError as error:
                self._become({"waiting": {"reason": "CreateContainerConfigError", "message": str(error)}})
                await asyncio.sleep(self._back_off.first)

    async def _mounts(self) -> Mapping[str, Path]:
        """What is mounted; a simulated engine without volumes of its own takes no root for it."""
        own = [one for one in self._spec.get("volumeMounts", ()) if not one["name"].startswith(OF_THE_ACCOUNT)]
        if self._image not in (OPERATOR, PLUGIN, SIMULATED_VLLM) or (self._image == SIMULATED_VLLM and not own):
            return {}
        return {**FILES.get(self._image, {}), **await self._pod.mounts(self._spec)}

    @property
    def _image(self) -> str:
        return str(self._spec["image"]).partition(":")[0]

    def _start(self, environment: Mapping[str, str], mounts: Mapping[str, Path]) -> subprocess.Popen[bytes]:
        simulated = self._image == SIMULATED_VLLM
        words = [*self._spec.get("command", ENTRYPOINT if simulated else ()), *self._spec.get("args", ())]
        command = [expand(word, environment) for word in words]
        python = f"{Path(sys.executable).parent}:{SYSTEM_PATH}"
        path = {SIMULATED_VLLM: f"{BIN}:{python}", OPERATOR: python}.get(self._image, SYSTEM_PATH)
        own = {"PATH": path, "HOME": str(self._folder), "POD_ADDRESS": self._address}
        if self._image == OPERATOR:
            # All pods share this machine's addresses, so that none may listen on all.
            own["SPECLOOP_HEALTH_ADDRESS"] = self._address
        if mounts:
            read_only = self._spec.get("securityContext", {}).get("readOnlyRootFilesystem", False)
            command = mounted(command, mounts, self._folder / "root", read_only=read_only)
        with self.log.open("ab") as log:
            return subprocess.Popen(
                dies_with_us(command),
                cwd=self._folder,
                env={**own, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _become(self, state: Object, ready: bool = False) -> None:
        self._state, self.ready = state, ready
        self._pod.changed()

    def _terminated(self, code: int, started: str, message: str, reason: str = "Error") -> Object:
        ended = {"exitCode": code, "reason": reason if code else "Completed", "startedAt": started}
        self._become({"terminated": {**ended, "finishedAt": now(), "message": message}})
        terminated: Object = self._state["terminated"]
        return terminated

    def _message(self, code: int, offset: int) -> str:
        """The end of this run's log, where the container asks for it and failed."""
        if code == 0 or self._spec.get("terminationMessagePolicy") != "FallbackToLogsOnError":
            return ""
        said = self.log.read_bytes()[offset:][-MESSAGE_BYTES:].decode(errors="replace")
        return "\n".join(said.splitlines()[-MESSAGE_LINES:])

    def _waiting_message(self, wait: float) -> str:
        return f"back-off {wait:g}s restarting failed container={self.name}"

    async def _probe(self) -> None:
        """Find out again and again whether it is ready; without a probe it is as soon as it runs."""
        probe = self._spec.get("readinessProbe")
        if probe is None:
            self._become(self._state, ready=True)
            return
        await asyncio.sleep(probe.get("initialDelaySeconds", 0))
        failures = 0
        async with httpx.AsyncClient(verify=False, timeout=probe["timeoutSeconds"]) as http:
            while True:
                failures = 0 if await self._answers(http, probe["httpGet"]) else failures + 1
                ready = not failures or (self.ready and failures < probe["failureThreshold"])
                if ready != self.ready:
                    self._become(self._state, ready)
                await asyncio.sleep(probe["periodSeconds"])

    async def _answers(self, http: httpx.AsyncClient, probe: Object) -> bool:
        ports = {port.get("name"): port["containerPort"] for port in self._spec.get("ports", ())}
        port = ports.get(probe["port"], probe["port"])
        scheme = probe.get("scheme", "HTTP").lower()
        try:
            answer = await http.get(f"{scheme}://{self._address}:{port}{probe.get('path', '/')}")
        except httpx.HTTPError:
            return False
        return 200 <= answer.status_code < 400


async def _end_of(process: subprocess.Popen[bytes]) -> int:
    """Wait for the end of a process without a thread; its code as Popen has it."""
    if process.poll() is None:
        ended = asyncio.Event()
        descriptor = os.pidfd_open(process.pid)
        asyncio.get_running_loop().add_reader(descriptor, ended.set)
        try:
            await ended.wait()
        finally:
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)
    return process.wait()


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
