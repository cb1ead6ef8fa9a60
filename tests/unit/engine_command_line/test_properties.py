"""Whatever command comes in: what is written reads as the level, and all else is as it was."""

import json
import shlex
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from specloop_engine.command_line import CommandLine, read, write
from specloop_engine.speculation import fits
from specloop_engine.words import CommandLineError
from specloop_policy.ladder import Level
from tests.unit.engine_command_line.bash import bash_words
from tests.unit.engine_command_line.levels import DRAFT_NAME, LADDER

JSON = "--speculative-config"
LEVELS = st.sampled_from(LADDER.levels)
VALUES = st.none() | st.booleans() | st.integers(0, 99) | st.text(max_size=5) | st.lists(st.integers(0, 9), max_size=2)
OTHER_KEYS = st.dictionaries(st.sampled_from(("quantization", "revision", "max_model_len", "x")), VALUES, max_size=3)
CONFIGS = st.one_of(
    st.builds(
        lambda tokens, others: (
            {"method": "draft_model", "model": DRAFT_NAME, "num_speculative_tokens": tokens} | others
        ),
        st.integers(1, 9),
        OTHER_KEYS,
    ),
    st.builds(
        lambda tokens, high: {"method": "ngram", "num_speculative_tokens": tokens, "prompt_lookup_max": high},
        st.integers(1, 9),
        st.integers(1, 9),
    ),
)
SEPARATORS = st.sampled_from(((",", ":"), (", ", ": "), (" , ", " : ")))
PLAIN = st.lists(st.sampled_from(("--port", "80", "--seed=1", "--api-key", "it's $x", "--trust-remote-code", '"', "é")))


def dumped(config: dict[str, Any], separators: tuple[str, str], indent: int | None) -> str:
    return json.dumps(config, separators=separators, indent=indent)


TEXTS = st.builds(dumped, CONFIGS, SEPARATORS, st.sampled_from((None, None, 2)))


@st.composite
def flags(draw: st.DrawFn) -> list[str]:
    """A setting in one of vLLM's forms."""
    form = draw(st.sampled_from(("two", "one", "blank", "dotted")))
    if form == "dotted":
        config = draw(CONFIGS)
        texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in config.items()}
        known = {key: text for key, text in texts.items() if not text.startswith("-")}
        return [f"{JSON}.{key}={text}" for key, text in known.items()]
    text = draw(TEXTS)
    return [JSON, text] if form == "two" else [f"{JSON}{'=' if form == 'one' else ' '}{text}"]


def others(line: CommandLine) -> list[str]:
    taken = {place for flag in line.setting.flags for place in flag.places}
    return [word.value for place, word in enumerate(line.source.words) if place not in taken]


@given(PLAIN, flags(), PLAIN, LEVELS, st.integers(0, 20))
def test_a_list_keeps_all_but_the_setting(
    before: list[str], setting: list[str], after: list[str], level: Level, cut: int
) -> None:
    items = ["vllm", "serve", "m", *before, *setting, *after]
    try:
        line = read(items[:cut], items[cut:])
    except CommandLineError:
        return
    written = write(line, level)
    again = read(written.command, written.args)
    assert fits(again.speculation, level)
    assert others(again) == others(line)
    kept = [item for item in items if not item.startswith("--speculative") and not item.startswith("{")]
    left = [*written.command, *written.args]
    assert [item for item in left if not item.startswith("--speculative") and not item.startswith("{")] == kept
    back = write(read(written.command, written.args), level)
    assert (back.command, back.args) == (written.command, written.args)


def double_quoted(text: str) -> str:
    return '"' + "".join("\\" + char if char in '\\"$`' else char for char in text) + '"'


QUOTING = st.sampled_from((shlex.quote, double_quoted))


@given(
    PLAIN, flags(), PLAIN, LEVELS, QUOTING, st.sampled_from(("", "exec ", "A=1 ", "cd / && ", "true; ")), st.booleans()
)
@settings(max_examples=60, deadline=None)
def test_a_script_reads_the_same_to_bash_but_for_the_setting(
    before: list[str], setting: list[str], after: list[str], level: Level, quoting: Any, first: str, lines: bool
) -> None:
    words = [*map(quoting, before), *map(quoting, setting), *map(shlex.quote, after)]
    text = f"{first}vllm serve m" + "".join((" \\\n  " if lines else " ") + word for word in words)
    try:
        line = read(["sh", "-c"], [text])
    except CommandLineError:
        return
    written = write(line, level)
    (edited,) = written.args
    seen, seen_before = (bash_words(script.removeprefix("exec ")) for script in (edited, text))
    assert seen is not None
    assert seen_before is not None
    again = read(["vllm", *seen])
    assert fits(again.speculation, level)
    assert others(again) == others(read(["vllm", *seen_before]))
    assert all(word in edited for word in (*map(quoting, before), *map(shlex.quote, after)))


ANYTHING = st.lists(
    st.sampled_from(
        (JSON, "-sc", f"{JSON}.model", "--spec-tokens", "vllm", "serve", "sh", "-c", "llama-server", "-md", "=")
    )
    | st.text(st.sampled_from("-=. '\"\\$(){}[]:,01ab\n;|&#`\0\ud800"), max_size=8)
    | TEXTS,
    max_size=7,
)


@given(ANYTHING, ANYTHING, st.none() | st.dictionaries(st.sampled_from(("A", "SPEC")), st.text(max_size=3)), LEVELS)
@settings(max_examples=200)
def test_anything_is_read_or_refused(
    command: list[str], args: list[str], environment: dict[str, str] | None, level: Level
) -> None:
    try:
        line = read(command, args, environment=environment)
        written = write(line, level)
    except CommandLineError:
        return
    known = environment if environment is None else environment | dict(written.variables)
    again = read(written.command, written.args, engine=line.engine, environment=known)
    assert fits(again.speculation, level)
