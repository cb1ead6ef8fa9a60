"""Profiles and acceptance made from published figures, for the engine model to run on."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from specloop_policy.cost import LineStepTimes, MeasuredStepTimes
from specloop_policy.ladder import DISABLED, Drafter, Level, Method
from specloop_sim.profile import DraftMemory, Profile, profile_named
from specloop_sim.text import AcceptanceProfile
from specloop_sim.validation.published import DRAFT_LENGTHS

H100 = profile_named("h100-llama-3.1-8b")
METHODS = {"EAGLE": Method.EAGLE, "EAGLE-3": Method.EAGLE3}

FIRST_SURVIVAL = {"EAGLE": 0.681, "EAGLE-3": 0.76}
"""Chance of the first draft: acceptance lengths begin at K=2, so of p_1 and p_2 only the sum is known.

EAGLE: vLLM pull request 32374.  EAGLE-3: assumed.  What is predicted at K=2 and above does not depend on it.
"""


def level(method: Method, tokens: int) -> Level:
    """A level of this method, disabled for K=0."""
    return Level(f"{method}-{tokens}", Drafter(method, method, "draft"), tokens) if tokens else DISABLED


def profile_of(name: str, times: LineStepTimes | MeasuredStepTimes, method: Method) -> Profile:
    """These step times with the memory of one H100, which no run here fills; prompts are free where a table is read."""
    return replace(
        H100, name=name, times=times, drafters=((method, DraftMemory(0.0, 0.0)),), prompt_seconds_per_token=0.0
    )


def acceptance_of(name: str, method: Method, survival: Sequence[float]) -> AcceptanceProfile:
    """Conditional acceptance from survival: a_j = p_j / p_(j-1)."""
    before = (1.0, *survival)
    chances = tuple(p / earlier for earlier, p in zip(before, survival, strict=False))
    return AcceptanceProfile(name, conditional=((method, chances),))


def survival_of(drafter: str) -> tuple[float, ...]:
    """Survival of a drafter of table B: differences of its acceptance lengths at neighbouring K."""
    lengths = [row.acceptance_length for row in DRAFT_LENGTHS[drafter]]
    first = FIRST_SURVIVAL[drafter]
    rest = (after - before for before, after in pairwise(lengths))
    return (first, lengths[0] - 1.0 - first, *rest)
