"""What a rollback will do is said before it is done, from the status alone."""

from typing import Any

import pytest

from specloop_cli.errors import InputError
from specloop_cli.live_policy import LivePolicy
from specloop_cli.rollback import Plan, plan, words
from specloop_policy.annotations import Rollback
from tests.support.live_policies import NOON, decision, live, moment, rollout, status

DOWN = decision("StepDown", "k5", "k3", ago=600)
CHANGED = {"level": "k3", "changedAt": moment(600)}


def at(level: str | None, *decisions: Any, **more: Any) -> LivePolicy:
    """A policy at rest at a level after these decisions."""
    return live(status={**status(decisions=decisions, **more), "observedLevel": level, "desiredLevel": level})


def test_the_last_change_is_taken_back() -> None:
    """From where it led to, to where it came from."""
    found = plan(at("k3", decision("SwitchTo", "ngram", "k5", ago=900), DOWN, memory=CHANGED))
    assert found == Plan("k3", "k5", ends_rollout=False)
    assert words(found) == "go back to k5 from k3"


@pytest.mark.parametrize(
    "later",
    [
        decision("Hold", "k3", "k3"),
        decision("Alert", "k3", "k3"),
        decision("Probe", "k3", "k5"),
    ],
)
def test_what_changed_nothing_since_is_passed_over(later: Any) -> None:
    """A probe tries another level on one replica and changes that of the target not at all."""
    assert plan(at("k3", DOWN, later, memory=CHANGED)).back_to == "k5"


def test_a_roll_out_under_way_is_ended() -> None:
    """It knows where it came from."""
    found = plan(live(status=status(decisions=[DOWN], memory={**CHANGED, "rollout": rollout()}, desiredLevel="ngram")))
    assert found == Plan("ngram", "k3", ends_rollout=True)
    assert words(found) == "end the roll-out to ngram and go back to k3"


def test_a_level_that_is_still_watched_goes_back_to_where_it_came_from() -> None:
    """Whatever else the status shows: to go back there is what the operator watches it for."""
    watch = {"level": "k3", "backTo": "k8", "key": "", "since": moment(60), "until": moment(-60)}
    memory = {**CHANGED, "watch": {**watch, "failedSharePercent": 0}}
    assert plan(at("k3", DOWN, memory=memory)) == Plan("k3", "k8", ends_rollout=False)


def test_a_change_that_the_status_has_forgotten_is_left_to_the_operator() -> None:
    """Ten decisions later it is no longer listed."""
    found = plan(at("k3", memory=CHANGED))
    assert found == Plan("k3", None, ends_rollout=False)
    assert words(found) == "go back to the level before the last change from k3"


@pytest.mark.parametrize("policy", [live(), at("k3"), at("k3", decision("Hold", "k3", "k3"), memory={"level": "k3"})])
def test_where_nothing_was_changed_there_is_no_way_back(policy: LivePolicy) -> None:
    """Nor before the operator's first visit."""
    with pytest.raises(InputError, match="chat-70b: nothing to roll back"):
        plan(policy)


WISH = Rollback(NOON)
TAKEN_UP = {"rolledBackAt": moment(0)}


def test_it_is_done_when_the_level_is_there_and_wanted_and_nothing_rolls() -> None:
    """Any of the three alone is on the way."""
    back = Plan("ngram", "k3", ends_rollout=True)
    assert back.done(at("k3", memory=TAKEN_UP), WISH)
    assert not back.done(at("ngram", memory=TAKEN_UP), WISH)
    assert not back.done(live(status=status(level="k3", desiredLevel="ngram", memory=TAKEN_UP)), WISH)
    assert not back.done(at("k3", memory={**TAKEN_UP, "rollout": rollout("RollingBack")}), WISH)


@pytest.mark.parametrize("memory", [{}, {"rolledBackAt": moment(1)}])
def test_it_is_not_done_before_the_operator_has_taken_up_the_wish(memory: Any) -> None:
    """It may have carried out another one a second before."""
    assert not Plan("ngram", "k3", ends_rollout=True).done(at("k3", memory=memory), WISH)


def test_without_a_known_goal_it_is_done_anywhere_else() -> None:
    """The operator knows the goal."""
    assert Plan("k3", None, ends_rollout=False).done(at("k5", memory=TAKEN_UP), WISH)
    assert not Plan("k3", None, ends_rollout=False).done(at("k3", memory=TAKEN_UP), WISH)
