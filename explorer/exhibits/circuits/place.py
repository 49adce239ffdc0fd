"""What the exhibits share: the open head, and a matrix of attention within one sequence."""

from collections.abc import Sequence

import numpy as np

from explorer.exhibits import View, block as b
from explorer.exhibits.saying import site_axes
from explorer.figures.matrix import Mark, Matrix, weights


def scope(view: View) -> b.Blocks:
    """A note on what is measured in a translator, or in a model that reads both ways."""
    if view.sites_of("cross"):
        yield b.Note(view.t("circuits.translator"))
    elif not view.loaded.config.is_causal:
        yield b.Note(view.t("circuits.both_ways"))


def chosen_head(view: View) -> tuple[int, int] | None:
    """Layer and head of the open head, if the link has one of self-attention."""
    state = view.state
    own = state.site in ("", view.own_role) or len(view.kinds) == 1
    if own and state.layer is not None and state.head is not None and view.kind == view.own_role:
        return view.layer, view.head
    return None


def open_head(view: View, at: tuple[int, int]) -> b.Change:
    """Open a head of self-attention."""
    return b.choose(elsewhere=True, site=view.own_role, layer=at[0], head=at[1])


def tokens_matrix(
    view: View,
    pattern: np.ndarray,
    mask: np.ndarray,
    labels: Sequence[str],
    ringed: tuple[np.ndarray, np.ndarray] | None = None,
) -> Matrix:
    """Attention within one sequence, with a ring around some (queries, keys). The colour scale ends
    below the largest weight: the first queries have all their attention on one or two keys."""
    top = max(0.1, float(np.quantile(pattern[2:, 1:], 0.995))) if len(pattern) > 2 else 1.0
    site, words = view.sites_of(view.own_role)[0], view.words("figures.heatmap")
    marks = [] if ringed is None else [Mark("circle", np.transpose(ringed).tolist())]
    axes = site_axes(view, site, tokens=(labels, labels))
    return weights(pattern, mask, axes, top=top, marks=marks, words=words)
