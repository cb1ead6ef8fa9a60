"""Each check passes on what is right, and says what is wrong about what is not."""

from typing import Any

import pytest

from tests.support.soak_checks import (
    MIB,
    Growth,
    Held,
    Life,
    Tenure,
    Write,
    growths,
    overlaps,
    swollen,
    tenures,
    unlawful,
    unrest,
)

LASTS = 9.0
OWNERS = {"one": "a", "two": "b", "again": "a"}


def held(holder: str, renewed: float, seen: float | None = None) -> Held:
    """A Lease that was seen at once, unless said otherwise."""
    return Held(holder, renewed, LASTS, renewed if seen is None else seen)


def test_a_tenure_lasts_from_the_first_renewal_to_the_lease_s_length_after_the_last() -> None:
    """Renewed at 0, 2 and 4 s, nine seconds each: until 13 s."""
    assert tenures([held("one", 0.0), held("one", 2.0), held("one", 4.0)]) == [Tenure("one", 0.0, 13.0)]


def test_a_lease_that_is_given_away_is_nobody_s_at_once() -> None:
    """Given away at 5 s, which leaves the time of renewal as it was; taken by the next before we had heard of it."""
    given_away = held("", 4.0, seen=5.0)
    assert tenures([held("one", 4.0), given_away]) == [Tenure("one", 4.0, 5.0)]
    found = tenures([held("one", 4.0), given_away, held("two", 4.9)])
    assert found == [Tenure("one", 4.0, 4.9), Tenure("two", 4.9, 13.9)]
    assert overlaps(found) == []


@pytest.mark.parametrize(("taken", "said"), [(13.1, 0), (12.9, 1)])
def test_a_lease_that_is_taken_before_it_has_run_out_is_an_overlap(taken: float, said: int) -> None:
    """The last renewal was at 4 s."""
    found = overlaps(tenures([held("one", 4.0), held("two", taken)]))
    assert len(found) == said
    assert all("two held the Lease from 12.900 on, and one until 13.000" in words for words in found)


@pytest.mark.parametrize(
    ("at", "operator", "lawful"),
    [
        (15.0, "a", True),
        (9.9, "a", False),  # before it was its turn
        (19.1, "a", False),  # after
        (15.0, "b", False),  # somebody else's turn
    ],
)
def test_a_write_is_lawful_while_its_operator_holds_the_lease(at: float, operator: str, lawful: bool) -> None:
    """From 10 to 19 s it is operator a's."""
    lives = [Life("a", 0.0, 100.0), Life("b", 0.0, 100.0)]
    write = Write(at, operator, "patch of deployments chat")
    found = unlawful([write], [Tenure("one", 10.0, 19.0)], lives, OWNERS)
    assert found == ([] if lawful else [f"patch of deployments chat by {operator} at {at:.3f}, without the Lease"])


def test_what_an_operator_s_last_life_held_is_not_this_one_s() -> None:
    """Killed at 12 s and started at 13 s, its Lease runs to 19 s, in the name of what is gone."""
    lives = [Life("a", 0.0, 12.0), Life("a", 13.0, 100.0)]
    found = [Tenure("one", 10.0, 19.0)]
    write = Write(11.0, "a", "patch of deployments chat")
    assert unlawful([write], found, lives, OWNERS) == []
    assert unlawful([Write(14.0, "a", write.what)], found, lives, OWNERS) != []
    assert unlawful([Write(24.0, "a", write.what)], [*found, Tenure("again", 20.0, 29.0)], lives, OWNERS) == []


def life(grown_mib: float, seconds: float = 660.0) -> Life:
    """A life that holds 100 MiB, and after its first minute more by the second, at an even rate."""
    memory = [(float(at), (100.0 + grown_mib * max(at - 60.0, 0.0) / 600.0) * MIB) for at in range(0, int(seconds), 2)]
    return Life("a", 0.0, seconds, memory=tuple(memory))


@pytest.mark.parametrize(("grown_mib", "said"), [(0.0, 0), (7.0, 0), (9.0, 1)])
def test_memory_that_grows_beyond_the_bound_is_said(grown_mib: float, said: int) -> None:
    """Between the middles of first and last quarter are 450 of 600 s, and so three quarters of the growth.

    Allowed are 2 MiB, and 256 MiB in 28,800 s: 6 MiB.  Of 7 and of 9 MiB, 5.25 and 6.75 are seen.
    """
    [found] = growths([life(grown_mib)], [], {})
    assert found.apart == pytest.approx(450.0, abs=3.0)
    assert found.allowed == pytest.approx(6.0 * MIB, rel=0.01)
    assert len(swollen([found])) == said


def test_a_leader_s_memory_is_compared_with_what_it_held_as_leader() -> None:
    """It holds 40 MiB more from its turn on, at 300 s, and that is no growth."""
    base = life(0.0)
    memory = tuple((at, size + (40.0 * MIB if at >= 300.0 else 0.0)) for at, size in base.memory)
    found = growths([Life("a", 0.0, 660.0, memory=memory)], [Tenure("one", 300.0, 660.0)], OWNERS)
    assert [one.role for one in found] == ["following", "leading"]
    assert swollen(found) == []
    assert [one.first / MIB for one in found] == [100.0, 140.0]


def test_a_life_of_less_than_two_minutes_says_nothing_of_memory() -> None:
    """Half of it is the warm-up."""
    assert growths([life(50.0, seconds=119.0)], [], {}) == []


def test_what_has_grown_is_said_with_its_figures() -> None:
    """All that somebody needs who looks for a leak."""
    grown = Growth(Life("a", 0.0, 600.0), "leading", 100.0 * MIB, 110.0 * MIB, 450.0)
    assert swollen([grown]) == ["a, leading: 100.0 MiB, 110.0 MiB 450 s later, 6.0 MiB more allowed"]


def condition(type_: str, status: str, reason: str = "Reason") -> dict[str, str]:
    """One of a policy's."""
    return {"type": type_, "status": status, "reason": reason, "message": "words"}


def policy(*conditions: dict[str, str], **status: Any) -> dict[str, Any]:
    """A policy that wants k3."""
    well = (
        condition("Progressing", "False", "Promoted"),
        condition("Ready", "True"),
        condition("MetricsAvailable", "True"),
    )
    own = [*well, *conditions]
    return {"metadata": {"name": "chat"}, "status": {"desiredLevel": "k3", "conditions": own, **status}}


def target(generation: int = 5, **spec: Any) -> dict[str, Any]:
    """A Deployment whose two pods are as they should be."""
    counts = dict.fromkeys(("replicas", "updatedReplicas", "availableReplicas"), 2)
    own = {"replicas": 2, **spec}
    return {"metadata": {"generation": generation}, "spec": own, "status": {**counts, "observedGeneration": 5}}


THERE = {"x": "k3", "y": "k3"}
ASTRAY = {"x": "k3", "y": "k5"}


def test_pods_at_the_level_that_the_policy_wants_are_at_rest() -> None:
    """Nothing is said."""
    assert unrest(policy(), target(), THERE) == ""


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ((policy(memory={"rollout": {"phase": "Soaking"}}), target(), THERE), "a roll-out is under way"),
        ((policy(condition("Progressing", "True", "Canary")), target(), THERE), "a roll-out is under way: Canary"),
        ((policy(), target(paused=True), THERE), "the Deployment is paused, and no roll-out"),
        ((policy(), target(updateStrategy={"rollingUpdate": {"partition": 2}}), THERE), "has partition 2"),
        ((policy(alerts=[{"name": "Slow"}]), target(), THERE), "Slow fires still"),
        ((policy(condition("MetricsAvailable", "False")), target(), THERE), "it is not heard of: words"),
        ((policy(), target(), {"x": "k3"}), "not all pods are there"),
        ((policy(), target(replicas=3), THERE), "not all pods are there"),
        ((policy(), target(generation=6), THERE), "not all pods are there"),
        ((policy(), target(), ASTRAY), "is to be at k3, and no condition says why it is not: {'y': 'k5'}"),
        (({"metadata": {"name": "chat"}}, target(), THERE), "a roll-out is under way: None"),
    ],
)
def test_what_is_not_at_rest_is_said_with_its_reason(
    found: tuple[dict[str, Any], dict[str, Any], dict[str, str]], said: str
) -> None:
    """One thing at a time is wrong."""
    assert said in unrest(*found)


@pytest.mark.parametrize(("type_", "status"), [("Suspended", "True"), ("Drifted", "True"), ("Ready", "False")])
def test_a_condition_that_says_why_excuses_pods_at_another_level_but_nothing_else(type_: str, status: str) -> None:
    """Nor does its opposite."""
    ready = [condition("Ready", "True")] if type_ != "Ready" else []
    other = {"True": "False", "False": "True"}[status]
    assert unrest(policy(*ready, condition(type_, status)), target(), ASTRAY) == ""
    assert unrest(policy(*ready, condition(type_, other)), target(), ASTRAY) != ""
    assert unrest(policy(*ready, condition(type_, status)), target(paused=True), THERE) != ""


def test_an_alert_that_is_over_is_no_unrest() -> None:
    """It stays in the status for a while."""
    assert unrest(policy(alerts=[{"name": "Slow", "resolvedAt": "2026-01-01T00:00:00Z"}]), target(), THERE) == ""
