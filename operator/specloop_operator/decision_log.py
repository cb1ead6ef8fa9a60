"""One log line for each decision, with the same fields in the same words as status and events."""

import logging
from collections.abc import Mapping

from specloop_operator.gist import gist
from specloop_policy.decision import Decision

LOG = logging.getLogger("specloop.decisions")

FIELDS: Mapping[str, str] = {
    "namespace": "Namespace of the policy.",
    "policy": "Name of the policy.",
    "target": "Kind and name of the workload, as `Deployment/llama-70b`.",
    "mode": "Recommend or Enforce: whether the decision is carried out.",
    "action": "What it does: Hold, StepDown, StepUp, SwitchTo, Disable, Probe, Alert.",
    "from": "The level before.",
    "to": "The level to be at afterwards.",
    "rule": "The rule, schedule or alert behind it.",
    "reason": "Why, in words: value, limit and window.",
    "acceptancePercent": "Acceptance rate in the evidence; null when unknown.",
}
"""The fields of a line, each with its meaning, beside `time`, `level`, `logger` and `message`."""


def log_decision(
    namespace: str,
    policy: str,
    target: str,
    mode: str,
    before: str | None,
    decision: Decision,
    acceptance_percent: float | None,
) -> None:
    """Write the line; `before` is the level until then."""
    reason = " ".join(decision.reason.split())  # an engine's last words may have several lines
    move = f"{before} to {decision.level}" if decision.changes_level else f"at {before}"
    values = (namespace, policy, target, mode, decision.action.value, before, decision.level, decision.rule, reason)
    fields = dict(zip(FIELDS, (*values, acceptance_percent), strict=True))
    news = f"{mode} {decision.action} {before} {decision.level} {decision.rule} {gist(reason)}"
    message = "%s/%s %s: %s, %s (%s): %s"
    LOG.info(message, namespace, policy, target, decision.action, move, mode, reason, extra={**fields, "gist": news})


def fields_table() -> str:
    """The fields as a table in Markdown, for the documentation."""
    rows = [f"| `{name}` | {meaning} |" for name, meaning in FIELDS.items()]
    return "\n".join(("| field | meaning |", "|---|---|", *rows))
