"""RoPE: a query and a key of this head as rotating arrows, pair by pair."""

from functools import partial

import numpy as np
import streamlit as st

from explorer.analysis.positions.turning import (
    LAYOUTS,
    Layout,
    Turned,
    angles_of,
    bare,
    layout_difference,
    rotate_as,
    score_by_offset,
    turned,
    turns,
)
from explorer.exhibits.view import View
from explorer.figures.curves import lines
from explorer.figures.positions.turning import arrows
from explorer.numbers import number, signed
from explorer.ui import controls, session
from explorer.ui.parts import pick_one
from models.hooks import AttentionSite
from models.positions import rotate

FAR = 32
"""Least number of positions on either side of the curve."""
FORMULA = (
    r"\begin{pmatrix} x_{2i}' \\ x_{2i+1}' \end{pmatrix} = "
    r"\begin{pmatrix} \cos p\theta_i & -\sin p\theta_i \\ "
    r"\sin p\theta_i & \cos p\theta_i \end{pmatrix}"
    r"\begin{pmatrix} x_{2i} \\ x_{2i+1} \end{pmatrix}",
    r"R_m q \cdot R_n k = q \cdot R_{n-m} k",
)


def arrows_of_a_head(view: View) -> None:
    """One query, one key, and their score by distance."""
    site = _site(view)
    head = min(view.head, site.n_heads - 1)
    if view.loaded.config.d_head % 2:
        st.info(view.t("positions.odd_head"), icon=":material/lightbulb:")
        return
    config = view.loaded.config
    if config.rotary_dim is not None or config.rope_scaling is not None:
        st.info(view.t("positions.partial"), icon=":material/lightbulb:")
        return
    query, key, layout = _controls(view, site)
    if not turns(view.loaded, site.name):
        st.caption(view.t("positions.as_if", divisor=view.divisor))
    found = turned(view.loaded, view.trace, site.name, head, query, key, layout)
    left, right = st.columns([2, 3], gap="large")
    with left:
        _arrows(view, found)
    with right:
        _curve(view, site, head, query, key, layout)
    controls.reading("arrows", _reading(view, site, found, query, key))
    _layouts(view, site, head)
    controls.small_print(
        view,
        "positions",
        formula=FORMULA,
        code=(turned, rotate_as, rotate, score_by_offset, layout_difference),
        numbers=lambda: _numbers(view, found),
        explained="positions.rotary_formula",
    )


def _arrows(view: View, found: Turned) -> None:
    st.markdown(f"**{view.t('positions.arrows')}**")
    st.caption(view.t("positions.arrows_note"))
    controls.chart(
        arrows(
            found.q,
            found.k,
            found.q_turned,
            found.k_turned,
            wavelengths=2 * np.pi / found.angles,
            contributions=found.contributions,
            dark=view.dark,
            words=view.words("figures.turning"),
        ),
        "positions.arrows",
        alt=view.t("positions.arrows"),
    )


def _site(view: View) -> AttentionSite:
    """The current self-attention site; for cross-attention, which has no rotation, the
    decoder's."""
    kind = "decoder" if view.kind == "cross" else view.kind
    sites = view.sites_of(kind)
    return sites[min(view.layer, len(sites) - 1)]


def _controls(view: View, site: AttentionSite) -> tuple[int, int, Layout]:
    """Controls for layer, head, query and key, and the layout of the pairs."""
    tokens = view.trace.query_tokens(site.name)
    query = min(len(tokens) - 1, 4 if view.state.row in (None, -1) else view.row)
    key = min(len(tokens) - 1, max(0, query - 2) if view.state.key is None else view.state.key)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        controls.pick_place(view, "positions.rotary", kind=len(view.kinds) > 1)
        for name, now, field in (("query", query, "row"), ("key", key, "key")):
            with st.container(width=170):
                controls.pick(
                    view.t(f"positions.{name}"),
                    range(len(tokens)),
                    now,
                    f"positions.rotary.{name}",
                    partial(_choose, field),
                    format_func=lambda place: f"{place}  {tokens[place]}",
                )
        layout = pick_one(
            view,
            "layout",
            view.t("positions.layout"),
            LAYOUTS,
            "positions.layout",
            lambda each: view.t(f"positions.layout_{each}"),
        )
    return query, key, layout


def _choose(field: str, place: int) -> None:
    session.change(**{field: place})


def _reading(view: View, site: AttentionSite, found: Turned, query: int, key: int) -> str:
    tokens = view.trace.query_tokens(site.name)
    best = int(np.abs(found.contributions).argmax())
    still = float((found.q * found.k).sum() / view.loaded.config.divisor)
    words = {
        "query": controls.quoted_at(view, tokens, query),
        "key": controls.quoted_at(view, tokens, key),
        "score": signed(found.score),
        "still": signed(still),
        "pair": best,
        "most": signed(float(found.contributions[best])),
        "offset": query - key,
        "divisor": view.divisor,
    }
    return view.t("positions.read_arrows", **words)


def _curve(
    view: View, site: AttentionSite, head: int, query: int, key: int, layout: Layout
) -> None:
    """The score of this query and key at other distances."""
    far = max(FAR, len(view.trace.query_tokens(site.name)))
    offsets = np.arange(-far, far + 1)
    q = bare(view.loaded, view.trace, site.name, head, "q")[query]
    k = bare(view.loaded, view.trace, site.name, head, "k")[key]
    angles = angles_of(view.loaded, view.trace, site.name)
    st.markdown(f"**{view.t('positions.score_by_offset')}**")
    st.caption(view.t("positions.score_by_offset_note"))
    figure = lines(
        offsets,
        score_by_offset(q, k, offsets, angles, view.loaded.config.divisor, layout)[None],
        (view.t("positions.show_scores"),),
        x_title=view.t("positions.query_behind"),
        y_title=view.t("positions.show_scores"),
        marked_x=query - key,
        height=420,
        dark=view.dark,
    )
    controls.chart(figure, "positions.score_by_offset", alt=view.t("positions.score_by_offset"))


def _layouts(view: View, site: AttentionSite, head: int) -> None:
    """The effect of reading weights of one layout with the other."""
    q = bare(view.loaded, view.trace, site.name, head, "q")
    k = bare(view.loaded, view.trace, site.name, head, "k")
    angles, divisor = angles_of(view.loaded, view.trace, site.name), view.loaded.config.divisor
    wrong, left = layout_difference(q, k, angles, divisor)
    st.markdown(
        view.t("positions.layouts", divisor=view.divisor, wrong=f"{wrong:.2f}", left=number(left))
    )


def _numbers(view: View, found: Turned) -> dict[str, list[object]]:
    turns = 2 * np.pi / found.angles
    return {
        view.t("figures.turning.pair"): list(range(len(found.q))),
        view.t("positions.wavelength"): np.round(turns, 2).tolist(),
        view.t("positions.query"): [f"{a:+.3f}, {b:+.3f}" for a, b in found.q_turned],
        view.t("positions.key"): [f"{a:+.3f}, {b:+.3f}" for a, b in found.k_turned],
        view.t("figures.turning.adds"): np.round(found.contributions, 4).tolist(),
    }
