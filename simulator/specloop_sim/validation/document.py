"""docs/validation.md and its pictures, as they should stand."""

from collections.abc import Sequence

from specloop_sim.validation import batches, draft_length, lookup, measured_steps, single_stream, temperature
from specloop_sim.validation.section import Section, table, wrapped

INTRODUCTION = """\
# Validation of the engine model

How far the simulator's engine model can be trusted, met with six tables that others measured and published. This page
and its pictures are made by `.venv/bin/python scripts/validate`; with `--check` it says whether they are still what it
would write, and whether a bound is missed.

A constant that was fitted on a row is never scored on that row. "Engine model" is the simulator itself: continuous
batching with b clients, each sending its next request when the last is answered, counted after two answers per client
over 100,000 tokens or more. Requests do not differ in hardness here, since the tables give means only. Errors are
predicted over measured, less one.
"""

CLOSING = """\
## What this does not cover

- Sources disagree in engine, version and hardware. Only tables B and C come from one engine with its own acceptance.
- Lines have no knee: above batch 128 they are too kind to speculation (at batch 256, K=3 and 512 tokens
  of context a step is 2.1 plain ones by the lines and 2.9 in table C). Where you have measured step times, use those.
- Clustering of drafts within a request, queues, the KV cache and restarts do not show in means of throughput.
"""


def sections() -> list[Section]:
    """All six, computed anew; takes seconds."""
    return [module.section() for module in (single_stream, draft_length, measured_steps, batches, temperature, lookup)]


def picture_name(section: Section) -> str:
    """File name of a section's picture."""
    return f"validation-{section.letter.lower()}.svg"


def document(found: Sequence[Section]) -> str:
    """The whole page."""
    rows = [(f"[{one.letter}](#{anchor(one)}): {one.title}", *one.summary) for one in found]
    overview = table(("table", "fitted", "predicted", "error"), rows, words=range(4))
    return "\n".join([INTRODUCTION, overview, "", *map(_section, found), CLOSING])


def heading(section: Section) -> str:
    """A section's heading."""
    return f"{section.letter}: {section.title}"


def anchor(section: Section) -> str:
    """Its place on the page, as GitHub makes it."""
    kept = "".join(letter for letter in heading(section).lower() if letter.isalnum() or letter in " -")
    return kept.replace(" ", "-")


def _section(section: Section) -> str:
    alternative = f"Plot of table {section.letter}, {section.title}"
    return f"## {heading(section)}\n\n{wrapped(section.text)}\n![{alternative}](images/{picture_name(section)})\n"
