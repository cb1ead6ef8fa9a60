"""Values of the chart, in combinations: every two choices meet in a row, for what goes wrong is mostly two together."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

Values = Mapping[str, Any]

ENGINES = {"matchLabels": {"app": "llama"}}
MONITORING_PEER = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
WEB_TLS = {"secretName": "webhook-tls", "clientCa": False}
TOKEN = {"name": "webhook-token", "key": "tokens"}


def choices(namespace: str) -> Mapping[str, Sequence[Values]]:
    """What can be chosen apart from each other, the chart's own values first; a choice may bring what it needs."""
    monitors = {"labels": {"release": "prometheus"}, "enabled": True}
    engines = {"enabled": True, "podSelector": ENGINES, "from": [MONITORING_PEER]}
    return {
        "replicas": [{}, {"replicas": 1}, {"replicas": 3}],
        "scope": [{}, {"namespaces": [namespace]}],
        "kinds": [{}, {"targetKinds": ["Deployment"]}, {"targetKinds": ["StatefulSet"]}],
        "settings": [
            {},
            {
                "settings": {
                    "healthPort": 9090,
                    "logFormat": "text",
                    "sources": {
                        "default": {
                            "type": "prometheus",
                            "url": "http://prometheus.monitoring:9090",
                            "tokenFile": "/etc/prometheus/token",
                        }
                    },
                },
                "volumes": [{"name": "prometheus", "secret": {"secretName": "prometheus"}}],
                "volumeMounts": [{"name": "prometheus", "mountPath": "/etc/prometheus", "readOnly": True}],
            },
        ],
        "live": [
            {},
            {"live": {"tokenSecrets": []}},
            {"namespaces": [namespace], "live": {"createTokenSecrets": True, "tokenSecrets": ["one", "two"]}},
        ],
        "webhook": [
            {},
            {"webhook": {"enabled": True, "tokenSecret": TOKEN}},
            {"webhook": {"enabled": True, "tokenSecret": TOKEN, "tls": WEB_TLS}},
            {"webhook": {"enabled": True, "tls": {**WEB_TLS, "clientCa": True}, "port": 9443}},
        ],
        "tls": [{}, {"metrics": {"tlsSecret": "operator-tls"}}],
        "monitoring": [
            {},
            {
                "monitoring": {
                    "rules": monitors,
                    "operatorMonitor": monitors,
                    "engineMonitor": {**monitors, "selector": ENGINES},
                    "dashboard": {"enabled": True},
                }
            },
            {
                "monitoring": {
                    "operatorMonitor": {**monitors, "tlsConfig": {"insecureSkipVerify": True}},
                    "engineMonitor": {**monitors, "selector": ENGINES, "port": "metrics", "namespaces": ["chat"]},
                }
            },
        ],
        "network": [
            {},
            {
                "networkPolicies": {
                    "enabled": True,
                    "webhookFrom": [MONITORING_PEER],
                    "prometheus": {"to": [MONITORING_PEER]},
                }
            },
            {
                "namespaces": [namespace],
                "networkPolicies": {
                    "enabled": True,
                    "metricsFrom": [MONITORING_PEER],
                    "webhookFrom": [MONITORING_PEER, {"ipBlock": {"cidr": "10.0.0.0/8"}}],
                    "apiServer": {"cidrs": ["10.0.0.1/32"], "ports": [6443]},
                    "prometheus": {"to": [MONITORING_PEER]},
                    "engines": engines,
                },
            },
        ],
        "placement": [
            {},
            {
                "image": "registry.example/specloop@sha256:" + 64 * "0",
                "imagePullSecrets": [{"name": "registry"}],
                "priorityClassName": "system-cluster-critical",
                "nodeSelector": {"kubernetes.io/os": "linux"},
                "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}],
                "affinity": {
                    "nodeAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "weight": 1,
                                "preference": {"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]},
                            }
                        ]
                    }
                },
                "podLabels": {"team": "inference", "app.kubernetes.io/name": "somebody-else"},
                "podAnnotations": {"note": "one"},
                "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
            },
        ],
        "parts": [{}, {"crds": {"install": False}, "peopleRoles": {"install": False}}],
    }


def rows(namespace: str) -> Iterator[Values]:
    """Values in which every two choices meet."""
    options = list(choices(namespace).values())
    for row in pairwise([len(one) for one in options]):
        values: dict[str, Any] = {}
        for choice in (options[column][option] for column, option in enumerate(row)):
            values |= choice
        yield values


def pairwise(sizes: Sequence[int]) -> list[list[int]]:
    """Rows of one option from each column, so that every two options of different columns meet in some row.

    Greedily: each row begins with a pair that has not met, and goes on with what meets most that is new.
    """
    left = {
        ((one, a), (other, b))
        for one, other in combinations(range(len(sizes)), 2)
        for a, b in product(range(sizes[one]), range(sizes[other]))
    }
    found = []
    while left:
        chosen = dict(min(left))
        for column in set(range(len(sizes))) - chosen.keys():
            met = [
                sum(tuple(sorted([(column, option), cell])) in left for cell in chosen.items())
                for option in range(sizes[column])
            ]
            chosen[column] = met.index(max(met))
        found.append([chosen[column] for column in range(len(sizes))])
        left -= set(combinations(sorted(chosen.items()), 2))
    return found
