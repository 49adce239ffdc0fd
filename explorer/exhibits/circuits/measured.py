"""What several exhibits ask of a model's heads."""

from collections.abc import Sequence

import numpy as np

from explorer.analysis.circuits import behaviour as behaving, by_hand as building
from explorer.analysis.circuits.chance import COPIES, Chance
from explorer.analysis.circuits.rows import Twice, half_for, random_twice, repeatable, twice
from explorer.engine import cache
from explorer.engine.caching import cached
from explorer.exhibits import View, block as b
from explorer.exhibits.saying import site_axes
from explorer.figures.matrix import Mark, Matrix, weights
from explorer.library import LoadedModel
from explorer.runs.passes import Steps


def scope(view: View) -> b.Blocks:
    """A note on what is measured in a translator, or in a model that reads both ways."""
    if view.sites_of("cross"):
        yield b.Note(view.t("circuits.translator"))
    elif not view.loaded.config.is_causal:
        yield b.Note(view.t("circuits.both_ways"))


@cached
def built() -> LoadedModel:
    """The model with a hand-built circuit."""
    return building.by_hand()


def opened(model: str) -> LoadedModel:
    """A model of the shelf, or the one built by hand."""
    return built() if model == building.NAME else cache.open_model(model)


@cached
def behaviour(model: str) -> behaving.HeadScores:
    """The behaviour of every head on synthetic sequences."""
    return behaving.behaviour(opened(model))


def work_of_chance(loaded: LoadedModel) -> int:
    """The cost of `chance` in tokens times parameters."""
    rows = random_twice(loaded).rows
    n_tokens = sum(rows.tokens(stream).numel() for stream in loaded.model.reads)
    return COPIES * n_tokens * loaded.n_parameters


@cached
def chance(model: str) -> Steps[Chance]:
    """The best head's score by chance on synthetic sequences, shuffled copy by shuffled copy."""
    return (yield from behaving.best_by_chance(opened(model)))


@cached
def said_twice(model: str, text: str) -> tuple[Twice, bool]:
    """A text's tokens repeated twice, and whether its end was cut off. Raises InputProblem."""
    loaded = opened(model)
    tokens = repeatable(loaded, text)
    most = max(1, half_for(loaded))
    return twice(loaded, [tokens[:most]]), len(tokens) > most


@cached
def on_text(model: str, text: str) -> behaving.HeadScores:
    """The behaviour of every head on a repeated text. Raises InputProblem."""
    return behaving.looked(opened(model), said_twice(model, text)[0])


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
