"""Where a setting is found and what is written for a level; what is not sure, or would not start, is refused."""

from typing import Any

import pytest

from specloop_operator.binding import Binding, BindingError, Place, bind, rest_of
from specloop_policy.engine import Engine
from specloop_policy.ladder import DISABLED, Drafter, Level, Method
from specloop_policy.model import ClientFeature
from tests.unit.engine_command_line.levels import DRAFT_NAME, K3, K5, LADDER, NGRAM
from tests.unit.operator_binding.templates import (
    ANNOTATION,
    EXPORTER,
    FLAG,
    REFERENCE,
    TARGET,
    VARIABLE,
    Object,
    annotated,
    applied,
    container,
    drafts,
    engine_words,
    template,
)

NGRAM_JSON = '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4, "prompt_lookup_min": 2}'
DOTTED = ("method=draft_model", f"model={DRAFT_NAME}")
DOTTED_NGRAM = ("method=ngram", "num_speculative_tokens=4", "prompt_lookup_max=4", "prompt_lookup_min=2")
LEGACY = ("--speculative-model", DRAFT_NAME)
LEGACY_NGRAM = (
    *("--speculative-model", "[ngram]", "--num-speculative-tokens=4"),
    *("--ngram-prompt-lookup-max=4", "--ngram-prompt-lookup-min=2"),
)


def lists(command: list[str], args: list[str]) -> Object:
    """What is applied for an engine whose lists are to be these."""
    own = {name: items for name, items in (("command", command), ("args", args)) if items}
    return {"spec": {"containers": [{"name": "vllm", **own}]}}


def script(text: str) -> Object:
    """The same where a shell runs it."""
    return lists(["sh", "-c", text], [])


FORMS: dict[str, tuple[Object, Object, Object, Object]] = {
    # form: K = 5 as its user wrote it, and what is applied for K = 3, n-gram lookup and off
    "two items of args": (
        template(container(args=[TARGET, FLAG, drafts(5), "--seed=1"])),
        lists([], [TARGET, FLAG, drafts(3), "--seed=1"]),
        lists([], [TARGET, FLAG, NGRAM_JSON, "--seed=1"]),
        lists([], [TARGET, "--seed=1"]),
    ),
    "one item of command": (
        template(container(["vllm", "serve", TARGET, f"{FLAG}={drafts(5)}"])),
        lists(["vllm", "serve", TARGET, f"{FLAG}={drafts(3)}"], []),
        lists(["vllm", "serve", TARGET, f"{FLAG}={NGRAM_JSON}"], []),
        lists(["vllm", "serve", TARGET], []),
    ),
    "dotted": (
        template(container(args=[TARGET, *(f"{FLAG}.{pair}" for pair in (*DOTTED, "num_speculative_tokens=5"))])),
        lists([], [TARGET, *(f"{FLAG}.{pair}" for pair in (*DOTTED, "num_speculative_tokens=3"))]),
        lists([], [TARGET, *(f"{FLAG}.{pair}" for pair in DOTTED_NGRAM)]),
        lists([], [TARGET]),
    ),
    "flags of an old release, known by the image's tag": (
        template({**container(args=[TARGET, *LEGACY, "--num-speculative-tokens=5"]), "image": "vllm:v0.8.1"}),
        lists([], [TARGET, *LEGACY, "--num-speculative-tokens=3"]),
        lists([], [TARGET, *LEGACY_NGRAM]),
        lists([], [TARGET]),
    ),
    "a shell's script": (
        template(container(["sh", "-c", f"export X=1\nexec vllm serve {TARGET} \\\n  {FLAG} '{drafts(5)}' --seed=1"])),
        script(f"export X=1\nexec vllm serve {TARGET} \\\n  {FLAG} '{drafts(3)}' --seed=1"),
        script(f"export X=1\nexec vllm serve {TARGET} \\\n  {FLAG} '{NGRAM_JSON}' --seed=1"),
        script(f"export X=1\nexec vllm serve {TARGET} --seed=1"),
    ),
    "an annotation": (
        annotated(drafts(5)),
        {"metadata": {"annotations": {ANNOTATION: drafts(3)}}},
        {"metadata": {"annotations": {ANNOTATION: NGRAM_JSON}}},
        {"metadata": {"annotations": {ANNOTATION: ""}}},
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_level_is_written_in_the_form_that_was_found(form: str) -> None:
    """Nothing but the one annotation, or the lists of the one container, is ever applied."""
    whole, k3, ngram, off = FORMS[form]
    binding = bind(whole)
    assert binding.level(LADDER) == K5
    assert [binding.patch(level) for level in (K3, NGRAM, DISABLED)] == [k3, ngram, off]


def test_a_list_that_is_emptied_is_said_to_be_empty() -> None:
    """Who applies a container without `args` leaves those of others as they are."""
    binding = bind(template(container(["vllm", "serve", TARGET], [FLAG, drafts(5)])))
    (one,) = binding.patch(DISABLED)["spec"]["containers"]
    assert one == {"name": "vllm", "command": ["vllm", "serve", TARGET], "args": []}


def test_off_is_exactly_an_empty_annotation() -> None:
    """vLLM does not start with a blank, `{}` or `off`; a key left out would keep what others own of it."""
    off = bind(annotated(drafts(5))).patch(DISABLED)
    assert off == {"metadata": {"annotations": {ANNOTATION: ""}}}
    assert engine_words(applied(annotated(drafts(5)), off))[-1] == f"{FLAG}="


@pytest.mark.parametrize("value", [" ", "{}", "off", '{"method": "draft_model", "num_speculative_tokens": "5"}'])
def test_an_annotation_that_keeps_the_engine_from_starting_is_refused(value: str) -> None:
    """Somebody must mend it first: what the engine was meant to be is not known."""
    with pytest.raises(BindingError, match="speculative-config="):
        bind(annotated(value))


def test_an_absent_annotation_is_off_and_is_left_out_when_it_is_put_back() -> None:
    """An empty one in its place would make another template, and so new pods of all old ones."""
    old = bind(annotated())
    assert (old.place, old.annotation, old.level(LADDER)) == (Place.ANNOTATION, ANNOTATION, DISABLED)
    assert bind(annotated(drafts(3))).restored(old) == {}
    assert bind(annotated(drafts(3))).restored(bind(annotated(""))) == {"metadata": {"annotations": {ANNOTATION: ""}}}


def variable(**source: Any) -> Object:
    """The variable of the setting, from elsewhere than an annotation."""
    return {"name": "SPECULATIVE_CONFIG", **source}


CONFIG_MAP = variable(valueFrom={"configMapKeyRef": {"name": "flags", "key": "spec"}})


def filled(*env: Object) -> Object:
    """A container that takes its setting from a variable."""
    return container(args=[TARGET, f"{FLAG}={REFERENCE}"], env=list(env))


SLEEPER: Object = {"name": "sleeper", "image": "busybox", "command": ["sleep", "600"]}
REFUSED: dict[str, tuple[Object, str]] = {
    "no variable": (template(filled()), "value is not known"),
    "a ConfigMap": (template(filled(CONFIG_MAP)), "value is not known"),
    "a ConfigMap after an annotation": (template(filled(VARIABLE, CONFIG_MAP)), "value is not known"),
    "a label": (
        template(filled(variable(valueFrom={"fieldRef": {"fieldPath": "metadata.labels['spec']"}}))),
        "value is not known",
    ),
    "the template itself": (
        template(filled(variable(value=drafts(5)))),
        "in the variable SPECULATIVE_CONFIG, which no annotation of the pod fills: write it into the command, or fill",
    ),
    "a variable made of one": (
        template(filled({**VARIABLE, "name": "A"}, variable(value="$(A)")), annotations={ANNOTATION: drafts(5)}),
        "which no annotation of the pod fills",
    ),
    "flags from elsewhere": (
        template(container(["vllm", "serve", TARGET, "$(EXTRA)"], env=[{**CONFIG_MAP, "name": "EXTRA"}])),
        "this may hold flags",
    ),
    "an unquoted variable in a script": (
        template(container(["sh", "-c", f"vllm serve m {FLAG} $SPECULATIVE_CONFIG"], env=[VARIABLE])),
        "no value",
    ),
    "a substitution": (template(container(["sh", "-c", f'vllm serve m {FLAG} "$(cat /spec)"'])), "known when it runs"),
    "another shell": (template(container(["fish", "-c", f"vllm serve m {FLAG} '{drafts(5)}'"])), "no engine is seen"),
    "no engine": (template(SLEEPER, EXPORTER), "sleeper: sleep 600: no engine is seen to start here.*; exporter: "),
    "two engines": (
        template(container(args=[TARGET]), {**container(args=[TARGET]), "name": "second"}),
        r"several containers run an engine \(vllm, second\); name one as containerName",
    ),
    "two settings": (template(container(args=[TARGET, FLAG, drafts(5), FLAG, drafts(3)])), "given twice"),
    "a sidecar of flags beside what is no engine": (
        template(SLEEPER, {"name": "proxy", "image": "envoy", "args": ["--port=80"]}),
        "proxy: neither command nor image names an engine; set containerName if it is one",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_for_sure_is_refused_with_the_reason(case: str) -> None:
    """The message goes into the condition, so it says which container, what, and the mend."""
    whole, reason = REFUSED[case]
    with pytest.raises(BindingError, match=reason):
        bind(whole)


def test_the_last_of_two_variables_of_one_name_counts() -> None:
    """As with kubelets."""
    whole = template(filled(CONFIG_MAP, VARIABLE), annotations={ANNOTATION: drafts(3)})
    assert bind(whole).level(LADDER) == K3


def test_a_named_container_is_read_and_no_other() -> None:
    """Also where its image and command do not say that it is an engine."""
    private = {**container(args=["--model", TARGET, FLAG, drafts(3)]), "name": "second", "image": "reg:5000/llm:1"}
    whole = template(container(args=[TARGET, FLAG, drafts(5)]), private)
    assert bind(whole).container == "vllm"
    assert bind(whole, "second").level(LADDER) == K3
    with pytest.raises(BindingError, match="no container is called third; here: vllm, second; correct containerName"):
        bind(whole, "third")
    with pytest.raises(BindingError, match="this starts VLLM, not LlamaCpp"):
        bind(template(container(["vllm", "serve", TARGET])), engine=Engine.LLAMACPP)


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("vllm/vllm-openai:v0.11.0", "v0.11.0"),
        ("reg:5000/vllm/vllm-openai:v0.11.0@sha256:0", "v0.11.0"),
        ("reg:5000/vllm/vllm-openai", None),
        ("vllm@sha256:0", None),
    ],
)
def test_the_version_is_the_images_tag(image: str, version: str | None) -> None:
    """A registry's port is none."""
    assert bind(template({**container(args=[TARGET]), "image": image})).line.version == version


def drafter(method: Method, model: str | None = None, tokens: int = 5) -> Level:
    """A level of another drafter."""
    return Level("other", Drafter("other", method, model), tokens)


def tagged(tag: str, *flags: str) -> Object:
    """A template of another release."""
    return template({**container(args=[TARGET, *flags]), "image": f"vllm/vllm-openai:{tag}"})


UNSTARTABLE: dict[str, tuple[Object, Level, str]] = {
    "vocabulary": (
        tagged("v0.32.0"),
        drafter(Method.DRAFT_MODEL, "Qwen/Qwen2.5-1.5B"),
        r"have different vocabularies \(Llama 3 and Qwen 2 and 3\) \(choose a draft model of the target's family\)",
    ),
    "release without draft models": (tagged("v0.12.0"), K5, "does not run draft_model, which runs in releases before"),
    "release without the method": (tagged("v0.24.0"), drafter(Method.DSPARK, "a/b"), "does not run dspark"),
    "release of old flags": (tagged("v0.8.1"), drafter(Method.EAGLE, "a/b"), "know draft_model and ngram, not eagle"),
    "a head without a model": (tagged("v0.32.0"), drafter(Method.EAGLE3), "without speculative model"),
    "custom logits processors": (
        tagged("v0.32.0", "--logits-processors", "mine:Processor"),
        NGRAM,
        "Custom logits processors are not supported when speculative decoding",
    ),
    "too few batched tokens for LoRA": (
        # 256 sequences of 5 + 1 tokens are 1536.
        tagged("v0.32.0", "--enable-lora", "--max-num-seqs=256", "--max-num-batched-tokens", "1535"),
        K5,
        "raise --max-num-batched-tokens to 1536",
    ),
    "metrics of each request without speculation": (
        annotated(drafts(5), "--per-request-spec-decode-metrics", "summary"),
        DISABLED,
        "vLLM does not start with this while speculation is off",
    ),
}


@pytest.mark.parametrize("case", UNSTARTABLE)
def test_a_level_at_which_the_engine_would_not_start_is_refused_before_anything_is_written(case: str) -> None:
    """The operator keeps such a level out of its ladder, and says why."""
    whole, level, reason = UNSTARTABLE[case]
    binding = bind(whole)
    with pytest.raises(BindingError, match=reason):
        binding.key(level)


def test_what_would_start_there_is_not_refused() -> None:
    """K = 3 needs 256 · 4 = 1024 tokens a batch."""
    whole = tagged("v0.32.0", "--enable-lora", "--max-num-seqs=256", "--max-num-batched-tokens", "1024")
    assert bind(whole).key(K3)
    assert bind(tagged("v0.14.2")).key(K5)


def test_flags_that_need_speculation_go_with_it() -> None:
    """In a list they can be taken away, in a template with an annotation they cannot."""
    binding = bind(template(container(args=[TARGET, FLAG, drafts(5), "--per-request-spec-decode-metrics=summary"])))
    assert binding.patch(DISABLED) == lists([], [TARGET])
    assert binding.key(DISABLED)


def test_a_level_that_spoils_what_clients_send_is_refused() -> None:
    """vLLM from 0.17 on answers 400 to min_p beside a draft; grammars and n-gram have ended in errors."""
    binding = bind(tagged("v0.32.0"))
    with pytest.raises(BindingError, match="k3 would spoil answers: The min_p and logit_bias"):
        binding.key(K3, [ClientFeature.MIN_P])
    with pytest.raises(BindingError, match="ngram would spoil answers: n-gram drafts beside a grammar"):
        binding.key(NGRAM, [ClientFeature.GRAMMAR])
    assert binding.key(K3, [ClientFeature.GRAMMAR]) == binding.key(K3)
    assert binding.key(DISABLED, list(ClientFeature))
    assert bind(tagged("v0.16.0")).key(K3, [ClientFeature.LOGIT_BIAS])


def test_what_has_no_effect_is_no_refusal() -> None:
    """With data parallelism vLLM turns a table by batch size off, and serves."""
    table = {"num_speculative_tokens_per_batch_size": [[1, 8, 5], [9, 256, 3]]}
    binding = bind(template(container(args=[TARGET, "--data-parallel-size", "2", FLAG, drafts(5, **table)])))
    assert binding.key(K3)


def changed(whole: Object, **fields: Any) -> Object:
    """A template whose engine's container has other fields."""
    (one,) = whole["spec"]["containers"]
    return {**whole, "spec": {**whole["spec"], "containers": [{**one, **fields}]}}


BEFORE = template(container(["vllm", "serve", TARGET], [FLAG, drafts(5), "--seed=1"]), annotations={"own": "1"})
CHANGES: dict[str, Object] = {
    "image": changed(BEFORE, image="vllm/vllm-openai:v0.33.0"),
    "other flag": changed(BEFORE, args=[FLAG, drafts(5), "--seed=2"]),
    "program": changed(BEFORE, command=["tini", "--", "vllm", "serve", TARGET]),
    "variable": changed(BEFORE, env=[{"name": "A", "value": "b"}]),
    "label": {**BEFORE, "metadata": {**BEFORE["metadata"], "labels": {"app": "llama", "tier": "gold"}}},
    "annotation": {**BEFORE, "metadata": {**BEFORE["metadata"], "annotations": {"own": "2"}}},
    "sidecar": {**BEFORE, "spec": {**BEFORE["spec"], "containers": [*BEFORE["spec"]["containers"], EXPORTER]}},
    "grace period": {**BEFORE, "spec": {**BEFORE["spec"], "terminationGracePeriodSeconds": 60}},
}


def rest(whole: Object) -> str:
    """The hash of all but the setting."""
    return rest_of(whole, bind(whole))


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_of_anything_but_the_setting_is_another_rest(what: str) -> None:
    """In the middle of a roll-out it means that somebody changed the target."""
    assert rest(CHANGES[what]) != rest(BEFORE)


def test_what_the_api_server_drops_is_no_change() -> None:
    """Empty maps and what they stand for are the same."""
    bare = template(container(args=[TARGET]))
    assert rest({**bare, "metadata": {**bare["metadata"], "annotations": {}}}) == rest(bare)
    assert rest({**bare, "metadata": {**bare["metadata"], "annotations": None}}) == rest(bare)


def keys(binding: Binding) -> list[str]:
    """Of all levels."""
    return [binding.key(level) for level in LADDER.levels]


def test_a_failure_is_remembered_by_configuration_and_image() -> None:
    """Another image may well start with what this one does not start with."""
    ours, later = bind(BEFORE), bind(CHANGES["image"])
    assert len({*keys(ours), *keys(later)}) == 8
    assert keys(bind(CHANGES["other flag"])) == keys(ours)
