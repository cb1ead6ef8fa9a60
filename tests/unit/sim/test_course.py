"""The course of a request: luck by name, the same for all levels, to the last token."""

import numpy as np
import pytest

from specloop_policy.ladder import DISABLED, Level
from specloop_sim.course import Drafting, course_of, courses_of
from specloop_sim.request import Request
from specloop_sim.text import Kind, match_share, survival
from tests.unit.sim.levels import DRAFT, EAGLE_K3, K3, K5, LOOKUP, NGRAM

LEVELS = pytest.mark.parametrize("level", [EAGLE_K3, K3, K5, NGRAM], ids=lambda level: level.name)


def request(name: str = "r", output: int = 200, temperature: float = 0.0, kind: Kind = Kind.CHAT) -> Request:
    return Request(name, 0.0, 10, output, temperature, kind)


def accepted(level: Level, one: Request, *, clustering: bool = True) -> list[int]:
    """Drafts accepted by step, -1 where none was made."""
    course = course_of(one, Drafting(level, 0, clustering))
    assert course.rejected is not None
    return [level.tokens - int(drafts) for drafts in course.rejected]


@LEVELS
@pytest.mark.parametrize("output", [1, 2, 3, 50, 999])
def test_a_course_yields_exactly_the_tokens_of_the_answer(level: Level, output: int) -> None:
    course = course_of(request(output=output), Drafting(level, 0))
    assert course.emitted[0] == 1
    assert course.emitted[-1] == output
    assert (np.diff(course.emitted) >= 1).all()
    assert (np.diff(course.emitted) <= level.tokens + 1).all()


@pytest.mark.parametrize("level", [DISABLED, EAGLE_K3, K3, K5, NGRAM], ids=lambda level: level.name)
@pytest.mark.parametrize("clustering", [True, False])
def test_many_courses_at_once_are_those_of_each_alone(level: Level, clustering: bool) -> None:
    drafting = Drafting(level, 4, clustering)
    asked = [
        request(f"r{number}", 1 + (37 * number) % 300, number % 3 / 2.0, list(Kind)[number % 4]) for number in range(80)
    ]
    for one, course in zip(asked, courses_of(asked, drafting), strict=True):
        alone = course_of(one, drafting)
        assert course.emitted.tolist() == alone.emitted.tolist()
        assert (course.rejected is None) is (alone.rejected is None)
        if course.rejected is not None and alone.rejected is not None:
            assert course.rejected.tolist() == alone.rejected.tolist()


def test_without_drafts_every_step_yields_one_token() -> None:
    course = course_of(request(output=5), Drafting(DISABLED, 0))
    assert course.emitted.tolist() == [1, 2, 3, 4, 5]
    assert course.rejected is None


@LEVELS
def test_each_step_yields_what_was_accepted_and_one_token_more(level: Level) -> None:
    one = request(output=400)
    yields = [max(drafts, 0) + 1 for drafts in accepted(level, one)]
    assert np.diff(course_of(one, Drafting(level, 0)).emitted).tolist()[:-1] == yields[:-1]


def test_drafts_beyond_the_end_of_the_text_count_as_accepted_as_vllm_counts_them() -> None:
    """vLLM issue 56101: the length that counters give overstates what came out."""
    accepted_tokens = emitted = steps = 0
    for place in range(300):
        found = accepted(K5, request(f"r{place}", output=20, kind=Kind.STRUCTURED))
        accepted_tokens += sum(found)
        emitted += 19
        steps += len(found)
    assert accepted_tokens > emitted - steps


@pytest.mark.parametrize("kind", [Kind.CHAT, Kind.STRUCTURED])
def test_without_clustering_survival_is_the_given_one(kind: Kind) -> None:
    found = [
        one
        for place in range(40)
        for one in accepted(K5, request(f"r{place}", output=1000, kind=kind), clustering=False)
    ]
    shares = [np.mean([one >= position for one in found]) for position in range(1, 6)]
    assert shares == pytest.approx(survival(kind, DRAFT.method, 0.0, 5), abs=0.015)


def test_lookup_drafts_in_its_share_of_the_steps() -> None:
    found = [one for place in range(60) for one in accepted(NGRAM, request(f"r{place}", output=500))]
    assert np.mean([one >= 0 for one in found]) == pytest.approx(match_share(Kind.CHAT, LOOKUP.method), abs=0.02)


def test_a_step_has_the_same_luck_at_every_k_of_a_drafter() -> None:
    one = request(output=2000)
    deep, shallow = (accepted(level, one, clustering=False) for level in (K5, K3))
    assert [min(step, 3) for step in deep] == shallow[: len(deep)]


def test_the_hotter_the_harder() -> None:
    steps = [len(accepted(K5, request(output=3000, temperature=heat))) for heat in (0.0, 0.4, 0.8, 1.2)]
    assert steps == sorted(steps)


def test_going_on_in_the_middle_continues_the_same_luck() -> None:
    whole = course_of(request(), Drafting(K3, 0))
    rest = course_of(request(), Drafting(K3, 0), start=int(whole.emitted[20]), step=20)
    assert (whole.emitted[20:] == rest.emitted).all()
