"""Manifests in the shapes of documents and charts that people have come out ready, and go back byte for byte."""

import pytest
import yaml

from specloop_operator.binding import Place, bind
from tests.unit.inject.manifests import (
    RECORD,
    SETTING,
    SHAPES,
    Object,
    deployment,
    inject,
    objects,
    shape,
    speculating,
    template_of,
    templates,
    uninject,
)


@pytest.fixture(params=SHAPES)
def text(request: pytest.FixtureRequest) -> str:
    """Each of the shapes."""
    return shape(request.param)


def test_uninject_gives_back_what_was_there(text: str) -> None:
    """Comments, quotes, brackets, indentation and all."""
    assert uninject(inject(text).after) == text


def test_a_second_injection_changes_nothing(text: str) -> None:
    once = inject(text).after
    again = inject(once)
    assert again.after == once
    assert "unchanged" in {one.done for one in again.workloads}


def test_uninject_of_what_was_never_injected_changes_nothing(text: str) -> None:
    assert uninject(text) == text


@pytest.mark.parametrize(
    ("name", "method", "tokens", "batch"),
    [
        ("shell.yaml", "ngram", 4, 64),
        ("stack.yaml", "eagle3", 3, 1024),
        ("pod.yaml", "draft_model", 5, 1024),
        ("decode.yaml", "mtp", 2, 1024),
        ("folded.yaml", "ngram", 3, 1024),
        ("list.json", "draft_model", 5, 1024),
    ],
)
def test_the_operator_reads_the_same_setting_from_the_annotation(
    name: str, method: str, tokens: int, batch: int
) -> None:
    """With a table of one range up to --max-num-seqs, so that K can be changed at all."""
    (template,) = (one for one in templates(inject(shape(name)).after) if RECORD in _annotations(one))
    binding = bind(template)
    assert (binding.place, binding.annotation) == (Place.ANNOTATION, SETTING)
    speculation = binding.line.speculation
    assert speculation is not None
    assert (speculation.method, speculation.tokens) == (method, tokens)
    assert speculation.table == ((1, batch, tokens),)


def _annotations(template: Object) -> Object:
    return template["metadata"].get("annotations") or {}


@pytest.mark.parametrize("name", SHAPES)
def test_the_engine_keeps_its_other_arguments(name: str) -> None:
    before, after = templates(shape(name)), templates(inject(shape(name)).after)
    for old, new in zip(before, after, strict=True):
        if RECORD in _annotations(new):
            read, again = bind(old).line, bind(new).line
            assert again.others[: len(read.others)] == read.others
            assert again.target == read.target


@pytest.mark.parametrize("name", SHAPES)
def test_nothing_else_is_touched(name: str) -> None:
    """Every object but the workload, and all of the workload but its pod template, says what it said."""
    before, after = objects(shape(name)), objects(inject(shape(name)).after)
    for old, new in zip(before, after, strict=True):
        if new["kind"] in ("Deployment", "StatefulSet", "Pod") and RECORD in _annotations(template_of(new)):
            for one in (old, new):
                template_of(one)["spec"] = template_of(one)["metadata"] = None
        assert new == old


def test_comments_stay() -> None:
    for name in SHAPES:
        text, after = shape(name), inject(shape(name)).after
        comments = [line.strip() for line in text.splitlines() if line.strip().startswith("# ")]
        assert [comment for comment in comments if comment not in after] == []


def test_documents_before_and_behind_pass_as_they_are() -> None:
    text = shape("shell.yaml")
    after = inject(text).after
    assert after.startswith(text[: text.index("kind: Deployment")])
    assert after.endswith(text[text.index("  name:   mistral") :])


def test_a_json_manifest_stays_json() -> None:
    """As `kubectl get -o json` writes it."""
    assert yaml.safe_load(inject(shape("list.json")).after)["items"][0]["data"] == {
        "chat.jinja": "{{ messages }} é \U0001f600"
    }
    assert "\n- " not in inject(shape("list.json")).after


def test_line_ends_of_windows_stay() -> None:
    text = shape("stack.yaml").replace("\n", "\r\n")
    after = inject(text).after
    assert after.count("\n") == after.count("\r\n") > text.count("\n")
    assert uninject(after) == text


@pytest.mark.parametrize("name", SHAPES)
def test_a_file_without_a_last_line_end_gets_none(name: str) -> None:
    text = shape(name).rstrip("\n")
    after = inject(text).after
    assert not after.endswith("\n")
    assert uninject(after) == text


@pytest.mark.parametrize("text", [*map(shape, SHAPES), deployment(), speculating()], ids=[*SHAPES, "bare", "plain"])
def test_the_way_back_does_not_need_the_same_text(text: str) -> None:
    """A manifest that another tool has written anew, its keys sorted, goes back to the same data."""
    anew = yaml.safe_dump_all(yaml.safe_load_all(inject(text).after), width=60)
    assert objects(uninject(anew)) == objects(text)
    brackets = yaml.safe_dump_all(yaml.safe_load_all(inject(text).after), default_flow_style=True)
    assert objects(uninject(brackets)) == objects(text)


def test_what_others_have_put_beside_ours_stays() -> None:
    after = inject(speculating()).after
    theirs = {
        "        env:\n": "        env:\n        - {name: MINE, value: a}\n",
        "      volumes:\n": "      volumes:\n      - {name: mine, emptyDir: {}}\n",
        "        - --middleware": "        - --max-model-len=1024\n        - --middleware",
        "      annotations:\n": "      annotations:\n        mine: a\n",
    }
    for ours, both in theirs.items():
        assert ours in after
        after = after.replace(ours, both, 1)
    (template,) = templates(uninject(after))
    (before,) = templates(speculating())
    engine, old = template["spec"]["containers"][0], before["spec"]["containers"][0]
    assert engine.pop("env") == [{"name": "MINE", "value": "a"}]
    assert template["spec"].pop("volumes") == [{"name": "mine", "emptyDir": {}}]
    assert template["metadata"].pop("annotations") == {"mine": "a"}
    assert engine.pop("args") == [*old.pop("args"), "--max-model-len=1024"]
    assert template == before


def test_the_way_back_does_not_need_the_annotation_with_the_setting() -> None:
    """Under GitOps it is left to the operator (docs/gitops.md), and the record has the flags."""
    after = inject(speculating()).after
    line = next(line for line in after.splitlines(keepends=True) if line.strip().startswith("specloop.dev/spec"))
    assert uninject(after.replace(line, "")) == speculating()
