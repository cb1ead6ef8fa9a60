"""Several processes: which of them is to run what, and in which order they are changed."""

from hypothesis import given
from hypothesis import strategies as st

from specloop_policy.rollout import next_pod, placement

LEVELS = ("k5", "k3", "ngram", "disabled")
levels = st.sampled_from(LEVELS)
pods = st.lists(st.text("abc", min_size=1, max_size=3), unique=True, max_size=6)


def test_all_pods_are_to_run_the_level() -> None:
    assert placement(["a", "b", "c"], "k3", None) == {"a": "k3", "b": "k3", "c": "k3"}


def test_a_probe_is_for_the_first_pod_alone() -> None:
    assert placement(["a", "b", "c"], "disabled", "ngram") == {"a": "ngram", "b": "disabled", "c": "disabled"}


def test_a_probe_of_the_only_pod_takes_that() -> None:
    assert placement(["a"], "disabled", "ngram") == {"a": "ngram"}


def test_no_pods_are_to_run_nothing() -> None:
    assert placement([], "k3", "k5") == {}


def test_pods_are_changed_in_their_order() -> None:
    wanted = placement(["b", "a", "c"], "k3", None)
    assert next_pod({"a": "k5", "b": "k5", "c": "k5"}, wanted) == "b"
    assert next_pod({"a": "k5", "b": "k3", "c": "k5"}, wanted) == "a"
    assert next_pod({"a": "k3", "b": "k3", "c": "k5"}, wanted) == "c"
    assert next_pod({"a": "k3", "b": "k3", "c": "k3"}, wanted) is None


def test_a_pod_of_which_nothing_is_known_is_changed() -> None:
    assert next_pod({"a": "k3"}, {"a": "k3", "b": "k3"}) == "b"


def test_a_pod_that_nobody_asked_about_is_left_alone() -> None:
    assert next_pod({"a": "k3", "old": "k5"}, {"a": "k3"}) is None


@given(pods, st.data())
def test_a_rollout_changes_every_pod_that_needs_it_once_and_no_other(names: list[str], data: st.DataObject) -> None:
    running = {name: data.draw(levels) for name in names}
    wanted = placement(names, data.draw(levels), data.draw(st.none() | levels))
    needed = [name for name in names if running[name] != wanted[name]]
    changed = []
    while (name := next_pod(running, wanted)) is not None:
        changed.append(name)
        running[name] = wanted[name]
    assert changed == needed
    assert running == wanted


@given(pods, st.data())
def test_a_failed_rollout_is_taken_back_pod_by_pod(names: list[str], data: st.DataObject) -> None:
    """However far a roll-out came, asking for what ran before brings it all back, and touches nothing else."""
    before = {name: data.draw(levels) for name in names}
    wanted = placement(names, data.draw(levels), None)
    running = dict(before)
    for _ in range(data.draw(st.integers(0, len(names)))):
        if (name := next_pod(running, wanted)) is not None:
            running[name] = wanted[name]
    came_far = [name for name in names if running[name] != before[name]]
    back = []
    while (name := next_pod(running, before)) is not None:
        back.append(name)
        running[name] = before[name]
    assert back == came_far
    assert running == before
