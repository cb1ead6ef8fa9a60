"""Live control in a cluster: which levels running pods can be brought to, and how each pod stands.

    what is remembered -> the level that each pod is to have -> one round of asking -> the sight, with pods as they are

A round is made at every tick, and asks only where a pod differs: a pod that has restarted or joined, or missed a
round, is brought in line by the next.  In mode Recommend, and while the policy is suspended, it only looks.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby
from typing import Protocol

import httpx

from specloop_control.credentials import is_plain
from specloop_control.live import LiveControl, PodStanding, Standing, level_table
from specloop_engine.speculation import BatchTable, startup_profile
from specloop_operator.cluster import ApiError, Forbidden, NotThere
from specloop_operator.live_asks import as_started, asked_level, asks_now, held_at, holds_now
from specloop_operator.pods import Pod, host
from specloop_operator.remembered import Remembered
from specloop_operator.sight import Live, Sight, enforces
from specloop_policy.decision import FailedChange
from specloop_policy.engine import Engine
from specloop_policy.ladder import Level
from specloop_policy.model import ActuatorType, SecretKeyRef

TOKEN_SECONDS = 60.0
"""How long a token is kept: as long as a kubelet may take to bring a changed Secret to the pods that mount it."""


class Secrets(Protocol):
    """The part of the API server that has tokens."""

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes]:
        """What a Secret holds, by its keys; raises ApiError."""


class LiveActuator:
    """Asks the pods of all policies."""

    def __init__(self, client: httpx.AsyncClient, secrets: Secrets) -> None:
        self._client = client
        self._secrets = secrets
        self._tokens: dict[tuple[str, str, str], tuple[float, str]] = {}

    async def round(self, sight: Sight, remembered: Remembered, now: float) -> Sight:
        """Bring pods to what is remembered, where that may be asked for; the sight with what came of it."""
        if not _is_wanted(sight):
            holds = asks_now(sight, remembered) is not None or holds_now(sight, remembered) is not None
            return _with_live(sight, remembered, "the policy asks for none any more") if holds else sight
        problem, passing = _problem(sight), False
        if not problem:
            try:
                control = LiveControl(self._client, {"Authorization": f"Bearer {await self._token(sight, now)}"})
                sight = await _asked(sight, remembered, control)
                problem, passing = _refused(sight)
            except TokenError as error:
                problem, passing = str(error), error.passing
        return _with_live(sight, remembered, problem, passing=passing)

    async def _token(self, sight: Sight, now: float) -> str:
        """The token in the policy's Secret; raises TokenError."""
        ref, namespace = _token_of(sight), sight.target.namespace
        assert ref is not None  # else there is a problem before
        place = (namespace, ref.name, ref.key)
        # A clock that was set back keeps none; all that are too old go, those of policies that are gone too.
        self._tokens = {of: kept for of, kept in self._tokens.items() if 0.0 <= now - kept[0] < TOKEN_SECONDS}
        if place in self._tokens:
            return self._tokens[place][1]
        try:
            data = await self._secrets.secret(namespace, ref.name)
        except NotThere:
            raise TokenError(f"there is no Secret {ref.name} in namespace {namespace}") from None
        except Forbidden as error:
            raise TokenError(f"{error}; name it in live.tokenSecrets of the chart") from error
        except ApiError as error:
            raise TokenError(str(error), passing=True) from error
        try:
            token = data[ref.key].decode().strip()
        except (KeyError, UnicodeDecodeError):
            token = ""
        if not is_plain(token):
            raise TokenError(f"key {ref.key} of Secret {ref.name} is not one line of plain letters")
        self._tokens[place] = now, token
        return token


class TokenError(ValueError):
    """There is no token to show, and why; `passing` where the next look may find one."""

    def __init__(self, message: str, *, passing: bool = False) -> None:
        self.passing = passing
        super().__init__(message)


def _is_wanted(sight: Sight) -> bool:
    """Whether the policy asks for live control."""
    actuator = sight.spec.rollout.actuator
    return actuator is ActuatorType.LIVE or (actuator is ActuatorType.AUTO and _token_of(sight) is not None)


def _problem(sight: Sight) -> str:
    """Why live control is not possible, as far as it shows without asking; "" where nothing speaks against it."""
    speculation = sight.binding.line.speculation
    if _token_of(sight) is None:
        return "the policy names no live.tokenSecretRef"
    if sight.binding.line.engine is not Engine.VLLM:
        return "only vLLM can be changed live"
    if speculation is None:
        return "the target was started without speculation"
    if not speculation.table:
        return "the target was started without num_speculative_tokens_per_batch_size: see specloop inject"
    return ""


def _token_of(sight: Sight) -> SecretKeyRef | None:
    return None if sight.spec.live is None else sight.spec.live.token_secret_ref


async def _asked(sight: Sight, remembered: Remembered, control: LiveControl) -> Sight:
    """One round over the pods that serve, each to its own table."""
    wanted = {pod.name: table for pod in sight.pods if (table := _wanted(sight, remembered, pod)) is not None}
    urls = {pod.name: _url(pod) for pod in sight.pods if pod.name in wanted}
    rollout, found = remembered.rollout, dict[str, PodStanding]()
    goes_back = rollout is not None and rollout.live and rollout.goes_back
    ask = goes_back or (enforces(sight) and not sight.suspended)
    for table, names in groupby(sorted(wanted, key=lambda name: wanted[name]), key=lambda name: wanted[name]):
        found |= await control.bring({name: urls[name] for name in names}, table, ask=ask)
    return replace(sight, pods=tuple(_standing(sight, pod, found.get(pod.name), wanted) for pod in sight.pods))


def _wanted(sight: Sight, remembered: Remembered, pod: Pod) -> BatchTable | None:
    """What a pod is to have; None for one that is not asked."""
    if not pod.serving or pod.ip is None:
        return None
    rollout = asks_now(sight, remembered)
    level = sight.policy.ladder.find(rollout.level) if rollout is not None else None
    if level is not None and asked_level(pod, rollout):
        return level_table(level)
    if remembered.live is not None and pod.setting == remembered.live.setting:
        return remembered.live.table
    return as_started(sight) if pod.setting == sight.binding.setting else None


def _url(pod: Pod) -> str:
    assert pod.ip is not None  # else it is not asked
    return f"http://{host(pod.ip)}:{pod.port}"


def _standing(sight: Sight, pod: Pod, found: PodStanding | None, wanted: Mapping[str, BatchTable]) -> Pod:
    """A pod with its standing, at the level that is in force in it."""
    if found is None:
        return pod
    if found.standing in (Standing.REFUSED, Standing.UNREACHABLE) or found.tokens is None:
        return replace(pod, standing=found)
    level = _in_force(sight, found, wanted[pod.name])
    return replace(pod, standing=found, level=None if level is None else level.name)


def _in_force(sight: Sight, found: PodStanding, wanted: BatchTable) -> Level | None:
    """The level that a pod is at, by what it was asked for, else by its largest K."""
    profile = startup_profile(sight.binding.line.speculation)
    assert profile is not None  # it has a table
    if found.standing is Standing.APPLIED and wanted == as_started(sight):
        return sight.template_level
    reached = [level for level in sight.policy.ladder.levels if profile.reaches(level)]
    exact = [level for level in reached if found.standing is Standing.APPLIED and level_table(level) == wanted]
    return next((level for level in (*exact, *reached) if level.tokens == found.tokens), None)


def _refused(sight: Sight) -> tuple[str, bool]:
    """Why pods cannot be controlled, "" where they can; and whether that may pass."""
    standings = {pod.name: pod.standing for pod in sight.pods if pod.standing is not None}
    if not standings:
        return "no pod serves", True
    refused = [name for name, one in standings.items() if one.standing is Standing.REFUSED]
    silent = [name for name, one in standings.items() if one.standing is Standing.UNREACHABLE]
    worst = refused or (silent if len(silent) == len(standings) else [])
    return (f"{worst[0]}: {standings[worst[0]].reason}" if worst else ""), not refused


def _with_live(sight: Sight, remembered: Remembered, problem: str, *, passing: bool = False) -> Sight:
    """The sight with what can be reached, and what pods are held at."""
    profile, ladder = startup_profile(sight.binding.line.speculation), sight.policy.ladder
    known = profile is not None and (not problem or passing)
    reach = [one.name for one in ladder.levels if known and profile is not None and profile.reaches(one)]
    rollout, hold = asks_now(sight, remembered), holds_now(sight, remembered)
    holds, level = False, None
    if rollout is not None:
        holds, level = True, ladder.find(rollout.level)
    elif hold is not None:
        holds, level = True, held_at(sight, hold)
    seen = replace(sight, live=Live(problem, frozenset(reach), holds, level))
    refused = [] if remembered.rollout is not None else _out_of_reach(seen)
    keys = {name: key for name, key in sight.keys.items() if name not in {one.level for one in refused}}
    return replace(seen, keys=keys, refused=(*sight.refused, *refused))


def _out_of_reach(sight: Sight) -> list[FailedChange]:
    """Levels that cannot be gone to for the way that pods are held."""
    live, running, levels = sight.live, sight.level, sight.policy.ladder.levels
    assert live is not None
    if sight.spec.rollout.actuator is ActuatorType.LIVE:
        words = f"{live.problem or 'it takes a restart'}, and the policy's actuator is Live"
        away = [one for one in levels if one.name not in live.reach and one != running]
        return [FailedChange(one.name, "", words, untried=True) for one in away]
    template = sight.template_level
    if live.problem and not live.reach and template is not None and template != running:
        words = f"pods are held live at another level, and live control is not possible any more: {live.problem}"
        return [FailedChange(template.name, "", words, untried=True)]
    return []
