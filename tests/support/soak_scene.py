"""The cluster of a soak: three targets under three operators, and how each deed is done to it and undone."""

import heapq
import itertools
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from kubernetes.dynamic.exceptions import NotFoundError

from tests.support.alerts import alert_json, message_json
from tests.support.cluster.beside import beside
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.daemons import free_port
from tests.support.cluster.environment import Object
from tests.support.cluster.live import TOKEN_REF, serving_live, tokens_in_force
from tests.support.cluster.llama import LADDER, ONE_MORE, RECORDS, STORIES
from tests.support.cluster.policies import LOW, OVERRIDE, Followed, policy
from tests.support.cluster.scraping import Monitor, monitored
from tests.support.cluster.traffic import Traffic
from tests.support.cluster.workloads import ANNOTATION, bound, container, drafts, workload
from tests.support.soak_operators import Replica, RoughProxy
from tests.support.soak_plan import ALERTS, LIVE, OPERATORS, PROMETHEUS, RESTARTED, STATEFUL, TARGETS, Deed, What

KINDS = {RESTARTED: "Deployment", LIVE: "Deployment", STATEFUL: "StatefulSet"}
REPLICAS = 3
GPUS = 3 * (4 + 1)
"""Four pods of each target at most, and a canary beside them."""
EASY, HARD = (replace(phase, clients=2 * REPLICAS) for phase in (RECORDS, STORIES))
"""Of drafts at k5, 80 and 33 in 100 are accepted; with two requests in the batch, k3 pays with the latter alone."""
HIGH = {"name": "high", "when": {"acceptance": {"abovePercent": 55}}, "forSeconds": 2, "action": {"type": "StepUp"}}
BINDINGS = [{"match": {"alertname": name}, "action": dict(action)} for name, action in ALERTS.items()]
MANY_CHANGES = 1000
"""Rules are to be as busy in minutes as in a week."""
ROUND_SECONDS = 0.1
AGAIN_SECONDS = 1.0
WEBHOOK_TOKEN = "a token"
FLAG = "--speculative-config="

Undo = Callable[[], None]


class _Due(NamedTuple):
    """What is done next, in the order of a heap."""

    at: float
    order: int
    do: Callable[[], Undo | None]
    lasts: float


class NotNow(Exception):
    """Nobody is there to do it to: it is tried again."""


@dataclass(frozen=True)
class Scene:
    """What deeds are done to."""

    cluster: Cluster
    replicas: Mapping[str, Replica]
    webhooks: Mapping[str, str]
    """Where operators take alerts."""
    traffic: Mapping[str, Traffic]
    monitor: Monitor
    forgotten: list[str] = field(default_factory=list)
    """Alerts that were answered as written down, and are not."""

    def play(self, deeds: Iterable[Deed]) -> None:
        """Do them at their times, and undo them; what cannot be done yet is tried again."""
        began, order = time.monotonic(), itertools.count()
        due = [_Due(deed.at, next(order), partial(self._do, deed), deed.lasts) for deed in deeds]
        heapq.heapify(due)
        while due:
            self.sample()
            now = time.monotonic() - began
            if now < due[0].at:
                time.sleep(ROUND_SECONDS)
                continue
            one = heapq.heappop(due)
            try:
                undo = one.do()
            except NotNow:
                heapq.heappush(due, one._replace(at=now + AGAIN_SECONDS))
                continue
            if undo is not None:
                heapq.heappush(due, _Due(now + one.lasts, next(order), undo, 0.0))

    def sample(self) -> None:
        """Write down how much memory each operator holds."""
        for replica in self.replicas.values():
            replica.sample()

    def levels(self, name: str) -> dict[str, str]:
        """The level that each pod of a target runs, by its process, or by its own page where K changes live."""
        pods = [
            one["metadata"]["name"]
            for one in self.cluster.objects("Pod", f"app={name}")
            if "deletionTimestamp" not in one["metadata"]
        ]
        try:
            live = tokens_in_force(self.cluster) if name == LIVE else {}
        except httpx.HTTPError:
            return dict.fromkeys(pods, "one does not answer")
        return {pod: self._level(pod, live.get(pod)) for pod in pods}

    def _level(self, pod: str, live: int | None) -> str:
        if live is not None:
            return f"k{live}" if live else "disabled"
        try:
            words = self.cluster.kubelet.command_line(pod)
        except (AssertionError, OSError):
            return "nothing runs"
        setting = next((word.removeprefix(FLAG) for word in words if word.startswith(FLAG)), None)
        if setting is None:  # it has just ended
            return "nothing runs"
        return f"k{json.loads(setting)['num_speculative_tokens']}" if setting else "disabled"

    def _do(self, deed: Deed) -> Undo | None:
        doings: Mapping[What, Callable[[Deed], Undo | None]] = {
            What.KILL: self._kill,
            What.END: self._end,
            What.FREEZE: self._freeze,
            What.REFUSE: self._refuse,
            What.CUT: self._cut,
            What.DELAY: self._delay,
            What.PROMETHEUS_DOWN: self._prometheus_down,
            What.PROMETHEUS_HANGS: self._prometheus_hangs,
            What.PROMETHEUS_EMPTY: self._prometheus_empty,
            What.HOT: self._hot,
            What.DELETE_POD: self._delete_pod,
            What.CRASH: self._crash,
            What.SCALE: self._scale,
            What.OVERRIDE: self._override,
            What.SUSPEND: self._suspend,
            What.EDIT: self._edit,
            What.ALERT: self._alert,
        }
        return doings[deed.what](deed)

    def _kill(self, deed: Deed) -> None:
        replica = self.replicas[deed.whom]
        replica.be_down(deed.lasts, replica.kill)

    def _end(self, deed: Deed) -> None:
        replica = self.replicas[deed.whom]
        replica.be_down(deed.lasts, replica.stop)

    def _freeze(self, deed: Deed) -> Undo | None:
        replica = self.replicas[deed.whom]
        if replica.pid is None:
            return None
        replica.freeze()
        return replica.thaw

    def _refuse(self, deed: Deed) -> Undo:
        faults = self.replicas[deed.whom].proxy.refuse(int(deed.how))

        def answer() -> None:
            for fault in faults:
                fault.left = 0

        return answer

    def _cut(self, deed: Deed) -> Undo:
        proxy = self.replicas[deed.whom].proxy
        proxy.cutting = True
        proxy.cut()

        def mend() -> None:
            proxy.cutting = False

        return mend

    def _delay(self, deed: Deed) -> Undo:
        proxy = self.replicas[deed.whom].proxy
        proxy.delay_seconds = float(deed.how)

        def hurry() -> None:
            proxy.delay_seconds = 0.0

        return hurry

    def _prometheus_down(self, _: Deed) -> Undo:
        self.monitor.stop()
        return self.monitor.start

    def _prometheus_hangs(self, _: Deed) -> Undo:
        self.monitor.hold()
        return self.monitor.release

    def _prometheus_empty(self, _: Deed) -> Undo:
        self.monitor.page = ""

        def remember() -> None:
            self.monitor.page = None

        return remember

    def _hot(self, deed: Deed) -> Undo:
        traffic = self.traffic[deed.whom]
        traffic.phase = HARD

        def cool() -> None:
            traffic.phase = EASY

        return cool

    def _delete_pod(self, deed: Deed) -> None:
        try:
            self.cluster.delete("Pod", self._pod(deed))
        except NotFoundError:  # it is gone already
            raise NotNow from None

    def _crash(self, deed: Deed) -> None:
        try:
            self.cluster.kubelet.kill(self._pod(deed))
        except (AssertionError, OSError):  # it does not run now
            raise NotNow from None

    def _pod(self, deed: Deed) -> str:
        pods = sorted(one["metadata"]["name"] for one in self.cluster.objects("Pod", f"app={deed.whom}"))
        if not pods:
            raise NotNow
        found: str = pods[int(deed.luck * len(pods))]
        return found

    def _scale(self, deed: Deed) -> None:
        self.cluster.patch(KINDS[deed.whom], deed.whom, {"spec": {"replicas": int(deed.how)}})

    def _override(self, deed: Deed) -> Undo:
        self._annotate(deed.whom, json.dumps({"level": deed.how, "by": "alice"}))
        return lambda: self._annotate(deed.whom, None)

    def _annotate(self, policy_name: str, wish: str | None) -> None:
        self.cluster.patch("SpecPolicy", policy_name, {"metadata": {"annotations": {OVERRIDE: wish}}})

    def _suspend(self, deed: Deed) -> Undo:
        self._specify(deed.whom, suspend=True)
        return lambda: self._specify(deed.whom, suspend=False)

    def _edit(self, deed: Deed) -> None:
        self.edit(deed.whom)

    def edit(self, policy_name: str) -> None:
        """Change something in a policy that makes no difference to its target, but a new generation."""
        seconds = self.cluster.get("SpecPolicy", policy_name)["spec"]["guardrails"]["cooldownSeconds"]
        self._specify(policy_name, guardrails={"cooldownSeconds": 3 - seconds})  # 1, 2, 1, 2 ...

    def _specify(self, policy_name: str, **spec: Any) -> None:
        self.cluster.patch("SpecPolicy", policy_name, {"spec": spec})

    def _alert(self, deed: Deed) -> Undo:
        """Tell some operator, as Alertmanager would by a Service: another where it is not there."""
        fingerprint, began = f"{deed.whom}{deed.at:.6f}", time.time()
        fields: dict[str, Any] = {KINDS[deed.whom].lower(): deed.whom, "fingerprint": fingerprint}

        def tell(*, firing: bool) -> None:
            alert = alert_json(
                name=deed.how, firing=firing, starts_at=began, namespace=self.cluster.namespace, **fields
            )
            first = int(deed.luck * len(OPERATORS))
            if not any(self._told(one, message_json(alert)) for one in (*OPERATORS[first:], *OPERATORS[:first])):
                raise NotNow
            known = {one["fingerprint"]: one for one in self._known(deed.whom)}.get(fingerprint)
            if known is None or ("resolvedAt" in known) is firing:
                said = "fires" if firing else "is over"
                self.forgotten.append(f"{deed.whom}: that {deed.how} {said} was answered with 200, and is not known")

        tell(firing=True)
        return lambda: tell(firing=False)

    def _known(self, policy_name: str) -> list[Object]:
        found: list[Object] = (self.cluster.get("SpecPolicy", policy_name).get("status") or {}).get("alerts", [])
        return found

    def _told(self, operator: str, message: bytes) -> bool:
        headers = {"Authorization": f"Bearer {WEBHOOK_TOKEN}", "Content-Type": "application/json"}
        try:
            answer = httpx.post(self.webhooks[operator], content=message, headers=headers, trust_env=False)
        except httpx.HTTPError:
            return False
        return answer.status_code == httpx.codes.OK


def governed(name: str) -> Object:
    """The policy of a target, which is called the same."""
    fields: Object = {
        **LADDER,
        "rules": [LOW, HIGH],
        "alerts": BINDINGS,
        **({"live": TOKEN_REF} if name == LIVE else {}),
    }
    made = policy(name, name, kind=KINDS[name], mode="Enforce", **fields)
    made["spec"]["guardrails"] = {**made["spec"]["guardrails"], "maxChangesPerDay": MANY_CHANGES}
    if name == RESTARTED:
        made["spec"]["signals"] = {**made["spec"]["signals"], "source": PROMETHEUS}
    return made


def _serve_all(cluster: Cluster, folder: Path) -> None:
    """Ready pods of all targets, at k5."""
    for name in (RESTARTED, STATEFUL):
        kind, one = KINDS[name], bound(container(simulation={"SPECLOOP_SIM_CLUSTERING": "0"}))
        more = {"strategy": ONE_MORE} if kind == "Deployment" else {}
        cluster.apply(workload(name, REPLICAS, [one], kind=kind, annotations={ANNOTATION: drafts(5)}, **more))
    serving_live(cluster, folder, replicas=REPLICAS)
    for name in (RESTARTED, STATEFUL):
        cluster.until_rolled_out(name, KINDS[name])


@contextmanager
def scene(cluster: Cluster, folder: Path) -> Iterator[Scene]:
    """Everything runs, and every policy is heard of, for the length of the block."""
    (folder / "webhook-token").write_text(WEBHOOK_TOKEN + "\n")
    with ExitStack() as stack:
        live = folder / "live"
        live.mkdir()
        _serve_all(cluster, live)
        monitor = stack.enter_context(monitored(cluster, f"app={RESTARTED}"))
        traffic = {name: stack.enter_context(cluster.traffic(f"app={name}", EASY)) for name in TARGETS}
        for name in TARGETS:
            cluster.apply(governed(name))
        replicas, webhooks = {}, {}
        for name in OPERATORS:
            port = free_port()
            settings = {
                "sources": {"default": {"type": "pods"}, PROMETHEUS: monitor.source},
                "maxConcurrentRollouts": 2,
                "webhook": {"port": port, "tokenFile": str(folder / "webhook-token")},
            }
            proxy = stack.enter_context(beside(RoughProxy(cluster.control_plane.admin)))
            replicas[name] = stack.enter_context(Replica(cluster, settings, name, proxy))
            webhooks[name] = f"http://127.0.0.1:{port}/alerts"
        for name in TARGETS:
            chat = Followed(cluster, name)
            chat.until(lambda chat=chat: chat.condition("Ready").get("status") == "True", "an operator")  # type: ignore[misc]
        yield Scene(cluster, replicas, webhooks, traffic, monitor)
