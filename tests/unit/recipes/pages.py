"""The pages of recipes, and what stands in them."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

DOCS = Path(__file__).parents[3] / "docs"
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in (DOCS / "gitops.md", *(DOCS / "recipes").glob("*.md"))}
"""Texts by name."""

FENCED = re.compile(r"^( *)```yaml\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


def documents(page: str) -> list[Any]:
    """The YAML documents of a page."""
    return [one for found in FENCED.finditer(PAGES[page]) for one in yaml.safe_load_all(found[2]) if one is not None]


def mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    """All mappings in a document, the outer ones first."""
    if isinstance(value, Mapping):
        yield value
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    for one in inner:
        yield from mappings(one)
