"""What faults make of requests."""

import pytest

from specloop_sim.request import Finish, Request
from specloop_sim.serve.faults import Faults


@pytest.mark.parametrize(("asked", "factor", "given"), [(70, 0.25, 18), (100, 0.2, 20), (3, 0.2, 1)])
def test_a_shortened_answer_ends_by_itself_after_its_share_of_tokens(asked: int, factor: float, given: int) -> None:
    """70 x .25 = 17.5 and 3 x .2 = .6, to the nearest; half goes to the even one."""
    request = Request("r", 0.0, 10, asked, finish=Finish.LENGTH, max_tokens=asked)
    found = Faults(output_factor=factor).shortened(request)
    assert (found.output_tokens, found.finish, found.max_tokens) == (given, Finish.STOP, asked)


def test_an_answer_that_is_not_shorter_ends_as_it_would_have() -> None:
    probe = Request("r", 0.0, 10, 1, finish=Finish.LENGTH, max_tokens=1)
    assert Faults(output_factor=0.2).shortened(probe) == probe
    assert Faults().shortened(probe) == probe


def test_the_share_of_failing_requests_is_the_one_asked_for_and_the_same_at_every_call() -> None:
    """Of 4,000 requests 25 %: 1,000, with a standard deviation of sqrt(4000 x .25 x .75) = 27."""
    faults = Faults(error_share=0.25)
    failing = [faults.fails(7, f"r{number}") for number in range(4000)]
    assert sum(failing) == pytest.approx(1000, abs=5 * 27)
    assert failing == [faults.fails(7, f"r{number}") for number in range(4000)]


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_no_request_or_every_one_fails_when_told_so(share: float) -> None:
    faults = Faults(error_share=share)
    assert {faults.fails(0, f"r{number}") for number in range(1000)} == {share == 1.0}
