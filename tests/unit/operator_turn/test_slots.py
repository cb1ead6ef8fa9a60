"""How many roll-outs may be under way in a cluster at a time."""

from specloop_operator.slots import Slots

CHAT, SEARCH, CODE = ("llm", "chat"), ("llm", "search"), ("ide", "code")


def test_as_many_may_begin_as_there_are_places() -> None:
    """Two of three policies."""
    slots = Slots(2)
    slots.note(CHAT, under_way=True)
    assert slots.free(SEARCH)
    slots.note(SEARCH, under_way=True)
    assert (slots.taken, slots.free(CODE)) == (2, False)
    slots.note(CHAT, under_way=False)
    assert slots.free(CODE)


def test_who_has_a_place_keeps_it() -> None:
    """Or its roll-out would wait for itself; noting it again takes no second one."""
    slots = Slots(1)
    slots.note(CHAT, under_way=True)
    slots.note(CHAT, under_way=True)
    assert slots.free(CHAT)
    slots.note(CHAT, under_way=False)
    assert slots.taken == 0


def test_roll_outs_that_began_under_another_operator_count() -> None:
    """Though they are more than there are places: none is called off for it, and none begins."""
    slots = Slots(1)
    slots.fill([CHAT, SEARCH])
    assert (slots.taken, slots.free(CODE), slots.free(SEARCH)) == (2, False, True)


def test_a_policy_that_rolls_nothing_out_gives_nothing_back() -> None:
    """As at most ticks."""
    slots = Slots(1)
    slots.note(CHAT, under_way=False)
    assert slots.taken == 0
