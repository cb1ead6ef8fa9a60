"""What pods of an engine count, request by request."""

from dataclasses import dataclass

from specloop_engine.sample import Dialect, Sample, Served


@dataclass
class Engine:
    """One engine process that serves requests and says what it counts, as vLLM does; failures have no tokens."""

    start: float = 100.0
    """When the process started, seconds since the epoch."""
    requests: float = 0.0
    probes: float = 0.0
    """Requests of one token."""
    failed: float = 0.0
    tokens: float = 0.0
    decode_seconds: float = 0.0
    running: float = 4.0

    def serve(self, requests: float, *, tokens: float = 101.0, seconds: float = 0.010) -> None:
        """Answer so many requests of `tokens` tokens, each token after the first in `seconds`."""
        self.requests += requests
        self.tokens += requests * tokens
        self.decode_seconds += requests * (tokens - 1.0) * seconds

    def sample(self, at: float) -> Sample:
        """What it says now."""
        ended = self.requests + self.probes
        return Sample(
            at=at,
            dialect=Dialect.VLLM_V1,
            process_start=self.start,
            tokens=0,
            generation_tokens=self.tokens + self.probes,
            prompt_tokens=500.0 * ended,
            finished_requests=ended,
            one_token_requests=self.probes,
            length_requests=0.0,
            first_tokens=ended,
            running=self.running,
            served=Served(
                decode_seconds=self.decode_seconds,
                answer_tokens=self.tokens + self.probes,
                ended_requests=ended,
                first_token_seconds=0.2 * ended,
                failed_requests=self.failed,
            ),
        )
