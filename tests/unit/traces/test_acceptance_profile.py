"""Acceptance that a workload states, in place of the tables."""

import numpy as np
import pytest

from specloop_policy.ladder import Drafter, Level, Method
from specloop_sim.course import Drafting, course_of
from specloop_sim.request import Request
from specloop_sim.text import (
    AcceptanceProfile,
    Kind,
    UnknownText,
    acceptance,
    match_share,
    survival,
    temperature_factor,
)

KINDS = pytest.mark.parametrize("kind", list(Kind))


def test_an_empty_profile_changes_nothing() -> None:
    empty = AcceptanceProfile("empty")
    for method in (Method.DRAFT_MODEL, Method.EAGLE, Method.NGRAM):
        assert survival(Kind.PROSE, method, 0.5, 5, profile=empty) == survival(Kind.PROSE, method, 0.5, 5)
        assert match_share(Kind.PROSE, method, empty) == match_share(Kind.PROSE, method)


@KINDS
def test_stated_acceptance_holds_for_every_kind_of_text(kind: Kind) -> None:
    measured = AcceptanceProfile("measured", ((Method.EAGLE, (0.7, 0.5)),))
    # .7, .7 x .5, and the last figure goes on: .35 x .5
    assert survival(kind, Method.EAGLE, 0.0, 3, profile=measured) == pytest.approx((0.7, 0.35, 0.175))
    assert survival(kind, Method.EAGLE3, 0.0, 3, profile=measured) == survival(kind, Method.EAGLE3, 0.0, 3)


def test_temperature_lowers_stated_acceptance_unless_it_was_measured_at_the_traffic_s_own() -> None:
    table = ((Method.EAGLE, (0.7,)),)
    left = temperature_factor(Method.EAGLE, 1.0)
    lowered = acceptance(Kind.CHAT, Method.EAGLE, 1.0, 2, profile=AcceptanceProfile("cold", table))
    kept = acceptance(Kind.CHAT, Method.EAGLE, 1.0, 2, profile=AcceptanceProfile("hot", table, by_temperature=False))
    assert lowered == pytest.approx([0.7 * left] * 2)
    assert kept == [0.7, 0.7]


def test_methods_that_a_profile_does_not_state_still_feel_the_temperature() -> None:
    hot = AcceptanceProfile("hot", ((Method.EAGLE, (0.7,)),), by_temperature=False)
    assert survival(Kind.CHAT, Method.EAGLE3, 1.0, 3, profile=hot) == survival(Kind.CHAT, Method.EAGLE3, 1.0, 3)


def test_a_stale_drafter_loses_its_factor_at_every_position() -> None:
    stale = AcceptanceProfile("stale", factor=((Method.DRAFT_MODEL, 0.5),))
    fresh = acceptance(Kind.CHAT, Method.DRAFT_MODEL, 0.2, 3)
    found = acceptance(Kind.CHAT, Method.DRAFT_MODEL, 0.2, 3, profile=stale)
    assert found == pytest.approx([0.5 * one for one in fresh])
    assert survival(Kind.CHAT, Method.EAGLE, 0.2, 3, profile=stale) == survival(Kind.CHAT, Method.EAGLE, 0.2, 3)


def test_no_factor_lifts_acceptance_above_one() -> None:
    better = AcceptanceProfile("better", factor=((Method.EAGLE, 9.0),))
    assert acceptance(Kind.CHAT, Method.EAGLE, 0.0, 2, profile=better) == [1.0, 1.0]


def test_lookups_have_the_stated_matches() -> None:
    copies = AcceptanceProfile("copies", match_share=0.9, match_acceptance=0.8)
    assert match_share(Kind.PROSE, Method.NGRAM, copies) == 0.9
    assert match_share(Kind.PROSE, Method.EAGLE, copies) == 1.0
    assert survival(Kind.PROSE, Method.NGRAM, 0.0, 2, profile=copies) == pytest.approx((0.8, 0.64))


def test_figures_make_a_method_known_that_the_tables_lack() -> None:
    with pytest.raises(UnknownText, match="medusa"):
        acceptance(Kind.CHAT, Method.MEDUSA, 0.0, 1)
    measured = AcceptanceProfile("measured", ((Method.MEDUSA, (0.6,)),))
    assert acceptance(Kind.CHAT, Method.MEDUSA, 0.0, 1, profile=measured) == [0.6]


def test_requests_of_two_profiles_are_served_side_by_side() -> None:
    drafting = Drafting(Level("k3", Drafter("draft", Method.DRAFT_MODEL), 3), seed=1)
    always = AcceptanceProfile("same name", ((Method.DRAFT_MODEL, (1.0,)),))
    never = AcceptanceProfile("same name", ((Method.DRAFT_MODEL, (0.0,)),))
    steps = [len(course_of(Request("r", 0.0, 10, 401, profile=one), drafting)) for one in (always, never)]
    assert steps == [100, 400]  # 400 tokens after the first, four or one a step


def test_over_many_requests_the_stated_survival_is_met() -> None:
    drafting = Drafting(Level("k2", Drafter("draft", Method.DRAFT_MODEL), 2), seed=1)
    measured = AcceptanceProfile("measured", ((Method.DRAFT_MODEL, (0.8, 0.5)),))
    found = [
        course_of(Request(f"r{at}", 0.0, 10, 400, kind=Kind.STRUCTURED, profile=measured), drafting).rejected
        for at in range(400)
    ]
    rejected = np.concatenate([one for one in found if one is not None])
    assert [np.mean(rejected <= 1), np.mean(rejected == 0)] == pytest.approx([0.8, 0.4], abs=0.02)
