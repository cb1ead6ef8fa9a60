"""What cannot be understood is refused in one sentence that says where and how to mend it, and nothing is printed."""

from pathlib import Path

import pytest

from specloop_cli.main import main
from tests.unit.inject.manifests import DRAFTS, MODEL, deployment, inject, speculating, uninject

KSERVE = "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata: {name: q}\nspec: {predictor: {}}\n"
TWICE = "      - {name: other, image: vllm/vllm-openai, args: [--model=x]}\n      - name: vllm\n"
FIELD = "env:\n- {name: PYTHONPATH, valueFrom: {fieldRef: {fieldPath: a}}}"
EMPTY = '    metadata:\n      annotations: {specloop.dev/speculative-config: ""}\n'
LLAMA = deployment("-m", "/models/a.gguf", image="example.test/llama.cpp:server")
JOB = deployment(MODEL).replace("Deployment", "Job").replace("apps/v1", "batch/v1")


def refusal(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """The one line that a file is refused with, from where the file's name ends."""
    path = tmp_path / "file.yaml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert main(["inject", "-f", str(path), *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err.removeprefix(f"specloop: {path}").strip()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        # commands
        (
            deployment(container='command: [sh, -c]\nargs: ["vllm serve a | tee log"]'),
            "Deployment/llama: container vllm: vllm serve a | tee log: the engine is part of a pipe or a sub",
        ),
        (deployment(MODEL, "--config", "/etc/vllm.yaml"), "the file may hold the speculative setting; move its flags"),
        (speculating("--scheduler-cls=a.B"), "--scheduler-cls a.B is there, and vLLM takes one: remove it, or"),
        (deployment(MODEL, "--middleware=specloop_vllm.Middleware"), "the plugin is in its command already, by hand"),
        (deployment("python", "server.py"), "no engine is seen to start here; name its container by --container"),
        (deployment("8000"), "args is no list of texts: put each of its items in quotes"),
        (
            speculating(container="command: [/entrypoint.sh]"),
            "no engine is seen to start here; name its container by --container",
        ),
        (
            deployment(MODEL, "--speculative-config=$(SPEC)", container=f"env: [{{name: SPEC, value: '{DRAFTS}'}}]"),
            "in a variable which no annotation of the pod fills: write it into the command",
        ),
        (
            deployment(MODEL, """'--speculative-config={"method":"mtp","model":"$(M)","num_speculative_tokens":1}'"""),
            "names a variable whose value the manifest does not say",
        ),
        (
            deployment(MODEL, "--speculative-model=x", "--num-speculative-tokens=3", image="vllm/vllm-openai:v0.8.1"),
            "--speculative-config takes vLLM 0.8.2 and later: give --no-annotation",
        ),
        (speculating("--served-model-name=SPECLOOP-SETTING"), "SPECLOOP-SETTING is in its command: rename it"),
        # what is in the way
        (speculating(container=FIELD), "PYTHONPATH has no"),
        (speculating(container="env:\n- {name: SPECULATIVE_CONFIG, value: a}"), "env has a SPECULATIVE_CONFIG already"),
        (
            speculating(container="env:\n- {name: SPECLOOP_LIVE_FOLDER, value: a}"),
            "env has a SPECLOOP_LIVE_FOLDER already",
        ),
        (
            speculating(container="volumeMounts:\n- {name: a, mountPath: /etc/specloop/}"),
            "mounted at /etc/specloop/ already",
        ),
        (speculating(spec="volumes:\n- {name: specloop-live, emptyDir: {}}"), "volumes has a specloop-live already"),
        (speculating(spec="terminationGracePeriodSeconds: soon"), "is no whole number"),
        (
            speculating().replace("    metadata:\n", "    metadata:\n      annotations:\n"),
            "metadata.annotations of the pod template has no value: remove it, or write {}",
        ),
        (
            speculating().replace("    metadata:\n", EMPTY),
            "an annotation specloop.dev/speculative-config which its command does not name: remove it",
        ),
        # several engines, none, or another one
        (
            speculating().replace("      - name: vllm\n", TWICE),
            "several containers run vLLM (other, vllm): name one by --container",
        ),
        (LLAMA, "container vllm runs llama.cpp, and the plugin is for vLLM only"),
        (
            deployment("--port=80", image="example.test/nginx:1"),
            "nothing here runs vLLM (Deployment/llama: no container",
        ),
        (JOB, "Job/llama: container vllm runs vLLM, and Job of batch/v1 is not a kind that inject"),
        (JOB.replace("Job", "DaemonSet").replace("batch", "apps"), "DaemonSet/llama: container vllm runs vLLM"),
        (JOB.replace("kind: Job", "kind: LeaderWorkerSet"), "LeaderWorkerSet/llama: container vllm runs vLLM"),
        (f"{speculating()}---\n{JOB}", "Job/llama: container vllm runs vLLM"),
        (JOB.replace(MODEL, "--config=a\n        - --config"), "Job/llama: it runs vLLM, and Job of batch/v1 is not"),
        (KSERVE, "InferenceService/q is not a kind that inject understands"),
        ("kind: Service\napiVersion: v1\n", "Service/(no name) is not a kind"),
        ("", "nothing here runs vLLM (there is no object in it)"),
        (
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {}\n",
            "Deployment/a: no container of it does",
        ),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: [vllm]\n", "Pod/a: no container of it does"),
        ("- a\n- b\n", "nothing here runs vLLM"),
        # YAML
        (speculating().replace("v0.32.0", "{{ .Values.tag }}"), "is a Helm template: render it first (helm template"),
        ("{{- if .Values.a }}\nkind: Pod\n{{- end }}\n", "is a Helm template: render it first (helm template"),
        (
            speculating(spec="hostIPC: true\nhostIPC: false"),
            "Deployment/llama: spec.template.spec.hostIPC: given twice, on lines 11 and 12 (remove",
        ),
        ("kind: Pod\n\tspec: 1\n", "indent with spaces"),
        ("kind: Pod\nspec: \udcff\n", "byte 0xff is not UTF-8"),
        ("kind: Pod\nspec: \x07\n", "control character U+0007"),
        (
            speculating(
                spec="initContainers:\n- {name: a, env: &e [{name: A, value: b}]}", container="env: *e\nports: []"
            ),
            "env is an anchor or alias, which other places share: write it out",
        ),
        (
            speculating(spec="initContainers:\n- {name: a, env: &e [{name: A, value: b}]}", container="env: *e"),
            "something would be put in behind what the anchor on line 12 names: write it out there",
        ),
        (
            speculating(container="<<: {env: []}"),
            "may come in by <<, which other places share: write the fields out",
        ),
    ],
)
def test_a_manifest_is_refused(text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert words in refusal(text, tmp_path, capsys)


def test_the_line_of_the_workload_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = f"kind: Service\napiVersion: v1\n---\n{speculating('--scheduler-cls=a.B')}"
    assert refusal(text, tmp_path, capsys).startswith(":4: Deployment/llama: container vllm: --scheduler-cls")


def test_aliases_that_grow_without_end_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
    text = speculating(container=bomb)
    assert "values, aliases written out" in refusal(text, tmp_path, capsys)


def test_a_huge_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refusal(speculating() + "# x\n" * 300_000, tmp_path, capsys)
    assert "larger than 1 MiB" in said
    assert "policy" not in said


def test_what_could_not_be_read_again_is_not_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = speculating() + "#" * ((1 << 20) - len(speculating()))
    assert "too large to be read again" in refusal(text, tmp_path, capsys)


def test_deep_nesting_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nest" in refusal("[" * 5000, tmp_path, capsys)


def test_a_wrong_release_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "this is no release" in refusal(speculating(), tmp_path, capsys, "--vllm-version", "new")


def test_a_container_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no container is called engine" in refusal(speculating(), tmp_path, capsys, "--container", "engine")


def test_a_named_container_need_not_look_like_vllm() -> None:
    """A wrapper that hands its arguments on."""
    after = inject(speculating(container="command: [/entrypoint.sh]"), container="vllm").after
    assert "--middleware=specloop_vllm.Middleware" in after


@pytest.mark.parametrize(
    "other",
    [
        LLAMA.replace("name: llama", "name: other"),
        deployment("--port=80", image="x/router:1"),
        deployment("--port=80", image="x/nginx:1", spec="hostIPC: true\nhostIPC: true").replace("vllm", "web"),
        deployment("--port=80", image="x/nginx:1").replace("vllm", "web").replace("  template", "  <<: {}\n  template"),
    ],
)
def test_a_workload_without_vllm_beside_one_passes(other: str) -> None:
    text = f"{other}---\n{speculating()}"
    after = inject(text).after
    assert after.startswith(f"{other}---\n")
    assert uninject(after) == text


def test_a_chat_template_is_no_helm_template() -> None:
    text = speculating("--chat-template", '"{% for m in messages %}{{ m.content }}{% endfor %}"')
    assert "--middleware" in inject(text).after


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("--speculative-config=$(SPECULATIVE_CONFIG)", "--speculative-config={}"), "s[vllm].args was changed"),
        (("terminationGracePeriodSeconds: 345", "terminationGracePeriodSeconds: 1"), "Seconds was changed"),
        (('{"version":1', '{"version":2'), "the annotation specloop.dev/injected cannot be read"),
        (('{"version":1', "["), "the annotation specloop.dev/injected cannot be read"),
    ],
)
def test_uninject_does_not_guess(
    change: tuple[str, str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    after = inject(speculating(spec="terminationGracePeriodSeconds: 30")).after
    assert change[0] in after
    assert words in refusal(after.replace(*change), tmp_path, capsys, "--uninject")
