"""`specloop rollback`: asks the operator to put back what was there before the last change, and to leave it so."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from specloop_cli.cluster import Changed, Cluster, Where, connect
from specloop_cli.errors import InputError, one_line
from specloop_cli.live_policy import LivePolicy, find, hindrances
from specloop_cli.output import Format, console, print_document, say
from specloop_cli.status import rollback_document
from specloop_cli.status_text import rollout_words
from specloop_policy.annotations import ROLLBACK, Rollback, write_rollback
from specloop_policy.decision import ActionName

POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Plan:
    """What the operator will make of the wish, as far as the status tells."""

    present: str | None
    back_to: str | None
    """None where the status no longer has the change; the operator may still know."""
    ends_rollout: bool

    def done(self, policy: LivePolicy, wish: Rollback) -> bool:
        """Whether the operator has taken up the wish, and the policy has come to rest there."""
        memory, observed = policy.memory, policy.status.observed_level
        taken_up = memory.rolled_back_at is not None and memory.rolled_back_at.timestamp() >= wish.at
        arrived = observed == self.back_to if self.back_to is not None else observed != self.present
        return taken_up and arrived and observed == policy.status.desired_level and memory.rollout is None


def run(target: str, wait: float | None, where: Where, output: Format) -> int:
    """Ask for the way back; with `wait` (seconds) 1 when the status has not followed by then."""
    cluster = connect(where)
    by = cluster.user()
    try:
        policy, plan, wish = _ask(cluster, target, by)
    except Changed:  # by the operator's status, most likely: look again, once
        policy, plan, wish = _ask(cluster, target, by)
    notes = hindrances(policy)
    if output is Format.TEXT:
        out = console()
        say(out, f"{policy.name}: asked the operator to {words(plan)}")
        say(out, f"{plan.present or 'that configuration'} will not be tried again until it or its image changes")
        for note in notes:
            say(out, f"note: {one_line(note)}")
    followed = None if wait is None else _follow(cluster, policy.name, plan, wish, wait)
    if output is Format.JSON:
        print_document(_document(policy, plan, wish, followed, notes))
    elif followed:
        say(console(), f"{policy.name}: done")
    elif followed is not None:
        say(console(), f"{policy.name}: not there after {wait:g} s; see specloop status {policy.name}")
    return 1 if followed is False else 0


def plan(policy: LivePolicy) -> Plan:
    """What going back means for a policy; InputError where there is no way back."""
    memory, status = policy.memory, policy.status
    if memory.rollout is not None:
        return Plan(memory.rollout.level, memory.rollout.back_to, ends_rollout=True)
    if memory.watch is not None:
        return Plan(memory.watch.level, memory.watch.back_to, ends_rollout=False)
    present = status.desired_level or status.observed_level
    for one in reversed(status.decisions):
        if one.action is not ActionName.PROBE and one.to_level == present and one.from_level not in (None, present):
            return Plan(present, one.from_level, ends_rollout=False)
    if memory.changed_at is None:
        raise InputError(f"{policy.name}: nothing to roll back: its level has not changed")
    return Plan(present, None, ends_rollout=False)


def words(plan: Plan) -> str:
    """What will be done."""
    back = f"go back to {plan.back_to}" if plan.back_to else "go back to the level before the last change"
    if plan.ends_rollout:
        return f"end the roll-out to {plan.present or 'another level'} and {back}"
    return f"{back} from {plan.present or 'the present level'}"


def _ask(cluster: Cluster, target: str, by: str) -> tuple[LivePolicy, Plan, Rollback]:
    policy = find(cluster.policies(), target, cluster.namespace)
    found, wish = plan(policy), Rollback(round(time.time(), 6), by)
    return cluster.annotate(policy, ROLLBACK, write_rollback(wish)), found, wish


def _follow(cluster: Cluster, name: str, plan: Plan, wish: Rollback, seconds: float) -> bool:
    """Look until the status is there, and say on stderr what it shows on the way."""
    progress, shown = console(stderr=True), ""
    for policy in _looks(cluster, name, seconds):
        if plan.done(policy, wish):
            return True
        state = _state(policy)
        if state != shown:
            say(progress, f"{name}: {one_line(state)}")
            shown = state
    return False


def _looks(cluster: Cluster, name: str, seconds: float) -> Iterator[LivePolicy]:
    deadline = time.monotonic() + seconds
    while True:
        yield cluster.policy(name)
        left = deadline - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(POLL_SECONDS, left))


def _state(policy: LivePolicy) -> str:
    level = f"at {policy.status.observed_level or '?'}, to be at {policy.status.desired_level or '?'}"
    rollout = policy.memory.rollout
    if rollout is None:
        return level
    return f"{level}; roll-out: {rollout_words(rollout.model_dump(mode='json', by_alias=True), time.time())}"


def _document(
    policy: LivePolicy, plan: Plan, wish: Rollback, followed: bool | None, notes: list[str]
) -> Mapping[str, Any]:
    return {
        "policy": policy.name,
        "namespace": policy.metadata.namespace,
        "rollback": rollback_document(wish),
        "from": plan.present,
        "to": plan.back_to,
        "endsRollout": plan.ends_rollout,
        "followed": followed,
        "notes": notes,
    }
