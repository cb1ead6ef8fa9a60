"""The dashboard can be read without its author."""

import pytest

from tests.unit.monitoring.shipped import dashboard, panels

PANELS = {panel["title"]: panel for panel in panels()}
COLUMNS = 24
"""Of Grafana's grid."""


@pytest.mark.parametrize("title", PANELS)
def test_a_panel_says_what_it_shows_and_in_which_unit(title: str) -> None:
    panel = PANELS[title]
    assert title
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert all(target["legendFormat"] for target in panel["targets"])


def test_no_two_panels_have_one_title_or_number() -> None:
    assert len(PANELS) == len(panels())
    numbers = [one["id"] for one in dashboard()["panels"]]
    assert len(numbers) == len(set(numbers))


def test_panels_do_not_lie_on_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for one in dashboard()["panels"]:
        place = one["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= COLUMNS
        assert not cells & taken, one["title"]
        taken |= cells


def test_whoever_imports_it_chooses_the_data_source() -> None:
    variables = {one["name"]: one for one in dashboard()["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    assert {"namespace", "policy", "model"} <= variables.keys()
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    assert all(panel["datasource"] == chosen for panel in panels())
    assert all(target["datasource"] == chosen for panel in panels() for target in panel["targets"])
    asking = [one for one in dashboard()["annotations"]["list"] if "expr" in one]
    assert [one["datasource"] for one in asking] == [chosen, chosen]


def test_it_is_of_a_version_that_grafana_11_and_later_can_read() -> None:
    """Grafana 11 brought schema 39; later ones move it on when they load it."""
    assert dashboard()["schemaVersion"] == 39
    assert dashboard()["uid"] == "specloop"
    assert "id" not in dashboard()


@pytest.mark.parametrize(
    ("title", "kind"),
    [
        ("Acceptance", "timeseries"),
        ("Acceptance by position", "timeseries"),
        ("Acceptance length", "timeseries"),
        ("K by pod", "timeseries"),
        ("Level that runs", "state-timeline"),
        ("Gain against disabled, at most", "timeseries"),
        ("Temperatures", "heatmap"),
        ("Requests running", "timeseries"),
        ("Requests waiting", "timeseries"),
        ("KV cache in use", "timeseries"),
        ("Time to first token", "timeseries"),
        ("Time per output token", "timeseries"),
        ("Roll-outs under way", "timeseries"),
        ("Conditions of policies", "state-timeline"),
    ],
)
def test_what_decides_is_there(title: str, kind: str) -> None:
    assert PANELS[title]["type"] == kind


def test_decisions_and_levels_are_marked_on_every_panel() -> None:
    marks = {one["name"]: one["expr"] for one in dashboard()["annotations"]["list"] if "expr" in one}
    assert "specloop_decisions_total" in marks["Decisions"]
    assert "specloop_level_info" in marks["Levels"]
