"""Ranges and lists of values, within what the field takes."""

import pytest

from specloop_sim.sweep.fields import VaryError, field_at
from specloop_sim.sweep.values import parameter
from tests.unit.sweep.specs import LOW, SPEC

HOT = "rules.hot.when.temperature.above"


@pytest.mark.parametrize(
    ("path", "text", "values"),
    [
        (LOW, "30..50:10", [30, 40, 50]),
        (LOW, "30..45:10", [30, 40]),
        (LOW, "38..40", [38, 39, 40]),
        (LOW, "40,30, 40", [30, 40]),
        (HOT, "0.4..1.0:0.3", ["0.4", "0.7", "1.0"]),
        (HOT, "0.9..1.1", ["0.9", "1.0", "1.1"]),
        (HOT, "0.8,0.2", ["0.2", "0.8"]),
        ("costModel.policy", "Veto,Ignore", ["Veto", "Ignore"]),
        ("suspend", "true,false", [True, False]),
        ("levels.k5.tokens", "1..8", [1, 2, 3, 4, 5, 6, 7, 8]),
    ],
)
def test_values_come_in_order_each_once(path: str, text: str, values: list[object]) -> None:
    assert list(parameter(field_at(SPEC, path), text).values) == values


def test_numbers_have_an_order_and_words_have_none() -> None:
    assert parameter(field_at(SPEC, HOT), "0.4,0.6").ordered
    assert not parameter(field_at(SPEC, "costModel.policy"), "Veto,Ignore").ordered


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        (LOW, "30..150", "150 is out of range; allowed: 0 to 100"),
        (LOW, "-5..10", "-5 is out of range"),
        (LOW, "50..30", "50 is above 30"),
        (LOW, "30..50:0", "a step of 0 leads nowhere"),
        (LOW, "0.3,0.4", "'0.3' is not a whole number; allowed: 0 to 100"),
        (LOW, "30,,40", "'' is not a whole number"),
        (LOW, "30..", "'30..' is not a whole number"),
        (HOT, "1,2", "'1' is not a number with one decimal, such as 0.6"),
        (HOT, "0.4..1.0:2", "'2' is not a number with one decimal"),
        ("costModel.policy", "Veto,No", "'No' is not known there; one of: Ignore, Veto"),
        ("suspend", "yes", "'yes' is neither true nor false"),
        ("levels.k5.name", "K5", "'K5' cannot stand there"),
    ],
)
def test_a_wrong_value_is_answered_with_what_is_allowed(path: str, text: str, words: str) -> None:
    with pytest.raises(VaryError) as raised:
        parameter(field_at(SPEC, path), text)
    assert words in str(raised.value)
    assert path in str(raised.value)
