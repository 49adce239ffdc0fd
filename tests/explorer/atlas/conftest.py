"""A file of pairs, a tiny model to measure over it, and an atlas made of both."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from explorer.analysis.atlas.make import name_for, over_file
from explorer.analysis.atlas.reading import scan
from explorer.analysis.atlas.store import to_json
from explorer.library import LoadedModel
from explorer.runs.passes import walked

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
def made() -> Callable[..., Path]:
    """The file of an atlas."""

    def make(model: LoadedModel, path: Path, out: Path, ablate: int = 4) -> Path:
        out.mkdir(parents=True, exist_ok=True)
        atlas = walked(over_file(model, scan(path), ablate=ablate))
        (out / name_for(model)).write_text(to_json(atlas), encoding="utf-8")
        return out / name_for(model)

    return make
