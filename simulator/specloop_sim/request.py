"""What enters the engine model and what leaves it."""

from dataclasses import dataclass
from enum import StrEnum

from specloop_sim.text import AcceptanceProfile, Kind


class Finish(StrEnum):
    """Why a request ended, in vLLM's words."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"


@dataclass(frozen=True, slots=True)
class Request:
    """One request: `id` decides its luck, `output_tokens` is how long the answer turns out to be."""

    id: str
    arrival: float
    """Model seconds."""
    prompt_tokens: int
    output_tokens: int
    temperature: float = 0.0
    kind: Kind = Kind.CHAT
    finish: Finish = Finish.STOP
    """What ends it when nothing interrupts it."""
    max_tokens: int | None = None
    """What the client asked for; only shown, `output_tokens` is within it already."""
    profile: AcceptanceProfile | None = None
    """How well drafters guess it, where that is not what its kind of text says."""

    @property
    def total_tokens(self) -> int:
        """Tokens of prompt and answer."""
        return self.prompt_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Finished:
    """A request that is over; times in model seconds, `first_token` None where none came out."""

    request: Request
    admitted: float | None
    """When it left the queue; None when it never did."""
    first_token: float | None
    end: float
    tokens: int
    finish: Finish

    @property
    def ttft_seconds(self) -> float | None:
        """Time to first token."""
        return None if self.first_token is None else self.first_token - self.request.arrival

    @property
    def e2e_seconds(self) -> float:
        """From arrival to end."""
        return self.end - self.request.arrival

    @property
    def tpot_seconds(self) -> float:
        """Time per output token after the first, 0 for a single token, as vLLM has it."""
        if self.first_token is None or self.tokens < 2:
            return 0.0
        return (self.end - self.first_token) / (self.tokens - 1)
