"""K by batch: what it is at a batch, and edges where the batch usually is."""

import json
from dataclasses import replace

import pytest

from specloop_policy.batch_edges import edge_failures, usual_batch
from specloop_policy.decision import ActionName, Inputs, Override
from specloop_policy.ladder import DISABLED, Drafter, Ladder, Level, Method
from specloop_policy.model import SpecPolicySpec
from specloop_policy.observation import Outcome, Window
from specloop_policy.policy import resolve
from specloop_policy.step import fresh, step
from tests.support.policies import TARGET
from tests.support.windows import constant, measured, observe

SMALL = Drafter("small", Method.DRAFT_MODEL, "small")
RANGED = Level("k5", SMALL, 5, ((9, 2), (65, 0)))
LADDER = Ladder((RANGED, Level("k3", SMALL, 3), DISABLED))


def at(*running: float | None) -> list[Window]:
    """Windows with these mean batches."""
    return [replace(measured(constant(0.5, 3)), running=one) for one in running]


@pytest.mark.parametrize(("requests", "tokens"), [(0.0, 5), (8.9, 5), (9.0, 2), (64.0, 2), (65.0, 0), (1e6, 0)])
def test_k_is_that_of_the_range_which_the_batch_is_in(requests: float, tokens: int) -> None:
    assert RANGED.tokens_at(requests) == tokens


def test_a_level_without_ranges_has_one_k() -> None:
    assert Level("k3", SMALL, 3).tokens_at(1000.0) == 3
    assert Level("k3", SMALL, 3).table(256) == ((1, 256, 3),)


def test_a_table_has_no_gap_and_ends_where_it_is_told() -> None:
    assert RANGED.table(256) == ((1, 8, 5), (9, 64, 2), (65, 256, 0))
    assert RANGED.table(16) == ((1, 8, 5), (9, 16, 2))


def test_the_usual_batch_sways_by_its_root_about_the_means_of_windows() -> None:
    """4 - 2 and 16 + 4; of ten windows the outermost on either side are rare."""
    assert usual_batch(at(4.0, 16.0)) == (2.0, 20.0)
    assert usual_batch(at(0.0, *[9.0] * 8, 100.0)) == (6.0, 12.0)
    assert usual_batch(at(None)) is None
    assert usual_batch([replace(one, outcome=Outcome.STALLED) for one in at(9.0)]) is None


@pytest.mark.parametrize(
    ("running", "refused"),
    [
        (2.0, False),  # up to 3.4
        (6.0, False),  # up to 8.4
        (7.0, True),  # up to 9.6
        (12.0, True),  # from 8.5
        (16.0, False),  # from 12 to 20
        (49.0, False),  # up to 56
        (60.0, True),  # up to 67.7
    ],
)
def test_an_edge_where_the_batch_usually_is_keeps_a_level_out_of_reach(running: float, refused: bool) -> None:
    """Edges at 9 and 65 requests."""
    found = edge_failures(LADDER, at(running), Inputs(keys=(("k5", "key"),)))
    assert [(one.level, one.key, one.untried) for one in found] == ([("k5", "key", True)] if refused else [])


def test_the_reason_names_the_edge_and_the_batch() -> None:
    [found] = edge_failures(LADDER, at(9.0), Inputs())
    assert found.reason.startswith("its K changes at 9 requests, and the batch usually has 6 to 12")


SPEC = {
    "targetRef": TARGET,
    "mode": "Enforce",
    "drafters": [{"name": "small", "method": "draft_model", "model": "small"}],
    "levels": [
        {
            "name": "k5",
            "drafter": "small",
            "tokens": 5,
            "tokensByBatch": [{"fromRequests": 9, "tokens": 2}, {"fromRequests": 65, "tokens": 0}],
        },
        {"name": "k3", "drafter": "small", "tokens": 3},
        {"name": "disabled"},
    ],
}


@pytest.mark.parametrize("running", [9.0, 16.0])
def test_nobody_gets_to_a_level_whose_edge_is_where_the_batch_is(running: float) -> None:
    """A person asks for it; nothing of the refusal is remembered, for the batch may be another at the next look."""
    policy = resolve("chat", SpecPolicySpec.model_validate_json(json.dumps(SPEC)))
    assert policy.ladder == LADDER
    windows = [replace(one, level="k3") for one in at(running)]
    wish = Inputs(override=Override("k5", by="ada"))
    decision, state = step(policy, fresh("k3", -1e6), observe(policy.ladder, "k3", windows), wish, 300.0)
    if running == 9.0:
        assert decision.action is ActionName.HOLD
        assert "k5 is out of reach: its K changes at 9 requests" in decision.reason
    else:
        assert decision.level == "k5"
    assert state.quarantine == ()
