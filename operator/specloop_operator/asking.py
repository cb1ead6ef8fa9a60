"""Policies that ask for alerts: which alerts are about a policy's target."""

import re
from functools import cached_property

from specloop_operator.binding import BindingError, bind
from specloop_operator.sight import Blind, parse
from specloop_operator.store import Body, Store, name_of, target_of
from specloop_operator.workload import KINDS
from specloop_policy.alerts import Alert, binding_of
from specloop_policy.model import SpecPolicySpec

WORKLOAD_LABELS = {kind.lower(): kind for kind in KINDS}
"""Labels that name the workload that an alert is about, as kube-state-metrics calls them; each must be the target's."""

_RANDOM = "[bcdfghjklmnpqrstvwxz2456789]"
"""Letters that Kubernetes makes names of (k8s.io/apimachinery, util/rand)."""

POD_NAMES = {"Deployment": rf"-{_RANDOM}{{1,10}}-{_RANDOM}{{5}}", "StatefulSet": r"-\d+"}
"""How the names of a workload's pods go on after its own, for a pod that is gone by the time that its alert comes."""

MODEL_LABEL = "model_name"
"""What vLLM, and so the shipped rules, name a model by."""


class Asking:
    """A policy, its spec, and what it asks of alerts, for the length of a message.

    What an alert is compared with is worked out once, and where an alert has such a label alone: a message may have ten
    thousand alerts.
    """

    def __init__(self, policy: Body, spec: SpecPolicySpec, store: Store) -> None:
        self.name = name_of(policy)
        self._spec = spec
        self._store = store
        self._kind, (_, self._workload) = target_of(policy)
        self._target = store.target(self._kind, (self.name[0], self._workload)) if self._kind in KINDS else None

    def asks_for(self, alert: Alert, pod_label: str) -> bool:
        """Whether it asks for the alert, and the alert is about its target."""
        binding = binding_of(alert, self._spec.alerts)
        return binding is not None and self._is_about(alert, pod_label, by_model=MODEL_LABEL not in binding.match)

    def _is_about(self, alert: Alert, pod_label: str, *, by_model: bool) -> bool:
        """Whether what the alert says of workload, pod and, where that is asked, model is the policy's target."""
        for label, labelled in WORKLOAD_LABELS.items():
            if label in alert.labels and (labelled, alert.labels[label]) != (self._kind, self._workload):
                return False
        if self._kind not in KINDS:
            return True
        model, pod = alert.labels.get(MODEL_LABEL), alert.labels.get(pod_label)
        if by_model and model and self._served_name not in (None, model):
            return False
        return not pod or pod in self._pods or self._pod_names.fullmatch(pod) is not None

    @cached_property
    def _served_name(self) -> str | None:
        """What the target's metrics call its model; None where its command does not say so for sure."""
        if self._target is None:
            return None
        try:
            return bind(self._target.template, self._spec.container_name, self._spec.engine).line.served_name
        except BindingError:
            return None

    @cached_property
    def _pods(self) -> frozenset[str]:
        """The pods that the target has, by name."""
        found = self._store.pods_of(self._target) if self._target is not None else ()
        return frozenset(str(one["metadata"]["name"]) for one in found)

    @cached_property
    def _pod_names(self) -> re.Pattern[str]:
        """What pods that are gone were called."""
        return re.compile(re.escape(self._workload) + POD_NAMES[self._kind])


def asking(policy: Body, store: Store) -> Asking | None:
    """A policy that asks for alerts; None of one that asks for none, or cannot be followed."""
    spec = spec_of(policy)
    return None if spec is None else Asking(policy, spec, store)


def spec_of(policy: Body) -> SpecPolicySpec | None:
    """The spec of a policy that asks for alerts."""
    if not (policy.get("spec") or {}).get("alerts"):
        return None
    try:
        return parse(policy)[0]
    except Blind:
        return None
