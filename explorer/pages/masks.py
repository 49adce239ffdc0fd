"""Masks: the three matrices that the model really used, and what happens without them."""

import numpy as np
import streamlit as st

from explorer.analysis.compare import Comparison, compare
from explorer.analysis.masks import BLOCKERS, blocked_by
from explorer.components import mask_matrix
from explorer.edits import USUAL_MASKS, CellEdit, MaskPart, MaskSwitch
from explorer.figures.heatmap import attention, difference
from explorer.trace import Trace
from explorer.ui import controls, session
from explorer.ui.current import latest
from explorer.ui.url import MOST_PADS
from explorer.ui.view import View, kind_of, sites_of
from models.masks import causal_mask, cross_mask, decoder_mask, encoder_mask, padding_mask

PICTURES = ("sides", "difference")


def render(view: View) -> None:
    """The page."""
    st.markdown(view.t("masks.lead"))
    st.markdown(view.t("masks.try"))
    _picture(view)


@st.fragment
def _picture(view: View) -> None:
    view = latest(view)
    comparison = compare(view.before(), view.trace)
    controls.sentence_line(view)
    _switches(view)
    picked = _matrices(view)
    if picked is not None:
        _cell(view, *picked)
    _effect(view, comparison)
    _patterns(view, comparison)
    controls.small_print(
        view,
        "masks",
        formula=(
            r"\mathrm{pattern}_{ij} = \frac{m_{ij}\,e^{s_{ij}}}{\sum_k m_{ik}\,e^{s_{ik}}},"
            r"\qquad m_{ij}\in\{0,1\}",
            r"m^{\mathrm{encoder}}_{ij} = [\,j \text{ real}\,],\quad "
            r"m^{\mathrm{decoder}}_{ij} = [\,j \text{ real}\,]\cdot[\,j\le i\,],\quad "
            r"m^{\mathrm{cross}}_{ij} = [\,\text{source } j \text{ real}\,]",
        ),
        code=(causal_mask, padding_mask, encoder_mask, decoder_mask, cross_mask),
        numbers=lambda: _numbers(view, comparison),
    )


def _switches(view: View) -> None:
    in_force = _in_force(view)
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        st.session_state["masks.pads"] = view.pads
        st.slider(
            view.t("masks.pads"),
            0,
            MOST_PADS,
            key="masks.pads",
            width=170,
            on_change=lambda: session.change(pads=st.session_state["masks.pads"]),
        )
        for part in USUAL_MASKS:
            if part == "cross_pad" and not view.sites_of("cross"):
                continue
            key = f"masks.{part}"
            st.session_state[key] = in_force[part]
            st.toggle(
                view.t(f"edits.{part}"),
                key=key,
                help=view.t(f"masks.{part}_help"),
                on_change=_switch,
                args=(part,),
            )
    controls.edits_bar(view, "masks.reset")


def _in_force(view: View) -> dict[MaskPart, bool]:
    return USUAL_MASKS | {e.part: e.on for e in view.edits if isinstance(e, MaskSwitch)}


def _switch(part: MaskPart) -> None:
    """Only what differs from the usual masks is an edit, so a link says what was changed."""
    on = bool(st.session_state[f"masks.{part}"])
    others = tuple(
        edit
        for edit in session.state().edits
        if not (isinstance(edit, MaskSwitch) and edit.part == part)
    )
    change = () if on == USUAL_MASKS[part] else (MaskSwitch(part, on),)
    session.change(edits=(*others, *change))


def _matrices(view: View) -> tuple[str, int, int] | None:
    """The masks of the layer looked at; returns the kind, query and key last clicked."""
    columns = st.columns(len(view.kinds), gap="medium")
    for kind, column in zip(view.kinds, columns, strict=True):
        sites = view.sites_of(kind)
        site = sites[min(view.layer, len(sites) - 1)]
        head = view.head if kind == view.kind else 0
        picked = controls.clicked(f"masks.matrix.{kind}")
        if picked is not None:
            st.session_state["masks.cell"] = (kind, int(picked[0]), int(picked[1]))
        chosen = _chosen_cell(view)
        with column:
            st.markdown(f"**{view.t(f'kinds.{kind}')}**")
            names = blocked_by(view.trace, site.name)[head]
            mask_matrix(
                view.trace.mask(site.name)[head],
                np.array([BLOCKERS.index(str(name)) for name in names.flat], np.uint8).reshape(
                    names.shape
                ),
                rules=[view.t(f"blockers.{name}") for name in BLOCKERS[1:]],
                query_tokens=view.trace.query_tokens(site.name),
                key_tokens=view.trace.key_tokens(site.name),
                query_title=controls.axis_title(view, "query", site.query_stream),
                key_title=controls.axis_title(view, "key", site.key_stream),
                query_stream=site.query_stream,
                key_stream=site.key_stream,
                selected=chosen[1:] if chosen and chosen[0] == kind else None,
                words=view.words("components.mask_matrix"),
                key=f"masks.matrix.{kind}",
            )
    return _chosen_cell(view)


def _chosen_cell(view: View) -> tuple[str, int, int] | None:
    """The cell last clicked, while it exists in this run."""
    chosen: tuple[str, int, int] | None = st.session_state.get("masks.cell")
    if chosen is None or chosen[0] not in view.kinds:
        return None
    site = view.sites_of(chosen[0])[0].name
    shape = view.trace.mask(site).shape
    return chosen if chosen[1] < shape[1] and chosen[2] < shape[2] else None


def _cell(view: View, kind: str, query: int, key: int) -> None:
    """What decides one cell, and a button that decides otherwise, in every layer of its kind."""
    sites = view.sites_of(kind)
    site = sites[min(view.layer, len(sites) - 1)].name
    is_open = bool(view.trace.mask(site)[0, query, key])
    tokens = {
        "query": controls.quoted_at(view, view.trace.query_tokens(site), query),
        "key": controls.quoted_at(view, view.trace.key_tokens(site), key),
    }
    with st.container(horizontal=True, vertical_alignment="center"):
        if is_open:
            st.markdown(view.t("masks.cell_open", **tokens))
        else:
            why = view.t(f"blockers.{blocked_by(view.trace, site)[0, query, key]}")
            st.markdown(view.t("masks.cell_blocked", why=why, **tokens))
        st.button(
            view.t("masks.shut_cell" if is_open else "masks.open_cell"),
            key="masks.edit_cell",
            on_click=lambda: session.change(
                edits=(
                    *(
                        edit
                        for edit in view.edits
                        if not (
                            isinstance(edit, CellEdit) and (edit.query, edit.key) == (query, key)
                        )
                    ),
                    *(CellEdit(each.name, None, query, key, not is_open) for each in sites),
                )
            ),
        )


def _effect(view: View, comparison: Comparison) -> None:
    """The largest change of any weight, as a number."""
    points = 100 * comparison.max_abs
    if points < 0.005:
        controls.reading("masks", view.t("masks.nothing_changed"))
    else:
        site = max(comparison.sites.values(), key=lambda each: each.max_abs).site
        found = view.trace.site(site)
        controls.reading(
            "masks",
            view.t(
                "masks.largest",
                points=f"{points:.2g}" if points < 1 else f"{points:.0f}",
                kind=view.t(f"kinds.{kind_of(found)}"),
                layer=found.layer + 1,
            ),
        )


def _written(trace: Trace) -> tuple[tuple[str, str], ...]:
    """What a run wrote, as words of a comparison that all stayed."""
    real = trace.tgt_str_tokens[1 : int(trace.tgt_valid.sum())]
    return tuple((token, "same") for token in real)


def _patterns(view: View, comparison: Comparison) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        controls.pick_kind(view, "masks.kind")
        with st.container(width=90):
            controls.pick_layer(view, "masks.layer")
        with st.container(width=90):
            controls.pick_head(view, "masks.head")
        shown = st.segmented_control(
            view.t("masks.picture"),
            PICTURES,
            default=PICTURES[0],
            format_func=lambda name: view.t(f"masks.{name}"),
            required=True,
            key="masks.picture",
        )
    if shown == "difference":
        _difference(view, comparison)
        return
    for trace, name, column in zip(
        (view.before(), view.trace), ("before", "after"), st.columns(2, gap="large"), strict=True
    ):
        site = view.site.name
        with column:
            st.caption(view.t(f"masks.{name}"))
            if view.sites_of("cross"):
                words = _written(trace) if name == "before" else comparison.words
                controls.reading(name, controls.marked_words(words))
            figure = attention(
                trace.pattern(site)[view.head],
                trace.mask(site)[view.head],
                trace.query_tokens(site),
                trace.key_tokens(site),
                blocked_labels=controls.blocker_words(view, blocked_by(trace, site)[view.head]),
                dark=view.dark,
                words=view.words("figures.heatmap"),
                **controls.place_titles(view),
            )
            controls.chart(figure, f"masks.{name}", alt=view.t(f"masks.{name}"))


def _difference(view: View, comparison: Comparison) -> None:
    site, before = view.site.name, view.before()
    n_query, n_key = comparison.sites[site].difference.shape[1:]
    if not n_query or not n_key:
        st.caption(view.t("masks.nothing_shared"))
        return
    figure = difference(
        before.pattern(site)[view.head, :n_query, :n_key],
        view.trace.pattern(site)[view.head, :n_query, :n_key],
        before.query_tokens(site)[:n_query],
        before.key_tokens(site)[:n_key],
        mask_before=before.mask(site)[view.head, :n_query, :n_key],
        mask_after=view.trace.mask(site)[view.head, :n_query, :n_key],
        dark=view.dark,
        words=view.words("figures.heatmap"),
        **controls.place_titles(view),
    )
    controls.chart(figure, "masks.difference", alt=view.t("masks.difference"))
    if not comparison.sites[site].whole:
        st.caption(view.t("masks.shared_only"))


def _numbers(view: View, comparison: Comparison) -> dict[str, list[object]]:
    rows = [
        (site, comparison.sites[site.name], view.trace.mask(site.name))
        for kind in view.kinds
        for site in sites_of(view.trace, kind)
    ]
    return {
        view.t("place.kind"): [view.t(f"kinds.{kind_of(site)}") for site, _, _ in rows],
        view.t("place.layer"): [site.layer + 1 for site, _, _ in rows],
        view.t("masks.open_cells"): [int(mask[0].sum()) for _, _, mask in rows],
        view.t("masks.blocked_cells"): [int((~mask[0]).sum()) for _, _, mask in rows],
        view.t("masks.largest_change"): [round(100 * each.max_abs, 4) for _, each, _ in rows],
    }
