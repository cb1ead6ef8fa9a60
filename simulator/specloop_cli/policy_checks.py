"""What a policy's schema cannot say: cron, time zones, names against a derived ladder, rules that can never hold."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from specloop_cli.wording import nearest
from specloop_cli.yaml_file import Document, Mistake, Where, spell
from specloop_engine.configuration import ConfigurationError, to_config
from specloop_engine.failure import Start
from specloop_engine.known_failures import known_failures
from specloop_policy.engine import Engine
from specloop_policy.ladder import MAX_TOKENS, Level
from specloop_policy.model import (
    DISABLED_NAME,
    CountLimit,
    GainLimit,
    PercentLimit,
    Rule,
    SpecPolicy,
    TemperatureLimit,
    When,
)
from specloop_policy.policy import resolve


def errors(document: Document) -> Iterator[Mistake]:
    """Mistakes in single fields; judged where the field is a text, whatever else is wrong."""
    for place, schedule in enumerate(_entries(document.data, "schedules")):
        where: Where = ("spec", "schedules", place)
        if isinstance(cron := schedule.get("cron"), str):
            yield from _cron(document, (*where, "cron"), cron)
        if isinstance(zone := schedule.get("timeZone"), str):
            yield from _time_zone(document, (*where, "timeZone"), zone)
    for field, name in _derived_names(document.data):
        if not DERIVED.fullmatch(name):
            yield _mistake(
                document,
                field,
                f"without spec.levels no level can be called {name!r}",
                f"a derived ladder has k1 to k{MAX_TOKENS}, ngram and disabled; or list levels",
            )


def warnings(document: Document, policy: SpecPolicy) -> Iterator[Mistake]:
    """What is allowed in a valid policy and yet hardly meant."""
    yield from _perhaps_missing(document)
    yield from _idle_drafters(document, policy)
    yield from _failing_levels(document, policy)
    for place, rule in enumerate(policy.spec.rules or ()):
        yield from _never_holds(document, place, rule)


def same_target(policies: Sequence[tuple[str, Document, SpecPolicy]]) -> Iterator[tuple[str, Mistake]]:
    """Policies that another one in the same files keeps from acting; each with the file it is in."""
    first: dict[tuple[str, ...], tuple[str, SpecPolicy]] = {}
    for path, document, policy in policies:
        target = policy.spec.target_ref
        key = (policy.metadata.namespace or "", target.api_version, target.kind, target.name)
        if key not in first:
            first[key] = (path, policy)
            continue
        other_path, other = first[key]
        message = f"{target.kind} {target.name} is the target of {other.metadata.name} ({other_path}) too"
        yield path, _mistake(document, ("spec", "targetRef"), message, "the older one wins; remove one of them")


def _mistake(document: Document, where: Where, message: str, hint: str) -> Mistake:
    return Mistake(spell(where), document.line(where), message, hint)


def _entries(data: Any, field: str) -> Iterator[dict[str, Any]]:
    """Mappings of one of the spec's lists; an empty one for whatever is none."""
    spec = data.get("spec") if isinstance(data, dict) else None
    entries = spec.get(field) if isinstance(spec, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        yield entry if isinstance(entry, dict) else {}


def _cron(document: Document, where: Where, cron: str) -> Iterator[Mistake]:
    from specloop_policy.schedules import triggers  # a quarter of a second, for the few with schedules

    count = len(cron.split())
    if count != 5:
        hint = "minute, hour, day of month, month, day of week, such as 0 22 * * *"
        yield _mistake(document, where, f"{cron!r} has {count} fields and needs five", hint)
        return
    try:
        comes = bool(triggers(cron, "Etc/UTC"))
    except (ValueError, OverflowError) as error:
        hint = "minute, hour, day of month, month, day of week (0 to 7 from Sunday, or sun to sat)"
        reason = str(error).rpartition("': ")[2]
        yield _mistake(document, where, f"{cron!r} is no cron expression: {reason}", hint)
        return
    if not comes:
        yield _mistake(document, where, f"{cron!r} never comes", "choose a day that the month has")


def _time_zone(document: Document, where: Where, zone: str) -> Iterator[Mistake]:
    import zoneinfo

    known = zoneinfo.available_timezones()
    if zone not in known:
        meant = nearest(zone, known, 0.8) or nearest(zone, (one.rpartition("/")[2] for one in known), 0.8)
        full = next((one for one in sorted(known) if meant and (one == meant or one.endswith(f"/{meant}"))), None)
        hint = f"did you mean {full}?" if full else "an IANA name, such as Europe/Berlin or Etc/UTC"
        yield _mistake(document, where, f"no time zone is called {zone!r}", hint)


DERIVED = re.compile(rf"k[1-{MAX_TOKENS}]|ngram|{DISABLED_NAME}")
"""Names that a derived ladder may have."""


def _derived_names(data: Any) -> Iterator[tuple[Where, str]]:
    """Level names in a policy without levels of its own."""
    spec = data.get("spec") if isinstance(data, dict) else None
    if not isinstance(spec, dict) or "levels" in spec:
        return
    for field, inner in (("rules", ("action", "level")), ("schedules", ("level",)), ("alerts", ("action", "level"))):
        for place, entry in enumerate(_entries(data, field)):
            value: Any = entry
            for key in inner:
                value = value.get(key) if isinstance(value, dict) else None
            if isinstance(value, str):
                yield ("spec", field, place, *inner), value


def _perhaps_missing(document: Document) -> Iterator[Mistake]:
    for where, name in _derived_names(document.data):
        if DERIVED.fullmatch(name) and name != DISABLED_NAME:
            yield _mistake(
                document,
                where,
                f"whether there is a level {name!r} depends on what the target runs",
                "list the levels to be sure",
            )


def _idle_drafters(document: Document, policy: SpecPolicy) -> Iterator[Mistake]:
    used = {level.drafter for level in policy.spec.levels or ()}
    for place, drafter in enumerate(policy.spec.drafters or ()):
        if drafter.name not in used:
            message = f"no level uses drafter {drafter.name!r}"
            yield _mistake(document, ("spec", "drafters", place), message, "add a level, or remove the drafter")


def _failing_levels(document: Document, policy: SpecPolicy) -> Iterator[Mistake]:
    """Levels that are known not to start, or to do harm, on the policy's engine; on both where it is not named."""
    asked = policy.spec.engine
    engines = (Engine.VLLM, Engine.LLAMACPP) if asked is Engine.AUTO else (asked,)
    said: set[str] = set()
    for place, level in enumerate(
        resolve(policy.metadata.name, policy.spec).ladder.levels if policy.spec.levels else ()
    ):
        found = [_known(level, engine, policy.spec.target_ref.name) for engine in engines]
        for name, (message, mend) in found[0].items():
            if all(name in other for other in found) and message not in said:
                said.add(message)
                yield _mistake(document, ("spec", "levels", place), f"level {level.name!r}: {message}", mend)


def _known(level: Level, engine: Engine, target: str) -> dict[str, tuple[str, str]]:
    """Known failures of a level by name, each with its words; the target's name may tell its model's family."""
    try:
        config = to_config(level, None, engine)
    except ConfigurationError as error:
        return {"configuration": (str(error), "choose another method, or another engine")}
    found = known_failures(Start(engine, config, target=target))
    return {one.name: (one.message, one.mend) for one in found}


def _never_holds(document: Document, place: int, rule: Rule) -> Iterator[Mistake]:
    for name, field in When.model_fields.items():
        limit = getattr(rule.when, name)
        if limit is not None and (reason := _impossible(name, limit)):
            where = ("spec", "rules", place, "when", str(field.alias))
            yield _mistake(document, where, f"rule {rule.name!r} can never hold: {reason}", "move the limit")


def _impossible(name: str, limit: PercentLimit | GainLimit | CountLimit | TemperatureLimit) -> str:
    what = name.replace("_", " ")
    if isinstance(limit, TemperatureLimit):
        return "no share is above 100 %" if limit.share_percent == 100 else ""
    if isinstance(limit, CountLimit):
        return f"{what} is never below 0" if limit.below == 0 else ""
    if isinstance(limit, GainLimit):
        return "nothing is slower by more than 100 %" if limit.below_percent == -100 else ""
    if limit.below_percent == 0:
        return f"{what} is never below 0 %"
    return f"{what} is never above 100 %" if limit.above_percent == 100 else ""
