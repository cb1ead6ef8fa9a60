"""The cluster as the user's own kubeconfig reaches it: SpecPolicies read, their annotations written.

A kubeconfig that leads nowhere and every refusal of the API server becomes one InputError here.
"""

import getpass
import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, TypeVar

import urllib3
import yaml
from kubernetes.client import ApiClient, AuthenticationV1Api, Configuration, CustomObjectsApi, V1SelfSubjectReview
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException
from kubernetes.config.kube_config import KUBE_CONFIG_DEFAULT_LOCATION, KubeConfigLoader, KubeConfigMerger
from pydantic import BaseModel, ValidationError

from specloop_cli.errors import InputError
from specloop_cli.live_policy import LivePolicy, PolicyList
from specloop_policy.model import GROUP, VERSION

PLURAL = "specpolicies"
RESOURCE = f"{PLURAL}.{GROUP}"
NOT_INSTALLED = "the cluster does not know SpecPolicy: install it by specloop crd | kubectl apply -f -"
TIMEOUT_SECONDS = (5.0, 30.0)
"""To connect, and between two bytes of an answer."""
MAX_NAME = 1024
"""Letters of a user's name that are kept."""

Read = TypeVar("Read", bound=BaseModel)

_API: Mapping[str, Any] = {"group": GROUP, "version": VERSION, "plural": PLURAL}


@dataclass(frozen=True, slots=True)
class Where:
    """Which cluster and namespace a user means; None is what the kubeconfig says."""

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None


class Changed(InputError):
    """Somebody else wrote the object between our reading and our writing; trying again helps."""


class Cluster:
    """SpecPolicies within reach, in one namespace or in all."""

    def __init__(self, client: ApiClient, namespace: str, context_user: str | None) -> None:
        self.namespace = namespace
        self._client = client
        self._context_user = context_user
        self._objects = CustomObjectsApi(client)

    def policies(self, *, everywhere: bool = False) -> tuple[LivePolicy, ...]:
        """All policies of the namespace, or of all, by namespace and name."""
        place = "all namespaces" if everywhere else f"namespace {self.namespace}"
        with self._in_words(f"list {RESOURCE} in {place}", NOT_INSTALLED):
            if everywhere:
                answer = self._objects.list_cluster_custom_object(**_API, _request_timeout=TIMEOUT_SECONDS)
            else:
                answer = self._objects.list_namespaced_custom_object(
                    **_API, namespace=self.namespace, _request_timeout=TIMEOUT_SECONDS
                )
        found = self._read(PolicyList, answer).items
        return tuple(sorted(found, key=lambda one: (one.metadata.namespace, one.name)))

    def policy(self, name: str) -> LivePolicy:
        """One policy as it is now."""
        with self._in_words(f"get {RESOURCE} in namespace {self.namespace}", f"policy {name} is gone"):
            answer = self._objects.get_namespaced_custom_object(
                **_API, namespace=self.namespace, name=name, _request_timeout=TIMEOUT_SECONDS
            )
        return self._read(LivePolicy, answer)

    def annotate(self, policy: LivePolicy, name: str, value: str | None) -> LivePolicy:
        """Set an annotation of the policy, or remove it; raises Changed unless it is still as it was read."""
        metadata = {"annotations": {name: value}, "resourceVersion": policy.metadata.resource_version}
        with self._in_words(f"patch {RESOURCE} in namespace {self.namespace}", f"policy {policy.name} is gone"):
            answer = self._objects.patch_namespaced_custom_object(
                **_API,
                namespace=policy.metadata.namespace,
                name=policy.name,
                body={"metadata": metadata},
                field_manager="specloop",
                _content_type="application/merge-patch+json",
                _request_timeout=TIMEOUT_SECONDS,
            )
        return self._read(LivePolicy, answer)

    def user(self) -> str:
        """Who the API server takes us for; where it does not say, who the context or the machine does."""
        try:
            review: Any = AuthenticationV1Api(self._client).create_self_subject_review(
                V1SelfSubjectReview(), _request_timeout=TIMEOUT_SECONDS
            )
            name = review.status.user_info.username
        except (ApiException, urllib3.exceptions.HTTPError, AttributeError, ValueError):
            name = None
        return str(name or self._context_user or _login())[:MAX_NAME]

    @contextmanager
    def _in_words(self, doing: str, absent: str) -> Iterator[None]:
        host = self._client.configuration.host
        try:
            yield
        except ApiException as error:
            raise _refusal(error, host, doing, absent) from error
        except urllib3.exceptions.HTTPError as error:
            reason = getattr(error, "reason", None) or error
            raise InputError(f"cannot reach the cluster at {host}: {str(reason).rpartition(': ')[2]}") from error
        except ValueError as error:
            raise InputError(f"{host} does not answer as a Kubernetes API server does: {error}") from error

    def _read(self, model: type[Read], answer: object) -> Read:
        try:
            return model.model_validate(answer)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"])) or "the answer"
            host = self._client.configuration.host
            message = f"cannot read what {host} answers: {place}: {first['msg']}"
            raise InputError(f"{message}; where the operator is newer than this specloop, update it") from error


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without such a user
        return ""


def connect(where: Where) -> Cluster:
    """The cluster that a kubeconfig names; nothing is sent yet."""
    path = where.kubeconfig or KUBE_CONFIG_DEFAULT_LOCATION
    configuration = Configuration()
    with _complaints_as_errors(path):
        files = KubeConfigMerger(path)  # type: ignore[no-untyped-call]  # here and below: this part has no types
        if files.config is None:
            raise ConfigException("there is no such file; name one by --kubeconfig, or by KUBECONFIG")
        loader = KubeConfigLoader(  # type: ignore[no-untyped-call]
            files.config, active_context=where.context, config_base_path=None, config_persister=files.save_changes
        )
        loader.load_and_set(configuration)  # type: ignore[no-untyped-call]
        if "://" not in configuration.host:
            raise ConfigException(f"server {configuration.host}: begin it with https://")
        context: Mapping[str, Any] = loader.current_context["context"]
    # Connections are not tried again: the user is there to do that. Answers 429 and 503 are, after the time they name.
    configuration.retries = urllib3.Retry(connect=0, read=0, other=0, status=3, raise_on_status=False)
    if not configuration.verify_ssl:
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)  # the kubeconfig's author has decided
    client = ApiClient(configuration)
    client.user_agent = f"specloop/{version('specloop')}"
    namespace = where.namespace or context.get("namespace") or "default"
    return Cluster(client, str(namespace), context.get("user"))


class _Complaints(logging.Handler):
    """Keeps what is logged: the client logs the failure of a credential plugin and goes on as nobody."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.said.append(record.getMessage())


@contextmanager
def _complaints_as_errors(path: str) -> Iterator[None]:
    complaints = _Complaints()
    logging.getLogger().addHandler(complaints)
    try:
        yield
    except (ConfigException, yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError) as error:
        # The client trusts the file's shape: whatever else is in there ends in one of the latter.
        raise InputError(f"kubeconfig {path}: {error}") from error
    finally:
        logging.getLogger().removeHandler(complaints)
    if complaints.said:
        raise InputError(f"kubeconfig {path}: {complaints.said[0]}")


def _refusal(error: ApiException, host: str, doing: str, absent: str) -> InputError:
    said = _said(error)
    match error.status:
        case 0 | None:
            return InputError(f"cannot reach the cluster at {host}: {said}")
        case 401:
            return InputError(f"{host} does not accept the credentials of the kubeconfig: log in again")
        case 403:
            return InputError(f"not permitted to {doing}: {said.rpartition('is forbidden: ')[2]}")
        case 404:
            return InputError(f"{absent} ({host} says: {said})")
        case 409:
            return Changed(f"somebody else changed it at the same time; try again ({said})")
        case _:
            return InputError(f"{host} refuses to {doing}: {error.status} {said}")


def _said(error: ApiException) -> str:
    """The server's own words."""
    try:
        return str(json.loads(error.body or "")["message"])
    except (ValueError, TypeError, LookupError):
        return str(error.reason or "")
