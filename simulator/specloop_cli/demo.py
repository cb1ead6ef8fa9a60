"""`specloop demo`: the whole loop on this machine, round three simulated vLLM servers.

By default the servers are real HTTP servers and the traffic is real HTTP; with `--fast` the same engine model, the
same windows and the same decisions run on a virtual clock.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.table import Table

from specloop_cli import demo_traffic
from specloop_cli.errors import InputError
from specloop_cli.output import Format, console, document, print_document, print_table, refuse_writing, write_file
from specloop_cli.policy_file import load_policy
from specloop_cli.reports import demo_report, policy_run
from specloop_policy.decision import Inputs
from specloop_policy.policy import Policy, PolicyError, resolve
from specloop_sim.fleet import Hardware
from specloop_sim.phases import ClosedLoop, Phase, phase_at, total_seconds
from specloop_sim.profile import Profile, UnknownProfile, profile_named
from specloop_sim.report.model import Report
from specloop_sim.simulate import Outcome, Setup, simulate
from specloop_sim.text import UnknownText

HEADINGS = {
    "tokens/s": "outputTokensPerSecond",
    "request s": "meanRequestSeconds",
    "TPOT p50 ms": "tpotMillisecondsP50",
    "TTFT p50 ms": "ttftMillisecondsP50",
    "restarts": "restarts",
}


def run(
    policy_file: str | None,
    phases: str | None,
    seed: int,
    output: Format,
    *,
    fast: bool,
    report: str | None,
    force: bool,
) -> int:
    """Run the demo; 0 when it ran to its end."""
    page = Path(report) if report is not None else None
    refuse_writing({"--report": page}, [policy_file], force=force)
    chosen = demo_traffic.phases_named(phases)
    policy = read_policy(policy_file)

    def write(told: Callable[[], Report]) -> None:
        if page is not None:
            from specloop_sim.report.page import render

            write_file(page, render(told()), force=force)

    if fast:
        return run_fast(policy, chosen, seed, output, write)
    from specloop_cli import demo_live

    return demo_live.run(policy, chosen, seed, output, write)


def read_policy(policy_file: str | None) -> Policy:
    """The policy in a file, or the demo's own, made ready; it is enforced whatever it says."""
    document = load_policy(policy_file if policy_file is not None else demo_traffic.policy_path())
    try:
        return resolve(document.metadata.name, document.spec, demo_traffic.DRAFTER, demo_traffic.TOKENS, enforce=True)
    except PolicyError as error:
        raise InputError(f"{document.metadata.name}: {error}") from error


def setup(policy: Policy, profile: Profile, phases: Sequence[Phase], seed: int) -> Setup:
    """What every contestant of the fast demo meets."""
    return Setup(
        Hardware(profile, demo_traffic.STARTUP_SECONDS, demo_traffic.DRAIN_SECONDS),
        policy.ladder,
        policy.ladder.levels[0],
        demo_traffic.REPLICAS,
        seed,
        total_seconds(phases),
    )


def run_fast(
    policy: Policy, phases: Sequence[Phase], seed: int, output: Format, write: Callable[[Callable[[], Report]], None]
) -> int:
    """The demo on the virtual clock, with `disabled` on the same traffic beside it."""
    began = time.perf_counter()
    profile = profile_named(demo_traffic.PROFILE)
    ours = setup(policy, profile, phases, seed)
    inputs = Inputs(step_times=profile.times, restart_seconds=demo_traffic.STARTUP_SECONDS)
    try:
        outcomes = {
            policy.name: simulate(ours, ClosedLoop(phases, 0.0, seed), policy, lambda now: inputs),
            "disabled": simulate(replace(ours, level=policy.ladder.levels[-1]), ClosedLoop(phases, 0.0, seed)),
        }
    except (UnknownProfile, UnknownText) as error:
        raise InputError(f"{policy.name}: {error}") from error
    answer = _answer(policy, phases, seed, outcomes, time.perf_counter() - began)
    own = outcomes[policy.name]
    write(
        lambda: demo_report(
            policy,
            policy_run(policy, own.looks, own.stays, own.decisions),
            phases,
            seed,
            ("Engines, traffic and time are simulated.", "Decisions are taken by the code that runs live."),
            (),
            outcomes,
        )
    )
    if output is Format.JSON:
        print_document(answer)
    else:
        _show(answer)
    return 0


def _answer(
    policy: Policy, phases: Sequence[Phase], seed: int, outcomes: dict[str, Outcome], wall_seconds: float
) -> dict[str, Any]:
    return {
        "trace": {"requests": outcomes[policy.name].figures.finished_requests, "seconds": total_seconds(phases)},
        "seed": seed,
        "wallSeconds": round(wall_seconds, 3),
        "simulated": "engines, traffic and time; decisions by the code that runs live",
        "phases": [{"name": phase.name, "seconds": phase.seconds} for phase in phases],
        "contestants": {name: document(outcome.figures) for name, outcome in outcomes.items()},
        "decisions": [
            {
                "policy": policy.name,
                "seconds": decided.seconds,
                "phase": phase_at(phases, decided.seconds).name,
                "from": decided.before,
                "to": decided.decision.level,
                "action": decided.decision.action,
                "rule": decided.decision.rule,
                "reason": decided.decision.reason,
            }
            for decided in outcomes[policy.name].decisions
        ],
    }


def _show(answer: dict[str, Any]) -> None:
    out = console()
    out.print("Simulated: engines, traffic and time. Decisions: by the code that runs live.")
    for one in answer["decisions"]:
        out.print(f"{one['seconds']:6.0f} s  {one['phase']:16}  {one['action']:8}  {one['from']} → {one['to']}")
        out.print(f"{'':10}{one['reason']}")
    table = Table(box=None, pad_edge=False)
    table.add_column("contestant")
    for heading in HEADINGS:
        table.add_column(heading, justify="right")
    for name, figures in answer["contestants"].items():
        table.add_row(name, *(_number(figures[key]) for key in HEADINGS.values()))
    print_table(out, table)
    out.print("Clients wait for each answer before they ask again (closed loop), so tokens per second compare.")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"
