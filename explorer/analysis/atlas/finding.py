"""Which atlas belongs to a model: beside its weights, or where HEADLIGHT_ATLASES says."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from explorer.analysis.atlas.make import file_of, home_of, suffix_of, weights_digest
from explorer.analysis.atlas.store import Atlas, Text, heads_of, read_atlas
from explorer.library import LoadedModel
from explorer.problems import InputProblem

VARIABLE = "HEADLIGHT_ATLASES"
"""Folders of atlases that were made with `--out`, between os.pathsep."""


@dataclass(frozen=True, eq=False)
class Found:
    """A model's atlas (None: it has none), its file, and what is wrong with one that was found:
    it was made from other weights, or cannot be read."""

    atlas: Atlas | None
    path: Path | None = None
    problem: InputProblem | None = None
    stale: bool = False


def places(loaded: LoadedModel) -> Iterator[Path]:
    """Where an atlas of this model may lie, the likeliest first."""
    name = file_of(suffix_of(loaded))
    yield home_of(loaded) / name
    for each in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        folder = Path(each)
        yield folder / name
        if folder.is_dir():
            yield from sorted(path / name for path in folder.iterdir() if path.is_dir())


def find_atlas(loaded: LoadedModel) -> Found:
    """The first atlas that was made from this model's weights."""
    found = Found(None)
    digest: str | None = None
    for path in places(loaded):
        if not path.is_file():
            continue
        try:
            atlas = read_atlas(path)
        except InputProblem as problem:
            found = found if found.path else Found(None, path, problem)
            continue
        digest = digest or weights_digest(loaded)
        if atlas.about.weights == digest and atlas.heads == heads_of(loaded.sites):
            return Found(atlas, path)
        # Of a folder of many models' atlases the others say nothing about this one.
        if path.parent == home_of(loaded):
            found = found if found.path else Found(None, path, stale=True)
    return found


def stamp(loaded: LoadedModel) -> tuple[tuple[str, int], ...]:
    """The files there are and when each was written: what a cached finding depends on."""
    return tuple((str(path), path.stat().st_mtime_ns) for path in places(loaded) if path.is_file())


def readable(loaded: LoadedModel, texts: tuple[Text, ...]) -> bool:
    """Whether a model's vocabulary has the characters of these sentences."""
    unknown = loaded.marks.unknown
    some = texts[:20]
    if not some:
        return False
    ids = [token for text in some for token in loaded.tokenizer.encoded(text.source)]
    return bool(ids) and (unknown is None or ids.count(unknown) <= len(ids) // 50)
