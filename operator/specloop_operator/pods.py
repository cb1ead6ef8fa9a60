"""What is kept of a pod: where it answers, how it is, and the level that it was started at."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from specloop_control.live import PodStanding, Standing
from specloop_operator.binding import Binding
from specloop_policy.canary import Rollout
from specloop_policy.report import plain

DEFAULT_PORTS = {"VLLM": 8000, "LlamaCpp": 8080}
"""Where engines listen when nothing is said."""

PORT, MOST_PORT = re.compile(r"[0-9]{1,5}"), 65535
"""What a port may be; whoever makes a pod of these labels may write another number, which nobody can be asked at."""

MESSAGE_CHARACTERS = 300
"""Of a container's last message, which may be the end of a long log: as much as reads well in a condition."""

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod as it was last seen; times are seconds since the epoch."""

    name: str
    level: str | None
    """The level that it is at: as it was started, or live; None for a setting that is none of the ladder's."""
    ip: str | None = None
    port: int = 8000
    ready_since: float | None = None
    """When it became ready; None while it is not."""
    started_at: float | None = None
    """When its engine's container last started."""
    restarts: int = 0
    broken: str = ""
    """How its container fails again and again, with its last message."""
    pending: str = ""
    """Why it cannot be scheduled."""
    leaving: bool = False
    uid: str = ""
    """What tells it from one of the same name after it."""
    setting: str = ""
    """Hash of the configuration that it was started with."""
    standing: PodStanding | None = None
    """How it stands to what it was asked for live; None where it was not asked."""

    @property
    def serving(self) -> bool:
        """Whether it takes requests."""
        return self.ready_since is not None and not self.leaving

    @property
    def refuses(self) -> bool:
        """Whether it cannot be controlled live."""
        return self.standing is not None and self.standing.standing is Standing.REFUSED

    def is_new(self, rollout: Rollout) -> bool:
        """Whether it is at the level that is rolled out: started so, or asked live."""
        if rollout.live or not rollout.setting:
            return self.level == rollout.level
        return self.setting == rollout.setting


def host(ip: str) -> str:
    """An address as a URL has it."""
    return f"[{ip}]" if ":" in ip else ip


def port_of(pod: Body, binding: Binding) -> int:
    """Where the engine listens: as its command says, else the container's first port, else the engine's own."""
    flag = binding.line.flag("--port")
    said = "" if flag is None else flag.value or ""
    if PORT.fullmatch(said) and 0 < int(said) <= MOST_PORT:
        return int(said)
    container = next(one for one in pod["spec"]["containers"] if one["name"] == binding.container)
    ports = container.get("ports") or ()
    return int(ports[0]["containerPort"]) if ports else DEFAULT_PORTS[binding.line.engine]


def read_pod(pod: Body, binding: Binding, level: str | None) -> Pod:
    """What is kept of a pod whose setting has been read."""
    status = pod.get("status") or {}
    conditions = {one["type"]: one for one in status.get("conditions") or ()}
    containers: dict[str, Body] = {one["name"]: one for one in status.get("containerStatuses") or ()}
    container = containers.get(binding.container, {})
    ready, scheduled = conditions.get("Ready") or {}, conditions.get("PodScheduled") or {}
    running = (container.get("state") or {}).get("running") or {}
    return Pod(
        name=pod["metadata"]["name"],
        uid=str(pod["metadata"].get("uid") or ""),
        level=level,
        ip=status.get("podIP"),
        port=port_of(pod, binding),
        ready_since=_seconds(ready.get("lastTransitionTime")) if ready.get("status") == "True" else None,
        started_at=_seconds(running.get("startedAt")),
        restarts=int(container.get("restartCount") or 0),
        broken=_broken(container),
        pending=plain(str(scheduled.get("message") or "")) if scheduled.get("status") == "False" else "",
        leaving=bool(pod["metadata"].get("deletionTimestamp")) or status.get("phase") in ("Succeeded", "Failed"),
        setting=binding.setting,
    )


def _broken(container: Body) -> str:
    """How a container fails for good: what it cannot be made from, or that it ended twice and is not ready."""
    state = container.get("state") or {}
    waiting = state.get("waiting") or {}
    reason = str(waiting.get("reason") or "")
    if reason in ("CreateContainerConfigError", "CreateContainerError", "RunContainerError"):
        return f"{reason}: {_shortened(str(waiting.get('message') or ''))}"
    # A restart is counted when it happens: waiting after one restart means that it ended twice.
    ended = int(container.get("restartCount") or 0) + (reason == "CrashLoopBackOff" or "terminated" in state)
    if container.get("ready") or ended < 2:
        return ""
    last = state.get("terminated") or (container.get("lastState") or {}).get("terminated") or {}
    said = _shortened(str(last.get("message") or ""))
    code = f"exit code {last['exitCode']}" if "exitCode" in last else "no exit code is known"
    return f"its container ended {ended} times ({code})" + (f": {said}" if said else "")


def _shortened(message: str) -> str:
    """The end of a message on one line, where the error stands."""
    line = plain(message)
    return line if len(line) <= MESSAGE_CHARACTERS else "… " + line[-MESSAGE_CHARACTERS:]


def _seconds(time: str | None) -> float | None:
    return None if not time else datetime.fromisoformat(time).timestamp()
