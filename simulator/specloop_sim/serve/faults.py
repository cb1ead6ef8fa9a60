"""Faults that a simulated server is told to have, so that what watches over roll-outs can be tried.

`SPECLOOP_SIM_FAULTS` is a JSON object.  Its keys are levels: `k3` for a drafter with K = 3, `ngram` for any lookup,
`disabled`, and `*` for every level that is not named.  A server has the faults of the level that it is started at:

    SPECLOOP_SIM_FAULTS='{"k3": {"stepFactor": 1.1}, "ngram": {"crashAfterSeconds": 30}, "*": {"errorShare": 0.02}}'
"""

from dataclasses import replace
from typing import Annotated

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from specloop_policy.ladder import LOOKUP_METHODS, Level
from specloop_sim.file_model import Part
from specloop_sim.luck import WHOLE, deal
from specloop_sim.request import Finish, Request

VARIABLE = "SPECLOOP_SIM_FAULTS"
ANY_LEVEL = "*"


class Faults(Part):
    """What is wrong with a server."""

    step_factor: float = Field(1.0, gt=0.0, allow_inf_nan=False)
    """Every step of the engine takes this many times as long."""
    output_factor: float = Field(1.0, gt=0.0, le=1.0)
    """Answers end by themselves after this share of their tokens, one at least."""
    error_share: float = Field(0.0, ge=0.0, le=1.0)
    """This share of requests is answered with a 500 and never reaches the engine."""
    never_ready: bool = False
    """The port never opens."""
    crash_after_seconds: float | None = Field(None, ge=0.0, allow_inf_nan=False)
    """So many model seconds after the end of its start-up, whether or not its port is open, the process ends with
    code 1 in the middle of whatever it does."""
    crash_message: str = "RuntimeError: CUDA error: an illegal memory access was encountered"
    """Its last line."""

    def fails(self, seed: int, request_id: str) -> bool:
        """Whether this request is one of those that are answered with an error."""
        return bool(deal(seed, f"error/{request_id}", 1)[0] < self.error_share * WHOLE)

    def shortened(self, request: Request) -> Request:
        """The request with the answer that it gets."""
        tokens = max(1, round(self.output_factor * request.output_tokens))
        if tokens == request.output_tokens:
            return request
        return replace(request, output_tokens=tokens, finish=Finish.STOP)


FAULTS = TypeAdapter(dict[Annotated[str, StringConstraints(pattern=r"^(\*|disabled|ngram|k[1-9][0-9]*)$")], Faults])


def read_faults(text: str, level: Level) -> Faults:
    """The faults of a server at this level; raises ValueError in one line."""
    try:
        faults = FAULTS.validate_json(text or "{}")
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(key) for key in first["loc"] if key != "[key]")
        raise ValueError(f"{where}: {first['msg']}" if where else first["msg"]) from None
    return faults.get(_name(level), faults.get(ANY_LEVEL, Faults()))


def _name(level: Level) -> str:
    if level.drafter is None:
        return "disabled"
    return "ngram" if level.drafter.method in LOOKUP_METHODS else f"k{level.tokens}"
