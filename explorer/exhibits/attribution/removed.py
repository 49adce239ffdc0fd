"""The experiment: remove a writer and compare the weights with the prediction."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from explorer.analysis.attribution.ledger import Writer
from explorer.analysis.attribution.why import Why
from explorer.analysis.attribution.writers import Side
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.attribution.place import to_remove, writer_name
from explorer.figures.curves import lines
from explorer.figures.frame import Figure, least_width, upright
from explorer.library import LoadedModel
from explorer.numbers import fixed, number, percent
from explorer.runs.rerun import rerun
from explorer.runs.trace import Trace
from models.hooks import Edits


@dataclass(frozen=True, eq=False)
class Removal:
    """One component removed from the query or key of a cell, and the effect on its row of weights.

    `scores` and `patterns` are the row [key] before, as predicted from the pieces, as measured in a
    run of the model whose q or k lacks the piece, and as measured with the component removed where
    it wrote, so that every norm recomputes its scale.
    """

    side: Side
    writer: Writer
    scores: Float[np.ndarray, "4 key"]
    patterns: Float[np.ndarray, "4 key"]
    key: int

    @property
    def error(self) -> float:
        """The largest difference between a predicted and a measured weight in the row."""
        return float(np.abs(self.patterns[1] - self.patterns[2]).max())


def remove(loaded: LoadedModel, traced: Trace, reason: Why, side: Side, writer: int) -> Removal:
    """Remove a component from the query (its whole row changes) or the key (one cell changes).

    The effect is predicted by arithmetic alone, then measured with a visitor at `hook_q` or
    `hook_k`. Raises IndexError for a component out of range.
    """
    site, head, query, key = reason.site, reason.head, reason.query, reason.key
    ledger = reason.of(side)[0]
    piece, lone = ledger.pieces[writer, 0], ledger.without[writer, 0]
    scores = traced.activations[site.hook("scores")][head, query].astype(np.float64)
    biases = traced.activations.get(site.hook("bias"))
    bias = np.zeros_like(scores) if biases is None else biases[head, query].astype(np.float64)
    keys = traced.activations[site.hook("k")].astype(np.float64)
    keys = keys[head // (site.n_heads // len(keys))]
    if side == "query":
        fallen = keys @ piece / reason.divisor
    else:
        fallen = np.zeros_like(scores)
        fallen[key] = float(piece @ reason.queries.whole[0]) / reason.divisor
    products = keys @ reason.queries.whole[0] / reason.divisor - fallen
    cap = loaded.config.score_cap
    capped = products if cap is None else cap * np.tanh(products / cap)
    predicted = np.where(fallen == 0, scores, capped + bias)
    mask = traced.mask(site.name)[head, query]
    rows, patterns = [scores, predicted], [_softmax(scores, mask), _softmax(predicted, mask)]
    for vector in (ledger.whole[0] - piece, lone):
        measured, pattern = _measured(loaded, traced, reason, side, vector)
        rows.append(measured)
        patterns.append(pattern)
    patterns[0] = traced.pattern(site.name)[head, query].astype(np.float64)
    return Removal(side, ledger.writers[writer], np.stack(rows), np.stack(patterns), key)


def _softmax(
    scores: Float[np.ndarray, " key"], mask: Bool[np.ndarray, " key"]
) -> Float[np.ndarray, " key"]:
    if not mask.any():
        return np.zeros_like(scores)
    exponentials = np.where(mask, np.exp(np.where(mask, scores - scores[mask].max(), 0.0)), 0.0)
    return exponentials / exponentials.sum()


def _measured(
    loaded: LoadedModel, traced: Trace, reason: Why, side: Side, vector: np.ndarray
) -> tuple[Float[np.ndarray, " key"], Float[np.ndarray, " key"]]:
    """The row's scores and pattern in a run of the model with this query or key instead."""
    site, head = reason.site, reason.head
    place, row = ("q", head), reason.query
    if side == "key":
        shared = site.n_heads // loaded.config.kv_heads
        place, row = ("k", head // shared), reason.key
    change = Edits({site.hook(place[0]): partial(_put, head=place[1], row=row, vector=vector)})
    hooks = site.hook("scores"), site.hook("pattern")
    seen = rerun(loaded, traced, hooks, change)
    scores, pattern = (seen[hook][0, head, reason.query].double().numpy() for hook in hooks)
    return scores, pattern


def _put(tensor: Tensor, head: int, row: int, vector: np.ndarray) -> Tensor:
    """Queries or keys [1, head, pos, d_head] with this vector at one head and position."""
    changed = tensor.clone()
    changed[:, head, row] = torch.tensor(vector, dtype=tensor.dtype)
    return changed


ROOM = 900
"""Assumed width in pixels for the labels of keys."""


def compute(loaded: LoadedModel, trace: Trace, why: Why, side: Side, taken: int | None) -> Removal:
    """Ablate a writer in the query or the key, by default the largest."""
    return remove(loaded, trace, why, side, to_remove(why.of(side)[1], taken)[1])


def show(removed: Removal | None, view: View) -> b.Blocks:
    """The weights before and after, predicted and measured."""
    if removed is None:
        return
    at = removed.key
    before, predicted, measured, free = (fixed(float(score)) for score in removed.scores[:, at])
    weights = [percent(float(weight)) for weight in removed.patterns[:, at]]
    reading = view.t(
        "attribution.read_removed",
        writer=writer_name(view, removed.writer),
        side=view.t(f"attribution.of_{removed.side}"),
        before=before,
        predicted=predicted,
        measured=measured,
        free=free,
        old=weights[0],
        new=weights[2],
        error=number(removed.error),
    )
    yield b.Sentence("removed", reading)
    curves = ("before", "predicted", "measured", "norms_free")
    tokens = view.trace.key_tokens(view.site.name)

    def draw(dark: bool) -> Figure:
        figure = lines(
            np.arange(len(tokens)),
            100 * removed.patterns,
            [view.t(f"attribution.{name}") for name in curves],
            **view.axes("attribution.key", "attribution.weight"),
            height=280,
            points=True,
            dark=dark,
        )
        figure["layout"]["xaxis"] |= upright(tokens, dark, ROOM)
        figure["layout"]["meta"] = {"least": least_width(tokens, ROOM)}
        return figure

    yield b.Chart("attribution.removed", draw, view.t("attribution.check"))


EXHIBIT = Exhibit(compute, show, wait=Wait("attribution.working", after="attribution.why"))
