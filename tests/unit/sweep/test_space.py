"""Combinations of values."""

import pytest

from specloop_sim.sweep.fields import VaryError
from specloop_sim.sweep.space import Space
from tests.unit.sweep.specs import LOW, limits


def test_every_combination_comes_once_the_last_parameter_first() -> None:
    space = limits("30,40", "50,55,60")
    found = [space.values(one) for one in space.choices()]
    assert found == [(30, 50), (30, 55), (30, 60), (40, 50), (40, 55), (40, 60)]
    assert space.size == 6


def test_the_policy_as_it_is_and_what_departs_from_it() -> None:
    space = limits("30,40", "50,55")
    assert space.given == (40, 55)
    assert space.departures((40, 55)) == 0
    assert space.departures((30, 55)) == 1
    assert space.settings((30, 55)) == {("rules", 1, "when", "acceptance", "belowPercent"): 30}


def test_a_field_is_varied_once() -> None:
    one = limits("30,40", "50").parameters[0]
    with pytest.raises(VaryError, match=f"{LOW} is varied twice"):
        Space((one, one))


def test_there_is_something_to_vary() -> None:
    with pytest.raises(VaryError, match="nothing to vary"):
        Space(())
