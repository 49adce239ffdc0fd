"""The atlas of the open model, from its file or measured here; its open head, and its words."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer import library
from explorer.analysis.atlas.make import (
    OneByOne,
    home_of,
    name_for,
    one_by_one,
    over_texts,
    weights_digest,
)
from explorer.analysis.atlas.store import SOMETIMES, Atlas, Head, Name, Text, heads_of, read_atlas
from explorer.analysis.roles import MEASURES, Measure
from explorer.engine import cache
from explorer.engine.caching import cached
from explorer.exhibits import View, block as b
from explorer.exhibits.atlas.choices import AXES
from explorer.exhibits.view import examples_of
from explorer.library import LoadedModel
from explorer.numbers import percent
from explorer.once import once
from explorer.problems import InputProblem
from explorer.runs.passes import Steps
from explorer.text import script
from models.hooks import Role

MOST_TEXTS = 96
"""Number of sentences used to measure a model without an atlas."""


@dataclass(frozen=True, eq=False)
class Found:
    """The file of a model's atlas. `atlas` is None if there is none, if it cannot be read
    (`problem`), or if it was made from other weights (`stale`)."""

    path: Path
    atlas: Atlas | None = None
    problem: InputProblem | None = None
    stale: bool = False


def find_atlas(loaded: LoadedModel) -> Found:
    """The atlas next to a model."""
    path = home_of(loaded) / name_for(loaded)
    if not path.is_file():
        return Found(path)
    try:
        stored = read_atlas(path)
    except InputProblem as problem:
        return Found(path, problem=problem)
    if (stored.about.weights, stored.heads) != (weights_digest(loaded), heads_of(loaded.sites)):
        return Found(path, stale=True)
    return Found(path, stored)


def stamp_of(loaded: LoadedModel) -> int:
    """The modification time of a model's atlas, 0 without one: a part of every cache key."""
    path = home_of(loaded) / name_for(loaded)
    return path.stat().st_mtime_ns if path.is_file() else 0


@cached
def found(model: str, stamp: int) -> Found:
    """The file of a model's atlas. Cached because every draw asks which atlas there is, and reading
    one takes 0.1 s."""
    return find_atlas(cache.open_model(model))


@cached
def atlas(model: str, stamp: int) -> Steps[Atlas]:
    """Load or measure an atlas. Cached for all exhibits of the page. Raises InputProblem
    `nothing_measured`."""
    stored = found(model, stamp).atlas
    if stored is not None:
        return stored
    loaded = cache.open_model(model)
    small = loaded.n_parameters <= library.SMALL
    return (yield from over_texts(loaded, texts_for(model), ablate=small))


def alone(model: str, stamp: int, texts: tuple[Text, ...]) -> OneByOne:
    """The measures of every head for each text separately."""
    return one_by_one(cache.open_model(model), texts, atlas(model, stamp).rare)


def texts_for(model: str) -> tuple[Text, ...]:
    """Sentences for a model without an atlas: from the first shipped atlas that it can read, in the
    language of its examples; if there is none, its examples, each word in every typeface."""
    loaded = cache.open_model(model)
    examples = [s for group in examples_of(model).values() for s in group]
    paired, language = loaded.config.reads_source, script(" ".join(examples))
    for name in cache.models():
        path = library.CHECKPOINTS / name / "atlas" / "atlas.json"
        if not path.is_file():
            continue
        try:
            texts = read_atlas(path).texts
        except InputProblem:  # that model's own page shows the error
            continue
        same = script(" ".join(text.source for text in texts[:20])) == language
        if bool(texts and texts[0].target) == paired and same and readable(loaded, texts):
            return texts[:MOST_TEXTS]
    shown = loaded.tokenizer.renderings
    return tuple(Text(form) for sentence in examples for form in shown(sentence))


def readable(loaded: LoadedModel, texts: tuple[Text, ...]) -> bool:
    """Whether a model's vocabulary has the characters of these sentences. A picture has none."""
    if loaded.config.picture is not None:
        return False
    unknown, reader = loaded.marks.of("src").unknown, loaded.tokenizer.of("src")
    ids = [token for text in texts[:20] for token in reader.encoded(text.source)]
    return bool(ids) and (unknown is None or ids.count(unknown) <= len(ids) // 50)


WHICH = {"model": lambda view: view.loaded.name, "stamp": lambda view: stamp_of(view.loaded)}
"""The inputs that identify the atlas of the open model."""


@dataclass(frozen=True, eq=False)
class AtlasView:
    """An atlas; `view` has the open head and sentence."""

    view: View
    atlas: Atlas

    @once
    def head(self) -> Head:
        """The open head; the first head if this model has no such head."""
        return opened(self.atlas, self.view.kind, self.view.layer, self.view.head)

    @property
    def name(self) -> Name:
        """The open head's main behaviour."""
        return self.atlas.names[self.head.number]

    @property
    def axes(self) -> tuple[str, ...]:
        """The available axes: every number that some head has."""
        return tuple(axis for axis in AXES if np.isfinite(values(self.atlas, axis)).any())


def shown_atlas(view: View) -> AtlasView:
    """The atlas of the open model. Raises InputProblem as `atlas`."""
    return AtlasView(view, atlas(view.loaded.name, stamp_of(view.loaded)))


def opened(atlas: Atlas, kind: Role, layer: int, head: int) -> Head:
    """The head at this place; the first head if there is none."""
    return atlas.of(kind, layer, head) or atlas.heads[0]


def open_head(head: Head) -> b.Change:
    """Select another head, for all pages."""
    place: dict[str, Any] = {"site": head.role, "layer": head.layer, "head": head.head}
    return b.choose(elsewhere=True, **place, sentence=1)


def values(atlas: Atlas, axis: str) -> NDArray[np.float64]:
    """One number per head, NaN if it has none: shares in percent, layers from 1."""
    if axis == "depth":
        return np.array([head.layer + 1.0 for head in atlas.heads])
    if axis in MEASURES:
        shares: NDArray[np.float64] = 100 * atlas.strengths[:, MEASURES.index(axis)]
        return shares
    named = {"entropy": atlas.entropy, "deviation": atlas.spread}
    return {**named, "distance": atlas.distance, "cost": atlas.cost}[axis]


def place(view: View, head: Head) -> str:
    """The name of a head, in words."""
    kind = view.t(f"kinds.{head.role}")
    return view.t("atlas.place", kind=kind, layer=head.layer + 1, head=head.head + 1)


def kind_words(view: View, kind: str) -> str:
    """A kind of head: "previous token"."""
    return view.t(f"roles.{kind}")


def name_words(view: View, name: Name) -> str:
    """A head's name with its number: "previous token, 93 % of rows"."""
    share = percent(name.share)
    if name.kind == "mixed":
        return view.t("atlas.name_mixed", nearest=kind_words(view, name.nearest), share=share)
    return share_words(view, name.kind, share)


def share_words(view: View, measure: Measure, share: str) -> str:
    """A measure with its share, and the total that it refers to."""
    of = "alignment" if measure == "alignment" else "some" if measure in SOMETIMES else "rows"
    return view.t(f"atlas.name_{of}", kind=kind_words(view, measure), share=share)
