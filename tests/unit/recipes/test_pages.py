"""What the recipes say can be copied as it stands: tests, policies, bindings and the paths that Argo CD ignores."""

import copy
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from specloop_operator.binding import Place, bind
from specloop_policy.ladder import Level
from specloop_policy.model import SpecPolicy
from tests.support.policies import SMALL
from tests.unit.recipes.pages import DOCS, PAGES, documents, mappings
from tests.unit.recipes.programs import jq

TESTS = Path(__file__).parents[2]
BOUND_FLAG = "--speculative-config=$(SPECULATIVE_CONFIG)"
ANNOTATION = "specloop.dev/speculative-config"
LOWER = Level("k3", SMALL, 3)

LISTS = ("args", "command", "extraArgs")
"""Where a manifest, or the values of a chart, say what vLLM is started with."""


def names_of_tests() -> set[str]:
    """All that there are."""
    return {
        name
        for module in TESTS.rglob("test_*.py")
        for name in re.findall(r"^ *(?:async )?def (test_\w+)\(", module.read_text(encoding="utf-8"), re.MULTILINE)
    }


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_a_page_names_is_there(page: str) -> None:
    """A claim without its test would be a claim."""
    named = set(re.findall(r"\btest_\w+\b(?!\.py)", PAGES[page]))
    assert named <= names_of_tests()
    assert named or page not in {"argocd", "flux"}


def all_mappings() -> list[tuple[str, Mapping[str, Any]]]:
    """Every mapping in the YAML of every page, with the page."""
    return [(page, one) for page in PAGES for document in documents(page) for one in mappings(document)]


def policies() -> list[tuple[str, Mapping[str, Any]]]:
    """The policies among them."""
    return [(page, one) for page, one in all_mappings() if one.get("kind") == "SpecPolicy" and "spec" in one]


def test_policies_can_be_applied_as_they_stand() -> None:
    """Those of the controllers that take templates back are among them."""
    found = policies()
    for _, one in found:
        SpecPolicy.model_validate_json(json.dumps(one))
    assert {"kserve", "production-stack", "llm-d"} <= {page for page, _ in found}


def flags(one: Mapping[str, Any]) -> list[str]:
    """What a container, or the values that one is made from, adds to vLLM's command."""
    return [str(item) for name in LISTS for item in (one.get(name) or one.get("vllmConfig", {}).get(name) or ())]


def test_every_binding_that_a_page_shows_is_one_to_the_operator() -> None:
    """The flag beside the variable, and the variable filled from the annotation."""
    seen = set()
    for page, one in all_mappings():
        if BOUND_FLAG in flags(one) and "env" in one:
            container = {"name": "vllm", "image": "vllm/vllm-openai:v0.32.0", "command": ["vllm", "serve", "model"]}
            binding = bind({"spec": {"containers": [{**container, "args": flags(one), "env": one["env"]}]}})
            assert (binding.place, binding.annotation) == (Place.ANNOTATION, ANNOTATION)
            # With the version: else the server adds it, and what is applied next conflicts with that.
            assert {item["valueFrom"]["fieldRef"]["apiVersion"] for item in one["env"] if "fieldRef" in str(item)} == {
                "v1"
            }
            seen.add(page)
    assert {"production-stack", "llm-d"} <= seen


def git(flag: str, annotation: str | None) -> dict[str, Any]:
    """A Deployment in Git, with another container beside vLLM."""
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{ANNOTATION}']"}}
    vllm = {
        "name": "vllm",
        "image": "vllm/vllm-openai:v0.32.0",
        "command": ["vllm", "serve"],
        "args": ["model", flag],
        "env": [{"name": "SPECULATIVE_CONFIG", "valueFrom": source}],
    }
    beside = {"name": "proxy", "image": "proxy:1", "args": ["--port=8000"]}
    annotations = {"team": "a", **({} if annotation is None else {ANNOTATION: annotation})}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "llama"},
        "spec": {"template": {"metadata": {"annotations": annotations}, "spec": {"containers": [beside, vllm]}}},
    }


K5 = '{"method": "draft_model", "model": "meta-llama/Llama-3.2-1B-Instruct", "num_speculative_tokens": 5}'


def written(body: dict[str, Any]) -> dict[str, Any]:
    """The same once the operator has gone to K = 3."""
    live = copy.deepcopy(body)
    template = live["spec"]["template"]
    part = bind(template).patch(LOWER)
    template["metadata"]["annotations"].update(part.get("metadata", {}).get("annotations", {}))
    for one in part.get("spec", {}).get("containers", ()):
        next(other for other in template["spec"]["containers"] if other["name"] == one["name"]).update(one)
    return live


FROM_GIT: dict[str, tuple[dict[str, Any], list[Any]]] = {
    '.spec.template.metadata.annotations["specloop.dev/speculative-config"]': (
        git(BOUND_FLAG, K5),
        ["spec", "template", "metadata", "annotations", ANNOTATION],
    ),
    '.spec.template.spec.containers[] | select(.name == "vllm") | .args': (
        git(f"--speculative-config={K5}", None),
        ["spec", "template", "spec", "containers", 1, "args"],
    ),
}
"""By the path expression of a page: what is in Git, and the one place that the operator changes in it."""


def expressions() -> set[str]:
    """All path expressions of the pages."""
    return {item for _, one in all_mappings() for item in one.get("jqPathExpressions", ())}


def test_the_pages_show_these_path_expressions() -> None:
    """So that none goes untried."""
    assert expressions() == set(FROM_GIT)


@pytest.mark.parametrize("expression", FROM_GIT)
def test_a_path_expression_takes_out_what_the_operator_changes_and_nothing_else(expression: str) -> None:
    """Argo CD 3.5 runs `del(EXPRESSION)` on both sides and compares what is left (diff_normalizer.go)."""
    body, place = FROM_GIT[expression]
    live = written(body)
    assert live != body
    assert jq(f"[path({expression})]", live) == [place]
    assert jq(f"del({expression})", live) == jq(f"del({expression})", body)


@pytest.mark.parametrize("expression", FROM_GIT)
def test_a_path_expression_does_no_harm_where_there_is_nothing_to_ignore(expression: str) -> None:
    """One that fails is left out by Argo CD, with a line that nobody reads."""
    nothing = git(BOUND_FLAG, None)
    del nothing["spec"]["template"]["metadata"]["annotations"]
    del nothing["spec"]["template"]["spec"]["containers"][1]["args"]
    assert jq(f"del({expression})", nothing) == nothing


def test_the_command_that_installs_the_health_check_makes_a_config_map_of_it() -> None:
    """Under the key that Argo CD looks for, `resource.customizations.health.GROUP_KIND`."""
    found = re.search(r"jq -Rs '(.+?)' (docs/recipes/\S+\.lua)\)", PAGES["argocd"])
    assert found is not None
    text = (DOCS.parent / found[2]).read_text(encoding="utf-8")
    expected = {"data": {"resource.customizations.health.specloop.dev_SpecPolicy": text}}
    assert jq(found[1], text) == expected


def test_the_definition_is_of_the_group_and_kind_that_the_pages_name() -> None:
    """The key in Argo CD's settings is made of them."""
    crd = yaml.safe_load((DOCS.parent / "crds" / "specpolicies.specloop.dev.yaml").read_text(encoding="utf-8"))
    assert f"{crd['spec']['group']}_{crd['spec']['names']['kind']}" in PAGES["argocd"]
