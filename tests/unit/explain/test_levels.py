"""Which level pages are about: asked for, shown by the page, or asked back."""

from typing import Any

import pytest

from tests.support.pages import idle, off
from tests.support.policies import DRAFTERS
from tests.unit.explain.calls import DECLARED, Explain, decision


def pages(positions: int) -> tuple[Any, Any]:
    """Two pages with this many draft positions and steady traffic."""
    start = idle(positions)
    return start, start.after((0.3,) * positions, drafts=9000, requests=240)


@pytest.mark.parametrize(
    ("positions", "level", "below"),
    [
        (10, "k8", "k5"),  # cut to 8
        (8, "k8", "k5"),
        (6, "k6", "k5"),
        (5, "k5", "k3"),
        (4, "k4", "k3"),
        (3, "k3", "ngram"),
        (2, "k2", "ngram"),
        (1, "k1", "ngram"),
    ],
)
def test_without_levels_the_ladder_begins_with_what_runs(
    explain: Explain, positions: int, level: str, below: str
) -> None:
    answer = explain(*pages(positions))
    assert decision(answer)[1] == level
    assert decision(answer, "ifItLasts") == ("StepDown", below, "acceptance-low")


@pytest.mark.parametrize(("positions", "level"), [(5, "k5"), (3, "k3"), (4, "ngram")])
def test_the_one_level_with_the_k_of_the_page_is_taken(explain: Explain, positions: int, level: str) -> None:
    assert decision(explain(*pages(positions), policy=DECLARED))[1] == level


def test_pages_without_the_series_are_at_disabled(explain: Explain) -> None:
    assert decision(explain(off(), off().after(requests=240), policy=DECLARED))[1] == "disabled"


def test_a_level_that_is_asked_for_wins_over_what_the_page_shows(explain: Explain) -> None:
    """A live K below the number of positions."""
    assert decision(explain(*pages(5), "--level", "k3", policy=DECLARED))[1] == "k3"


def test_two_levels_with_the_k_of_the_page_are_asked_about(explain: Explain) -> None:
    levels = [
        {"name": "small", "drafter": "small", "tokens": 4},
        {"name": "lookup", "drafter": "lookup", "tokens": 4},
        {"name": "disabled"},
    ]
    policy = {"drafters": DRAFTERS, "levels": levels}
    assert explain.refusal(*explain.arguments({"": pages(4)}, policy)) == (
        "the pages show K = 4, which several levels fit: say --level (levels: small, lookup, disabled)"
    )
    assert decision(explain(*pages(4), "--level", "lookup", policy=policy))[1] == "lookup"


def test_no_level_with_the_k_of_the_page_is_asked_about(explain: Explain) -> None:
    assert explain.refusal(*explain.arguments({"": pages(2)}, DECLARED)) == (
        "the pages show K = 2, which no level fits: say --level (levels: k5, k3, ngram, disabled)"
    )


def test_a_level_that_does_not_exist_is_refused_with_those_that_do(explain: Explain) -> None:
    refusal = explain.refusal(*explain.arguments({"": pages(5)}, None), "--level", "k7")
    assert refusal == "--level k7: no level of the ladder is called that; levels: k5, k3, ngram, disabled"


@pytest.mark.parametrize("level", ["", "k", "k0", "k-1", "k99999", "K5", "running", "5"])
def test_odd_names_are_no_levels(explain: Explain, level: str) -> None:
    assert "no level of the ladder is called that" in explain.refusal(
        *explain.arguments({"": pages(5)}, None), "--level", level
    )


def test_what_cannot_be_decided_on_needs_no_level(explain: Explain) -> None:
    """A restart between the pages: K = 2 fits no level, and nothing depends on it."""
    before, after = pages(2)
    answer = explain(after, before, policy=DECLARED)
    assert decision(answer) == ("Hold", None, None)
    assert answer["now"]["reason"].startswith("Reset: ")


class TestPods:
    def test_pods_are_pooled_and_shown_one_by_one(self, explain: Explain) -> None:
        """18000 drafts together; .3 of each pod's 45000 draft tokens."""
        answer = explain.pods({"pod-a": pages(5), "pod-b": pages(5)})
        assert [(pod["pod"], pod["outcome"], pod["drafts"]) for pod in answer["pods"]] == [
            ("pod-a", "Measured", 9000),
            ("pod-b", "Measured", 9000),
        ]
        assert (answer["window"]["drafts"], answer["window"]["finishedRequests"]) == (18000, 480)
        assert answer["window"]["elapsedSeconds"] == 300

    def test_a_pod_that_restarted_is_left_out(self, explain: Explain) -> None:
        before, after = pages(5)
        answer = explain.pods({"pod-a": (before, after), "pod-b": (after, before)})
        assert [pod["outcome"] for pod in answer["pods"]] == ["Measured", "Reset"]
        assert (answer["window"]["outcome"], answer["window"]["drafts"]) == ("Measured", 9000)

    def test_pods_are_thin_together(self, explain: Explain) -> None:
        start = idle(5)
        few = start, start.after((0.3,) * 5, drafts=900, requests=29)
        answer = explain.pods({"pod-a": few, "pod-b": few})
        assert [pod["outcome"] for pod in answer["pods"]] == ["Thin", "Thin"]
        assert "58 finished requests so far, 60 are needed" in answer["now"]["reason"]

    def test_thin_pods_may_do_together(self, explain: Explain) -> None:
        start = idle(5)
        few = start, start.after((0.3,) * 5, drafts=900, requests=30)
        answer = explain.pods({"pod-a": few, "pod-b": few})
        assert [pod["outcome"] for pod in answer["pods"]] == ["Measured", "Measured"]
        assert answer["window"]["outcome"] == "Measured"

    def test_pods_with_different_k_are_asked_about(self, explain: Explain) -> None:
        refusal = explain.refusal(*explain.arguments({"pod-a": pages(5), "pod-b": pages(3)}, DECLARED))
        assert refusal.startswith("the pages show different K on different pods: say --level")

    def test_the_text_has_a_row_a_pod_and_why_one_does_not_count(self, explain: Explain) -> None:
        before, after = pages(5)
        arguments = explain.arguments({"pod-a": (before, after), "pod-b": (after, before)}, None)
        code, out, _ = explain.run(*arguments)
        lines = [line.rstrip() for line in out.splitlines()]
        assert code == 0
        assert "window       Measured, 300 s of 2 pods" in lines
        assert "pod-a  Measured  240       30 %        –" in lines
        assert "pod-b  Reset     –         –           –" in lines
        assert "pod-b: the counter of drafts went back from 9000 to 0" in lines
