"""The engine model, which computes many steps at once, against the plain loop over steps."""

import pytest

from specloop_policy.ladder import Level
from specloop_sim.course import Drafting
from specloop_sim.engine import EngineModel
from specloop_sim.profile import Profile
from specloop_sim.request import Finished, Request
from tests.unit.sim.levels import DISABLED, EAGLE_K3, K5, LARGE, NGRAM, SMALL, requests
from tests.unit.sim.naive import run


@pytest.mark.parametrize("max_num_seqs", [1, 4, 64])
@pytest.mark.parametrize(
    ("profile", "level"), [(SMALL, DISABLED), (SMALL, EAGLE_K3), (LARGE, K5), (LARGE, NGRAM)], ids=lambda it: it.name
)
def test_first_and_last_tokens_come_when_the_loop_over_steps_has_them(
    profile: Profile, level: Level, max_num_seqs: int
) -> None:
    asked = requests(120, per_second=6.0)
    expected = run(profile, Drafting(level, 7), asked, max_num_seqs)
    found = {one.request.id: one for one in served(profile, level, asked, max_num_seqs)}
    assert found.keys() == expected.keys()
    for name, one in expected.items():
        assert found[name].first_token == pytest.approx(one.first_token, rel=1e-9)
        assert found[name].end == pytest.approx(one.end, rel=1e-9)


@pytest.mark.parametrize("slice_seconds", [0.003, 0.5, 40.0])
def test_results_do_not_depend_on_the_slices_in_which_it_is_advanced(slice_seconds: float) -> None:
    asked = requests(100, per_second=6.0)
    whole = served(LARGE, K5, asked, 16)
    engine = EngineModel(LARGE, K5, seed=7, max_num_seqs=16)
    waiting, found, now = list(asked), list[Finished](), 0.0
    while not engine.idle or waiting:
        now += slice_seconds
        while waiting and waiting[0].arrival <= now:
            engine.submit(waiting.pop(0))
        engine.advance(now)
        found += engine.finished()
    assert found == whole


def served(profile: Profile, level: Level, asked: list[Request], max_num_seqs: int) -> list[Finished]:
    engine = EngineModel(profile, level, seed=7, max_num_seqs=max_num_seqs)
    for request in asked:
        engine.submit(request)
    engine.advance(1e9)
    return engine.finished()
