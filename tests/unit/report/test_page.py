"""The page: whole in itself, safe against any name, and without sections that have nothing to show."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from specloop_sim.report.model import Kind, Point, Report, Run
from specloop_sim.report.page import digest, render
from tests.support.reports import HOSTILE, LADDER, event, replayed, run, simulated, swept

EVERY_KIND = pytest.mark.parametrize("report", [simulated(), replayed(), swept()], ids=lambda one: str(one.kind))
SVG = "http://www.w3.org/2000/svg"


class Elements(HTMLParser):
    """Start tags of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


def pictures(page: str) -> list[str]:
    return re.findall(r"<svg\b.*?</svg>", page, flags=re.DOTALL)


@EVERY_KIND
def test_the_same_report_has_the_same_bytes(report: Report) -> None:
    assert render(report) == render(report)


@EVERY_KIND
def test_nothing_on_the_page_comes_from_elsewhere(report: Report) -> None:
    page = render(report)
    assert set(re.findall(r"https?://[^\s\"'<]*", page)) <= {SVG}
    assert not re.search(r"@import|url\(", page)
    assert not {"link", "img", "iframe", "object", "embed", "base", "form"} & {tag for tag, _ in Elements(page).found}


@EVERY_KIND
def test_every_picture_is_valid_xml(report: Report) -> None:
    found = pictures(render(report))
    assert found
    for picture in found:
        ET.fromstring(picture)


@EVERY_KIND
def test_every_chart_is_an_image_with_words_and_every_other_picture_is_hidden_or_a_group(report: Report) -> None:
    for attributes in Elements(render(report)).named("svg"):
        assert attributes.get("aria-hidden") == "true" or (
            attributes["role"] in ("img", "group") and attributes["aria-label"]
        )


@EVERY_KIND
def test_no_name_is_given_twice_and_every_link_leads_somewhere(report: Report) -> None:
    elements = Elements(render(report))
    names = [attributes["id"] for _, attributes in elements.found if "id" in attributes]
    assert len(names) == len(set(names))
    assert {(one["href"] or "").removeprefix("#") for one in elements.named("a")} <= set(names)


def test_the_policy_of_the_page_allows_its_own_style_and_script_alone() -> None:
    page = render(simulated())
    policy = next(one["content"] for one in Elements(page).named("meta") if "http-equiv" in one)
    (style,), (script,) = (re.findall(rf"<{tag}>(.*?)</{tag}>", page, flags=re.DOTALL) for tag in ("style", "script"))
    assert policy == (
        f"default-src 'none'; style-src '{digest(style)}'; script-src '{digest(script)}'; base-uri 'none'; "
        "form-action 'none'"
    )
    assert not [key for _, attributes in Elements(page).found for key in attributes if key.startswith("on")]


@pytest.mark.parametrize("make", [simulated, replayed, swept])
def test_a_hostile_name_stays_text(make: "type[object]") -> None:
    report = make(HOSTILE)  # type: ignore[call-arg]
    assert isinstance(report, Report)
    page = render(report)
    elements = Elements(page)
    assert [len(elements.named(tag)) for tag in ("script", "img")] == [1, 0]
    assert HOSTILE.removesuffix("\x00") in elements.words
    assert "\x00" not in page
    for picture in pictures(page):
        ET.fromstring(picture)


def test_a_decision_tells_its_sentence_and_whether_it_was_carried_out() -> None:
    words = Elements(render(replayed())).words
    assert "acceptance 32 % is below the limit of 40 %" in words
    assert "2024-05-13 08:40:00 UTC" in words
    assert "recommended, not carried out" in words
    assert "recommended, not carried out" not in Elements(render(simulated())).words


def test_a_replay_has_no_contestants_and_a_simulation_no_candidates() -> None:
    assert 'id="contest"' not in render(replayed())
    assert 'id="contest"' in render(simulated())
    assert 'id="sweep"' not in render(simulated())
    assert 'id="sweep"' in render(swept())


def test_a_series_in_which_nothing_is_known_has_no_chart() -> None:
    blank = (Point(0.0, None), Point(60.0, None))
    bare = replace(run(), acceptance=blank, temperature=(), load=())
    words = Elements(render(replace(simulated(), runs=(bare,)))).words
    assert "Acceptance rate" not in words
    assert "Hot requests" not in words
    assert "Level and K" in words


def test_a_report_of_nothing_is_still_a_page() -> None:
    words = Elements(render(Report(Kind.SIMULATE, "Nothing", 0.0, runs=(Run("calm", LADDER),)))).words
    assert "calm would not have changed the level in 0 s." in words
    assert "Nothing led to a change of level." in words


def test_many_decisions_are_folded_up_and_the_rest_is_counted() -> None:
    events = tuple(event(3.0 * place) for place in range(1100))
    page = render(Report(Kind.REPLAY, "Restless", 3600.0, runs=(run("restless", events),)))
    assert "980 more decisions" in page  # a thousand are listed, twenty of them in the open
    assert "100 later decisions are not listed here" in page
    assert len(page.encode()) < 1e6


def test_a_very_long_run_makes_a_page_below_a_megabyte() -> None:
    """50,000 points in each of three series; what is drawn does not grow with them."""
    points = tuple(Point(float(place), place % 97 / 97, place % 89 / 97, 1.0) for place in range(50_000))
    long = replace(run(), acceptance=points, temperature=points, load=points)
    assert len(render(Report(Kind.REPLAY, "Long", 50_000.0, runs=(long,))).encode()) < 500_000


def test_the_table_starts_with_the_figure_that_decides_and_leaves_out_columns_of_noughts() -> None:
    report = simulated()
    more = [
        replace(one, figures={**one.figures, "refusedRequests": 0.0, "retriedRequests": 3.0, "cacheHits": 7.0})
        for one in report.contenders
    ]
    page = render(replace(report, contenders=tuple(more)))
    headings = re.findall(r'<th scope="col">(.*?)</th>', page)
    assert headings == ["contestant", "mean request, s", "against", "changes", "restarts", "sent again", "cache hits"]


def test_the_table_compares_with_the_best_level() -> None:
    """2.0 against 2.5 is −20 %, 4.0 against 2.5 is +60 %."""
    cells = re.findall(r"<td>(.*?)</td>", render(simulated()))
    assert cells[:2] == ["2", "−20 %"]
    assert "+60 %" in cells
