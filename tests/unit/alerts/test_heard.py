"""What a message changes in what a policy knows of alerts, and what of that is in force."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specloop_policy.alerts import (
    TRUNCATED,
    TRUNCATED_SECONDS,
    Alert,
    AlertNews,
    Heard,
    binding_of,
    heard,
    in_force,
    kept,
)
from specloop_policy.decision import FiringAlert
from specloop_policy.model import AlertAction, AlertActionType, AlertBinding
from specloop_policy.status import MAX_ALERTS, AlertReport

NOW = 1_800_000_000.0
EXPIRE = 600
DOWN = AlertAction(type=AlertActionType.STEP_DOWN)
TO_K3 = AlertAction(type=AlertActionType.SWITCH_TO, level="k3")
OFF = AlertAction(type=AlertActionType.DISABLE)
LOOK = AlertAction(type=AlertActionType.EVALUATE_NOW)

Known = tuple[AlertReport, ...]


def alert(
    fingerprint: str = "a",
    start: float = NOW - 60.0,
    end: float | None = None,
    *,
    firing: bool = True,
    name: str = "Low",
) -> Alert:
    """An alert as a message has it; one with an end is over."""
    return Alert(fingerprint, start, firing and end is None, {"alertname": name, "namespace": "llm"}, end)


def binding(action: AlertAction = DOWN, **match: str) -> AlertBinding:
    """What a policy asks of alerts with these labels."""
    return AlertBinding(match=match or {"namespace": "llm"}, action=action, expire_seconds=EXPIRE)


def together(known: Known, *alerts: Alert, action: AlertAction = DOWN, now: float = NOW) -> Heard:
    """What a message of these says to who knows those."""
    return heard(known, [(one, binding(action)) for one in alerts], now)


def after(known: Known, *alerts: Alert, action: AlertAction = DOWN, now: float = NOW) -> Known:
    """What is known when these were heard, one after the other, at one time."""
    for one in alerts:
        known = together(known, one, action=action, now=now).known
    return known


def news(known: Known, one: Alert, action: AlertAction = DOWN, now: float = NOW) -> AlertNews:
    """What one alert is to who knows these."""
    [(_, what)] = together(known, one, action=action, now=now).news
    return what


def truncated(known: Known, now: float) -> Known:
    """What is known after a message that leaves alerts out and names none."""
    return heard(known, (), now, left_out=True).known


def asked(known: Known, *bindings: AlertBinding, now: float = NOW) -> list[str]:
    """Names of the alerts in force."""
    return [one.name for one in in_force(known, bindings or (binding(),), now)]


def test_an_alert_that_fires_is_news_once() -> None:
    """It is known from then on, with all that the decision needs."""
    assert news((), alert()) is AlertNews.RECEIVED
    known = after((), alert())
    assert news(known, alert()) is AlertNews.REPEATED
    assert after(known, alert()) == known
    assert in_force(known, (binding(),), NOW) == (FiringAlert("Low", AlertActionType.STEP_DOWN, None),)


def test_its_end_is_news_once_and_it_asks_for_nothing_any_more() -> None:
    """It stays known until its time is over."""
    known = after((), alert())
    assert news(known, alert(firing=False)) is AlertNews.RESOLVED
    known = after(known, alert(firing=False))
    assert news(known, alert(firing=False)) is AlertNews.REPEATED
    assert after(known, alert(firing=False)) == known
    assert (asked(known), len(known)) == ([], 1)


def test_an_end_of_what_was_never_heard_of_is_no_news() -> None:
    """Its binding may be younger than the alert."""
    assert news((), alert(firing=False)) is AlertNews.REPEATED
    assert after((), alert(firing=False)) == ()


def test_what_comes_late_does_not_bring_back_what_is_over() -> None:
    """Two Alertmanagers tell of the same alert, and one of them is slow."""
    known = after((), alert(), alert(firing=False))
    assert news(known, alert()) is AlertNews.REPEATED
    assert asked(after(known, alert())) == []


@pytest.mark.parametrize("first", [(), (alert(firing=False),)], ids=["while it fired", "after its end"])
def test_a_beginning_that_comes_after_its_end_does_not_bring_it_back(first: Sequence[Alert]) -> None:
    """The second time that it fires was heard to be over before it was heard to have begun."""
    again = alert(start=NOW - 10.0)
    known = after((), alert(), *first, replace(again, firing=False), again)
    assert asked(known) == []


def test_a_new_start_does() -> None:
    """Alertmanager writes the same fingerprint with another start."""
    known = after((), alert(), alert(firing=False))
    assert news(known, alert(start=NOW - 10.0)) is AlertNews.RECEIVED
    assert asked(after(known, alert(start=NOW - 10.0))) == ["Low"]


def test_the_end_of_an_earlier_time_does_not_end_a_later_one() -> None:
    """It was held up on its way."""
    known = after((), alert(), alert(start=NOW - 10.0))
    assert news(known, alert(firing=False)) is AlertNews.REPEATED
    assert asked(after(known, alert(firing=False))) == ["Low"]


@pytest.mark.parametrize("resolved", [(), (alert(start=NOW - 60.0, end=NOW - 5.0),)], ids=["fires", "over already"])
def test_an_end_with_an_earlier_start_counts_where_it_is_not_before_the_known_start(resolved: Sequence[Alert]) -> None:
    """Two Prometheus tell of it 20 s apart: it is heard of by the later start, and its end has the earlier one.

    Alertmanager keeps the earliest start of alerts that overlap (types.Alert.Merge).
    """
    known = after((), alert(start=NOW - 40.0), *resolved)
    over = alert(start=NOW - 60.0, end=NOW - 5.0)
    assert news(known, over) is (AlertNews.REPEATED if resolved else AlertNews.RESOLVED)
    known = after(known, over)
    assert asked(known) == asked(after(known, alert(start=NOW - 40.0))) == [], "its beginning may come late"


@pytest.mark.parametrize(
    ("end", "over"),
    [(NOW - 40.0, True), (NOW - 40.001, False), (NOW - 50.0, False), (-62_135_596_800.0, False), (None, False)],
    ids=["at the start", "just before it", "of an earlier time", "Go's zero time", "missing"],
)
def test_the_end_of_an_earlier_time_still_ends_no_later_one(end: float | None, over: bool) -> None:
    """Such an end is before the start that is known, however late it comes; an end that is not told is none."""
    known = after((), alert(start=NOW - 60.0), alert(start=NOW - 40.0))
    late = Alert("a", NOW - 60.0, firing=False, labels={}, ends_at=end)
    assert asked(after(known, late)) == ([] if over else ["Low"])


@pytest.mark.parametrize("end", [-62_135_596_800.0, None], ids=["Go's zero time", "missing"])
def test_an_end_without_its_time_counts_by_its_start(end: float | None) -> None:
    """As one with its time does."""
    known = after((), alert())
    over = Alert("a", NOW - 60.0, firing=False, labels={}, ends_at=end)
    assert news(known, over) is AlertNews.RESOLVED


def test_an_alert_that_is_heard_of_no_more_counts_until_its_time_is_over() -> None:
    """600 s from when it was heard, not from when it began."""
    known = after((), alert())
    assert asked(known, now=NOW + EXPIRE - 1.0) == ["Low"]
    assert asked(known, now=NOW + EXPIRE) == []
    assert (kept(known, NOW + EXPIRE - 1.0), kept(known, NOW + EXPIRE)) == (known, ())


def test_a_repetition_renews_the_time_in_its_second_half_alone() -> None:
    """Most repetitions are no write: at 299 s of 600 nothing changes, and at 300 s it counts until 900 s."""
    known = after((), alert())
    assert after(known, alert(), now=NOW + 299.0) == known
    renewed = after(known, alert(), now=NOW + 300.0)
    assert news(known, alert(), now=NOW + 300.0) is AlertNews.REPEATED
    assert asked(renewed, now=NOW + 899.0) == ["Low"]
    assert asked(renewed, now=NOW + 900.0) == []


def test_what_is_over_is_not_renewed() -> None:
    """It is forgotten at its time, whatever comes late."""
    known = after((), alert(), alert(firing=False))
    assert after(known, alert(), alert(firing=False), now=NOW + 599.0) == known


def test_an_alert_heard_again_after_its_time_is_news() -> None:
    """It may have fired all the while."""
    known = kept(after((), alert()), NOW + EXPIRE)
    assert news(known, alert(), now=NOW + EXPIRE) is AlertNews.RECEIVED


def test_a_repetition_asks_for_what_the_binding_asks_for_by_then() -> None:
    """The policy was edited while the alert fired; it does not wait for half of its time."""
    known = after(after((), alert()), alert(), action=TO_K3)
    assert in_force(known, (binding(TO_K3),), NOW) == (FiringAlert("Low", AlertActionType.SWITCH_TO, "k3"),)
    assert news(known, alert()) is AlertNews.REPEATED


def test_an_alert_that_no_binding_asks_for_any_more_counts_no_more() -> None:
    """Neither where the binding is gone, nor where it asks for this of another alert."""
    known = after((), alert())
    low, other = binding(alertname="Low"), binding(alertname="Other")
    assert asked(known, low) == asked(known, other, low) == asked(known, binding(severity="warning")) == ["Low"]
    assert in_force(known, (), NOW) == ()
    assert asked(known, other) == []


def test_where_the_binding_that_names_it_is_edited_the_new_action_counts_at_once() -> None:
    """Alertmanager says the alert again hours later; a binding by other labels may be another alert's by now."""
    known = after((), alert(), action=TO_K3)
    to_ngram = AlertAction(type=AlertActionType.SWITCH_TO, level="ngram")
    assert asked(known, binding(TO_K3)) == ["Low"]
    assert asked(known, binding(to_ngram)) == []
    assert in_force(known, (binding(to_ngram, alertname="Low"),), NOW) == (
        FiringAlert("Low", AlertActionType.SWITCH_TO, "ngram"),
    )
    assert in_force(known, (binding(OFF, alertname="Low"), binding(TO_K3)), NOW)[0].level == "k3"
    assert in_force(known, (binding(LOOK, alertname="Low"),), NOW) == ()
    assert in_force(known, (binding(OFF, alertname="Low", severity="critical"),), NOW) == (), (
        "it may be of another severity"
    )


def test_evaluate_now_is_never_a_wish() -> None:
    """It is known, which wakes the policy, and asks for no level."""
    known = after((), alert(), action=LOOK)
    assert len(known) == 1
    assert asked(known, binding(LOOK)) == []


def test_alerts_in_force_come_in_the_order_in_which_they_were_heard_of() -> None:
    """Not of their starts: of two that ask for levels, the first heard of is followed."""
    known = after((), alert("b", NOW - 10.0, name="Second"), now=NOW)
    known = after(known, alert("a", NOW - 99.0, name="Third"), now=NOW + 1.0)
    known = after(known, alert("c", NOW - 50.0, name="First"), now=NOW - 1.0)
    assert asked(known) == ["First", "Second", "Third"]


def test_the_first_binding_whose_labels_it_carries_wins() -> None:
    """All of the labels; one that is missing or other keeps the binding out."""
    low, llm = binding(OFF, alertname="Low"), binding(DOWN, namespace="llm")
    assert binding_of(alert(), (low, llm)) is low
    assert binding_of(alert(), (llm, low)) is llm
    assert binding_of(alert(), (binding(alertname="Low", severity="critical"),)) is None
    assert binding_of(alert(), (binding(alertname="Low", namespace="other"), llm)) is llm
    assert binding_of(alert(), ()) is None


def test_a_list_that_leaves_alerts_out_wakes_the_policy_and_asks_for_nothing() -> None:
    """Each such list is news; the alerts that are known stay, and it is forgotten after the default group_interval."""
    known = truncated(after((), alert()), NOW)
    assert asked(known, binding(), binding(LOOK)) == ["Low"]
    assert truncated(known, NOW + 1.0) != known
    assert [one.fingerprint for one in truncated(known, NOW + 1.0)] == ["a", TRUNCATED]
    assert [one.fingerprint for one in kept(known, NOW + TRUNCATED_SECONDS)] == ["a"]


def full() -> Known:
    """As many alerts as a status holds, each of which asks to step down."""
    known: Known = ()
    for place in range(MAX_ALERTS):
        known = after(known, alert(str(place)), now=NOW + place)
    return known


def test_in_a_full_status_the_alerts_that_were_heard_of_first_go_on_deciding() -> None:
    """One more finds no room and changes nothing; heard again when there is room, it is news."""
    known, new = full(), alert("new")
    assert together(known, new, now=NOW + 40.0) == Heard(((new, AlertNews.CROWDED),), known, ())
    known = after(known, alert("7", firing=False), now=NOW + 41.0)
    said = together(known, new, now=NOW + 42.0)
    assert said.news == ((new, AlertNews.RECEIVED),)
    assert [one.fingerprint for one in said.known if one.resolved_at is None][-1] == "new"


@pytest.mark.parametrize("action", [AlertActionType.SUSPEND, AlertActionType.DISABLE])
def test_what_decides_over_others_has_room_in_a_full_status(action: AlertActionType) -> None:
    """The last of the others goes, and that is told; what only asks to look is let in by none of them."""
    known, new = full(), alert("new")
    said = together(known, new, action=AlertAction(type=action), now=NOW + 40.0)
    assert said.news == ((new, AlertNews.RECEIVED),)
    assert [one.fingerprint for one in said.known] == [*(str(place) for place in range(MAX_ALERTS - 1)), "new"]
    assert said.evicted == known[-1:]
    assert news(known, alert("look"), LOOK, NOW + 40.0) is AlertNews.CROWDED
    looks = heard(known, (), NOW + 40.0, left_out=True)
    assert [one.fingerprint for one in looks.known][-1] == TRUNCATED
    assert looks.evicted == known[-1:]


def test_what_a_message_itself_leaves_no_room_for_is_not_told_to_be_known() -> None:
    """Whether it was new or known before: 32 fit, and one that turns off comes first."""
    new, known = [alert(str(place)) for place in range(MAX_ALERTS)], full()
    off = (alert("off"), binding(OFF))
    for before, evicted in (((), ()), (known, known[-1:])):
        said = heard(before, [*((one, binding()) for one in new), off], NOW + 40.0)
        assert [one.fingerprint for one, what in said.news if what is AlertNews.CROWDED] == ["31"]
        assert len(said.known) == MAX_ALERTS
        assert said.evicted == evicted


def test_what_is_over_by_the_same_message_makes_room() -> None:
    """Though it is named after the one that fires."""
    said = together(full(), alert("new"), alert("7", firing=False), now=NOW + 40.0)
    assert [what for _, what in said.news] == [AlertNews.RECEIVED, AlertNews.RESOLVED]
    assert "new" in [one.fingerprint for one in said.known]
    assert said.evicted == ()


def test_of_a_message_of_thousands_those_that_come_first_are_known() -> None:
    """Those that suspend, named last, before 5,000 that step down."""
    lower = [(alert(f"down {place}"), binding()) for place in range(5_000)]
    hold = [(alert(f"hold {place}"), binding(AlertAction(type=AlertActionType.SUSPEND))) for place in range(40)]
    said = heard((), [*lower, *hold], NOW)
    assert [one.fingerprint for one in said.known] == [f"hold {place}" for place in range(MAX_ALERTS)]
    assert [what for _, what in said.news].count(AlertNews.CROWDED) == 5_000 + 40 - MAX_ALERTS


def test_alerts_that_are_over_make_room_first() -> None:
    """However late they came."""
    known: Known = ()
    for place in range(MAX_ALERTS):
        known = after(known, alert(str(place)), now=NOW + place)
    known = after(known, alert("31", firing=False), alert("new"), now=NOW + 40.0)
    assert [one.fingerprint for one in known] == [*(str(place) for place in range(31)), "new"]


def test_an_alert_whose_names_are_long_fits_into_a_status() -> None:
    """64 and 256 characters, as the definition of the resource has them."""
    (known,) = after((), alert(name="x" * 5000))
    assert known.name == "x" * 256


STARTS = (NOW - 90.0, NOW - 60.0, NOW - 30.0)
MESSAGES = st.lists(
    st.builds(alert, st.sampled_from("abc"), st.sampled_from(STARTS), firing=st.booleans()), max_size=12
)


@st.composite
def told(draw: st.DrawFn) -> list[Alert]:
    """Alerts each of which was said to fire before it was said to be over, in whatever order otherwise."""
    found: list[Alert] = []
    for one in draw(MESSAGES):
        begun = any((one.fingerprint, one.starts_at) == (other.fingerprint, other.starts_at) for other in found)
        found.append(one if begun else replace(one, firing=True))
    return found


@given(told(), st.data())
def test_what_is_said_again_changes_nothing(messages: list[Alert], data: st.DataObject) -> None:
    """Messages delivered more than once, the repetitions anywhere after their first."""
    repeated: list[Alert] = []
    for place, one in enumerate(messages):
        repeated += [one, *data.draw(st.lists(st.sampled_from(messages[: place + 1]), max_size=3))]
    assert after((), *repeated) == after((), *messages)


@given(told())
def test_one_message_says_what_many_say(messages: list[Alert]) -> None:
    """Of few alerts, whatever the order."""
    assert together((), *messages).known == after((), *messages)


@given(told())
def test_an_alert_fires_where_its_latest_time_is_not_said_to_be_over(messages: list[Alert]) -> None:
    """Whatever the order in which earlier times and later ones were told of."""
    latest = {
        one.fingerprint: max(m.starts_at for m in messages if m.fingerprint == one.fingerprint) for one in messages
    }
    over = {one.fingerprint for one in messages if not one.firing and one.starts_at == latest[one.fingerprint]}
    known = after((), *messages)
    assert {one.fingerprint for one in known if one.resolved_at is None} == latest.keys() - over
    assert {one.fingerprint: one.starts_at.timestamp() for one in known} == latest


@given(st.lists(st.builds(alert, st.integers(0, 80).map(str), firing=st.booleans()), max_size=120))
def test_a_status_never_holds_more_than_it_can_nor_one_alert_twice(messages: list[Alert]) -> None:
    """Or the API server would refuse it."""
    known = after((), *messages)
    assert len(known) <= MAX_ALERTS
    assert len({one.fingerprint for one in known}) == len(known)
