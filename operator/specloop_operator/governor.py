"""One policy from tick to tick: look, measure, take a turn, tell, act.  Everything it knows is decided elsewhere."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from specloop_operator.binding import Binding, BindingError, bind
from specloop_operator.cluster import ApiError, Cluster, Conflict
from specloop_operator.conditions import ConditionReason
from specloop_operator.live import LiveActuator
from specloop_operator.meter import Meter
from specloop_operator.remembered import Remembered, read_status, recall
from specloop_operator.sight import Blind, Eye, Sight, find_target, see
from specloop_operator.slots import Slots
from specloop_operator.sources import Collected, MetricSource, PodAddress
from specloop_operator.status_report import MetricsReport, blind_status, seen_status
from specloop_operator.store import POLICIES, Name, Store
from specloop_operator.telling import Telling
from specloop_operator.turn import Turn, level_of, new_generation, take_turn
from specloop_operator.workload import Target
from specloop_policy.alerts import in_force
from specloop_policy.canary import Ending, Kind, Phase, Rollout, Step
from specloop_policy.decision import FailedChange
from specloop_policy.engine import Engine
from specloop_policy.evidence import Evidence, gather
from specloop_policy.ladder import Ladder, derive_ladder
from specloop_policy.observation import Window
from specloop_policy.status import SpecPolicyStatus, to_ladder

HURRY_SECONDS = 5.0
"""How long after each phase of a live roll-out began: twice as long as a pod may take to answer."""

OF_ANOTHER = (ConditionReason.TARGET_NOT_FOUND, ConditionReason.OLDER_POLICY)
"""Reasons for which the target is nobody's, or another policy's: its pods are asked for nothing any more."""

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class World:
    """What all policies share."""

    store: Store
    cluster: Cluster
    sources: Mapping[str, MetricSource]
    slots: Slots
    telling: Telling
    live: LiveActuator
    now: Callable[[], float]


class Governor:
    """One policy; what it remembers is in the policy's status too, but for what the metrics said."""

    def __init__(self, name: Name, world: World) -> None:
        self.name = name
        self._world = world
        self._eye = Eye()
        self._remembered: Remembered | None = None
        self._generation = 0
        self._meter: Meter | None = None
        self._attempt: tuple[float, Phase, str] | None = None
        """The roll-out and phase of the last write, and why it was refused; "" where it was not."""
        self._written: tuple[str, SpecPolicyStatus] | None = None
        """The policy's version after its status was last written, and what was written."""

    @property
    def rolling_out(self) -> bool:
        """Whether a roll-out is under way."""
        return self._remembered is not None and self._remembered.rollout is not None

    @property
    def hurries(self) -> bool:
        """Whether the next look is worth taking soon: pods that are asked live answer at once, and send no event."""
        rollout = self._remembered.rollout if self._remembered is not None else None
        if rollout is None or not rollout.live or rollout.soaking:
            return False
        return self._world.now() < rollout.since + HURRY_SECONDS

    async def tick(self) -> None:
        """Look once, and do the one thing that follows; after an ApiError the next tick goes on."""
        body, now = self._world.store.policy(self.name), self._world.now()
        if body is None:
            return
        status = read_status(body)
        remembered = self._recalled(body, status)
        try:
            sight = self._eye.see(body, self._world.store, _derived(body, status), remembered.configurations)
        except Blind as blind:
            await self._report_blind(body, status, blind, remembered, now)
            return
        alerts = in_force(status.alerts, sight.spec.alerts, now)
        sight = await self._world.live.round(replace(sight, alerts=alerts) if alerts else sight, remembered, now)
        collected = await self._measure(sight, remembered, now)
        turn = self._turn(sight, remembered, now)
        await self._tell(body, status, sight, turn, collected, now)
        await self._act(sight, turn)

    def _recalled(self, body: Body, status: SpecPolicyStatus) -> Remembered:
        """What is remembered; from the status at the first tick, with what failed forgotten in a new generation."""
        remembered = self._remembered
        if remembered is None:
            remembered = recall(status.memory)
            self._generation = status.observed_generation or 0
            if self._meter is None and remembered.rollout is not None and remembered.rollout.soaking:
                # What was measured is lost: the soak begins anew, so that a restart of the operator only delays.
                rollout = replace(remembered.rollout, since=self._world.now())
                remembered = replace(remembered, rollout=rollout)
        generation = int(body["metadata"].get("generation") or 0)
        if generation != self._generation and self._generation:
            remembered = new_generation(remembered)
        self._generation = generation
        self._remembered = remembered
        return remembered

    async def _measure(self, sight: Sight, remembered: Remembered, now: float) -> Collected:
        """Samples since the last tick."""
        if self._meter is None or not self._meter.fits(sight.spec.signals):
            self._meter = Meter(sight.spec.signals)
        source = self._world.sources.get(sight.spec.signals.source)
        if source is None:
            known = ", ".join(self._world.sources)
            problem = f"no source is called {sight.spec.signals.source}; the operator's configuration has {known}"
            return Collected((), None, problem)
        pods = [PodAddress(sight.target.namespace, pod.name, pod.ip, pod.port) for pod in sight.pods if pod.serving]
        reader = "/".join(self.name)
        collected = await source.collect(reader, pods, now, float(sight.spec.interval_seconds))
        if collected.until is not None:
            self._meter.look(sight, remembered.rollout, remembered.watch, collected.samples, collected.until, now)
        return collected

    def _turn(self, sight: Sight, remembered: Remembered, now: float) -> Turn:
        assert self._meter is not None
        rollout = remembered.rollout
        measured = replace(
            self._meter.measured(sight, rollout),
            slot_free=self._world.slots.free(self.name),
            attempt=None if rollout is None else self._attempted(rollout),
        )
        turn = take_turn(sight, remembered, measured, now)
        under_way = turn.remembered.rollout
        self._world.slots.note(self.name, under_way=under_way is not None and not self._stuck(sight, under_way, now))
        return turn

    async def _tell(
        self, body: Body, before: SpecPolicyStatus, sight: Sight, turn: Turn, collected: Collected, now: float
    ) -> None:
        """Write the status, and say what is new once that is done."""
        assert self._meter is not None
        windows = self._meter.windows()
        evidence = _evidence(sight, turn, windows, now)
        report = MetricsReport(_metrics_row(sight, self._world, collected, self._meter), evidence, collected.query)
        status = seen_status(before, sight, turn, report, now)
        await self._write(body, before, status)
        self._remembered = turn.remembered
        telling = self._world.telling
        telling.windows(body, windows)
        await telling.conditions(body, before, status, now)
        await telling.expired(body, before, status, now)
        await telling.turn(body, before, sight, turn, status, now)

    async def _report_blind(
        self, body: Body, before: SpecPolicyStatus, blind: Blind, remembered: Remembered, now: float
    ) -> None:
        """Say what is missing; a roll-out that can be followed no more goes back first, and then is forgotten.

        Should the policy be readable again in between, its way back goes on as any other.
        """
        rollout, ours = remembered.rollout, blind.reason not in OF_ANOTHER
        self._world.slots.note(self.name, under_way=False)
        begins = ours and rollout is not None and rollout.kind is not Kind.RETREAT and not rollout.goes_back
        if begins and rollout is not None:
            going_back = replace(rollout, phase=Phase.ROLLING_BACK, since=now, ending=Ending.CANCELLED)
            remembered = replace(remembered, rollout=replace(going_back, reason=blind.message))
        elif rollout is not None and not (rollout.live and ours):
            if rollout.kind is not Kind.RETREAT:
                await give_up(body, rollout, self._world, blind.message)
            remembered = _forgotten(remembered, rollout, went_back=_went_back(body, rollout, self._world))
        status = blind_status(before, blind, remembered, int(body["metadata"].get("generation") or 0), now)
        await self._write(body, before, status)
        self._remembered = remembered
        self._world.telling.blind(body, gave_up=rollout is not None and remembered.rollout is None)
        await self._world.telling.conditions(body, before, status, now)
        await self._world.telling.expired(body, before, status, now)
        if begins and rollout is not None:
            await give_up(body, rollout, self._world, blind.message)

    async def _write(self, body: Body, before: SpecPolicyStatus, status: SpecPolicyStatus) -> None:
        # An older definition drops what it does not know: to write it again would bring no more.
        if status == before or self._written == (body["metadata"]["resourceVersion"], status):
            return
        written = status.model_dump(mode="json", by_alias=True, exclude_none=True)
        try:
            answer = await self._world.cluster.write_status(body, written)
        except ApiError:
            self._remembered = None  # it may have been written all the same: whatever the status says next counts
            raise
        self._world.store.put(POLICIES, answer, self._world.now())
        self._written = answer["metadata"]["resourceVersion"], status

    async def _act(self, sight: Sight, turn: Turn) -> None:
        """Take the step; the template is always said as it is to be, or it would be given up."""
        rollout = turn.rollout
        if rollout is None or (turn.step is Step.WAIT and turn.ended is None):
            return
        if rollout.live:
            await self._world.live.round(sight, turn.remembered, self._world.now())
            return
        if turn.step not in (Step.WRITE, Step.PUT_BACK):
            await self._step(sight, turn.step, rollout)
            return
        try:
            written = await self._step(sight, turn.step, rollout)
        except Conflict:
            raise  # somebody else wrote in between: the next look has what they wrote
        except ApiError as error:
            self._attempt = rollout.started_at, rollout.phase, str(error)
            raise
        refused = bool(self._attempted(rollout))
        self._attempt = rollout.started_at, rollout.phase, ""
        if refused and turn.step is Step.PUT_BACK and turn.ended is None:
            # Its deadline is for pods, and begins with what they are made of.
            self._remembered = replace(turn.remembered, rollout=replace(rollout, since=self._world.now()))
        if written and turn.step is Step.WRITE and turn.ended is None:
            # Should it be gone by the next look, somebody has undone it.
            self._remembered = replace(turn.remembered, rollout=replace(rollout, written=True))

    def _stuck(self, sight: Sight, rollout: Rollout, now: float) -> bool:
        """Whether its way back is refused for longer than it may take: tried on, it keeps nobody else waiting."""
        overdue = now - rollout.since >= sight.limits.progress_deadline_seconds
        return rollout.goes_back and overdue and bool(self._attempted(rollout))

    def _attempted(self, rollout: Rollout) -> str | None:
        """What came of the last write in a roll-out's phase; None before the first."""
        if self._attempt is None or self._attempt[:2] != (rollout.started_at, rollout.phase):
            return None
        return self._attempt[2]

    async def _step(self, sight: Sight, step: Step, rollout: Rollout) -> bool:
        """Change the workload; raises ApiError.  False where there is nothing to change it to."""
        target, binding = sight.target, sight.binding
        level = level_of(sight, rollout)
        match step:
            case Step.WRITE if level is not None:
                hold = target.kind.holds_first and rollout.phase is not Phase.PROMOTING
                await self._apply(target, binding.patch(level), hold=hold)
            case Step.HOLD:
                await self._apply(target, target.ours(target.template), hold=True)
            case Step.RELEASE:
                await self._apply(target, target.ours(target.template))
            case Step.LET_GO if target.held_by_us:
                await self._apply(target, target.ours(target.template))
            case Step.PUT_BACK:
                await put_back(sight, rollout, self._world)
            case Step.CLEAR:
                left_behind = rollout.goes_back  # the new pods; a retreat leaves the old ones
                for pod in sight.pods:
                    stuck = pod.ready_since is None and not pod.leaving
                    if stuck and pod.is_new(rollout) is left_behind:
                        await self._world.cluster.delete_pod(target.namespace, pod.name, pod.uid)
            case _:
                return False
        return True

    async def _apply(self, target: Target, template: Body, *, hold: bool = False) -> None:
        await apply(target, template, self._world, hold=hold)


def _forgotten(remembered: Remembered, rollout: Rollout, *, went_back: bool) -> Remembered:
    """The memory where a roll-out is forgotten that nobody can follow: that it failed, and what is owed, stay."""
    state = remembered.state
    if rollout.kind is Kind.SHED and rollout.ending is Ending.FAILED:
        remembered = replace(remembered, shed_failed=rollout.key)
    elif rollout.ending is Ending.FAILED:
        failed = FailedChange(rollout.level, rollout.key, rollout.reason)
        state = replace(state, quarantine=(*(one for one in state.quarantine if one.level != failed.level), failed))
    if rollout.kind is Kind.FORCED and went_back:
        owed = state.owed if state.forced is not None else rollout.level
        state = replace(state, level=rollout.back_to, owed=owed)
    return replace(remembered, state=state, rollout=None, canary_pods=None, written_level=None)


async def apply(target: Target, template: Body, world: World, *, hold: bool = False) -> None:
    """Apply part of a template, and keep what the workload is afterwards."""
    answer = await world.cluster.apply(target, target.application(dict(template), hold=hold))
    world.store.put(target.kind.plural, answer, world.now())


async def put_back(sight: Sight, rollout: Rollout, world: World) -> None:
    """Put the old setting back and let go: word for word as it was, so that the old pods stay as they are.

    Where the rest of the template was changed meanwhile, all pods are new anyway, and only the level goes back.
    """
    binding, back_to = sight.binding, sight.policy.ladder.find(rollout.back_to)
    old = None
    if sight.rest == rollout.rest:
        templates = await world.cluster.old_templates(sight.target)
        old = _old_binding(templates, sight, rollout)
    if old is not None:
        await apply(sight.target, binding.restored(old), world)
    elif back_to is not None:
        await apply(sight.target, binding.patch(back_to), world)
    else:
        await apply(sight.target, sight.target.ours(sight.target.template), world)


def _old_binding(templates: Sequence[Body], sight: Sight, rollout: Rollout) -> Binding | None:
    """The latest template at the level that is gone back to; the latest other where an edited policy has it no more."""
    others = []
    for template in templates:
        try:
            binding = bind(template, sight.spec.container_name, sight.spec.engine)
        except BindingError:
            continue
        level = binding.level(sight.policy.ladder)
        if level is not None and level.name == rollout.back_to:
            return binding
        others += [binding] if binding.setting != rollout.setting else []
    return next(iter(others), None)


async def give_up(body: Body, rollout: Rollout, world: World, why: str) -> None:
    """End the roll-out of a policy that is gone or cannot be followed: the old template back, and nothing held."""
    status = read_status(body)
    try:
        sight = see(body, world.store, _derived(body, status), recall(status.memory).configurations)
    except Blind:
        await _let_go(body, rollout, world, why)
        return
    if rollout.live:
        back = replace(rollout, phase=Phase.ROLLING_BACK)
        await world.live.round(sight, replace(recall(status.memory), rollout=back), world.now())
        await world.telling.cancelled(sight.target, f"{rollout.level} is taken back: {why}", world.now())
        return
    running = sight.level.name if sight.level is not None else None
    if running == rollout.level or sight.target.held_by_us:
        await put_back(sight, rollout, world)
        await world.telling.cancelled(sight.target, f"{rollout.level} is taken back: {why}", world.now())


async def _let_go(body: Body, rollout: Rollout, world: World, why: str) -> None:
    """Where the policy cannot be followed, by the target alone: the setting before goes back, and nothing is held."""
    try:
        target = find_target(body, world.store)
    except Blind:
        return
    now, before = _bound(body, target.template), None
    if now is not None and not rollout.live and now.setting == rollout.setting:
        templates = [_bound(body, one) for one in await world.cluster.old_templates(target)]
        before = next((one for one in templates if one is not None and one.setting != rollout.setting), None)
    if now is not None and before is not None:
        await apply(target, now.restored(before), world)
        await world.telling.cancelled(target, f"{rollout.level} is taken back: {why}", world.now())
    elif target.held_by_us and now is not None:
        await apply(target, target.ours(target.template), world)
        await world.telling.cancelled(target, f"{rollout.level} is left as it is: {why}", world.now())
    elif target.held_by_us:
        done = "is taken back" if await take_back(target, world) else "is left as it is"
        await world.telling.cancelled(target, f"{rollout.level} {done}: {why}", world.now())


async def take_back(target: Target, world: World) -> bool:
    """Let go of a workload with the latest template that says something else in what is ours: all pods but the canary
    run that.  False where it has none, so that the present one stays.
    """
    now = target.ours(target.template)
    older = [target.ours(template) for template in await world.cluster.old_templates(target)]
    then = next((part for part in older if part != now), now)
    await apply(target, then, world)
    return then != now


def _went_back(body: Body, rollout: Rollout, world: World) -> bool:
    """Whether the target's template says something else than what was rolled out."""
    try:
        bound = _bound(body, find_target(body, world.store).template)
    except Blind:
        return False
    return bound is not None and bound.setting != rollout.setting


def _bound(body: Body, template: Body) -> Binding | None:
    """Where a template keeps its setting, by the little that is needed of a policy; None where that is not sure."""
    try:
        spec = body["spec"]
        return bind(template, spec.get("containerName"), Engine(spec.get("engine", Engine.AUTO)))
    except (BindingError, ValueError):
        return None


def _derived(body: Body, status: SpecPolicyStatus) -> Ladder | None:
    """The ladder that was derived before, where the policy names none; not one that it named once."""
    if not status.levels or (body.get("spec") or {}).get("levels"):
        return None
    ladder = to_ladder(status.levels)
    top = ladder.levels[0]
    return ladder if ladder in (derive_ladder(top.drafter, top.tokens), derive_ladder(None, 0)) else None


def _evidence(sight: Sight, turn: Turn, windows: Sequence[Window], now: float) -> Evidence | None:
    """What a decision rests on; None where nobody decided."""
    level = sight.level
    if turn.decision is None or level is None:
        return None
    return gather(sight.policy, windows, turn.evidence_level or level.name, turn.acceptance_since, now)


def _metrics_row(sight: Sight, world: World, collected: Collected, meter: Meter) -> tuple[ConditionReason, str]:
    source, pods = sight.spec.signals.source, [pod for pod in sight.pods if not pod.leaving]
    if source not in world.sources:
        return ConditionReason.NO_SUCH_SOURCE, collected.problem or ""
    if sight.target.replicas == 0 and not pods:
        return ConditionReason.NO_PODS, "the target is scaled to no pods"
    if collected.problem is not None and not collected.samples:
        return ConditionReason.SOURCE_FAILED, collected.problem
    heard, trouble = meter.heard(pods), collected.problem or meter.flawed(pods)
    more = f"; {trouble}" if trouble else ""
    if heard == 0:
        return ConditionReason.NOT_HEARD, f"source {source}: none of {len(pods)} pods is heard from{more}"
    return ConditionReason.HEARD, f"source {source}: {heard} of {len(pods)} pods are heard from{more}"
