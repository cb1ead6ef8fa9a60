"""A loop that is silent for too long is named; readiness waits for what was promised."""

from specloop_operator.pulse import Pulse, Readiness
from tests.support.fakes import ManualClock


def pulse() -> tuple[Pulse, ManualClock]:
    """A pulse whose time is moved by hand."""
    clock = ManualClock(1000.0)
    return Pulse(clock.now), clock


def test_a_loop_that_beats_in_time_is_alive() -> None:
    """The limit itself is still in time."""
    heart, clock = pulse()
    heart.expect("the ticks", 60.0)
    for _ in range(5):
        clock.time += 60.0
        assert heart.stalled() == ()
        heart.beat("the ticks")


def test_a_loop_that_is_silent_too_long_is_named_with_silence_and_limit() -> None:
    """95 s of silence where 60 s are allowed, while the other loop goes on."""
    heart, clock = pulse()
    heart.expect("the ticks", 60.0)
    heart.expect("the watch of pods", 60.0)
    clock.time += 50.0
    heart.beat("the watch of pods")
    clock.time += 45.0
    assert heart.stalled() == ("the ticks: stalled, not heard of for 95 s (limit 60 s)",)


def test_a_loop_that_never_begins_is_stalled_too() -> None:
    """It is expected from the moment that it was announced."""
    heart, clock = pulse()
    heart.expect("the ticks", 60.0)
    clock.time += 61.0
    assert len(heart.stalled()) == 1


def test_a_loop_that_comes_back_is_alive_again() -> None:
    """A stall is no verdict for ever."""
    heart, clock = pulse()
    heart.expect("the ticks", 60.0)
    clock.time += 600.0
    heart.beat("the ticks")
    assert heart.stalled() == ()


def test_a_loop_that_was_released_may_be_silent() -> None:
    """An operator that does not lead does not tick; a late beat of it changes nothing."""
    heart, clock = pulse()
    heart.expect("the ticks", 60.0)
    heart.release("the ticks")
    heart.release("the ticks")
    heart.beat("the ticks")
    clock.time += 600.0
    assert heart.stalled() == ()


def test_ready_means_that_everything_awaited_happened() -> None:
    """In whatever order; twice is no more than once."""
    readiness = Readiness("the caches", "the first ticks")
    assert list(readiness.missing) == ["the caches", "the first ticks"]
    readiness.done("the first ticks")
    readiness.done("the first ticks")
    assert list(readiness.missing) == ["the caches"]
    readiness.done("the caches")
    assert not readiness.missing
