"""The report in a real browser: no complaint on the console, and what the script adds."""

import json
import os
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from specloop_sim.report.model import Report
from specloop_sim.report.page import render
from tests.support.reports import HOSTILE, replayed, simulated, swept

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

PHONE, DESK = 390, 1280

PROBE = """
<iframe id="frame" src="report.html" style="width:WIDTHpx;height:4000px;border:0"></iframe><pre id="found"></pre>
<script>
frame.onload = () => {
  const page = frame.contentDocument;
  const seen = (query) => [...page.querySelectorAll(query)].filter((one) => one.getClientRects().length);
  const marker = seen("a.marker")[0];
  marker.focus();
  const lit = [...page.querySelectorAll("li.lit")].map((one) => one.id);
  const letters = seen("svg.sheet text").map((one) => one.getBoundingClientRect().height);
  found.textContent = JSON.stringify({
    width: page.documentElement.scrollWidth, lit, target: marker.getAttribute("href"),
    readout: seen(".readout").map((one) => one.textContent), smallest: Math.min(...letters),
  });
};
</script>
"""
"""A page round the report that looks into it, and writes down what it finds."""


@pytest.fixture(scope="module")
def chromium() -> str:
    """The browser; where there is none, tests are skipped, or fail if required."""
    path = shutil.which("chromium")
    if path is None:
        reason = "no chromium: install Debian's package"
        if os.environ.get("SPECLOOP_REQUIRE_ENGINES"):
            pytest.fail(reason)
        pytest.skip(reason)
    return path


def opened(chromium: str, page: Path) -> tuple[str, list[str]]:
    """The page's elements after its script has run, and the lines of the console."""
    flags = ("--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--virtual-time-budget=2000")
    profile = f"--user-data-dir={page.parent / 'profile'}"
    command = [chromium, *flags, profile, "--allow-file-access-from-files", "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def probed(chromium: str, folder: Path, width: int) -> dict[str, Any]:
    """What the probe finds in a simulation's report at this width."""
    (folder / "report.html").write_text(render(simulated()), encoding="utf-8")
    (folder / "probe.html").write_text(PROBE.replace("WIDTH", str(width)), encoding="utf-8")
    page, complaints = opened(chromium, folder / "probe.html")
    assert complaints == []
    text = re.search(r'<pre id="found">(.*?)</pre>', page)
    assert text is not None
    found: dict[str, Any] = json.loads(unescape(text[1]))
    return found


@pytest.mark.parametrize("report", [simulated(HOSTILE), replayed(), swept()], ids=lambda one: str(one.kind))
def test_a_browser_opens_it_without_a_complaint(chromium: str, tmp_path: Path, report: Report) -> None:
    page = tmp_path / "report.html"
    page.write_text(render(report), encoding="utf-8")
    elements, complaints = opened(chromium, page)
    assert complaints == []
    assert ('class="readout"' in elements) == ('class="stack"' in elements), "the script did not run"


def test_a_complaint_would_have_been_seen(chromium: str, tmp_path: Path) -> None:
    """The same page with one letter more in its script, which its security policy then refuses."""
    page = tmp_path / "report.html"
    page.write_text(render(simulated()).replace('"use strict";', '"use strict"; '), encoding="utf-8")
    elements, complaints = opened(chromium, page)
    assert len(complaints) == 1
    assert "Content Security Policy" in complaints[0]
    assert "decision-1" in elements


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_a_marker_lights_its_sentence_and_tells_the_figures_there(chromium: str, tmp_path: Path, width: int) -> None:
    """At 2,400 s acceptance is 30 %, the share of hot requests 10 + 2/3 × 60 = 50 %, the load 4 + 2/3 × 5 = 7.33."""
    found = probed(chromium, tmp_path, width)
    assert found["target"] == "#run-1-decision-1"
    assert found["lit"] == ["run-1-decision-1"]
    (readout,) = found["readout"]
    assert readout.splitlines()[:4] == ["40 min", "acceptance: 30 %", "level: k5 · K = 5", "Hot requests: 50 %"]
    assert float(readout.splitlines()[4].removeprefix("Requests running per replica: ")) == pytest.approx(7.33, abs=0.1)


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_nothing_sticks_out_and_letters_stay_readable(chromium: str, tmp_path: Path, width: int) -> None:
    found = probed(chromium, tmp_path, width)
    assert found["width"] <= width
    assert found["smallest"] >= 11  # pixels of a line of text
