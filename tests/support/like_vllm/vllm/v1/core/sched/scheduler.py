"""A scheduler that steps, and says which K a step of three requests has."""

from types import SimpleNamespace


class Scheduler:
    """With the names that the plugin relies on."""

    def __init__(self, vllm_config: SimpleNamespace) -> None:
        self.vllm_config = vllm_config
        self.scheduler_config = vllm_config.scheduler_config
        self.num_spec_tokens = 5
        if vllm_config.table:
            self.dynamic_sd_lookup = [0] + [5] * vllm_config.scheduler_config.max_num_seqs
        elif not vllm_config.renamed:
            self.dynamic_sd_lookup = None  # type: ignore[assignment]

    def schedule(self, throttle_prefills: bool = False) -> int:
        """One step."""
        lookup = getattr(self, "dynamic_sd_lookup", None)
        return self.num_spec_tokens if lookup is None else lookup[3]
