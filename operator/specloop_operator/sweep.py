"""Put right what was left: workloads that the operator holds though no policy rolls them out, for it was ended at the
wrong time, or a write did not get through."""

import logging
from collections.abc import Mapping
from typing import Any

from specloop_operator.cluster import ApiError
from specloop_operator.governor import World, take_back
from specloop_operator.remembered import read_status
from specloop_operator.store import target_of
from specloop_operator.workload import Target

LOG = logging.getLogger("specloop.rollouts")

Body = Mapping[str, Any]


async def put_right(world: World) -> None:
    """Let go of every workload that we hold and no policy rolls out; its old template is put back where one is left."""
    for target in list(world.store.targets()):
        if target.held_by_us and not _rolled_out(target, world):
            try:
                await _put_right(target, world)
            except ApiError as error:
                LOG.warning("%s %s/%s is still held: %s", target.kind.name, target.namespace, target.name, error)


def _rolled_out(target: Target, world: World) -> bool:
    """Whether some policy has a roll-out of it under way, and so will go on with it."""
    wanted = (target.kind.name, (target.namespace, target.name))
    return any(target_of(body) == wanted and _under_way(body) for body in world.store.policies())


def _under_way(body: Body) -> bool:
    memory = read_status(body).memory
    return memory is not None and memory.rollout is not None


async def _put_right(target: Target, world: World) -> None:
    back = "the template before was put back" if await take_back(target, world) else "its template stays as it is"
    await world.telling.left_paused(
        target, f"was left held by a roll-out that no policy goes on with: {back}", world.now()
    )
