"""What is known to go wrong with llama-server's speculative flags."""

from specloop_engine.configuration import (
    DRAFT_HF,
    DRAFT_MAX,
    DRAFT_MODEL,
    NGRAM_DRAFT,
    NGRAM_DRAFT_DEFAULT,
    NGRAM_LENGTH,
    NGRAM_LENGTH_DEFAULT,
    OLD_DRAFT_MAX,
    SPEC_TYPE,
)
from specloop_engine.failure import Failure, Harm, Start
from specloop_engine.releases import Releases
from specloop_policy.ladder import Method

SIZES_MAY_DIFFER_BY = 128
NEEDS_DRAFT = frozenset({"draft-simple", "draft-eagle3", "draft-dflash", "draft-dspark"})
DRAFT = frozenset({Method.DRAFT_MODEL})
SOURCE = "llama.cpp build 11434"
TRIED = f"{SOURCE}, tried"


def _looked_up(start: Start) -> int:
    length = start.number(NGRAM_LENGTH)
    return NGRAM_LENGTH_DEFAULT if length is None else length


def _drafted(start: Start) -> int:
    tokens = start.number(NGRAM_DRAFT)
    return NGRAM_DRAFT_DEFAULT if tokens is None else tokens


def _rates_are_off(start: Start) -> bool:
    tokens = start.speculation.tokens if start.speculation else None
    return None not in (tokens, start.forced_rates) and tokens != start.forced_rates


def _lacks_draft(start: Start) -> bool:
    return start.get(SPEC_TYPE) in NEEDS_DRAFT and not start.get(DRAFT_MODEL) and not start.get(DRAFT_HF)


def _loads_in_vain(start: Start) -> bool:
    kind = start.get(SPEC_TYPE)
    return isinstance(kind, str) and "draft-" not in kind and bool(start.get(DRAFT_MODEL))


LLAMACPP_FAILURES = (
    Failure(
        "vocabulary-size",
        Harm.NO_EFFECT,
        lambda start: start.vocabularies_differ(SIZES_MAY_DIFFER_BY),
        "the target and draft vocabs are not compatible",
        "choose a draft model with the target's vocabulary; the server serves without speculation otherwise",
        f"{SOURCE}, common/speculative.cpp",
        DRAFT,
    ),
    Failure(
        "vocabulary-family",
        Harm.NO_EFFECT,
        lambda start: len(set(start.families)) == 2,
        lambda start: f"the target and draft vocabs are not compatible ({' and '.join(start.families)})",
        "choose a draft model of the target's family; the server serves without speculation otherwise",
        f"{SOURCE}, common/speculative.cpp",
        DRAFT,
    ),
    Failure(
        "draft-model-missing",
        Harm.NO_EFFECT,
        _lacks_draft,
        lambda start: (
            f"failed to initialize speculative decoding context: {start.get(SPEC_TYPE)} requires a draft context"
        ),
        "name the draft model with -md; the server serves without speculation otherwise",
        TRIED,
    ),
    Failure(
        "draft-model-idle",
        Harm.NO_EFFECT,
        _loads_in_vain,
        lambda start: f"{start.draft} is loaded, and --spec-type {start.get(SPEC_TYPE)} has no use for it",
        "remove -md: it only takes memory",
        TRIED,
    ),
    Failure(
        "ngram-never-drafts",
        Harm.NO_EFFECT,
        lambda start: _drafted(start) < _looked_up(start),
        lambda start: (
            f"ngram-simple drafts no fewer tokens than it looks up ({_looked_up(start)}), and here at most "
            f"{_drafted(start)}: so never any"
        ),
        lambda start: f"raise K to {_looked_up(start)}, or look up n-grams of {_drafted(start)}",
        TRIED,
        frozenset({Method.NGRAM}),
    ),
    Failure(
        "zero-drafts",
        Harm.NO_EFFECT,
        lambda start: start.number(DRAFT_MAX) == 0,
        "--spec-draft-n-max 0 still drafts one token a step",
        "turn speculation off by removing -md and --spec-type",
        TRIED,
        DRAFT,
    ),
    Failure(
        "forced-acceptance",
        Harm.NO_START,
        lambda start: bool(start.forced_acceptance) and start.speculation is None,
        "synthetic acceptance requires an initialized speculative decoding context",
        "remove --spec-synth-len and --spec-synth-rates as well",
        TRIED,
    ),
    Failure(
        "forced-rates",
        Harm.NO_START,
        _rates_are_off,
        lambda start: (
            f"synthetic acceptance rates must contain {start.speculation and start.speculation.tokens} values, "
            f"got {start.forced_rates}"
        ),
        "give one rate for each of the K positions, or --spec-synth-len",
        TRIED,
    ),
    Failure(
        "draft-max-removed",
        Harm.NO_START,
        lambda start: start.get(OLD_DRAFT_MAX) is not None,
        'error while handling argument "--draft-max": the argument has been removed. use --spec-draft-n-max or '
        "--spec-ngram-mod-n-max",
        "write --spec-draft-n-max",
        TRIED,
        releases=Releases(since=(11434,)),
    ),
)
