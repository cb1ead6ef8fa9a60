"""What is added, and what is left as it is because it is there."""

import shlex
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.unit.inject.manifests import (
    DRAFTS,
    MODEL,
    SETTING,
    added,
    deployment,
    engine_of,
    inject,
    named,
    speculating,
    templates,
    uninject,
    variables,
)

ROOT = Path(__file__).resolve().parents[3]
IMAGE = "vllm/vllm-openai:v0.32.0"
MIDDLEWARE = "--middleware=specloop_vllm.Middleware"


def flag(container: dict[str, list[str]], name: str) -> str | None:
    """The value of a joined flag among a container's arguments; None without one."""
    found = [item for item in container["args"] if item.startswith(f"{name}=")]
    return found[0].partition("=")[2] if found else None


# The plugin


def test_an_init_container_brings_the_plugin_where_python_finds_it() -> None:
    spec, engine = added(speculating())
    first = named(spec["initContainers"])["specloop-plugin"]
    (there,) = first["volumeMounts"]
    here = named(engine["volumeMounts"])[there["name"]]
    assert named(spec["volumes"])[there["name"]]["emptyDir"] == {}
    assert variables(engine)["PYTHONPATH"] == here["mountPath"]
    assert here["readOnly"] is True


def test_its_command_copies_the_plugin_from_where_both_images_have_it() -> None:
    """tests/component/images runs it in both."""
    first = added(speculating())[0]["initContainers"][0]
    *copying, source, target = first["command"]
    assert copying == ["cp", "-R"]
    assert target == f"{first['volumeMounts'][0]['mountPath']}/"
    images = sorted((ROOT / "charts" / "images").glob("*.Containerfile"))
    assert [source.removesuffix("/specloop_vllm") in image.read_text() for image in images] == [True, True]


def test_its_image_is_the_small_one_of_this_release() -> None:
    assert added(speculating())[0]["initContainers"][0]["image"] == f"specloop-plugin:{version('specloop')}"
    assert added(speculating(), image="a/b:1")[0]["initContainers"][0]["image"] == "a/b:1"


def test_it_may_do_little_and_costs_no_pod_its_class() -> None:
    """Limits equal requests, or a Guaranteed pod would become Burstable."""
    first = added(speculating())[0]["initContainers"][0]
    assert first["resources"]["limits"] == first["resources"]["requests"]
    assert first["securityContext"]["allowPrivilegeEscalation"] is False
    assert first["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert first["securityContext"]["readOnlyRootFilesystem"] is True


def test_it_runs_as_the_engine_does() -> None:
    """`runAsNonRoot` of our own would keep a pod that runs as root from starting."""
    assert "runAsNonRoot" not in added(speculating())[0]["initContainers"][0]["securityContext"]
    own = "securityContext: {runAsUser: 1000, runAsNonRoot: true, privileged: true}"
    context = added(speculating(container=own))[0]["initContainers"][0]["securityContext"]
    assert (context["runAsUser"], context["runAsNonRoot"]) == (1000, True)
    assert "privileged" not in context


def test_a_python_path_that_is_there_comes_behind() -> None:
    text = speculating(container="env:\n- name: PYTHONPATH\n  value: /opt/a:/opt/b  # ours")
    _, engine = added(text)
    assert variables(engine)["PYTHONPATH"] == "/opt/specloop:/opt/a:/opt/b"
    assert [one["name"] for one in engine["env"]].count("PYTHONPATH") == 1
    assert uninject(inject(text).after) == text


# Flags and live control


def test_live_control_takes_a_scheduler_a_table_a_folder_and_a_token() -> None:
    spec, engine = added(speculating())
    assert MIDDLEWARE in engine["args"]
    assert flag(engine, "--scheduler-cls") == "specloop_vllm.LiveAsyncScheduler"
    mounts, volumes = named(engine["volumeMounts"]), named(spec["volumes"])
    live, token = mounts["specloop-live"], mounts["specloop-token"]
    assert variables(engine)["SPECLOOP_LIVE_FOLDER"] == live["mountPath"]
    assert "readOnly" not in live
    assert volumes["specloop-live"]["emptyDir"]["medium"] == "Memory"
    secret = volumes["specloop-token"]["secret"]
    assert secret["secretName"] == "specloop-live"
    (item,) = secret["items"]
    assert item["key"] == "token"
    assert variables(engine)["SPECLOOP_LIVE_TOKEN_FILE"] == f"{token['mountPath']}/{item['path']}"
    assert secret["optional"] is True, "a pod without its Secret would not start"


def test_secret_and_key_have_names_of_their_own() -> None:
    secret = named(added(speculating(), token_secret="k", token_key="t")[0]["volumes"])["specloop-token"]["secret"]
    assert (secret["secretName"], secret["items"][0]["key"]) == ("k", "t")


@pytest.mark.parametrize(
    ("setting", "flags", "image", "scheduler"),
    [
        (DRAFTS, [], IMAGE, "LiveAsyncScheduler"),
        ('{"method": "eagle3", "model": "x", "num_speculative_tokens": 3}', [], IMAGE, "LiveAsyncScheduler"),
        ('{"method": "qwen3_next_mtp", "num_speculative_tokens": 1}', [], IMAGE, "LiveAsyncScheduler"),
        ('{"method": "ngram", "num_speculative_tokens": 4}', [], IMAGE, "LiveScheduler"),
        ('{"method": "ngram_gpu", "num_speculative_tokens": 4}', [], IMAGE, "LiveAsyncScheduler"),
        ('{"method": "suffix", "num_speculative_tokens": 4}', [], IMAGE, "LiveScheduler"),
        (DRAFTS, ["--no-async-scheduling"], IMAGE, "LiveScheduler"),
        (DRAFTS, [], "example.test/vllm-cpu:v0.32.0", "LiveScheduler"),
    ],
)
def test_the_scheduler_is_of_the_kind_that_vllm_would_take(
    setting: str, flags: list[str], image: str, scheduler: str
) -> None:
    """docs/live.md: the wrong one serves, and K cannot be changed."""
    _, engine = added(deployment(MODEL, f"--speculative-config={setting}".join("''"), *flags, image=image))
    assert flag(engine, "--scheduler-cls") == f"specloop_vllm.{scheduler}"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (deployment(MODEL), "there is no speculative setting"),
        (speculating("--data-parallel-size=2"), "ranks that draft differently"),
        (speculating("--api-server-count", "'4'"), "--api-server-count 1"),
        (speculating(image="vllm/vllm-openai:v0.20.0"), "0.24 and later, and this is v0.20.0"),
        (speculating(image="vllm/vllm-openai:latest"), "vllm-openai:latest names no release of vLLM"),
        (speculating(image="vllm/vllm-openai@sha256:0123"), "give --vllm-version"),
        (speculating(image="example.test/nvidia/vllm:25.09-py3"), "names no release"),
        (deployment(MODEL, """'--speculative-config={"method": "mtp"}'"""), "does not say num_speculative_tokens"),
    ],
)
def test_where_live_control_cannot_be_the_rest_is_added_and_it_is_said(text: str, why: str) -> None:
    manifest = inject(text)
    (template,) = templates(manifest.after)
    engine = engine_of(template)
    assert MIDDLEWARE in engine["args"]
    assert flag(engine, "--scheduler-cls") is None
    assert "batch_size" not in str(template["metadata"].get("annotations", {}).get(SETTING))
    assert "specloop-token" not in named(template["spec"]["volumes"])
    assert any(why in note for note in manifest.workloads[0].notes)
    assert uninject(manifest.after) == text


def test_no_live_leaves_out_scheduler_table_and_token() -> None:
    spec, engine = added(speculating(), live=False)
    assert flag(engine, "--scheduler-cls") is None
    assert set(named(spec["volumes"])) == {"specloop-plugin"}
    assert not any(name.startswith("SPECLOOP_") for name in variables(engine))
    (template,) = templates(inject(speculating(), live=False).after)
    assert template["metadata"]["annotations"][SETTING] == DRAFTS


def test_a_release_that_the_tag_does_not_name_can_be_given() -> None:
    _, engine = added(speculating(image="vllm/vllm-openai:nightly"), version="0.33.0")
    assert flag(engine, "--scheduler-cls") == "specloop_vllm.LiveAsyncScheduler"


def test_a_table_that_is_there_stays() -> None:
    own = DRAFTS.replace("}", ', "num_speculative_tokens_per_batch_size": [[1, 8, 5], [9, 256, 1]]}')
    (template,) = templates(inject(deployment(MODEL, "--speculative-config", f"'{own}'")).after)
    assert template["metadata"]["annotations"][SETTING] == own


# The annotation


def test_the_setting_moves_into_the_annotation_in_its_authors_spelling() -> None:
    (template,) = templates(inject(speculating("--max-num-seqs=128")).after)
    table = '"num_speculative_tokens_per_batch_size": [[1,128,5]]'
    assert template["metadata"]["annotations"][SETTING] == f"{DRAFTS[:-1]}, {table}}}"
    engine = engine_of(template)
    assert "--speculative-config=$(SPECULATIVE_CONFIG)" in engine["args"]
    assert variables(engine)["SPECULATIVE_CONFIG"] == {
        "fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{SETTING}']"}
    }


def test_the_setting_can_stay_among_the_flags() -> None:
    text = speculating()
    (template,) = templates(inject(text, annotation=False).after)
    assert SETTING not in template["metadata"]["annotations"]
    written = engine_of(template)["args"][2]
    assert written == f'{DRAFTS[:-1]}, "num_speculative_tokens_per_batch_size": [[1,1024,5]]}}'
    assert uninject(inject(text, annotation=False).after) == text


def test_an_annotation_that_is_bound_already_gets_the_table() -> None:
    field = "metadata.annotations['team.example/spec']"
    text = deployment(
        MODEL,
        "--speculative-config=$(SPEC)",
        container=f'env:\n- {{name: SPEC, valueFrom: {{fieldRef: {{fieldPath: "{field}"}}}}}}',
    ).replace("      labels:\n", f"      annotations:\n        team.example/spec: '{DRAFTS}'  # K\n      labels:\n")
    manifest = inject(text)
    (template,) = templates(manifest.after)
    assert (
        '"num_speculative_tokens_per_batch_size": [[1,1024,5]]'
        in template["metadata"]["annotations"]["team.example/spec"]
    )
    assert SETTING not in template["metadata"]["annotations"]
    assert "SPECULATIVE_CONFIG" not in variables(engine_of(template))
    assert uninject(manifest.after) == text


def test_an_apostrophe_does_not_end_a_scripts_quotes() -> None:
    """Kubernetes puts the value between them before the shell reads it."""
    setting = {"method": "draft_model", "model": "it's", "num_speculative_tokens": 5}
    script = f"vllm serve {MODEL} --speculative-config.method=draft_model --speculative-config.num_speculative_tokens=5"
    script += f" --speculative-config.model={shlex.quote(str(setting['model']))}"
    text = deployment(container="command:\n- sh\n- -c\n- |\n" + "".join(f"  {line}\n" for line in [script]))
    (template,) = templates(inject(text).after)
    assert "'" not in template["metadata"]["annotations"][SETTING]
    assert uninject(inject(text).after) == text


# Drain and start


def test_requests_are_waited_for_when_a_pod_goes() -> None:
    """The grace period has to hold the sleep, the drain, and time to end in."""
    spec, engine = added(speculating())
    sleep = engine["lifecycle"]["preStop"]["exec"]["command"]
    drain = flag(engine, "--shutdown-timeout")
    assert sleep[0] == "sleep"
    assert drain is not None
    assert spec["terminationGracePeriodSeconds"] > int(sleep[1]) + int(drain)


def test_the_drain_can_be_another() -> None:
    spec, engine = added(speculating(), drain_seconds=900)
    assert flag(engine, "--shutdown-timeout") == "900"
    assert spec["terminationGracePeriodSeconds"] > 915


@pytest.mark.parametrize("image", ["vllm/vllm-openai:v0.17.1", "vllm/vllm-openai:latest"])
def test_a_release_without_a_drain_is_not_given_one(image: str) -> None:
    """It would not start."""
    manifest = inject(speculating(image=image))
    engine = engine_of(templates(manifest.after)[0])
    assert flag(engine, "--shutdown-timeout") is None
    assert "preStop" in engine["lifecycle"]
    assert any("--shutdown-timeout takes vLLM 0.18" in note for note in manifest.workloads[0].notes)


def test_longer_waits_and_other_hooks_that_are_there_stay() -> None:
    hook = "lifecycle:\n  preStop:\n    httpGet: {path: /drain, port: 9000}"
    text = speculating("--shutdown-timeout", "'60'", spec="terminationGracePeriodSeconds: 3600", container=hook)
    spec, engine = added(text)
    assert spec["terminationGracePeriodSeconds"] == 3600
    assert engine["lifecycle"] == {"preStop": {"httpGet": {"path": "/drain", "port": 9000}}}
    assert flag(engine, "--shutdown-timeout") is None
    assert "--shutdown-timeout" in engine["args"]


def test_a_post_start_hook_is_no_pre_stop_hook() -> None:
    text = speculating(container="lifecycle:\n  postStart:\n    exec: {command: [date]}")
    assert set(added(text)[1]["lifecycle"]) == {"postStart", "preStop"}
    assert uninject(inject(text).after) == text


def test_fields_without_a_value_get_one() -> None:
    text = speculating(spec="terminationGracePeriodSeconds:", container="startupProbe: ~\nlifecycle:\n  preStop:")
    spec, engine = added(text)
    assert spec["terminationGracePeriodSeconds"] == 345
    assert engine["startupProbe"]["periodSeconds"] == 10
    assert engine["lifecycle"]["preStop"]["exec"]["command"][0] == "sleep"
    assert uninject(inject(text).after) == text


def test_a_model_has_half_an_hour_to_start() -> None:
    """Reports are of up to eleven minutes."""
    probe = added(speculating("--port=9000"))[1]["startupProbe"]
    assert probe["httpGet"] == {"path": "/health", "port": 9000}
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 1800


@pytest.mark.parametrize(
    ("flags", "container", "expected"),
    [
        ((), "", {"port": 8000}),
        (("--ssl-certfile=/a",), "", {"port": 8000, "scheme": "HTTPS"}),
        ((), "readinessProbe:\n  httpGet: {port: web, scheme: HTTPS}", {"port": "web", "scheme": "HTTPS"}),
        ((), "readinessProbe:\n  exec: {command: [date]}", {"port": 8000}),
    ],
)
def test_the_probe_looks_where_the_others_do(flags: tuple[str, ...], container: str, expected: object) -> None:
    get = added(speculating(*flags, container=container))[1]["startupProbe"]["httpGet"]
    assert get.pop("path") == "/health"
    assert get == expected


def test_a_start_up_probe_that_is_there_stays() -> None:
    own = "startupProbe:\n  httpGet: {path: /, port: 1}"
    assert added(speculating(container=own))[1]["startupProbe"] == {"httpGet": {"path": "/", "port": 1}}
