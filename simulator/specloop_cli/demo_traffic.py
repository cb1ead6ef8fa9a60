"""The traffic of `specloop demo`: five phases that differ in nothing but what clients send."""

from collections.abc import Sequence
from importlib.resources import files

from specloop_cli.errors import InputError
from specloop_policy.ladder import Drafter, Method
from specloop_sim.phases import Phase

PROFILE = "4xh100-llama-3.3-70b"
REPLICAS = 3
DRAFTER = Drafter("small", Method.DRAFT_MODEL, "meta-llama/Llama-3.2-1B-Instruct")
TOKENS = 5
"""What the servers run when the demo begins, for policies that derive their ladder from it."""
STARTUP_SECONDS = 20.0
"""A restart of a real 70B model takes minutes; the demo has two for everything."""
DRAIN_SECONDS = 15.0

STRUCTURED = "Return one JSON record with the name, address and order lines of this customer."
PROSE = "Write a short story about a lighthouse keeper who collects other people's letters."
TALK = "Tell me what you would do with a free Sunday in a town that you have never seen."

PHASES = (
    Phase("structured", 240.0, 48, STRUCTURED, 0.0, 400, 300),
    Phase("prose", 360.0, 48, PROSE, 0.2, 200, 300),
    Phase("hot", 340.0, 48, TALK, 0.9, 300, 300),
    Phase("heavy", 380.0, 280, TALK, 0.9, 300, 1200),
    Phase("structured-again", 540.0, 48, STRUCTURED, 0.0, 400, 300),
)


FILLER = " Some background that only makes this longer."
CHARACTERS_PER_TOKEN = 4
"""As the simulated server counts a prompt's tokens."""


def prompt(phase: Phase) -> str:
    """The phase's prompt, as long as the phase says; the filler says nothing of the kind of text."""
    characters = phase.prompt_tokens * CHARACTERS_PER_TOKEN
    return (phase.prompt + FILLER * (characters // len(FILLER)))[: max(characters, len(phase.prompt))]


def phases_named(names: str | None) -> Sequence[Phase]:
    """The phases in the order asked for, separated by commas; all in their own order when nothing is asked for."""
    if names is None:
        return PHASES
    known = {phase.name: phase for phase in PHASES}
    chosen = [name.strip() for name in names.split(",")]
    unknown = next((name for name in chosen if name not in known), None)
    if unknown is not None:
        raise InputError(f"--phases: there is no phase {unknown!r}; phases: {', '.join(known)}")
    return [known[name] for name in chosen]


def policy_path() -> str:
    """Where the policy of the demo is."""
    return str(files("specloop_cli") / "demo.yaml")
