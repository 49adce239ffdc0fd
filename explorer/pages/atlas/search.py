"""Search by pattern: from a pattern of the open sentence, or a painted one, to similar heads and
sentences."""

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from explorer.analysis.atlas.searching import Searched, features_of, in_sentence, painted_features
from explorer.analysis.atlas.store import Head, Text
from explorer.components import mask_matrix, stroke_of
from explorer.engine import jobs
from explorer.exhibits.escape import escape
from explorer.exhibits.view import View
from explorer.figures import heatmap
from explorer.numbers import fixed
from explorer.pages.atlas import cached
from explorer.pages.atlas.choices import MOST_PAINTED, SOURCES, AtlasChoices, Painted
from explorer.pages.atlas.heads import open_head
from explorer.pages.atlas.sentences import beginning, source_of, view_of
from explorer.pages.atlas.shown import Shown, kind_words, place, short
from explorer.runs.rerun import rows_of
from explorer.ui import controls, running, session
from explorer.ui.stage import Place, hero, staged
from explorer.ui.tables import table

FORMULA = (
    r"\cos(f, g) = \frac{f \cdot g}{\lVert f \rVert\,\lVert g \rVert}, \qquad "
    r"f = \frac{1}{\sigma}\Big(\frac1n \sum_{i=1}^{n} \phi(A_i) - \mu\Big)",
)
MOST_HEADS, MOST_SENTENCES = 8, 12
PAINTED = "atlas.paint"


def look_for(shown: Shown) -> None:
    """The search pattern, and the heads and sentences most similar to it."""
    view = shown.view
    controls.sentence_line(view)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        controls.pick_place(view, "atlas.search")
        now = view.choices(AtlasChoices).like
        st.session_state["atlas.like"] = now
        st.segmented_control(
            view.t("atlas.like"),
            SOURCES,
            format_func=lambda name: view.t(f"atlas.like_{name}"),
            required=True,
            key="atlas.like",
            on_change=lambda: session.change(like=st.session_state["atlas.like"]),
        )
    wanted = wanted_of(shown)
    with hero():
        left, right = st.columns(2, gap="large")
    _show_wanted(shown, wanted, left)
    if not wanted.any():
        st.info(view.t("atlas.paint_first"), icon=":material/brush:")
        return
    _results(shown, wanted, right)


def wanted_of(shown: Shown) -> NDArray[np.float32]:
    """The search pattern [query, key] on the open sentence; 0 outside of it."""
    view = shown.view
    pattern = view.trace.pattern(view.site.name)[view.head]
    found = np.zeros(pattern.shape, np.float32)
    like = view.choices(AtlasChoices).like
    if like == "matrix":
        return pattern.astype(np.float32)
    if like == "painted":
        for query, key in _painted(shown):
            found[query, key] = 1.0
        total = found.sum(1, keepdims=True)
        return np.divide(found, total, out=found, where=total > 0)
    row = view.row
    if like == "row":
        found[row] = pattern[row]
        return found
    found[row, _key(shown)] = 1.0
    return found


def _key(shown: Shown) -> int:
    """The key of the cell: the selected one, else the one with the highest weight."""
    view = shown.view
    pattern = view.trace.pattern(view.site.name)[view.head]
    chosen = view.state.key
    if chosen is None or chosen >= pattern.shape[1]:
        return int(pattern[view.row].argmax())
    return chosen


def _painted(shown: Shown) -> Painted:
    """The painted cells that exist in this sentence and are not masked."""
    view = shown.view
    mask = view.trace.mask(view.site.name)[view.head]
    return tuple(
        (query, key)
        for query, key in view.choices(AtlasChoices).painted
        if query < mask.shape[0] and key < mask.shape[1] and mask[query, key]
    )


def _show_wanted(shown: Shown, wanted: NDArray[np.float32], here: Place) -> None:
    view, site = shown.view, shown.view.site
    like = view.choices(AtlasChoices).like
    queries, keys = view.trace.query_tokens(site.name), view.trace.key_tokens(site.name)
    if like == "painted":
        with here:
            _brush(shown, queries, keys)
        return
    if like in ("row", "cell"):
        with st.container(horizontal=True):
            with st.container(width=260):
                controls.pick(
                    view.t("atlas.row"),
                    range(len(queries)),
                    view.row,
                    "atlas.row",
                    lambda row: session.change(row=row, key=None),
                    format_func=lambda row: f"{row} · {queries[row]}",
                )
            if like == "cell":
                with st.container(width=260):
                    controls.pick(
                        view.t("atlas.key"),
                        range(len(keys)),
                        _key(shown),
                        "atlas.key",
                        lambda key: session.change(row=view.row, key=key),
                        format_func=lambda key: f"{key} · {keys[key]}",
                    )
    with here:
        st.caption(view.t("atlas.wanted"))
        _heatmap(view, wanted, "atlas.wanted", view.t("atlas.wanted"))


def _heatmap(view: View, pattern: NDArray[np.float32], key: str, alt: str) -> None:
    """A pattern of the view's head."""
    name = view.site.name
    figure = heatmap.attention(
        pattern,
        view.trace.mask(name)[view.head],
        view.trace.query_tokens(name),
        view.trace.key_tokens(name),
        dark=view.dark,
        words=view.words("figures.heatmap"),
        **controls.place_titles(view),
    )
    controls.chart(figure, key, alt=alt)


def _brush(shown: Shown, queries: tuple[str, ...], keys: tuple[str, ...]) -> None:
    """A matrix that is painted by click or drag."""
    view, site = shown.view, shown.view.site
    mask = view.trace.mask(site.name)[view.head]
    painted = np.zeros(mask.shape, bool)
    for cell in _painted(shown):
        painted[cell] = True
    numbers = np.where(painted, 0, np.where(mask, 1, 2)).astype(np.int64)
    mask_matrix(
        painted,
        numbers,
        title=view.t("atlas.wanted"),
        rules=[view.t("atlas.unpainted"), view.t("atlas.masked")],
        query_tokens=queries,
        key_tokens=keys,
        query_title=controls.axis_title(view, "query", site.query_stream),
        key_title=controls.axis_title(view, "key", site.key_stream),
        query_stream=site.query_stream,
        key_stream=site.key_stream,
        brush=True,
        on_paint=lambda: _paint(shown),
        words={
            **view.words("components.mask_matrix"),
            "open": view.t("atlas.is_painted"),
            "brush": view.t("atlas.paint_hint"),
        },
        key=PAINTED,
    )
    st.button(
        view.t("atlas.paint_clear"),
        key="atlas.paint_clear",
        disabled=not view.choices(AtlasChoices).painted,
        on_click=lambda: session.change(painted=()),
    )


def _paint(shown: Shown) -> None:
    """Add the cells of a stroke to the painted ones, or remove them."""
    mask = shown.view.trace.mask(shown.view.site.name)[shown.view.head]
    stroke = stroke_of(getattr(st.session_state.get(PAINTED), "painted", None), mask.shape)
    if stroke is None:
        return
    before = session.state().of(AtlasChoices).painted
    if stroke.open:
        cells = (*before, *(cell for cell in stroke.cells if mask[cell]))
    else:
        cells = tuple(cell for cell in before if cell not in stroke.cells)
    session.change(painted=tuple(dict.fromkeys(cells))[:MOST_PAINTED])


def _results(shown: Shown, wanted: NDArray[np.float32], beside: Place) -> None:
    view, atlas = shown.view, shown.atlas
    searched = running.awaited(
        "atlas.searching",
        (shown.which, view.kind),
        lambda tell: cached.searched(shown.which, view.kind, progress=jobs.whole(tell)),
        view.t("atlas.searching"),
        view.lang,
    )
    if searched is None:
        return
    vector = painted_features(view.loaded, view.site, rows_of(view.trace), wanted, atlas.rare)
    if not searched.texts:
        st.info(view.t("atlas.search_nothing"), icon=":material/search_off:")
        return
    close = searched.of_texts(vector)  # [text, head]
    heads = [head for head in atlas.heads if head.role == view.kind]
    here = in_sentence(
        np.concatenate([view.trace.pattern(site.name) for site in view.sites_of(view.kind)]), wanted
    )
    over = searched.of_heads(vector)
    best = int(over.argmax())
    with hero():
        controls.reading(
            "atlas-search",
            view.t(
                "atlas.search_reading",
                place=place(view, heads[best]),
                like=fixed(float(over[best])),
                count=len(searched.texts),
                here=place(view, heads[int(here.argmax())]),
                here_like=fixed(float(here.max())),
            ),
        )
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader(view.t("atlas.search_heads"), anchor=False)
        order = sorted(range(len(heads)), key=lambda at: (-over[at], at))[:MOST_HEADS]
        table(
            [view.t(f"atlas.search_{name}") for name in ("head", "mean", "here", "kind")],
            [
                [
                    short(heads[at]),
                    fixed(float(over[at])),
                    fixed(float(here[at])),
                    kind_words(view, atlas.names[heads[at].number].kind),
                ]
                for at in order
            ],
            "lrrl",
        )
        with st.container(horizontal=True):
            for at in order[:5]:
                st.button(
                    short(heads[at]),
                    key=f"atlas.found.{heads[at].number}",
                    on_click=open_head,
                    args=(heads[at],),
                )
    with right:
        found, head = _sentences(shown, searched.texts, close, heads)
    with beside:
        _most_similar(shown, found, head)
    controls.small_print(
        view,
        "atlas_search",
        formula=FORMULA,
        code=[painted_features, features_of, Searched.of_heads, Searched.of_texts, in_sentence],
        numbers=lambda: {
            view.t("atlas.search_head"): [place(view, head) for head in heads],
            view.t("atlas.search_mean"): [round(float(v), 4) for v in over],
            view.t("atlas.search_here"): [round(float(v), 4) for v in here],
        },
        explained="atlas.search_formula",
    )


def _most_similar(shown: Shown, text: Text, head: Head) -> None:
    """The pattern of the chosen sentence, next to the one that is searched for."""
    drawn = view_of(shown, text, head)
    if drawn is None:
        return
    title = place(shown.view, head)
    st.caption(title)
    pattern = drawn.trace.pattern(drawn.site.name)[drawn.head].astype(np.float32)
    _heatmap(drawn, pattern, "atlas.similar", title)
    with staged(st.container()):
        controls.sentence_line(drawn, "sentence-atlas")
    source_of(shown, text, head)


def _sentences(
    shown: Shown, texts: tuple[int, ...], close: NDArray[np.float64], heads: list[Head]
) -> tuple[Text, Head]:
    """The sentences with the most similar patterns; the chosen one with its best head."""
    view, atlas = shown.view, shown.atlas
    st.subheader(view.t("atlas.search_sentences"), anchor=False)
    by_text = np.max(close, axis=1)
    order = sorted(range(len(texts)), key=lambda at: (-by_text[at], at))[:MOST_SENTENCES]
    numbers = cached.numbers_to_search(shown.which)
    chosen = min(view.choices(AtlasChoices).found, len(order)) - 1
    st.session_state["atlas.found"] = chosen
    of_head = [heads[int(np.argmax(close[at]))] for at in order]
    found = [atlas.texts[numbers[texts[at]]] for at in order]
    st.radio(
        view.t("atlas.search_sentences"),
        range(len(order)),
        key="atlas.found",
        format_func=lambda at: (
            f"{fixed(float(by_text[order[at]]))} · {short(of_head[at])} · "
            f"{escape(beginning(found[at].source))}"
        ),
        on_change=lambda: session.change(found=st.session_state["atlas.found"] + 1),
        label_visibility="collapsed",
    )
    return found[chosen], of_head[chosen]
