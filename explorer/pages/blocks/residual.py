"""Norm placement: wiring with measured numbers; residual stream and gradient by block."""

from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from explorer.analysis.blocks.residual import (
    D_MODEL,
    MOST_LAYERS,
    N_HEADS,
    PLACEMENTS,
    SEEDS,
    Flow,
    fresh_flow,
    trained_flow,
)
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.exhibits.view import View
from explorer.figures.blocks.residual import Numbers, by_block, wiring
from explorer.figures.curves import lines
from explorer.numbers import number, percent
from explorer.pages.blocks import cached
from explorer.pages.blocks.choices import BlocksChoices
from explorer.problems import InputProblem
from explorer.ui import controls, session
from explorer.ui.problem import show_problem
from models.blocks import Block
from models.config import NormPlacement

DEPTH = 12
TWINS: dict[NormPlacement, str] = {
    "post": "twin-deep-post",
    "pre": "twin-deep-pre",
    "sublayer": "twin-deep-branch",
}


def placements(view: View) -> None:
    """Three untrained models of the same depth, side by side; then three trained ones."""
    depth, final = _controls(view)
    tokens = view.trace.src_tokens or view.trace.tgt_tokens
    flows = _measure(view, tokens, depth, final)
    with controls.reading_first():
        words = view.words("figures.residual")
        controls.chart(
            wiring(
                {place: _labels(view, flow) for place, flow in flows.items()},
                dark=view.dark,
                words=words,
            ),
            "blocks.wiring",
            alt=view.t("blocks.wiring"),
        )
        sizes = {"width": D_MODEL, "heads": N_HEADS, "depth": depth}
        st.caption(view.t("blocks.fresh", seeds=len(SEEDS), tokens=len(tokens), **sizes))
        controls.reading("placement", _reading(view, flows, depth))
    losses = {place: f"{float(flow.loss.mean()):.2f}" for place, flow in flows.items()}
    sure = f"{np.log(len(set(tokens))):.2f}"
    st.markdown(view.t("blocks.losses", sure=sure, **losses))
    _curves(view, flows, "fresh")
    _without_sum(view, tokens, flows["pre"], depth, final)
    trained = _twins(view)
    controls.small_print(
        view,
        "blocks",
        formula=(
            r"\text{post}:\ \mathrm{Norm}(x + f(x)),\qquad \text{pre}:\ x + f(\mathrm{Norm}(x))"
            r",\qquad \text{sublayer output}:\ x + \mathrm{Norm}(f(x))",
            r"\frac{\partial (x + f(x))}{\partial x} = I + \frac{\partial f}{\partial x}",
            r"\text{spread}(X) = \frac{\lVert X - \mathbf{1}\,\bar{x}^{\top} \rVert}"
            r"{\lVert X \rVert}",
        ),
        code=(fresh_flow, Block.forward, Block.residual, *([trained_flow] if trained else [])),
        numbers=lambda: _numbers(view, flows),
        explained="blocks.residual_formula",
    )


def _controls(view: View) -> tuple[int, bool]:
    made = view.choices(BlocksChoices)
    depth = min(DEPTH if made.depth is None else made.depth, MOST_LAYERS)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="large"):
        st.session_state["blocks.depth"] = depth
        st.slider(
            view.t("blocks.depth"),
            1,
            MOST_LAYERS,
            key="blocks.depth",
            width=320,
            on_change=lambda: session.change(depth=st.session_state["blocks.depth"]),
        )
        st.session_state["blocks.final"] = made.final
        st.toggle(
            view.t("blocks.final"),
            key="blocks.final",
            on_change=lambda: session.change(final=st.session_state["blocks.final"]),
        )
    return depth, made.final


def _measure(
    view: View, tokens: tuple[int, ...], depth: int, final: bool
) -> dict[NormPlacement, Flow]:
    flows = {}
    bar = st.empty()
    for at, place in enumerate(PLACEMENTS):
        bar.progress(at / len(PLACEMENTS), view.t("blocks.building"))
        flows[place] = cached.fresh_flow(tokens, place, depth, final)
    bar.empty()
    return flows


def _labels(view: View, flow: Flow) -> Numbers:
    """The numbers of a wiring diagram: means over seeds in the first and last block."""
    stream, added, gradient = (
        values.mean(0) for values in (flow.stream, flow.added, flow.gradient)
    )

    def both(values: np.ndarray) -> str:
        return f"{values[0]:.2f} → {values[-1]:.2f}"

    return Numbers(
        before=f"x: {both(stream[:-1])}",
        added=f"+ {both(added)}",
        behind=both(stream[1:]),
        back=view.t("blocks.back", gradient=f"{_short(gradient[-1])} → {_short(gradient[0])}"),
    )


def _short(value: float) -> str:
    return f"{value:.2f}" if 0.1 <= value < 1e4 else number(value)


def _reading(view: View, flows: dict[NormPlacement, Flow], depth: int) -> str:
    values = {}
    for place, flow in flows.items():
        values[f"{place}_stream"] = f"{flow.stream.mean(0)[-1]:.1f}"
        gradient = _geometric(flow.gradient)
        values[f"{place}_ratio"] = number(float(gradient[0] / gradient[-1]))
    return view.t("blocks.read_placement", depth=depth, **values)


def _curves(view: View, flows: dict[NormPlacement, Flow], key: str) -> None:
    names = [view.t(f"figures.residual.{place}") for place in flows]
    left, right = st.columns(2, gap="large")
    for column, what in ((left, "stream"), (right, "gradient")):
        with column:
            st.markdown(f"**{view.t(f'blocks.{what}')}**")
            figure = by_block(
                {place: getattr(flow, what) for place, flow in flows.items()},
                names,
                x_title=view.t("blocks.block"),
                y_title=view.t(f"blocks.{what}_axis"),
                log=what == "gradient",
                dark=view.dark,
            )
            controls.chart(figure, f"blocks.{key}.{what}", alt=view.t(f"blocks.{what}"))


def _without_sum(view: View, tokens: tuple[int, ...], whole: Flow, depth: int, final: bool) -> None:
    """The same pre-norm models with x + f(norm(x)) replaced by f(norm(x))."""
    cut = cached.fresh_flow(tokens, "pre", depth, final, summed=False)
    st.subheader(view.t("blocks.without_sum"), anchor=False)
    st.markdown(view.t("blocks.without_sum_lead"))
    gradients = np.stack([_geometric(flow.gradient) for flow in (whole, cut)])
    spreads = np.stack([flow.spread.mean(0) for flow in (whole, cut)])
    shown = {"gradient": gradients, "spread": 100 * spreads}
    for column, (what, values) in zip(st.columns(2, gap="large"), shown.items(), strict=True):
        with column:
            st.markdown(f"**{view.t(f'blocks.{what}')}**")
            figure = lines(
                np.arange(depth + 1),
                values,
                [view.t("blocks.sum_on"), view.t("blocks.sum_off")],
                x_title=view.t("blocks.block"),
                y_title=view.t(f"blocks.{what}_axis"),
                log_y=what == "gradient",
                dark=view.dark,
            )
            controls.chart(figure, f"blocks.without_sum.{what}", alt=view.t(f"blocks.{what}"))
    on, off = gradients[:, 0]
    fades = view.t(
        "blocks.read_gradient_less" if off < on / 2 else "blocks.read_gradient_alike",
        depth=depth,
        on=_short(float(on)),
        off=_short(float(off)),
    )
    on, off = spreads[:, -1]
    alike = view.t(
        "blocks.read_spread_lost" if off < on / 2 else "blocks.read_spread_kept",
        on=percent(float(on)),
        off=percent(float(off)),
    )
    controls.reading("without_sum", f"{fades} {alike}")


def _geometric(gradients: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """The geometric mean over seeds; values below 1e-30 count as 1e-30."""
    return np.exp(np.log(np.maximum(gradients, 1e-30)).mean(0))


def _twins(view: View) -> bool:
    """Three trained models that differ in norm placement, on the same sentence.

    Returns whether the models exist and can read it.
    """
    names = {place: name for place, name in TWINS.items() if name in cache.models()}
    if not names:
        return False
    st.subheader(view.t("blocks.twins"), anchor=False)
    flows: dict[NormPlacement, Flow] = {}
    try:
        with st.spinner(view.t("shell.working")):
            for place, name in names.items():
                flows[place] = cached.trained_flow(Run(name, view.text))
    except InputProblem as problem:  # their vocabulary and length limits differ from this model's
        show_problem(problem, view.lang)
        return False
    except ValueError:
        st.info(view.t("blocks.twins_silent"), icon=":material/lightbulb:")
        return False
    st.markdown(view.t("blocks.twins_note"))
    _curves(view, flows, "twins")
    if len(flows) == len(TWINS):
        ratios = {
            place: number(float(flow.gradient[0] / flow.gradient[-1]))
            for place, flow in flows.items()
        }
        losses = {f"{place}_loss": f"{float(flow.loss):.2f}" for place, flow in flows.items()}
        controls.reading("twins", view.t("blocks.read_twins", **ratios, **losses))
    return True


def _numbers(view: View, flows: dict[NormPlacement, Flow]) -> dict[str, list[object]]:
    n = next(iter(flows.values())).stream.shape[1]
    columns: dict[str, list[object]] = {view.t("blocks.block"): list(range(n))}
    for place, flow in flows.items():
        name = view.t(f"figures.residual.{place}")
        for what in ("stream", "gradient"):
            means = getattr(flow, what).mean(0)
            columns[f"{name} · {view.t(f'blocks.{what}_axis')}"] = [f"{v:.4g}" for v in means]
    return columns
