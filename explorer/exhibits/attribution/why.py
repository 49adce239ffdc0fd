"""Score decomposition: the score of a cell as a sum over the writers of its query and key."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from explorer.analysis.attribution.ledger import Components, largest
from explorer.analysis.attribution.why import Why, projected, why
from explorer.analysis.attribution.writers import Side, read_by, writers_at
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.attribution.choices import AttributionChoices
from explorer.exhibits.attribution.place import (
    detail_of,
    group_name,
    group_names,
    in_half_precision,
    opening,
    pick_detail,
    pick_row,
    shortfall,
    writer_name,
)
from explorer.exhibits.picking import pick_place, pick_token
from explorer.exhibits.saying import in_a_row, quoted_at
from explorer.figures.attribution import ranking
from explorer.figures.matrix import Axis, signed as signed_matrix
from explorer.numbers import fixed, percent, signed

MOST = 16
"""Most writers on one side of the matrix; the smallest ones share one more row."""
NONE = -1
"""List entry for no comparison."""
SIDES: tuple[Side, ...] = ("query", "key")


def key_of(view: View) -> int:
    """The chosen key, else the one with the highest weight."""
    site, now = view.site.name, view.state.key
    if now is not None and now < len(view.trace.key_tokens(site)):
        return now
    return int(view.trace.pattern(site)[view.head, view.row].argmax())


def against_of(view: View) -> int | None:
    """The key to compare with; None for no comparison."""
    asked = view.choices(AttributionChoices).beside_key
    n_keys = len(view.trace.key_tokens(view.site.name))
    return asked if asked is not None and asked < n_keys and asked != key_of(view) else None


def show(reason: Why, view: View) -> b.Blocks:
    """The product of each writer of the query with each writer of the key."""
    yield from opening(view)
    keys_row = view.trace.key_tokens(view.site.name)
    key = pick_token(
        view, "attribution.key", "attribution.key", keys_row, reason.key, "key", width=150
    )
    picks = (*pick_place(view, "attribution"), pick_row(view), key, _pick_other(view, keys_row))
    yield b.Row((*picks, pick_detail(view)))
    queries = largest(reason.queries.writers, reason.by_query, MOST)
    keys = largest(reason.keys.writers, reason.by_key, MOST)
    reading = b.Sentence("why", _reading(view, reason, queries, keys))
    yield b.Hero((reading, *_drawn(view, reason, queries, keys)))
    yield from _notes(view, reason)
    yield b.Formula(_formula(view, reason), view.t("attribution.formula"))
    yield b.Code((why, projected, read_by, writers_at))
    yield b.Numbers(lambda: _numbers(view, reason))


def _pick_other(view: View, tokens: tuple[str, ...]) -> b.Pick:
    """The control for the key to compare with."""
    key, against = key_of(view), against_of(view)
    options = (NONE, *(place for place in range(len(tokens)) if place != key))

    def label(place: int) -> str:
        return view.t("attribution.against_none") if place == NONE else f"{place} {tokens[place]}"

    return b.Pick(
        "attribution.against",
        view.t("attribution.against"),
        {place: label(place) for place in options},
        NONE if against is None else against,
        lambda place: b.choose(beside_key=None if place == NONE else place),
        "menu",
        b.Display(250),  # as wide as its first option
    )


def _drawn(
    view: View, reason: Why, queries: tuple[Components, ...], keys: tuple[Components, ...]
) -> tuple[b.Block, ...]:
    """The matrix, and below it the rankings of its rows and of its columns."""
    terms, words = _terms(view, reason), view.words("figures.attribution")
    extra, outside = [name for name, _ in terms], [value for _, value in terms]
    products = np.array([[_product(reason, query, key) for key in keys] for query in queries])
    axes, rankings = [], []
    for side, groups in zip(SIDES, (queries, keys), strict=True):
        names, title = group_names(view, groups), view.t("attribution.into", side)
        stream = view.site.query_stream if side == "query" else view.site.key_stream
        axes.append(Axis(names, title, stream))
        by = reason.of(side)[1]
        free = by + reason.left_out(side)
        alone = [float(free[g.members[0]]) if g.writer else np.nan for g in groups]
        draw = partial(
            ranking,
            [*names, *extra],
            np.array([*(group.of(by) for group in groups), *outside]),
            free=np.array([*alone, *[np.nan] * len(terms)]),
            title=title,
            legend=side == SIDES[0],
            words=words,
        )
        rankings.append((b.Chart(f"attribution.{side}s", draw, title),))
    drawn = signed_matrix(products, (axes[0], axes[1]), words["product"], least=(20, 20))
    panel = (view.t("attribution.products"), drawn)
    picture = b.Matrices("attribution.products", (panel,), captioned=False)
    return picture, b.Columns(rankings)


def _notes(view: View, reason: Why) -> Iterator[b.Note]:
    """Notes on parts of the score that are not a sum of products, and on uninformative cells."""
    config = view.loaded.config
    written = {
        "attribution.note_cap": reason.cap is not None,
        "attribution.note_qk_norm": config.qk_norm,
        "attribution.note_first": view.layer == 0 and view.kind != "cross",
        "attribution.note_precision": in_half_precision(view),
    }
    for key in (key for key, here in written.items() if here):
        yield b.Note(view.t(key))


def _product(reason: Why, query: Components, key: Components) -> float:
    return float(reason.matrix[np.ix_(query.members, key.members)].sum())


def _terms(view: View, reason: Why) -> list[tuple[str, float]]:
    """Terms outside the products: positions, a softcap, and the residual."""
    terms = [(view.t("attribution.bias"), reason.bias), (view.t("attribution.cap"), reason.cap)]
    present = [(name, value) for name, value in terms if value is not None]
    return [*present, (view.t("attribution.rest"), reason.rest)]


def _reading(
    view: View, reason: Why, queries: tuple[Components, ...], keys: tuple[Components, ...]
) -> str:
    site, trace = view.site.name, view.trace
    keys_row = trace.key_tokens(site)
    query = quoted_at(view, trace.query_tokens(site), reason.query)
    key = quoted_at(view, keys_row, reason.key)
    words = {"query": query, "key": key, "score": fixed(reason.score)}
    if reason.against is not None:
        other = quoted_at(view, keys_row, reason.against)
        score = view.t("attribution.read_against", other=other, **words)
    elif not reason.allowed:
        score = view.t("attribution.read_hidden", **words)
    else:
        weight = percent(float(trace.pattern(site)[reason.head, reason.query, reason.key]))
        score = view.t("attribution.read_why", weight=weight, **words)
    sides = view.t(
        "attribution.read_sides",
        by_query=group_name(view, queries[0]),
        in_query=signed(float(queries[0].of(reason.by_query))),
        by_key=group_name(view, keys[0]),
        in_key=signed(float(keys[0].of(reason.by_key))),
    )
    return in_a_row([score, *shortfall(view, reason.rest, reason.by_query), sides])


def _formula(view: View, reason: Why) -> tuple[str, ...]:
    products_ = r"\sum_{a,b} q_a \cdot k_b"
    added = "" if reason.bias is None else r" + b_{ij}"
    norms = {
        "pre": r"q_a = \frac{\gamma\,C x_a}{\sigma(x)}\,W_Q",
        "post": r"x_a \leftarrow \frac{\gamma\,C x_a}{\sigma(x + f(x))}",
        "sublayer": r"f_a \leftarrow \frac{\gamma\,C f_a}{\sigma(f(x))}",
    }
    return (
        rf"s_{{ij}} = {view.scaled(products_)}{added}",
        norms[view.loaded.config.norm_placement],
    )


def _numbers(view: View, reason: Why) -> dict[str, list[object]]:
    """Both full rankings, by writer."""
    sides = {"query": view.t("attribution.query"), "key": view.t("attribution.key")}
    rows = [
        (writer_name(view, writer), sides[side], round(piece, 5), round(left, 5))
        for side in SIDES
        for ledger, sums in (reason.of(side),)
        for writer, piece, left in zip(
            ledger.writers, sums.tolist(), reason.left_out(side).tolist(), strict=True
        )
    ]
    titles = ["", *map(view.t, ("attribution.side", "attribution.piece", "attribution.left_out"))]
    return dict(zip(titles, map(list, zip(*rows, strict=True)), strict=True))


EXHIBIT = Exhibit(
    why,
    show,
    inputs={
        "query": lambda view: view.row,
        "key": key_of,
        "against": against_of,
        "detail": detail_of,
    },
    wait=Wait("attribution.working", blocks=opening),
)
