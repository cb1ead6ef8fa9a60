"""The resource definition on a real API server: what the models accept and refuse, it does too, and says where.

The objects are those of the models' own tests, each refused one named after the one rule that it breaks.
"""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from pydantic import ValidationError

from specloop_policy.crd import RULES
from specloop_policy.model import SpecPolicy
from tests.support.cluster.controlplane import ControlPlane

pytestmark = pytest.mark.cluster

OBJECTS = Path(__file__).parents[1] / "unit" / "policy_model" / "objects"
ACCEPTED = sorted((OBJECTS / "accepted").glob("*.yaml"))
REFUSED = sorted((OBJECTS / "refused").glob("*.yaml"))
BY_SCHEMA = [path for path in REFUSED if path.stem.startswith("schema")]
BY_RULE = [path for path in REFUSED if path not in BY_SCHEMA]


def try_out(control_plane: ControlPlane, path: Path) -> httpx.Response:
    """The API server's answer to the wish to create an object, which is not kept."""
    with control_plane.client() as http:
        return http.post(
            "/apis/specloop.dev/v1alpha1/namespaces/default/specpolicies",
            params={"dryRun": "All", "fieldValidation": "Strict"},
            json=yaml.safe_load(path.read_text(encoding="utf-8")),
        )


def causes(answer: httpx.Response) -> list[tuple[str, str]]:
    """Fields and messages of a refusal."""
    assert answer.status_code == 422, answer.text
    return [(one["field"], one["message"]) for one in answer.json()["details"]["causes"]]


def path_of(location: tuple[int | str, ...]) -> str:
    """A field as an API server writes it: spec.levels[0].tokens."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).removeprefix(".")


@pytest.mark.parametrize("path", ACCEPTED, ids=lambda path: path.stem)
def test_what_the_models_accept_is_stored_with_their_defaults(control_plane: ControlPlane, path: Path) -> None:
    """The answer holds what the server would store."""
    answer = try_out(control_plane, path)
    assert answer.status_code == 201, answer.text
    stored: Any = answer.json()["spec"]
    policy = SpecPolicy.model_validate_json(path_as_json(path))
    assert stored == json.loads(policy.spec.model_dump_json(by_alias=True, exclude_none=True))


def path_as_json(path: Path) -> str:
    """An object file as JSON."""
    return json.dumps(yaml.safe_load(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", BY_RULE, ids=lambda path: path.stem)
def test_an_object_that_breaks_a_rule_is_refused_in_its_words_at_a_field(
    control_plane: ControlPlane, path: Path
) -> None:
    """One rule is broken, so one cause is named."""
    rule = path.stem.partition("-")[0]
    words = {f"Invalid value: {one.message}" for rules in RULES.values() for one in rules if one.mirrors == rule}
    [(field, message)] = causes(try_out(control_plane, path))
    assert message in words
    assert field.startswith("spec")


@pytest.mark.parametrize("path", BY_SCHEMA, ids=lambda path: path.stem)
def test_an_object_with_a_wrong_field_is_refused_at_that_field(control_plane: ControlPlane, path: Path) -> None:
    """Where the models find the fault, the server does."""
    with pytest.raises(ValidationError) as found:
        SpecPolicy.model_validate_json(path_as_json(path))
    fields = {path_of(error["loc"]) for error in found.value.errors()}
    assert fields & {field for field, _ in causes(try_out(control_plane, path))}


def test_a_policy_stays_with_its_target(control_plane: ControlPlane) -> None:
    """What it remembers is of that one; anything else of it may be edited."""
    policies = "/apis/specloop.dev/v1alpha1/namespaces/default/specpolicies"
    policy = yaml.safe_load(ACCEPTED[0].read_text(encoding="utf-8")) | {"metadata": {"name": "faithful"}}
    headers = {"Content-Type": "application/merge-patch+json"}
    with control_plane.client() as http:
        assert http.post(policies, json=policy).status_code == 201
        other = http.patch(f"{policies}/faithful", headers=headers, json={"spec": {"targetRef": {"name": "other"}}})
        assert [field for field, _ in causes(other)] == ["spec.targetRef"]
        assert "delete the policy" in other.json()["message"]
        assert http.patch(f"{policies}/faithful", headers=headers, json={"spec": {"suspend": True}}).is_success
        assert http.delete(f"{policies}/faithful").is_success


def test_kubectl_shows_the_columns_and_knows_the_short_name(control_plane: ControlPlane) -> None:
    """The table that `kubectl get specpol` prints is made by the server."""
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    with control_plane.client() as http:
        answer = http.get("/apis/specloop.dev/v1alpha1/specpolicies", headers={"Accept": table})
        found = http.get("/apis/specloop.dev/v1alpha1").json()["resources"]
    columns = [one["name"] for one in answer.json()["columnDefinitions"]]
    assert columns == ["Name", "Target", "Mode", "Level", "Acceptance", "Ready", "Age"]
    assert next(one["shortNames"] for one in found if one["name"] == "specpolicies") == ["specpol"]
