"""Metric pages read into samples: which series says what, by engine and version.

vLLM's own series carry the label `model_name`; series of the same name without it are somebody else's (a router's
`vllm:num_requests_running{server=...}`) and left out.  Ranks (label `engine`) and models of one process are summed;
the KV cache is the mean of the ranks', for each has its own.

Finished requests are those of every reason but `abort` and `error`: a client that hangs up or an engine that fails
says nothing of a request's length, and a storm of cancellations is no evidence.  One-token requests can only be
counted over all reasons (vLLM's histogram of lengths knows none), so that finished less one-token requests is a lower
bound where requests were cancelled before their second token.

llama.cpp counts no requests.  Predicted tokens / 200 stand in for finished requests and so for first tokens: decode
steps of answers shorter than 200 tokens come out too many by at most one a request.  No other counter helps:
n_decode_total counts batches of prompts and of steps alike (on the recorded pages it is predicted less accepted
tokens).  It prints totals with six digits but the positions in full, so accepted tokens are summed over the positions.

How well requests were served comes from histograms over the requests that ended.  Clients who hang up are in none of
vLLM V1's, nor in its `request_success` (vLLM issues 31503 and 55634), so that they are no failures.  What fails in
front of the engine shows as HTTP 5xx alone, on the same page (prometheus-fastapi-instrumentator), where the handler is
one that serves completions.  llama.cpp has the seconds and the tokens of answers and nothing else of this; its tokens
include first tokens and its seconds do not, which makes a token look faster by one part in an answer's length.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from specloop_engine.page import Page, PageError, Series, parse_page
from specloop_engine.sample import Dialect, Drafting, Sample, Served

VLLM_PREFIX = "vllm:"
LLAMACPP_PREFIX = "llamacpp:"
TEMPERATURE = "specloop_request_temperature_bucket"
PROCESS_START = "process_start_time_seconds"
HTTP_REQUESTS = "http_requests_total"
LIVE_GENERATION, LIVE_TOKENS = "specloop_live_generation", "specloop_live_tokens"
"""What the plugin exports of live control: which wish is in force, and K by number of requests."""
NOT_AN_ENGINES = frozenset({PROCESS_START, TEMPERATURE, HTTP_REQUESTS, LIVE_GENERATION, LIVE_TOKENS})
"""Series that any program may have."""

COMPLETIONS = (
    "/v1/completions",
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/messages",
    "/inference/v1/generate",
    "/generate",
    "/invocations",
)
"""Handlers of vLLM whose requests the engine serves."""

TOKENS_PER_REQUEST = 200.0
"""Predicted tokens of llama.cpp that stand in for one finished request."""

MOST_POSITIONS = 256
"""Positions of a draft that are read: five times what llama.cpp's n-gram lookup has by default.  Each is kept with
every sample of a window, so that without a limit one page of a pod is as good as another thousand pods."""

MOST_EDGES = 256
"""Edges of the histogram of temperatures that are read; the plugin's has 22.  Each is kept in the same way."""

NOT_FINISHED = frozenset({"abort", "error"})
"""Values of `finished_reason` that are no evidence."""

POSITIONS = "spec_decode_num_accepted_tokens_per_pos_total"
V0_RATE = "spec_decode_draft_acceptance_rate"

VLLM_NAMES = (
    "spec_decode_num_drafts_total",
    "spec_decode_num_draft_tokens_total",
    "spec_decode_num_accepted_tokens_total",
    POSITIONS,
    V0_RATE,
    "generation_tokens_total",
    "prompt_tokens_total",
    "request_success_total",
    "request_generation_tokens_bucket",
    "request_generation_tokens_count",
    "request_generation_tokens_sum",
    "request_decode_time_seconds_sum",
    "time_to_first_token_seconds_count",
    "time_to_first_token_seconds_sum",
    "iteration_tokens_total_count",
    "num_requests_running",
    "num_requests_waiting",
    "kv_cache_usage_perc",
    "gpu_cache_usage_perc",
    "prefix_cache_queries_total",
    "prefix_cache_hits_total",
    "gpu_prefix_cache_queries_total",
    "gpu_prefix_cache_hits_total",
    "num_preemptions_total",
)
LLAMACPP_NAMES = (
    "spec_decode_num_drafts_total",
    "spec_decode_num_draft_tokens_total",
    "spec_decode_num_accepted_tokens_total",
    POSITIONS,
    "tokens_predicted_total",
    "tokens_predicted_seconds_total",
    "prompt_tokens_total",
    "n_decode_total",
    "requests_processing",
    "requests_deferred",
)


@lru_cache(maxsize=32)
def wanted_series(prefix: str = VLLM_PREFIX) -> frozenset[str]:
    """Names of all series that a sample is read from."""
    vllm = {prefix + name for name in VLLM_NAMES}
    llamacpp = {LLAMACPP_PREFIX + name for name in LLAMACPP_NAMES}
    return frozenset(vllm | llamacpp | NOT_AN_ENGINES)


def read_sample(
    text: str | bytes,
    at: float,
    *,
    prefix: str = VLLM_PREFIX,
    process_start: float | None = None,
    incarnation: str | None = None,
) -> Sample:
    """Read what the engine process behind this page said at `at` (seconds since the epoch).

    `prefix` is what vLLM's names begin with (KServe's monitor: "kserve_vllm:").  `process_start` is used where the
    page does not say it.  Raises PageError for what is no page of metrics or cannot be read.
    """
    page = parse_page(text, wanted_series(prefix))
    return sample_of(page, at, prefix=prefix, process_start=process_start, incarnation=incarnation)


def sample_of(
    page: Page,
    at: float,
    *,
    prefix: str = VLLM_PREFIX,
    process_start: float | None = None,
    incarnation: str | None = None,
) -> Sample:
    """What the series of one process say, wherever they came from; labels that others add do not matter.

    As `read_sample`; raises PageError where the series contradict themselves.
    """
    sample = _vllm_sample(page, prefix, at) or _llamacpp_sample(page, at) or Sample(at, None)
    start = _process_start(page)
    return replace(
        sample,
        process_start=process_start if start is None else start,
        incarnation=incarnation,
        temperatures=_temperatures(page[TEMPERATURE]),
    )


@dataclass(frozen=True, slots=True)
class _Source:
    """The series of one engine on a page: those that begin with `prefix` and carry `label`."""

    page: Page
    prefix: str
    label: str | None = None

    def series(self, name: str) -> tuple[Series, ...]:
        found = self.page[self.prefix + name]
        return found if self.label is None else tuple(one for one in found if self.label in one.labels)

    def total(self, name: str) -> float | None:
        return _total(self.series(name))

    def total_of_either(self, name: str, old: str) -> float | None:
        """Under its name, else under the one that it had before."""
        return self.total(old) if (found := self.total(name)) is None else found

    def mean(self, name: str) -> float | None:
        found = self.series(name)
        return sum(one.value for one in found) / len(found) if found else None


def _total(series: Iterable[Series]) -> float | None:
    """The sum; None when there is nothing to add."""
    values = [one.value for one in series]
    return sum(values) if values else None


def _vllm_sample(page: Page, prefix: str, at: float) -> Sample | None:
    """What vLLM says; None when the page has no series of its own."""
    source = _Source(page, prefix, "model_name")
    own = [one for name in VLLM_NAMES for one in source.series(name)]
    if not own:
        return None
    dialect = _vllm_dialect(source, own)
    drafting = _v0_drafting(source) if dialect is Dialect.VLLM_V0 else _v1_drafting(source)
    finished = source.series("request_success_total")
    lengths = source.series("request_generation_tokens_bucket")
    return Sample(
        at,
        dialect,
        drafting=drafting,
        tokens=_live_tokens(page, _shown_tokens(drafting)),
        generation=_live_generation(page),
        generation_tokens=source.total("generation_tokens_total"),
        prompt_tokens=source.total("prompt_tokens_total"),
        finished_requests=_total(one for one in finished if one.labels.get("finished_reason") not in NOT_FINISHED),
        one_token_requests=_total(one for one in lengths if _edge(one) == 1.0),
        length_requests=_total(one for one in finished if one.labels.get("finished_reason") == "length"),
        first_tokens=source.total("time_to_first_token_seconds_count"),
        engine_steps=source.total("iteration_tokens_total_count"),
        running=source.total("num_requests_running"),
        waiting=source.total("num_requests_waiting"),
        kv_cache_percent=_vllm_kv_cache_percent(source),
        served=_vllm_served(source, finished),
    )


def _live_generation(page: Page) -> int | None:
    """Number of the wish in force; None without live control, or while it is as the engine was started."""
    found = [one.value for one in page[LIVE_GENERATION] if one.labels.get("side") == "applied"]
    return int(found[0]) if len(found) == 1 and found[0].is_integer() else None


def _live_tokens(page: Page, started: int | None) -> int | None:
    """K in force, the largest where it goes by the number of requests; what was started where nobody controls it."""
    found = [one.value for one in page[LIVE_TOKENS] if one.labels.get("side") == "applied"]
    return int(max(found)) if found and all(one.is_integer() for one in found) else started


def _vllm_served(source: _Source, finished: Sequence[Series]) -> Served:
    return Served(
        decode_seconds=source.total("request_decode_time_seconds_sum"),
        answer_tokens=source.total("request_generation_tokens_sum"),
        ended_requests=source.total("request_generation_tokens_count"),
        first_token_seconds=source.total("time_to_first_token_seconds_sum"),
        failed_requests=_total_where(finished, lambda labels: labels.get("finished_reason") in NOT_FINISHED),
        failed_responses=_failed_responses(source.page),
        cache_queries=source.total_of_either("prefix_cache_queries_total", "gpu_prefix_cache_queries_total"),
        cache_hits=source.total_of_either("prefix_cache_hits_total", "gpu_prefix_cache_hits_total"),
        preemptions=source.total("num_preemptions_total"),
    )


def _failed_responses(page: Page) -> float | None:
    own = [one for one in page[HTTP_REQUESTS] if one.labels.get("handler", COMPLETIONS[0]) in COMPLETIONS]
    return _total_where(own, lambda labels: labels.get("status", "").startswith("5"))


def _total_where(series: Sequence[Series], chosen: Callable[[Mapping[str, str]], bool]) -> float | None:
    """The sum over those whose labels are chosen, which may be none yet; None when there are no series at all."""
    return sum((one.value for one in series if chosen(one.labels)), 0.0) if series else None


def _vllm_dialect(source: _Source, own: Iterable[Series]) -> Dialect:
    """V1 counts drafts from 0.8.5 on and never has V0's gauge; with speculation off it has the label `engine`."""
    if source.series("spec_decode_num_drafts_total"):
        return Dialect.VLLM_V1
    if source.series(V0_RATE):
        return Dialect.VLLM_V0
    counts_tokens = source.series("spec_decode_num_draft_tokens_total")
    return Dialect.VLLM_V1 if counts_tokens or any("engine" in one.labels for one in own) else Dialect.VLLM_V0


def _v1_drafting(source: _Source) -> Drafting | None:
    """The counters; 0.8.3 and 0.8.4 have the totals of tokens alone."""
    draft_tokens = source.total("spec_decode_num_draft_tokens_total")
    accepted_tokens = source.total("spec_decode_num_accepted_tokens_total")
    drafts = source.total("spec_decode_num_drafts_total")
    if draft_tokens is None and accepted_tokens is None and drafts is None:
        return None
    return Drafting(drafts, draft_tokens, accepted_tokens, _positions(source.series(POSITIONS)))


def _v0_drafting(source: _Source) -> Drafting | None:
    """The gauge alone: V0's counters add a running total again and again."""
    rate = source.mean(V0_RATE)
    return None if rate is None else Drafting(lifetime_rate=rate)


def _shown_tokens(drafting: Drafting | None) -> int | None:
    if drafting is None:
        return 0
    return len(drafting.accepted_per_position) or None


def _vllm_kv_cache_percent(source: _Source) -> float | None:
    share = source.mean("kv_cache_usage_perc")
    if share is None:
        share = source.mean("gpu_cache_usage_perc")
    return None if share is None else 100.0 * share


def _llamacpp_sample(page: Page, at: float) -> Sample | None:
    """What llama.cpp says; None when the page has no series of its own."""
    source = _Source(page, LLAMACPP_PREFIX)
    if not any(source.series(name) for name in LLAMACPP_NAMES):
        return None
    drafting = _llamacpp_drafting(source)
    predicted = source.total("tokens_predicted_total")
    requests = None if predicted is None else predicted / TOKENS_PER_REQUEST
    return Sample(
        at,
        Dialect.LLAMACPP,
        shows_drafting=bool(source.series("spec_decode_num_draft_tokens_total")),
        drafting=drafting,
        tokens=None if drafting is None else _shown_tokens(drafting),
        generation_tokens=predicted,
        prompt_tokens=source.total("prompt_tokens_total"),
        finished_requests=requests,
        first_tokens=requests,
        engine_steps=source.total("n_decode_total"),
        running=source.total("requests_processing"),
        waiting=source.total("requests_deferred"),
        served=Served(decode_seconds=source.total("tokens_predicted_seconds_total"), answer_tokens=predicted),
    )


def _llamacpp_drafting(source: _Source) -> Drafting | None:
    """The counters once something was drafted: until then totals are 0 and positions absent, as when it is off."""
    drafts = source.total("spec_decode_num_drafts_total")
    draft_tokens = source.total("spec_decode_num_draft_tokens_total")
    accepted_tokens = source.total("spec_decode_num_accepted_tokens_total")
    positions = _positions(source.series(POSITIONS))
    if not positions and not (drafts or draft_tokens or accepted_tokens):
        return None
    return Drafting(drafts, draft_tokens, sum(positions) if positions else accepted_tokens, positions)


def _positions(series: Iterable[Series]) -> tuple[float, ...]:
    """Values by position, summed over ranks; the positions must be 0, 1, 2, ... without a gap."""
    values: dict[int, float] = {}
    last = 0
    for one in series:
        position = one.labels.get("position", "")
        if not re.fullmatch(r"[0-9]{1,4}", position):
            raise PageError(one.line, f"position {position[:20]!r} of {one.name} is no whole number below 10000")
        values[int(position)] = values.get(int(position), 0.0) + one.value
        last = one.line
    if len(values) > MOST_POSITIONS:
        raise PageError(last, f"{POSITIONS} has {len(values)} positions; {MOST_POSITIONS} are read at most")
    missing = next((place for place in range(len(values)) if place not in values), None)
    if missing is not None:
        raise PageError(last, f"{POSITIONS} has {len(values)} positions, but none is {missing}")
    return tuple(values[place] for place in range(len(values)))


def _temperatures(series: Iterable[Series]) -> tuple[tuple[float, float], ...]:
    """Cumulative counts by upper edge, summed over models, edges rising."""
    counts: dict[float, float] = {}
    for one in series:
        edge = _edge(one)
        counts[edge] = counts.get(edge, 0.0) + one.value
        if len(counts) > MOST_EDGES:
            raise PageError(one.line, f"{TEMPERATURE} has more than {MOST_EDGES} edges")
    return tuple(sorted(counts.items()))


def _edge(bucket: Series) -> float:
    """Upper edge of a histogram's bucket."""
    label = bucket.labels.get("le", "")
    try:
        edge = float(label)
    except ValueError:
        edge = math.nan
    if math.isnan(edge):
        raise PageError(bucket.line, f"le={label[:20]!r} of {bucket.name} is no upper edge")
    return edge


def _process_start(page: Page) -> float | None:
    """When the process started, the newest where a page holds several; None when it does not say."""
    starts = [one.value for one in page[PROCESS_START] if math.isfinite(one.value) and one.value > 0.0]
    return max(starts, default=None)
