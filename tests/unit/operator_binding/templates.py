"""Pod templates as users write them: the setting in every form, among all else that a template may hold."""

import copy
import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from tests.support.cluster.environment import expand, field
from tests.unit.engine_command_line.bash import bash_words
from tests.unit.engine_command_line.levels import DRAFT_NAME

Object = dict[str, Any]

ANNOTATION = "specloop.dev/speculative-config"
FLAG = "--speculative-config"
REFERENCE = "$(SPECULATIVE_CONFIG)"
VARIABLE: Object = {
    "name": "SPECULATIVE_CONFIG",
    "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{ANNOTATION}']"}},
}
IMAGE = "vllm/vllm-openai:v0.32.0"
TARGET = "meta-llama/Llama-3.3-70B-Instruct"
EXPORTER: Object = {
    "name": "exporter",
    "image": "nvidia/dcgm-exporter:4.2",
    "command": ["dcgm-exporter", "-a", ":9400"],
}


def container(command: Sequence[str] = (), args: Sequence[str] = (), **other: Any) -> Object:
    """A container called `vllm`; an empty list is left out, as the API server leaves it out."""
    lists = {name: list(items) for name, items in (("command", command), ("args", args)) if items}
    return {"name": "vllm", "image": IMAGE, **lists, "ports": [{"containerPort": 8000}], **other}


def template(*containers: Object, annotations: Mapping[str, str] | None = None) -> Object:
    """A template with a label and a field that nobody may touch."""
    metadata: Object = {"labels": {"app": "llama"}}
    if annotations is not None:
        metadata["annotations"] = dict(annotations)
    return {"metadata": metadata, "spec": {"containers": list(containers), "terminationGracePeriodSeconds": 30}}


def drafts(tokens: int, **other: Any) -> str:
    """The setting of the small draft model, as JSON."""
    return json.dumps({"method": "draft_model", "model": DRAFT_NAME, "num_speculative_tokens": tokens, **other})


def annotated(value: str | None = None, *args: str, **other: Any) -> Object:
    """A template whose setting is an annotation; None: there is no such annotation yet."""
    one = container(args=[TARGET, *args, f"{FLAG}={REFERENCE}"], env=[VARIABLE], **other)
    return template(one, annotations=None if value is None else {ANNOTATION: value})


def applied(whole: Object, part: Mapping[str, Any], given_up: Mapping[str, Any] | None = None) -> Object:
    """A template after one manager has applied a part of it by force, server-side.

    Maps and containers (by their name) are merged, lists of words replaced.  A key of the manager's last application
    (`given_up`) that is not in this one goes, for nobody else owns it.
    """
    made = _without(copy.deepcopy(whole), given_up or {}, part)
    _merge(made, part)
    return made


def _without(whole: Object, before: Mapping[str, Any], now: Mapping[str, Any]) -> Object:
    for key, value in before.items():
        if isinstance(value, Mapping):
            inner = _without(whole.get(key, {}), value, now.get(key, {}))
            if not inner and not now.get(key):
                whole.pop(key, None)
        elif key not in now and key not in ("name", "containers"):
            whole.pop(key, None)
    return whole


def _merge(whole: Object, part: Mapping[str, Any]) -> None:
    for key, value in part.items():
        if isinstance(value, Mapping):
            _merge(whole.setdefault(key, {}), value)
        elif key == "containers":
            for one in value:
                _merge(next(own for own in whole[key] if own["name"] == one["name"]), one)
        elif value == []:
            whole.pop(key, None)  # the API server keeps no empty lists
        else:
            whole[key] = value


def engine_words(whole: Object, name: str = "vllm") -> list[str]:
    """What the engine of a pod of this template gets: Kubernetes fills in variables, and bash runs what is a script."""
    one = next(found for found in whole["spec"]["containers"] if found["name"] == name)
    environment: dict[str, str] = {}
    for variable in one.get("env", ()):
        source = variable.get("valueFrom")
        known = field(whole, source["fieldRef"]["fieldPath"]) if source else expand(variable["value"], environment)
        environment[variable["name"]] = known
    items = [expand(item, environment) for item in (*one.get("command", ()), *one.get("args", ()))]
    if items[:1] not in (["sh"], ["bash"]):
        return items
    words = bash_words(items[2].removeprefix("exec "), environment)
    assert words is not None
    return words


KEYS = ("quantization", "revision", "max_model_len")
OTHERS = st.dictionaries(st.sampled_from(KEYS), st.integers(1, 99) | st.text("ab'\"$ é", min_size=1), max_size=2)
CONFIGS = st.one_of(
    st.none(),
    st.builds(
        lambda tokens, others: (
            {"method": "draft_model", "model": DRAFT_NAME, "num_speculative_tokens": tokens, **others}
        ),
        st.integers(1, 9),
        OTHERS,
    ),
    st.builds(
        lambda tokens, high: {"method": "ngram", "num_speculative_tokens": tokens, "prompt_lookup_max": high},
        st.integers(1, 9),
        st.integers(1, 9),
    ),
)
PLAIN = st.lists(
    st.sampled_from((["--port", "80"], ["--seed=1"], ["--api-key", "it's $x"], ["--served-model-name", '"é" $$(A)'])),
    max_size=2,
    unique_by=lambda flag: flag[0],
).map(lambda flags: [word for flag in flags for word in flag])
QUOTING = st.sampled_from(
    (shlex.quote, lambda text: '"' + "".join("\\" * (char in '\\"$`') + char for char in text) + '"')
)
DUMPED = st.sampled_from(((",", ":"), (", ", ": "), (" , ", " : ")))


@st.composite
def flags(draw: st.DrawFn, forms: Sequence[str]) -> list[str]:
    """A setting as flags, in one of these forms; none for off."""
    config = draw(CONFIGS)
    if config is None:
        return []
    form = draw(st.sampled_from(forms))
    if form == "legacy":
        named = "[ngram]" if config["method"] == "ngram" else config["model"]
        lookup = ["--ngram-prompt-lookup-max", str(config["prompt_lookup_max"])] if named == "[ngram]" else []
        return ["--speculative-model", named, f"--num-speculative-tokens={config['num_speculative_tokens']}", *lookup]
    if form == "dotted":
        return [f"{FLAG}.{key}={json.dumps(value)}" for key, value in config.items()]
    if form == "short":
        rest = {key: value for key, value in config.items() if key not in ("method", "num_speculative_tokens")}
        more = [FLAG, json.dumps(rest)] if rest else []
        return ["--spec-method", config["method"], f"--spec-tokens={config['num_speculative_tokens']}", *more]
    text = json.dumps(config, separators=draw(DUMPED), indent=draw(st.sampled_from((None, None, 2))))
    return {"two": [FLAG, text], "one": [f"{FLAG}={text}"], "blank": [f"{FLAG} {text}"], "alias": ["-sc", text]}[form]


FORMS = ("two", "one", "blank", "alias", "dotted", "short")


ANNOTATIONS: st.SearchStrategy[dict[str, str] | None] = st.none() | st.just({"prometheus.io/scrape": "true"})
"""Of their own; none at all is another case."""


@st.composite
def lists(draw: st.DrawFn) -> Object:
    """A template with its setting among the items of `command` or `args`."""
    old = draw(st.booleans())
    setting = draw(flags(("legacy",) if old else FORMS))
    items = ["vllm", "serve", TARGET, *draw(PLAIN), *setting, *draw(PLAIN)]
    cut = draw(st.sampled_from((0, 3, len(items))))
    one = container(items[:cut], items[cut:] if cut else items[2:])
    image = (
        "vllm/vllm-openai:v0.8.1"
        if old
        else draw(st.sampled_from((IMAGE, "vllm/vllm-openai", "reg:5000/vllm@sha256:0")))
    )
    return template({**one, "image": image}, EXPORTER, annotations=draw(ANNOTATIONS))


@st.composite
def scripts(draw: st.DrawFn) -> Object:
    """A template with its setting in a shell's script."""
    quoting, gap = draw(QUOTING), draw(st.sampled_from((" ", " \\\n  ")))
    words = [*draw(PLAIN), *draw(flags(("two", "one", "dotted"))), *draw(PLAIN)]
    first = draw(st.sampled_from(("", "exec ", "A=1 ", "cd / && ", "true; ")))
    text = (
        first
        + gap.join(["vllm serve", TARGET, *map(quoting, words)])
        + draw(st.sampled_from(("", "\n", " # it's", " 2>&1", ">/dev/null")))
    )
    shell = draw(st.sampled_from(("sh", "bash")))
    return template(EXPORTER, container([shell, "-c", text]), annotations=draw(ANNOTATIONS))


@st.composite
def variables(draw: st.DrawFn) -> Object:
    """A template with its setting in an annotation, which the command or a script names."""
    config = draw(CONFIGS)
    value = draw(st.sampled_from((None, ""))) if config is None else json.dumps(config, separators=draw(DUMPED))
    flag = draw(st.sampled_from(([f"{FLAG}={REFERENCE}"], [FLAG, REFERENCE])))
    items = ["vllm", "serve", TARGET, *draw(PLAIN), *flag, *draw(PLAIN)]
    where = draw(st.sampled_from(("command", "args", "script")))
    one = container(items) if where == "command" else container(args=items[2:])
    if where == "script":
        named = draw(st.sampled_from((f"{FLAG}='{REFERENCE}'", f'{FLAG}="$SPECULATIVE_CONFIG"')))
        one = container(["bash", "-c", f"exec vllm serve {TARGET} {named} --port 80"])
        value = value and value.replace("'", r"\u0027")
    own = draw(ANNOTATIONS)
    annotations = {**(own or {}), **({} if value is None else {ANNOTATION: value})}
    return template({**one, "env": [{"name": "A", "value": "b"}, VARIABLE]}, EXPORTER, annotations=annotations or None)


TEMPLATES = st.one_of(lists(), scripts(), variables())
