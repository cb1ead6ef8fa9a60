"""Requests out of traces and workloads: shares as weighted, phases on the clock, the same for everyone."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from specloop_sim.request import Request
from specloop_sim.text import Kind
from specloop_sim.traces.trace import Trace
from specloop_sim.traffic import ConcurrentClients, phase_spans, requests_of, synthetic_trace
from specloop_sim.workload import Workload, WorkloadError, load_workload, shipped_workloads, workload_named

COUNT = 20_000
SHARE = 0.02
"""Five standard deviations of a share of one half over 20,000 requests: 5 x sqrt(.25 / 20,000) = .018."""


def trace(count: int = COUNT, every: float = 1.0) -> Trace:
    numbers = np.arange(count, dtype=np.int64)
    return Trace("t", every * numbers.astype(np.float64), numbers % 5 + 1, numbers % 3 + 1)


def workload(phases: str, rest: str = "") -> Workload:
    return load_workload(f"name: x\nphases:\n{phases}\n{rest}", "x.yaml")


def share(requests: list[Request], kind: Kind) -> float:
    return Counter(request.kind for request in requests)[kind] / len(requests)


TWO = """
- {name: cool, kinds: {prose: 1}, temperatures: {"0.2": 1}}
- {name: hot, startPercent: 50, temperatures: {"0.9": 1}}
"""


def test_a_trace_keeps_its_arrivals_and_lengths() -> None:
    requests = requests_of(trace(7), workload_named("steady"), 1)
    assert [one.id for one in requests] == ["r0", "r1", "r2", "r3", "r4", "r5", "r6"]
    assert [one.arrival for one in requests] == [0, 1, 2, 3, 4, 5, 6]
    assert [one.prompt_tokens for one in requests] == [1, 2, 3, 4, 5, 1, 2]
    assert [one.output_tokens for one in requests] == [1, 2, 3, 1, 2, 3, 1]
    assert {(one.kind, one.temperature) for one in requests} == {(Kind.PROSE, 0.2)}


def test_kinds_and_temperatures_have_their_weights_and_are_drawn_apart() -> None:
    mix = workload('- {name: a, kinds: {chat: 30, prose: 10, repetition: 0}, temperatures: {"0.0": 1, "1.0": 1}}')
    requests = requests_of(trace(), mix, 1)
    assert share(requests, Kind.CHAT) == pytest.approx(0.75, abs=SHARE)
    assert share(requests, Kind.REPETITION) == 0
    hot = [one for one in requests if one.temperature == 1.0]
    assert len(hot) / COUNT == pytest.approx(0.5, abs=SHARE)
    assert share(hot, Kind.CHAT) == pytest.approx(0.75, abs=SHARE)


def test_a_phase_without_ramp_sets_in_at_its_moment_and_keeps_what_it_leaves_out() -> None:
    requests = requests_of(trace(101), workload(TWO), 1)  # 100 s long: hot from 50 s on
    assert [one.temperature for one in requests] == [0.2] * 50 + [0.9] * 51
    assert {one.kind for one in requests} == {Kind.PROSE}


def test_over_a_ramp_the_share_of_the_new_phase_rises_evenly() -> None:
    ramp = workload(TWO.replace("startPercent: 50", "startPercent: 20, rampPercent: 40"))
    heats = [one.temperature == 0.9 for one in requests_of(trace(), ramp, 1)]
    tenths = [np.mean(part) for part in np.array_split(heats, 10)]
    # 0 before 20 %; the chance rises by a quarter in each tenth, so .125 on average in the first of them
    expected = [0, 0, 0.125, 0.375, 0.625, 0.875, 1, 1, 1, 1]
    assert tenths == pytest.approx(expected, abs=0.05)  # 2,000 requests each: 5 sigma are .055 at most


def test_profiles_come_and_go_with_their_phases() -> None:
    phases = TWO.replace("startPercent: 50", "startPercent: 25, acceptance: p") + (
        "- {name: still, startPercent: 50, temperatures: {'0.1': 1}}\n"
        "- {name: back, startPercent: 75, acceptance: null}\n"
    )
    requests = requests_of(trace(101), workload(phases, "acceptance: {p: {factor: {eagle: 0.5}}}"), 1)
    names = [one.profile.name if one.profile else None for one in requests]
    assert names == [None] * 25 + ["p"] * 50 + [None] * 26
    assert len({id(one.profile) for one in requests}) == 2


def test_a_request_depends_on_seed_and_number_alone() -> None:
    mixed = workload_named("mixed")
    whole, part = requests_of(trace(), mixed, 1), requests_of(trace(500), mixed, 1)
    assert whole[:500] == part
    other = requests_of(trace(500), mixed, 2)
    assert [one.temperature for one in part] != [one.temperature for one in other]


def test_phases_that_do_not_fit_the_trace_are_refused() -> None:
    late = workload(TWO.replace("startPercent: 50", "startSeconds: 1800"))
    with pytest.raises(WorkloadError, match="phase hot begins at 1800 s, and the traffic ends at 100 s; mend"):
        requests_of(trace(101), late, 1)
    crossed = workload(TWO + "- {name: third, startSeconds: 40}\n")
    with pytest.raises(WorkloadError, match="phase third begins at 40 s, and hot at 50 s"):
        requests_of(trace(101), crossed, 1)


def test_spans_of_phases_join_each_other() -> None:
    assert phase_spans(workload(TWO), 80.0) == (("cool", 0.0, 40.0), ("hot", 40.0, 80.0))


TRAFFIC = "traffic: {seconds: 4000, requestsPerSecond: 5, promptTokens: 400, outputTokens: 200}"


def test_synthetic_traffic_has_the_rate_and_the_mean_lengths_asked_for() -> None:
    made = synthetic_trace(workload(TWO, TRAFFIC), 1)
    assert len(made) == pytest.approx(20_000, abs=5 * 20_000**0.5)
    # Poisson: the gaps' deviation is their mean.  Lognormal of sigma .99: deviation 1.29 x mean, so 5 sigma of 20,000
    # are 5 x 1.29 / sqrt(20,000) = 4.6 % of the mean; mean over median is exp(.99^2 / 2) = 1.63.
    gaps = np.diff(made.arrivals)
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.05)
    for tokens, mean in ((made.prompt_tokens, 400), (made.output_tokens, 200)):
        assert tokens.mean() == pytest.approx(mean, rel=0.046)
        assert tokens.mean() / np.median(tokens) == pytest.approx(1.63, rel=0.06)
    assert abs(np.corrcoef(made.prompt_tokens, made.output_tokens)[0, 1]) < 0.05
    assert made.arrivals[0] == 0.0
    assert (gaps >= 0).all()


def test_load_times_the_rate_with_its_ramp() -> None:
    phases = TWO.replace("startPercent: 50", "startPercent: 40, rampPercent: 20, load: 3")
    made = synthetic_trace(workload(phases, TRAFFIC), 1)
    counts = np.histogram(made.arrivals, bins=[0, 1600, 2400, 4000])[0]
    # 5/s for 1,600 s; from 5 to 15/s, 10 on average, for 800 s; 15/s for 1,600 s
    for count, expected in zip(counts, (8000, 8000, 24_000), strict=True):
        assert count == pytest.approx(expected, abs=5 * expected**0.5)


def test_a_load_of_nothing_is_silence() -> None:
    made = synthetic_trace(workload(TWO.replace("startPercent: 50", "startPercent: 50, load: 0"), TRAFFIC), 1)
    assert made.seconds < 2000
    silent = workload("- {name: a, kinds: {chat: 1}, temperatures: {'0.0': 1}, load: 0}", TRAFFIC)
    with pytest.raises(WorkloadError, match="nothing arrives in 4000 s; raise the rate"):
        synthetic_trace(silent, 1)


def test_the_same_seed_makes_the_same_trace_and_another_a_different_one() -> None:
    first, same, other = (synthetic_trace(workload(TWO, TRAFFIC), seed) for seed in (1, 1, 2))
    assert (first.arrivals == same.arrivals).all()
    assert (first.output_tokens == same.output_tokens).all()
    assert len(first) != len(other)


def test_a_start_time_makes_the_trace_begin_there() -> None:
    """1767571200 is 2026-01-05T00:00:00Z, by `date -d 2026-01-05T00:00:00Z +%s`."""
    made = synthetic_trace(workload(TWO, TRAFFIC[:-1] + ', startTime: "2026-01-05T01:00:00+01:00"}'), 1)
    assert made.start == pytest.approx(1767571200, abs=10)


def test_without_traffic_there_is_no_synthetic_trace() -> None:
    with pytest.raises(WorkloadError, match="workload x has no traffic; give a trace"):
        synthetic_trace(workload(TWO), 1)


@pytest.mark.parametrize("name", shipped_workloads())
def test_what_is_shipped_makes_traffic_and_fits_a_trace_of_minutes(name: str) -> None:
    shipped = workload_named(name)
    assert len(requests_of(trace(600), shipped, 1)) == 600
    made = synthetic_trace(shipped, 1)
    assert 5000 < len(made) < 100_000
    assert made.prompt_tokens.max() + made.output_tokens.max() < 131_072


def test_clients_keep_their_number_under_way_and_begin_the_trace_again() -> None:
    clients = ConcurrentClients(trace(4), workload_named("steady"), 3, seed=1)
    first = clients.arrivals(0.0, 1.0, 0)
    assert clients.arrivals(1.0, 2.0, 3) == []
    later = clients.arrivals(2.0, 3.0, 0)
    assert [one.id for one in first + later] == ["r0", "r1", "r2", "r3", "r4", "r5"]
    assert [one.arrival for one in first + later] == [0, 0, 0, 2, 2, 2]
    assert [one.prompt_tokens for one in first + later] == [1, 2, 3, 4, 1, 2]


def test_for_clients_phases_go_by_the_clock() -> None:
    clients = ConcurrentClients(trace(4), workload(TWO), 1, seed=1, seconds=100.0)
    heats = [one.temperature for moment in range(100) for one in clients.arrivals(moment, moment + 1.0, 0)]
    assert heats == [0.2] * 50 + [0.9] * 50


def test_clients_send_the_same_requests_as_the_trace_where_phases_do_not_change() -> None:
    mixed = workload_named("mixed")
    clients = ConcurrentClients(trace(3000), mixed, 700, seed=5)
    sent = [one for moment in range(4) for one in clients.arrivals(moment, moment + 1.0, 0)]
    expected = requests_of(trace(3000), mixed, 5)[:2800]
    assert [(one.id, one.kind, one.temperature) for one in sent] == [
        (one.id, one.kind, one.temperature) for one in expected
    ]
    assert all(first.arrival <= second.arrival for first, second in pairwise(sent))
