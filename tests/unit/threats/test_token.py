"""The token of live control: whose Secret is read, to which pods it goes, and where it is never seen."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import httpx
import pytest

from specloop_operator.cluster import Forbidden, NotThere
from specloop_operator.conditions import ConditionReason
from specloop_operator.live import TOKEN_SECONDS, LiveActuator
from specloop_operator.remembered import Remembered
from specloop_operator.sight import Blind, Sight, see
from specloop_operator.status_report import MetricsReport, seen_status
from specloop_operator.store import PODS
from specloop_policy.status import SpecPolicyStatus
from tests.unit.operator_turn.live_scenes import TOKEN, LiveScene
from tests.unit.operator_turn.scenes import PodOf


class Vault:
    """The Secrets of a cluster, as the chart's role lets them be read: `specloop-live` alone; keeps what was asked."""

    def __init__(self, tokens: Mapping[str, str]) -> None:
        """A token by namespace."""
        self.asked: list[tuple[str, str]] = []
        self._tokens = tokens

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes]:
        """As the API server answers."""
        self.asked.append((namespace, name))
        if name != "specloop-live":
            raise Forbidden(f'reading Secret {namespace}/{name}: HTTP 403: secrets "{name}" is forbidden')
        if namespace not in self._tokens:
            raise NotThere(f"reading Secret {namespace}/{name}: HTTP 404")
        return {"token": self._tokens[namespace].encode()}


class Network:
    """Every address answers, and what each was shown is kept."""

    def __init__(self) -> None:
        self.shown: dict[str, set[str]] = {}

    def answer(self, request: httpx.Request) -> httpx.Response:
        """As a pod without the plugin."""
        self.shown.setdefault(request.url.host, set()).add(request.headers["Authorization"])
        return httpx.Response(404)


def look(actuator_of: Vault, network: Network, *sights: Sight, seconds: float = 0.0) -> list[Sight]:
    """One round over each of these, so many seconds apart."""
    return look_at(actuator_of, network, *((one, place * seconds) for place, one in enumerate(sights)))


def look_at(actuator_of: Vault, network: Network, *sights: tuple[Sight, float]) -> list[Sight]:
    """One round over each of these, at its time."""

    async def rounds() -> list[Sight]:
        async with httpx.AsyncClient(transport=httpx.MockTransport(network.answer)) as client:
            actuator = LiveActuator(client, actuator_of)
            return [await actuator.round(one, Remembered(), now) for one, now in sights]

    return asyncio.run(rounds())


def sight(namespace: str = "llm", *, secret: str = "specloop-live", strangers: bool = False) -> Sight:
    """A policy and its target in a namespace; with pods of other labels, or of another namespace, beside its own."""
    scene = LiveScene(live={"tokenSecretRef": {"name": secret}})
    store = scene.objects()
    bodies: list[Any] = [scene.policy(), scene.target()]
    if strangers:
        other, elsewhere = (PodOf(name, scene.level, scene.image, ip=ip).body() for name, ip in STRANGERS.items())
        other["metadata"]["labels"] = {"app": "another"}
        elsewhere["metadata"]["namespace"] = "theirs"
        store.put(PODS, other, scene.now)
        store.put(PODS, elsewhere, scene.now)
    if namespace != "llm":
        moved = type(store)()
        for resource, body in (("specpolicies", bodies[0]), ("deployments", bodies[1])):
            moved.put(resource, {**body, "metadata": {**body["metadata"], "namespace": namespace}}, scene.now)
        for pod in scene.pods:
            body = replace(pod, image=scene.image).body()
            moved.put(PODS, {**body, "metadata": {**body["metadata"], "namespace": namespace}}, scene.now)
        bodies[0] = {**bodies[0], "metadata": {**bodies[0]["metadata"], "namespace": namespace}}
        store = moved
    return see(bodies[0], store, None)


STRANGERS = {"stranger": "10.9.9.1", "llama-3": "10.9.9.2"}


def test_the_token_goes_to_the_targets_pods_and_to_no_others() -> None:
    """Not to a pod of other labels, and not to one of the same labels in another namespace."""
    network = Network()
    look(Vault({"llm": TOKEN}), network, sight(strangers=True))
    assert network.shown == {f"10.0.0.{place}": {f"Bearer {TOKEN}"} for place in (1, 2, 3)}


def test_a_secret_is_read_in_the_policys_own_namespace_and_its_token_kept_for_that_alone() -> None:
    """Two policies that name the same Secret, each in its namespace, within the time for which a token is kept."""
    vault, network = Vault({"llm": "ours", "theirs": "another"}), Network()
    look(vault, network, sight("llm"), sight("theirs"), sight("llm"), seconds=TOKEN_SECONDS / 4.0)
    assert vault.asked == [("llm", "specloop-live"), ("theirs", "specloop-live")]
    assert network.shown["10.0.0.1"] == {"Bearer ours", "Bearer another"}  # the pods of both have these addresses


def test_a_token_is_forgotten_after_its_time_whoever_looks_next() -> None:
    """Its policy may be gone.  Where its clock is set back, it would be found again if it was still kept.

    At 0 s ours is read, at 61 s that of others, at 30 s ours is asked for anew, and kept until 90 s.
    """
    vault, ours, others = Vault({"llm": "ours", "theirs": "another"}), sight("llm"), sight("theirs")
    look_at(vault, Network(), (ours, 0.0), (others, TOKEN_SECONDS + 1.0), (ours, 30.0), (ours, 89.0), (ours, 90.0))
    assert [namespace for namespace, _ in vault.asked] == ["llm", "theirs", "llm", "llm"]


def test_a_token_is_not_kept_longer_for_a_clock_that_is_set_back() -> None:
    """Read at 1,000 s, and asked for anew by the clock that says 0 s."""
    vault = Vault({"llm": TOKEN})
    look_at(vault, Network(), (sight(), 1000.0), (sight(), 0.0), (sight(), 59.0))
    assert len(vault.asked) == 2


def test_a_policy_in_a_namespace_without_the_secret_gets_nobody_elses() -> None:
    """Though another namespace's was read a moment before."""
    vault, network = Vault({"llm": TOKEN}), Network()
    _, found = look(vault, network, sight("llm"), sight("theirs"), seconds=1.0)
    assert found.live is not None
    assert found.live.problem == "there is no Secret specloop-live in namespace theirs"


def test_a_secret_that_the_chart_does_not_name_is_sent_nowhere() -> None:
    """The role refuses it; the policy says which value of the chart would allow it."""
    network = Network()
    [found] = look(Vault({"llm": TOKEN}), network, sight(secret="database"))
    assert network.shown == {}
    assert found.live is not None
    assert "is forbidden; name it in live.tokenSecrets of the chart" in found.live.problem


@pytest.mark.parametrize("name", ["..", "../../secrets/database", "specloop-live/../database", "*", ""])
def test_what_no_secret_can_be_called_is_not_asked_for(name: str) -> None:
    """It could lead elsewhere in the API's paths."""
    with pytest.raises(Blind, match=r"spec\.live\.tokenSecretRef\.name"):
        sight(secret=name)


@pytest.mark.parametrize("kept", ["two\nlines of a key", "ü", "", "\x1b[31m"])
def test_a_secret_that_is_no_token_is_sent_nowhere_and_not_shown(kept: str) -> None:
    """A private key, a file, what no header can hold."""
    network = Network()
    [found] = look(Vault({"llm": kept}), network, sight())
    assert network.shown == {}
    assert found.live is not None
    assert found.live.problem == "key token of Secret specloop-live is not one line of plain letters"


@pytest.mark.parametrize("kept", [TOKEN, "s3cret-of-another"])
def test_the_token_stands_in_no_status(kept: str) -> None:
    """Whether pods take it or expect another: neither in conditions nor in what is remembered."""
    scene = LiveScene()
    scene.secrets.data["specloop-live"]["token"] = kept
    scene.low()
    scene.turn()
    metrics = MetricsReport((ConditionReason.HEARD, "all pods are heard from"))
    status = seen_status(SpecPolicyStatus(), scene.seen, scene.turns[-1], metrics, scene.now)
    said = status.model_dump_json(by_alias=True)
    assert ("it expects another token" in said) == (kept != TOKEN)
    assert kept not in said
