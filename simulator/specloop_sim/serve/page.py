"""vLLM's `/metrics` page of a simulated engine: vLLM 0.32.0's names, labels, types, texts and rules of presence.

Speculation off: its series do not exist.  On: all are there at 0 from the start, with K positions.  What the model
has no notion of (caches, preemptions, adapters) stays at 0.  All times are the model's.
"""

from collections.abc import Iterator

import numpy as np
from prometheus_client.core import Metric

from specloop_engine.sample import Sample
from specloop_sim.engine import EngineModel
from specloop_sim.request import Finish, Finished, Request
from specloop_sim.serve.families import Labels, counter, gauge, histogram
from specloop_sim.serve.tally import Tally, one_two_five
from specloop_sim.timeline import Array

ITERATION_EDGES = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
TTFT_EDGES = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
TOKEN_TIME_EDGES = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
REQUEST_TIME_EDGES = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
PREEMPTION_EDGES = (1, 2, 3, 4, 5, 10, 20)
BLOCK_TOKENS = 16
FINISHED_REASONS = ("stop", "length", "abort", "error", "repetition")


class Tallies:
    """The histograms of one engine, counted as things happen (an engine's `Watcher`)."""

    def __init__(self, max_model_len: int) -> None:
        tokens = one_two_five(max_model_len)
        self.prompt = Tally(tokens)
        self.generation = Tally(tokens)
        self.max_tokens = Tally(tokens)
        self.n = Tally((1, 2, 5, 10, 20))
        self.iteration = Tally(ITERATION_EDGES)
        self.ttft = Tally(TTFT_EDGES)
        self.inter_token = Tally(TOKEN_TIME_EDGES)
        self.per_output_token = Tally(TOKEN_TIME_EDGES)
        self.e2e = Tally(REQUEST_TIME_EDGES)
        self.queue = Tally(REQUEST_TIME_EDGES)
        self.inference = Tally(REQUEST_TIME_EDGES)
        self.prefill = Tally(REQUEST_TIME_EDGES)
        self.decode = Tally(REQUEST_TIME_EDGES)
        self.preemptions = Tally(PREEMPTION_EDGES)

    def first_token(self, request: Request, seconds: float) -> None:
        """A first token came out."""
        self.ttft.observe(seconds)

    def steps(self, seconds: Array, tokens: Array, decoding: Array) -> None:
        """Steps are over: every request that one decoded waited for it."""
        self.iteration.observe_all(tokens, np.ones(len(tokens)))
        self.inter_token.observe_all(seconds, decoding)

    def finished(self, finished: Finished) -> None:
        """A request is over; one whose client has gone is in none of vLLM's figures of requests."""
        if finished.finish is Finish.ABORT:
            return
        request = finished.request
        self.prompt.observe(request.prompt_tokens)
        self.generation.observe(finished.tokens)
        self.max_tokens.observe(request.max_tokens or request.output_tokens)
        self.n.observe(1)
        self.preemptions.observe(0)
        self.e2e.observe(finished.e2e_seconds)
        self.per_output_token.observe(finished.tpot_seconds)
        admitted = finished.end if finished.admitted is None else finished.admitted
        first = finished.end if finished.first_token is None else finished.first_token
        self.queue.observe(admitted - request.arrival)
        self.inference.observe(finished.end - admitted)
        self.prefill.observe(first - admitted)
        self.decode.observe(finished.end - first)


class EnginePage:
    """The `vllm:*` families of one engine; `tallies` must be its watcher."""

    def __init__(self, engine: EngineModel, tallies: Tallies, model_name: str) -> None:
        self._engine = engine
        self._tallies = tallies
        self._model = {"model_name": model_name}
        self._own = {"engine": "0", **self._model}

    def families(self, at: float) -> Iterator[Metric]:
        """The families at `at`, in vLLM's order; runs the engine up to then."""
        sample = self._engine.sample(at)
        yield from self._speculation(sample)
        yield from self._zeros(
            ("estimated_flops_per_gpu", f"Estimated number of floating point operations per GPU {_FOR_MFU}"),
            ("estimated_read_bytes_per_gpu", f"Estimated number of bytes read from memory per GPU {_FOR_MFU}"),
            ("estimated_write_bytes_per_gpu", f"Estimated number of bytes written to memory per GPU {_FOR_MFU}"),
        )
        yield from self._load(sample)
        yield from self._zeros(*_CACHES, ("num_preemptions", "Cumulative number of preemption from the engine."))
        yield from self._tokens(sample)
        yield from self._requests()
        yield from self._histograms()
        yield self._cache_config()

    def _speculation(self, sample: Sample) -> Iterator[Metric]:
        drafting = sample.drafting
        if drafting is None:
            return
        yield self._counter("spec_decode_num_drafts", "Number of spec decoding drafts.", drafting.drafts)
        yield self._counter("spec_decode_num_draft_tokens", "Number of draft tokens.", drafting.draft_tokens)
        yield self._counter("spec_decode_num_accepted_tokens", "Number of accepted tokens.", drafting.accepted_tokens)
        yield self._split(
            "spec_decode_num_accepted_tokens_per_pos",
            "Accepted tokens per draft position.",
            "position",
            {str(place): accepted for place, accepted in enumerate(drafting.accepted_per_position)},
        )

    def _load(self, sample: Sample) -> Iterator[Metric]:
        waiting = sample.waiting or 0.0
        yield self._gauge("num_requests_running", "Number of requests in model execution batches.", sample.running)
        yield self._gauge("num_requests_waiting", "Number of requests waiting to be processed.", waiting)
        yield gauge(
            "vllm:num_requests_waiting_by_reason",
            _BY_REASON,
            self._labelled("reason", {"capacity": waiting, "deferred": 0.0}),
        )
        yield gauge(
            "vllm:engine_sleep_state",
            _SLEEP_STATE,
            self._labelled("sleep_state", {"awake": 1.0, "weights_offloaded": 0.0, "discard_all": 0.0}),
        )
        used = (sample.kv_cache_percent or 0.0) / 100.0
        yield self._gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", used)

    def _tokens(self, sample: Sample) -> Iterator[Metric]:
        prompt = sample.prompt_tokens or 0.0
        yield self._counter("prompt_tokens", "Number of prefill tokens processed.", prompt)
        yield self._split(
            "prompt_tokens_by_source",
            "Number of prompt tokens by source.",
            "source",
            {"local_compute": prompt, "local_cache_hit": 0.0, "external_kv_transfer": 0.0},
        )
        yield self._counter("prompt_tokens_cached", "Number of cached prompt tokens (local + external).", 0.0)
        tiers = ("device", "host", "p2p", "disk", "external_unspecified")
        yield self._split("prompt_tokens_cached_by_source", _CACHED_BY_TIER, "source", dict.fromkeys(tiers, 0.0))
        yield self._counter("generation_tokens", "Number of generation tokens processed.", sample.generation_tokens)

    def _requests(self) -> Iterator[Metric]:
        # vLLM never counts a client's abort (its issues 31503 and 55634).
        ended = self._engine.counters.finished
        counted = {str(finish): float(ended[finish]) for finish in (Finish.STOP, Finish.LENGTH)}
        yield self._split(
            "request_success",
            "Count of successfully processed requests.",
            "finished_reason",
            {reason: counted.get(reason, 0.0) for reason in FINISHED_REASONS},
        )
        reasons = ("max_num_queued_reqs", "max_num_queued_tokens")
        yield counter(
            "vllm:admission_rejections",
            "Number of admission attempts rejected by a queue limit, by reason.",
            [({**self._model, "reason": reason}, 0.0) for reason in reasons],
            self._engine.started,
        )

    def _histograms(self) -> Iterator[Metric]:
        tallies = self._tallies
        for name, documentation, tally in (
            ("request_prompt_tokens", "Number of prefill tokens processed.", tallies.prompt),
            ("request_generation_tokens", "Number of generation tokens processed.", tallies.generation),
            ("iteration_tokens_total", "Histogram of number of tokens per engine_step.", tallies.iteration),
            # vLLM takes the largest over the choices of a request; here each has one.
            ("request_max_num_generation_tokens", _MOST_TOKENS, tallies.generation),
            ("request_params_n", "Histogram of the n request parameter.", tallies.n),
            ("request_params_max_tokens", "Histogram of the max_tokens request parameter.", tallies.max_tokens),
            ("time_to_first_token_seconds", "Histogram of time to first token in seconds.", tallies.ttft),
            ("inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", tallies.inter_token),
            ("request_time_per_output_token_seconds", _PER_OUTPUT_TOKEN, tallies.per_output_token),
            ("e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", tallies.e2e),
            ("request_queue_time_seconds", _TIME_SPENT.format("WAITING"), tallies.queue),
            ("request_inference_time_seconds", _TIME_SPENT.format("RUNNING"), tallies.inference),
            ("request_prefill_time_seconds", _TIME_SPENT.format("PREFILL"), tallies.prefill),
            ("request_decode_time_seconds", _TIME_SPENT.format("DECODE"), tallies.decode),
            ("request_num_preemptions", _PREEMPTIONS, tallies.preemptions),
            ("request_prefill_kv_computed_tokens", _COMPUTED, tallies.prompt),
        ):
            yield histogram("vllm:" + name, documentation, [(self._own, tally)], self._engine.started)

    def _cache_config(self) -> Metric:
        engine = self._engine
        sizes = {
            "block_size": str(BLOCK_TOKENS),
            "effective_attention_block_size": str(BLOCK_TOKENS),
            "num_gpu_blocks": str(engine.kv_tokens // BLOCK_TOKENS),
            "kv_cache_size_tokens": str(engine.kv_tokens),
            "kv_cache_max_concurrency": str(round(engine.kv_tokens / engine.max_model_len, 2)),
            "kv_cache_memory_bytes": str(int(engine.profile.kv_bytes)),
        }
        documentation = "Information of the LLMEngine CacheConfig"
        return gauge("vllm:cache_config_info", documentation, [({"engine": "0", **_CACHE_CONFIG, **sizes}, 1.0)])

    def _zeros(self, *families: tuple[str, str]) -> Iterator[Metric]:
        return (self._counter(name, documentation, 0.0) for name, documentation in families)

    def _counter(self, name: str, documentation: str, value: float | None) -> Metric:
        return counter("vllm:" + name, documentation, [(self._own, value or 0.0)], self._engine.started)

    def _gauge(self, name: str, documentation: str, value: float | None) -> Metric:
        return gauge("vllm:" + name, documentation, [(self._own, value or 0.0)])

    def _split(self, name: str, documentation: str, label: str, values: dict[str, float]) -> Metric:
        return counter("vllm:" + name, documentation, self._labelled(label, values), self._engine.started)

    def _labelled(self, label: str, values: dict[str, float]) -> list[tuple[Labels, float]]:
        return [({**self._own, label: name}, value) for name, value in values.items()]


_FOR_MFU = "(for Model Flops Utilization calculations)."
_BY_REASON = (
    "Number of waiting requests by reason. Reason labels: 'capacity' = waiting for scheduling capacity; 'deferred' = "
    "deferred by transient constraints (LoRA budget, KV transfer, blocked status). Sum of all reasons equals "
    "vllm:num_requests_waiting."
)
_SLEEP_STATE = (
    "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake; weights_offloaded = 1 "
    "means sleep level 1; discard_all = 1 means sleep level 2."
)
_CACHES = (
    ("prefix_cache_queries", "Prefix cache queries, in terms of number of queried tokens."),
    ("prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens."),
    (
        "external_prefix_cache_queries",
        "External prefix cache queries from KV connector cross-instance cache sharing, in terms of number of queried "
        "tokens.",
    ),
    (
        "external_prefix_cache_hits",
        "External prefix cache hits from KV connector cross-instance cache sharing, in terms of number of cached "
        "tokens.",
    ),
    ("mm_cache_queries", "Multi-modal cache queries, in terms of number of queried items."),
    ("mm_cache_hits", "Multi-modal cache hits, in terms of number of cached items."),
)
_CACHED_BY_TIER = (
    "Prefix-cache hit tokens by the cache tier that supplied them: device (local HBM), host (offloaded to DRAM), disk, "
    "p2p (transferred from another vLLM instance) or external_unspecified. Counted at admission; sums to "
    "vllm:prefix_cache_hits + vllm:external_prefix_cache_hits."
)
_MOST_TOKENS = "Histogram of maximum number of requested generation tokens."
_PER_OUTPUT_TOKEN = "Histogram of time_per_output_token_seconds per request."
_TIME_SPENT = "Histogram of time spent in {} phase for request."
_PREEMPTIONS = "Histogram of the number of times a request was preempted."
_COMPUTED = "Histogram of new KV tokens computed during prefill (excluding cached tokens)."
_CACHE_CONFIG = {
    "_block_size_resolved": "True",
    "cache_dtype": "auto",
    "cache_hit_alignment_tokens": "None",
    "enable_mamba_shared_prefix_checkpoint": "False",
    "enable_prefix_caching": "False",
    "gpu_memory_utilization": "0.92",
    "hash_block_size": "None",
    "is_attention_free": "False",
    "kv_cache_dtype_skip_layers": "[]",
    "kv_cache_layout": "None",
    "kv_offloading_backend": "native",
    "kv_offloading_size": "None",
    "kv_sharing_fast_prefill": "False",
    "mamba_block_size": "None",
    "mamba_cache_dtype": "auto",
    "mamba_cache_mode": "none",
    "mamba_page_size_padded": "None",
    "mamba_ssm_cache_dtype": "auto",
    "num_cpu_blocks": "None",
    "num_gpu_blocks_override": "None",
    "prefix_cache_retention_interval": "0",
    "prefix_caching_hash_algo": "sha256",
    "prefix_match_unit": "None",
    "replayssm_buffer_len": "16",
    "skip_page_size_padded": "None",
    "sliding_window": "None",
    "swa_bounded_replay": "True",
    "use_kda_recoverssm": "False",
    "use_replayssm": "False",
    "user_specified_block_size": "False",
}
