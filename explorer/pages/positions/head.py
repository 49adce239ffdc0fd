"""The effect of positions on this head: scores and weights with original and changed positions."""

from functools import partial
from itertools import groupby

import numpy as np
import streamlit as st

from explorer.analysis.heads.compare import token_diff
from explorer.analysis.positions.changes import (
    CHANGE_KINDS,
    Change,
    position_functions,
)
from explorer.analysis.positions.length import most_shift
from explorer.analysis.positions.reread import Reread, by_offset, reread, weight_moved
from explorer.exhibits.view import View
from explorer.figures.curves import lines
from explorer.figures.heatmap import attention, difference
from explorer.figures.scores import scores
from explorer.numbers import percent, share
from explorer.pages.positions import cached
from explorer.pages.positions.choices import PositionsChoices
from explorer.pages.positions.code import positions_at
from explorer.ui import controls, session
from explorer.ui.parts import pick_one, pick_stream
from models.rows import Stream

SCORES = {
    "adds": (r"(x_i + p_i)W_Q \cdot (x_j + p_j)W_K", ""),
    "turns": (r"R_i q_i \cdot R_j k_j", ""),
    "biases": (r"q_i \cdot k_j", " + b_{j-i}"),
}
"""Formulas of the score, by where the model's positions act."""


def this_head(view: View) -> None:
    """One head before and after a change of positions, and the resulting output."""
    if view.loaded.config.position_type.acts == "nothing":
        st.info(view.t("positions.none_to_change"), icon=":material/lightbulb:")
        return
    stream, change = _choose(view)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        controls.pick_place(view, "positions")
        shown = pick_one(
            view,
            "picture",
            view.t("positions.show"),
            PositionsChoices.pictures,
            "positions.show",
            lambda name: view.t(f"positions.show_{name}"),
        )
    products, added = SCORES[view.loaded.config.position_type.acts]
    before = reread(view.loaded, view.trace, stream, None)
    after = reread(view.loaded, view.trace, stream, change)
    _pictures(view, shown, before, after)
    controls.reading("head", _reading(view, before, after))
    _written(view, stream, change, before, after)
    if view.site.kind == "self":
        _offsets(view, before, after)
    controls.small_print(
        view,
        "positions",
        formula=(
            rf"s_{{ij}} = {view.scaled(products)}{added}",
            r"\text{moved} = \frac{1}{2n}\sum_{i,j} \lvert a'_{ij} - a_{ij} \rvert",
        ),
        code=(reread, position_functions, *positions_at(view, stream)),
        numbers=lambda: _numbers(view, before, after),
        explained="positions.head_formula",
    )


def _choose(view: View) -> tuple[Stream, Change]:
    """Controls for the stream and the change of its positions."""
    change = view.choices(PositionsChoices).change
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        stream = pick_stream(view, "positions.stream.head")
        tokens = view.trace.src_str_tokens if stream == "src" else view.trace.tgt_str_tokens
        key = "positions.change"
        st.session_state[key] = change.kind
        st.segmented_control(
            view.t("positions.change"),
            CHANGE_KINDS,
            format_func=lambda kind: view.t(f"positions.change_{kind}"),
            required=True,
            key=key,
            on_change=lambda: session.change(change=_usual(st.session_state[key], len(tokens))),
        )
        if change.kind == "shift":
            change = _pick_shift(view, change, len(tokens))
        elif change.kind == "swap":
            change = _pick_swap(view, change, tokens)
    return stream, change


def _usual(kind: str, n: int) -> Change:
    """The default change of this kind."""
    match kind:
        case "shift":
            return Change("shift", 20)
        case "swap":
            return Change("swap", min(1, n - 1), min(4, n - 1))
        case "reverse":
            return Change("reverse")
    return Change("remove")


def _pick_shift(view: View, change: Change, n: int) -> Change:
    most, key = most_shift(view.loaded, n), "positions.shift"
    if most < 1:
        return Change("shift", 0)
    st.session_state[key] = min(change.first, most)
    st.slider(
        view.t("positions.shift_by"),
        0,
        most,
        key=key,
        width=260,
        on_change=lambda: session.change(change=Change("shift", st.session_state[key])),
    )
    return Change("shift", min(change.first, most))


def _pick_swap(view: View, change: Change, tokens: tuple[str, ...]) -> Change:
    places = [min(change.first, len(tokens) - 1), min(change.second, len(tokens) - 1)]
    for at, name in enumerate(("first", "second")):
        with st.container(width=150):
            controls.pick(
                view.t(f"positions.{name}"),
                range(len(tokens)),
                places[at],
                f"positions.{name}",
                partial(_swap, places, at),
                format_func=lambda place: f"{place}  {tokens[place]}",
            )
    return Change("swap", *places)


def _swap(places: list[int], at: int, place: int) -> None:
    """Choose one of the two swapped positions."""
    first, second = (place if i == at else places[i] for i in (0, 1))
    session.change(change=Change("swap", first, second))


def _pictures(view: View, shown: str, before: Reread, after: Reread) -> None:
    site, head = view.site.name, view.head
    mask = view.trace.mask(site)[head]
    tokens = view.trace.query_tokens(site), view.trace.key_tokens(site)
    more = {
        **controls.place_titles(view),
        "dark": view.dark,
        "words": view.words("figures.heatmap"),
    }
    old, new = before.patterns[site][head], after.patterns[site][head]
    if shown == "difference":
        figure = difference(old, new, *tokens, mask_before=mask, mask_after=mask, **more)
        controls.chart(figure, "positions.difference", alt=view.t("positions.show_difference"))
        return
    raw = before.scores[site][head], after.scores[site][head]
    top = float(np.abs(np.stack(raw)[:, mask]).max(initial=1e-6))
    top_weight = float(max(old.max(initial=0.01), new.max(initial=0.01)))
    names = (view.t("positions.head_before"), view.t("positions.head_after"))
    for at, column in enumerate(st.columns(2, gap="large")):
        with column:
            st.markdown(f"**{names[at]}**")
            if shown == "scores":
                title = view.t("positions.show_scores")
                figure = scores(raw[at], mask, *tokens, title=title, top=top, **more)
            else:
                figure = attention((old, new)[at], mask, *tokens, top=top_weight, **more)
            controls.chart(figure, f"positions.{('before', 'after')[at]}", alt=names[at])


def _reading(view: View, before: Reread, after: Reread) -> str:
    site, head = view.site, view.head
    valid = view.trace.src_valid if site.query_stream == "src" else view.trace.tgt_valid
    old, new = before.patterns[site.name], after.patterns[site.name]
    each = [weight_moved(old[at], new[at], valid) for at in range(site.n_heads)]
    rank = 1 + sum(share > each[head] for share in each)
    row = view.row
    was, now = int(old[head][row].argmax()), int(new[head][row].argmax())
    keys = view.trace.key_tokens(site.name)
    query = controls.quoted_at(view, view.trace.query_tokens(site.name), row)
    looked = view.t(
        "positions.read_row" if was != now else "positions.read_row_same",
        query=query,
        was=controls.quoted_at(view, keys, was),
        now=controls.quoted_at(view, keys, now),
        old=percent(float(old[head][row, was])),
        new=percent(float(new[head][row, now])),
    )
    moved = view.t("positions.read_head", share=share(each[head]), rank=rank, count=site.n_heads)
    return f"{moved} {looked}"


def _written(view: View, stream: Stream, change: Change, before: Reread, after: Reread) -> None:
    """The loss of the same words, and the model's own output."""
    if not len(before.losses):
        return
    st.markdown(view.t("positions.losses", before=f"{before.loss:.2f}", after=f"{after.loss:.2f}"))
    if view.target and view.sites_of("cross"):
        return
    edits = view.trace.edits
    with st.spinner(view.t("shell.working")):
        text = cached.moved_text(view.loaded.name, view.text, edits, stream, change)
        right = cached.moved_text(view.loaded.name, view.text, edits, stream, Change("shift", 0))
    if text == right:
        st.markdown(view.t("positions.writes_same", text=_marked(right, right)))
    else:
        st.markdown(view.t("positions.writes", text=_marked(right, text)))


def _marked(before: str, after: str) -> str:
    """A diff of two texts, by character or by word depending on the tokens."""
    words = before.isascii() or after.isascii()
    rows = [text.split() if words else list(text) for text in (before, after)]
    joined = [
        ((" " if words else "").join(token for token, _ in run), status)
        for status, run in groupby(token_diff(*rows), key=lambda each: each[1])
    ]
    return controls.marked_words(joined)


def _offsets(view: View, before: Reread, after: Reread) -> None:
    """The weight by distance, before and after."""
    site, head = view.site.name, view.head
    mask = view.trace.mask(site)[head]
    offsets, old = by_offset(before.patterns[site][head], mask)
    _, new = by_offset(after.patterns[site][head], mask)
    st.markdown(f"**{view.t('positions.by_offset')}**")
    st.caption(view.t("positions.by_offset_note"))
    figure = lines(
        offsets,
        100 * np.stack([old, new]),
        (view.t("positions.head_before"), view.t("positions.head_after")),
        x_title=view.t("positions.offset"),
        y_title=view.t("positions.mean_weight"),
        height=260,
        dark=view.dark,
    )
    controls.chart(figure, "positions.by_offset", alt=view.t("positions.by_offset"))


def _numbers(view: View, before: Reread, after: Reread) -> dict[str, list[object]]:
    site, head, row = view.site.name, view.head, view.row
    columns: dict[str, list[object]] = {
        view.t("positions.key"): [
            f"{place} {token}" for place, token in enumerate(view.trace.key_tokens(site))
        ]
    }
    for name, run in (("head_before", before), ("head_after", after)):
        label = view.t(f"positions.{name}")
        score, weight = run.scores[site][head, row], run.patterns[site][head, row]
        columns[f"{label} · {view.t('positions.show_scores')}"] = np.round(score, 3).tolist()
        columns[f"{label} · {view.t('positions.show_weights')}"] = np.round(weight, 4).tolist()
    return columns
