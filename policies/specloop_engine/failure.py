"""What a known failure is: a row of the tables in `vllm_failures` and `llamacpp_failures`."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from specloop_engine.configuration import DRAFT_MODEL, TOKENS, Config, speculation_of
from specloop_engine.flags import Form
from specloop_engine.releases import ALL_RELEASES, Releases, Version
from specloop_engine.speculation import Speculation
from specloop_engine.vocabulary import vocabulary_family
from specloop_policy.engine import Engine


class Harm(StrEnum):
    """What a configuration does."""

    NO_START = "no start"
    OUTPUT = "output"
    """Answers change, are cut, or are refused."""
    NO_EFFECT = "no effect"
    """The engine serves, without what was asked for."""


@dataclass(frozen=True, slots=True)
class Start:
    """What is known of an engine about to start; None: not known."""

    engine: Engine
    config: Config | None
    """The speculative setting in the engine's own keys; None: off."""
    version: Version | None = None
    form: Form | None = None
    target: str | None = None
    """Name or path of the served model."""
    target_vocabulary: int | None = None
    draft_vocabulary: int | None = None
    """Sizes of the vocabularies, in tokens."""
    tensor_parallel: int | None = None
    data_parallel: int | None = None
    predicts: int | None = None
    """`n_predict` of the drafter's own configuration."""
    lora: bool | None = None
    batched_tokens: int | None = None
    sequences: int | None = None
    """`--max-num-batched-tokens` and `--max-num-seqs`."""
    logits_processors: bool | None = None
    """Whether the server has custom ones."""
    request_metrics: bool | None = None
    """Whether `--per-request-spec-decode-metrics` is on."""
    forced_acceptance: bool | None = None
    """Whether llama-server's `--spec-synth-*` force the acceptance."""
    forced_rates: int | None = None
    """How many rates `--spec-synth-rates` gives."""
    min_p_or_logit_bias: bool | None = None
    """Whether clients send either."""
    grammar: bool | None = None
    """Whether clients ask for structured output."""

    @property
    def speculation(self) -> Speculation | None:
        """The setting as a value; ConfigurationError where it says nothing clear."""
        return speculation_of(self.config, self.engine)

    def get(self, key: str) -> Any:
        """The value of a key of the setting; None where it is not given."""
        return (self.config or {}).get(key)

    def number(self, key: str) -> int | None:
        """The same where it is a whole number, None else."""
        value = self.get(key)
        return value if type(value) is int else None

    @property
    def tokens(self) -> int | None:
        """K, for vLLM."""
        return self.number(TOKENS)

    @property
    def draft(self) -> str | None:
        """The draft model's name."""
        name = self.get("model") or self.get(DRAFT_MODEL)
        return name if isinstance(name, str) else None

    @property
    def families(self) -> tuple[str, ...]:
        """The vocabularies of target and drafter as their names tell, those that they do tell."""
        families = map(vocabulary_family, (self.target, self.draft))
        return tuple(family for family in families if family)

    def vocabularies_differ(self, at_most: int = 0) -> bool:
        """Whether both sizes are known, and further apart than may be."""
        if self.target_vocabulary is None or self.draft_vocabulary is None:
            return False
        return abs(self.target_vocabulary - self.draft_vocabulary) > at_most


Said = str | Callable[[Start], str]
"""A sentence, or how it is made of what is known."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One row."""

    name: str
    harm: Harm
    fails: Callable[[Start], bool]
    """Whether what is known shows it; what is not known shows nothing."""
    message: Said
    """In the engine's own words, or close to them."""
    mend: Said
    source: str
    methods: frozenset[str] | None = None
    """The drafters concerned; None: all, and none at all."""
    releases: Releases = ALL_RELEASES
    """With limits, a release that is not known is not concerned."""

    def concerns(self, start: Start, speculation: Speculation | None) -> bool:
        """Whether the row is about a start with this setting."""
        if self.methods is not None and (speculation is None or speculation.method not in self.methods):
            return False
        return self.releases == ALL_RELEASES or (start.version is not None and start.version in self.releases)
