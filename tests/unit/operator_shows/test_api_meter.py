"""Requests to the API server are named as roles name them.

Source: kubernetes.io/docs/reference/access-authn-authz/authorization, "Determine the Request Verb".
"""

import pytest

from specloop_operator.api_meter import verb_and_resource

APPS = "/apis/apps/v1/namespaces/llm"


@pytest.mark.parametrize(
    ("method", "path", "verb", "resource"),
    [
        ("GET", f"{APPS}/deployments/llama", "get", "deployments"),
        ("GET", f"{APPS}/deployments", "list", "deployments"),
        ("GET", "/apis/apps/v1/deployments", "list", "deployments"),
        ("GET", f"{APPS}/deployments/llama/scale", "get", "deployments/scale"),
        ("PATCH", f"{APPS}/deployments/llama", "patch", "deployments"),
        ("PUT", "/apis/specloop.dev/v1alpha1/namespaces/llm/specpolicies/a/status", "update", "specpolicies/status"),
        ("POST", "/apis/events.k8s.io/v1/namespaces/llm/events", "create", "events"),
        ("DELETE", "/api/v1/namespaces/llm/pods/llama-0", "delete", "pods"),
        ("GET", "/api/v1/pods", "list", "pods"),
        ("GET", "/api/v1/namespaces", "list", "namespaces"),
        ("GET", "/api/v1/namespaces/llm", "get", "namespaces"),
        ("GET", "/apis/apps/v1", "get", "none"),
        ("GET", "/version", "get", "none"),
    ],
)
def test_a_request_is_named_by_verb_and_resource(method: str, path: str, verb: str, resource: str) -> None:
    """Names of objects and namespaces are in no label: there is no end of them."""
    assert verb_and_resource(method, path) == (verb, resource)


def test_a_list_that_stays_open_is_a_watch() -> None:
    """One object is never watched by its path."""
    assert verb_and_resource("GET", "/api/v1/pods", watching=True) == ("watch", "pods")
