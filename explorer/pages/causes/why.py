"""Score decomposition: the score of a cell as a sum over the writers of its query and key."""

from typing import cast

import numpy as np
import streamlit as st

from explorer.analysis.causes.ranking import Group, largest
from explorer.analysis.causes.why import Removal, Why, projected, remove, why
from explorer.analysis.causes.writers import Detail, Side, read_by, writers_at
from explorer.exhibits.view import View
from explorer.figures.causes.terms import products
from explorer.figures.curves import lines
from explorer.figures.frame import least_width, upright
from explorer.numbers import fixed, number, percent, signed
from explorer.pages.causes import cached
from explorer.pages.causes.choices import CausesChoices
from explorer.pages.causes.detail import pick_detail
from explorer.pages.causes.names import (
    group_name,
    group_names,
    in_half_precision,
    whether_it_adds_up,
    writer_name,
)
from explorer.pages.causes.waiting import waited
from explorer.ui import controls, session

MOST = 16
"""Most writers on one side of the matrix; the smallest ones share one more row."""
ROOM = 900
"""Assumed width in pixels for the labels of keys."""
NONE = -1
"""List entry for no comparison."""
SIDES: tuple[Side, ...] = ("query", "key")


def why_there(view: View) -> None:
    """Draw this part of the page."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        controls.pick_place(view, "causes")
        query = pick_row(view)
        key = _pick_key(view, query)
        against = _pick_other(view, key)
        detail = pick_detail(view)
    place = (view.site.name, view.head, query, key)
    found = waited(view, "why", cached.why, *place, against, detail)
    if found is None:
        return
    with controls.reading_first():
        queries, keys = _drawn(view, found)
        controls.reading("why", _reading(view, found, queries, keys))
    _notes(view, found)
    _check(view, found, detail)
    controls.small_print(
        view,
        "causes",
        formula=_formula(view, found),
        code=(why, projected, read_by, writers_at, remove),
        numbers=lambda: _numbers(view, found, queries, keys),
    )


def pick_row(view: View) -> int:
    """The control for the query."""
    tokens = view.trace.query_tokens(view.site.name)
    with st.container(width=150):
        controls.pick(
            view.t("causes.query"),
            range(len(tokens)),
            view.row,
            "causes.query",
            lambda row: session.change(row=row, key=None, beside_key=None),
            format_func=lambda place: f"{place} {tokens[place]}",
        )
    return view.row


def _pick_key(view: View, query: int) -> int:
    """The control for the key; defaults to the key with the highest weight."""
    tokens = view.trace.key_tokens(view.site.name)
    now = view.state.key
    if now is None or now >= len(tokens):
        now = int(view.trace.pattern(view.site.name)[view.head, query].argmax())
    with st.container(width=150):
        controls.pick(
            view.t("causes.key"),
            range(len(tokens)),
            now,
            "causes.key",
            lambda place: session.change(key=place),
            format_func=lambda place: f"{place} {tokens[place]}",
        )
    return now


def _pick_other(view: View, key: int) -> int | None:
    """The control for the key to compare with; None for no comparison."""
    tokens = view.trace.key_tokens(view.site.name)
    asked = view.choices(CausesChoices).beside_key
    now = asked if asked is not None and asked < len(tokens) and asked != key else None
    with st.container(width=250):  # as wide as its first option
        controls.pick(
            view.t("causes.against"),
            (NONE, *(place for place in range(len(tokens)) if place != key)),
            NONE if now is None else now,
            "causes.against",
            lambda place: session.change(beside_key=None if place == NONE else place),
            format_func=lambda place: (
                view.t("causes.against_none") if place == NONE else f"{place} {tokens[place]}"
            ),
        )
    return now


def _drawn(view: View, found: Why) -> tuple[tuple[Group, ...], tuple[Group, ...]]:
    """The matrix with its two rankings."""
    terms = _terms(view, found)
    extra = [name for name, _ in terms]
    queries, keys = (
        largest(ledger.writers, sums, MOST)
        for ledger, sums in ((found.queries, found.by_query), (found.keys, found.by_key))
    )
    matrix = np.array([[_product(found, query, key) for key in keys] for query in queries])
    bars, marks = [], []
    for side, groups in (("query", queries), ("key", keys)):
        by = found.by_query if side == "query" else found.by_key
        free = by + found.left_out(cast(Side, side))
        bars.append(np.array([*(group.of(by) for group in groups), *(v for _, v in terms)]))
        alone = [float(free[g.members[0]]) if g.writer else np.nan for g in groups]
        marks.append(np.array([*alone, *(np.nan for _ in terms)]))
    figure = products(
        matrix,
        [*group_names(view, queries), *extra],
        [*group_names(view, keys), *extra],
        *bars,
        *marks,
        titles=(view.t("causes.into_query"), view.t("causes.into_key")),
        streams=(view.site.query_stream, view.site.key_stream),
        dark=view.dark,
        words=view.words("figures.causes"),
    )
    controls.chart(figure, "causes.products", alt=view.t("causes.products"))
    st.caption(view.t("causes.products_note"))
    return queries, keys


def _notes(view: View, found: Why) -> None:
    """Notes on parts of the score that are not a sum of products, and on uninformative cells."""
    config = view.loaded.config
    written = {
        "qk_norm": config.qk_norm,
        "first": view.layer == 0 and view.kind != "cross",
        "precision": in_half_precision(view),
    }
    if found.cap is not None:
        raw = found.score - found.cap - (found.bias or 0.0)
        st.caption(view.t("causes.note_cap", raw=fixed(raw), taken=signed(found.cap)))
    for name in (name for name, here in written.items() if here):
        st.caption(view.t(f"causes.note_{name}"))


def _product(found: Why, query: Group, key: Group) -> float:
    return float(found.matrix[np.ix_(query.members, key.members)].sum())


def _terms(view: View, found: Why) -> list[tuple[str, float]]:
    """Terms outside the products: positions, a softcap, and the residual."""
    terms = [(view.t("causes.bias"), found.bias), (view.t("causes.cap"), found.cap)]
    present = [(name, value) for name, value in terms if value is not None]
    return [*present, (view.t("causes.rest"), found.rest)]


def _reading(view: View, found: Why, queries: tuple[Group, ...], keys: tuple[Group, ...]) -> str:
    site, trace = view.site.name, view.trace
    keys_row = trace.key_tokens(site)
    query = controls.quoted_at(view, trace.query_tokens(site), found.query)
    key = controls.quoted_at(view, keys_row, found.key)
    pairs = [(query, key) for query in queries for key in keys]
    first = max(pairs, key=lambda pair: abs(_product(found, *pair)))
    words = {
        "query": query,
        "key": key,
        "score": fixed(found.score),
        "weight": percent(float(trace.pattern(site)[found.head, found.query, found.key])),
        "by_query": group_name(view, queries[0]),
        "in_query": signed(float(queries[0].of(found.by_query))),
        "by_key": group_name(view, keys[0]),
        "in_key": signed(float(keys[0].of(found.by_key))),
        "pair": f"{group_name(view, first[0])} × {group_name(view, first[1])}",
        "product": signed(_product(found, *first)),
        "sum": whether_it_adds_up(view, found.rest, found.by_query),
    }
    if found.against is not None:
        other = controls.quoted_at(view, keys_row, found.against)
        return view.t("causes.read_against", other=other, **words)
    return view.t("causes.read_why" if found.allowed else "causes.read_hidden", **words)


def _check(view: View, found: Why, detail: Detail) -> None:
    """The experiment: ablate a writer and compare the weights with the prediction."""
    st.subheader(view.t("causes.check"), anchor=False)
    made = view.choices(CausesChoices)
    side = cast(Side, made.side)
    ledger, sums = (
        (found.queries, found.by_query) if side == "query" else (found.keys, found.by_key)
    )
    order = np.argsort(-np.abs(sums), kind="stable").tolist()
    writer = made.taken if made.taken is not None and made.taken < len(order) else order[0]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.session_state["causes.side"] = side
        st.segmented_control(
            view.t("causes.take_from"),
            SIDES,
            format_func=lambda name: view.t(f"causes.{name}"),
            required=True,
            key="causes.side",
            on_change=lambda: session.change(side=st.session_state["causes.side"], taken=None),
        )
        with st.container(width=260):
            controls.pick(
                view.t("causes.take"),
                order,
                writer,
                "causes.taken",
                lambda at: session.change(taken=at),
                format_func=lambda at: (
                    f"{writer_name(view, ledger.writers[at])} ({signed(float(sums[at]))})"
                ),
            )
    place = (view.site.name, found.head, found.query, found.key)
    removed = waited(view, "removal", cached.removal, *place, detail, side, writer)
    if removed is None:
        return
    controls.reading("removed", _read_removal(view, found, removed))
    names = [view.t(f"causes.{name}") for name in ("before", "predicted", "measured", "norms_free")]
    tokens = view.trace.key_tokens(view.site.name)
    figure = lines(
        np.arange(len(tokens)),
        100 * removed.patterns,
        names,
        x_title=view.t("causes.key"),
        y_title=view.t("causes.weight"),
        height=280,
        dark=view.dark,
    )
    figure["layout"]["xaxis"] |= upright(tokens, view.dark, ROOM, below=True)
    figure["layout"]["meta"] = {"least": least_width(tokens, ROOM)}
    for each in figure["data"]:
        each["mode"] = "lines+markers"
    controls.chart(figure, "causes.removed", alt=view.t("causes.check"))


def _read_removal(view: View, found: Why, removed: Removal) -> str:
    at = removed.key
    before, predicted, measured, free = (fixed(float(each)) for each in removed.scores[:, at])
    weights = [percent(float(each)) for each in removed.patterns[:, at]]
    key = "causes.read_removed" if removed.error < 5e-4 else "causes.read_not_as_predicted"
    return view.t(
        key,
        writer=writer_name(view, removed.writer),
        side=view.t(f"causes.of_{removed.side}"),
        before=before,
        predicted=predicted,
        measured=measured,
        free=free,
        left=signed(removed.left_out),
        old=weights[0],
        new=weights[2],
        error=number(removed.error),
    )


def _formula(view: View, found: Why) -> tuple[str, ...]:
    products_ = r"\sum_{a,b} q_a \cdot k_b"
    added = "" if found.bias is None else r" + b_{ij}"
    norms = {
        "pre": r"q_a = \frac{\gamma\,C x_a}{\sigma(x)}\,W_Q",
        "post": r"x_a \leftarrow \frac{\gamma\,C x_a}{\sigma(x + f(x))}",
        "sublayer": r"f_a \leftarrow \frac{\gamma\,C f_a}{\sigma(f(x))}",
    }
    return (
        rf"s_{{ij}} = {view.scaled(products_)}{added}",
        norms[view.loaded.config.norm_placement],
    )


def _numbers(
    view: View, found: Why, queries: tuple[Group, ...], keys: tuple[Group, ...]
) -> dict[str, list[object]]:
    """Both full rankings, by writer."""
    columns: dict[str, list[object]] = {"": [], view.t("causes.side"): []}
    pieces, free = view.t("causes.piece"), view.t("causes.left_out")
    columns |= {pieces: [], free: []}
    for side, ledger, sums in (
        ("query", found.queries, found.by_query),
        ("key", found.keys, found.by_key),
    ):
        left = found.left_out(cast(Side, side))
        for at, writer in enumerate(ledger.writers):
            columns[""].append(writer_name(view, writer))
            columns[view.t("causes.side")].append(view.t(f"causes.{side}"))
            columns[pieces].append(round(float(sums[at]), 5))
            columns[free].append(round(float(left[at]), 5))
    return columns
