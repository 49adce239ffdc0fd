"""Shuffled words: are the vectors merely permuted, or does the model use the order?"""

import numpy as np
import streamlit as st

from explorer.analysis.positions.changes import position_functions
from explorer.analysis.positions.order import Moved, moved, reading_stream, shuffled_order
from explorer.components import token_strip
from explorer.engine import cache, jobs
from explorer.exhibits.escape import escape
from explorer.exhibits.view import View
from explorer.figures import order as figures
from explorer.numbers import number, share
from explorer.pages.positions import cached
from explorer.pages.positions.choices import PositionsChoices
from explorer.pages.positions.code import positions_at
from explorer.runs.edits import CellEdit, MaskSize
from explorer.ui import controls, running, session
from explorer.ui.parts import pick_stream
from explorer.ui.tables import table

TWIN = "twin-no-positions"
ROUNDING = 1e-4
"""Largest mean relative change of vectors that counts as rounding."""


def shuffled(view: View) -> None:
    """The words in another order, the change of each vector, and the resulting output."""
    chosen = view.choices(PositionsChoices).shuffle
    seed = 1 if chosen is None else chosen
    with st.container(horizontal=True, vertical_alignment="bottom"):
        stream = pick_stream(view, "positions.stream.order")
        st.button(
            view.t("positions.shuffle"),
            key="positions.shuffle",
            icon=":material/shuffle:",
            on_click=lambda: session.change(shuffle=(seed + 1) % 10_000),
        )
        _open_twin(view)
    trace = view.trace
    tokens = trace.src_str_tokens if stream == "src" else trace.tgt_str_tokens
    n_real = int((trace.src_valid if stream == "src" else trace.tgt_valid).sum())
    order = shuffled_order(tokens, n_real, stream, seed)
    if order == tuple(range(len(tokens))):
        st.info(view.t("positions.one_word"), icon=":material/lightbulb:")
        return
    new = [tokens[place] for place in order]
    with controls.reading_first():
        token_strip(
            new,
            stream=stream,
            title=view.t("positions.shuffled"),
            words=view.words("components.token_strip"),
            key="positions.strip",
        )
        found = cached.moved(view.run, stream, order)
        controls.chart(
            figures.moved(
                new,
                np.stack([each.distances[-1] for each in found]),
                [view.t(f"positions.{each.setting}") for each in found],
                y_title=view.t("positions.moved"),
                x_title=view.t("positions.shuffled"),
                stream=stream,
                dark=view.dark,
            ),
            "positions.moved",
            alt=view.t("positions.moved"),
        )
        controls.reading("order", _reading(view, found))
    if stream == reading_stream(view.loaded):
        _texts(view, seed)
    controls.small_print(
        view,
        "positions",
        formula=(
            r"\text{moved}_i = \frac{\lVert f(x_\pi)_i - f(x)_{\pi(i)} \rVert}"
            r"{\lVert f(x)_{\pi(i)} \rVert}, \qquad f(x_\pi) = f(x)_\pi\ \text{without positions}",
        ),
        code=(moved, *positions_at(view, stream), position_functions, shuffled_order),
        numbers=lambda: _numbers(view, new, found),
        explained="positions.order_formula",
    )


def _open_twin(view: View) -> None:
    """A button that opens a model trained without positions."""
    if TWIN in cache.models() and view.loaded.name != TWIN:
        clicked = st.button(
            view.t("positions.open_twin"),
            key="positions.open_twin",
            type="tertiary",
            icon=":material/arrow_forward:",
        )
        if clicked:
            session.change(model=TWIN, text="Tom loves Mary.", target=None, edits=())
            st.rerun(scope="app")


def _reading(view: View, found: tuple[Moved, ...]) -> str:
    *others, barest = found
    keys = {"as_is": "positions.read_as_is", "without": "positions.read_causal"}
    parts = [view.t(keys[each.setting], mean=share(each.mean)) for each in others]
    # The last setting has no order information, unless the user's masks provide it.
    rounded = barest.mean < ROUNDING
    key = f"positions.read_{barest.setting}" if rounded else "positions.read_edited"
    values = {"mean": share(barest.mean), "largest": number(barest.largest)}
    return " ".join([*parts, view.t(key, **values)])


def _texts(view: View, seed: int) -> None:
    """The outputs for original and shuffled order, with and without positions."""
    st.markdown(f"**{view.t('positions.texts')}**")
    asked = (view.loaded.name, view.text, seed, view.trace.edits)
    texts = running.awaited(
        "positions.texts",
        asked,
        lambda tell: cached.four_texts(*asked, progress=jobs.whole(tell)),
        view.t("positions.writing"),
        view.lang,
    )
    if texts is None:
        return
    rows = [
        (view.t("positions.as_is"), texts.in_order, texts.shuffled),
        (view.t("positions.without"), texts.in_order_without, texts.shuffled_without),
    ]
    if view.loaded.config.position_type.acts == "nothing":
        rows = rows[1:]
    table(
        ("", view.t("positions.in_order"), view.t("positions.shuffled")),
        [(name, escape(a), escape(b)) for name, a, b in rows],
        "lll",
    )
    if rows[0][1] == rows[0][2] and view.loaded.config.position_type.acts != "nothing":
        controls.offer(view, "shuffle")
    same = texts.in_order_without == texts.shuffled_without
    causal = reading_stream(view.loaded) == "tgt" and view.own_role == "decoder"
    ordered = any(isinstance(edit, MaskSize | CellEdit) for edit in view.trace.edits)
    if not same:
        key = "positions.texts_differ" if causal else "positions.texts_edited"
    elif causal or ordered:
        key = "positions.texts_alike"
    else:
        key = "positions.texts_same"
    st.caption(view.t(key))


def _numbers(view: View, tokens: list[str], found: tuple[Moved, ...]) -> dict[str, list[object]]:
    columns: dict[str, list[object]] = {
        view.t("place.query"): [f"{place} {token}" for place, token in enumerate(tokens)]
    }
    for each in found:
        name = view.t(f"positions.{each.setting}")
        columns[name] = [f"{distance:.3g}" for distance in each.distances[-1]]
    return columns
