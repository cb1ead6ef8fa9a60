"""What the operator counts of itself.  What is not known has no series, never 0."""

import platform
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics

from specloop_operator import families
from specloop_operator.families import TickResult
from specloop_policy.alerts import AlertNews
from specloop_policy.canary import Ending
from specloop_policy.decision import ActionName
from specloop_policy.observation import Outcome
from specloop_policy.status import ConditionStatus

CONDITION_VALUES = {ConditionStatus.TRUE: 1, ConditionStatus.FALSE: 0, ConditionStatus.UNKNOWN: -1}
LEVEL_KINDS = ("observed", "desired")


class Metrics:
    """The operator's own metrics, in a registry of their own together with those of the process."""

    def __init__(self, version: str) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # they would nearly double the page
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._decisions = families.DECISIONS.made(self.registry)
        self._level = families.LEVEL.made(self.registry)
        self._acceptance = families.ACCEPTANCE.made(self.registry)
        self._outcomes = families.OUTCOMES.made(self.registry)
        self._condition = families.CONDITION.made(self.registry)
        self._rollouts = families.ROLLOUTS.made(self.registry)
        self._watch_failures = families.WATCH_FAILURES.made(self.registry)
        self._rollouts_in_progress = families.ROLLOUTS_IN_PROGRESS.made(self.registry)
        self._tick_seconds = families.TICK_SECONDS.made(self.registry)
        self._ticks = families.TICKS.made(self.registry)
        self._source_queries = families.SOURCE_QUERIES.made(self.registry)
        self._source_up = families.SOURCE_UP.made(self.registry)
        self._api_requests = families.API_REQUESTS.made(self.registry)
        self._rollout_started = families.ROLLOUT_STARTED.made(self.registry)
        self._target = families.TARGET.made(self.registry)
        self._leader = families.LEADER.made(self.registry)
        self._alerts = families.ALERTS.made(self.registry)
        self._webhook_requests = families.WEBHOOK_REQUESTS.made(self.registry)
        self._levels: dict[tuple[str, str, str], str] = {}
        self._targets: dict[tuple[str, str], tuple[str, str]] = {}
        families.BUILD.made(self.registry).labels(version, platform.python_version()).set(1)
        for result in TickResult:
            self._ticks.labels(result)
        for news in AlertNews:
            self._alerts.labels(news)

    def introduce(self, namespace: str, policy: str) -> None:
        """Begin a policy's counters at 0: PromQL's `increase` does not see a series that begins at 1."""
        for action in ActionName:
            self._decisions.labels(namespace, policy, action)
        for outcome in Outcome:
            self._outcomes.labels(namespace, policy, outcome)
        for result in Ending:
            self._rollouts.labels(namespace, policy, result)
        self._watch_failures.labels(namespace, policy)

    def forget(self, namespace: str, policy: str) -> None:
        """Drop every series of a policy that is gone."""
        counted = (self._decisions, self._outcomes, self._rollouts, self._watch_failures)
        shown = (self._level, self._acceptance, self._condition, self._rollout_started, self._target)
        for family in (*counted, *shown):
            family.remove_by_labels({"namespace": namespace, "policy": policy})
        for kind in LEVEL_KINDS:
            self._levels.pop((namespace, policy, kind), None)
        self._targets.pop((namespace, policy), None)

    def decided(self, namespace: str, policy: str, action: ActionName) -> None:
        """Count a decision."""
        self._decisions.labels(namespace, policy, action).inc()

    def windows(self, namespace: str, policy: str, outcomes: Iterable[Outcome]) -> None:
        """Count windows that were not there before."""
        for outcome in outcomes:
            self._outcomes.labels(namespace, policy, outcome).inc()

    def levels(self, namespace: str, policy: str, observed: str | None, desired: str | None) -> None:
        """Show the levels that run and that are wanted; None where there is none."""
        for kind, level in zip(LEVEL_KINDS, (observed, desired), strict=True):
            self._show_level((namespace, policy, kind), level)

    def _show_level(self, key: tuple[str, str, str], level: str | None) -> None:
        shown = self._levels.pop(key, None)
        if shown is not None and shown != level:
            self._level.remove(*key, shown)
        if level is not None:
            self._levels[key] = level
            self._level.labels(*key, level).set(1)

    def acceptance(self, namespace: str, policy: str, ratio: float | None) -> None:
        """Show the acceptance rate, 0 to 1; None when it is not known."""
        if ratio is None:
            self._acceptance.remove(namespace, policy)
        else:
            self._acceptance.labels(namespace, policy).set(ratio)

    def condition(self, namespace: str, policy: str, type_: str, status: ConditionStatus) -> None:
        """Show a condition of the policy."""
        self._condition.labels(namespace, policy, type_).set(CONDITION_VALUES[status])

    def target(self, namespace: str, policy: str, kind: str, name: str) -> None:
        """Show which workload a policy governs."""
        shown = self._targets.get((namespace, policy))
        if shown == (kind, name):
            return
        if shown is not None:
            self._target.remove(namespace, policy, *shown)
        self._targets[namespace, policy] = kind, name
        self._target.labels(namespace, policy, kind, name).set(1)

    def rollout(self, namespace: str, policy: str, started_at: float | None) -> None:
        """Show since when a roll-out is under way, seconds since the epoch; None when none is."""
        if started_at is None:
            self._rollout_started.remove(namespace, policy)
        else:
            self._rollout_started.labels(namespace, policy).set(started_at)

    def leads(self, leads: Callable[[], bool]) -> None:
        """Show, from now on, whether this operator is the one that acts at that moment."""
        self._leader.set_function(lambda: float(leads()))

    def alert(self, news: AlertNews, count: int) -> None:
        """Count what alerts were to a policy."""
        self._alerts.labels(news).inc(count)

    def answered(self, code: int) -> None:
        """Count a message to the webhook."""
        self._webhook_requests.labels(str(code)).inc()

    def rolled_out(self, namespace: str, policy: str, result: Ending) -> None:
        """Count a roll-out that ended."""
        self._rollouts.labels(namespace, policy, result).inc()

    def watch_failed(self, namespace: str, policy: str) -> None:
        """Count a promoted level that did harm."""
        self._watch_failures.labels(namespace, policy).inc()

    def rollouts_in_progress(self, count: int) -> None:
        """Show how many roll-outs are under way."""
        self._rollouts_in_progress.set(count)

    def ticked(self, seconds: float, result: TickResult) -> None:
        """Count a tick, and how long it took."""
        self._tick_seconds.observe(seconds)
        self._ticks.labels(result).inc()

    def queried(self, source: str, answered: int, failed: int) -> None:
        """Count queries that a metric source was asked together, and show whether any was answered."""
        for result, count in (("answered", answered), ("failed", failed)):
            self._source_queries.labels(source, result).inc(count)
        self._source_up.labels(source).set(1 if answered else 0)

    def requested(self, verb: str, resource: str, code: str) -> None:
        """Count a request to the API server; code is `none` where no answer came."""
        self._api_requests.labels(verb, resource, code).inc()
