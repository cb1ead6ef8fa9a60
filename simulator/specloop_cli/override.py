"""`specloop override`: a person sets the level over the heads of the rules, for a time or until it is taken back."""

import time
from collections.abc import Mapping
from typing import Any

from specloop_cli.ages import span_words
from specloop_cli.cluster import Changed, Cluster, Where, connect
from specloop_cli.errors import InputError, one_line
from specloop_cli.live_policy import LivePolicy, find, hindrances
from specloop_cli.output import Format, console, print_document, say
from specloop_cli.status import override_document
from specloop_cli.times import span
from specloop_policy.annotations import OVERRIDE, AnnotationError, read_override, write_override
from specloop_policy.decision import Override

LONGEST_SECONDS = 366 * 86400


def run(target: str, level: str | None, lasting: str | None, where: Where, output: Format, *, clear: bool) -> int:
    """Set or take back the override of a policy."""
    if clear and (level is not None or lasting is not None):
        raise InputError("--clear takes the override back: give no level and no --for with it")
    if not clear and level is None:
        raise InputError(f"name the level, such as specloop override {target} disabled --for 2h, or give --clear")
    seconds = None if lasting is None else _seconds(lasting)
    cluster = connect(where)
    by = cluster.user()
    try:
        answer = _apply(cluster, target, level, seconds, by)
    except Changed:  # by the operator's status, most likely: look again, once
        answer = _apply(cluster, target, level, seconds, by)
    if output is Format.JSON:
        print_document(answer)
    else:
        _show(answer, seconds)
    return 0


def _seconds(lasting: str) -> float:
    seconds = span(f"--for {lasting}", lasting)
    if not 0 < seconds <= LONGEST_SECONDS:
        raise InputError(f"--for {lasting}: give a span above 0 and of at most {LONGEST_SECONDS // 86400}d")
    return seconds


def _apply(cluster: Cluster, target: str, level: str | None, seconds: float | None, by: str) -> Mapping[str, Any]:
    policy, now = find(cluster.policies(), target, cluster.namespace), time.time()
    before = _present(policy)
    wish = None
    if level is not None:
        _check_level(policy, level)
        wish = Override(level, None if seconds is None else round(now + seconds), by)
    if wish is not None or OVERRIDE in policy.metadata.annotations:
        cluster.annotate(policy, OVERRIDE, None if wish is None else write_override(wish))
    return {
        "policy": policy.name,
        "namespace": policy.metadata.namespace,
        "override": wish and override_document(wish, now),
        "before": before and override_document(before, now),
        "observedLevel": policy.status.observed_level,
        "notes": [] if wish is None else _notes(policy, wish.level),
    }


def _present(policy: LivePolicy) -> Override | None:
    """The override that is there; one that cannot be read is replaced like any other."""
    try:
        return read_override(policy.metadata.annotations)
    except AnnotationError:
        return None


def _check_level(policy: LivePolicy, level: str) -> None:
    names = [one.name for one in policy.status.levels]
    if not names:
        raise InputError(f"{policy.name} has no ladder yet, so no level can be checked: has the operator looked at it?")
    if level not in names:
        raise InputError(f"{level} is no level of {policy.name}: give one of {', '.join(names)}")


def _notes(policy: LivePolicy, level: str) -> list[str]:
    failed = [one for one in policy.memory.quarantine if one.level == level]
    refused = "it is not tried again until its configuration, its image or the policy is another"
    words = (f"{level} failed before ({one.reason}){'' if one.rules_only else f': {refused}'}" for one in failed)
    return [*hindrances(policy), *words]


def _show(answer: Mapping[str, Any], seconds: float | None) -> None:
    out, override, before = console(), answer["override"], answer["before"]
    if override is None:
        words = f"the override to {before['level']} is taken back" if before else "there is no override to take back"
    elif seconds is None:
        words = f"level {override['level']} until it is taken back by specloop override {answer['policy']} --clear"
    else:
        words = f"level {override['level']} for {span_words(seconds)}, until {override['until']}"
    say(out, f"{answer['policy']}: {words}")
    for note in answer["notes"]:
        say(out, f"note: {one_line(note)}")
