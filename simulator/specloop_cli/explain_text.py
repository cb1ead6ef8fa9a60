"""What `specloop explain` says to people: the facts, then the decision now and the one if the evidence lasts."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from specloop_cli.output import console, print_table
from specloop_policy.decision import KEEPS_LEVEL, ActionName
from specloop_policy.observation import Outcome


def show(answer: Mapping[str, Any]) -> None:
    """Print the answer that `explain` gives."""
    out = console()
    window, pods = answer["window"], answer["pods"]
    for title, words in _facts(answer["policy"], window, len(pods)):
        out.print(f"{title:<12} {words}")
    if len(pods) > 1:
        out.print()
        print_table(out, _pods_table(pods))
        for pod in pods:
            if pod["reason"]:
                out.print(f"{pod['pod']}: {pod['reason']}")
    out.print()
    for title, key in (("now", "now"), ("if it lasts", "ifItLasts")):
        decision = answer[key]
        out.print(f"{title:<12} {_action(decision)}")
        for part in decision["reason"].split("; "):
            out.print(f"{'':12} {part}")


def _facts(policy: str, window: Mapping[str, Any], pods: int) -> Iterator[tuple[str, str]]:
    """What the window shows, each fact by its title; nothing that is not known."""
    yield "policy", policy
    of = f" of {pods} pods" if pods > 1 else ""
    yield "window", f"{window['outcome']}, {window['elapsedSeconds']:g} s{of}"
    if window["finishedRequests"] is None:
        return
    yield "traffic", f"{window['finishedRequests']:,} finished requests{_running(window)}"
    for limit, share in window["temperatureShareAbove"].items():
        yield "temperature", f"{100 * share:.0f} % of the requests above {limit}"
    if window["outcome"] != Outcome.OFF:
        yield "acceptance", _accepted(window)
    if window["outcome"] != Outcome.OFF and window["coverage"] is not None:
        yield "coverage", f"{100 * window['coverage']:.0f} % of the decode steps drafted"
    if window["faults"]:
        yield "faults", ", ".join(window["faults"])


def _running(window: Mapping[str, Any]) -> str:
    running, cache = window["runningRequests"], window["kvCachePercent"]
    parts = [] if running is None else [f"{running:.0f} running per pod"]
    parts += [] if cache is None else [f"KV cache {cache:.0f} % full"]
    return "".join(f", {part}" for part in parts)


def _accepted(window: Mapping[str, Any]) -> str:
    if window["acceptanceRate"] is None:
        return "unknown: nothing was drafted"
    low, high = (100 * bound for bound in window["acceptanceRateInterval"])
    counts = f"{window['acceptedTokens']:,.0f} of {window['draftTokens']:,.0f} draft tokens"
    shown = f"{100 * window['acceptanceRate']:.0f} % ({low:.0f} to {high:.0f} %): {counts}"
    by_position = " ".join(f"{100 * share:.0f}" for share in window["survival"])
    return f"{shown}, by position {by_position} %" if by_position else shown


def _pods_table(pods: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("pod", "outcome", "requests", "acceptance", "faults"):
        table.add_column(heading, no_wrap=True, overflow="fold")
    for pod in pods:
        rate = pod["acceptanceRate"]
        table.add_row(
            pod["pod"],
            pod["outcome"],
            "–" if pod["finishedRequests"] is None else f"{pod['finishedRequests']:,}",
            "–" if rate is None else f"{100 * rate:.0f} %",
            " ".join(pod["faults"]) or "–",
        )
    return table


def _action(decision: Mapping[str, Any]) -> str:
    """Such as: StepDown to k3 after 600 s (rule acceptance-low)."""
    action, level = decision["action"], decision["level"]
    words = {ActionName.HOLD: "at", ActionName.ALERT: "at", ActionName.PROBE: "of"}.get(action, "to")
    shown = f"{action} {words} {level}" if level and action != ActionName.DISABLE else str(action)
    after = decision.get("afterSeconds")
    return f"{shown} after {after:g} s" if after and action not in KEEPS_LEVEL else shown
