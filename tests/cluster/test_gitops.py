"""Who else writes to a target: Helm, kubectl and Argo CD beside both bindings, as docs/gitops.md says."""

import copy
import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.dynamic.exceptions import ConflictError

from tests.support.cluster.cluster import Cluster, ProgramFailed
from tests.support.cluster.environment import Object
from tests.support.cluster.gitops import SURVIVAL, Release, SelfHeal, survival_table
from tests.support.cluster.llama import LABELS, LADDER, LLAMA, ONE_MORE, STORIES, deployment, generation
from tests.support.cluster.operator import Operator
from tests.support.cluster.policies import OVERRIDE, Followed, follow, policy, until_ticks
from tests.support.cluster.proxy import Proxy
from tests.support.cluster.workloads import ANNOTATION, MODEL, bound, container, drafts, workload

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

TO_K3 = {
    "name": "to-k3",
    "when": {"acceptance": {"belowPercent": 90}},
    "forSeconds": 1,
    "action": {"type": "SwitchTo", "level": "k3"},
}
"""Holds for this traffic at every level, and so asks for k3 as long as k5 runs."""
QUICK = {"soakSeconds": 2, "gate": {"maxTpotIncreasePercent": 100, "maxTtftIncreasePercent": 500}}
"""Who writes what is at stake here, not who serves how fast."""


def annotated(annotations: dict[str, str] | None = None) -> Object:
    """A Deployment in Git whose setting is an annotation, which Git does not have."""
    return workload(LLAMA, 2, [bound(container())], annotations=annotations, strategy=ONE_MORE)


def flagged() -> Object:
    """A Deployment in Git whose setting is a flag."""
    return workload(LLAMA, 2, [container("--speculative-config", drafts(5))], strategy=ONE_MORE)


def annotate(cluster: Cluster, value: str) -> None:
    """Somebody sets the annotation by hand."""
    part = {"spec": {"template": {"metadata": {"annotations": {ANNOTATION: value}}}}}
    cluster.patch("Deployment", LLAMA, part, manager="alice")


def setting(cluster: Cluster) -> str | None:
    """What the pod template says now."""
    return setting_of(deployment(cluster))


def setting_of(body: Object) -> str | None:
    """What a pod template says: an annotation's value, or a flag's; None where it says nothing."""
    template = body["spec"]["template"]
    args = template["spec"]["containers"][0].get("args", ())
    if "--speculative-config" in args:
        return str(args[args.index("--speculative-config") + 1])
    value: str | None = (template["metadata"].get("annotations") or {}).get(ANNOTATION)
    return value


@dataclass(frozen=True)
class Scene:
    """An operator that governs the target by a policy, and counts of what it does."""

    cluster: Cluster
    proxy: Proxy
    operator: Operator
    chat: Followed

    @property
    def writes(self) -> int:
        """How often the operator has tried to write to workloads."""
        return self.proxy.count(lambda one: one.verb == "patch" and one.resource == "deployments")

    @property
    def written(self) -> int:
        """How often it did: one whose target has changed since it was looked at is refused, and taken again."""
        return self.writes - self.proxy.count(
            lambda one: one.verb == "patch" and one.resource == "deployments" and one.status == 409
        )

    def until_drifted(self, level: str) -> str:
        """Wait until it says that somebody else set this level, and holds the target no more; the message."""
        message: str = self.chat.until_condition("Drifted", "Reverted")["message"]
        assert self.chat.status["observedLevel"] == level
        self.cluster.until(lambda: not deployment(self.cluster)["spec"].get("paused"), f"{LLAMA} let go")
        return message

    def rests(self) -> None:
        """See it look again and again, and write nothing."""
        before = self.writes, generation(self.cluster), setting(self.cluster)
        until_ticks(self.cluster, self.operator, 6)
        assert (self.writes, generation(self.cluster), setting(self.cluster)) == before

    def edit(self) -> None:
        """Somebody edits the policy."""
        spec = self.cluster.get("SpecPolicy", "chat")["spec"]
        one_more = {"rollout": {"watchSeconds": spec["rollout"]["watchSeconds"] + 1}}
        self.cluster.patch("SpecPolicy", "chat", {"spec": one_more})


@contextmanager
def governed(cluster: Cluster, **rollout: object) -> Iterator[Scene]:
    """From the first tick on there are reasons to go from k5 to k3, and none to go anywhere else."""
    with (
        cluster.proxy() as proxy,
        Operator(cluster, url=proxy.url) as operator,
        cluster.traffic(LABELS, STORIES),
    ):
        rules = [TO_K3]
        wanted = policy("chat", LLAMA, mode="Enforce", rules=rules, rollout={**QUICK, **rollout}, **LADDER)
        wanted["spec"]["guardrails"] = {"cooldownSeconds": 1, "probe": {"afterSeconds": 3600}}
        yield Scene(cluster, proxy, operator, follow(cluster, wanted))


def test_helm_keeps_the_annotation_whichever_way_it_upgrades(cluster: Cluster) -> None:
    """Its manifest does not have it, so that neither kind of upgrade finds anything to change, nor does a rollback."""
    release = Release(cluster, annotated())
    release.upgrade()
    annotate(cluster, drafts(5))
    cluster.until_rolled_out(LLAMA)
    with governed(cluster) as scene:
        scene.chat.until_level("k3")
        written = setting(cluster)
        assert json.loads(written or "")["num_speculative_tokens"] == 3
        for mode in ("true", "false"):
            release.upgrade(f"--server-side={mode}", tier=f"{mode}-tier")
            assert deployment(cluster)["metadata"]["labels"]["tier"] == f"{mode}-tier"
            assert setting(cluster) == written
        release.spec["template"]["spec"]["terminationGracePeriodSeconds"] = 4
        release.upgrade("--server-side=true")
        cluster.until_rolled_out(LLAMA)
        scene.rests()
        assert scene.chat.condition("Drifted")["reason"] == "InSync"
        assert scene.chat.status["observedLevel"] == "k3"
        assert all(ran(cluster, pod) == written for pod in pods(cluster))


def pods(cluster: Cluster) -> list[str]:
    """Names of the pods that are not on their way out."""
    found = cluster.objects("Pod", LABELS)
    return [pod["metadata"]["name"] for pod in found if "deletionTimestamp" not in pod["metadata"]]


def ran(cluster: Cluster, pod: str) -> str:
    """The setting in the command line of a pod's process."""
    words = cluster.kubelet.command_line(pod)
    return next(word.removeprefix("--speculative-config=") for word in words if word.startswith("--speculative"))


def manifest(cluster: Cluster, body: Object) -> str:
    """A manifest as a file of the author's."""
    path = cluster.folder / "deployment.yaml"
    path.write_text(yaml.safe_dump(body))
    return str(path)


def replace(cluster: Cluster, file: str) -> None:
    """`kubectl replace`, again where a controller wrote between its read and its write, as kubectl itself advises."""

    def replaced() -> bool:
        try:
            cluster.kubectl("replace", "-f", file)
        except ProgramFailed as error:
            if "(Conflict)" not in str(error):
                raise
            return False
        return True

    cluster.until(replaced, f"{file} replaced")


def test_kubectl_apply_keeps_the_annotation_and_undo_is_a_word_that_counts(cluster: Cluster) -> None:
    """An undo is seen and held for, though the rule still asks; an edit of the policy says that it may go on."""
    file = manifest(cluster, annotated())
    cluster.kubectl("apply", "-f", file)
    annotate(cluster, drafts(5))
    cluster.until_rolled_out(LLAMA)
    with governed(cluster) as scene:
        scene.chat.until_level("k3")
        written = setting(cluster)
        cluster.kubectl("apply", "-f", file)
        assert setting(cluster) == written
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", file)
        assert setting(cluster) == written
        scene.rests()

        cluster.kubectl("rollout", "undo", f"deployment/{LLAMA}")
        said = scene.until_drifted("k5")
        assert said == "k3 was written, and somebody else set k5; edit the policy or override it to go on"
        scene.rests()
        assert scene.chat.condition("Ready")["status"] == "False"
        assert any(event["reason"] == "Drifted" for event in cluster.events("chat"))

        scene.edit()
        scene.chat.until_level("k3")
        assert scene.chat.condition("Drifted")["reason"] == "InSync"
    assert setting(cluster) == written
    assert owner(cluster) == "specloop"


def owner(cluster: Cluster) -> str:
    """The field manager of the annotation."""
    path = ("f:spec", "f:template", "f:metadata", "f:annotations", f"f:{ANNOTATION}")
    owners = []
    for entry in deployment(cluster)["metadata"]["managedFields"]:
        fields = entry["fieldsV1"]
        for part in path:
            fields = fields.get(part) if fields is not None else None
        owners += [str(entry["manager"])] if fields is not None else []
    [found] = owners
    return found


def test_kubectl_replace_drops_the_annotation_and_an_override_goes_on(cluster: Cluster) -> None:
    """What is replaced has none, and so is off: somebody else's doing, until somebody asks for a level again."""
    file = manifest(cluster, annotated())
    cluster.kubectl("apply", "-f", file)
    annotate(cluster, drafts(5))
    cluster.until_rolled_out(LLAMA)
    with governed(cluster) as scene:
        scene.chat.until_level("k3")
        replace(cluster, file)
        assert setting(cluster) is None
        scene.until_drifted("disabled")
        scene.rests()
        wish = {"metadata": {"annotations": {OVERRIDE: json.dumps({"level": "k5", "by": "alice"})}}}
        cluster.patch("SpecPolicy", "chat", wish)
        scene.chat.until_level("k5")
        assert scene.chat.condition("Drifted")["reason"] == "InSync"
        assert json.loads(setting(cluster) or "")["num_speculative_tokens"] == 5


def test_an_undo_in_the_middle_of_a_roll_out_ends_it(cluster: Cluster) -> None:
    """kubectl undoes nothing that is paused: a person resumes it first, and then puts the old template back."""
    cluster.apply(annotated())
    annotate(cluster, drafts(5))
    cluster.until_rolled_out(LLAMA)
    old = pods(cluster)
    with governed(cluster, soakSeconds=3600) as scene:
        scene.chat.until_phase("Soaking")
        with pytest.raises(ProgramFailed, match="cannot rollback a paused deployment; resume it first"):
            cluster.kubectl("rollout", "undo", f"deployment/{LLAMA}")
        cluster.kubectl("rollout", "resume", f"deployment/{LLAMA}")
        cluster.kubectl("rollout", "undo", f"deployment/{LLAMA}")
        said = scene.until_drifted("k5")
        assert "somebody else set k5 while k3 was rolled out: left as it is" in said
        assert scene.chat.condition("Progressing")["reason"] == "Undone"
        cluster.until_rolled_out(LLAMA)
        assert "paused" not in deployment(cluster)["spec"]
        assert setting(cluster) == drafts(5)
        assert set(old) & set(pods(cluster))
        scene.rests()


def test_argo_finds_nothing_to_heal_beside_an_annotation(cluster: Cluster) -> None:
    """Neither in the middle of a roll-out, with the target paused, nor after it."""
    cluster.apply(annotated(), manager="argocd-controller")
    annotate(cluster, drafts(5))
    cluster.until_rolled_out(LLAMA)
    with SelfHeal(cluster, annotated()) as argo, governed(cluster) as scene:
        scene.chat.until_level("k3")
        scene.rests()
        assert argo.healed == 0
        assert scene.chat.condition("Drifted")["reason"] == "InSync"


def test_flags_that_argo_heals_are_not_fought_over(cluster: Cluster) -> None:
    """One write, one revert, and then peace until the policy is edited: both counts stand still."""
    cluster.apply(flagged(), manager="argocd-controller")
    cluster.until_rolled_out(LLAMA)
    with SelfHeal(cluster, flagged()) as argo, governed(cluster) as scene:
        for round_ in (1, 2):
            said = scene.until_drifted("k5")
            assert "somebody else set k5 while k3 was rolled out: left as it is" in said
            cluster.until_rolled_out(LLAMA)
            scene.rests()
            assert argo.healed == round_
            assert scene.written <= 3 * round_  # written, held where pods were faster than Argo, let go of
            assert "paused" not in deployment(cluster)["spec"]
            scene.edit()
            scene.chat.until(lambda: scene.chat.phase is not None or argo.healed > round_, "another try")  # noqa: B023


def live_args(wanted: Object, live: Object) -> None:
    """`.spec.template.spec.containers[] | select(.name == "vllm") | .args`."""
    [own], [found] = (body["spec"]["template"]["spec"]["containers"] for body in (wanted, live))
    own["args"] = found["args"]


def test_flags_that_argo_ignores_are_the_operators(cluster: Cluster) -> None:
    """Also when Git changes something else, and Argo applies all of its manifest."""
    git = flagged()
    cluster.apply(git, manager="argocd-controller")
    cluster.until_rolled_out(LLAMA)
    with SelfHeal(cluster, git, live_args) as argo, governed(cluster) as scene:
        scene.chat.until_level("k3")
        written = setting(cluster)
        assert json.loads(written or "")["num_speculative_tokens"] == 3
        assert argo.healed == 0
        git["metadata"]["labels"] = {"tier": "gold"}
        cluster.until(lambda: argo.healed, "a sync")
        assert setting(cluster) == written
        scene.rests()
        assert scene.chat.condition("Drifted")["reason"] == "InSync"


def test_helm_does_not_keep_flags_whichever_way_it_upgrades(cluster: Cluster) -> None:
    """The new kind of upgrade is refused for the conflict, the old one reverts without a word."""
    release = Release(cluster, flagged())
    release.upgrade()
    cluster.until_rolled_out(LLAMA)
    with governed(cluster) as scene:
        scene.chat.until_level("k3")
        written = setting(cluster)
        with pytest.raises(ProgramFailed, match=r'conflict with "specloop".*\n?.*\.args') as refusal:
            release.upgrade("--server-side=true", tier="gold")
        assert "args" in str(refusal.value)
        assert setting(cluster) == written
        scene.rests()
        release.upgrade("--server-side=false", tier="gold")
        assert setting(cluster) == drafts(5)
        said = scene.until_drifted("k5")
        assert said.startswith("k3 was written, and somebody else set k5")
        scene.rests()


BODIES: list[tuple[Object, Object]] = [
    # in Git, and what the operator applies to it
    (annotated(), {"metadata": {"annotations": {ANNOTATION: drafts(3)}}}),
    (annotated({ANNOTATION: drafts(5)}), {"metadata": {"annotations": {ANNOTATION: drafts(3)}}}),
    (flagged(), {"spec": {"containers": [{"name": "vllm", "args": [MODEL, "--speculative-config", drafts(3)]}]}}),
]


@pytest.mark.parametrize("who", SURVIVAL)
def test_what_survives_whom(cluster: Cluster, who: str) -> None:
    """Told by the template alone: no pods are needed."""
    fates = [fate(cluster, who, in_git, part) for in_git, part in BODIES]
    assert tuple(fates) == SURVIVAL[who]


def fate(cluster: Cluster, who: str, in_git: Object, part: Object) -> str:
    """What becomes of the setting when somebody installs the workload, the operator writes, and they write again."""
    name = f"llama-{secrets.token_hex(2)}"
    body = {**in_git, "metadata": {"name": name}, "spec": {**in_git["spec"], "replicas": 0}}
    write_again = installed(cluster, who, body)
    own = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {"template": part}}
    cluster.apply(own, manager="specloop", force=True)
    refused = False
    try:
        write_again()
    except ProgramFailed as error:
        refused = 'conflict with "specloop": .spec.template' in str(error)
    left = {drafts(3): "kept", drafts(5): "reverted", None: "dropped"}[setting_of(cluster.get("Deployment", name))]
    return "refused" if refused and left == "kept" else left


def installed(cluster: Cluster, who: str, body: Object) -> Callable[[], str]:
    """Have somebody install a workload; how they write it again, with another label."""
    program, command, *flags = who.split()
    name, again = body["metadata"]["name"], {**body, "metadata": {**body["metadata"], "labels": {"tier": "gold"}}}
    if program == "helm":
        release = Release(cluster, body)
        release.upgrade("--server-side=false" if "--server-side=false" in flags else "--server-side=true")
        if command == "rollback":
            release.upgrade(tier="gold")
            return release.roll_back
        return lambda: release.upgrade(*flags, tier="gold")
    cluster.kubectl("apply", *(flag for flag in flags if flag == "--server-side"), "-f", manifest(cluster, body))
    if command == "rollout":
        return lambda: cluster.kubectl(command, *flags, f"deployment/{name}")
    return lambda: cluster.kubectl(command, *flags, "-f", manifest(cluster, again))


def test_the_documentation_says_what_was_seen() -> None:
    """The table is this file's own."""
    assert survival_table() in (Path(__file__).parents[2] / "docs" / "gitops.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("own", [{}, {"own": "1"}], ids=["none", "one"])
def test_who_takes_the_templates_last_annotation_away_takes_the_setting_along(
    cluster: Cluster, own: dict[str, str]
) -> None:
    """A client-side helm or kubectl then nulls the whole map; where there was none of its own, nothing happens."""
    with_it, without_it = (
        {**one, "spec": {**one["spec"], "replicas": 0}} for one in (annotated(own or None), annotated())
    )
    release = Release(cluster, with_it)
    release.upgrade("--server-side=false")
    annotate(cluster, drafts(3))
    release.spec = without_it["spec"]
    release.upgrade("--server-side=false", tier="gold")
    assert setting(cluster) == (None if own else drafts(3))


def test_a_container_of_flags_is_renamed_server_side_once_the_operator_has_given_it_up(cluster: Cluster) -> None:
    """What is the operator's of the old one stays, a container with no image, until nothing is applied in its name."""
    in_git, part = BODIES[2]
    body = {**in_git, "spec": {**in_git["spec"], "replicas": 0}}
    apply = ("apply", "--server-side", "--force-conflicts", "--field-manager=author", "-f")
    cluster.apply(body)
    cluster.apply({**body, "spec": {"template": part}}, manager="specloop", force=True)
    renamed = copy.deepcopy(body)
    renamed["spec"]["template"]["spec"]["containers"][0]["name"] = "engine"
    with pytest.raises(ProgramFailed, match=r"containers\[0\].image: Required value"):
        cluster.kubectl(*apply, manifest(cluster, renamed))
    cluster.kubectl(*apply, manifest(cluster, body))
    nothing = {key: value for key, value in body.items() if key != "spec"}
    cluster.kubectl("apply", "--server-side", "--field-manager=specloop", "-f", manifest(cluster, nothing))
    cluster.kubectl(*apply, manifest(cluster, renamed))
    assert [one["name"] for one in deployment(cluster)["spec"]["template"]["spec"]["containers"]] == ["engine"]


HOLDS: dict[str, tuple[Object, Object]] = {
    "Deployment": ({"paused": True}, {"paused": False}),
    "StatefulSet": (
        {"updateStrategy": {"rollingUpdate": {"partition": 1}}},
        {"updateStrategy": {"rollingUpdate": {"partition": 0}}},
    ),
}


@pytest.mark.parametrize("kind", HOLDS)
def test_git_must_not_name_what_holds_a_roll_out(cluster: Cluster, kind: str) -> None:
    """It is the operator's while a canary is out."""
    held, free = HOLDS[kind]
    body = workload(LLAMA, 0, [bound(container())], kind=kind)
    cluster.apply(body)
    cluster.apply({**body, "spec": held}, manager="specloop", force=True)
    cluster.apply(body)
    with pytest.raises(ConflictError, match='conflict with \\\\"specloop'):
        cluster.apply({**body, "spec": {**body["spec"], **free}})


def emptied() -> Object:
    """A Deployment whose `args` hold nothing but the setting."""
    one = {**container(), "command": ["vllm", "serve", MODEL], "args": ["--speculative-config", drafts(5)]}
    return workload(LLAMA, 2, [one], strategy=ONE_MORE)


@pytest.mark.parametrize(
    ("in_git", "level", "said"),
    [(annotated(), "k3", drafts(3)), (emptied(), "disabled", None)],
    ids=["no annotation", "nothing but flags"],
)
def test_what_was_not_there_is_put_back_too(cluster: Cluster, in_git: Object, level: str, said: str | None) -> None:
    """The old template is the same to Kubernetes, so that the old pods stay; else all of them would be replaced."""
    cluster.apply(in_git)
    cluster.until_rolled_out(LLAMA)
    old, before = pods(cluster), deployment(cluster)["spec"]["template"]
    with governed(cluster, soakSeconds=3600) as scene:
        wish = {OVERRIDE: json.dumps({"level": level, "by": "alice"})}
        cluster.patch("SpecPolicy", "chat", {"metadata": {"annotations": wish}})
        scene.chat.until(lambda: scene.chat.phase == "Soaking", "a canary")
        assert json.loads(setting(cluster) or "null") == json.loads(said or "null")
        cluster.patch("SpecPolicy", "chat", {"spec": {"suspend": True}})
        scene.chat.until_condition("Progressing", "Cancelled")
        assert deployment(cluster)["spec"]["template"] == before
        assert pods(cluster) == old


def test_a_change_that_cannot_be_read_lets_go_of_the_target(cluster: Cluster) -> None:
    """What was the operator's before goes back; and what Git asks for must roll out, and not stay paused."""
    cluster.apply(annotated())
    annotate(cluster, drafts(5))
    cluster.until_rolled_out(LLAMA)
    with governed(cluster, soakSeconds=3600) as scene:
        scene.chat.until_phase("Soaking")
        later = annotated()
        later["spec"]["template"]["spec"]["containers"][0]["args"] += ["--seed", "1", "$(EXTRA)"]
        cluster.apply(later)
        scene.chat.until_condition("TargetResolved", "UnsupportedCommand")
        cluster.until(lambda: "paused" not in deployment(cluster)["spec"], "no pause")
        scene.chat.until_condition("Progressing", "Cancelled")
        assert setting(cluster) == drafts(5)
        scene.rests()


FLUX = "kustomize-controller"
"""Flux' field manager, named as its controller."""
FLUX_UNDOES = ("kubectl", "before-first-apply")
"""How names of managers begin whose fields Flux takes over, and so takes out: kustomize-controller 1.9.4,
internal/controller/kustomization_controller.go."""

FLUX_SURVIVAL = {
    # how a Kustomization applies: what becomes of an annotation that Git does not have, of one that Git has, of flags
    "as it is": ("kept", "reverted", "reverted"),
    "with `kustomize.toolkit.fluxcd.io/ssa: Merge`": ("kept", "reverted", "reverted"),
    "with `spec.ignore` of what the operator writes": ("kept", "kept", "kept"),
}
"""What becomes of a setting that the operator wrote when Flux applies a new revision."""

IGNORED = (
    "/spec/template/metadata/annotations/specloop.dev~1speculative-config",
    "/spec/template/spec/containers/0/args",
)
"""The paths of both bindings, for `spec.ignore`."""


def flux_table() -> str:
    """The same in Markdown, for docs/recipes/flux.md."""
    rows = [f"| {way} | {' | '.join(fates)} |" for way, fates in FLUX_SURVIVAL.items()]
    head = "| a Kustomization applies | annotation, not in Git | annotation, in Git too | flags |"
    return "\n".join((head, "|---|---|---|---|", *rows))


def flux_applies(cluster: Cluster, in_git: Object, *, merge: bool = False, ignored: tuple[str, ...] = ()) -> None:
    """A reconciliation of kustomize-controller 1.9.4 (fluxcd/pkg, ssa 0.76.1, manager_apply.go).

    It takes over what kubectl owns, leaves what it ignores out of Git's manifest where the operator has applied another
    value, and applies the rest by force.  Whether anything differs is not asked first: to apply what changes nothing
    changes nothing.
    """
    name = in_git["metadata"]["name"]
    found = [one for one in cluster.objects("Deployment") if one["metadata"]["name"] == name]
    if found and not merge:
        managers = taken_over(found[0]["metadata"]["managedFields"])
        cluster.patch(
            "Deployment", name, [{"op": "replace", "path": "/metadata/managedFields", "value": managers}], manager=FLUX
        )
    wanted = copy.deepcopy(in_git)
    for path in ignored:
        *parents, last = (int(part) if part.isdecimal() else part.replace("~1", "/") for part in path.split("/")[1:])
        holder, live = at(wanted, parents), at(found[0], parents)
        if last in holder and holder[last] != live.get(last):
            del holder[last]
    cluster.apply(wanted, manager=FLUX, force=True)


def taken_over(managers: list[Object]) -> list[Object]:
    """Managed fields with those of kubectl as Flux' own."""
    own = [one for one in managers if one["manager"] == FLUX and one["operation"] == "Apply"]
    taken = [one for one in managers if one["manager"].startswith(FLUX_UNDOES) and "subresource" not in one]
    if not taken:
        return managers
    fields: Object = {}
    for one in (*own, *taken):
        fields = united(fields, one["fieldsV1"])
    rest = [one for one in managers if one not in own and one not in taken]
    return [*rest, {**(own or taken)[0], "manager": FLUX, "operation": "Apply", "fieldsV1": fields}]


def united(one: Object, other: Object) -> Object:
    """Two sets of fields as one."""
    return one | {name: united(one.get(name, {}), inner) for name, inner in other.items()}


def at(body: Object, path: list[str | int]) -> Object:
    """The mapping at a path; an empty one where there is none."""
    found: Any = body
    for part in path:
        found = found[part] if isinstance(part, int) else found.get(part, {})
    mapping: Object = found
    return mapping


def without_pods(in_git: Object) -> Object:
    """A Deployment under a new name, that has no pods."""
    return {
        **in_git,
        "metadata": {"name": f"llama-{secrets.token_hex(2)}"},
        "spec": {**in_git["spec"], "replicas": 0},
    }


def operator_applies(cluster: Cluster, in_git: Object, part: Object, **spec: object) -> None:
    """What the operator writes to a workload."""
    own = {key: value for key, value in in_git.items() if key != "spec"}
    cluster.apply({**own, "spec": {"template": part, **spec}}, manager="specloop", force=True)


@pytest.mark.parametrize("way", FLUX_SURVIVAL)
def test_what_survives_flux(cluster: Cluster, way: str) -> None:
    """A new revision arrives in each case, and a held roll-out stays held."""
    merge, ignored = "Merge" in way, IGNORED if "ignore" in way else ()
    for (in_git, part), expected in zip(BODIES, FLUX_SURVIVAL[way], strict=True):
        body = without_pods(in_git)
        flux_applies(cluster, body)
        operator_applies(cluster, body, part, paused=True)
        body = copy.deepcopy(body)
        body["metadata"]["labels"] = {"tier": "gold"}
        flux_applies(cluster, body, merge=merge, ignored=ignored)
        live = cluster.get("Deployment", body["metadata"]["name"])
        assert live["metadata"]["labels"]["tier"] == "gold"
        assert live["spec"]["paused"]
        assert {drafts(3): "kept", drafts(5): "reverted", None: "dropped"}[setting_of(live)] == expected


@pytest.mark.parametrize(
    ("manager", "merge", "left"),
    [
        ("kubectl-patch", False, None),
        ("kubectl", False, None),
        ("kubectl-patch", True, drafts(5)),
        ("flux-client-side-apply", False, drafts(5)),
    ],
    ids=["by hand", "by an undo", "by hand, with Merge", "by hand, in another name"],
)
def test_flux_takes_out_an_annotation_that_kubectl_set(
    cluster: Cluster, manager: str, merge: bool, left: str | None
) -> None:
    """By hand, or by an undo, which leaves the key to kubectl: at the next reconciliation it is gone, which is off."""
    body = without_pods(annotated())
    flux_applies(cluster, body)
    part: Object = {"metadata": {"annotations": {ANNOTATION: drafts(5)}}}
    if manager == "kubectl":  # an undo of what the operator wrote
        operator_applies(cluster, body, {"metadata": {"annotations": {ANNOTATION: drafts(3)}}})
    name = body["metadata"]["name"]
    cluster.patch("Deployment", name, {"spec": {"template": part}}, manager=manager)
    assert setting_of(cluster.get("Deployment", name)) == drafts(5)
    flux_applies(cluster, body, merge=merge)
    assert setting_of(cluster.get("Deployment", name)) == left


def test_the_page_on_flux_says_what_was_seen() -> None:
    """The table and the paths are this file's own."""
    page = (Path(__file__).parents[2] / "docs" / "recipes" / "flux.md").read_text(encoding="utf-8")
    assert flux_table() in page
    for path in IGNORED:
        assert f'"{path}"' in page
