"""What a pod template with vLLM needs to be governed: the plugin, live control, the setting as an annotation, a drain.

Pure: a template and its engine go in, the additions and changes come out, with what is left out and why.
"""

import re
from importlib.metadata import version

from specloop_cli.inject_additions import Options, Plan
from specloop_cli.inject_command import SETTING, write_command
from specloop_cli.inject_engine import EngineContainer, Object, mapping, mappings
from specloop_cli.inject_yaml import Path, Refusal
from specloop_engine.configuration import TOKENS
from specloop_engine.container import image_name
from specloop_engine.known_failures import start_of
from specloop_engine.releases import Releases, parse_version
from specloop_policy.ladder import Method

PLUGIN, LIVE, TOKEN = "specloop-plugin", "specloop-live", "specloop-token"
"""Volumes; the first is the init container's name as well."""
FOLDERS = {PLUGIN: "/opt/specloop", LIVE: "/run/specloop", TOKEN: "/etc/specloop"}
TOKEN_FILE = "token"

COPY = ("cp", "-R", "/usr/share/specloop/specloop_vllm", f"{FOLDERS[PLUGIN]}/")
"""Both images of charts/images have the plugin there, and the program."""
RESOURCES = {"cpu": "100m", "memory": "128Mi"}
"""Of the init container; limits equal requests, or a pod whose other containers are Guaranteed would no longer be."""
USER_FIELDS = ("runAsUser", "runAsGroup", "runAsNonRoot")
"""What the engine's container says of its user holds for the init container too: it is admitted where the engine is."""

TABLE_RELEASES = Releases(since=(0, 24))
SHUTDOWN_RELEASES = Releases(since=(0, 18))
AHEAD = frozenset(
    {Method.DRAFT_MODEL, Method.EAGLE, Method.EAGLE3, Method.MTP, Method.DFLASH, Method.DSPARK, Method.NGRAM_GPU}
)
"""Methods that vLLM schedules a step ahead on GPUs."""

PRE_STOP_SECONDS = 15
"""In which load balancers learn that the pod is going: vLLM's /health stays 200 while it drains."""
SPARE_SECONDS = 30
"""To end in, after the drain."""
DEFAULT_GRACE_SECONDS = 30
DEFAULT_PORT = 8000
PROBE_SECONDS, PROBE_TRIES = 10, 180
"""Half an hour to start: reports are of up to eleven minutes, without the download of the model."""


def plan(template: Object, engine: EngineContainer, options: Options) -> Plan:
    """What to add to a template; Refusal where something of it cannot be."""
    made = Plan(speculation=engine.line.speculation, setting=engine.setting)
    _refuse_collisions(template, engine)
    why_not = _why_not_live(engine, options)
    live = why_not is None
    if why_not:
        made.notes.append(f"no live control: {why_not}")
    _add_plugin(made, engine, options, live=live)
    flags = ["--middleware=specloop_vllm.Middleware"]
    if live:
        flags.append(f"--scheduler-cls=specloop_vllm.{_scheduler(engine)}")
    wait = _shutdown_seconds(made, engine, options, flags)
    write_command(made, engine, options, flags, live=live)
    _add_drain(made, template, engine, wait)
    _add_probe(made, engine)
    return made


# What keeps from it


def _refuse_collisions(template: Object, engine: EngineContainer) -> None:
    spec, place = mapping(template["spec"]), f"container {engine.name}"
    if engine.setting is None and SETTING in mapping(mapping(template.get("metadata")).get("annotations")):
        raise Refusal(f"the pod template has an annotation {SETTING} which its command does not name: remove it")
    for item in engine.line.source.items:
        if "specloop_vllm" in item:
            raise Refusal(f"{place}: the plugin is in its command already, by hand: remove it there, or leave it so")
    for key in ("volumes", "initContainers", "containers"):
        taken = FOLDERS.keys() & {str(one.get("name")) for one in mappings(spec.get(key))}
        if taken:
            raise Refusal(f"{key} has a {min(taken)} already, which no record of an injection names: rename it")
    for one in mappings(engine.data.get("env")):
        if str(one.get("name")).startswith("SPECLOOP_LIVE_"):
            raise Refusal(f"{place}: env has a {one['name']} already: remove it")
    for one in mappings(engine.data.get("volumeMounts")):
        if str(one.get("mountPath")).rstrip("/") in FOLDERS.values():
            raise Refusal(f"{place}: something is mounted at {one['mountPath']} already: mount it elsewhere")


def _why_not_live(engine: EngineContainer, options: Options) -> str | None:
    """Why K cannot be changed between two steps here, in words; None where it can."""
    line, start = engine.line, start_of(engine.line)
    version = parse_version(line.version)
    if not options.live:
        return "--no-live"
    if line.speculation is None:
        return "there is no speculative setting, so that only temperatures are measured"
    if version is None:
        return f"{engine.images_tag} names no release of vLLM, and it takes one {TABLE_RELEASES}: give --vllm-version"
    if version not in TABLE_RELEASES:
        return f"it takes vLLM {TABLE_RELEASES}, and this is {line.version}"
    if line.speculation.tokens is None:
        return f"the setting does not say {TOKENS}"
    if start.data_parallel != 1:
        return "it takes --data-parallel-size 1: ranks that draft differently many tokens wait for each other for ever"
    servers = line.flag("--api-server-count", "-asc")
    if servers is not None and servers.value != "1":
        return "it takes --api-server-count 1"
    if other := line.flag("--scheduler-cls"):
        what = f"container {engine.name}: --scheduler-cls {other.value} is there, and vLLM takes one"
        raise Refusal(f"{what}: remove it, or give --no-live")
    return None


def _scheduler(engine: EngineContainer) -> str:
    """The plugin's scheduler of the kind that vLLM would take itself."""
    line = engine.line
    step_by_step = (
        line.flag("--no-async-scheduling") is not None
        or "cpu" in image_name(engine.image).lower()
        or bool((line.config or {}).get("disable_padded_drafter_batch"))
    )
    assert line.speculation is not None
    return "LiveScheduler" if step_by_step or line.speculation.method not in AHEAD else "LiveAsyncScheduler"


# The plugin


def _add_plugin(made: Plan, engine: EngineContainer, options: Options, *, live: bool) -> None:
    volumes: list[Object] = [{"name": PLUGIN, "emptyDir": {}}]
    mounts = [{"name": PLUGIN, "mountPath": FOLDERS[PLUGIN], "readOnly": True}]
    env: list[Object] = []
    if live:
        # Optional: without the Secret the engine serves, only that nobody can change K.
        secret = {
            "secretName": options.token_secret,
            "items": [{"key": options.token_key, "path": TOKEN_FILE}],
            "optional": True,
        }
        # In memory: the engine core writes there between two steps, and a disk that is busy would hold it up.
        wishes = {"name": LIVE, "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}
        volumes += [wishes, {"name": TOKEN, "secret": secret}]
        mounts += [{"name": LIVE, "mountPath": FOLDERS[LIVE]}]
        mounts += [{"name": TOKEN, "mountPath": FOLDERS[TOKEN], "readOnly": True}]
        env += [{"name": "SPECLOOP_LIVE_FOLDER", "value": FOLDERS[LIVE]}]
        env += [{"name": "SPECLOOP_LIVE_TOKEN_FILE", "value": f"{FOLDERS[TOKEN]}/{TOKEN_FILE}"}]
        made.added.append(f"live control (token in the Secret {options.token_secret})")
    made.added.insert(0, "the plugin")
    made.items["spec", "volumes"] = volumes
    made.items["spec", "initContainers"] = [_init_container(engine, options)]
    made.items["spec", "containers", engine.name, "volumeMounts"] = mounts
    made.items["spec", "containers", engine.name, "env"] = [*_python_path(made, engine), *env]


def _init_container(engine: EngineContainer, options: Options) -> Object:
    theirs = mapping(engine.data.get("securityContext"))
    return {
        "name": PLUGIN,
        "image": options.image or f"specloop-plugin:{version('specloop')}",
        "command": list(COPY),
        "resources": {"requests": RESOURCES, "limits": RESOURCES},
        "securityContext": {
            **{key: theirs[key] for key in USER_FIELDS if key in theirs},
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [{"name": PLUGIN, "mountPath": FOLDERS[PLUGIN]}],
    }


def _python_path(made: Plan, engine: EngineContainer) -> list[Object]:
    """The variable, where there is none; one that is there is changed."""
    there = [one for one in mappings(engine.data.get("env")) if one.get("name") == "PYTHONPATH"]
    if not there:
        return [{"name": "PYTHONPATH", "value": FOLDERS[PLUGIN]}]
    value = there[0].get("value")
    if len(there) > 1 or not isinstance(value, str) or not value:
        words = f"container {engine.name}: PYTHONPATH has no plain value that the plugin's folder could come before"
        raise Refusal(f"{words}: write it once, with a value")
    made.values["spec", "containers", engine.name, "env", "PYTHONPATH", "value"] = f"{FOLDERS[PLUGIN]}:{value}"
    return []


# Drain and start


def _shutdown_seconds(made: Plan, engine: EngineContainer, options: Options, flags: list[str]) -> int:
    """How long vLLM finishes requests after SIGTERM; grows `flags` by the one that says so."""
    line = engine.line
    version = parse_version(line.version)
    if there := line.flag("--shutdown-timeout"):
        written = there.value or ""
        return int(written) if re.fullmatch(r"[0-9]{1,6}", written) else options.drain_seconds
    if version is not None and version in SHUTDOWN_RELEASES:
        flags.append(f"--shutdown-timeout={options.drain_seconds}")
        return options.drain_seconds
    release = line.version if version else f"{engine.images_tag}, of an unknown release,"
    made.notes.append(
        f"{release} may abort running requests when it ends: --shutdown-timeout takes vLLM {SHUTDOWN_RELEASES}"
    )
    return 0


def _add_drain(made: Plan, template: Object, engine: EngineContainer, wait: int) -> None:
    lifecycle = mapping(engine.data.get("lifecycle"))
    sleeps = PRE_STOP_SECONDS
    if pre_stop := mapping(lifecycle.get("preStop")):
        seconds = mapping(pre_stop.get("sleep")).get("seconds")
        sleeps = seconds if isinstance(seconds, int) else sleeps
    else:
        # Not the action `sleep`: API servers before 1.30 drop it.
        action = {"exec": {"command": ["sleep", str(PRE_STOP_SECONDS)]}}
        _set(made, ("spec", "containers", engine.name, "lifecycle"), lifecycle, "preStop", action)
    needed = sleeps + wait + SPARE_SECONDS
    spec = mapping(template["spec"])
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is not None and not isinstance(grace, int):
        raise Refusal("spec.terminationGracePeriodSeconds is no whole number: correct it")
    if needed > (DEFAULT_GRACE_SECONDS if grace is None else grace):
        _set(made, ("spec",), spec, "terminationGracePeriodSeconds", needed)
    made.added.append(f"a drain ({sleeps} s, then up to {wait} s)")


def _add_probe(made: Plan, engine: EngineContainer) -> None:
    if engine.data.get("startupProbe") is not None:
        return
    probe = {"httpGet": _health(engine), "periodSeconds": PROBE_SECONDS, "failureThreshold": PROBE_TRIES}
    _set(made, ("spec", "containers", engine.name), engine.data, "startupProbe", probe)
    made.added.append("a start-up probe")


def _set(made: Plan, path: Path, there: Object, key: str, value: object) -> None:
    """Give a mapping a key, or another value to the one that it has; once for each mapping."""
    if key in there:
        made.values[*path, key] = value
    else:
        made.keys[path] = {key: value}


def _health(engine: EngineContainer) -> Object:
    """Where other probes look, or else where the command says that it serves."""
    for key in ("readinessProbe", "livenessProbe"):
        if port := mapping(mapping(engine.data.get(key)).get("httpGet")).get("port"):
            get = engine.data[key]["httpGet"]
            return {"path": "/health", "port": port, **({"scheme": get["scheme"]} if get.get("scheme") else {})}
    named = engine.line.flag("--port")
    written = named.value or "" if named else ""
    port = int(written) if re.fullmatch(r"[0-9]{1,5}", written) else DEFAULT_PORT
    secure = {"scheme": "HTTPS"} if engine.line.flag("--ssl-certfile") else {}
    return {"path": "/health", "port": port, **secure}
