"""Who wins over whom, in three tables for the documentation; `turn` follows them, and a test holds it to them."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One row: its name for tests, what is so, and what is done."""

    name: str
    so: str
    done: str


DECIDING = (
    Row("cannot be followed", "The policy cannot be followed: its spec, an annotation, its target, an older policy",
        "Nothing is decided."),
    Row("suspended", "It is suspended, by `spec.suspend`, the annotation `specloop.dev/suspend` or an alert",
        "Everything is held as it is."),
    Row("unmanaged", "What runs is no level of the ladder", "It is left alone."),
    Row("rollback", "A person asks to roll back (`specloop rollback`)",
        "Back to the level before the last promoted change, all pods at once; the level left is not tried again."),
    Row("harm", "A promoted level does harm while it is watched",
        "Back to the level before, all pods at once; the level left is not tried again."),
    Row("override", "An override is in force", "Its level, by a canary that is not judged by its speed."),
    Row("disabling alert", "An alert that disables is in force", "Off, by a canary that is not judged by its speed."),
    Row("schedule", "A schedule is in force", "Its level, by a canary that is not judged by its speed."),
    Row("alert", "Another alert that asks for a level is in force", "Its level, in the same way."),
    Row("rules", "A rule holds", "Its level, by a canary that must serve as well as the others."),
    Row("new probe", "Nothing is known of a level above, and its gap is over",
        "That level on a canary, judged by the rules."),
)  # fmt: skip
"""While no roll-out is under way: the first that is so decides."""

ENDING = (
    Row("cannot be followed", "The policy is deleted or cannot be followed, or its target is gone",
        "The old template is put back, where there is one."),
    Row("undone", "Somebody else set another level", "It is left as it is: `Undone`, and `Drifted`."),
    Row("changed", "The rest of the pod template was changed", "The old level is put into the new template."),
    Row("rollback", "A person asks to roll back", "The old template is put back; the level is not tried again."),
    Row("suspended", "The policy is suspended, by whomever", "The old template is put back."),
    Row("recommend", "The policy's mode is Recommend now", "The old template is put back."),
    Row("edited", "The policy defines the level anew", "The old template is put back."),
    Row("override", "An override or a disabling alert asks for another level, or whoever asked for this one does not "
        "any more", "The old template is put back; then it is the turn of whoever asks."),
    Row("schedule", "A schedule or another alert asks for another level",
        "A probe is put back, and a level that somebody asked for; what a rule asked for ends first."),
    Row("rules", "A rule asks for another level", "The roll-out ends first."),
)  # fmt: skip
"""While a roll-out is under way: the first that is so says what becomes of it; a retreat but for the second goes on."""

WAITING = (
    Row("Recommend", "The mode is Recommend", "The decision is said, and not remembered."),
    Row("TargetPaused", "Somebody else holds the target's roll-out (`TargetPaused`)", "Even a retreat waits."),
    Row("Reverted", "Somebody else set another level than the operator had (`Reverted`)",
        "Even a retreat waits, until the policy is edited or overridden; an alert does not end that."),
    Row("TargetBusy", "The target rolls out something else, or has no pods (`TargetBusy`)", "A retreat does not wait."),
    Row("Waiting", "As many roll-outs as the cluster may have at a time are under way (`Waiting`)",
        "A retreat does not wait."),
    Row("UnsupportedCommand", "The level cannot be written, or is known not to start (`UnsupportedCommand`)",
        "It is not gone to."),
)  # fmt: skip
"""Why a decision is not carried out now, by the reason of its condition; the first that is so is said."""


def precedence_table(rows: Iterable[Row], so: str, done: str) -> str:
    """Rows as a table in Markdown, in their order."""
    lines = [f"| {place} | {row.so} | {row.done} |" for place, row in enumerate(rows, 1)]
    return "\n".join((f"| rank | {so} | {done} |", "|---|---|---|", *lines))
