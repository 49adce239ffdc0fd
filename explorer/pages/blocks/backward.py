"""The gradient of LayerNorm or RMSNorm, manual and by autograd, with a slider per gamma."""

from functools import partial

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from explorer.analysis.blocks.norms import Backward, backward
from explorer.exhibits.saying import SUBSCRIPTS
from explorer.exhibits.view import View
from explorer.figures.blocks.norms import gradients
from explorer.figures.paired import paired
from explorer.numbers import number, signed
from explorer.pages.blocks.choices import GAMMAS, BlocksChoices
from explorer.ui import controls, session
from models.norms import NORMS, NormKind

UPSTREAM = np.array([0.6, -1.0, 0.3, 0.9, -0.4, 0.2])
"""The upstream gradient: arbitrary but distinct numbers."""


def norm_of(view: View) -> NormKind:
    """The norm whose gradient is shown: the chosen one, else this model's."""
    chosen = view.choices(BlocksChoices).norm
    return next((kind for kind in NORMS if kind == chosen), view.loaded.config.norm)


def backward_by_hand(view: View, token: NDArray[np.float64]) -> None:
    """The first features of a token, normalised, and three computations of the gradient."""
    norm = norm_of(view)
    title = view.t("blocks.backward", norm=view.t(f"blocks.{norm}"))
    st.markdown(f"**{title}**")
    st.caption(view.t("blocks.backward_note", count=len(GAMMAS)))
    _sliders(view)
    gamma = np.array(view.choices(BlocksChoices).gamma) / 100
    found = backward(token[: len(gamma)], gamma, UPSTREAM, norm)
    left, right = st.columns(2, gap="large")
    with left:
        _forward(view, token[: len(gamma)], found)
    figure = gradients(
        np.stack([found.by_hand, found.autograd, found.wrong]),
        [view.t(f"blocks.{name}") for name in ("by_hand", "autograd", "late")],
        x_title=view.t("blocks.feature"),
        y_title="∂L/∂x",
        dark=view.dark,
    )
    with right:
        controls.chart(figure, "blocks.backward", alt=title)
    st.caption(
        view.t("blocks.d_gamma_alone", gamma=", ".join(map(signed, found.d_gamma)))
        if found.d_beta is None
        else view.t(
            "blocks.d_gamma",
            gamma=", ".join(map(signed, found.d_gamma)),
            beta=", ".join(map(signed, found.d_beta)),
        )
    )
    alike = len(set(view.choices(BlocksChoices).gamma)) == 1
    controls.reading(
        "backward",
        view.t(
            "blocks.read_backward_alike" if alike else "blocks.read_backward",
            error=number(found.error),
            wrong=number(found.wrong_error),
        ),
    )


def _forward(view: View, x: NDArray[np.float64], found: Backward) -> None:
    """The features before and after the norm, with the gradients of gamma and beta."""
    figure = paired(
        [str(at + 1) for at in range(len(x))],
        x,
        found.out,
        (view.t("blocks.before"), view.t("blocks.behind")),
        title=view.t("blocks.value"),
        label_title=view.t("blocks.feature"),
        height=300,
        dark=view.dark,
    )
    controls.chart(figure, "blocks.forward", alt=view.t("blocks.behind"))


def _sliders(view: View) -> None:
    for at, column in enumerate(st.columns(len(GAMMAS))):
        key = f"blocks.gamma.{at}"
        st.session_state[key] = view.choices(BlocksChoices).gamma[at] / 100
        with column:
            st.slider(
                f"γ{at + 1}".translate(SUBSCRIPTS),
                0.0,
                3.0,
                step=0.05,
                key=key,
                on_change=partial(_choose, at, key),
            )


def _choose(at: int, key: str) -> None:
    gamma = list(session.state().of(BlocksChoices).gamma)
    gamma[at] = round(100 * st.session_state[key])
    session.change(gamma=tuple(gamma))
