"""Blocks of time in which groups of pods are compared."""

import math
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from specloop_engine.blocks import Block, Blocks
from specloop_policy.gate import add
from specloop_policy.observation import Service
from tests.unit.rollout_workload.samples import Engine

GROUPS = {"canary": ["c"], "control": ["a", "b"]}


@dataclass
class Fleet:
    """Three engines that are looked at every quarter of a minute."""

    blocks: Blocks = field(default_factory=lambda: Blocks(100))
    engines: dict[str, Engine] = field(default_factory=lambda: {pod: Engine() for pod in "abc"})
    now: float = 1000.0

    def look(self, groups: dict[str, list[str]] = GROUPS) -> list[Block]:
        """Look at all of them; the blocks that have closed so far."""
        self.now += 15.0
        latest = {pod: engine.sample(self.now) for pod, engine in self.engines.items()}
        self.blocks.look(latest, groups, self.now)
        return self.blocks.closed

    def serve(self, **requests: float) -> "Fleet":
        """Let pods answer so many requests each."""
        for pod, count in requests.items():
            self.engines[pod].serve(count)
        return self


def test_the_first_look_is_where_counting_begins() -> None:
    """What pods did before is in no block."""
    fleet = Fleet().serve(a=100.0, b=100.0, c=100.0)
    assert fleet.look() == []
    assert fleet.look() == []  # nothing has ended since


def test_a_block_has_what_each_group_did_since_the_look_before() -> None:
    """Two pods of 10 requests beside one of 4: 20 and 4 of 101 tokens, and 20 and 4 s for those after the first."""
    fleet = Fleet()
    fleet.look()
    (block,) = fleet.serve(a=10.0, b=10.0, c=4.0).look()
    canary, control = block.services["canary"], block.services["control"]
    assert block.end == fleet.now
    assert (canary.finished_requests, canary.output_tokens) == (4.0, 404.0)
    assert (control.finished_requests, control.output_tokens) == (20.0, 2020.0)
    assert math.isclose(control.decode_seconds or 0.0, 20.0)
    assert block.loads == {"canary": 4.0, "control": 4.0}


def test_a_block_closes_when_requests_of_every_group_have_ended() -> None:
    """The control's 10 of the first quarter go into the block that the canary's first request closes."""
    fleet = Fleet()
    fleet.look()
    assert fleet.serve(a=10.0).look() == []
    (block,) = fleet.serve(a=10.0, c=1.0).look()
    assert block.services["control"].finished_requests == 20.0
    assert block.services["canary"].finished_requests == 1.0


def test_health_probes_close_no_block() -> None:
    """A canary that answers nothing but requests of one token is not measured."""
    fleet = Fleet()
    fleet.look()
    fleet.engines["c"].probes += 50.0
    assert fleet.serve(a=10.0).look() == []


def test_failures_close_a_block() -> None:
    """A canary on which everything fails must not be waited for."""
    fleet = Fleet()
    fleet.look()
    fleet.engines["c"].failed += 5.0
    (block,) = fleet.serve(a=10.0).look()
    assert block.services["canary"].failed_requests == 5.0


def test_what_a_process_did_across_a_restart_is_left_out() -> None:
    """Pod a answers 10 and starts anew: those are lost, and what the new one answers afterwards counts."""
    fleet = Fleet()
    fleet.look()
    fleet.serve(a=10.0, b=5.0, c=4.0)
    fleet.engines["a"] = Engine(start=1010.0)
    (first,) = fleet.look()
    assert first.services["control"].finished_requests == 5.0
    _, second = fleet.serve(a=7.0, b=5.0, c=4.0).look()
    assert second.services["control"].finished_requests == 12.0


def test_a_pod_that_is_not_heard_from_for_a_while_is_no_part_until_it_is_again() -> None:
    """Silent for one look, it begins anew: what it did meanwhile is not known to be of this block."""
    fleet = Fleet()
    fleet.look()
    silent = fleet.engines.pop("b")
    silent.serve(100.0)
    (first,) = fleet.serve(a=10.0, c=4.0).look()
    fleet.engines["b"] = silent
    _, second = fleet.serve(a=10.0, c=4.0).look()
    assert first.services["control"].finished_requests == 10.0
    assert second.services["control"].finished_requests == 10.0
    *_, third = fleet.serve(a=10.0, b=10.0, c=4.0).look()
    assert third.services["control"].finished_requests == 20.0


def test_a_sample_that_is_seen_twice_counts_once() -> None:
    """A source may give the same newest sample at two looks."""
    fleet = Fleet()
    fleet.look()
    (block,) = fleet.serve(a=10.0, b=10.0, c=4.0).look()
    latest = {pod: engine.sample(fleet.now) for pod, engine in fleet.engines.items()}
    fleet.blocks.look(latest, GROUPS, fleet.now + 15.0)
    assert fleet.blocks.closed == [block]


def test_load_is_the_batch_of_one_pod_in_the_mean() -> None:
    """Pods with 2 and 6 requests beside one with 8, over one look."""
    fleet = Fleet()
    fleet.look()
    for pod, running in {"a": 2.0, "b": 6.0, "c": 8.0}.items():
        fleet.engines[pod].running = running
    (block,) = fleet.serve(a=1.0, b=1.0, c=1.0).look()
    assert block.loads == {"canary": 8.0, "control": 4.0}


def test_a_group_without_pods_is_none() -> None:
    """With one replica there is only the canary, and its blocks close by themselves."""
    fleet = Fleet()
    fleet.look({"canary": ["c"]})
    (block,) = fleet.serve(c=4.0).look({"canary": ["c"]})
    assert set(block.services) == {"canary"}
    assert fleet.look({}) == [block]


def test_so_many_blocks_are_kept_and_those_since_a_time_can_be_asked_for() -> None:
    """Three of five, the newest."""
    fleet = Fleet(Blocks(3))
    fleet.look()
    for _ in range(5):
        fleet.serve(a=1.0, b=1.0, c=1.0).look()
    ends = [block.end for block in fleet.blocks.closed]
    assert ends == [fleet.now - 30.0, fleet.now - 15.0, fleet.now]
    assert [block.end for block in fleet.blocks.since(fleet.now - 15.0)] == [fleet.now]


@given(st.lists(st.tuples(*[st.integers(0, 3).map(float)] * 3), min_size=1, max_size=12))
def test_no_request_is_lost_or_counted_twice(rounds: list[tuple[float, float, float]]) -> None:
    """However requests fall on looks: the blocks and the one still open, closed by one request each, add up to all."""
    fleet = Fleet()
    fleet.look()
    for a, b, c in [*rounds, (1.0, 0.0, 1.0)]:
        fleet.serve(a=a, b=b, c=c).look()
    total = {group: add([block.services[group] for block in fleet.blocks.closed]) for group in GROUPS}
    assert total["canary"].finished_requests == sum(c for _, _, c in rounds) + 1.0
    assert total["control"].finished_requests == sum(a + b for a, b, _ in rounds) + 1.0
    assert all(isinstance(block.services["canary"], Service) for block in fleet.blocks.closed)
