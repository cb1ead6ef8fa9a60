"""The other one."""

from vllm.v1.core.sched.scheduler import Scheduler


class AsyncScheduler(Scheduler):  # type: ignore[misc]
    """Steps one ahead in vLLM."""
