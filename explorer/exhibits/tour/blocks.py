"""Chapter 4 of the guided tour: norms, blocks and depth."""

from functools import partial
from typing import Any

import numpy as np

from explorer.analysis.blocks.norms import NORMS, Norm, normalised
from explorer.analysis.blocks.residual import PLACEMENTS, StreamNorms
from explorer.analysis.positions.order import reading_stream
from explorer.exhibits import View
from explorer.exhibits.blocks.norms import Norms
from explorer.exhibits.blocks.residual import Flows
from explorer.exhibits.tour import pictures
from explorer.exhibits.tour.attention import times
from explorer.exhibits.tour.pictures import Drawing, Exhibited
from explorer.exhibits.tour.posed import Posed
from explorer.exhibits.tour.rows import MissingError, require
from explorer.figures.blocks import WiringNumbers, wiring
from explorer.figures.curves import lines
from explorer.numbers import percent, share
from explorer.problems import InputProblem
from models.config import NormPlacement

DEPTH = 8
"""Layers of the fresh models: enough to distinguish norm placements, few enough to be quick."""
RESIDUAL = {"part": "residual", "depth": DEPTH}


def _normed(view: View) -> tuple[Norms, int, Norm, dict[str, Any]]:
    """The norms for this sentence and two examples, its number of tokens, the norm of this model,
    and the place on Blocks."""
    norm: Norm = "rmsnorm" if view.loaded.config.norm == "rmsnorm" else "layernorm"
    place = {"part": "norms", "norm": norm, "beside": ""}
    try:
        answer: Norms = Exhibited("blocks.norms", "", place).answer(view)
    except InputProblem:
        raise MissingError("flat") from None
    return answer, int(answer.batch.valid[0].sum()), norm, place


def tenfold(view: View) -> Posed:
    """Multiply the input of a norm by ten; missing if a large eps makes the outputs differ."""
    answer, n, norm, place = _normed(view)
    require(n >= 2, "short")
    x, eps = answer.batch.x[:1, :n], view.loaded.config.norm_eps
    small, large = (np.linalg.norm(normalised(by * x, norm, eps)) for by in (1, 10))
    grown = float(large / small)
    require(abs(grown - 1) < 0.02, "flat")
    words = {"norm": view.t("designs.norm", norm)}
    before = pictures.strip(view, reading_stream(view.loaded), answer.batch.tokens[0][:n])
    after, options = Exhibited("blocks.norms", "blocks.eps", place), (grown, 10, 10**0.5, 0.1)
    return Posed(options, words, [before], [after], place=place, spelt=times)


def company(view: View) -> Posed:
    """This sentence alone and in a batch with two examples, under each norm."""
    answer, n, _, place = _normed(view)
    moved = answer.shares[:, :n].mean(1)
    *_, second, first = np.sort(moved)
    require(first > 0.01 > second, "flat")
    kinds = (NORMS[int(moved.argmax())], *NORMS)
    options = [view.t("designs.norm", norm) for norm in kinds]
    words = {"others": len(answer.batch.x) - 1, "moved": share(float(first))}
    tokens, place = answer.batch.tokens[0][:n], {**place, "norm": kinds[0]}
    before = pictures.strip(view, reading_stream(view.loaded), tokens)
    after = Exhibited("blocks.norms", "blocks.moved", place)
    return Posed(options, words, [before], [after], place=place, names=kinds)


def _wiring(view: View, *placements: NormPlacement) -> list[Drawing]:
    """The wiring of norm placements, without numbers."""
    data = {place: WiringNumbers("", "", "", "") for place in placements}
    return [partial(wiring, data, words=view.words("figures.residual"))]


def added(view: View) -> Posed:
    """The additions to the residual stream in the stack that generates, part by part."""
    tower = Exhibited("model.boxes", "model.view", {}).answer(view).towers[-1]
    outputs, *others = {
        tuple(part.what for part in layer if part.what in ("self", "cross", "ffn"))
        for layer in tower.layers
    }
    require(not others and not view.loaded.config.parallel, "other_shape")
    layers, per = len(tower.layers), len(outputs)
    right = per * layers
    options = (right, layers, 2 * layers, 3 * layers, per, right + 1)
    names = " · ".join(view.t("model.boxes", name) for name in outputs)
    drawn = _wiring(view, view.loaded.config.norm_placement)
    return Posed(options, {"layers": layers, "per": per, "names": names}, drawn, drawn)


def _flows(view: View, block: str) -> tuple[Flows, StreamNorms, Exhibited]:
    """What fresh models do with this text, the same without the residual sum, and a picture of it.
    Raises MissingError for fewer than three tokens."""
    require(len(view.trace.src_tokens or view.trace.tgt_tokens) >= 3, "short")
    picture = Exhibited("blocks.residual", f"blocks.{block}", RESIDUAL)
    return *picture.answer(view), picture


def placement(view: View) -> Posed:
    """Fresh models of each norm placement, of which post-norm does not grow from after the first
    block to the end."""
    flows, _, after = _flows(view, "fresh.stream")
    means = {place: flow.stream.mean(0) for place, flow in flows.items()}
    grown = {place: abs(float(mean[-1] / mean[1]) - 1) for place, mean in means.items()}
    require(grown["post"] < 0.1 < 0.3 < min(grown["pre"], grown["sublayer"]), "flat")
    order = ("post", *PLACEMENTS)
    options = [view.t("tour.placements", place) for place in order]
    before = _wiring(view, *PLACEMENTS)
    return Posed(options, {"depth": DEPTH}, before, [after], place=RESIDUAL, names=order)


def summed(view: View) -> Posed:
    """How the differences between tokens develop in fresh pre-norm models, with and without the
    residual connection."""
    require(len({*(view.trace.src_tokens or view.trace.tgt_tokens)}) >= 3, "flat")
    flows, cut, after = _flows(view, "without_sum.spread")
    curve = flows["pre"].spread.mean(0)
    on, off = float(curve[-1]), float(cut.spread.mean(0)[-1])
    require(off < on / 4, "flat")
    axes, x = view.axes("blocks.block", "blocks.spread_axis"), np.arange(DEPTH + 1)
    before = partial(lines, x, 100 * curve[None], [view.t("blocks.sum_on")], **axes)
    words, shares = {"depth": DEPTH, "on": on}, (off, on, min(0.99, 1.5 * on), on / 2)
    return Posed(shares, words, [before], [after], place=RESIDUAL, spelt=percent)
