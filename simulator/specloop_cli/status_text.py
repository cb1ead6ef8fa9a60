"""What `specloop status` says to people: a table of all policies, or everything about one."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from specloop_cli.ages import age, span_words
from specloop_cli.errors import one_line
from specloop_cli.output import console, print_table, say
from specloop_policy.decision import ActionName

Report = Mapping[str, Any]

WORDS = {
    ActionName.HOLD: "hold",
    ActionName.STEP_DOWN: "step down",
    ActionName.STEP_UP: "step up",
    ActionName.SWITCH_TO: "switch",
    ActionName.DISABLE: "switch off",
    ActionName.PROBE: "probe",
    ActionName.ALERT: "alert",
}
READY_STYLES = {"True": "green", "False": "bold red"}
TITLE = 13


def show_all(reports: Sequence[Report], now: float, namespace: str | None) -> None:
    """One line a policy; without a namespace they are of all."""
    out = console()
    if not reports:
        out.print("no SpecPolicy in " + (f"namespace {namespace}" if namespace else "any namespace"))
        return
    table = Table(box=None, pad_edge=False)
    headings = ("policy", "target", "mode", "level", "acceptance", "ready", "last decision")
    for heading in headings if namespace else ("namespace", *headings):
        table.add_column(heading, no_wrap=True, overflow="fold")
    for one in reports:
        cells = (
            one["policy"],
            _target(one),
            _mode(one),
            _level(one),
            _percent(one["acceptancePercent"]),
            _ready(one),
            _decision(one["decisions"][-1], now) if one["decisions"] else "–",
        )
        row = (*(() if namespace else (one["namespace"],)), *cells)
        table.add_row(*(cell if isinstance(cell, Text) else one_line(cell) for cell in row))
    print_table(out, table)


def show(one: Report, now: float) -> None:
    """Everything about one policy."""
    out = console()
    for title, words in _facts(one, now):
        say(out, f"{title:<{TITLE}}{one_line(words)}")
    _show_ladder(out, one)
    _show_conditions(out, one["conditions"], now)
    _show_decisions(out, one["decisions"], now)


def _facts(one: Report, now: float) -> Iterator[tuple[str, str]]:
    """What there is to say in a line, each by its title; nothing that is not known."""
    yield "policy", f"{one['policy']} in namespace {one['namespace']}, mode {one['mode']}"
    yield "target", _target(one)
    if not one["conditions"]:
        yield "status", "none: no operator has looked at it yet"
    elif (one["observedGeneration"] or 0) < one["generation"]:
        yield "status", "of an older version of the policy: the operator has not looked at the present one yet"
    yield "level", _level(one)
    yield "acceptance", _percent(one["acceptancePercent"])
    if one["suspended"]:
        yield "suspended", f"by {', '.join(one['suspendedBy'])}"
    for alert in one["alerts"]:
        yield "alert", _alert(alert, now)
    if one["override"]:
        yield "override", _override(one["override"], now)
    if one["forced"]:
        yield "forced", f"by {one['forced']['by']}, afterwards back to {one['forced']['backTo'] or 'what rules say'}"
    if one["owed"]:
        yield "owed", f"{one['owed']}, where it was before: back once nothing is in the way"
    if one["rollback"]:
        yield "rollback", f"asked for{_by(one['rollback'])} {age(one['rollback']['at'], now)}"
    if one["rollout"]:
        yield "roll-out", rollout_words(one["rollout"], now)
    if one["watch"]:
        yield "watched", _watch(one["watch"], now)
    if one["probe"]:
        yield "probe", f"of {one['probe']['level']} on one replica, begun {age(one['probe']['startedAt'], now)}"
    if one["recommendation"]:
        yield "recommended", _recommendation(one["recommendation"])
    for failed in one["quarantine"]:
        again = f" (until {failed['until']})" if failed.get("until") else ""
        yield "quarantined", f"{failed['level']}{again}: {failed['reason']}"
    for problem in one["problems"]:
        yield "problem", problem


def rollout_words(rollout: Report, now: float) -> str:
    """A roll-out under way in a line."""
    pods = rollout["canaryPods"]
    canary = "" if pods is None else f", canary of {pods} pod{'s' if pods != 1 else ''}"
    reason = f": {rollout['reason']}" if rollout["reason"] else ""
    since = age(rollout["since"], now)
    return f"{rollout['phase']} since {since}, from {rollout['backTo']} to {rollout['level']}{canary}{reason}"


def _show_ladder(out: Console, one: Report) -> None:
    if not one["levels"]:
        return
    out.print()
    table = Table(box=None, pad_edge=False)
    for heading in ("", "level", "drafter", "method", "K", "model"):
        table.add_column(heading, no_wrap=True, overflow="fold", justify="right" if heading == "K" else "left")
    for level in one["levels"]:
        mark = "*" if level["name"] == one["observedLevel"] else ">" if level["name"] == one["desiredLevel"] else ""
        cells = (level[key] for key in ("name", "drafter", "method", "tokens", "model"))
        table.add_row(mark, *("–" if cell is None else one_line(str(cell)) for cell in cells))
    print_table(out, table)


def _show_conditions(out: Console, conditions: Sequence[Report], now: float) -> None:
    if conditions:
        out.print()
    for one in conditions:
        since = f"{one['reason']}, {age(one['lastTransitionTime'], now)}"
        out.print(Text.assemble(f"{one_line(one['type']):<18}", (f"{one['status']:<9}", _style(one)), since))
        if one["message"]:
            say(out, one_line(one["message"]), indent=4)


def _show_decisions(out: Console, decisions: Sequence[Report], now: float) -> None:
    if decisions:
        out.print()
    for one in reversed(decisions):
        out.print(_decision(one, now))
        say(out, one_line(one["reason"]), indent=4)


def _target(one: Report) -> str:
    return f"{one['target']['kind']}/{one['target']['name']}"


def _mode(one: Report) -> str:
    return f"{one['mode']}, suspended" if one["suspended"] else str(one["mode"])


def _level(one: Report) -> str:
    observed, desired = one["observedLevel"], one["desiredLevel"]
    if desired is None or desired == observed:
        return observed or "–"
    return f"{observed or '?'} → {desired}"


def _percent(value: int | None) -> str:
    return "–" if value is None else f"{value} %"


def _ready(one: Report) -> Text:
    reason = next((found["reason"] for found in one["conditions"] if found["type"] == "Ready"), None)
    words = one["ready"] if one["ready"] == "True" or reason is None else f"{one['ready']} ({reason})"
    return Text(one_line(words), READY_STYLES.get(one["ready"], ""))


def _style(condition: Report) -> str:
    return READY_STYLES.get(condition["status"], "") if condition["type"] == "Ready" else ""


def _decision(one: Report, now: float) -> str:
    before, after = one["from"], one["to"]
    levels = f"{before} → {after}" if before and after and before != after else after or before or ""
    rule = f" ({one_line(one['rule'])})" if one["rule"] else ""
    return f"{age(one['time'], now)}: {WORDS[one['action']]} {levels}".rstrip() + rule


def _override(override: Report, now: float) -> str:
    until = override["until"]
    if until is None:
        end = "until it is taken back"
    elif override["expired"]:
        end = f"run out {age(until, now)}"
    else:
        end = f"until {until}, another {_left(until, now)}"
    return f"{override['level']}{_by(override)} {end}"


def _alert(alert: Report, now: float) -> str:
    asks = f"{alert['action']} {alert['level'] or ''}".strip()
    if alert["resolvedAt"] is not None:
        return f"{alert['name']}, over {age(alert['resolvedAt'], now)}: asked for {asks}"
    left = _left(alert["until"], now)
    return f"{alert['name']}, begun {age(alert['startsAt'], now)}: asks for {asks}, for another {left} unless repeated"


def _watch(watch: Report, now: float) -> str:
    promoted, left = age(watch["since"], now), _left(watch["until"], now)
    return f"{watch['level']}, promoted {promoted}, another {left}: back to {watch['backTo']} if it does harm"


def _left(until: str, now: float) -> str:
    return span_words(max(0.0, datetime.fromisoformat(until).timestamp() - now))


def _by(wish: Report) -> str:
    return f" by {wish['by']}" if wish["by"] else ""


def _recommendation(one: Report) -> str:
    gain, cost = one["estimatedGainPercent"], one["restartCostSeconds"]
    figures = "" if gain is None else f", estimated gain {gain} %"
    figures += "" if cost is None else f", a restart costs {span_words(cost)} a replica"
    return f"{one['level']}{figures}: {one['reason']}"
