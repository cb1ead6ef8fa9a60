"""The operator's metrics as families of Prometheus: the table that counters and reference page are made of.

Labels are bounded: a policy has at most one series for each action, outcome, result and condition type, two levels,
one acceptance and one count of failed watches.  The rule behind a decision is no label: alerts name themselves, and
anybody's alert would be a series for ever; the rule is in the decision's log line, event and status.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from specloop_policy.alerts import AlertNews
from specloop_policy.canary import Ending
from specloop_policy.decision import ActionName
from specloop_policy.observation import Outcome

POLICY = ("namespace", "policy")


class TickResult(StrEnum):
    """How a tick ended."""

    DONE = "done"
    CONFLICT = "conflict"
    """Somebody else wrote in between: the next tick looks again."""
    FAILED = "failed"


Kind = TypeVar("Kind", Counter, Gauge, Histogram)


@dataclass(frozen=True, slots=True)
class Family(Generic[Kind]):
    """One family: what it is called, what it is split by, what it means."""

    kind: type[Kind]
    name: str
    labels: tuple[str, ...]
    meaning: str

    def made(self, registry: CollectorRegistry) -> Kind:
        """The family ready for counting, registered."""
        return self.kind(self.name, self.meaning, self.labels, registry=registry)


DECISIONS = Family(
    Counter,
    "specloop_decisions_total",
    (*POLICY, "action"),
    f"Decisions by what they do: {', '.join(ActionName)}; one that is only recommended counts once, as in the status.",
)
LEVEL = Family(
    Gauge,
    "specloop_level_info",
    (*POLICY, "kind", "level"),
    "1 for the level that runs (kind observed) and the one to be at (kind desired).",
)
ACCEPTANCE = Family(
    Gauge, "specloop_acceptance_ratio", POLICY, "Acceptance rate in the latest evidence, 0 to 1; absent when unknown."
)
OUTCOMES = Family(
    Counter,
    "specloop_window_outcomes_total",
    (*POLICY, "outcome"),
    f"Windows of pods by what they are worth: {', '.join(Outcome)}.",
)
CONDITION = Family(
    Gauge,
    "specloop_condition",
    (*POLICY, "type"),
    "Conditions of the policy by type: 1 for True, 0 for False, -1 for Unknown.",
)
ROLLOUTS = Family(
    Counter, "specloop_rollouts_total", (*POLICY, "result"), f"Roll-outs that ended, by result: {', '.join(Ending)}."
)
WATCH_FAILURES = Family(
    Counter,
    "specloop_watch_failures_total",
    POLICY,
    "Levels that did harm after their promotion, so that the old one was put back.",
)
ROLLOUTS_IN_PROGRESS = Family(Gauge, "specloop_rollouts_in_progress", (), "Roll-outs under way over the cluster.")
TICK_SECONDS = Family(Histogram, "specloop_tick_seconds", (), "How long ticks took, all policies together.")
TICKS = Family(
    Counter,
    "specloop_ticks_total",
    ("result",),
    f"Ticks by result: {', '.join(TickResult)}; a conflict means that somebody else wrote in between.",
)
SOURCE_QUERIES = Family(
    Counter,
    "specloop_source_queries_total",
    ("source", "result"),
    "Queries to metric sources, scrapes of pods included, by result: answered, failed.",
)
SOURCE_UP = Family(Gauge, "specloop_source_up", ("source",), "1 when the metric source gave an answer last, else 0.")
ROLLOUT_STARTED = Family(
    Gauge,
    "specloop_rollout_started_timestamp_seconds",
    POLICY,
    "When the roll-out under way began, in seconds since the epoch; absent when none is.",
)
TARGET = Family(
    Gauge,
    "specloop_target_info",
    (*POLICY, "kind", "name"),
    "1 for the workload that a policy governs, so that its pods' metrics can be joined with the policy's.",
)
LEADER = Family(Gauge, "specloop_leader", (), "1 where this operator is the one that acts, else 0.")
ALERTS = Family(
    Counter,
    "specloop_alerts_total",
    ("outcome",),
    f"Alerts by what they were to the policies: {', '.join(AlertNews)}; once for each policy that asks for them.",
)
WEBHOOK_REQUESTS = Family(
    Counter, "specloop_webhook_requests_total", ("code",), "Messages to the webhook, by the HTTP status of the answer."
)
API_REQUESTS = Family(
    Counter,
    "specloop_api_requests_total",
    ("verb", "resource", "code"),
    "Requests to the API server by verb, resource and HTTP status; code none where no answer came. "
    "A watch counts when it is opened.",
)
BUILD = Family(Gauge, "specloop_build_info", ("version", "python_version"), "1, labelled with what runs.")

FAMILIES: tuple[Family[Any], ...] = (
    DECISIONS,
    LEVEL,
    ACCEPTANCE,
    OUTCOMES,
    CONDITION,
    ROLLOUTS,
    WATCH_FAILURES,
    ROLLOUTS_IN_PROGRESS,
    TICK_SECONDS,
    TICKS,
    SOURCE_QUERIES,
    SOURCE_UP,
    ROLLOUT_STARTED,
    TARGET,
    LEADER,
    ALERTS,
    WEBHOOK_REQUESTS,
    API_REQUESTS,
    BUILD,
)
"""Every family, in the order of the reference page."""


def families_table() -> str:
    """Every family as a table in Markdown, for the documentation."""
    rows = [
        f"| `{one.name}` | {one.kind.__name__.lower()} | {', '.join(one.labels)} | {one.meaning} |" for one in FAMILIES
    ]
    return "\n".join(("| metric | type | labels | meaning |", "|---|---|---|---|", *rows))
