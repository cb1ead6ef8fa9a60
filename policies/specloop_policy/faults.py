"""Faults of the engine that look like bad traffic: named, with the likely mend, so that the level is not blamed."""

from specloop_policy.acceptance import Interval, Pool, effective, wilson
from specloop_policy.decision import Fault
from specloop_policy.evidence import Evidence
from specloop_policy.guardrails import DAY_SECONDS
from specloop_policy.observation import Outcome
from specloop_policy.policy import Policy

NOTHING_ACCEPTED = 0.05
"""Acceptance this low is nothing at all: sound sampling costs 4 to 21 % of the length between T = 0 and 1 (EAGLE-3
paper, table 1), and the worst healthy drafter of the field reports stays above it."""

EVERYTHING_ACCEPTED = 0.95
"""Acceptance near 1, together with answers that run into their limit, was corrupt output (vLLM issue 44487)."""

DRAFTER_FAULTS = frozenset({"DrafterDead", "SamplerMode"})
"""Faults that no smaller K mends: the drafter itself is to be left."""


def find_faults(policy: Policy, evidence: Evidence) -> tuple[Fault, ...]:
    """Every fault that the evidence shows; none when the evidence is not usable or speculation is off."""
    if not evidence.usable or evidence.outcome is not Outcome.MEASURED:
        return ()
    found = (_drafter_fault(evidence), _suspect_output(evidence.recent), _aged_pod(policy, evidence))
    return tuple([fault for fault in found if fault is not None])


def _drafter_fault(evidence: Evidence) -> Fault | None:
    recent = evidence.recent
    acceptance = recent.acceptance
    if acceptance is None or acceptance.high >= NOTHING_ACCEPTED:
        return None
    hot = recent.hotter_than(0.0)
    if hot is not None and hot.low > 0.5:
        return Fault(
            "SamplerMode",
            f"acceptance is {100 * acceptance.value:.1f} % with {100 * hot.value:.0f} % of the requests above "
            "temperature 0: sampling alone costs a fifth of it at most",
            "check how drafts are sampled and verified (vLLM: draft_sample_method probabilistic)",
        )
    if recent.accepted_tokens <= 0.0:
        before = max((one.accepted_tokens_before for one in evidence.windows), default=0.0)
        past = ", and it was healthy before" if before > 0.0 else ""
        return Fault(
            "DrafterDead",
            f"not one of {recent.draft_tokens:.0f} draft tokens was accepted{past}",
            "restart the pods; if it stays, check that draft and target belong together",
        )
    return None


def _suspect_output(recent: Pool) -> Fault | None:
    acceptance = recent.acceptance
    if acceptance is None or acceptance.low <= EVERYTHING_ACCEPTED or recent.requests <= 0.0:
        return None
    at_length = recent.length_requests / recent.requests
    if at_length <= 0.5:
        return None
    return Fault(
        "OutputSuspect",
        f"acceptance is {100 * acceptance.value:.0f} % while {100 * at_length:.0f} % of the answers run into "
        "their length limit: the engine may be repeating itself",
        "read some answers; restart the pods if they are corrupt",
    )


def _aged_pod(policy: Policy, evidence: Evidence) -> Fault | None:
    """The oldest pod, when it alone accepts less than its siblings do, by more than the policy's margin.

    With enough drafts any two pods differ for sure; less than what moves a level is nothing to restart a pod for.
    """
    starts = {one.pod: one.process_start for one in reversed(evidence.recent.windows) if one.process_start is not None}
    if len(starts) < 2:
        return None
    first, second = sorted(starts.values())[:2]
    if first == second:
        return None
    oldest = next(pod for pod in starts if starts[pod] == first)
    accepted = drafted = requests = 0.0
    for one in evidence.windows:
        if one.pod == oldest:
            accepted += one.accepted_tokens
            drafted += one.draft_tokens
            requests += one.finished_requests
    whole = evidence.whole
    others = whole.draft_tokens - drafted
    if min(drafted, others) < 1.0 or accepted * whole.draft_tokens >= whole.accepted_tokens * drafted:
        return None
    aged = _surely(policy, accepted, drafted, requests)
    siblings = _surely(policy, min(others, whole.accepted_tokens - accepted), others, whole.requests - requests)
    if aged.high >= siblings.low - policy.cost_model.margin_percent / 100.0:
        return None
    return Fault(
        "AgeDependent",
        f"{oldest}, the oldest pod, accepts {100 * aged.value:.0f} % where its siblings accept "
        f"{100 * siblings.value:.0f} %",
        f"recycle {oldest}: a restart at the same level has cured this",
        (oldest,),
    )


def _surely(policy: Policy, accepted: float, draft_tokens: float, requests: float) -> Interval:
    """Acceptance, so surely that a false alarm comes once in twenty days rather than once in twenty windows."""
    signals = policy.signals
    looks = int(DAY_SECONDS / signals.window_seconds) + 1
    return wilson(accepted, draft_tokens, effective(draft_tokens, requests, signals.design_effect), looks)
