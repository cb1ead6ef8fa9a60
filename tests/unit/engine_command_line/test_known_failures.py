"""Each known failure is found where it is known, and nowhere else."""

from dataclasses import replace
from typing import Any

import pytest

from specloop_engine.command_line import read
from specloop_engine.failure import Harm, Start
from specloop_engine.flags import Form
from specloop_engine.known_failures import FAILURES, known_failures, start_of
from specloop_engine.vocabulary import vocabulary_family
from specloop_policy.engine import Engine
from tests.unit.engine_command_line.levels import DRAFT_JSON

K = "num_speculative_tokens"
TABLE = "num_speculative_tokens_per_batch_size"
DRAFT = {"method": "draft_model", "model": "org/draft", K: 5}
EAGLE = {"method": "eagle3", "model": "org/head", K: 3}
NGRAM = {"method": "ngram", K: 4, "prompt_lookup_max": 4, "prompt_lookup_min": 2}
MTP = {"method": "mtp", K: 3}


def vllm(config: dict[str, Any] | None, **known: Any) -> Start:
    return Start(Engine.VLLM, config, **known)


def llama(config: dict[str, Any] | None, **known: Any) -> Start:
    return Start(Engine.LLAMACPP, config, **known)


def found(start: Start) -> dict[str, str]:
    return {finding.name: finding.message for finding in known_failures(start)}


DRAFT_FLAGS = {"--spec-type": "draft-simple", "--spec-draft-model": "d.gguf", "--spec-draft-n-max": 4}
NGRAM_FLAGS = {"--spec-type": "ngram-simple", "--spec-ngram-simple-size-n": 2, "--spec-ngram-simple-size-m": 4}
FAILING = [
    ("vocabulary-size", vllm(DRAFT, target_vocabulary=152064, draft_vocabulary=151936), "vocab_size=152064. Draft"),
    (
        "vocabulary-family",
        vllm({**DRAFT, "model": "Qwen/Qwen2.5-1.5B"}, target="meta/Llama-3.1-70B"),
        "Llama 3 and Qwen",
    ),
    ("heterogeneous-vocabulary-method", vllm({**EAGLE, "use_heterogeneous_vocab": True}), "only works with"),
    (
        "heterogeneous-vocabulary-sampling",
        vllm({**DRAFT, "use_heterogeneous_vocab": True, "draft_sample_method": "probabilistic"}),
        "only supports greedy",
    ),
    ("draft-tensor-parallel", vllm({**DRAFT, "draft_tensor_parallel_size": 2}, tensor_parallel=4), "_size=2 cannot"),
    ("tensor-parallel-key", vllm({**DRAFT, "tensor_parallel_size": 2}), "'draft_tensor_parallel_size' instead"),
    ("indivisible-tokens", vllm(MTP, predicts=2), "num_speculative_tokens:3 must be divisible by n_predict=2"),
    ("tokens-not-positive", vllm({**DRAFT, K: 0}), "greater than 0"),
    ("tokens-missing", vllm({"method": "ngram"}), "num_speculative_tokens must be provided"),
    ("model-missing", vllm({"method": "eagle", K: 2}), "without speculative model"),
    ("lookup-order", vllm({**NGRAM, "prompt_lookup_min": 5}), "prompt_lookup_min=5 must be <= prompt_lookup_max=4"),
    ("lookup-alone", vllm({"method": "ngram", K: 4, "prompt_lookup_max": 4}), "copied"),
    ("lora-batched-tokens", vllm(DRAFT, lora=True, batched_tokens=1000, sequences=256), "increasing max_num_batched"),
    ("logits-processors", vllm(NGRAM, logits_processors=True), "Custom logits processors are not supported"),
    ("request-metrics", vllm(None, request_metrics=True), "requires speculative decoding to be enabled"),
    ("draft-model-release", vllm(DRAFT, version=(0, 12, 0)), "draft model is not supported yet"),
    ("method-release", vllm({"method": "dspark", K: 5}, version=(0, 24, 0)), "literal_error"),
    ("form-release", vllm(DRAFT, version=(0, 8, 3), form=Form.LEGACY), "unrecognized arguments: --speculative-model"),
    ("draft-sample-method-release", vllm({**DRAFT, "draft_sample_method": "greedy"}, version=(0, 20, 0)), "Unexpected"),
    (f"{TABLE.replace('_', '-')}-release", vllm({**DRAFT, TABLE: [[1, 9, 5]]}, version=(0, 23, 0)), "Unexpected"),
    (
        "enable-adaptive-verification-release",
        vllm({**DRAFT, "enable_adaptive_verification": True}, version=(0, 27, 0)),
        "Unexpected",
    ),
    ("batch-size-limit-gone", vllm({**NGRAM, "disable_by_batch_size": 9}, version=(0, 17, 0)), "Unexpected keyword"),
    ("batch-size-limit-idle", vllm({**NGRAM, "disable_by_batch_size": 9}, version=(0, 16, 0)), "not look at"),
    ("batch-table", vllm({**DRAFT, TABLE: [[2, 9, 5]]}), "must start at 1"),
    ("batch-table", vllm({**DRAFT, TABLE: [[1, 9, 5], [9, 12, 3]]}), "non-overlapping"),
    ("batch-table", vllm({**DRAFT, TABLE: [[1, 9]]}), "3-item sequence"),
    ("batch-table", vllm({**DRAFT, TABLE: []}), "non-empty"),
    ("batch-table", vllm({**DRAFT, TABLE: [[1, 9, -1]]}), ">= 0"),
    ("batch-table", vllm({**DRAFT, TABLE: [[9, 1, 3]]}), "start must be <= end"),
    ("batch-table", vllm({**DRAFT, TABLE: [[0, 1, 3]]}), "must be positive"),
    ("batch-table-cut", vllm({**DRAFT, TABLE: [[1, 9, 8]]}), "K of 8 is cut to num_speculative_tokens, 5"),
    (
        "batch-table-data-parallel",
        vllm({**DRAFT, TABLE: [[1, 9, 5]]}, data_parallel=2),
        "static num_speculative_tokens",
    ),
    ("synthetic-rates", vllm({**DRAFT, "synthetic_acceptance_rates": [0.5]}), "must have length 5, got [0.5]"),
    ("min-p-refused", vllm(NGRAM, version=(0, 17, 0), min_p_or_logit_bias=True), "min_p and logit_bias"),
    ("grammar-with-ngram", vllm(NGRAM, grammar=True), "cut short"),
    ("vocabulary-size", llama(DRAFT_FLAGS, target_vocabulary=1000, draft_vocabulary=1129), "not compatible"),
    (
        "vocabulary-family",
        llama({**DRAFT_FLAGS, "--spec-draft-model": "/m/qwen2.5-0.5b-q8_0.gguf"}, target="/m/llama-3.1-8b.gguf"),
        "not compatible",
    ),
    ("draft-model-missing", llama({"--spec-type": "draft-simple"}), "draft-simple requires a draft context"),
    ("draft-model-idle", llama({"--spec-type": "none", "--spec-draft-model": "d.gguf"}), "d.gguf is loaded"),
    ("ngram-never-drafts", llama({**NGRAM_FLAGS, "--spec-ngram-simple-size-m": 1}), "never any"),
    ("zero-drafts", llama({**DRAFT_FLAGS, "--spec-draft-n-max": 0}), "one token a step"),
    ("forced-acceptance", llama(None, forced_acceptance=True), "initialized speculative decoding context"),
    ("forced-rates", llama(DRAFT_FLAGS, forced_rates=2), "must contain 4 values, got 2"),
    (
        "draft-max-removed",
        llama({"--spec-draft-model": "d", "--draft-max": 5}, version=(11434,)),
        "use --spec-draft-n-max",
    ),
]


@pytest.mark.parametrize(("name", "start", "words"), FAILING)
def test_a_known_failure_is_found_in_the_engines_words(name: str, start: Start, words: str) -> None:
    assert words in found(start)[name]


def test_every_row_is_tried() -> None:
    rows = {(engine, row.name) for engine, table in FAILURES.items() for row in table}
    assert {(start.engine, name) for name, start, _ in FAILING} == rows


def test_every_row_has_a_source_and_a_mend() -> None:
    for _, start, _ in FAILING:
        for finding in known_failures(start):
            assert finding.source
            assert finding.mend
            assert finding.harm in Harm


@pytest.mark.parametrize(
    "start",
    [
        *(vllm(config) for config in (None, DRAFT, EAGLE, NGRAM, MTP)),
        *(llama(config) for config in (None, DRAFT_FLAGS, NGRAM_FLAGS)),
        vllm(DRAFT, target_vocabulary=128256, draft_vocabulary=128256),
        vllm(DRAFT, target_vocabulary=128256),
        vllm({**DRAFT, "use_heterogeneous_vocab": True}, target_vocabulary=128256, draft_vocabulary=151936),
        vllm({**DRAFT, "draft_tensor_parallel_size": 4}, tensor_parallel=4),
        vllm({**DRAFT, "draft_tensor_parallel_size": 2}),
        vllm({**MTP, K: 4}, predicts=2),
        vllm({**MTP, K: 1}, predicts=2),
        vllm(DRAFT, lora=True, batched_tokens=1536, sequences=256),
        vllm(DRAFT, version=(0, 15, 0)),
        vllm({**DRAFT, TABLE: [[1, 8, 5], [9, 64, 0]]}, data_parallel=1, version=(0, 24, 0)),
        vllm({"model": 5, K: "x"}),
        llama(DRAFT_FLAGS, target_vocabulary=1000, draft_vocabulary=1128),
        llama(DRAFT_FLAGS, forced_acceptance=True),
    ],
)
def test_what_is_not_known_to_fail_makes_no_finding(start: Start) -> None:
    assert known_failures(start) == []


def test_an_unknown_release_makes_no_finding_that_depends_on_it() -> None:
    for name, start, _ in FAILING:
        if start.version is not None:
            assert name not in found(replace(start, version=None))


@pytest.mark.parametrize(
    ("target", "draft", "same"),
    [
        # The pairs of the field report.
        ("meta-llama/Llama-3.1-70B-Instruct", "meta-llama/Llama-3.1-8B-Instruct", True),
        ("meta-llama/Llama-3.1-70B-Instruct", "meta-llama/Llama-3.2-3B-Instruct", True),
        ("Qwen/Qwen2.5-72B-Instruct", "Qwen/Qwen2.5-1.5B-Instruct", True),
        ("Qwen/Qwen2.5-72B-Instruct", "Qwen/Qwen2.5-7B-Instruct", True),
        ("deepseek-ai/deepseek-coder-33b-instruct", "deepseek-ai/deepseek-coder-1.3b-instruct", True),
        ("meta-llama/Meta-Llama-3-8B", "Qwen/Qwen2.5-0.5B", False),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "meta-llama/Llama-3.2-1B", None),
    ],
)
def test_families_are_known_by_name(target: str, draft: str, same: bool | None) -> None:
    families = vocabulary_family(target), vocabulary_family(draft)
    assert same is None or (None not in families and (families[0] == families[1]) is same)


@pytest.mark.parametrize(
    "name", [None, "", "mistralai/Mistral-7B", "org/open_llama_3b", "huggyllama/llama-30b", "Qwen/Qwen3.5-9B"]
)
def test_other_names_tell_of_no_family(name: str | None) -> None:
    assert vocabulary_family(name) is None


def test_a_command_line_says_what_it_knows_of_the_start() -> None:
    line = read(
        ["vllm", "serve", "meta/Llama-3.1-8B", "--speculative-config", DRAFT_JSON],
        [
            "-tp",
            "4",
            "--enable-lora",
            "--max-num-seqs=256",
            "--max-num-batched-tokens",
            "1024",
            "--logits-processors=a:B",
        ],
        version="0.32.0",
    )
    start = start_of(line)
    assert (start.target, start.tensor_parallel, start.data_parallel) == ("meta/Llama-3.1-8B", 4, 1)
    assert set(found(start)) == {"lora-batched-tokens", "logits-processors"}


def test_flags_that_need_a_setting_are_found_while_it_is_off() -> None:
    assert set(found(start_of(read(["vllm", "serve", "m", "--per-request-spec-decode-metrics", "summary"])))) == {
        "request-metrics"
    }
    assert set(found(start_of(read(["llama-server", "-m", "t", "--spec-synth-len", "2"])))) == {"forced-acceptance"}
