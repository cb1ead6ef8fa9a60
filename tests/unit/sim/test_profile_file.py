"""Profiles of one's own: the same figures as written, or one line that says what to mend."""

import re
from pathlib import Path

import numpy as np
import pytest

from specloop_policy.ladder import DISABLED, Method
from specloop_sim.profile import UnknownProfile
from specloop_sim.profile_file import load_profile
from tests.unit.sim.levels import EAGLE_K3, NGRAM

DOCUMENT = Path("docs/reference/profile.md").read_text(encoding="utf-8")
EXAMPLE = re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL)[0]
LINES = """
name: own
kvGigabytes: 10
kvBytesPerToken: 1000
startupSeconds: 5
lines:
  target: {perContextToken: 1.0e-8, perToken: 2.0e-5, constant: 0.01}
  overheadSeconds: 0.001
  lookupShare: 0.01
"""


def test_the_documented_example_reads_as_it_says() -> None:
    profile = load_profile(EXAMPLE, "p.yaml")
    assert (profile.name, profile.startup_seconds, profile.max_num_seqs) == ("a100-llama-3.1-8b", 90.0, 64)
    assert profile.methods() == (Method.EAGLE,)
    rows = np.array([[0.0], [32.5], [4 * 32.5], [0.0]])  # half way between the two batches
    assert profile.timer(EAGLE_K3).seconds(rows)[0] == pytest.approx((0.0155 + 0.0231) / 2)
    assert profile.kv_tokens(DISABLED) == int(50e9 / 131072)
    assert profile.kv_tokens(EAGLE_K3) == int((50e9 - 0.5e9) / (131072 + 4096))


def test_lines_give_step_times_by_their_formula() -> None:
    profile = load_profile(LINES, "p.yaml")
    rows = np.array([[3000.0], [8.0], [40.0], [0.0]])
    verify = 3000 * 1e-8 + 40 * 2e-5 + 0.01
    assert profile.timer(NGRAM).seconds(rows)[0] == pytest.approx(verify * 1.01 + 0.001)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- 1", "p.yaml:1: this is no profile; one has name, kvGigabytes, kvBytesPerToken, startupSeconds"),
        (LINES.replace("own", "own\nspeed: 3"), "p.yaml:3: speed: unknown field; fields here: name, model"),
        (LINES.replace("perToken: 2", "perTokens: 2"), "lines.target.perTokens: unknown field; fields here: perCon"),
        (LINES.replace("startupSeconds: 5", ""), "startupSeconds: is missing; add it"),
        (LINES.replace("10", "-10"), "kvGigabytes: must be greater than 0"),
        (LINES.partition("lines")[0], "step times are either lines or measured; give one of them"),
        (EXAMPLE + LINES.partition("5\n")[2], "step times are either lines or measured"),
        (EXAMPLE.replace("maxNumSeqs: 64", ""), "measured up to 64 requests at once, and max_num_seqs is 256"),
        (EXAMPLE.replace("batch: 64", "batch: 1"), "batch 1 with K = 0 is given twice"),
        (EXAMPLE.replace("tokens: 0", "tokens: 1"), "there is no plain step; measure some with tokens: 0"),
        (EXAMPLE.replace("method: eagle", "method: mtp"), "drafters: mtp has step times and no memory; add it here"),
        (LINES + "  drafts: {ngram: {perToken: 1, constant: 1}}\n", "lines.drafts.ngram: ngram drafts by looking up"),
        ("name: [", "p.yaml:1: not YAML"),
    ],
)
def test_everything_else_is_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(UnknownProfile, match=re.escape(message)) as caught:
        load_profile(text, "p.yaml")
    assert "\n" not in str(caught.value)
