"""Heads: every head of one kind of attention at once, one of them large, one row read out."""

import numpy as np
import streamlit as st

from explorer.analysis.masks import blocked_by
from explorer.analysis.reading import reading
from explorer.components import head_grid, token_lines
from explorer.edits import HeadOff
from explorer.figures.heatmap import attention
from explorer.ui import controls, session
from explorer.ui.current import latest
from explorer.ui.view import View
from models.attention import attend

SCALES = ("linear", "log", "rank")


def render(view: View) -> None:
    """The page."""
    st.markdown(view.t("heads.lead"))
    st.markdown(view.t("heads.try"))
    _picture(view)


@st.fragment
def _picture(view: View) -> None:
    _take_clicks()
    view = latest(view)
    controls.sentence_line(view)
    controls.edits_bar(view, "heads.reset")
    _controls(view)
    left, right = st.columns([3, 2], gap="medium")
    with left:
        st.caption(view.t("heads.grid"))
        _grid(view)
        st.caption(view.t("heads.lines"))
        _lines(view)
    with right:
        _large(view)
        controls.reading("heads", read_row(view))
        _switch_off(view)
    controls.small_print(
        view,
        "heads",
        formula=(
            r"\mathrm{pattern} = \mathrm{softmax}\!\left(\frac{QK^\top}{\sqrt{d_\mathrm{head}}}"
            r"\;\text{where the mask allows}\right), \qquad z = \mathrm{pattern}\cdot V",
        ),
        code=(attend,),
        numbers=lambda: _numbers(view),
    )


def _take_clicks() -> None:
    """What was clicked in the grid or the lines, before anything is drawn."""
    head = controls.clicked("heads.grid")
    if head is not None:
        session.change(layer=int(head[0]), head=int(head[1]))
    query = controls.clicked("heads.lines")
    if query is not None:
        session.change(row=int(query))


def _controls(view: View) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        controls.pick_kind(view, "heads.kind")
        with st.container(width=90):
            controls.pick_layer(view, "heads.layer")
        with st.container(width=90):
            controls.pick_head(view, "heads.head")
        tokens = view.trace.query_tokens(view.site.name)
        with st.container(width=190):
            controls.pick(
                view.t("place.query"),
                range(len(tokens)),
                view.row,
                "heads.row",
                lambda row: session.change(row=row, layer=view.layer, head=view.head),
                format_func=lambda row: f"{row}  {tokens[row]}",
            )
        with st.container(width=150):
            st.selectbox(
                view.t("heads.scale"),
                SCALES,
                format_func=lambda scale: view.t(f"heads.scale_{scale}"),
                key="heads.scale",
            )


def _grid(view: View) -> None:
    sites = view.sites_of(view.kind)
    head_grid(
        np.stack([view.trace.pattern(site.name) for site in sites]),
        mask=np.stack([view.trace.mask(site.name) for site in sites]),
        query_tokens=view.trace.query_tokens(view.site.name),
        key_tokens=view.trace.key_tokens(view.site.name),
        selected=(view.layer, view.head),
        words=view.words("components.head_grid"),
        key="heads.grid",
    )


def _lines(view: View) -> None:
    token_lines(
        view.trace.pattern(view.site.name)[view.head],
        mask=view.trace.mask(view.site.name)[view.head],
        query_tokens=view.trace.query_tokens(view.site.name),
        key_tokens=view.trace.key_tokens(view.site.name),
        selected=view.row,
        words=view.words("components.token_lines"),
        key="heads.lines",
        **controls.place_titles(view),
    )


def _large(view: View) -> None:
    site = view.site.name
    st.caption(view.t("heads.large", layer=view.layer + 1, head=view.head + 1))
    figure = attention(
        view.trace.pattern(site)[view.head],
        view.trace.mask(site)[view.head],
        view.trace.query_tokens(site),
        view.trace.key_tokens(site),
        blocked_labels=controls.blocker_words(view, blocked_by(view.trace, site)[view.head]),
        scale=st.session_state.get("heads.scale", SCALES[0]),
        selected=view.row,
        dark=view.dark,
        words=view.words("figures.heatmap"),
        **controls.place_titles(view),
    )
    controls.chart(figure, "heads.large", alt=read_row(view))


def read_row(view: View) -> str:
    """The selected row in one sentence with its numbers, as Markdown."""
    row = reading(view.trace, view.site.name, view.head, view.row)
    place = {"layer": view.layer + 1, "head": view.head + 1}
    keys = view.trace.key_tokens(view.site.name)
    query = controls.quoted_at(view, view.trace.query_tokens(view.site.name), view.row)
    if not row.top:
        return view.t("heads.nothing", query=query, **place)
    looks = view.t("heads.and").join(
        view.t(
            "heads.look",
            weight=controls.percent(key.weight),
            key=controls.quoted_at(view, keys, key.key),
        )
        for key in row.top
        if key is row.top[0] or key.weight >= 0.01
    )
    if view.site.stack == "decoder" and view.row < int(view.trace.tgt_valid.sum()):
        after = controls.quoted(view, view.trace.predicted_str_tokens[view.row])
        return view.t("heads.reading_next", query=query, next=after, looks=looks, **place)
    return view.t("heads.reading", query=query, looks=looks, **place)


def _switch_off(view: View) -> None:
    edit = HeadOff(view.site.name, view.head)
    off = edit in view.edits
    st.session_state["heads.off"] = off
    st.toggle(
        view.t("heads.off"),
        key="heads.off",
        help=view.t("heads.off_help"),
        on_change=lambda: session.change(
            edits=tuple(each for each in view.edits if each != edit)
            if off
            else (*view.edits, edit),
            layer=view.layer,
            head=view.head,
        ),
    )
    st.caption(view.t("heads.cause"))


def _numbers(view: View) -> dict[str, list[object]]:
    site = view.site.name
    pattern = view.trace.pattern(site)[view.head]
    columns: dict[str, list[object]] = {
        view.t("place.query"): [
            f"{row} {token}" for row, token in enumerate(view.trace.query_tokens(site))
        ]
    }
    for key, token in enumerate(view.trace.key_tokens(site)):
        columns[f"{key} {token}"] = [round(float(weight), 4) for weight in pattern[:, key]]
    return columns
