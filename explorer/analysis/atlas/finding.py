"""Find the atlas of a model: next to its weights, or in the folders in HEADLIGHT_ATLASES."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from explorer.analysis.atlas.make import file_of, home_of, suffix_of, weights_digest
from explorer.analysis.atlas.store import Atlas, Text, heads_of, read_atlas
from explorer.library import LoadedModel
from explorer.problems import InputProblem

VARIABLE = "HEADLIGHT_ATLASES"
"""Folders of atlases made with `--out`, separated by os.pathsep."""


@dataclass(frozen=True, eq=False)
class Found:
    """A model's atlas (None if it has none), its file, and the problem with one that was found:
    made from other weights, or unreadable."""

    atlas: Atlas | None
    path: Path | None = None
    problem: InputProblem | None = None
    stale: bool = False


def places(loaded: LoadedModel) -> Iterator[Path]:
    """Candidate paths of this model's atlas, the likeliest first."""
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
        # In a shared folder, atlases of other models are not a problem to report.
        if path.parent == home_of(loaded):
            found = found if found.path else Found(None, path, stale=True)
    return found


def stamp(loaded: LoadedModel) -> tuple[tuple[str, int], ...]:
    """The candidate files and their modification times: the cache key of a finding."""
    return tuple((str(path), path.stat().st_mtime_ns) for path in places(loaded) if path.is_file())


def readable(loaded: LoadedModel, texts: tuple[Text, ...]) -> bool:
    """Whether a model's vocabulary has the characters of these sentences. A picture has none."""
    if loaded.config.picture is not None:
        return False
    unknown, reader = loaded.marks.of("src").unknown, loaded.tokenizer.of("src")
    some = texts[:20]
    if not some:
        return False
    ids = [token for text in some for token in reader.encoded(text.source)]
    return bool(ids) and (unknown is None or ids.count(unknown) <= len(ids) // 50)
