"""Kinds of text, and how well each drafter guesses them: the figures behind everything simulated.

The tables start from published acceptance on chat (MT-Bench), by position.  A kind of text is that much easier or
harder to guess: every conditional acceptance is raised to the kind's `hardness`, so survival is too.  Each figure
has its source beside it; "assumed" marks what is ours, with the reason.
"""

import math
import re
from dataclasses import dataclass
from enum import StrEnum

from specloop_policy.ladder import LOOKUP_METHODS, Method


class Kind(StrEnum):
    """What the text is, as far as drafting is concerned."""

    STRUCTURED = "structured"
    """JSON, SQL, code and other text of fixed form."""
    CHAT = "chat"
    PROSE = "prose"
    """Stories, essays, letters."""
    REPETITION = "repetition"
    """Summaries, extraction, refactoring: the answer repeats the prompt."""


@dataclass(frozen=True, slots=True)
class Character:
    """How one kind of text behaves."""

    hardness: float
    """Exponent on chat's conditional acceptance: below 1 is easier than chat."""
    match_share: float
    """Share of decode steps in which n-gram lookup finds a match."""
    match_acceptance: float
    """Constant acceptance of a draft that n-gram lookup found, at temperature 0."""
    spread_shape: float
    """Shape of the gamma distribution of hardness over requests: the smaller, the more they differ."""
    median_length: float
    """Tokens of an answer that nothing cuts short, median."""


CHARACTERS = {
    # hardness: field report, "5-6 tokens for structured output (> 75 %)": K=5 gives 80 % here.
    # lookup: assumed, keys and brackets recur but values do not.
    # spread: maths, the tamest text measured, has a design effect of 1.6 at about 70 draft tokens a request
    #   (SpecDecode-Bench traces): correlation .009, which shape 20 gives.
    # length: assumed, a filled form.
    Kind.STRUCTURED: Character(0.25, 0.35, 0.60, 20.0, 120.0),
    # lookup: Spec-Bench, Vicuna-7B, batch 1, gains 1.60 by prompt lookup; m = .45 and a = .60 give 1.59 at K=4.
    # spread: chat with EAGLE has a design effect of 55 at about 315 draft tokens a request (SpecDecode-Bench
    #   traces): correlation .17, which shape 2 gives (.16).
    # length: median and mean of the Azure conversation trace, 129 and 211 tokens.
    Kind.CHAT: Character(1.0, 0.45, 0.60, 2.0, 129.0),
    # hardness: field report, "3-4 tokens for prose (acceptance < 50 %)": K=3 gives 46 %, K=5 34 % here.
    # lookup: assumed between Spec-Bench's translation (1.06) and question answering (1.19): 1.13 at K=4.
    # spread: assumed as chat.  length: assumed, a page.
    Kind.PROSE: Character(1.4, 0.15, 0.50, 2.0, 250.0),
    # hardness: assumed between structured output and chat, since much of the answer stands in the prompt.
    # lookup: field report, n-gram on summaries, refactoring and extraction 58-64 %: a = .81 gives 61 % at K=4;
    #   m = .70 gives 2.7, Spec-Bench's summarisation 2.66.
    # spread: code edits are the most clustered text measured (design effect 660): assumed shape 1.
    # length: assumed, a short summary.
    Kind.REPETITION: Character(0.40, 0.70, 0.81, 1.0, 150.0),
}

LENGTH_SIGMA = 0.99
"""Spread of answer lengths, lognormal: Azure conversation trace, mean over median 1.64 = exp(sigma^2 / 2)."""


def answer_tokens(kind: Kind, normal: float) -> int:
    """Tokens of an answer that nothing cuts short, from a standard normal number."""
    return max(1, round(CHARACTERS[kind].median_length * math.exp(LENGTH_SIGMA * normal)))


# Conditional acceptance a_j by position, chat, temperature 0.
CHAT_ACCEPTANCE: dict[Method, tuple[float, ...]] = {
    # Assumed constant, for an independent draft model sees all it needs.  Between Leviathan's .73 (table 4, news
    # summaries, T5-base) and the field report's healthy fleets: 58 % at K=3.
    Method.DRAFT_MODEL: (0.75,),
    # Survival .681 .391 .204 .101 .051 (vLLM pull request 32374, Llama-3.1-8B, MT-Bench).
    Method.EAGLE: (0.681, 0.574, 0.522, 0.495, 0.505),
    # Length 2.36 2.79 3.08 3.32 3.46 3.54 at K = 2..7 (vLLM issue 20780, Llama-3.1-8B, MT-Bench): survival 3 to 7
    # is .43 .29 .24 .14 .08.  Of the first two only the sum 1.36 is known: .76 + .60 is assumed.
    Method.EAGLE3: (0.76, 0.789, 0.717, 0.674, 0.828, 0.583, 0.571),
    # Position 0 was 83.4 % at K=1 (vLLM issue 48892).  The decay is assumed: the one layer was trained for one
    # token, so it fades as EAGLE does.
    Method.MTP: (0.834, 0.70, 0.60, 0.55),
}

SIMULATED_LOOKUPS = (Method.NGRAM, Method.NGRAM_GPU)
"""The lookups that there are figures for; of suffix decoding there are none."""

HALF_TEMPERATURE_GREEDY = 1.08
"""Greedy drafts, vLLM's usual ones, whatever model makes them: a(T) = a(0) / (1 + (T / 1.08)^2).

A greedy draft is accepted with the chance that the target samples that very token, which is flat near T = 0.  The
field report saw 72 % at T=0 fall to 25 % at T of .8 to 1.0: at K=4 that is a constant acceptance of .875 falling to
.517, a factor of .59, which the formula meets at T = .9.  The shape is assumed.
"""
HALF_TEMPERATURE_SOUND = 4.3
"""Drafts that are sampled as the target samples (`draft_sample_method: probabilistic`): .95 at T = 1.

EAGLE-3 paper, table 1: going from T=0 to T=1 costs 4 to 21 % of the acceptance length.  How much sampling matters:
DeepSeek-V4-Flash at T=1 went from 10 % to 49 % by it.
"""
HALF_TEMPERATURE_LOOKUP = 2.0
"""Looked-up drafts are greedy too, but what is copied is text the target is sure of: .80 at T = 1, assumed."""


class UnknownText(ValueError):
    """A drafter or a value for which there are no figures; trying again does not help."""


@dataclass(frozen=True, eq=False, slots=True)
class AcceptanceProfile:
    """Acceptance that differs from the tables here: measured elsewhere, or a drafter gone stale.

    What it leaves out is as in the tables.  Profiles are told apart by identity, so one serves many requests.
    """

    name: str
    conditional: tuple[tuple[Method, tuple[float, ...]], ...] = ()
    """a_j at temperature 0 by position, the last one repeats; for every kind of text alike, without `hardness`."""
    match_share: float | None = None
    match_acceptance: float | None = None
    """For lookups, in place of those of the kind of text."""
    factor: tuple[tuple[Method, float], ...] = ()
    """Multiplies every conditional acceptance of a method: below 1 for a stale drafter."""
    by_temperature: bool = True
    """Whether temperature lowers the figures given here; False where they were measured at the traffic's own."""

    def given(self, method: Method) -> tuple[float, ...] | None:
        """The conditional acceptance that it gives a method; None where the tables stand."""
        table = dict(self.conditional).get(method)
        if table is None and method in LOOKUP_METHODS and self.match_acceptance is not None:
            return (self.match_acceptance,)
        return table


def temperature_factor(method: Method, temperature: float, probabilistic: bool = False) -> float:
    """What temperature leaves of a conditional acceptance; `probabilistic` drafts are sampled, not greedy."""
    if method in LOOKUP_METHODS:
        half = HALF_TEMPERATURE_LOOKUP
    elif probabilistic:
        half = HALF_TEMPERATURE_SOUND
    else:
        half = HALF_TEMPERATURE_GREEDY
    halves = temperature / half
    return 1.0 / (1.0 + halves * halves)


def acceptance(
    kind: Kind,
    method: Method,
    temperature: float,
    tokens: int,
    probabilistic: bool = False,
    profile: AcceptanceProfile | None = None,
) -> list[float]:
    """Conditional acceptance a_j of each of `tokens` drafts, given that the ones before it were accepted.

    For lookup it is that of a draft that was found (`match_share` says how often).  Positions beyond a table keep
    its last figure.  Acceptance at a position does not depend on K here; on real engines it does a little (83.4 % at
    K=1, 76.2 % at K=8 in vLLM issue 48892).  Raises UnknownText for a method without figures.
    """
    given = profile.given(method) if profile is not None else None
    table, hardness = (given, 1.0) if given is not None else _table(kind, method)
    chances = [table[min(j, len(table) - 1)] ** hardness for j in range(tokens)]
    if profile is None:
        factor = temperature_factor(method, temperature, probabilistic)
        return [chance * factor for chance in chances]
    factor = dict(profile.factor).get(method, 1.0)
    if given is None or profile.by_temperature:
        factor *= temperature_factor(method, temperature, probabilistic)
    return [min(1.0, chance * factor) for chance in chances]


def _table(kind: Kind, method: Method) -> tuple[tuple[float, ...], float]:
    """Conditional acceptance by position, and the exponent that the kind of text puts on it."""
    character = CHARACTERS[kind]
    if method in SIMULATED_LOOKUPS:
        return (character.match_acceptance,), 1.0
    if method in CHAT_ACCEPTANCE:
        return CHAT_ACCEPTANCE[method], character.hardness
    raise UnknownText(f"no acceptance figures for drafts by {method}; there are for {', '.join(known_methods())}")


def known_methods() -> tuple[Method, ...]:
    """The drafter methods that can be simulated."""
    return (*CHAT_ACCEPTANCE, *SIMULATED_LOOKUPS)


def survival(
    kind: Kind,
    method: Method,
    temperature: float,
    tokens: int,
    probabilistic: bool = False,
    profile: AcceptanceProfile | None = None,
) -> tuple[float, ...]:
    """Chance p_i that the first i drafts are all accepted, i = 1..tokens, over all drafts made."""
    left, survivals = 1.0, []
    for chance in acceptance(kind, method, temperature, tokens, probabilistic, profile):
        left *= chance
        survivals.append(left)
    return tuple(survivals)


def match_share(kind: Kind, method: Method, profile: AcceptanceProfile | None = None) -> float:
    """Share of decode steps in which the drafter proposes anything: 1 for all but lookups."""
    if method not in LOOKUP_METHODS:
        return 1.0
    given = profile.match_share if profile is not None else None
    return CHARACTERS[kind].match_share if given is None else given


_WORDS = (
    (Kind.REPETITION, r"summari[sz]e|summary|extract|refactor|rewrite|proofread|quote|copy"),
    (Kind.STRUCTURED, r"json|yaml|xml|sql|csv|schema|table|function|code|class|regex"),
    (Kind.PROSE, r"story|essay|letter|poem|novel|article|chapter|blog|speech|describe"),
)
_PATTERNS = tuple((kind, re.compile(rf"\b(?:{words})s?\b", re.IGNORECASE)) for kind, words in _WORDS)
READ_CHARACTERS = 4000
"""A prompt longer than this is judged by its beginning, where people say what they want."""


def kind_of(prompt: str) -> Kind:
    """The kind of text that a prompt asks for, from the first list with a word in it; chat when none has.

    Repetition: summarise, summary, extract, refactor, rewrite, proofread, quote, copy.  Structured: json, yaml, xml,
    sql, csv, schema, table, function, code, class, regex.  Prose: story, essay, letter, poem, novel, article,
    chapter, blog, speech, describe.  Whole words, plural or not, in any case.
    """
    beginning = prompt[:READ_CHARACTERS]
    return next((kind for kind, pattern in _PATTERNS if pattern.search(beginning)), Kind.CHAT)
