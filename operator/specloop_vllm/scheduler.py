"""vLLM's schedulers, with a look before each step at the K that is wanted.

`LiveAsyncScheduler` is for methods that vLLM schedules asynchronously (draft_model, eagle, eagle3, mtp, dflash, dspark,
ngram_gpu), `LiveScheduler` for ngram and suffix.  A step's K comes from `dynamic_sd_lookup`, a list by number of
requests, which is there when the engine was started with `num_speculative_tokens_per_batch_size`.  That is no public
interface of vLLM: where it is not as it was seen, the engine runs as without the plugin, and says so once.
"""

import logging
import os
from pathlib import Path
from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.version import __version__ as vllm_version

from specloop_vllm.exchange import FOLDER, Profile
from specloop_vllm.steering import Steering, say_refused

LOG = logging.getLogger("vllm.specloop")  # below vLLM's own, so that it is printed

TABLE = "num_speculative_tokens_per_batch_size"


class Refused(Exception):
    """There can be no live control in this engine, and why."""


class _Live:
    """What is added to either scheduler."""

    dynamic_sd_lookup: list[int] | None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._steering = _steering(self)
        self._take_wish()  # one from before a restart: the first step has it

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """The next step, with the K that is wanted now."""
        self._take_wish()
        return super().schedule(*args, **kwargs)  # type: ignore[misc]

    def _take_wish(self) -> None:
        if self._steering is None:
            return
        try:
            found = self._steering.look()
        except Exception:  # a mistake of ours must not cost a step
            self._steering = None
            LOG.exception("SpecLoop: live control is off from here on")
            return
        if found is not None:
            self.dynamic_sd_lookup = found


class LiveScheduler(_Live, Scheduler):  # type: ignore[misc]
    """For methods that are scheduled step by step."""


class LiveAsyncScheduler(_Live, AsyncScheduler):  # type: ignore[misc]
    """For methods that are scheduled one step ahead."""


def _steering(scheduler: Any) -> Steering | None:
    """Of this engine; None, with one warning, where there can be none."""
    place = os.environ.get(FOLDER, "")
    if not place:
        LOG.warning("SpecLoop: live control is off: %s names no folder", FOLDER)
        return None
    folder = Path(place)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            profile = _profile(scheduler)
        except Refused as reason:
            LOG.warning("SpecLoop: live control is off: %s", reason)
            say_refused(folder, str(reason))
            return None
        return Steering(folder, profile, scheduler.dynamic_sd_lookup, lambda words: LOG.warning("SpecLoop: %s", words))
    except OSError as error:
        LOG.warning("SpecLoop: live control is off: %s", error)
        return None


def _profile(scheduler: Any) -> Profile:
    """What this engine was started with; raises Refused."""
    try:
        speculative, parallel = scheduler.vllm_config.speculative_config, scheduler.vllm_config.parallel_config
        if speculative is None:
            raise Refused("the engine was started without speculation")
        if parallel.data_parallel_size > 1:
            raise Refused("with data parallelism above 1 ranks would draft differently many tokens and wait for ever")
        if getattr(parallel, "_api_process_count", 1) > 1:
            raise Refused("with several API servers none of them shows all requests; give --api-server-count 1")
        if scheduler.vllm_config.scheduler_config.async_scheduling != isinstance(scheduler, AsyncScheduler):
            other = "LiveScheduler" if isinstance(scheduler, AsyncScheduler) else "LiveAsyncScheduler"
            raise Refused(f"this engine needs --scheduler-cls specloop_vllm.{other}")
        table, tokens = scheduler.dynamic_sd_lookup, scheduler.num_spec_tokens
        if table is None:
            raise Refused(f"the engine was started without a table: give {TABLE} in --speculative-config")
        requests = scheduler.scheduler_config.max_num_seqs
        if not (isinstance(table, list) and len(table) == requests + 1 and all(type(one) is int for one in table)):
            raise Refused(f"the table of vLLM {vllm_version} is not as it was in the versions that were tried")
        return Profile(vllm_version, str(speculative.method), _drafter(speculative), int(tokens), int(requests))
    except AttributeError as error:
        raise Refused(f"vLLM {vllm_version} is not as the versions that were tried: {error}") from error


def _drafter(speculative: Any) -> str | None:
    """The drafter's name, where it is a model."""
    name = getattr(speculative, "model", None)
    return None if name is None else str(name)
