"""Workload files: what is taken, what is refused with its line, and what is shipped."""

import re
from pathlib import Path

import pytest

from specloop_policy.ladder import Method
from specloop_sim.file_model import Part
from specloop_sim.workload import (
    DEFAULT,
    Acceptance,
    Phase,
    Replica,
    Traffic,
    Workload,
    WorkloadError,
    load_workload,
    shipped_workloads,
    workload_named,
)

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "workload.md").read_text()
BASE = 'name: x\nphases:\n- name: a\n  kinds: {prose: 1}\n  temperatures: {"0.2": 1}\n'
TRAFFIC = "traffic: {seconds: 10, requestsPerSecond: 1, promptTokens: 1, outputTokens: 1"


def test_the_smallest_workload_has_a_name_and_one_phase() -> None:
    workload = load_workload(BASE, "x.yaml")
    assert workload.name == "x"
    assert workload.traffic is None
    assert workload.prefix_cache_percent == 0
    assert load_workload(BASE.replace('"0.2"', "0.2"), "x.yaml") == workload


def test_a_profile_is_handed_to_the_engine_model_as_written() -> None:
    given = "{conditional: {eagle: [0.7, 0.5]}, matchShare: 0.4, factor: {mtp: 0.5}, byTemperature: false}"
    profile = load_workload(f"{BASE}acceptance:\n  p: {given}\n", "x.yaml").acceptance["p"].profile("p")
    assert profile.conditional == ((Method.EAGLE, (0.7, 0.5)),)
    assert profile.factor == ((Method.MTP, 0.5),)
    assert (profile.match_share, profile.match_acceptance, profile.by_temperature) == (0.4, None, False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "x.yaml:1: this is no workload; one has name, phases"),
        ("- a\n", "x.yaml:1: this is no workload"),
        ("a: [\n", "x.yaml:2: not YAML"),
        ("name: x\n", "x.yaml:1: phases: is missing"),
        (BASE + "speed: 1\n", "x.yaml:6: speed: unknown field; fields here: name, description, source, phases"),
        (BASE + "replicas:\n- {speed: 3}\n", r"x.yaml:7: replicas\[0\].speed: unknown field; .*speedPercent"),
        (BASE + "name: y\n", "x.yaml:6: name is given twice"),
        (BASE.replace("name: x", "name: X Y"), "x.yaml:1: name: is not a name: lower-case letters"),
        (BASE.replace("prose", "poems"), r"x.yaml:4: phases\[0\].kinds.poems: must be 'structured', 'chat', 'pro"),
        (BASE.replace("0.2", "2.1"), r"x.yaml:5: phases\[0\].temperatures.2.1: a temperature is 0 to 2"),
        (BASE.replace("1}", "0}"), r"x.yaml:4: phases\[0\].kinds: all weights are 0.*and 1 more"),
        (BASE.replace('"0.2": 1', '"0.2": -1'), "x.yaml:5: .*must be greater than or equal to 0"),
        (BASE.replace('"0.2": 1', '"0.2": .nan'), "x.yaml:5: .*must be a finite number"),
        (BASE.replace('"0.2": 1', '"0.2": 1, "0.20": 1'), "x.yaml:5: .*a temperature is given twice"),
        (BASE.replace("  kinds: {prose: 1}\n", ""), r"x.yaml:3: phases\[0\]: the first phase needs kinds and temp"),
        (BASE + "  startPercent: 5\n", r"x.yaml:6: phases\[0\].startPercent: the first phase begins at 0; remove"),
        (BASE + "- name: b\n", r"x.yaml:6: phases\[1\]: a phase after the first has either startPercent or startS"),
        (BASE + "- {name: b, startPercent: 5, startSeconds: 5}\n", r"x.yaml:6: phases\[1\]: .*either startPercent"),
        (BASE + "- {name: b, startPercent: 5, rampPercent: 5, rampSeconds: 5}\n", "either rampPercent or rampSeconds"),
        (BASE + "- {name: b, startPercent: 9}\n- {name: c, startPercent: 8}\n", "x.yaml:7: .*: 8 is not after 9"),
        (BASE + "- {name: a, startPercent: 9}\n", "x.yaml:6: .*two phases are called a"),
        (BASE + "- {name: b, startPercent: 9, acceptance: p}\n", "x.yaml:6: .*no profile is called 'p'; there are"),
        (BASE + "acceptance: {p: {source: here}}\n", "x.yaml:6: acceptance.p: it changes nothing; give conditional"),
        (BASE + "acceptance: {p: {factor: {eagel: 1}}}\n", "x.yaml:6: acceptance.p.factor.eagel: must be 'draft_mo"),
        (BASE + "acceptance: {p: {conditional: {suffix: [1]}}}\n", "x.yaml:6: acceptance.p: suffix .* give matchShare"),
        (BASE + "acceptance: {p: {conditional: {eagle: [1.2]}}}\n", "must be less than or equal to 1"),
        (BASE + TRAFFIC.replace("1,", "9000,").replace("10,", "1000000,") + "}\n", "x.yaml:6: traffic: this may make"),
        (BASE + TRAFFIC + ", startTime: 2026-01-05}\n", "x.yaml:6: traffic: startTime is a date with a zone, such as"),
        ("[" * 5000, "x.yaml:1: (not YAML|nested)"),
        ("name: x\n" + "x: {y: " * 25, "x.yaml:2: (not YAML|nested more than 20 deep)"),
        ("a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
            f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n" for old, new in ("ab", "bc", "cd", "de")
        ), "more than 10,000 values, aliases written out"),
        ('name: x\n"a\\e[2J": 1\n', "unknown field; fields here: name, description"),
    ],
)  # fmt: skip
def test_everything_else_is_refused_in_one_line_with_its_place(text: str, message: str) -> None:
    with pytest.raises(WorkloadError, match=message) as caught:
        load_workload(text, "x.yaml")
    assert str(caught.value).isprintable()


def test_the_default_is_prose_at_temperature_0_2() -> None:
    (phase,) = workload_named(DEFAULT).phases
    assert {kind.value: weight for kind, weight in (phase.kinds or {}).items()} == {"prose": 100}
    assert phase.temperatures == {"0.2": 100}


@pytest.mark.parametrize("name", shipped_workloads())
def test_what_is_shipped_names_itself_its_sources_and_its_traffic(name: str) -> None:
    workload = workload_named(name)
    assert workload.name == name
    assert workload.source
    assert workload.description.endswith(".")
    assert workload.traffic is not None
    assert all(profile.source for profile in workload.acceptance.values())
    assert f"| `{name}` | {workload.description} |" in PAGE


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(WorkloadError, match="no workload is called 'stedy'; there are busy-hours, day-and-night"):
        workload_named("stedy")


def test_the_example_in_the_reference_is_a_workload() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    workload = load_workload(example, "example")
    assert [phase.name for phase in workload.phases] == ["cool", "hot"]


@pytest.mark.parametrize(
    ("part", "heading"),
    [
        (Workload, "# Workload files"),
        (Phase, "## `phases[]`"),
        (Acceptance, "## `acceptance.NAME`"),
        (Traffic, "## `traffic`"),
        (Replica, "## `replicas[]`"),
    ],
)
def test_the_reference_has_every_field_and_no_other(part: type[Part], heading: str) -> None:
    section = PAGE.split(f"{heading}\n", 1)[1].split("\n## ", 1)[0]
    listed = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert listed == [field.alias for field in part.model_fields.values()]
