"""What a policy's author can make of the target's command: another speculative setting, and no other word of it.

Kubernetes' expansion is that of the tests' own kubelet, and scripts are run by the real bash.
"""

import json

import pytest

from specloop_operator.binding import bind
from specloop_policy.ladder import Drafter, Level, Method
from tests.support.threats import HOSTILE
from tests.unit.operator_binding.templates import (
    FLAG,
    REFERENCE,
    TARGET,
    VARIABLE,
    Object,
    annotated,
    applied,
    container,
    engine_words,
    template,
)

SECRET = "hf_s3cret"
TOKEN: Object = {"name": "HF_TOKEN", "value": SECRET}
"""A variable of the container, which the policy's author is not meant to see."""

MODELS = {
    "ends single quotes": "x'; vllm owned; '",
    "ends double quotes": 'x"; vllm owned; "',
    "a command": "$(vllm owned)",
    "a command in back quotes": "`vllm owned`",
    "a variable of the shell": "$HF_TOKEN",
    "the same in braces": "${HF_TOKEN}",
    "a variable of Kubernetes": "$(HF_TOKEN)",
    "the same behind a dollar": "$$(HF_TOKEN)",
    "the same behind two": "$$$(HF_TOKEN)",
    "another line": "x\nvllm owned",
    "another flag": "x --trust-remote-code",
    "a flag": "--trust-remote-code",
    "another command": "x && vllm owned",
    "a backslash at the end": "x\\",
    "what steers a terminal": HOSTILE.replace("\0", ""),
}
RUNS = json.dumps({"method": "draft_model", "model": "small", "num_speculative_tokens": 5})


def in_script(words: str) -> Object:
    """A script that starts vLLM with these words."""
    return template(container(command=["sh", "-c", f"vllm serve {TARGET} {words} --seed 1"], env=[VARIABLE, TOKEN]))


BODIES = {
    "a list": template(container(args=[TARGET, FLAG, RUNS, "--seed", "1"], env=[TOKEN])),
    "a script": in_script(f"{FLAG} '{RUNS}'"),
    "an annotation": annotated(RUNS, "--seed", "1"),
    "an annotation in a script": in_script(f"{FLAG} '{REFERENCE}'") | {"metadata": annotated(RUNS)["metadata"]},
}


def setting_and_rest(body: Object) -> tuple[str, list[str]]:
    """What the engine gets as its setting, and all its other words."""
    words = engine_words(body)
    place = next(at for at, word in enumerate(words) if word.startswith(FLAG))
    name, joint, value = words[place].partition("=")
    assert name == FLAG
    return (
        (value, words[:place] + words[place + 1 :]) if joint else (words[place + 1], words[:place] + words[place + 2 :])
    )


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_a_models_name_stays_text_inside_the_setting(body: Object, model: str) -> None:
    """The engine gets this very name, and its other words as they were."""
    level = Level("evil", Drafter("evil", Method.DRAFT_MODEL, model), 3)
    before, others = setting_and_rest(body)
    setting, rest = setting_and_rest(applied(body, bind(body).patch(level)))
    assert before == RUNS
    assert rest == others
    assert json.loads(setting)["model"] == model
    assert SECRET not in setting


def test_a_name_that_was_not_quoted_would_show() -> None:
    """The same three steps, with the names put in as they are: so that the test above can fail."""
    careless = RUNS.replace("small", MODELS["a variable of Kubernetes"])
    assert SECRET in setting_and_rest(template(container(args=[TARGET, FLAG, careless], env=[TOKEN])))[0]
    careless = RUNS.replace("small", MODELS["ends single quotes"])
    assert engine_words(in_script(f"{FLAG} '{careless}'"))[-2:] != ["--seed", "1"]
