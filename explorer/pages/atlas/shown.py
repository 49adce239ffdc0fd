"""The atlas shown on the page, and the words for the behaviour of heads."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from explorer.analysis.atlas.names import ALIGNED, MOSTLY, SOMETIMES, Name
from explorer.analysis.atlas.store import Atlas, Head
from explorer.analysis.atlas.sums import MEASURES, Measure
from explorer.engine import jobs
from explorer.exhibits.view import View
from explorer.numbers import percent
from explorer.once import once
from explorer.pages.atlas import cached
from explorer.pages.atlas.cached import Which
from explorer.pages.atlas.choices import AXES
from explorer.ui import running
from explorer.ui.problem import show_problem


@dataclass(frozen=True, eq=False)
class Shown:
    """The current atlas; `view` has the open head and sentence."""

    view: View
    which: Which
    atlas: Atlas

    @once
    def head(self) -> Head:
        """The open head; the first head if this model has no such head."""
        found = self.atlas.of(self.view.kind, self.view.layer, self.view.head)
        return found or self.atlas.heads[0]

    @property
    def name(self) -> Name:
        """The open head's main behaviour."""
        return self.atlas.names[self.head.number]

    @property
    def axes(self) -> tuple[str, ...]:
        """The available axes: every number that some head has."""
        return tuple(axis for axis in AXES if np.isfinite(values(self.atlas, axis)).any())


def values(atlas: Atlas, axis: str) -> NDArray[np.float64]:
    """One number per head, NaN if it has none: shares in percent, layers from 1."""
    if axis == "depth":
        return np.array([head.layer + 1.0 for head in atlas.heads])
    if axis in MEASURES:
        found: NDArray[np.float64] = 100 * atlas.strengths[:, MEASURES.index(axis)]
        return found
    named = {"entropy": atlas.entropy, "deviation": atlas.spread}
    return {**named, "distance": atlas.distance, "cost": atlas.cost}[axis]


def shown_atlas(view: View) -> Shown | None:
    """The atlas of the open model; None while measuring or after a stop.

    Errors of a file are shown. Raises InputProblem if nothing can be measured.
    """
    found, which = cached.found_for(view.loaded.name)
    if found.problem is not None:
        show_problem(found.problem, view.lang)
    if found.stale:
        st.warning(view.t("atlas.stale", path=str(found.path)), icon=":material/history:")
    return (
        Shown(view, which, found.atlas)
        if found.atlas
        else measured_now(view, which, "atlas.measuring")
    )


def measured_now(view: View, which: Which, name: str) -> Shown | None:
    """An atlas over available sentences; None while measuring or after a stop."""
    made = running.awaited(
        name,
        which,
        lambda tell: cached.atlas(which, progress=jobs.whole(tell)),
        view.t("atlas.measuring"),
        view.lang,
    )
    return None if made is None else Shown(view, which, made)


def about(shown: Shown) -> str:
    """The data of the atlas, in one line."""
    view, atlas = shown.view, shown.atlas
    count = atlas.counts["sentences"]
    if shown.which.texts:
        return view.t("atlas.about_here", count=count, sentences=f"{count:,}")
    left = atlas.counts["too_long"] + atlas.counts["unreadable"]
    said = view.t(
        "atlas.about",
        count=count,
        sentences=f"{count:,}",
        corpus=atlas.about.corpus,
        digest=atlas.about.digest[:12],
    )
    return said + (" " + view.t("atlas.about_left", count=left) if left else "")


def place(view: View, head: Head) -> str:
    """The name of a head, in words."""
    kind = view.t(f"kinds.{head.role}")
    return view.t("atlas.place", kind=kind, layer=head.layer + 1, head=head.head + 1)


def short(head: Head) -> str:
    """The short name of a head: L2·H3."""
    return f"L{head.layer + 1}·H{head.head + 1}"


def kind_words(view: View, kind: str) -> str:
    """A kind of head: "previous token"."""
    return view.t(f"atlas.kinds.{kind}")


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


def does_it(measure: Measure, share: float) -> bool:
    """Whether a share is high enough to name the head after this measure."""
    return share >= (ALIGNED if measure == "alignment" else MOSTLY)


def kinds_of(atlas: Atlas) -> Sequence[str]:
    """The kind of every head."""
    return [name.kind for name in atlas.names]
