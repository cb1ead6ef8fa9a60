"""Both images, made from the working tree by a builder where one works, else by their steps in roots of their own."""

import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.built_images import build_images, builder_with
from tests.support.clean_root import BASES, Image, build, require
from tests.support.containerfile import Context

ROOT = Path(__file__).resolve().parents[3]
IMAGES = ROOT / "charts" / "images"
VERSION: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
LABELS = {"VERSION": VERSION, "REVISION": "a-commit", "CREATED": "2026-11-30T12:00:00Z"}
"""As scripts/build-images gives them."""


@pytest.fixture(scope="package")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Image]]:
    """By the names of their Containerfiles; half a gigabyte, which goes at the end."""
    require()
    into = tmp_path_factory.mktemp("images")
    try:
        if (builder := builder_with(BASES)) is not None:
            operator, plugin = build_images(builder, "component-test", into)
            yield {"operator": operator, "plugin": plugin}
        else:
            made = {}
            for name in ("plugin", "operator"):
                (into / name).mkdir()
                made[name] = build(IMAGES / f"{name}.Containerfile", Context(ROOT), LABELS, into / name)
            yield made
    finally:
        shutil.rmtree(into)


@pytest.fixture
def operator(images: dict[str, Image]) -> Image:
    """The operator's."""
    return images["operator"]


@pytest.fixture
def plugin(images: dict[str, Image]) -> Image:
    """The plugin's."""
    return images["plugin"]
