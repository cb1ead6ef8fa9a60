"""Which alerts without room were counted and told already."""

from specloop_operator.crowded import MAX_ALERTS, Crowded


def test_an_alert_without_room_is_new_once_each_time_that_it_fires() -> None:
    """By its start, and for each policy."""
    crowded = Crowded()
    assert [crowded.note("chat", "a", start) for start in (5.0, 5.0, 4.0, 6.0)] == [True, False, False, True]
    assert crowded.note("other", "a", 5.0)
    crowded.drop("chat", "a")
    assert crowded.note("chat", "a", 5.0)


def test_what_was_told_is_told_no_more_until_it_fires_anew() -> None:
    """What is not known to have no room cannot have been."""
    crowded = Crowded()
    crowded.tell("chat", ["a"])
    assert not crowded.told("chat", "a")
    crowded.note("chat", "a", 5.0)
    assert not crowded.told("chat", "a")
    crowded.tell("chat", ["a"])
    crowded.note("chat", "a", 5.0)
    assert crowded.told("chat", "a")
    crowded.note("chat", "a", 6.0)
    assert not crowded.told("chat", "a")


def test_no_more_are_remembered_than_there_is_room_for() -> None:
    """The one that was not heard of for longest is forgotten."""
    crowded = Crowded()
    for place in range(MAX_ALERTS):
        crowded.note("chat", str(place), 5.0)
    crowded.note("chat", "0", 5.0)
    crowded.note("chat", "more", 5.0)
    assert not crowded.note("chat", "0", 5.0)
    assert crowded.note("chat", "1", 5.0)
