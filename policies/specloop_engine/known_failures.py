"""Configurations that are known to keep an engine from starting, or to harm what it serves.

`specloop check` and the operator ask before a level is set; the simulated vLLM refuses to start by the same rows and
in the same words.  What is not known never makes a finding.
"""

from dataclasses import dataclass

from specloop_engine.command_line import CommandLine
from specloop_engine.configuration import ConfigurationError
from specloop_engine.failure import Failure, Harm, Said, Start
from specloop_engine.llamacpp_failures import LLAMACPP_FAILURES
from specloop_engine.releases import parse_version
from specloop_engine.vllm_failures import VLLM_FAILURES
from specloop_policy.engine import Engine

FAILURES = {Engine.VLLM: VLLM_FAILURES, Engine.LLAMACPP: LLAMACPP_FAILURES}


@dataclass(frozen=True, slots=True)
class Finding:
    """A known failure that a start would run into."""

    name: str
    harm: Harm
    message: str
    """In the engine's own words, or close to them."""
    mend: str
    source: str


def known_failures(start: Start) -> list[Finding]:
    """What is known to go wrong, in the order of the table; nothing where the setting itself says nothing clear."""
    try:
        speculation = start.speculation
    except ConfigurationError:
        return []
    rows = [row for row in FAILURES[start.engine] if row.concerns(start, speculation)]
    return [_finding(row, start) for row in rows if row.fails(start)]


def _finding(row: Failure, start: Start) -> Finding:
    return Finding(row.name, row.harm, _said(row.message, start), _said(row.mend, start), row.source)


def _said(words: Said, start: Start) -> str:
    return words if isinstance(words, str) else words(start)


def start_of(line: CommandLine) -> Start:
    """What a command line says of the start; `dataclasses.replace` adds what is known from elsewhere."""
    companions = bool(line.setting.companions)
    if line.engine is Engine.LLAMACPP:
        rates = line.flag("--spec-synth-rates")
        return Start(
            line.engine,
            line.config,
            parse_version(line.version),
            line.form,
            line.target,
            forced_acceptance=companions,
            forced_rates=len(rates.value.split(",")) if rates and rates.value else None,
        )
    return Start(
        line.engine,
        line.config,
        parse_version(line.version),
        line.form,
        line.target,
        tensor_parallel=_number(line, 1, "--tensor-parallel-size", "-tp"),
        data_parallel=_number(line, 1, "--data-parallel-size", "-dp"),
        lora=line.flag("--enable-lora") is not None,
        batched_tokens=_number(line, None, "--max-num-batched-tokens"),
        sequences=_number(line, None, "--max-num-seqs"),
        # Without the flag there may still be a plug-in.
        logits_processors=True if line.flag("--logits-processors") else None,
        request_metrics=companions,
    )


def _number(line: CommandLine, default: int | None, *names: str) -> int | None:
    """The number that a flag says, `default` where it is absent, None where it says none."""
    flag = line.flag(*names)
    if flag is None:
        return default
    return int(flag.value) if flag.value and flag.value.isascii() and flag.value.isdecimal() else None
