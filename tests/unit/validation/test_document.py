"""docs/validation.md says what the engine model does, and no bound in it is missed."""

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from specloop_sim.validation.batches import CONTEXT_TOKENS, FITTED_BATCHES, TRAFFIC, fit, gain
from specloop_sim.validation.draft_length import fit as fit_line
from specloop_sim.validation.picture import Axis, Chart, Mark, Series, draw, numbers
from specloop_sim.validation.published import BATCHES, HEATED, THROUGHPUT_GAINS, DraftLength
from specloop_sim.validation.section import signed, table, wrapped
from specloop_sim.validation.temperature import constant_acceptance, hot_length

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
def test_the_page_and_its_pictures_are_up_to_date_and_every_bound_is_kept() -> None:
    script = [sys.executable, str(ROOT / "scripts" / "validate"), "--check"]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode == 0


def test_the_script_refuses_what_it_does_not_know() -> None:
    script = [sys.executable, str(ROOT / "scripts" / "validate"), "--chekc"]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_no_line_of_the_page_turns_into_a_list_by_accident() -> None:
    """A wrapped line that begins with a sign or a number and a dot would."""
    lines = (ROOT / "docs" / "validation.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if re.match(r"\s*[+*] |\s*\d+[.)] |\s+- ", line)] == []


@pytest.mark.parametrize("drafter", THROUGHPUT_GAINS)
def test_no_other_constants_fit_the_three_batches_better(drafter: str) -> None:
    """A step away from the fit in any direction is worse on the rows that it was fitted on."""
    measured = dict(zip(BATCHES, THROUGHPUT_GAINS[drafter], strict=True))
    best = fit(drafter, CONTEXT_TOKENS)

    def error(per_step: float, per_token: float) -> float:
        moved = type(best)(best.per_step + per_step, best.per_draft_token + per_token)
        shares = (gain(drafter, moved, batch, CONTEXT_TOKENS) / measured[batch] for batch in FITTED_BATCHES)
        return sum((share - 1.0) ** 2 / share for share in shares)  # close to the squared logarithm, and as smooth

    around = [error(a, b) for a in (-2e-4, 0.0, 2e-4) for b in (-4e-6, 0.0, 4e-6)]
    assert min(around) == around[4]
    assert best.per_step > 0.0
    assert best.per_draft_token > 0.0


def test_the_run_has_the_context_that_the_formula_assumes() -> None:
    assert TRAFFIC.context_tokens() == pytest.approx(CONTEXT_TOKENS, rel=1e-3)


def test_a_line_through_two_rows_meets_both() -> None:
    """Steps of 2 x 5 = 10 ms at K=2 and 3 x 6 = 18 at K=4: 2 + 4 K."""
    line = fit_line([DraftLength(2, 2.0, 5.0), DraftLength(4, 3.0, 6.0)])
    assert (line.verify, line.per_token) == pytest.approx((2.0, 4.0))


def test_acceptance_is_found_from_a_length() -> None:
    """1 + .5 + ... + .5^8 = 2 - .5^8; and nothing lost is nothing changed."""
    assert constant_acceptance(2.0 - 0.5**8) == pytest.approx(0.5)
    assert hot_length(HEATED[0], 1.0) == pytest.approx(HEATED[0].cold_length)


def test_a_chart_is_well_formed_and_places_its_points() -> None:
    """Half way along both axes: as far from the left end of the plot as from the right one."""
    chart = Chart(
        title="a < b & c",
        across=Axis("x", 1.0, 4.0, numbers((1, 2, 4)), doubling=True),
        up=Axis("y", 0.0, 2.0, numbers((0, 1, 2))),
        series=(Series("one", Mark.DOT, "#000", ((1.0, 0.0), (2.0, 1.0), (4.0, 2.0))),),
        rules=((1.0, "even"),),
    )
    root = ElementTree.fromstring(draw(chart))
    circles = root.findall("{http://www.w3.org/2000/svg}circle")[1:]  # the first is the legend's
    (x1, y1), (x2, y2), (x3, y3) = ((float(one.attrib["cx"]), float(one.attrib["cy"])) for one in circles)
    assert x2 - x1 == pytest.approx(x3 - x2, abs=0.11)
    assert y1 - y2 == pytest.approx(y2 - y3, abs=0.11)
    assert x1 < x2
    assert y1 > y2


def test_words_are_wrapped_and_tables_are_not() -> None:
    text = wrapped("- " + "word " * 40 + "\n  end\n- next\n\n| " + "cell " * 60 + "|\n")
    lines = text.splitlines()
    assert lines[0].startswith("- word")
    assert lines[1].startswith("  word")
    assert lines[-3:] == ["- next", "", "| " + "cell " * 60 + "|"]
    assert wrapped(text) == text


def test_numbers_stand_to_the_right_and_words_to_the_left() -> None:
    assert table(("a", "b"), [("x", "1")]) == "| a | b |\n| --- | ---: |\n| x | 1 |"
    assert [signed(value) for value in (1.25, -3.04, -0.04)] == ["+1.2", "−3.0", "0.0"]
