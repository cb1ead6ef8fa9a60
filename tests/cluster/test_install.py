"""The chart in a real cluster, from an empty namespace to what is left of it, by the programs that people use."""

import base64
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.cluster.chart_values import Values, rows
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.environment import Object
from tests.support.cluster.release import CHART, DEFINITION, HERE, ROOT_ONLY, Release
from tests.support.cluster.workloads import ANNOTATION, bound, container, drafts, workload

LIBRARY = Path(__file__).parents[2] / "policies" / "library"
MONITORING = Path(__file__).parents[1] / "support" / "cluster" / "monitoring-crds.yaml"
MANIFESTS = Path(__file__).parents[2] / "scripts" / "manifests"
NEW_COLUMN = "Age"
"""The last column of the definition, which the older chart of the test lacks."""

pytestmark = pytest.mark.cluster


def older_chart(folder: Path) -> Path:
    """A chart whose definition has a column less."""
    copy = folder / "older" / "specloop"
    shutil.copytree(CHART, copy)
    shipped = copy / "files" / f"{DEFINITION}.yaml"
    text = shipped.read_text(encoding="utf-8")
    older = re.sub(rf"    - name: {NEW_COLUMN}\n(?:      .*\n)+", "", text)
    assert older != text
    shipped.write_text(older, encoding="utf-8")
    return copy


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(os.geteuid() != 0 and not os.environ.get("SPECLOOP_REQUIRE_ENGINES"), reason=ROOT_ONLY)
def test_a_release_is_installed_upgraded_rolled_back_and_taken_away_and_policies_outlive_it(
    empty: Cluster, tmp_path: Path
) -> None:
    """The namespace admits nothing but restricted pods, so that the operator and the test's pod are such."""
    cluster, release = empty, Release(empty)
    cluster.apply(workload("llama", 2, [bound(container())], annotations={ANNOTATION: drafts(5)}))

    values = release.values("live.createTokenSecrets=true")
    release.helm("install", str(older_chart(tmp_path)), *values, "--wait")
    first = release.until_all_new({})
    release.until_one_leads()
    token = cluster.get("Secret", "specloop-live")["data"]["token"]
    assert NEW_COLUMN not in release.columns()

    cluster.kubelet.hosts[f"{HERE}.{HERE}.svc"] = next(iter(first.values()))["status"]["podIP"]
    assert "Phase:          Succeeded" in release.helm("test")

    policy = (LIBRARY / "recommend-only.yaml").read_text(encoding="utf-8").replace("your-llm", "llama")
    cluster.kubectl("apply", "-f", "-", stdin=policy)
    seen = cluster.until(lambda: status(cluster).get("observedLevel"), "a status of the policy")
    assert seen == "k5"

    release.helm("upgrade", str(CHART), "--reuse-values", "--set=settings.logLevel=warning", "--wait")
    second = release.until_all_new(first)
    assert release.settings()["logLevel"] == "warning"
    assert NEW_COLUMN in release.columns()
    assert cluster.get("Secret", "specloop-live")["data"]["token"] == token

    release.helm("rollback", "--wait")
    release.until_all_new(second)
    release.until_one_leads()
    assert "logLevel" not in release.settings()
    assert NEW_COLUMN not in release.columns()

    every = ("specpolicies", "--all")
    cluster.kubectl("annotate", *every, "specloop.dev/suspend=true")
    cluster.kubectl("wait", *every, "--for=condition=Progressing=false", "--timeout=60s")
    release.helm("uninstall", "--wait")
    cluster.until(lambda: not release.pods(), "no operators")
    assert status(cluster)["observedLevel"] == "k5"
    assert "finalizers" not in cluster.get("SpecPolicy", "recommend-only")["metadata"]
    assert cluster.get("Secret", "specloop-live")["data"]["token"] == token
    left = release.kubectl("get", "deployments,services,configmaps,serviceaccounts,roles,rolebindings", "-o=name")
    assert [name for name in left.split() if HERE in name] == []

    release.helm("install", str(CHART), *values)
    assert cluster.get("Secret", "specloop-live")["data"]["token"] == token
    cluster.kubectl("annotate", *every, "specloop.dev/suspend-")
    cluster.delete("SpecPolicy", "recommend-only")
    cluster.until(lambda: not cluster.objects("SpecPolicy"), "no policy")
    assert len(release.logs()) >= 6  # of two pods at each of three revisions
    assert release.complaints() == []


def status(cluster: Cluster) -> Object:
    """The status of the policy; empty before an operator has seen it."""
    found: Object = cluster.get("SpecPolicy", "recommend-only").get("status") or {}
    return found


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_api_server_takes_all_that_the_chart_renders(cluster: Cluster) -> None:
    """Strictly: no unknown field in any combination of values, also in the objects of prometheus-operator.

    The operator's pod is tried by itself too, for a Deployment may be taken whose pods are not.
    """
    cluster.kubectl("apply", "--server-side", "-f", str(MONITORING))
    cluster.kubectl("wait", "--for=condition=Established", "-f", str(MONITORING))
    cluster.kubectl("label", "namespace", cluster.namespace, "pod-security.kubernetes.io/enforce=restricted")
    cluster.kubectl("create", "serviceaccount", HERE)
    for values in rows(cluster.namespace):
        rendered = list(yaml.safe_load_all(rendered_with(cluster, values)))
        [deployment] = [one for one in rendered if one["kind"] == "Deployment"]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "pod"},
            "spec": deployment["spec"]["template"]["spec"],
        }
        strictly = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "--force-conflicts", "-f", "-")
        taken = cluster.kubectl(*strictly, stdin=yaml.safe_dump_all([*rendered, pod])).splitlines()
        assert len(taken) == len(rendered) + 1


def rendered_with(cluster: Cluster, values: Values) -> str:
    """The chart as Helm renders it for the namespace of a test."""
    file = cluster.folder / "values.json"
    file.write_text(json.dumps(values))
    return cluster.helm("template", HERE, str(CHART), f"--values={file}")


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_plain_manifests_come_and_go_and_take_nothing_else_with_them(empty: Cluster) -> None:
    """As docs/install.md has it, into a namespace with things of others, such as a fleet; policies stay."""
    cluster = empty
    cluster.kubectl("create", "secret", "generic", "of-others", "--from-literal=token=theirs")
    everything = manifests(cluster)
    applied = cluster.kubectl("apply", "--server-side", "-f", "-", stdin=everything).splitlines()
    assert len(applied) == len([one for one in yaml.safe_load_all(everything) if one])
    cluster.kubectl("wait", "--for=condition=Established", f"crd/{DEFINITION}")
    policy = (LIBRARY / "recommend-only.yaml").read_text(encoding="utf-8")
    cluster.kubectl("apply", "-f", "-", stdin=policy)

    cluster.kubectl("delete", "-f", "-", stdin=manifests(cluster, "--set=crds.install=false"))
    cluster.kubectl("get", "specpolicy/recommend-only", "secret/of-others", f"namespace/{cluster.namespace}")
    kinds = ("deployments", "services", "configmaps", "serviceaccounts", "networkpolicies", "roles", "rolebindings")
    left = cluster.kubectl("get", ",".join((*kinds, "clusterroles", "clusterrolebindings")), "--output=name").split()
    assert [name for name in left if HERE in name.partition("/")[2]] == []


def manifests(cluster: Cluster, *options: str) -> str:
    """What scripts/manifests prints for the namespace of a test, with operators that are not started."""
    values = cluster.folder / "values.yaml"
    values.write_text(
        yaml.safe_dump({"namespaces": [cluster.namespace], "replicas": 0, "networkPolicies": {"enabled": True}})
    )
    path = f"{cluster.control_plane.binaries['helm'].parent}:{os.environ['PATH']}"
    command = [str(MANIFESTS), cluster.namespace, f"--values={values}", *options]
    return subprocess.check_output(command, text=True, env={**os.environ, "PATH": path})


def test_a_token_that_somebody_else_has_made_is_left_alone(cluster: Cluster) -> None:
    """Engines know it; the release goes without one of its own, and takes none away.  One that is lost is made anew."""
    cluster.kubectl("create", "secret", "generic", "specloop-live", "--from-literal=token=mine")
    own = ["crds.install=false", "peopleRoles.install=false", "live.createTokenSecrets=true", "replicas=0"]
    values = [
        f"--set={one}"
        for one in (*own, f"namespaces={{{cluster.namespace}}}", "live.tokenSecrets={specloop-live,other}")
    ]
    cluster.helm("install", HERE, str(CHART), *values)
    cluster.helm("upgrade", HERE, str(CHART), *values)
    made = cluster.get("Secret", "other")["data"]["token"]
    assert len(base64.b64decode(made)) == 48
    cluster.delete("Secret", "other")
    cluster.helm("upgrade", HERE, str(CHART), *values)
    anew = cluster.get("Secret", "other")["data"]["token"]
    assert anew != made
    cluster.helm("uninstall", HERE)
    mine, other = (cluster.get("Secret", name) for name in ("specloop-live", "other"))
    assert (base64.b64decode(mine["data"]["token"]), "labels" in mine["metadata"]) == (b"mine", False)
    assert other["data"]["token"] == anew
