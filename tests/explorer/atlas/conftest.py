"""A file of pairs, a tiny model to measure over it, and an atlas made of both."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from explorer.analysis.atlas.make import Making
from explorer.analysis.atlas.reading import scan
from explorer.library import LoadedModel

PAIRS = (
    ("I love you.", "我爱你。"),
    ("The cat sat on the mat.", "猫坐在垫子上。"),
    ("A dog ran after the cat, and the cat ran away.", "狗追着猫跑，猫跑开了。"),
    ("The dog sat on the cat.", "狗坐在猫上。"),
    ("You love the cat.", "你爱猫。"),
)


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Five pairs with somebody to credit, each a line."""
    path = tmp_path / "pairs.tsv"
    lines = [f"{source}\t{target}\tperson {at}" for at, (source, target) in enumerate(PAIRS)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def model(writer: LoadedModel, tmp_path: Path) -> LoadedModel:
    """A model whose folder holds something to hash."""
    folder = tmp_path / "writer"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights")
    return replace(writer, folder=folder)


@pytest.fixture
def made() -> Callable[..., Making]:
    """An atlas whose units `world` processes share, the last one first."""

    def make(model: LoadedModel, path: Path, out: Path, world: int = 1, ablate: int = 4) -> Making:
        making = Making(model, scan(path), out, ablate=ablate)
        making.begin()
        for rank in reversed(range(world)):
            for unit in making.units[rank::world]:
                making.write(unit)
        making.finish()
        return making

    return make
