"""The engine model on the bench: a number of clients that always have a request under way, and what comes out."""

from dataclasses import dataclass
from itertools import count

from specloop_policy.ladder import Level
from specloop_sim.engine import EngineModel
from specloop_sim.profile import Profile
from specloop_sim.request import Request
from specloop_sim.text import AcceptanceProfile, Kind

WARM_UP_ROUNDS = 2
"""Answers of each client before counting begins: enough for the ends of uneven answers to be spread out."""
COUNTED_ROUNDS = 4
"""Answers of each client that count, at least."""
COUNTED_TOKENS = 100_000
"""Tokens that count, at least.  A step yields 2.3 tokens with a deviation of 1.1, so 100,000 tokens are 43,000 steps
and give the mean within 0.23 % (one standard error)."""
GOLDEN_SHARE = 0.6180339887498949
"""Multiples of it, without their whole part, fill 0 to 1 evenly from any number on (Weyl 1916)."""
MOMENT_SECONDS = 1.0
"""How often the counters are read; what lies between two readings of the steps' own time does not matter."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests that are alike but for their length, which is even between half and one and a half times the mean."""

    prompt_tokens: int
    answer_tokens: int
    temperature: float = 0.0
    kind: Kind = Kind.CHAT
    acceptance: AcceptanceProfile | None = None

    def context_tokens(self) -> float:
        """Mean context over decode steps: the prompt, and E[n^2] / 2 E[n] of the answer, n its length.

        For lengths even from n/2 to 3n/2 that is 13/12 of n/2.
        """
        return self.prompt_tokens + self.answer_tokens * 13.0 / 24.0

    def request(self, place: int) -> Request:
        """Request number `place`, there from the beginning."""
        length = self.answer_tokens * (0.5 + place * GOLDEN_SHARE % 1.0)
        return Request(
            id=f"r{place}",
            arrival=0.0,
            prompt_tokens=self.prompt_tokens,
            output_tokens=max(2, round(length)),
            temperature=self.temperature,
            kind=self.kind,
            profile=self.acceptance,
        )


@dataclass(frozen=True, slots=True)
class Run:
    """What came out."""

    tokens_per_second: float
    acceptance_length: float
    """Tokens per step that drafted; 1 where none did."""


def closed_loop(profile: Profile, level: Level, clients: int, traffic: Traffic, probabilistic: bool = False) -> Run:
    """So many clients, each sending its next request when the last is answered; requests do not differ in hardness.

    The requests stand in the queue of an engine with as many places as there are clients: that is the same.
    """
    engine = EngineModel(profile, level, clustering=False, probabilistic=probabilistic, max_num_seqs=clients)
    rounds = WARM_UP_ROUNDS + max(COUNTED_ROUNDS, -(-COUNTED_TOKENS // (clients * traffic.answer_tokens)))
    for place in range(rounds * clients):
        engine.submit(traffic.request(place))
    return _between(*_readings(engine, WARM_UP_ROUNDS * clients))


@dataclass(frozen=True, slots=True)
class _Reading:
    """Counters at one moment."""

    tokens: float
    seconds: float
    """Spent in steps."""
    drafts: float
    accepted: float
    finished: float
    waiting: float


def _read(engine: EngineModel, moment: float) -> _Reading:
    sample = engine.sample(moment)
    drafting = engine.counters.drafting()
    return _Reading(
        tokens=sample.generation_tokens or 0.0,
        seconds=engine.counters.busy_seconds,
        drafts=drafting.drafts or 0.0,
        accepted=drafting.accepted_tokens or 0.0,
        finished=sample.finished_requests or 0.0,
        waiting=sample.waiting or 0.0,
    )


def _readings(engine: EngineModel, warm_up: int) -> tuple[_Reading, _Reading]:
    """The first reading after so many requests are over, and the last one with requests still waiting."""
    first = last = _read(engine, 0.0)
    for moment in count(1):
        reading = _read(engine, moment * MOMENT_SECONDS)
        if reading.waiting == 0.0:
            break
        last = reading
        if first.finished < warm_up:
            first = reading
    if last.seconds == first.seconds:
        raise ValueError("the run is too short to count anything; make the answers longer")
    return first, last


def _between(first: _Reading, last: _Reading) -> Run:
    drafts = last.drafts - first.drafts
    return Run(
        tokens_per_second=(last.tokens - first.tokens) / (last.seconds - first.seconds),
        acceptance_length=1.0 + (last.accepted - first.accepted) / drafts if drafts else 1.0,
    )
