"""The sentence in front: computed from the figures, and honest in both directions."""

from dataclasses import replace

from specloop_sim.report.model import Contender, Kind, Report
from specloop_sim.report.verdict import verdict
from tests.support.reports import contender, event, policy, replayed, run, simulated, swept


def contest(*contenders: Contender, **changed: object) -> str:
    return verdict(replace(simulated(), contenders=contenders, **changed))  # type: ignore[arg-type]


def test_a_policy_that_is_better_than_the_best_level_says_by_how_much() -> None:
    """2.0 s against 2.5 s is 20 % less, against 4.0 s it is 50 % less."""
    assert verdict(simulated()) == (
        "chat would have changed the level once, with 2 restarts of replicas. "
        "Requests would have taken 2 s on average: 20 % less than with static-k3, the best static level "
        "in hindsight (2.50), and 50 % less than with no speculation (4). No level that stays does better."
    )


def test_a_policy_that_is_worse_than_the_best_level_says_so() -> None:
    """3.0 s against 2.5 s is 20 % more; against 4.0 s it is 25 % less."""
    said = contest(policy("chat", 3.0), contender("static-k3", 2.5), contender("disabled", 4.0))
    assert "20 % more than with static-k3, the best static level in hindsight (2.50), and 25 % less than" in said
    assert said.endswith("It does not beat the best level, which is known only afterwards.")


def test_a_policy_that_is_worse_than_no_speculation_does_harm() -> None:
    said = contest(policy("chat", 5.0), contender("static-k3", 2.5), contender("disabled", 4.0))
    assert "25 % more than with no speculation (4)" in said
    assert said.endswith("It does harm here: no speculation at all is better.")


def test_a_difference_that_rounds_to_nothing_is_none() -> None:
    """2.51 s against 2.5 s is 0.4 % more."""
    said = contest(policy("chat", 2.51), contender("static-k3", 2.5), contender("disabled", 4.0))
    assert "the same as with static-k3, the best static level in hindsight (2.50)" in said
    assert "best level, which" not in said
    assert "No level that stays" not in said


def test_where_speculation_never_pays_the_best_level_is_none() -> None:
    said = contest(policy("chat", 2.0), contender("static-k3", 2.5), contender("disabled", 2.0))
    assert said.endswith("on average: the same as with no speculation, the best static level in hindsight (2).")


def test_one_level_alone_is_not_called_the_best() -> None:
    said = contest(policy("chat", 2.0), contender("disabled", 4.0))
    assert said.endswith("Requests would have taken 2 s on average: 50 % less than with no speculation (4).")


def test_where_more_is_better_more_is_called_better() -> None:
    """90 tokens per second against 100 is 10 % less, against 60 it is 50 % more."""
    speeds = [
        Contender(name, {"outputTokensPerSecond": speed}, is_policy=name == "chat")
        for name, speed in (("chat", 90.0), ("static-k3", 100.0), ("disabled", 60.0))
    ]
    said = contest(*speeds, compares_by="outputTokensPerSecond")
    assert "Speed would have been 90 tokens per second: 10 % less than with static-k3" in said
    assert "50 % more than with no speculation (60). It does not beat the best level" in said


def test_requests_without_an_answer_are_not_hidden_behind_the_mean() -> None:
    said = contest(policy("chat", 2.0, unfinishedRequests=1200), contender("disabled", 4.0))
    assert said.endswith("1,200 requests were not answered, which the mean leaves out.")


def test_of_several_policies_the_best_one_speaks() -> None:
    said = contest(policy("slow", 3.0), policy("quick", 2.0), contender("disabled", 4.0))
    assert said.startswith("Of 2 policies quick did best. quick would not have changed the level.")


def test_a_figure_that_is_missing_is_not_compared() -> None:
    bare = Contender("static-k3", {"restarts": 0.0}, best=True)
    assert "static-k3" not in contest(policy("chat", 2.0), bare, contender("disabled", 4.0))


def test_a_figure_of_nought_has_no_percentage() -> None:
    assert "against 0 with no speculation" in contest(policy("chat", 2.0), contender("disabled", 0.0))


def test_a_live_demo_speaks_of_what_happened() -> None:
    said = contest(policy("demo", 2.0, changes=2), contender("disabled", 4.0), kind=Kind.DEMO)
    assert said.startswith("demo changed the level twice. Requests took 2 s on average")


def test_a_replay_says_what_it_would_have_done_and_what_cannot_be_known() -> None:
    assert verdict(replayed()) == (
        "chat would have changed the level once in 1 h: from k5 to k3; the fleet itself never did so. "
        "What another level would have done cannot be known from recorded data."
    )


def test_a_replay_counts_what_the_fleet_did_itself() -> None:
    events = (event(600.0, carried_out=True), event(1200.0, before="k3", after="disabled", carried_out=False))
    said = verdict(Report(Kind.REPLAY, "", 3600.0, runs=(run("chat", events), run("calm", ()))))
    assert "twice in 1 h: first from k5 to k3, last from k3 to disabled; the fleet itself did so once." in said
    assert "calm would not have changed the level in 1 h." in said


def test_a_sweep_names_its_front_and_what_was_chosen() -> None:
    assert verdict(swept()) == (
        "Of 3 candidates 2 have no other that is both faster and calmer. The chosen one has +4 % "
        "(speed against the best static level, percent), with 1 change of level."
    )
