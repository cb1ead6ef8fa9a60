"""The gate, figure by figure, with the arithmetic beside it."""

from collections.abc import Sequence
from typing import Any

import pytest

from specloop_policy.gate import Comparison, Evidence, GateVerdict, Result, add, failed_share, judge_gate
from specloop_policy.model import Gate
from specloop_policy.observation import Service
from tests.unit.rollout_workload.services import STEADY, against, blocks, seconds, served

PASS, FAIL, INCONCLUSIVE = Result.PASS, Result.FAIL, Result.INCONCLUSIVE


def judged(evidence: Evidence, *, min_requests: int = 60, speed: bool = True, **limits: int) -> GateVerdict:
    """The verdict under these limits, the gate's defaults otherwise."""
    return judge_gate(evidence, Gate(**limits), min_requests, speed=speed)


def figure(verdict: GateVerdict, name: str) -> Comparison | None:
    """One comparison by its name."""
    return next((one for one in verdict.comparisons if one.figure == name), None)


def result(verdict: GateVerdict, name: str) -> Result | None:
    """How one comparison came out; None where there is none."""
    found = figure(verdict, name)
    return None if found is None else found.result


def test_a_canary_that_serves_alike_passes_and_says_all_figures() -> None:
    """10 s / 1000 tokens are 10 ms, 20 s / 100 first tokens 200 ms, 10,100 / 100 requests 101 tokens."""
    verdict = judged(against(blocks()))
    assert verdict.result is PASS
    assert verdict.reason == (
        "time per output token 10.00 ms against 10.00 ms: +0.0 % (+0 to +0 %), at most +5 % is allowed; "
        "time to first token 200.00 ms against 200.00 ms: +0.0 % (+0 to +0 %), at most +20 % is allowed; "
        "0.0 % of requests failed against 0.0 %, 1 % are allowed; "
        "answers of 101 tokens against 101: +0.0 % (+0 to +0 %), 20 % is allowed; "
        "10 % of answers ran into their length limit against 10 %; "
        "prefix-cache hits 20 % against 20 %"
    )


class TestThreeBlocksByHand:
    """Canary blocks of 1.00, 1.01 and 1.02 s for 100 tokens each beside three of 1.00 s.

    Over all: 3.03 s / 300 against 3.00 s / 300, ratio 1.01, logarithm 0.00995.  One block left out each time:
    2.03, 2.02 and 2.01 s / 200 against 2.00 s / 200; logarithms 0.014889, 0.009950, 0.004988, mean 0.009942, squared
    distances 2.447e-5, 0, 2.455e-5.  Variance 2/3 · 4.902e-5 = 3.268e-5, its root 0.005717.  Two degrees of freedom:
    4.303 · 0.005717 = 0.02460.  From exp(0.00995 - 0.02460) = 0.9855 to exp(0.00995 + 0.02460) = 1.0352.
    """

    evidence = against(seconds(1.00, 1.01, 1.02), seconds(1.0, 1.0, 1.0))

    def test_the_sentence_has_ratio_and_interval(self) -> None:
        """-1.5 % to +3.5 %."""
        found = figure(judged(self.evidence), "time per output token")
        assert found is not None
        assert found.reason == (
            "time per output token 10.10 ms against 10.00 ms: +1.0 % (-1 to +4 %), at most +5 % is allowed"
        )

    @pytest.mark.parametrize(("limit", "expected"), [(2, INCONCLUSIVE), (3, INCONCLUSIVE), (4, PASS)])
    def test_it_passes_only_when_it_is_surely_no_slower(self, limit: int, expected: Result) -> None:
        """The upper end is 3.52 %."""
        assert result(judged(self.evidence, max_tpot_increase_percent=limit), "time per output token") is expected

    @pytest.mark.parametrize(("limit", "expected"), [(18, FAIL), (19, INCONCLUSIVE), (23, INCONCLUSIVE), (24, PASS)])
    def test_it_fails_only_when_it_is_surely_slower(self, limit: int, expected: Result) -> None:
        """Blocks of 1.20, 1.21, 1.22 s: ratio 1.21, logarithm 0.19062; left out 0.19474, 0.19062, 0.18648.

        Variance 2/3 · 3.415e-5 = 2.277e-5, root 0.004771, times 4.303: 0.02053.  From exp(0.17009) = 1.1854 to
        exp(0.21115) = 1.2351.
        """
        slower = against(seconds(1.20, 1.21, 1.22), seconds(1.0, 1.0, 1.0))
        assert result(judged(slower, max_tpot_increase_percent=limit), "time per output token") is expected

    def test_what_both_sides_share_is_no_noise(self) -> None:
        """The control's blocks of the same spans were as slow: the differences of all three are 0."""
        shared = against(seconds(1.00, 1.01, 1.02), seconds(1.00, 1.01, 1.02))
        found = figure(judged(shared, max_tpot_increase_percent=3), "time per output token")
        assert found is not None
        assert found.result is PASS
        assert "+0.0 % (+0 to +0 %)" in found.reason

    def test_before_and_after_share_nothing(self) -> None:
        """Two variances of 3.268e-5 add up: root 0.008085, times 4.303: 0.03479; exp of it 1.0354, of less 0.9658."""
        apart = against(seconds(1.00, 1.01, 1.02), seconds(1.00, 1.01, 1.02), paired=False)
        found = figure(judged(apart, max_tpot_increase_percent=3), "time per output token")
        assert found is not None
        assert found.result is INCONCLUSIVE
        assert "+0.0 % (-3 to +4 %)" in found.reason


def test_before_and_after_need_not_be_as_many() -> None:
    """The side of fewer blocks says how sure it is: three on one side are two degrees of freedom."""
    apart = against(seconds(1.00, 1.01, 1.02), seconds(*[1.0] * 40), paired=False)
    found = figure(judged(apart), "time per output token")
    assert found is not None
    assert "+1.0 % (-1 to +4 %)" in found.reason


def test_two_blocks_say_next_to_nothing() -> None:
    """1.00 and 1.01 s beside 1.00: left out 0.009950 and 0; variance 1/2 · 2 · 0.004975² = 2.475e-5, root 0.004975.

    One degree of freedom: 12.706 · 0.004975 = 0.06321, about 1.005: from 0.9435 to 1.0706.
    """
    found = figure(judged(against(seconds(1.00, 1.01), seconds(1.0, 1.0))), "time per output token")
    assert found is not None
    assert "+0.5 % (-6 to +7 %)" in found.reason


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two_blocks_say_nothing(count: int) -> None:
    """One block has no spread, however many requests it has."""
    verdict = judged(against(blocks(count, finished_requests=1000.0), blocks(count, finished_requests=1000.0)))
    assert verdict.result is INCONCLUSIVE
    assert "time per output token: not enough was measured to compare it" in verdict.reason


@pytest.mark.parametrize(("canary", "control"), [(59.0, 60.0), (60.0, 59.0)])
def test_too_few_requests_on_either_side_are_inconclusive(canary: float, control: float) -> None:
    """All figures alike, and 60 asked for on both sides: 20 in each of three blocks but for one request."""

    def side(total: float) -> tuple[Service, ...]:
        return (*blocks(2, finished_requests=20.0), served(finished_requests=total - 40.0))

    verdict = judged(Evidence(side(canary), side(control)))
    assert verdict.result is INCONCLUSIVE
    words = f"{canary:.0f} requests finished on the canary and {control:.0f} beside it, 60 each are asked for"
    assert words in verdict.reason


def test_as_many_requests_as_are_asked_for_are_enough() -> None:
    """Three blocks of 20."""
    verdict = judged(against(blocks(finished_requests=20.0), blocks(finished_requests=20.0)))
    assert verdict.result is PASS


def test_one_token_requests_are_no_requests_at_all() -> None:
    """A canary that only answers health probes has no finished request and no token after the first one."""
    probes = blocks(decode_seconds=0.0, decode_tokens=0.0, finished_requests=0.0, output_tokens=0.0)
    verdict = judged(against(probes))
    assert verdict.result is INCONCLUSIVE
    assert verdict.reason == (
        "0 requests finished on the canary and 300 beside it, 60 each are asked for; "
        "time per output token: not enough was measured to compare it"
    )


UNKNOWN: Sequence[tuple[str, str, Result | None]] = [
    ("decode_seconds", "time per output token", INCONCLUSIVE),
    ("decode_tokens", "time per output token", INCONCLUSIVE),
    ("first_token_seconds", "time to first token", None),
    ("first_tokens", "time to first token", None),
    ("output_tokens", "output length", None),
    ("length_requests", "finish reasons", None),
    ("failed_requests", "errors", None),
    ("cache_hits", "prefix cache", None),
]


@pytest.mark.parametrize(("field", "name", "expected"), UNKNOWN)
@pytest.mark.parametrize("side", ["canary", "control"])
def test_a_figure_that_an_engine_does_not_report_is_left_out_and_time_per_token_is_needed(
    field: str, name: str, expected: Result | None, side: str
) -> None:
    """Unknown in one block of one side is unknown; the other figures decide by themselves."""
    one = (served(**{field: None}), STEADY, STEADY)
    verdict = judged(against(one) if side == "canary" else against(blocks(), one))
    if field == "failed_requests" and side == "control":
        expected = PASS  # a canary without errors has none more than whatever the control had
    assert result(verdict, name) is expected
    assert verdict.result is (expected or PASS)


def test_no_tokens_in_all_blocks_but_one_say_nothing_of_time_per_token() -> None:
    """Leave that block out, and there is nothing to divide by."""
    lonely = (STEADY, *blocks(2, decode_seconds=0.0, decode_tokens=0.0))
    assert result(judged(against(lonely)), "time per output token") is INCONCLUSIVE


def test_time_to_first_token_has_a_limit_of_its_own() -> None:
    """+25 % is more than 20 % and fails; +15 % is not."""
    assert judged(against(blocks(first_token_seconds=25.0))).result is FAIL
    assert judged(against(blocks(first_token_seconds=23.0))).result is PASS


class TestErrors:
    """Wilson's interval at 95 %, z = 1.96, of requests that failed among all that ended.

    3 of 103: centre (0.02913 + 3.8415/206) / (1 + 3.8415/103) = 0.04606, half 1.96 · sqrt(0.02913 · 0.97087 / 103 +
    3.8415 / 42436) / 1.0373 = 0.03610: low 0.00995.
    4 of 104: centre (0.03846 + 3.8415/208) / (1 + 3.8415/104) = 0.05490, half 1.96 · sqrt(0.03846 · 0.96154 / 104 +
    3.8415 / 43264) / 1.0369 = 0.03985: low 0.01506.
    """

    @pytest.mark.parametrize(("failed", "expected"), [(0.0, PASS), (1.0, PASS), (3.0, INCONCLUSIVE), (4.0, FAIL)])
    def test_a_share_that_is_surely_above_the_limit_fails(self, failed: float, expected: Result) -> None:
        """Of 100 that finished; 1 % are allowed, and 1 of 101 is 0.99 %."""
        canary = (served(failed_requests=failed, finished_requests=100.0), *blocks(2, finished_requests=0.0))
        verdict = judged(Evidence(canary, blocks()))
        assert result(verdict, "errors") is expected

    def test_as_many_as_beside_it_are_allowed(self) -> None:
        """10 of 110 on both sides: it is the traffic, or whatever is behind both."""
        assert judged(against(blocks(failed_requests=10.0), blocks(failed_requests=10.0))).result is PASS

    def test_more_than_beside_it_are_not(self) -> None:
        """90 of 390 against 30 of 330: low end 19 % > 9 %."""
        verdict = judged(against(blocks(failed_requests=30.0), blocks(failed_requests=10.0)))
        assert verdict.result is FAIL
        assert verdict.reason == "23.1 % of requests failed against 9.1 %, 1 % are allowed"

    def test_a_canary_on_which_all_fail_is_not_kept_open_for_want_of_requests(self) -> None:
        """None finished, 100 failed: the low end is 100 / (100 + 3.84) = 96 %."""
        broken = blocks(finished_requests=0.0, failed_requests=100.0, decode_seconds=0.0, decode_tokens=0.0)
        assert judged(against(broken)).result is FAIL

    def test_no_request_at_all_is_no_share(self) -> None:
        """Nothing ended; what is unknown of either count is unknown of both."""
        assert failed_share(served(finished_requests=0.0)) is None
        assert failed_share(served(failed_requests=None)) is None
        assert failed_share(served(finished_requests=None)) is None
        assert failed_share(served(finished_requests=75.0, failed_requests=25.0)) == 0.25


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [(2000.0, FAIL), (7900.0, FAIL), (8200.0, PASS), (10_000.0, PASS), (11_900.0, PASS), (12_200.0, FAIL)],
)
def test_answers_may_be_neither_shorter_nor_longer(tokens: float, expected: Result) -> None:
    """20 % either way of 10,100 tokens in 100 requests: 8,080 to 12,120, though every token comes faster."""
    verdict = judged(against(blocks(output_tokens=tokens, decode_seconds=50.0)))
    assert result(verdict, "output length") is expected
    assert verdict.result is expected


def test_lengths_that_vary_too_much_are_inconclusive() -> None:
    """Three blocks of 5,000, 10,000 and 15,000 tokens: two degrees of freedom are not sure of 20 %."""
    varied = tuple(served(output_tokens=tokens) for tokens in (5000.0, 10_000.0, 15_000.0))
    assert result(judged(against(varied)), "output length") is INCONCLUSIVE


@pytest.mark.parametrize(("cut", "expected"), [(29.0, PASS), (31.0, FAIL)])
def test_answers_that_run_into_their_limit_where_the_others_end_are_loops(cut: float, expected: Result) -> None:
    """10 % do beside it, and 20 points more are allowed."""
    verdict = judged(against(blocks(length_requests=cut)))
    assert result(verdict, "finish reasons") is expected
    assert f"{cut:.0f} % of answers ran into their length limit against 10 %" in verdict.reason


def test_a_rise_of_answers_cut_that_is_not_sure_is_not_waited_for() -> None:
    """0, 10 and 80 of 100 against 10: the mean is 20 points more, and three blocks are not sure of it."""
    varied = tuple(served(length_requests=cut) for cut in (0.0, 10.0, 80.0))
    assert result(judged(against(varied)), "finish reasons") is PASS


def test_a_level_that_was_asked_for_is_not_held_up_by_its_speed() -> None:
    """Twice as slow passes with its figures said; errors still fail it."""
    slow: dict[str, Any] = {"decode_seconds": 200.0, "first_token_seconds": 40.0}
    verdict = judged(against(blocks(**slow)), speed=False)
    assert verdict.result is PASS
    assert "time per output token 20.00 ms against 10.00 ms: +100.0 %" in verdict.reason
    assert judged(against(blocks(**slow, failed_requests=30.0)), speed=False).result is FAIL
    assert judged(against(blocks(decode_tokens=None)), speed=False).result is PASS


@pytest.mark.parametrize(
    ("figures", "alone"),
    [
        ({"decode_seconds": 200.0}, True),
        ({"first_token_seconds": 40.0}, True),
        ({"decode_seconds": 200.0, "first_token_seconds": 40.0}, True),
        ({"decode_seconds": 200.0, "failed_requests": 30.0}, False),
        ({"output_tokens": 2000.0}, False),
        ({}, False),
    ],
)
def test_it_is_told_whether_speed_alone_fails_it(figures: dict[str, Any], alone: bool) -> None:
    """Speed is the traffic's doing too; errors and short answers are the level's."""
    assert judged(against(blocks(**figures))).on_speed_alone is alone


def test_what_fails_is_said_alone_and_before_what_is_open() -> None:
    """The load is open, answers of a fifth fail."""
    verdict = judged(against(blocks(output_tokens=2020.0), paired=False, load=(10.0, 1.0)))
    assert verdict.result is FAIL
    assert verdict.reason == "answers of 20 tokens against 101: -80.0 % (-80 to -80 %), 20 % is allowed"


@pytest.mark.parametrize(
    ("ended", "generated", "expected"),
    [
        (7_000.0, 10_100.0, INCONCLUSIVE),  # the short ones have ended, the long ones are under way
        (7_000.0, 7_500.0, FAIL),  # all that came out is too little
        (10_100.0, 25_000.0, INCONCLUSIVE),  # what goes on and on has not ended yet
        (13_000.0, 25_000.0, FAIL),  # and now it has
        (13_000.0, 10_100.0, INCONCLUSIVE),
        (10_100.0, 11_000.0, PASS),
    ],
)
def test_harm_to_answers_is_what_ended_and_all_that_came_out_both_show(
    ended: float, generated: float, expected: Result
) -> None:
    """20 % of 10,100 tokens a block are allowed: from 8,080 to 12,120."""
    canary = blocks(output_tokens=ended, generated_tokens=generated)
    verdict = judged(against(canary, blocks(generated_tokens=10_100.0)))
    assert result(verdict, "output length") is expected


def test_what_is_under_way_is_said_while_it_keeps_the_verdict_open() -> None:
    """25,000 / 10,100 is 2.475."""
    canary = blocks(generated_tokens=25_000.0)
    verdict = judged(against(canary, blocks(generated_tokens=10_100.0)))
    assert verdict.reason == (
        "answers of 101 tokens against 101: +0.0 % (+0 to +0 %), 20 % is allowed; "
        "with those under way +147.5 % (+148 to +148 %)"
    )


def test_a_few_requests_prove_no_harm_either() -> None:
    """Two blocks may agree by chance: a failure waits for as many requests as a success."""
    verdict = judged(against(blocks(output_tokens=2020.0)), min_requests=1000)
    assert verdict.result is INCONCLUSIVE
    assert "answers of 20 tokens" in verdict.reason


@pytest.mark.parametrize(("after", "before", "alike"), [(8.0, 10.0, True), (7.9, 10.0, False), (10.0, 7.9, False)])
def test_before_and_after_are_compared_at_a_similar_load_alone(after: float, before: float, alike: bool) -> None:
    """Within a fifth of the larger: 10 - 8 = 2 = 0.2 · 10 is, 10 - 7.9 is not."""
    verdict = judged(against(blocks(), paired=False, load=(after, before)))
    assert verdict.result is (PASS if alike else INCONCLUSIVE)
    if not alike:
        words = (
            f"the load is another than before the change: {after:.1f} requests in a pod's batch, {before:.1f} before"
        )
        assert verdict.reason == words


def test_cache_hits_and_preemptions_explain_and_decide_nothing() -> None:
    """No hit at all where the others have 20 %, and half a preemption a request where they have none."""
    verdict = judged(against(blocks(cache_hits=0.0, preemptions=50.0)))
    assert verdict.result is PASS
    assert "prefix-cache hits 0 % against 20 %" in verdict.reason
    assert "preemptions per request 0.50 against 0.00" in verdict.reason


def test_acceptance_and_the_gap_between_output_events_are_no_figures() -> None:
    """Neither is a quantity of what is compared, so that neither can decide."""
    names = " ".join(Service.__slots__)
    assert "accept" not in names
    assert "inter" not in names


class TestSums:
    """Parts of a block, pod by pod and look by look."""

    def test_known_figures_add_up(self) -> None:
        """Twice as much of everything."""
        total = add([STEADY, STEADY])
        assert (total.decode_seconds, total.finished_requests, total.failed_requests) == (200.0, 200.0, 0.0)

    def test_what_one_part_does_not_know_is_not_known_of_the_sum(self) -> None:
        """The rest is."""
        total = add([STEADY, served(cache_hits=None)])
        assert (total.cache_hits, total.cache_queries) == (None, 100_000.0)

    def test_of_nothing_nothing_is_known(self) -> None:
        """Unknown and zero are different things."""
        assert add([]) == Service()
