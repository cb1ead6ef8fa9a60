"""`specloop simulate`: what policies would have done on this traffic, beside every level that stays."""

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.table import Table

from specloop_cli.errors import InputError
from specloop_cli.named_files import refuse_reading_twice
from specloop_cli.output import Format, console, document, print_document, print_table, refuse_writing, say, write_file
from specloop_cli.reports import simulation_report
from specloop_cli.scene import Options, Scene, entrants, load_all, set_scene
from specloop_cli.simulated import compares_by, compares_why, simulated
from specloop_policy.ladder import DISABLED
from specloop_policy.times import rfc3339
from specloop_sim.contest import BEST, ContestError, Entrant, best_in_hindsight, contest, static_levels
from specloop_sim.report.figures import shown
from specloop_sim.report.verdict import verdict
from specloop_sim.simulate import Outcome

COLUMNS = {
    "meanRequestSeconds": "request\ns",
    "tpotMillisecondsP50": "TPOT\nms p50",
    "tpotMillisecondsP99": "\np99",
    "ttftMillisecondsP50": "TTFT\nms p50",
    "ttftMillisecondsP99": "\np99",
    "busyGpuSeconds": "busy\nGPU s",
    "restarts": "re-\nstarts",
    "changes": "chan-\nges",
}
"""Narrow enough for eighty columns beside a name."""
TOKENS = {"outputTokensPerSecond": "tokens\nper s"}
"""In front where clients wait: otherwise they follow the arrivals and say nothing."""


def run(policy_files: Sequence[str], options: Options, report: str | None, force: bool, output: Format) -> int:
    """Simulate; 0 when it ran to its end."""
    began = time.perf_counter()
    page = Path(report) if report is not None else None
    files = [*policy_files, *options.files()]
    refuse_writing({"--report": page}, files, force=force)
    refuse_reading_twice(files)
    policies = load_all(policy_files)
    scene = set_scene(options)
    ours = entrants(policies, scene)
    outcomes = run_contest(scene, ours)
    best = best_in_hindsight(outcomes, static_levels(ours), closed_loop=scene.closed_loop)
    answer = _answer(scene, ours, outcomes, best, time.perf_counter() - began)
    _refuse_nothing_answered(scene, outcomes)
    told = simulation_report(scene, ours, outcomes, best)
    if page is not None:
        from specloop_sim.report.page import render

        write_file(page, render(told), force=force)
    if output is Format.JSON:
        print_document(answer)
    else:
        _show(scene, answer, verdict(told))
    return 0


def _refuse_nothing_answered(scene: Scene, outcomes: Mapping[str, Outcome]) -> None:
    if not any(outcome.figures.finished_requests for outcome in outcomes.values()):
        profile = scene.profile
        raise InputError(
            f"{scene.title}: nobody answered a request: {profile.name} takes {profile.max_model_len:,} tokens at most, "
            f"and its KV cache holds {profile.kv_tokens(DISABLED):,}; take another profile or trace"
        )


def run_contest(scene: Scene, ours: Sequence[Entrant]) -> dict[str, Outcome]:
    """Every contestant's outcome, with progress on a terminal."""
    err = console(stderr=True)
    with err.status("") as status:
        try:
            return contest(
                scene.setup,
                ours,
                scene.traffic,
                scene.known,
                began=lambda name, place, count: status.update(f"simulating {name} ({place} of {count})"),
            )
        except ContestError as error:
            raise InputError(str(error)) from error


def _answer(
    scene: Scene, ours: Sequence[Entrant], outcomes: Mapping[str, Outcome], best: str, wall_seconds: float
) -> dict[str, Any]:
    contestants = {name: document(outcome.figures) for name, outcome in outcomes.items()}
    contestants[BEST] = {**contestants[best], "contestant": best}
    return {
        "trace": {
            "name": scene.trace.name,
            "requests": len(scene.trace),
            "seconds": round(scene.trace.seconds, 1),
            "repairs": list(scene.trace.repairs),
        },
        "workload": {"name": scene.workload.name, "description": scene.workload.description},
        "profile": scene.profile.name,
        "replicas": scene.setup.replicas,
        "seed": scene.setup.seed,
        "wallSeconds": round(wall_seconds, 3),
        "simulated": list(simulated(scene, ours)),
        "comparesBy": compares_by(closed_loop=scene.closed_loop),
        "contestants": contestants,
        "decisions": [decision for entrant in ours for decision in _decisions(scene, entrant, outcomes)],
    }


def _decisions(scene: Scene, entrant: Entrant, outcomes: Mapping[str, Outcome]) -> list[dict[str, Any]]:
    name = entrant.policy.name
    return [
        {
            "policy": name,
            "seconds": one.seconds,
            **({"time": rfc3339(scene.setup.epoch + one.seconds)} if scene.dated else {}),
            "from": one.before,
            "to": one.decision.level,
            "action": one.decision.action,
            "rule": one.decision.rule,
            "reason": one.decision.reason,
        }
        for one in outcomes[name].decisions
    ]


def _show(scene: Scene, answer: Mapping[str, Any], judged: str) -> None:
    out = console()
    for sentence in (*answer["simulated"], *(f"Repaired: {one}." for one in answer["trace"]["repairs"])):
        say(out, sentence)
    out.print()
    several = len({one["policy"] for one in answer["decisions"]}) > 1
    for one in answer["decisions"]:
        who = f"{one['policy']}  " if several else ""
        when = f"{one['seconds']:7.0f} s{clock(scene, one['seconds'])}"
        out.print(f"{when}  {who}{one['action']:8}  {one['from']} → {one['to']}")
        say(out, one["reason"], indent=11)
    if not answer["decisions"]:
        out.print("No decision would have changed anything.")
    out.print()
    print_table(out, _table(scene, answer["contestants"]))
    out.print("* the best level that stays, in hindsight")
    for sentence in (compares_why(closed_loop=scene.closed_loop), *_unanswered(scene, answer), judged):
        say(out, sentence)


def clock(scene: Scene, seconds: float) -> str:
    """The time of day, where the traffic says when it was."""
    if not scene.dated:
        return ""
    return datetime.fromtimestamp(scene.setup.epoch + seconds, UTC).strftime("  %Y-%m-%d %H:%M:%S UTC")


def _table(scene: Scene, contestants: Mapping[str, Mapping[str, Any]]) -> Table:
    columns = (TOKENS if scene.closed_loop else {}) | COLUMNS
    table = Table(box=None, pad_edge=False)
    table.add_column("contestant", no_wrap=True)
    for heading in columns.values():
        table.add_column(heading, justify="right", no_wrap=True)
    best = contestants[BEST]["contestant"]
    for name, figures in contestants.items():
        if name != BEST:
            mark = " *" if name == best else ""
            table.add_row(name + mark, *(shown(figures[key]) for key in columns))
    return table


def _unanswered(scene: Scene, answer: Mapping[str, Any]) -> Iterator[str]:
    """Who left requests unanswered; clients that wait always have some under way at the end."""
    for name, one in answer["contestants"].items():
        left = one["refusedRequests"] + (0 if scene.closed_loop else one["unfinishedRequests"])
        if name != BEST and left:
            yield f"{name} left {left:,} requests unanswered or refused as too long; its means leave them out."
