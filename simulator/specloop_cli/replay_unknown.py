"""What a replay cannot know, in sentences that say so plainly."""

from collections.abc import Iterator, Sequence

from specloop_policy.model import CostPolicy, SpecPolicy
from specloop_sim.profile import Profile
from specloop_sim.recordings.replayed import Replay

Facts = tuple[SpecPolicy, Profile | None, Replay]


def unknown(replays: Sequence[Facts]) -> list[str]:
    """The sentences, each once; a policy is named where several were replayed."""
    found = []
    for facts in replays:
        who = f"{facts[0].metadata.name}: " if len(replays) > 1 else ""
        found += [who + sentence for sentence in _sentences(*facts)]
    return list(dict.fromkeys(found))


def _sentences(document: SpecPolicy, profile: Profile | None, found: Replay) -> Iterator[str]:
    yield from _not_carried_out(found)
    yield from _gain(document, profile, found)
    if document.spec.levels is None:
        yield from _derived(found)
    if document.spec.alerts:
        yield "A recording does not hold alerts: whether one of those that the policy names was firing is unknown."
    if any(stay.level is None for stay in found.stays):
        settings = ", ".join(sorted({stay.setting for stay in found.stays if stay.level is None}))
        yield (
            f"For a time the fleet ran {settings}, which is no level of the policy's ladder: a controller leaves that "
            "alone, and so nothing was decided."
        )


def _not_carried_out(found: Replay) -> Iterator[str]:
    missed = [one for one in found.changes if one.carried_out is False]
    late = [one for one in found.changes if one.carried_out is None]
    if missed:
        levels = ", ".join(dict.fromkeys(str(one.decision.level) for one in missed))
        yield (
            f"The recorded fleet did not follow {_count(len(missed))}: how {levels} would have done, and what the "
            "policy would have decided from there, cannot be known from this recording.  What comes after is decided "
            "on the fleet as it ran."
        )
    if late:
        yield (
            f"Whether {_count(len(late))} at the end would have been followed cannot be known: the recording ends "
            "before a roll-out would have had to."
        )


def _count(number: int) -> str:
    return "one of the decisions" if number == 1 else f"{number} of the decisions"


def _gain(document: SpecPolicy, profile: Profile | None, found: Replay) -> Iterator[str]:
    asks = any(rule.when.gain is not None for rule in found.policy.rules)
    vetoes = document.spec.cost_model.policy is CostPolicy.VETO
    if not (asks or vetoes):
        return
    if profile is None:
        yield (
            "Step times of this hardware are unknown, and with them every gain: the cost model refuses nothing, and "
            "rules about the gain hold at most where drafts add next to no tokens.  --profile NAME gives step times."
        )
        return
    yield f"Step times are taken from the profile {profile.name}; whether the recorded hardware has them is not known."
    methods = {one.drafter.method for one in found.policy.ladder.levels if one.drafter is not None}
    missing = sorted(methods - set(profile.methods()))
    if missing:
        yield f"The profile {profile.name} has no step times for drafts by {', '.join(missing)}: their gain is unknown."


def _derived(found: Replay) -> Iterator[str]:
    top = found.policy.ladder.levels[0]
    if top.drafter is None or top.drafter.name != "running":
        yield (
            "The policy leaves its levels to what runs, and the recording never shows a K: what could draft there is "
            "unknown, and so the ladder holds no drafter of the fleet's own."
        )
        return
    yield (
        f"The policy leaves its levels to what runs: the ladder begins with K = {top.tokens}, the first that the "
        f"recording shows.  Which drafter it was is not in the metrics: {top.drafter.method} is assumed (--drafter)."
    )
