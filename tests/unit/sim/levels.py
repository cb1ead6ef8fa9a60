"""Levels and requests for tests of the engine model."""

import random

from specloop_policy.ladder import DISABLED, Drafter, Level, Method
from specloop_sim.profile import profile_named
from specloop_sim.request import Request
from specloop_sim.text import Kind

SMALL = profile_named("h100-llama-3.1-8b")
LARGE = profile_named("4xh100-llama-3.3-70b")
EAGLE = Drafter("head", Method.EAGLE, "head")
DRAFT = Drafter("small", Method.DRAFT_MODEL, "small")
LOOKUP = Drafter("lookup", Method.NGRAM, lookup_min=2, lookup_max=4)

EAGLE_K3 = Level("eagle-k3", EAGLE, 3)
K5 = Level("k5", DRAFT, 5)
K3 = Level("k3", DRAFT, 3)
NGRAM = Level("ngram", LOOKUP, 4)

__all__ = ["DISABLED", "DRAFT", "EAGLE_K3", "K3", "K5", "LARGE", "LOOKUP", "NGRAM", "SMALL", "requests"]


def requests(count: int, per_second: float, seed: int = 1, kind: Kind = Kind.CHAT) -> list[Request]:
    """Random requests, prompts up to three chunks of a step long."""
    chance = random.Random(seed)
    arrival, made = 0.0, []
    for number in range(count):
        arrival += chance.expovariate(per_second)
        prompt = chance.choice([10, 300, 1500, 20_000])
        made.append(Request(f"r{number}", arrival, prompt, chance.randint(1, 200), chance.random(), kind))
    return made
