"""The matrices of the layer looked at: to point at, to choose a cell in, and to paint on."""

import numpy as np
import streamlit as st

from explorer.analysis.masks.reasons import RULES, blocked_by, empty_rows, rule_numbers
from explorer.components import index_of, mask_matrix, stroke_of
from explorer.exhibits.view import View
from explorer.exports.mask_picture import MaskPicture, masks_svg
from explorer.pages.masks import history
from explorer.runs.edits import paint
from explorer.ui import controls, session
from explorer.ui.share import file_name
from models.hooks import AttentionSite, Role

TOOLS = ("look", "brush")
SCOPES = ("everywhere", "layer", "head")


def matrices(view: View) -> None:
    """One matrix a kind of attention, and what decides the chosen cell."""
    columns = st.columns(len(view.kinds), gap="medium")
    for kind, column in zip(view.kinds, columns, strict=True):
        with column:
            _matrix(view, kind)
    chosen = _chosen_cell(view)
    if chosen is not None:
        _cell(view, *chosen)
    _empty(view)


def pictures(view: View) -> None:
    """The matrices as one SVG, for the menu of exports; a PNG has its button below each of them."""
    st.caption(view.t("masks.take"))
    st.download_button(
        view.t("take.svg"),
        lambda: _svg(view).encode(),
        file_name(view, "masks", "svg"),
        "image/svg+xml",
        key="masks.take.svg",
        on_click="ignore",
    )


def _svg(view: View) -> str:
    drawn = []
    for kind in view.kinds:
        site = _site(view, kind)
        drawn.append(
            MaskPicture(
                view.t("masks.matrix", kind=view.t(f"kinds.{kind}"), layer=site.layer + 1),
                rule_numbers(view.trace, site.name)[_head(view, kind)],
                view.trace.query_tokens(site.name),
                view.trace.key_tokens(site.name),
                controls.axis_title(view, "query", site.query_stream),
                controls.axis_title(view, "key", site.key_stream),
                site.query_stream,
                site.key_stream,
            )
        )
    return masks_svg(
        drawn,
        title=view.t("masks.title"),
        rules=[view.t(f"blockers.{name}") for name in RULES],
        words=view.words("components.mask_matrix"),
    )


def tools(view: View) -> None:
    """What a click does, to what it applies, and how to undo it."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.segmented_control(
            view.t("masks.tool"),
            TOOLS,
            default=TOOLS[0],
            format_func=lambda tool: view.t(f"masks.{tool}"),
            required=True,
            key="masks.tool",
        )
        if st.session_state.get("masks.tool") == "brush":
            st.segmented_control(
                view.t("masks.scope"),
                SCOPES,
                default=SCOPES[0],
                format_func=lambda scope: view.t(f"masks.scope_{scope}"),
                required=True,
                key="masks.scope",
            )
        for name, act, possible in (
            ("undo", history.undo, history.can_undo()),
            ("redo", history.redo, history.can_redo()),
        ):
            st.button(
                view.t(f"masks.{name}"),
                key=f"masks.{name}",
                icon=f":material/{name}:",
                disabled=not possible,
                on_click=act,
            )


def _site(view: View, kind: Role) -> AttentionSite:
    """The site of this kind in the layer looked at."""
    sites = view.sites_of(kind)
    return sites[min(view.layer, len(sites) - 1)]


def _head(view: View, kind: Role) -> int:
    return view.head if kind == view.kind else 0


def _matrix(view: View, kind: Role) -> None:
    site, head, key = _site(view, kind), _head(view, kind), f"masks.matrix.{kind}"
    brush = st.session_state.get("masks.tool") == "brush"
    picked = index_of(controls.clicked(key), view.trace.mask(site.name)[head].shape)
    if picked is not None:
        st.session_state["masks.cell"] = (kind, *picked)
    chosen = None if brush else _chosen_cell(view)
    title = view.t("masks.matrix", kind=view.t(f"kinds.{kind}"), layer=site.layer + 1)
    st.markdown(f"**{title}**")
    mask_matrix(
        view.trace.mask(site.name)[head],
        rule_numbers(view.trace, site.name)[head],
        title=title,
        rules=[view.t(f"blockers.{name}") for name in RULES],
        query_tokens=view.trace.query_tokens(site.name),
        key_tokens=view.trace.key_tokens(site.name),
        query_title=controls.axis_title(view, "query", site.query_stream),
        key_title=controls.axis_title(view, "key", site.key_stream),
        query_stream=site.query_stream,
        key_stream=site.key_stream,
        selected=chosen[1:] if chosen and chosen[0] == kind else None,
        brush=brush,
        on_paint=lambda: _paint(view, kind),
        words=view.words("components.mask_matrix"),
        key=key,
    )


def _paint(view: View, kind: Role) -> None:
    """A stroke becomes edits: only cells that are not yet as the stroke wants them."""
    site, head = _site(view, kind), _head(view, kind)
    mask = view.trace.mask(site.name)[head]
    painted = getattr(st.session_state.get(f"masks.matrix.{kind}"), "painted", None)
    stroke = stroke_of(painted, mask.shape)
    if stroke is None:
        return
    cells = [cell for cell in stroke.cells if bool(mask[cell]) != stroke.open]
    scope = st.session_state.get("masks.scope", SCOPES[0])
    where = kind if scope == "everywhere" else site.name
    heads = head if scope == "head" else None
    history.change_edits(paint(session.state().edits, where, heads, cells, stroke.open))


def _chosen_cell(view: View) -> tuple[Role, int, int] | None:
    """The cell last clicked, while it exists in this run."""
    chosen: tuple[Role, int, int] | None = st.session_state.get("masks.cell")
    if chosen is None or chosen[0] not in view.kinds:
        return None
    shape = view.trace.mask(_site(view, chosen[0]).name).shape
    return chosen if chosen[1] < shape[1] and chosen[2] < shape[2] else None


def _cell(view: View, kind: Role, query: int, key: int) -> None:
    """What decides one cell, and a button that decides otherwise, in every layer of its kind."""
    site, head = _site(view, kind).name, _head(view, kind)
    is_open = bool(view.trace.mask(site)[head, query, key])
    tokens = {
        "query": controls.quoted_at(view, view.trace.query_tokens(site), query),
        "key": controls.quoted_at(view, view.trace.key_tokens(site), key),
    }
    with st.container(horizontal=True, vertical_alignment="center"):
        if is_open:
            st.markdown(view.t("masks.cell_open", **tokens))
        else:
            why = view.t(f"blockers.{blocked_by(view.trace, site)[head, query, key]}")
            st.markdown(view.t("masks.cell_blocked", why=why, **tokens))
        st.button(
            view.t("masks.shut_cell" if is_open else "masks.open_cell"),
            key="masks.edit_cell",
            on_click=lambda: history.change_edits(
                paint(session.state().edits, kind, None, [(query, key)], not is_open)
            ),
        )
        label, icon = view.t("cell.open_this"), ":material/center_focus_strong:"
        if st.button(label, key="masks.down", type="tertiary", icon=icon):
            place = {"site": kind, "layer": _site(view, kind).layer, "head": head}
            session.change(**place, row=query, key=key, goal=None)
            session.visit("cell")


def _empty(view: View) -> None:
    """A row that may attend to nothing: what this app does with it, and what others would."""
    for kind in view.kinds:
        site = _site(view, kind)
        rows = np.argwhere(empty_rows(view.trace, site.name))
        if len(rows):
            query = controls.quoted_at(view, view.trace.query_tokens(site.name), int(rows[0][1]))
            words = {"query": query, "kind": view.t(f"kinds.{kind}"), "count": len(rows)}
            st.info(view.t("masks.empty_row", **words), icon=":material/block:")
