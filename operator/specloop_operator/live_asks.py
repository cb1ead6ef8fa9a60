"""What running pods are asked for live, and a live roll-out as its planner sees it.  No I/O."""

import math

from specloop_control.live import Standing, level_table, started_table
from specloop_engine.speculation import BatchTable, startup_profile
from specloop_operator.pods import Pod
from specloop_operator.remembered import LiveHold, Remembered
from specloop_operator.sight import Sight
from specloop_policy.canary import Phase, PodView, Rollout, View
from specloop_policy.decision import Inputs
from specloop_policy.ladder import Level
from specloop_policy.probes import next_probe_in

BRAKED_SHARE = 0.04
"""Share of time that K = 0 costs against no drafter: 4 to 11 % in one report, 15 to 18 % in another (vLLM issue 53420);
the least of them, so that nothing is made anew for a gain that may not be there."""

ANSWERING = frozenset({Standing.APPLIED, Standing.PENDING, Standing.CLAMPED, Standing.OTHER})
"""Standings of pods that can be asked, and answered."""


def as_started(sight: Sight) -> BatchTable | None:
    """What pods of the present template have where nothing is asked over it; None where they have no table.

    That is the table that they were started with, unless the level has K by batch.
    """
    speculation = sight.binding.line.speculation
    if speculation is None or not speculation.table:
        return None
    return started_table(sight.template_level, speculation.table)


def held_at(sight: Sight, hold: LiveHold) -> Level | None:
    """The level that pods are held at; None for what is no level of the ladder."""
    profile = startup_profile(sight.binding.line.speculation)
    if profile is None:
        return None
    reached = (level for level in sight.policy.ladder.levels if profile.reaches(level))
    return next((level for level in reached if level_table(level) == hold.table), None)


def holds_now(sight: Sight, remembered: Remembered) -> LiveHold | None:
    """What pods of the present template are held at over what it says."""
    hold = remembered.live
    return hold if hold is not None and hold.setting == sight.binding.setting else None


def asks_now(sight: Sight, remembered: Remembered) -> Rollout | None:
    """The live roll-out whose level pods are asked for now."""
    return None if remembered.rollout is None else asks(sight, remembered.rollout)


def asks(sight: Sight, rollout: Rollout) -> Rollout | None:
    """A roll-out, where it is one for which pods are asked now."""
    if not (rollout.live and rollout.written) or rollout.goes_back:
        return None
    return rollout if rollout.setting == sight.binding.setting else None


def asked_level(pod: Pod, rollout: Rollout | None) -> bool:
    """Whether a pod is asked for the level that is rolled out live."""
    if rollout is None or pod.setting != rollout.setting:
        return False
    return rollout.phase is Phase.PROMOTING or pod.name == rollout.canary


def canary_of(sight: Sight) -> str:
    """The pod that is asked first: any does, and the first by name is the same at every look; "" without any."""
    return min((pod.name for pod in sight.pods if pod.serving and pod.setting == sight.binding.setting), default="")


def live_view(sight: Sight, rollout: Rollout) -> View:
    """The pods that answer, as the planner of a live roll-out sees them.

    One that is asked for the level is new, and ready once it has taken the wish: an idle pod is at it with its next
    request.  A pod that does not answer is not waited for: every later round asks it again.  One that refuses ends the
    roll-out, and on the way back there is nothing to wait for in it.
    """
    asking = asks(sight, rollout)
    pods = [pod for pod in sight.pods if pod.standing is not None and pod.standing.standing in ANSWERING]
    views = tuple(
        PodView(pod.name, asked_level(pod, asking), pod.ready_since if pod.standing and pod.standing.in_line else None)
        for pod in pods
    )
    level = sight.level.name if sight.level is not None else None
    held = rollout.phase in (Phase.STARTING, Phase.CANARY, Phase.SOAKING)
    return View(level, sight.rest, held, True, max(1, len(views)), views)


def hold_of(sight: Sight, level: Level) -> LiveHold | None:
    """What pods are held at once all are at a level; None where that is what the template says."""
    template = sight.template_level
    if template is not None and template.name == level.name:
        return None
    return LiveHold(level_table(level), sight.binding.setting)


def braked(sight: Sight) -> bool:
    """Whether speculation is off by live control alone: the drafter is still there, and takes time and memory."""
    return sight.live is not None and sight.live.level is not None and not sight.live.level.speculates


def shed_due(
    sight: Sight, remembered: Remembered, inputs: Inputs, restart_seconds: float | None, now: float
) -> str | None:
    """Why pods had better be made anew without the drafter, in words; None while being off live is cheaper.

    Off is expected to last until somebody's wish ends, else until another level may be tried.  It costs a restart to
    go and one to come back; what it saves is the share of time that a drafter takes which is asked for nothing.
    """
    if restart_seconds is None:
        return None
    override, state = inputs.override, remembered.state
    if state.forced is None:
        seconds = next_probe_in(sight.policy, state, sight.policy.ladder.levels[-1], now)
    elif override is not None and (override.until is None or now < override.until):
        seconds = math.inf if override.until is None else override.until - now
    else:
        return None  # schedules and alerts end when they end
    if BRAKED_SHARE * seconds <= 2.0 * restart_seconds:
        return None
    lasting = "until somebody ends it" if math.isinf(seconds) else f"for {seconds:.0f} s at least"
    return f"speculation stays off {lasting}, longer than two restarts of {restart_seconds:.0f} s cost"
