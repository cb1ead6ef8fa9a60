"""Figures that others measured and published, as they stand there; nothing in this file is ours."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SingleStream:
    """One row of a table at batch 1: constant acceptance, K, draft step per target step, and two speed-ups."""

    task: str
    tokens: int
    acceptance: float
    draft_cost: float
    expected: float
    """What the paper's own formula expects."""
    measured: float


# A. Leviathan et al. 2023, table 4: T5-XXL on TPU-v4, batch 1; task, draft model, temperature.
LEVIATHAN = (
    SingleStream("EnDe, T5-small, T=0", 7, 0.75, 0.02, 3.2, 3.4),
    SingleStream("EnDe, T5-base, T=0", 7, 0.80, 0.04, 3.3, 2.8),
    SingleStream("EnDe, T5-large, T=0", 7, 0.82, 0.11, 2.5, 1.7),
    SingleStream("EnDe, T5-small, T=1", 7, 0.62, 0.02, 2.3, 2.6),
    SingleStream("EnDe, T5-base, T=1", 5, 0.68, 0.04, 2.4, 2.4),
    SingleStream("EnDe, T5-large, T=1", 3, 0.71, 0.11, 2.0, 1.4),
    SingleStream("CNNDM, T5-small, T=0", 5, 0.65, 0.02, 2.4, 3.1),
    SingleStream("CNNDM, T5-base, T=0", 5, 0.73, 0.04, 2.6, 3.0),
    SingleStream("CNNDM, T5-large, T=0", 3, 0.74, 0.11, 2.0, 2.2),
    SingleStream("CNNDM, T5-small, T=1", 5, 0.53, 0.02, 1.9, 2.3),
    SingleStream("CNNDM, T5-base, T=1", 3, 0.55, 0.04, 1.8, 2.2),
    SingleStream("CNNDM, T5-large, T=1", 3, 0.56, 0.11, 1.6, 1.7),
)


@dataclass(frozen=True, slots=True)
class DraftLength:
    """A drafter at one K and batch 1."""

    tokens: int
    acceptance_length: float
    milliseconds_per_token: float


# B. vLLM issue 20780: Llama-3.1-8B, MT-Bench, batch 1.
DRAFT_LENGTHS = {
    "EAGLE": (
        DraftLength(2, 2.10, 4.37),
        DraftLength(3, 2.29, 4.29),
        DraftLength(4, 2.39, 4.48),
        DraftLength(5, 2.43, 4.71),
        DraftLength(6, 2.45, 4.94),
        DraftLength(7, 2.47, 5.20),
    ),
    "EAGLE-3": (
        DraftLength(2, 2.36, 4.32),
        DraftLength(3, 2.79, 4.09),
        DraftLength(4, 3.08, 4.05),
        DraftLength(5, 3.32, 4.13),
        DraftLength(6, 3.46, 4.20),
        DraftLength(7, 3.54, 4.29),
    ),
}
PLAIN_MILLISECONDS = 7.07
"""A token without speculation in the same issue."""

# C. vLLM pull request 32374: EAGLE on Llama-3.1-8B.
SURVIVAL = (0.681, 0.391, 0.204, 0.101, 0.051)
STEP_TOKENS = (0, 1, 3, 5)
STEP_MILLISECONDS = {
    1: (6.52, 7.37, 8.84, 10.33),
    4: (6.60, 7.47, 8.98, 10.40),
    16: (6.90, 7.85, 9.52, 11.20),
    64: (7.77, 9.66, 13.50, 16.83),
    256: (14.49, 27.14, 41.85, 57.40),
}
"""One step by batch, at each K of STEP_TOKENS."""
BEST_TOKENS = {1: 3, 4: 3, 16: 3, 64: 1, 256: 0}
CHOSEN_TOKENS = {1: 3, 16: 3, 64: 2, 256: 0}
"""The schedule that the author of the pull request set by hand: 1-16: 3, 64-128: 2, 256-4096: 0 (2026-05-14)."""

# D. EAGLE-3 paper, table 3: SGLang, one H100, Llama-3.1-8B, a chain of 3; throughput over none.
BATCHES = (2, 4, 8, 16, 24, 32, 48, 56, 64)
THROUGHPUT_GAINS = {
    "EAGLE": (1.40, 1.38, 1.23, 1.02, 0.93, 0.94, 0.88, 0.99, 0.99),
    "EAGLE-3": (1.81, 1.82, 1.62, 1.48, 1.39, 1.32, 1.38, 1.34, 1.38),
}
CHAIN_TOKENS = 3


@dataclass(frozen=True, slots=True)
class Heated:
    """Acceptance lengths of one drafter at two temperatures."""

    model: str
    cold_length: float
    hot_length: float


# E. EAGLE-3 paper, table 1, acceptance length at T=0 and T=1.
HEATED = (
    Heated("Vicuna-13B, EAGLE-2", 4.83, 4.41),
    Heated("Vicuna-13B, EAGLE-3", 6.62, 5.67),
    Heated("Llama-3.1-8B, EAGLE-3", 6.23, 4.92),
    Heated("Llama-3.3-70B, EAGLE-3", 5.88, 5.66),
    Heated("R1-Distill-8B, EAGLE-3", 5.84, 4.89),
)

# F. Spec-Bench: prompt lookup, Vicuna-7B, batch 1, temperature 0; speed-up by task.
LOOKUP_SPEEDUPS = {
    "translation": 1.06,
    "question answering": 1.19,
    "chat": 1.60,
    "maths": 1.62,
    "retrieval": 1.86,
    "summarisation": 2.66,
}
