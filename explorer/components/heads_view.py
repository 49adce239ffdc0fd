"""All heads of one kind of attention, the open ones as heatmap and text, linked in the browser."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from explorer.components import payload
from explorer.components.heads_payload import (
    EXACT_BYTES,
    MAX_PINNED,
    Address,
    CellsOf,
    HeadAddresses,
    HeadGrid,
    HeadsSelection,
    Measure,
    PictureAxis,
    Whys,
    halves,
    measure_head,
    read_selection,
    reasons,
    row_sums,
    summary,
)
from explorer.components.mount import Index, index_of, newest_turn, sent, view, whole
from explorer.figures.matrix import Axes
from explorer.figures.theme import show

LEAST = 0.02
"""Weights under this draw no line."""


def heads_view(
    small: HeadGrid,
    axes: Axes,
    *,
    key: str,
    selection: HeadsSelection | None = None,
    on_picked: Callable[[], None] = lambda: None,
    on_down: Callable[[], None] = lambda: None,
    on_asked: Callable[[], None] = lambda: None,
    **options: Any,
) -> HeadsSelection:
    """Show the heads of a grid linked; return what is selected now.

    `selection` is what is open, pinned and locked. A click in the browser takes precedence and is
    returned in the run that it starts (`sent_selection` reads it earlier in that run), so store the
    result and pass it again. `on_picked` is called before that run; `on_down` before
    the run that a cell's link starts; `on_asked` before the run that a button of the `bar` starts,
    for another picture (its name is sent as "asked"). `pack_heads_view` describes the `options`.
    Hovering and locking are handled in the browser, without a run. Thumbnails
    that the browser already has are not sent again. A click on other thumbnails, such as another
    sentence's, locks no row here.
    """
    n_layers, n_heads, *_ = small.shape
    heads = HeadAddresses(n_layers, n_heads, len(options.get("aggregates", ())))
    picked = sent(key, "picked")
    clicked = read_selection(picked, heads, len(axes[0].labels), len(axes[1].labels))
    usual = selection or HeadsSelection()
    now = clicked or usual
    holds = clicked is not None and picked.get("held") == small.digest
    if not holds and now.query != usual.query:
        now = replace(now, query=usual.query, key=usual.key)
    turn = newest_turn(key, None if clicked is None else whole(picked.get("turn")))
    view("heads_view")(
        key=key,
        data=pack_heads_view(small, axes, selection=now, turn=turn, held=holds, **options),
        on_picked_change=on_picked,
        on_down_change=on_down,
        on_asked_change=on_asked,
        on_lost_change=lambda: None,  # the browser lacks thumbnails: this run sends them
    )
    return now


def sent_selection(
    key: str, shape: tuple[int, int, int, int], n_aggregates: int = 0
) -> HeadsSelection | None:
    """The selection just made in the view with this key, before it is redrawn; else None.

    `shape` is the shape of its patterns: [layer, head, query, key].
    """
    n_layers, n_heads, n_query, n_key = shape
    return read_selection(
        sent(key, "picked"), HeadAddresses(n_layers, n_heads, n_aggregates), n_query, n_key
    )


def sent_cell(key: str, shape: tuple[int, int, int, int]) -> Index | None:
    """The [layer, head, query, key] whose link to Attention score was just clicked; else None."""
    return index_of(sent(key, "down"), shape)


def pack_heads_view(
    small: HeadGrid,
    axes: Axes,
    *,
    cells_of: CellsOf,
    about_to_write: Sequence[str] | None = None,
    selection: HeadsSelection | None = None,
    blocked_by: Whys | None = None,
    aggregates: Iterable[str] = (),
    measure: Measure | None = None,
    picture: PictureAxis | None = None,
    bar: Mapping[str, Any] | None = None,
    turn: int | None = None,
    held: bool = False,
    alone: bool = False,
    file: str = "headlight",
    words: payload.Words,
) -> bytes:
    """Pack the payload of `heads_view`: thumbnails of all heads, exact cells of the shown ones.

    Cells are sent in 16 bits, which display the same digits as the weights themselves; thumbnail
    pixels that are unblocked in some head, in 8 bits. They come in the grid's order: heads layer by
    layer, then `aggregates`, the names of further patterns such as an average or a rollout, with
    addresses (n_layers, 0), (n_layers, 1) …

    `about_to_write` [query] is each query's predicted token, shown next to its own ("": none).
    `blocked_by(layer, head)` gives words [query, key] for the blocked cells of one head; it is
    called for shown heads only. `measure` is shown under each head and can sort them. Of keys that
    are patches of a `picture`, thumbnails show one query's row over it. `turn` echoes the browser's
    counter of choices. `held`: the browser has the thumbnails already. `alone`: a standalone view
    without Python, so every head is sent in full: exactly while all fit into `EXACT_BYTES`, else in
    8 bits, and the view states the rounding error. `file` is the prefix of the names of saved
    pictures. The `bar` above the heads offers `kinds`, of which `kind` is shown, with their
    `names`; `roles`, each a label and the index of its head; and, labelled `matter`, the ablation
    of all heads.
    """
    n_layers, n_heads, n_query, n_key = small.shape
    queries, keys = map(payload.axis_head, axes)
    if about_to_write is not None:
        queries["labels"] = [
            f"{token} ⟶ {show(after)}" if after else token
            for token, after in zip(queries["tokens"], about_to_write, strict=True)
        ]
    labels = [f"L{at // n_heads + 1}·H{at % n_heads + 1}" for at in range(n_layers * n_heads)]
    labels += aggregates
    heads = HeadAddresses(n_layers, n_heads, len(labels) - n_layers * n_heads)
    chosen = selection or HeadsSelection()
    sums = None
    shown: Sequence[Address] = chosen.shown
    if alone:  # the browser could not sum rounded weights exactly
        every = (np.where(mask, weights, 0) for weights, mask in map(cells_of, heads.addresses))
        sums = [np.round(cells.sum(-1, dtype=np.float64), 4).tolist() for cells in every]
        if 4 * len(small.codes) * n_query * n_key <= EXACT_BYTES:
            shown = heads.addresses
    known: list[str] = []
    exact, totals, whys, texts = [], [], [], []
    for address in shown:
        own, allowed = cells_of(address)
        shut = ~allowed
        visible = np.where(shut, 0, own)
        exact.append(halves(visible))
        totals.append(row_sums(visible))
        words_of = None
        if blocked_by is not None and address[0] < n_layers and shut.any():
            words_of = blocked_by(*address)
        whys.append(reasons(shut, words_of, known))
        texts.append(summary(own, shut, queries["tokens"], keys["tokens"]))
    head = {
        "queries": queries,
        "keys": keys,
        "labels": labels,
        "layers": n_layers,
        "columns": n_heads,
        "step": small.step,
        "small": small.digest,
        "alone": alone,
        "sums": sums,
        "top": small.darkest,
        "least": LEAST,
        "most": MAX_PINNED,
        "file": file,
        "bar": bar or {},
        "picture": None if picture is None else picture.head(),
        "measure": None if measure is None else measure_head(measure),
        "words": dict(words)
        | {"rounded": words["rounded"].format(points=f"{100 / 254:.1f}")}
        | {"pooled": words["pooled"].format(step=small.step)},
        "chosen": {
            "opened": None if chosen.opened is None else heads.index(chosen.opened),
            "pinned": [heads.index(address) for address in chosen.pinned],
            "query": chosen.query,
            "key": chosen.key,
            "scale": chosen.scale,
            "shared": chosen.shared,
            "by_measure": chosen.by_measure,
            "shown": [heads.index(address) for address in shown],
            "reasons": known,
            "summaries": texts,
            "turn": turn,
        },
    }
    none = np.zeros((0, n_query, n_key), np.uint8)
    return payload.pack(
        head,
        cells=small.codes[: 0 if held else None, small.open],
        open=np.packbits(small.open, bitorder="little"),
        exact=np.stack(exact) if exact else none,
        sums=np.stack(totals) if totals else none,
        blocked=np.stack(whys) if whys else none,
        pixels=np.zeros(0, np.uint8) if picture is None else picture.rgb(),
    )
