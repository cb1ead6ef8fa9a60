"""The page as text: the template filled in, with its style and its script inside and everything else locked out."""

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from specloop_sim.report.contest import contest
from specloop_sim.report.model import Kind, Report
from specloop_sim.report.scale import duration, moment
from specloop_sim.report.story import stories
from specloop_sim.report.sweep import sweep
from specloop_sim.report.verdict import verdict

NOT_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
"""Characters that neither HTML nor XML allows; a name may hold them all the same."""

HEADINGS = {
    Kind.SIMULATE: "A dry run",
    Kind.REPLAY: "A replay of recorded data",
    Kind.SWEEP: "A search for parameters",
    Kind.DEMO: "A demonstration",
}


def render(report: Report) -> str:
    """The whole page; the same report gives the same bytes."""
    style, script = _part("page.css"), _part("page.js")
    page = _template().render(
        report=report,
        heading=HEADINGS[report.kind],
        verdict=verdict(report),
        length=duration(report.seconds),
        start=None if report.epoch is None else moment(0.0, report.epoch),
        contest=contest(report),
        stories=stories(report),
        sweep=sweep(report),
        style=Markup(style),
        script=Markup(script),
        security=f"default-src 'none'; style-src '{digest(style)}'; script-src '{digest(script)}'; base-uri 'none'; "
        "form-action 'none'",
    )
    return NOT_TEXT.sub("�", page)


def digest(source: str) -> str:
    """What a content security policy calls a piece of style or script by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


@cache
def _part(name: str) -> str:
    return files("specloop_sim.report").joinpath(name).read_text(encoding="utf-8")


@cache
def _template() -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_part("page.html.jinja"))
