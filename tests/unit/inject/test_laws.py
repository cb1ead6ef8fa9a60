"""Whatever the manifest and however it is written: what goes in comes out again, and the engine reads what it read."""

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from specloop_cli.errors import InputError
from specloop_operator.binding import Place, bind
from tests.unit.inject.manifests import SHAPES, Object, inject, objects, shape, templates, uninject
from tests.unit.operator_binding.templates import TEMPLATES, engine_words

pytestmark = pytest.mark.slow

COMMENTS = ("# ours", "#", "# - name: {a: [b", "# é: 'x'")


class Writer:
    """Writes data as YAML as people do, by turns in blocks and in brackets, with comments and blank lines."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self._step = draw(st.sampled_from((2, 2, 4)))
        self._dash = draw(st.sampled_from((0, 2, 4)))

    def lines(self, value: Any, indent: int) -> Iterator[str]:
        """A mapping or list, in a block."""
        pad = " " * indent
        for key, inner in value.items() if isinstance(value, dict) else ((None, one) for one in value):
            if self._draw(st.integers(0, 7)) == 0:
                yield self._draw(st.sampled_from(("", pad + "# above", "  # anywhere", pad + "    # deeper")))
            head = f"{pad}-" if key is None else f"{pad}{self._key(key)}:"
            yield from self._member(head, inner, indent, in_list=key is None)

    def _member(self, head: str, value: Any, indent: int, *, in_list: bool) -> Iterator[str]:
        block = isinstance(value, dict | list) and value and self._draw(st.integers(0, 5)) > 0
        if not block:
            yield f"{head} {self._inline(value)}{self._comment()}"
        elif in_list:
            first, *rest = self.lines(value, indent + 2)
            yield from (
                (head + first[indent + 1 :], *rest) if first.strip() and "#" not in first else (head, first, *rest)
            )
        else:
            yield f"{head}{self._comment()}"
            yield from self.lines(value, indent + (self._dash if isinstance(value, list) else self._step))

    def _comment(self) -> str:
        return f"  {self._draw(st.sampled_from(COMMENTS))}" if self._draw(st.integers(0, 9)) == 0 else ""

    def _key(self, key: str) -> str:
        return key if re.fullmatch(r"[A-Za-z]\w*", key) and key not in ("on", "no", "yes", "off") else json.dumps(key)

    def _inline(self, value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{json.dumps(key)}: {self._inline(one)}" for key, one in value.items()) + "}"
        if isinstance(value, list):
            blank = self._draw(st.sampled_from(("", " ", "\n            ")))
            return "[" + blank + ", ".join(map(self._inline, value)) + blank + "]"
        if isinstance(value, str) and "\n" not in value and "'" in value and self._draw(st.booleans()):
            return "'" + value.replace("'", "''") + "'"
        return json.dumps(value, ensure_ascii=False)


@st.composite
def texts(draw: st.DrawFn) -> tuple[Object, str]:
    """A pod template, and a Deployment with it as text."""
    template = draw(TEMPLATES)
    spec = template["spec"]
    if draw(st.booleans()):
        spec["volumes"] = draw(st.sampled_from(([], [{"name": "shm", "emptyDir": {}}], None)))
    if draw(st.booleans()):
        spec["initContainers"] = [{"name": "first", "image": "busybox", "args": ["a"]}]
    for one in spec["containers"]:
        if one["name"] == "vllm" and draw(st.booleans()):
            one["env"] = [*(one.get("env") or ()), {"name": "PYTHONPATH", "value": "/opt/a"}]
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "llama"},
        "spec": {"template": template},
    }
    newline = draw(st.sampled_from(("\n", "\n", "\r\n")))
    text = newline.join(line for part in Writer(draw).lines(body, 0) for line in part.split("\n"))
    text += draw(
        st.sampled_from(("", newline, f"{newline}# end{newline}", f"{newline}---{newline}kind: Service{newline}"))
    )
    assume(yaml.safe_load(text.partition(f"{newline}---")[0]) == body)
    return template, text


SLOW = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


@SLOW
@given(texts(), st.booleans(), st.booleans())
def test_injection_is_undone_exactly_and_done_once(both: tuple[Object, str], live: bool, annotation: bool) -> None:
    _, text = both
    after = _injected(text, live=live, annotation=annotation)
    if after is None:
        return
    assert uninject(after) == text
    assert inject(after).after == after


@SLOW
@given(texts(), st.booleans(), st.booleans())
def test_the_engine_gets_what_it_got_and_ours_besides(both: tuple[Object, str], live: bool, annotation: bool) -> None:
    """By Kubernetes' expansion of variables, and bash itself where there is a script."""
    template, text = both
    after = _injected(text, live=live, annotation=annotation)
    if after is None:
        return
    (new,) = templates(after)
    old, read = bind(template), bind(new)
    assert read.line.others[: len(old.line.others)] == old.line.others
    before, now = old.line.speculation, read.line.speculation
    assert (before is None) == (now is None)
    if before is not None and now is not None:
        assert (now.method, now.model, now.tokens, now.others) == (
            before.method,
            before.model,
            before.tokens,
            before.others,
        )
        assert (read.place is Place.ANNOTATION) == (annotation or old.place is Place.ANNOTATION)
        scheduled = any(word.startswith("--scheduler-cls=specloop_vllm.Live") for word in read.line.others)
        assert not scheduled or now.table
    words = engine_words(new)
    assert "--middleware=specloop_vllm.Middleware" in words
    for word in read.line.others:
        assert word in words


REASONS = (
    "--speculative-config takes vLLM 0.8.2 and later",
    "an annotation cannot",  # a `$(` in a setting, which Kubernetes would take up
    "has no value",
)


def _injected(text: str, *, live: bool, annotation: bool) -> str | None:
    """The text injected; None where there is a reason not to."""
    try:
        return inject(text, live=live, annotation=annotation).after
    except InputError as error:
        if not any(reason in str(error) for reason in REASONS):
            raise
        return None


WEIRD: st.SearchStrategy[Any] = st.sampled_from(
    (None, 5, True, "", "x", "$(A)", [], {}, [None], ["x"], [{"name": "vllm"}], {"name": 5}, [[]])
)


@st.composite
def broken(draw: st.DrawFn) -> str:
    """A manifest in which some values are of another kind than they should be."""
    text = draw(st.sampled_from(SHAPES).map(shape))
    documents = objects(text)
    for _ in range(draw(st.integers(1, 3))):
        parent: Any = documents
        while True:
            key = draw(st.sampled_from(sorted(parent) if isinstance(parent, dict) else range(len(parent))))
            if not isinstance(parent[key], dict | list) or not parent[key] or draw(st.integers(0, 6)) == 0:
                break
            parent = parent[key]
        parent[key] = copy.deepcopy(draw(WEIRD))
    return yaml.safe_dump_all(documents, sort_keys=False)


@SLOW
@given(broken())
def test_nothing_ends_in_a_stack_trace(text: str) -> None:
    """What is not refused goes back as ever."""
    try:
        after = inject(text).after
    except InputError:
        return
    assert uninject(after) == text
