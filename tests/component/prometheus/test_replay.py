"""A loop that governs a fleet by what a Prometheus says of it, and a replay of what that Prometheus recorded.

Both read the same real Prometheus, which scrapes two simulated servers; the loop restarts them as it decides.  The
replay must come to the same decisions at the same ticks, and see that they were carried out.
"""

import asyncio
import json
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from specloop_cli.policy_file import load_policy
from specloop_control.clock import WallClock
from specloop_control.process import EngineSpec, Output, ProcessActuator
from specloop_control.prometheus import PrometheusSource
from specloop_control.prometheus_server import Prometheus, PrometheusSettings
from specloop_control.recording import Recording
from specloop_control.tick import Controller
from specloop_engine.configuration import to_config
from specloop_engine.feed import ShownLevels
from specloop_engine.history import History
from specloop_policy.decision import ActionName, Decision, Inputs
from specloop_policy.engine import Engine
from specloop_policy.ladder import Level
from specloop_policy.policy import Policy, resolve
from specloop_policy.rollout import Limits
from specloop_sim.recordings.replay import replay
from tests.component.prometheus.servers import pod, prometheus, traffic
from tests.component.sim.servers import MIDDLEWARE, command, environment, free_port
from tests.support.programs import run

pytestmark = [pytest.mark.slow, pytest.mark.engine, pytest.mark.timeout(240)]

POLICY = """
apiVersion: specloop.dev/v1alpha1
kind: SpecPolicy
metadata: {name: ours}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: llama}
  intervalSeconds: 1
  drafters: [{name: small, method: draft_model, model: small}]
  levels: [{name: k5, drafter: small, tokens: 5}, {name: k2, drafter: small, tokens: 2}, {name: disabled}]
  signals: {windowSeconds: 3, maxEvidenceSeconds: 30, settleSeconds: 2, minRequests: 20}
  rules: [{name: low, when: {acceptance: {belowPercent: 58}}, forSeconds: 3, action: {type: StepDown}}]
  guardrails: {cooldownSeconds: 5, probe: {afterSeconds: 3600}}
"""
"""Chat with a draft model is accepted at 45 % with K=5 and at 64 % with K=2 (.75 at every position, text.py): one step
down within seconds, and then rest."""
LIVE_SECONDS = 45.0
"""Of the loop: a dozen windows, half of them after the change."""


def policy_in(path: Path) -> Policy:
    """The policy in a file; it acts."""
    document = load_policy(str(path))
    return resolve(document.metadata.name, document.spec, enforce=True)


@dataclass
class Told:
    """The decision of every tick, by the tick's time."""

    decisions: dict[float, Decision] = field(default_factory=dict)

    def decided(self, now: float, decision: Decision, before: str | None) -> None:
        """Note a decision."""
        self.decisions[now] = decision

    def changes(self) -> list[tuple[float, Decision]]:
        """The decisions that change the level."""
        return [(now, one) for now, one in self.decisions.items() if one.changes_level]


def spec(name: str, port: int) -> EngineSpec:
    """A simulated server at twenty times real time."""

    def at(level: Level) -> list[str]:
        config = to_config(level, None, Engine.VLLM)
        flags = () if config is None else ("--speculative-config", json.dumps(dict(config)))
        return command(port, (*MIDDLEWARE, *flags))

    return EngineSpec(name, f"http://127.0.0.1:{port}", at, environment({"speed": 20}), Output.NOWHERE)


async def govern(settings: PrometheusSettings, policy: Policy, actuator: ProcessActuator) -> tuple[float, Told]:
    """Run the loop for a while; where it began to look, and what it decided."""
    told, began = Told(), 0.0
    history = History.of(policy.signals)
    with closing(Prometheus(settings)) as server:
        source = PrometheusSource(
            settings, server, history, ShownLevels(policy.ladder), look_seconds=policy.interval_seconds
        )
        controller = Controller(policy, source, actuator, lambda now: Inputs(), told)
        deadline = time.monotonic() + LIVE_SECONDS
        while time.monotonic() < deadline:
            await asyncio.sleep(policy.interval_seconds - time.time() % policy.interval_seconds)
            now = float(round(time.time()))
            began = began or now - settings.lag_seconds
            await source.poll(now)
            assert source.problem is None
            if source.latest:
                await controller.tick(now)
        source.close()
    return began, told


async def run_live(policy: Policy, folder: Path) -> tuple[float, Told, Path]:
    """A governed fleet, and the recording of it, made as a user would."""
    ports = {name: free_port() for name in ("a", "b")}
    specs = [spec(name, port) for name, port in ports.items()]
    async with httpx.AsyncClient() as client:
        actuator = ProcessActuator(
            specs,
            policy.ladder,
            policy.ladder.levels[0],
            client=client,
            clock=WallClock(),
            limits=Limits(drain_seconds=2.0, stop_seconds=10.0, start_seconds=60.0),
            poll_seconds=0.2,
        )
        try:
            await actuator.start()
            with prometheus(folder, [pod(one.url, one.name) for one in specs]) as settings:
                with traffic(*(one.url for one in specs), clients=4, seconds=LIVE_SECONDS + 60.0):
                    began, told = await govern(settings, policy, actuator)
                path = folder / "all.rec"
                await asyncio.to_thread(record, settings, began, max(told.decisions), path)
        finally:
            await actuator.stop()
    return began, told, path


def record(settings: PrometheusSettings, began: float, last: float, path: Path) -> None:
    """What `specloop record` pulls from where the loop began to where it last looked."""
    span = ("--start", f"{began:.3f}", "--end", f"{last - settings.lag_seconds:.3f}")
    where = ("--prometheus", settings.url, "--namespace", "llm", "--lag", f"{settings.lag_seconds:g}")
    code, _, err = run("record", *where, *span, "--out", str(path))
    assert code == 0, err


def test_a_replay_decides_what_the_live_loop_decided(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    policy = policy_in(file)
    _, live, path = asyncio.run(run_live(policy, tmp_path))
    again = Told()
    with Recording.open(path) as recording:
        header = recording.header
        found = replay(
            policy,
            recording.samples(),
            start=header.start,
            end=header.end,
            inputs=lambda now: Inputs(),
            lag_seconds=header.lag_seconds,
            listener=lambda now, decision: again.decided(now, decision, None),
        )
    changes = live.changes()
    assert [(one.action, one.level) for _, one in changes] == [(ActionName.STEP_DOWN, "k2")]
    assert again.changes() == changes  # at the same ticks, with the same words
    assert [one.carried_out for one in found.changes] == [True]
    common = live.decisions.keys() & again.decisions.keys()
    assert {now: live.decisions[now] for now in common} == {now: again.decisions[now] for now in common}
    before, after = ([now for now in common if (now > changes[0][0]) is later] for later in (False, True))
    assert min(len(before), len(after)) >= 5  # the ticks compared are not only a few

    code, out, _ = run("replay", "-p", str(file), str(path), "-o", "json")
    assert code == 0
    (told,) = json.loads(out)["policies"]["ours"]["decisions"]
    assert (told["from"], told["to"], told["action"], told["rule"]) == ("k5", "k2", "StepDown", "low")
    assert told["reason"] == changes[0][1].reason
    assert told["carriedOut"] is True
