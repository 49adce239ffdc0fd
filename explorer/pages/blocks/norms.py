"""LayerNorm, RMSNorm and BatchNorm on the same padded batch of the user's sentences."""

import numpy as np
import streamlit as st

from explorer.analysis.blocks.norms import (
    NORMS,
    Batch,
    Norm,
    backward,
    batch_of,
    eps_curves,
    moved_by_others,
    normalised,
    statistics,
)
from explorer.analysis.blocks.norms_by_hand import (
    layer_norm_backward,
    layer_norm_forward,
    rms_norm_backward,
)
from explorer.analysis.positions.order import reading_stream
from explorer.exhibits.shared import ScreenChoices
from explorer.exhibits.view import View, examples_of
from explorer.figures.blocks import norms as figures
from explorer.figures.order import moved
from explorer.numbers import number, share
from explorer.pages.blocks.backward import backward_by_hand, norm_of
from explorer.problems import InputProblem
from explorer.ui import controls
from explorer.ui.parts import pick_one
from explorer.ui.problem import show_problem
from models.norms import RMSNorm

EPSILONS = (1e-12, 1e-8, 1e-6, 1e-5)
SCALES = np.logspace(-6, 1, 57)
LAYER_BACKWARD = (
    r"\frac{\partial L}{\partial x} = \frac{g - \overline{g} - n\,\overline{g n}}"
    r"{\sqrt{\sigma^2 + \varepsilon}},\qquad g = \gamma\,\frac{\partial L}{\partial y}"
)
RMS_BACKWARD = (
    r"\frac{\partial L}{\partial x} = \frac{g - n\,\overline{g n}}"
    r"{\sqrt{\frac1d\sum_i x_i^2 + \varepsilon}},\qquad g = \gamma\,\frac{\partial L}{\partial y}"
)


def norms(view: View) -> None:
    """Statistics as heatmaps, dependence on other tokens, eps, and the gradient."""
    try:
        batch, used = _batch(view)
    except InputProblem as problem:
        show_problem(problem, view.lang)
        return
    if not view.choices(ScreenChoices).beamer:
        st.markdown(view.t("blocks.batch" if view.others else "blocks.batch_examples"))
    norm = pick_one(
        view,
        "norm",
        view.t("blocks.norm"),
        NORMS,
        "blocks.norm",
        lambda name: view.t(f"blocks.{name}"),
    )
    _statistics(view, batch, norm)
    _who_moves(view, batch, used)
    _eps(view, batch)
    backward_by_hand(view, batch.x[0, 0])
    rms = norm_of(view) == "rmsnorm"
    controls.small_print(
        view,
        "blocks",
        formula=(
            r"\mathrm{LayerNorm}(x) = \gamma\,\frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} + \beta"
            r",\qquad \mathrm{RMSNorm}(x) = \gamma\,\frac{x}{\sqrt{\frac1d\sum_i x_i^2 +"
            r" \varepsilon}}",
            r"\mathrm{BatchNorm}(x)_i = \gamma_i\,\frac{x_i - \mu_i}{\sqrt{\sigma_i^2 + "
            r"\varepsilon}} + \beta_i,\qquad \mu_i, \sigma_i^2\ \text{over all tokens}",
            RMS_BACKWARD if rms else LAYER_BACKWARD,
        ),
        code=(
            *(statistics, normalised, layer_norm_forward, RMSNorm),
            *(moved_by_others, eps_curves, backward),
            rms_norm_backward if rms else layer_norm_backward,
        ),
        numbers=lambda: _numbers(view, batch),
    )


def _batch(view: View) -> tuple[Batch, list[str]]:
    """The user's sentence and further ones; two examples if there are none."""
    others = list(view.others)
    if not others:
        first = next(iter(examples_of(view.loaded.name).values()))
        others = [sentence for sentence in first if sentence != view.text][:2]
    sentences = [view.text, *others]
    return batch_of(view.loaded, sentences), sentences


@controls.reading_first()
def _statistics(view: View, batch: Batch, norm: Norm) -> None:
    found = statistics(batch.x, norm)
    names = [view.t("blocks.sentence", number=at + 1) for at in range(len(batch.x))]
    pictures = [("scale", found.scale)] if norm == "rmsnorm" else [("mean", found.mean)]
    if norm != "rmsnorm":
        pictures.append(("scale", found.scale))
    for name, values in pictures:
        word = "rms" if norm == "rmsnorm" else name
        title = view.t(f"blocks.{word}")
        top = float(np.abs(values).max(initial=1e-6))
        st.markdown(f"**{title}**")
        if norm == "batchnorm":
            figure = figures.by_feature(
                values, title=title, x_title=view.t("blocks.feature"), top=top, dark=view.dark
            )
        else:
            figure = figures.by_token(
                values,
                batch.valid,
                batch.tokens,
                names,
                title=title,
                top=top,
                dark=view.dark,
            )
        controls.chart(figure, f"blocks.statistics.{name}", alt=title)
    count = found.scale.size
    where = {"sentences": len(batch.x), "length": batch.x.shape[1], "width": batch.x.shape[2]}
    controls.reading("norm", view.t(f"blocks.read_{norm}", count=count, **where))


def _who_moves(view: View, batch: Batch, sentences: list[str]) -> None:
    """The user's sentence in this batch compared with the same sentence alone."""
    shares, largest = moved_by_others(view.loaded, sentences)
    tokens = [token for token, valid in zip(batch.tokens[0], batch.valid[0], strict=True) if valid]
    st.markdown(f"**{view.t('blocks.who_moves')}**")
    st.caption(view.t("blocks.who_moves_note"))
    figure = moved(
        tokens,
        shares[:, : len(tokens)],
        [view.t(f"blocks.{name}") for name in NORMS],
        y_title=view.t("blocks.moved"),
        x_title=view.t("blocks.sentence", number=1),
        stream=reading_stream(view.loaded),
        dark=view.dark,
    )
    controls.chart(figure, "blocks.moved", alt=view.t("blocks.who_moves"))
    by_norm = {name: share(float(row.mean())) for name, row in zip(NORMS, shares, strict=True)}
    controls.reading(
        "moved",
        view.t(
            "blocks.read_moved",
            batch=by_norm["batchnorm"],
            layer=by_norm["layernorm"],
            rms=by_norm["rmsnorm"],
            largest=number(float(largest[2])),
            others=len(batch.x) - 1,
        ),
    )


def _eps(view: View, batch: Batch) -> None:
    """The output size against the input size, for several eps."""
    x = batch.x[0, 0] / max(float(statistics(batch.x, "layernorm").scale[0, 0]), 1e-9)
    left, right = st.columns(2, gap="large")
    words = {"x_title": view.t("blocks.input_size"), "y_title": view.t("blocks.output_size")}
    with left:
        st.markdown(f"**{view.t('blocks.eps')}**")
        st.caption(view.t("blocks.eps_note"))
        figure = figures.eps_curves(
            SCALES,
            eps_curves(x, SCALES, EPSILONS),
            [f"ε = {eps:.0e}".replace("e-0", "e-") for eps in EPSILONS],
            dark=view.dark,
            **words,
        )
        controls.chart(figure, "blocks.eps", alt=view.t("blocks.eps"))
    with right:
        st.markdown(f"**{view.t('blocks.eps_place')}**")
        st.caption(view.t("blocks.eps_place_note"))
        inside, outside = (
            eps_curves(x, SCALES, (1e-6,), kind)[0] for kind in ("rmsnorm", "rms_outside")
        )
        figure = figures.eps_curves(
            SCALES,
            np.stack([inside, outside]),
            [view.t("blocks.inside"), view.t("blocks.outside")],
            dark=view.dark,
            **words,
        )
        controls.chart(figure, "blocks.eps_place", alt=view.t("blocks.eps_place"))


def _numbers(view: View, batch: Batch) -> dict[str, list[object]]:
    layer, rms = (statistics(batch.x, name) for name in ("layernorm", "rmsnorm"))
    return {
        view.t("blocks.sentence", number=1): list(batch.tokens[0]),
        view.t("blocks.mean"): np.round(layer.mean[0], 4).tolist(),
        view.t("blocks.scale"): np.round(layer.scale[0], 4).tolist(),
        view.t("blocks.rms"): np.round(rms.scale[0], 4).tolist(),
    }
