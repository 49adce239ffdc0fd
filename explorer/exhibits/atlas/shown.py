"""The atlas shown on the page, and the words for the behaviour of heads."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.analysis.atlas.store import ALIGNED, MOSTLY, SOMETIMES, Atlas, Head, Name
from explorer.analysis.roles import MEASURES, Measure
from explorer.exhibits import View, block as b
from explorer.exhibits.atlas import measured
from explorer.exhibits.atlas.choices import AXES, AtlasChoices
from explorer.exhibits.picking import pick_one
from explorer.exhibits.saying import in_a_row
from explorer.numbers import percent
from explorer.once import once
from models.hooks import Role

DIFFERENCE = (r"\Delta_h = s_m^{(2)}(h) - s_m^{(1)}(h)",)
"""The formula of the comparison of two models, or of two moments of a training."""


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
    return AtlasView(view, measured.atlas(measured.which_of(view)))


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


def axes_of(shown: AtlasView) -> tuple[str, str]:
    """The two axes of the map: the chosen ones, else sharpness and ablation cost."""
    chosen, offered = shown.view.choices(AtlasChoices), shown.axes
    across = chosen.across if chosen.across in offered else "entropy"
    usual = "cost" if "cost" in offered else "first"
    return across, chosen.up if chosen.up in offered else usual


def axis_title(shown: AtlasView, axis: str) -> str:
    """A measure, with its unit."""
    view = shown.view
    if axis in MEASURES:
        return view.t("atlas.axis_share", kind=kind_words(view, axis))
    return view.t(f"atlas.axes.{axis}")


def pick_axis(shown: AtlasView, field: str, now: str, width: int) -> b.Pick:
    """The choice of an axis."""
    view, title = shown.view, partial(axis_title, shown)
    more = b.More(label=f"atlas.{field}", form="menu", width=width)
    return pick_one(view, f"atlas.{field}", shown.axes, now, field, title, **more)


def about(shown: AtlasView) -> str:
    """The data of the atlas, in one line."""
    view, atlas = shown.view, shown.atlas
    count = atlas.counts["sentences"]
    sentences = []
    if atlas.about.digest:  # not measured here
        corpus = {"corpus": atlas.about.corpus, "digest": atlas.about.digest[:12]}
        sentences.append(view.t("atlas.about", count=count, sentences=f"{count:,}", **corpus))
        if left := atlas.counts["too_long"] + atlas.counts["unreadable"]:
            sentences.append(view.t("atlas.about_left", count=left))
    return in_a_row([*sentences, view.t("atlas.about_rows")])


def place(view: View, head: Head) -> str:
    """The name of a head, in words."""
    kind = view.t(f"kinds.{head.role}")
    return view.t("atlas.place", kind=kind, layer=head.layer + 1, head=head.head + 1)


def short(head: Head) -> str:
    """The short name of a head: L2·H3."""
    return f"L{head.layer + 1}·H{head.head + 1}"


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


def least_share(measure: Measure) -> float:
    """The share from which on a head is named after this measure."""
    return ALIGNED if measure == "alignment" else MOSTLY
