"""The atlas of the open model, from its file or measured here; its open head, and its words."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.analysis.atlas.make import stamp_of
from explorer.analysis.atlas.store import SOMETIMES, Atlas, Head, Name
from explorer.analysis.roles import MEASURES, Measure
from explorer.engine.models import atlas
from explorer.exhibits import View, block as b
from explorer.exhibits.atlas.choices import AXES
from explorer.numbers import percent
from explorer.once import once
from models.hooks import Role

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
    kind = view.t("kinds", head.role)
    return view.t("atlas.place", kind=kind, layer=head.layer + 1, head=head.head + 1)


def kind_words(view: View, kind: str) -> str:
    """A kind of head: "previous token"."""
    return view.t("roles", kind)


def name_words(view: View, name: Name) -> str:
    """A head's name with its number: "previous token, 93 % of rows"."""
    share = percent(name.share)
    if name.kind == "mixed":
        return view.t("atlas.names.mixed", nearest=kind_words(view, name.nearest), share=share)
    return share_words(view, name.kind, share)


def share_words(view: View, measure: Measure, share: str) -> str:
    """A measure with its share, and the total that it refers to."""
    of = "alignment" if measure == "alignment" else "some" if measure in SOMETIMES else "rows"
    return view.t("atlas.names", of, kind=kind_words(view, measure), share=share)
