"""The sentences of decisions: what the evidence shows, and what a rule found."""

from specloop_policy.decision import Fault
from specloop_policy.evidence import Evidence
from specloop_policy.observation import Outcome
from specloop_policy.rules import Held


def shown(evidence: Evidence) -> str:
    """What the evidence shows in all: acceptance with its interval and span, or why there is none."""
    whole = evidence.whole
    if evidence.outcome is Outcome.OFF:
        return f"speculation is off, {whole.requests:.0f} requests over {whole.seconds:.0f} s"
    acceptance = whole.acceptance
    if acceptance is None:
        return f"nothing was drafted in {whole.requests:.0f} requests over {whole.seconds:.0f} s"
    low, high = 100 * acceptance.low, 100 * acceptance.high
    return f"acceptance {100 * acceptance.value:.0f} % ({low:.0f} to {high:.0f} %) over {whole.seconds:.0f} s"


def note(evidence: Evidence) -> str:
    """How the figures came about, where that is not the plain way."""
    return f" [{evidence.reason}]" if evidence.reason and evidence.outcome is Outcome.MEASURED else ""


def found(held: Held) -> str:
    """What a ripe rule found."""
    return f"{held.judgement.text}, for {held.rule.for_seconds} s (rule {held.rule.name})"


def waiting(held: Held, at: float) -> str:
    """What an unripe rule found, and for how long so far."""
    return (
        f"{held.judgement.text} (rule {held.rule.name}): held for {at - held.since:.0f} of the "
        f"{held.rule.for_seconds} s asked for"
    )


def with_faults(faults: tuple[Fault, ...], reason: str) -> str:
    """A reason behind the faults that were found, each with its mend."""
    return "; ".join((*(f"{fault.name}: {fault.reason}: {fault.mend}" for fault in faults), reason))
