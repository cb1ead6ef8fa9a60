"""What fields of a policy decide together: one function a rule, each yielding every place where it is broken."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from specloop_policy.ladder import LOOKUP_METHODS, Method
from specloop_policy.model import (
    DISABLED_NAME,
    DrafterSpec,
    LevelSpec,
    Rule,
    Schedule,
    SpecPolicySpec,
    lookup_range,
)

YAML_BOOLEANS = frozenset({"off", "on", "yes", "no", "true", "false", "y", "n", "null"})
"""Words that YAML reads as something other than text."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two fields of a policy that do not go together."""

    field: tuple[str | int, ...]
    """Path of the field to mend, from `spec` on, in the policy's own spelling."""
    message: str
    hint: str


def contradictions(spec: SpecPolicySpec) -> Iterator[Contradiction]:
    """Every place where fields of a valid shape contradict each other."""
    for find in CHECKS:
        yield from find(spec)


def duplicate_names(spec: SpecPolicySpec) -> Iterator[Contradiction]:
    """Names are unique in each list."""
    lists: dict[str, Sequence[DrafterSpec | LevelSpec | Rule | Schedule]] = {
        "drafters": spec.drafters or (),
        "levels": spec.levels or (),
        "rules": spec.rules or (),
        "schedules": spec.schedules,
    }
    for field, items in lists.items():
        seen: set[str] = set()
        for place, item in enumerate(items):
            if item.name in seen:
                yield Contradiction((field, place, "name"), f"{item.name!r} is used twice", "give it another name")
            seen.add(item.name)


NEEDS_MODEL = frozenset({Method.DRAFT_MODEL, Method.EAGLE, Method.EAGLE3, Method.DFLASH})


def models_missing(spec: SpecPolicySpec) -> Iterator[Contradiction]:
    """Methods that run a second model name it."""
    for place, drafter in enumerate(spec.drafters or ()):
        if drafter.method in NEEDS_MODEL and drafter.model is None:
            yield Contradiction(("drafters", place, "model"), f"{drafter.method} needs a model", "name the draft model")


def models_unwanted(spec: SpecPolicySpec) -> Iterator[Contradiction]:
    """Look-up methods have no model."""
    for place, drafter in enumerate(spec.drafters or ()):
        if drafter.method in LOOKUP_METHODS and drafter.model is not None:
            yield Contradiction(("drafters", place, "model"), f"{drafter.method} has no model", "remove the model")


def lookups_unwanted(spec: SpecPolicySpec) -> Iterator[Contradiction]:
    """Only look-up methods look up n-grams."""
    for place, drafter in enumerate(spec.drafters or ()):
        if drafter.method not in LOOKUP_METHODS and (drafter.lookup_min or drafter.lookup_max):
            yield Contradiction(
                ("drafters", place, "lookupMin" if drafter.lookup_min else "lookupMax"),
                f"{drafter.method} looks nothing up",
                "lookupMin and lookupMax are for n-gram methods",
            )


def lookups_swapped(spec: SpecPolicySpec) -> Iterator[Contradiction]:
    """The shortest n-gram is no longer than the longest."""
    for place, drafter in enumerate(spec.drafters or ()):
        low, high = lookup_range(drafter)
        if low > high:
            yield Contradiction(
                ("drafters", place, "lookupMin"), f"lookupMin {low} is above lookupMax {high}", "swap them"
            )


def levels_misread(spec: SpecPolicySpec) -> Iterator[Contradiction]:
    """No level has a name that YAML reads as something other than text."""
    for place, level in enumerate(spec.levels or ()):
        if level.name in YAML_BOOLEANS:
            yield Contradiction(
                ("levels", place, "name"),
                f"a level called {level.name!r} reads as something else in YAML",
                "use `disabled`",
            )


def disabled_not_last(spec: SpecPolicySpec) -> Iterator[Contradiction]:
    """The last level is `disabled`, and no other is."""
    names = [level.name for level in spec.levels or ()]
    early = [place for place, name in enumerate(names[:-1]) if name == DISABLED_NAME]
    for place in early:
        yield Contradiction(("levels", place, "name"), "`disabled` comes before other levels", "move it to the end")
    if names and not early and names[-1] != DISABLED_NAME:
        yield Contradiction(
            ("levels", len(names) - 1, "name"),
            "the last level must be `disabled`",
            "end the list with {name: disabled}",
        )


def disabled_drafts(spec: SpecPolicySpec) -> Iterator[Contradiction]:
    """`disabled` has neither drafter nor tokens."""
    for place, level in enumerate(spec.levels or ()):
        if level.name == DISABLED_NAME and (level.drafter is not None or level.tokens is not None):
            yield Contradiction(("levels", place), "`disabled` has neither drafter nor tokens", "remove them")


def ranges_unclear(spec: SpecPolicySpec) -> Iterator[Contradiction]:
    """K by batch rises in requests, and `tokens` is the largest K of its level."""
    for place, level in enumerate(spec.levels or ()):
        ranges = level.tokens_by_batch or ()
        where = ("levels", place, "tokensByBatch")
        if ranges and level.tokens is None:
            yield Contradiction(where, f"level {level.name!r} has no tokens below them", "remove them")
            continue
        for before, after in pairwise(ranges):
            if after.from_requests <= before.from_requests:
                words = f"{after.from_requests} requests come after {before.from_requests}"
                yield Contradiction(where, words, "list the smallest batch first, each once")
        for one in ranges:
            if level.tokens is not None and one.tokens >= level.tokens:
                words = f"K = {one.tokens} from {one.from_requests} requests on is not below tokens, {level.tokens}"
                yield Contradiction(where, words, "give the largest K as tokens")


def levels_incomplete(spec: SpecPolicySpec) -> Iterator[Contradiction]:
    """Every level but `disabled` has a drafter and tokens."""
    for place, level in enumerate(spec.levels or ()):
        for field, value in (("drafter", level.drafter), ("tokens", level.tokens)):
            if level.name != DISABLED_NAME and value is None:
                yield Contradiction(("levels", place, field), f"level {level.name!r} has no {field}", f"add {field}")


def drafters_unknown(spec: SpecPolicySpec) -> Iterator[Contradiction]:
    """Levels name drafters of this policy."""
    known = {drafter.name for drafter in spec.drafters or ()}
    for place, level in enumerate(spec.levels or ()):
        if level.drafter is not None and level.drafter not in known:
            yield Contradiction(
                ("levels", place, "drafter"),
                f"no drafter is called {level.drafter!r}",
                "drafters here: " + (", ".join(sorted(known)) or "none"),
            )


def tokens_not_falling(spec: SpecPolicySpec) -> Iterator[Contradiction]:
    """K falls strictly from level to level of one drafter."""
    least: dict[str, int] = {}
    for place, level in enumerate(spec.levels or ()):
        if level.drafter is None or level.tokens is None:
            continue
        before = least.get(level.drafter)
        if before is not None and level.tokens >= before:
            yield Contradiction(
                ("levels", place, "tokens"),
                f"{level.tokens} tokens of {level.drafter!r} come after {before}",
                "list the most aggressive level first",
            )
        least[level.drafter] = level.tokens if before is None else min(level.tokens, before)


def rule_levels_unknown(spec: SpecPolicySpec) -> Iterator[Contradiction]:
    """Rules switch to levels of this policy."""
    for place, rule in enumerate(spec.rules or ()):
        yield from _unknown_level(spec, ("rules", place, "action", "level"), rule.action.level)


def schedule_levels_unknown(spec: SpecPolicySpec) -> Iterator[Contradiction]:
    """Schedules name levels of this policy."""
    for place, schedule in enumerate(spec.schedules):
        yield from _unknown_level(spec, ("schedules", place, "level"), schedule.level)


def alert_levels_unknown(spec: SpecPolicySpec) -> Iterator[Contradiction]:
    """Alerts switch to levels of this policy."""
    for place, alert in enumerate(spec.alerts):
        yield from _unknown_level(spec, ("alerts", place, "action", "level"), alert.action.level)


def _unknown_level(spec: SpecPolicySpec, field: tuple[str | int, ...], name: str | None) -> Iterator[Contradiction]:
    known = [level.name for level in spec.levels or ()]
    if spec.levels is not None and name is not None and name not in known:
        yield Contradiction(field, f"no level is called {name!r}", "levels here: " + ", ".join(known))


def evidence_short(spec: SpecPolicySpec) -> Iterator[Contradiction]:
    """Evidence may reach back at least one window."""
    signals = spec.signals
    if signals.max_evidence_seconds < signals.window_seconds:
        yield Contradiction(
            ("signals", "maxEvidenceSeconds"),
            f"{signals.max_evidence_seconds} s of evidence are less than one window of {signals.window_seconds} s",
            "make it at least one window",
        )


def interval_long(spec: SpecPolicySpec) -> Iterator[Contradiction]:
    """The target is looked at at least once a window."""
    window = spec.signals.window_seconds
    if spec.interval_seconds > window:
        yield Contradiction(
            ("intervalSeconds",),
            f"looking every {spec.interval_seconds} s misses windows of {window} s",
            "make the interval at most the window",
        )


def probe_gap_shrinks(spec: SpecPolicySpec) -> Iterator[Contradiction]:
    """The gap between probes never shrinks."""
    probe = spec.guardrails.probe
    if probe.max_seconds < probe.after_seconds:
        yield Contradiction(
            ("guardrails", "probe", "maxSeconds"),
            f"{probe.max_seconds} s is less than afterSeconds, {probe.after_seconds} s",
            "make it at least afterSeconds",
        )


CHECKS = (
    duplicate_names,
    models_missing,
    models_unwanted,
    lookups_unwanted,
    lookups_swapped,
    levels_misread,
    disabled_not_last,
    disabled_drafts,
    ranges_unclear,
    levels_incomplete,
    drafters_unknown,
    tokens_not_falling,
    rule_levels_unknown,
    schedule_levels_unknown,
    alert_levels_unknown,
    evidence_short,
    interval_long,
    probe_gap_shrinks,
)
"""What `contradictions` asks, one function a rule; each has a twin among the custom resource's CEL rules."""
