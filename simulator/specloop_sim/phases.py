"""Traffic in phases: what clients send, and nothing else, changes from one to the next."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from specloop_sim.request import Finish, Request
from specloop_sim.text import kind_of


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of time with one kind of client: how many at once, what they ask for, and how hot."""

    name: str
    seconds: float
    clients: int
    """Requests under way at any time, over the whole fleet."""
    prompt: str
    """What a client asks; the server reads the kind of text from it."""
    temperature: float
    prompt_tokens: int
    output_tokens: int


def phase_at(phases: Sequence[Phase], elapsed: float) -> Phase:
    """The phase in force `elapsed` seconds after the first began; the last goes on for ever."""
    for phase in phases:
        if elapsed < phase.seconds:
            return phase
        elapsed -= phase.seconds
    return phases[-1]


def total_seconds(phases: Sequence[Phase]) -> float:
    """Length of all phases together."""
    return sum(phase.seconds for phase in phases)


def answer_length(phase: Phase, number: int, seed: int) -> int:
    """Length of answer `number`: even between half and one and a half times the phase's, so that ends do not align."""
    share = int.from_bytes(sha256(f"{seed}/{phase.name}/{number}".encode()).digest()[:4], "big") / 2**32
    return max(2, round(phase.output_tokens * (0.5 + share)))


class ClosedLoop:
    """Clients that each send their next request when the last one is answered."""

    closed_loop = True

    def __init__(self, phases: Sequence[Phase], start: float, seed: int) -> None:
        self._phases = tuple(phases)
        self._start = start
        self._seed = seed
        self._sent = 0
        self._kinds = {phase.name: kind_of(phase.prompt) for phase in phases}

    def arrivals(self, now: float, until: float, outstanding: int) -> list[Request]:
        """The requests that bring the number under way up to the phase's."""
        phase = phase_at(self._phases, now - self._start)
        return [self._request(phase, now) for _ in range(max(0, phase.clients - outstanding))]

    def _request(self, phase: Phase, now: float) -> Request:
        self._sent += 1
        return Request(
            id=f"{phase.name}-{self._sent}",
            arrival=now,
            prompt_tokens=phase.prompt_tokens,
            output_tokens=answer_length(phase, self._sent, self._seed),
            temperature=phase.temperature,
            kind=self._kinds[phase.name],
            finish=Finish.STOP,
        )
