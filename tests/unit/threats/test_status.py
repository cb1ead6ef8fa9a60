"""A status that somebody wrote by hand: whoever may write it can ask for what a policy may ask for, and no more."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specloop_operator.governor import World, put_back
from specloop_operator.remembered import Remembered, read_status, recall, store
from specloop_operator.sight import see
from specloop_operator.slots import Slots
from specloop_operator.turn import Turn, take_turn
from specloop_operator.workload import Target
from specloop_policy.status import Memory
from tests.unit.operator_turn.scenes import ANNOTATION, LOOK_SECONDS, PASSED, SETTINGS, Scene

LADDER = ("k5", "k3", "ngram", "disabled")
EVIL = json.dumps({"method": "draft_model", "model": "evil/model", "num_speculative_tokens": 5})

names = st.sampled_from([*LADDER, "none-of-them", "x" * 63])
texts = st.sampled_from(["", "x" * 4096, "\x1b[31m\n", "schedule night", "override"])
hashes = st.sampled_from(["", "0", "a" * 64])
times = st.sampled_from(
    [
        "2027-01-15T08:00:00Z",
        "0001-01-01T00:00:00Z",
        "1970-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999Z",
        "2027-01-15T22:00:00+14:00",
    ]
)
"""About the scene's own time, the ends of the calendar, and the zone that is furthest ahead."""

rollouts = st.fixed_dictionaries(
    {
        "level": names,
        "backTo": names,
        "kind": st.sampled_from(["Rule", "Probe", "Forced", "Retreat", "Shed"]),
        "key": hashes,
        "rest": hashes,
        "startedAt": times,
        "phase": st.sampled_from(["Starting", "Canary", "Soaking", "Promoting", "RollingBack"]),
        "since": times,
        "written": st.booleans(),
        "reason": texts,
    },
    optional={
        "setting": hashes,
        "live": st.booleans(),
        "canary": st.sampled_from(["llama-0", "nobody"]),
        "ending": st.sampled_from(["Promoted", "Failed", "Lost", "Cancelled", "Undone", "Gone", "Abandoned"]),
        "canaryPods": st.sampled_from([0, 1, 10**9]),
    },
)
ranges = st.fixed_dictionaries({name: st.integers(0, 65536) for name in ("first", "last", "tokens")})
memories = st.fixed_dictionaries(
    {},
    optional={
        "level": names,
        "changedAt": times,
        "raisedAt": times,
        "changes": st.lists(times, max_size=4),
        "holdsSince": st.lists(st.fixed_dictionaries({"rule": names, "since": times}), max_size=3),
        "probe": st.fixed_dictionaries({"level": names, "startedAt": times}),
        "forced": st.fixed_dictionaries({"by": texts}, optional={"backTo": names, "alert": st.booleans()}),
        "trials": st.lists(
            st.fixed_dictionaries({"level": names, "losses": st.sampled_from([0, 1, 10**9, 10**300]), "lostAt": times}),
            max_size=3,
        ),
        "quarantine": st.lists(
            st.fixed_dictionaries({"level": names, "key": texts, "reason": texts}, optional={"until": times}),
            max_size=3,
        ),
        "rollout": rollouts,
        "watch": st.fixed_dictionaries(
            {"level": names, "backTo": names, "key": hashes, "since": times, "until": times}
        ),
        "live": st.fixed_dictionaries({"table": st.lists(ranges, min_size=1, max_size=3), "setting": hashes}),
        "configurations": st.lists(st.sampled_from([EVIL, "{}", "[]", '{"method": 1}', "{", ""]), max_size=4),
        "writtenLevel": names,
        "previousLevel": names,
        "reverted": texts,
        "revertedWish": texts,
        "rolledBackAt": times,
    },
)


def recalled(memory: Mapping[str, Any]) -> Remembered:
    """What an operator remembers that reads this status at its first tick."""
    return recall(read_status({"status": {"memory": memory}}).memory)


def known(setting: str) -> Any:
    """What a setting says, in whatever order; None: off."""
    return json.loads(setting) if setting else None


def said(template: Mapping[str, Any]) -> Any:
    """What a pod template, or a part of one, says."""
    return known(template["metadata"]["annotations"][ANNOTATION])


def taken(scene: Scene) -> Turn:
    """The next turn, and what is remembered of it once it went through the status."""
    scene.now += LOOK_SECONDS
    turn = take_turn(scene.sight(), scene.remembered, replace(scene.measured, verdict=PASSED), scene.now)
    written = store(turn.remembered).model_dump_json(by_alias=True, exclude_none=True)
    scene.remembered = recall(Memory.model_validate_json(written))
    return turn


@given(memories, st.booleans())
@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
def test_no_memory_ends_a_turn_in_an_error(memory: Mapping[str, Any], low: bool) -> None:
    """Three turns, with acceptance that asks for less or without; what comes of each can be stored."""
    scene = Scene(remembered=recalled(memory))
    for _ in range(3):
        if low:
            scene.low()
        taken(scene)


@given(memories, st.booleans())
@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_is_remembered_only_levels_of_the_ladder_are_written(memory: Mapping[str, Any], low: bool) -> None:
    """The governor writes what the ladder knows by the name that is rolled out, and nothing for any other name."""
    scene = Scene(remembered=recalled(memory))
    if low:
        scene.low()
    rollout, sight = taken(scene).rollout, scene.sight()
    level = None if rollout is None else sight.policy.ladder.find(rollout.level)
    if level is not None:
        assert said(sight.binding.patch(level)) == known(SETTINGS[level.name])


class Revisions:
    """A cluster that has one revision of the target, at ngram, and keeps what is applied to it."""

    def __init__(self, scene: Scene) -> None:
        self.applied: list[Mapping[str, Any]] = []
        self._template = {**scene.target()["spec"]["template"]}
        self._template["metadata"] = {**self._template["metadata"], "annotations": {ANNOTATION: SETTINGS["ngram"]}}

    async def old_templates(self, target: Target) -> list[Mapping[str, Any]]:
        """That revision."""
        return [self._template]

    async def apply(self, target: Target, application: Mapping[str, Any]) -> Mapping[str, Any]:
        """Keep it."""
        self.applied.append(application)
        return target.body


@given(rollouts)
@settings(max_examples=50)
def test_a_way_back_leads_to_a_level_or_a_revision_of_the_target(rollout: Mapping[str, Any]) -> None:
    """Whatever level the memory wants to be back at: a setting that the target had, has, or that the policy names."""
    scene = Scene()
    remembered, cluster = recalled({"rollout": rollout}).rollout, Revisions(scene)
    if remembered is None:
        return
    world = World(scene.objects(), cluster, {}, Slots(1), None, None, lambda: scene.now)  # type: ignore[arg-type]
    asyncio.run(put_back(scene.sight(), remembered, world))
    [applied] = cluster.applied
    written = applied["spec"].get("template", {})
    assert ANNOTATION not in json.dumps(written) or said(written) in map(known, SETTINGS.values())


def test_a_configuration_that_was_put_in_by_hand_lends_its_keys_to_its_own_drafter_alone() -> None:
    """Written is the drafter that the policy names; a model that only the status names is written nowhere."""
    sight = see(Scene().policy(), Scene().objects(), None, (EVIL,))
    for level in sight.policy.ladder.levels:
        assert "evil" not in json.dumps(sight.binding.patch(level))


def test_a_status_that_cannot_be_read_is_begun_anew() -> None:
    """As at the first visit, so that nobody can keep a policy from being governed by a status of nonsense."""
    wrong: list[Any] = [{"memory": 1}, {"memory": {"level": "../.."}}, {"conditions": "x"}, {"levels": [{}]}, "x"]
    for nonsense in wrong:
        assert recall(read_status({"status": nonsense}).memory) == recall(None)
