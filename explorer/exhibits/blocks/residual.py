"""Norm placement: wiring with measured numbers; residual stream and gradient by block."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.analysis.blocks.residual import (
    D_MODEL,
    MOST_LAYERS,
    N_HEADS,
    PLACEMENTS,
    SEEDS,
    StreamNorms,
    fresh_flow,
)
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.blocks.choices import BlocksChoices
from explorer.exhibits.blocks.norms import model_line
from explorer.exhibits.picking import slider, titled, toggle
from explorer.figures.blocks import WiringNumbers, wiring
from explorer.figures.curves import lines
from explorer.figures.training import Curve, over_steps
from explorer.numbers import number, percent
from explorer.runs.passes import Steps
from explorer.runs.trace import Trace
from models.blocks import Block
from models.config import NormPlacement

DEPTH = 12
AXES = {"stream": "blocks.stream_axis", "gradient": "blocks.gradient_axis"}
Flows = Mapping[NormPlacement, StreamNorms]


def compute(trace: Trace, depth: int | None, final: bool) -> Steps[tuple[Flows, StreamNorms]]:
    """Three untrained models of each placement, then "pre" again with f(norm(x)) in place of x +
    f(norm(x)). Raises InputProblem for one token."""
    flows: dict[NormPlacement, StreamNorms] = {}
    tokens, n_layers = trace.src_tokens or trace.tgt_tokens, depth_of(depth)
    for at, place in enumerate(PLACEMENTS):
        yield at, len(PLACEMENTS) + 1
        flows[place] = fresh_flow(tokens, place, n_layers, final)
    yield len(PLACEMENTS), len(PLACEMENTS) + 1
    cut = fresh_flow(tokens, "pre", n_layers, final, residual=False)
    return flows, cut


def depth_of(chosen: int | None) -> int:
    """The chosen number of layers, else the usual one."""
    return min(DEPTH if chosen is None else chosen, MOST_LAYERS)


def controls(view: View) -> b.Blocks:
    """The open model in one line; depth of the untrained models, and a final norm or none. They
    stay usable while the models are computed."""
    yield from model_line(view)
    choices = view.choices(BlocksChoices)
    depths, now = b.Span(1, MOST_LAYERS), depth_of(choices.depth)
    layers = slider(view, "blocks.depth", depths, now, display=b.Display(320))
    yield b.Row((layers, toggle(view, "blocks.final", choices.final)), gap="large")


def show(answer: tuple[Flows, StreamNorms], view: View) -> b.Blocks:
    """Three placements side by side, then the same models without the residual sum."""
    flows, cut = answer
    yield from controls(view)
    depth = depth_of(view.choices(BlocksChoices).depth)
    yield b.Sentence("placement", _said(view, flows, depth))
    words = view.words("figures.residual")
    numbers = {place: _labels(view, flow) for place, flow in flows.items()}
    yield b.Chart("blocks.wiring", partial(wiring, numbers, words=words), view.t("blocks.wiring"))
    yield by_blocks(view, flows, "fresh")
    losses = {place: f"{float(flow.loss.mean()):.2f}" for place, flow in flows.items()}
    yield b.Prose(view.t("blocks.losses", **losses))
    yield from _without_sum(view, flows["pre"], cut, depth)
    sizes = {"width": D_MODEL, "heads": N_HEADS, "depth": depth, "seeds": len(SEEDS)}
    yield b.Formula.of(
        f"{view.t('blocks.fresh', **sizes)}\n\n{view.t('blocks.residual_formula')}",
        r"\text{post}:\ \mathrm{Norm}(x + f(x)),\qquad \text{pre}:\ x + f(\mathrm{Norm}(x))"
        r",\qquad \text{sublayer output}:\ x + \mathrm{Norm}(f(x))",
        r"\frac{\partial (x + f(x))}{\partial x} = I + \frac{\partial f}{\partial x}",
        r"\text{spread}(X) = \frac{\lVert X - \mathbf{1}\,\bar{x}^{\top} \rVert}"
        r"{\lVert X \rVert}",
    )
    yield b.Code((fresh_flow, Block.forward, Block.read, Block.add))
    yield b.Numbers(lambda: _numbers(view, flows))


def _labels(view: View, flow: StreamNorms) -> WiringNumbers:
    """The numbers of a wiring diagram: means over seeds in the first and last block."""
    stream, added, gradient = (norms.mean(0) for norms in (flow.stream, flow.added, flow.gradient))

    def both(values: np.ndarray) -> str:
        return f"{values[0]:.2f} → {values[-1]:.2f}"

    back = view.t("blocks.back", gradient=f"{_short(gradient[0])} ← {_short(gradient[-1])}")
    return WiringNumbers(f"x: {both(stream[:-1])}", f"+ {both(added)}", both(stream[1:]), back)


def _short(value: float) -> str:
    return f"{value:.2f}" if 0.1 <= value < 1e4 else number(value)


def _said(view: View, flows: Flows, depth: int) -> str:
    values = {}
    for place, flow in flows.items():
        values[f"{place}_stream"] = f"{flow.stream.mean(0)[-1]:.1f}"
        gradient = _geometric(flow.gradient)
        values[f"{place}_ratio"] = number(float(gradient[0] / gradient[-1]))
    return view.t("blocks.read_placement", depth=depth, **values)


def by_blocks(view: View, flows: Flows, key: str) -> b.Columns:
    """Residual stream and its gradient by block, for each norm placement."""
    names = [view.t("figures.residual", place) for place in flows]

    def column(what: str, axis: str) -> tuple[b.Block, ...]:
        log, curves = what == "gradient", []
        for name, flow in zip(names, flows.values(), strict=True):
            seeds = np.atleast_2d(getattr(flow, what))
            mean = _geometric(seeds) if log else seeds.mean(0)
            band = (seeds.min(0), seeds.max(0)) if len(seeds) > 1 else ()
            curves.append(Curve(name, np.arange(len(mean)), mean, *band))
        titles, last = view.axes("blocks.block", axis), len(mean) - 1
        draw = partial(over_steps, curves, last=last, log_y=log, **titles)
        return titled(view, f"blocks.{key}.{what}", draw, view.t("blocks.sizes", what))

    return b.Columns([column(what, axis) for what, axis in AXES.items()])


def _without_sum(view: View, whole: StreamNorms, cut: StreamNorms, depth: int) -> b.Blocks:
    """Pre-norm models with x + f(norm(x)) compared with the same models with f(norm(x)) alone."""
    yield b.Title(view.t("blocks.without_sum"), large=True)
    yield b.Prose(view.t("blocks.without_sum_lead"))
    gradients = np.stack([_geometric(flow.gradient) for flow in (whole, cut)])
    spreads = np.stack([flow.spread.mean(0) for flow in (whole, cut)])
    names = [view.t("blocks.sum_on"), view.t("blocks.sum_off")]

    def column(what: str, axis: str, values: np.ndarray) -> tuple[b.Block, ...]:
        titles = view.axes("blocks.block", axis)
        log = what == "gradient"
        draw = partial(lines, np.arange(depth + 1), values, names, log_y=log, height=250, **titles)
        return titled(view, f"blocks.without_sum.{what}", draw, view.t("blocks.sizes", what))

    left = column("gradient", AXES["gradient"], gradients)
    yield b.Columns((left, column("spread", "blocks.spread_axis", 100 * spreads)))
    gradient = dict(zip(("gradient_on", "gradient_off"), map(_short, gradients[:, 0]), strict=True))
    spread = dict(zip(("spread_on", "spread_off"), map(percent, spreads[:, -1]), strict=True))
    yield b.Sentence("without_sum", view.t("blocks.read_without_sum", **gradient, **spread))


def _geometric(gradients: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """The geometric mean over seeds; values below 1e-30 count as 1e-30."""
    return np.exp(np.log(np.maximum(gradients, 1e-30)).mean(0))


def _numbers(view: View, flows: Flows) -> dict[str, list[object]]:
    n = next(iter(flows.values())).stream.shape[1]
    columns: dict[str, list[object]] = {view.t("blocks.block"): list(range(n))}
    for place, flow in flows.items():
        name = view.t("figures.residual", place)
        for what, axis in AXES.items():
            means = getattr(flow, what).mean(0)
            columns[f"{name} · {view.t(axis)}"] = [f"{v:.4g}" for v in means]
    return columns


EXHIBIT = Exhibit(compute, show, wait=Wait("blocks.building", blocks=controls))
