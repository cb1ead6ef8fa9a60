"""`specloop status`: what the operator makes of the policies in a cluster, and what it did."""

import json
import time
from collections.abc import Mapping
from typing import Any

from specloop_cli.cluster import Where, connect
from specloop_cli.errors import InputError
from specloop_cli.live_policy import LivePolicy, find, suspended_by
from specloop_cli.output import Format, print_document
from specloop_policy.annotations import AnnotationError, Rollback, read_override, read_rollback, write_rollback
from specloop_policy.decision import Override
from specloop_policy.times import rfc3339

SHOWN_MEMORY = ("rollout", "watch", "probe", "forced", "owed", "quarantine", "reverted")
"""The rest of the operator's memory is of use to the operator alone."""


def run(target: str | None, where: Where, output: Format, *, everywhere: bool = False) -> int:
    """Show one policy or all; 1 when one of them is not ready."""
    if target is not None and everywhere:
        raise InputError("one policy is in one namespace: give --namespace, not --all-namespaces")
    cluster = connect(where)
    policies = cluster.policies(everywhere=everywhere)
    if target is not None:
        policies = (find(policies, target, cluster.namespace),)
    now = time.time()
    answer = [report(policy, now) for policy in policies]
    if output is Format.JSON:
        print_document({"policies": answer})
    else:
        from specloop_cli import status_text

        if target is not None:
            status_text.show(answer[0], now)
        else:
            status_text.show_all(answer, now, None if everywhere else cluster.namespace)
    return 1 if any(one["ready"] == "False" for one in answer) else 0


def report(policy: LivePolicy, now: float) -> Mapping[str, Any]:
    """One policy as the document has it; what is not known is null."""
    status = policy.status.model_dump(mode="json", by_alias=True, exclude={"memory"})
    memory = policy.memory.model_dump(mode="json", by_alias=True)
    ready = policy.condition("Ready")
    by = suspended_by(policy)
    wishes, problems = _wishes(policy, now)
    return {
        "policy": policy.name,
        "namespace": policy.metadata.namespace,
        "target": policy.spec.target_ref.model_dump(by_alias=True),
        "mode": policy.spec.mode,
        "ready": str(ready.status) if ready is not None else "Unknown",
        "suspended": bool(by),
        "suspendedBy": by,
        "generation": policy.metadata.generation,
        **status,
        **{key: memory[key] for key in SHOWN_MEMORY},
        **wishes,
        "problems": problems,
    }


def override_document(override: Override, now: float) -> Mapping[str, Any]:
    """An override as documents have it."""
    until = override.until
    return {
        "level": override.level,
        "until": None if until is None else rfc3339(until),
        "by": override.by,
        "expired": until is not None and until <= now,
    }


def rollback_document(rollback: Rollback) -> Mapping[str, Any]:
    """A wish to go back as documents have it: to the microsecond, for its time tells it from others."""
    document: Mapping[str, Any] = json.loads(write_rollback(rollback))
    return document


def _wishes(policy: LivePolicy, now: float) -> tuple[Mapping[str, Any], list[str]]:
    """What people ask for by annotations, and what is wrong with those that cannot be read."""
    annotations, wishes, problems = policy.metadata.annotations, dict[str, Any](override=None, rollback=None), []
    try:
        override = read_override(annotations)
        wishes["override"] = override and override_document(override, now)
    except AnnotationError as error:
        problems.append(str(error))
    try:
        rollback = read_rollback(annotations)
        wishes["rollback"] = rollback and rollback_document(rollback)
    except AnnotationError as error:
        problems.append(str(error))
    return wishes, problems
