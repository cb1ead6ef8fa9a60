"""Which models share a vocabulary, as far as their names tell: a draft model must have its target's."""

import re

FAMILIES = {
    "Llama 3": re.compile(r"llama[-_ ]?3(?![\db])"),
    "Qwen 2 and 3": re.compile(r"qwen[-_ ]?(?:1\.5|2\.5|2|3)(?![.\d]|-next)"),
    "DeepSeek-Coder": re.compile(r"deepseek[-_ ]?coder(?![-_ ]?v2)"),
}
"""Families whose pairs the field report has tried."""


def vocabulary_family(model: str | None) -> str | None:
    """The vocabulary that a model's name tells of; None where it tells of none, or of several.

    Members of one family may still differ in size: vLLM refuses Qwen2.5 of 7B and more with the smaller ones.
    """
    name = (model or "").rstrip("/").rsplit("/", 1)[-1].lower()
    families = [family for family, pattern in FAMILIES.items() if pattern.search(name)]
    return families[0] if len(families) == 1 else None
