"""What is known to go wrong with vLLM's speculative setting."""

from collections.abc import Iterable, Iterator

from specloop_engine.configuration import TABLE, TOKENS
from specloop_engine.failure import Failure, Harm, Start
from specloop_engine.flags import Form
from specloop_engine.releases import ALL_RELEASES, Releases, has_method, method_releases
from specloop_engine.vllm_flags import FORM_RELEASES
from specloop_policy.ladder import Method

DRAFT = frozenset({Method.DRAFT_MODEL})
NGRAM = frozenset({Method.NGRAM, Method.NGRAM_GPU})
FROM_A_FILE = DRAFT | {Method.EAGLE, Method.EAGLE3, Method.DFLASH, Method.MEDUSA, Method.MLP_SPECULATOR}
"""Drafters that are a model of their own."""
CONFIG = "vLLM 0.32.0, vllm/config/speculative.py"
TABLE_SOURCE = "vLLM 0.32.0, vllm/v1/spec_decode/dynamic/utils.py"
RELEASES = "vLLM's releases"
FIRST_FLAGS = {
    Form.JSON: "--speculative-config",
    Form.VARIABLE: "--speculative-config",
    Form.DOTTED: "--speculative-config.method",
    Form.SHORT: "--spec-method",
    Form.LEGACY: "--speculative-model",
}
"""The flag by which a release stops that does not know a form."""
KEYS_SINCE = {"draft_sample_method": (0, 21), TABLE: (0, 24), "enable_adaptive_verification": (0, 28)}


def _unexpected(key: str) -> str:
    return f"1 validation error for SpeculativeConfig: {key}: Unexpected keyword argument"


def _family_clash(start: Start) -> bool:
    return len(set(start.families)) == 2 and not start.get("use_heterogeneous_vocab")


def _draft_tensor_parallel_is_odd(start: Start) -> bool:
    size = start.number("draft_tensor_parallel_size")
    return None not in (size, start.tensor_parallel) and size not in (1, start.tensor_parallel)


def _is_indivisible(start: Start) -> bool:
    if start.tokens is None or not start.predicts:
        return False
    return start.tokens > start.predicts and start.tokens % start.predicts != 0


def _lookup_is_reversed(start: Start) -> bool:
    low, high = start.number("prompt_lookup_min"), start.number("prompt_lookup_max")
    return low is not None and high is not None and low > high


def _batch_is_small(start: Start) -> bool:
    if not start.lora or start.sequences is None or start.batched_tokens is None or start.tokens is None:
        return False
    return start.batched_tokens < start.sequences * (start.tokens + 1)


def _method_is_foreign(start: Start) -> bool:
    method = start.get("method")
    return isinstance(method, str) and method not in DRAFT and not has_method(start.version, method)


def _form_is_foreign(start: Start) -> bool:
    form = start.form or Form.ABSENT
    return start.version is not None and start.version not in FORM_RELEASES.get(form, ALL_RELEASES)


def table_fault(start: Start) -> str | None:
    """What vLLM says of a batch table that it refuses; None where it takes it."""
    table = start.get(TABLE)
    if table is None:
        return None
    if not isinstance(table, list) or not table:
        return f"{TABLE} must be a non-empty list of (range_start, range_end, num_speculative_tokens) entries."
    if not all(isinstance(row, list) and len(row) == 3 and all(type(one) is int for one in row) for row in table):
        return f"Each {TABLE} entry must be a 3-item sequence: (range_start, range_end, num_speculative_tokens)."
    return next(_row_faults(sorted(table)), None)


def _row_faults(table: Iterable[list[int]]) -> Iterator[str]:
    before = 0
    for first, last, tokens in table:
        if first <= 0 or last <= 0:
            yield f"Batch-size range ({first}, {last}) must be positive."
        if first > last:
            yield f"Batch-size range start must be <= end for ({first}, {last}, {tokens})."
        if tokens < 0:
            yield f"{TABLE} values must be >= 0."
        if first <= before:
            yield "Batch-size ranges must be non-overlapping and sorted."
        if before == 0 and first != 1:
            yield "The first batch-size range must start at 1 so every runtime batch size has a defined schedule."
        before = last


def _table_top(start: Start) -> int:
    """The largest K in the batch table, 0 without a table."""
    speculation = start.speculation
    return max((tokens for *_, tokens in speculation.table), default=0) if speculation else 0


def _rates_are_too_few(start: Start) -> bool:
    rates = start.get("synthetic_acceptance_rates")
    return isinstance(rates, list) and start.tokens is not None and len(rates) != start.tokens


VLLM_FAILURES = (
    Failure(
        "vocabulary-size",
        Harm.NO_START,
        lambda start: start.vocabularies_differ() and not start.get("use_heterogeneous_vocab"),
        lambda start: (
            "Target and draft model should have the same vocabulary size. Target model "
            f"vocab_size={start.target_vocabulary}. Draft model vocab_size={start.draft_vocabulary}. Using models with "
            "different tokenizers can cause out-of-bounds errors during speculative decoding."
        ),
        "choose a draft model with the target's vocabulary",
        CONFIG,
        DRAFT,
    ),
    Failure(
        "vocabulary-family",
        Harm.NO_START,
        _family_clash,
        lambda start: f"{start.target} and {start.draft} have different vocabularies ({' and '.join(start.families)})",
        "choose a draft model of the target's family",
        "the field report: Llama 3 with Qwen crashes",
        DRAFT,
    ),
    Failure(
        "heterogeneous-vocabulary-method",
        Harm.NO_START,
        lambda start: bool(start.get("use_heterogeneous_vocab")),
        "use_heterogeneous_vocab only works with method='draft_model'",
        "remove use_heterogeneous_vocab",
        CONFIG,
        frozenset(Method) - DRAFT,
    ),
    Failure(
        "heterogeneous-vocabulary-sampling",
        Harm.NO_START,
        lambda start: (
            bool(start.get("use_heterogeneous_vocab")) and start.get("draft_sample_method") == "probabilistic"
        ),
        "use_heterogeneous_vocab currently only supports greedy draft sampling. Set draft_sample_method='greedy' (the "
        "default) or omit it.",
        "remove draft_sample_method",
        CONFIG,
        DRAFT,
    ),
    Failure(
        "draft-tensor-parallel",
        Harm.NO_START,
        _draft_tensor_parallel_is_odd,
        lambda start: (
            f"speculative_draft_tensor_parallel_size={start.get('draft_tensor_parallel_size')} cannot be "
            "other value than 1 or target model tensor_parallel_size"
        ),
        lambda start: f"set draft_tensor_parallel_size to 1 or {start.tensor_parallel}",
        CONFIG,
        FROM_A_FILE | {Method.MTP, Method.DSPARK},
    ),
    Failure(
        "tensor-parallel-key",
        Harm.NO_START,
        lambda start: start.get("tensor_parallel_size") is not None,
        "'tensor_parallel_size' is not a valid argument in the speculative_config. Please pass "
        "'draft_tensor_parallel_size' instead.",
        "write draft_tensor_parallel_size",
        CONFIG,
    ),
    Failure(
        "indivisible-tokens",
        Harm.NO_START,
        _is_indivisible,
        lambda start: f"num_speculative_tokens:{start.tokens} must be divisible by n_predict={start.predicts}",
        lambda start: f"set K to {start.predicts} or less, or to a multiple of it",
        CONFIG,
        FROM_A_FILE | {Method.MTP},
    ),
    Failure(
        "tokens-not-positive",
        Harm.NO_START,
        lambda start: start.tokens is not None and start.tokens <= 0,
        "1 validation error for SpeculativeConfig: num_speculative_tokens: Input should be greater than 0",
        "turn speculation off by removing the setting, not by K = 0",
        CONFIG,
    ),
    Failure(
        "tokens-missing",
        Harm.NO_START,
        lambda start: start.get(TOKENS) is None,
        "num_speculative_tokens must be provided with speculative model unless the draft model config contains an "
        "n_predict parameter.",
        "add num_speculative_tokens",
        CONFIG,
        NGRAM,
    ),
    Failure(
        "model-missing",
        Harm.NO_START,
        lambda start: start.get("model") is None and start.tokens is not None,
        "num_speculative_tokens was provided but without speculative model.",
        "add the drafter's model",
        CONFIG,
        FROM_A_FILE,
    ),
    Failure(
        "lookup-order",
        Harm.NO_START,
        _lookup_is_reversed,
        lambda start: (
            f"prompt_lookup_min={start.get('prompt_lookup_min')} must be <= "
            f"prompt_lookup_max={start.get('prompt_lookup_max')}"
        ),
        "swap the two",
        CONFIG,
        NGRAM,
    ),
    Failure(
        "lookup-alone",
        Harm.NO_EFFECT,
        lambda start: (start.get("prompt_lookup_min") is None) != (start.get("prompt_lookup_max") is None),
        "of prompt_lookup_min and prompt_lookup_max one is copied from the other: only n-grams of one length are found",
        "set both prompt_lookup_min and prompt_lookup_max",
        CONFIG,
        NGRAM,
    ),
    Failure(
        "lora-batched-tokens",
        Harm.NO_START,
        _batch_is_small,
        "Consider increasing max_num_batched_tokens or decreasing num_speculative_tokens",
        lambda start: f"raise --max-num-batched-tokens to {(start.sequences or 0) * ((start.tokens or 0) + 1)}",
        "vLLM 0.32.0, vllm/engine/arg_utils.py",
    ),
    Failure(
        "logits-processors",
        Harm.NO_START,
        lambda start: start.config is not None and bool(start.logits_processors),
        "Custom logits processors are not supported when speculative decoding is enabled.",
        "serve without custom logits processors, or without speculation",
        "vLLM 0.32.0, vllm/v1/sample/logits_processor",
    ),
    Failure(
        "request-metrics",
        Harm.NO_START,
        lambda start: start.config is None and bool(start.request_metrics),
        "--per-request-spec-decode-metrics requires speculative decoding to be enabled (via --speculative-config).",
        "remove --per-request-spec-decode-metrics as well",
        "vLLM 0.32.0, vllm/config/vllm.py",
    ),
    Failure(
        "draft-model-release",
        Harm.NO_START,
        lambda start: not has_method(start.version, Method.DRAFT_MODEL),
        "Speculative decoding with draft model is not supported yet. Please consider using other speculative decoding "
        "methods such as ngram, medusa, eagle, or mtp.",
        f"{Method.DRAFT_MODEL} runs in {method_releases(Method.DRAFT_MODEL)}",
        RELEASES,
        DRAFT,
    ),
    Failure(
        "method-release",
        Harm.NO_START,
        _method_is_foreign,
        lambda start: (
            "1 validation error for SpeculativeConfig: method: Input should be a method of this release "
            f"[type=literal_error, input_value={start.get('method')!r}, input_type=str]"
        ),
        lambda start: f"{start.get('method')} runs in {method_releases(start.get('method'))}",
        RELEASES,
    ),
    Failure(
        "form-release",
        Harm.NO_START,
        _form_is_foreign,
        lambda start: f"unrecognized arguments: {FIRST_FLAGS[start.form or Form.ABSENT]}",
        lambda start: f"vLLM takes {start.form} in {FORM_RELEASES[start.form or Form.ABSENT]}",
        RELEASES,
    ),
    *(
        Failure(
            f"{key.replace('_', '-')}-release",
            Harm.NO_START,
            # `key` is bound now; the loop moves on.
            lambda start, key=key: start.get(key) is not None,  # type: ignore[misc]
            _unexpected(key),
            f"remove {key}, or use vLLM {'.'.join(map(str, since))} or later",
            RELEASES,
            releases=Releases(until=since),
        )
        for key, since in KEYS_SINCE.items()
    ),
    Failure(
        "batch-size-limit-gone",
        Harm.NO_START,
        lambda start: start.get("disable_by_batch_size") is not None,
        _unexpected("disable_by_batch_size"),
        "remove disable_by_batch_size",
        RELEASES,
        releases=Releases(since=(0, 17)),
    ),
    Failure(
        "batch-size-limit-idle",
        Harm.NO_EFFECT,
        lambda start: start.get("disable_by_batch_size") is not None,
        "this release does not look at disable_by_batch_size",
        "remove disable_by_batch_size",
        RELEASES,
        releases=Releases(since=(0, 10), until=(0, 17)),
    ),
    Failure(
        "batch-table",
        Harm.NO_START,
        lambda start: table_fault(start) is not None,
        lambda start: table_fault(start) or "",
        "give ranges from 1 on that do not overlap, such as [[1, 8, 5], [9, 256, 3]]",
        TABLE_SOURCE,
    ),
    Failure(
        "batch-table-cut",
        Harm.NO_EFFECT,
        lambda start: start.tokens is not None and _table_top(start) > start.tokens,
        lambda start: f"the table's K of {_table_top(start)} is cut to num_speculative_tokens, {start.tokens}",
        "raise num_speculative_tokens, or lower the table",
        TABLE_SOURCE,
    ),
    Failure(
        "batch-table-data-parallel",
        Harm.NO_EFFECT,
        lambda start: start.get(TABLE) is not None and (start.data_parallel or 1) > 1,
        lambda start: (
            "Dynamic speculative decoding is not supported with data parallelism because data-parallel ranks "
            "can select different speculative-token counts, causing DP divergence and deadlocks. Disabling "
            f"num_speculative_tokens_per_batch_size and falling back to static num_speculative_tokens={start.tokens}."
        ),
        "serve without data parallelism, or without a table and live control",
        "vLLM 0.32.0, vllm/config/vllm.py",
    ),
    Failure(
        "synthetic-rates",
        Harm.NO_START,
        _rates_are_too_few,
        lambda start: (
            f"synthetic_acceptance_rates must have length {start.tokens}, got "
            f"{start.get('synthetic_acceptance_rates')}."
        ),
        "give one rate for each of the K positions",
        CONFIG,
    ),
    Failure(
        "min-p-refused",
        Harm.OUTPUT,
        lambda start: start.config is not None and bool(start.min_p_or_logit_bias),
        "The min_p and logit_bias sampling parameters are not yet supported with speculative decoding.",
        "have clients leave out min_p and logit_bias (they get status 400), or serve without speculation",
        "vLLM 0.17, vllm/sampling_params.py",
        releases=Releases(since=(0, 17)),
    ),
    Failure(
        "grammar-with-ngram",
        Harm.OUTPUT,
        lambda start: bool(start.grammar),
        "n-gram drafts beside a grammar have ended in status 500 and in answers that were cut short",
        "use a draft model for structured output, and compare the lengths of answers",
        "vLLM issues 49694, 56077, 44297",
        NGRAM,
    ),
)
