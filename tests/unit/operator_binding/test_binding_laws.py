"""Whatever template comes in: what is written reads as the level, and all else is as it was."""

import copy
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from specloop_engine.command_line import read
from specloop_operator.binding import Binding, Place, bind, rest_of
from specloop_policy.engine import Engine
from specloop_policy.ladder import DISABLED
from tests.unit.engine_command_line.levels import K3, K5, LADDER, NGRAM
from tests.unit.operator_binding.templates import (
    ANNOTATION,
    FLAG,
    TEMPLATES,
    Object,
    annotated,
    applied,
    container,
    drafts,
    engine_words,
    scripts,
    template,
)

EMPTIED = template(container(["vllm", "serve", "m"], [FLAG, drafts(5)]))
"""Off takes away all that `args` holds."""


def other_words(whole: Object) -> list[str]:
    """The engine's arguments that are no part of the setting."""
    return read(["vllm", "serve", *_arguments(engine_words(whole))], engine=Engine.VLLM).others


def _arguments(words: list[str]) -> list[str]:
    return words[2:] if words[:2] == ["vllm", "serve"] else words[1:] if words[:1] == ["serve"] else words


def untouched(whole: Object, binding: Binding) -> Any:
    """All of a template but the annotation, or the lists, that hold the setting."""
    rest = copy.deepcopy(whole)
    if binding.place is Place.ANNOTATION:
        rest["metadata"].get("annotations", {}).pop(ANNOTATION, None)
        rest["metadata"]["annotations"] = rest["metadata"].get("annotations", {})
    for one in rest["spec"]["containers"] if binding.place is Place.ARGS else ():
        if one["name"] == binding.container:
            one.pop("command", None), one.pop("args", None)
    return rest


@given(TEMPLATES)
@settings(deadline=None, max_examples=50)
@example(EMPTIED)
@example(annotated())
def test_every_level_is_written_so_that_it_is_read_again_and_nothing_else_is_touched(whole: Object) -> None:
    """Whoever looks sees the level, the same configuration key, and the same template round it."""
    binding = bind(whole)
    for level in LADDER.levels:
        made = applied(whole, binding.patch(level))
        again = bind(made)
        assert again.level(LADDER) == level
        assert again.key(level) == binding.key(level)
        assert again.setting == binding.setting_at(level)
        assert rest_of(made, again) == rest_of(whole, binding)
        assert untouched(made, again) == untouched(whole, binding)
        assert other_words(made) == other_words(whole)


@given(TEMPLATES)
@settings(deadline=None)
@example(EMPTIED)
@example(annotated())
@example(annotated(""))
def test_what_was_there_is_put_back_word_for_word(whole: Object) -> None:
    """Otherwise the old pods, which are of the old template, would be replaced as well."""
    old = bind(whole)
    for level in LADDER.levels:
        made = applied(whole, old.patch(level))
        assert applied(made, bind(made).restored(old), given_up=old.patch(level)) == whole


@given(TEMPLATES)
@settings(deadline=None)
def test_from_one_written_level_every_other_is_reached(whole: Object) -> None:
    """A workload goes down its ladder and up again, each time from what was written last."""
    made = whole
    for level in (K3, NGRAM, DISABLED, K5, K3):
        made = applied(made, bind(made).patch(level))
        assert bind(made).level(LADDER) == level
        assert rest_of(made, bind(made)) == rest_of(whole, bind(whole))


@given(scripts(), st.sampled_from(("export X=1; ", "export X=2; ")))
@settings(deadline=None, max_examples=50)
def test_a_change_beside_the_setting_is_noticed_also_in_a_script(whole: Object, first: str) -> None:
    """Putting the old script back would undo what somebody changed in it meanwhile."""
    changed = copy.deepcopy(whole)
    command = changed["spec"]["containers"][1]["command"]
    command[2] = first + command[2]
    assert rest_of(changed, bind(changed)) != rest_of(whole, bind(whole))
