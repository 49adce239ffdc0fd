"""All heads of one kind of attention, the open ones as heatmap and text, linked in the browser."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from explorer.components import payload
from explorer.components.heads_payload import (
    EXACT_BYTES,
    MAX_PINNED,
    Address,
    Cells,
    CellsOf,
    HeadAddresses,
    HeadGrid,
    HeadsSelection,
    Measure,
    PictureAxis,
    Whys,
    grid,
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


def heads_view(
    patterns: payload.Floats | HeadGrid,
    axes: Axes,
    *,
    key: str,
    selection: HeadsSelection | None = None,
    on_picked: Callable[[], None] = lambda: None,
    on_down: Callable[[], None] = lambda: None,
    **options: Any,
) -> HeadsSelection:
    """Show `patterns` [layer, head, query, key] linked; return what is selected now.

    `selection` is what is open, pinned and locked. A click in the browser takes precedence and is
    returned in the run that it starts (`sent_selection` reads it earlier in that run), so store the
    result and pass it again. `on_picked` is called before that run, `on_down` before
    the run of a click on the link of a cell. `options` are those of
    `pack_heads_view`. Hovering and locking are handled in the browser, without a run. Thumbnails
    that the browser already has are not sent again. A click on other thumbnails, such as another
    sentence's, locks no row here.
    """
    aggregates = options.get("aggregates") or {}
    n_layers, n_heads, *_ = patterns.shape
    heads = HeadAddresses(n_layers, n_heads, len(aggregates))
    picked = sent(key, "picked")
    clicked = read_selection(picked, heads, len(axes[0].labels), len(axes[1].labels))
    usual = selection or HeadsSelection()
    now = clicked or usual
    pack_with = partial(
        pack_heads_view,
        patterns,
        axes,
        turn=newest_turn(key, None if clicked is None else whole(picked.get("turn"))),
        **options,
    )
    data = pack_with(selection=now)
    holds = clicked is not None and picked.get("held") == payload.head_of(data)["small"]
    if not holds and now.query != usual.query:
        now = replace(now, query=usual.query, key=usual.key)
        data = pack_with(selection=now)
    view("heads_view")(
        key=key,
        data=payload.without(data, "cells") if holds else data,
        on_picked_change=on_picked,
        on_down_change=on_down,
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
    patterns: payload.Floats | HeadGrid,
    axes: Axes,
    *,
    about_to_write: Sequence[str] | None = None,
    selection: HeadsSelection | None = None,
    mask: payload.Bools | None = None,
    blocked_by: Whys | None = None,
    labels: Sequence[str] | None = None,
    aggregates: Mapping[str, payload.Floats] | None = None,
    aggregates_mask: payload.Bools | None = None,
    measure: Measure | None = None,
    picture: PictureAxis | None = None,
    top: float | None = None,
    least: float = 0.02,
    turn: int | None = None,
    cells_of: CellsOf | None = None,
    alone: bool = False,
    file: str = "headlight",
    words: payload.Words,
) -> bytes:
    """Pack the payload of `heads_view`: thumbnails of all heads, exact cells of the shown ones.

    Cells are sent in 16 bits, which display the same digits as the weights themselves; thumbnail
    pixels that are unblocked in some head, in 8 bits.

    `about_to_write` [query] is each query's predicted token, shown next to its own ("": none).
    `mask`: True = may attend, broadcastable to `patterns`. `blocked_by(layer, head)` gives words
    [query, key] for the blocked cells of one head; it is called for shown heads only. `labels` name
    the heads layer by layer (None: "L1·H1" …). `aggregates` are further named patterns [query, key]
    after the heads, such as an average or a rollout, with addresses (n_layers, 0), (n_layers, 1) …
    and a mask broadcastable to [aggregate, query, key]. `measure` is shown under each head and can
    sort them. Of keys that are patches of a `picture`, thumbnails show one query's row over it.
    `top` is the darkest weight of a shared scale (None: the largest weight). Weights
    under `least` draw no line. `turn` echoes the browser's counter of choices. Instead of patterns,
    a `HeadGrid` of them and of the aggregates may be passed (of `aggregates`, only the names are
    used), with `cells_of` for the shown ones. `alone`: a standalone view without Python, so every
    head is sent in full: exactly while all fit into `EXACT_BYTES`, else in 8 bits, and the view
    states the rounding error. `file` is the prefix of the names of saved pictures. Raises
    ValueError with the sizes if they disagree.
    """
    if len(patterns.shape) != 4:
        raise ValueError(f"patterns has shape {patterns.shape}, expected [layer, head, query, key]")
    n_layers, n_heads, n_query, n_key = patterns.shape
    payload.check_length("query tokens", len(axes[0].labels), n_query, "queries in patterns")
    payload.check_length("key tokens", len(axes[1].labels), n_key, "keys in patterns")
    queries, keys = map(payload.axis_head, axes)
    if about_to_write is not None:
        payload.check_length("about_to_write", len(about_to_write), n_query, "queries in patterns")
        queries["labels"] = [
            f"{token} ⟶ {show(after)}" if after else token
            for token, after in zip(queries["tokens"], about_to_write, strict=True)
        ]
    further = aggregates or {}
    if labels is None:
        labels = [f"L{at // n_heads + 1}·H{at % n_heads + 1}" for at in range(n_layers * n_heads)]
    payload.check_length("labels", len(labels), n_layers * n_heads, "heads in patterns")
    heads = HeadAddresses(n_layers, n_heads, len(further))
    chosen = selection or HeadsSelection()
    payload.check_index("query", chosen.query, n_query, "queries")
    payload.check_index("key", chosen.key, n_key, "keys")
    if len(chosen.pinned) > MAX_PINNED:
        raise ValueError(f"{len(chosen.pinned)} heads are pinned, at most {MAX_PINNED} fit")
    sums = None
    if isinstance(patterns, HeadGrid):
        if cells_of is None:
            raise ValueError(
                "a grid needs cells_of, which gives the exact cells of the shown heads"
            )
        small, exactly = patterns, cells_of
    else:
        weights = _flat(patterns, further)
        mask = ~_flat_blocked(mask, aggregates_mask, patterns.shape, len(further))
        small = grid(patterns.shape, [(weights, mask)], whole=alone)
        if alone:  # the browser could not sum rounded weights exactly
            whole = np.where(mask, weights, 0).sum(-1, dtype=np.float64)
            sums = np.round(whole, 4).tolist()

        def exactly(address: Address) -> Cells:
            at = _index(heads, address)
            return weights[at], mask[at]

    known: list[str] = []
    cells, totals, whys, texts = [], [], [], []
    sent_exactly: Sequence[Address] = chosen.shown
    if alone and 4 * len(small.codes) * n_query * n_key <= EXACT_BYTES:
        sent_exactly = heads.addresses
    for address in sent_exactly:
        _index(heads, address)
        own, allowed = exactly(address)
        shut = ~np.asarray(allowed)
        shown = np.where(shut, 0, own)
        cells.append(halves(shown))
        totals.append(row_sums(shown))
        words_of = None
        if blocked_by is not None and address[0] < n_layers and shut.any():
            words_of = blocked_by(*address)
        whys.append(reasons(shut, words_of, known))
        texts.append(summary(own, shut, queries["tokens"], keys["tokens"]))
    head = {
        "queries": queries,
        "keys": keys,
        "labels": [*labels, *further],
        "layers": n_layers,
        "columns": n_heads,
        "step": small.step,
        "small": small.digest,
        "alone": alone,
        "sums": sums,
        "top": top if top is not None else small.darkest,
        "least": least,
        "most": MAX_PINNED,
        "file": file,
        "picture": None if picture is None else picture.head(n_query, n_key),
        "measure": None if measure is None else measure_head(measure, (n_layers, n_heads)),
        "words": dict(words)
        | {"rounded": words["rounded"].format(points=f"{100 / 254:.1f}")}
        | {"pooled": words["pooled"].format(step=small.step)},
        "chosen": {
            "opened": None if chosen.opened is None else _index(heads, chosen.opened),
            "pinned": [_index(heads, address) for address in chosen.pinned],
            "query": chosen.query,
            "key": chosen.key,
            "scale": chosen.scale,
            "shared": chosen.shared,
            "by_measure": chosen.by_measure,
            "shown": [_index(heads, address) for address in sent_exactly],
            "reasons": known,
            "summaries": texts,
            "turn": turn,
        },
    }
    none = np.zeros((0, n_query, n_key), np.uint8)
    return payload.pack(
        head,
        cells=small.codes[:, small.open],
        open=np.packbits(small.open, bitorder="little"),
        exact=np.stack(cells) if cells else none,
        sums=np.stack(totals) if totals else none,
        blocked=np.stack(whys) if whys else none,
        pixels=np.zeros(0, np.uint8) if picture is None else picture.rgb(),
    )


def _index(heads: HeadAddresses, address: tuple[int, int]) -> int:
    at = heads.index(address)
    if at is None:
        raise ValueError(
            f"head {address} is selected, but there are {heads.n_layers} x {heads.n_heads} heads "
            f"and {heads.n_aggregates} aggregates"
        )
    return at


def _flat(patterns: payload.Floats, aggregates: Mapping[str, payload.Floats]) -> payload.Floats:
    """All heads and aggregates as float32 [head, query, key]."""
    shape = patterns.shape[2:]
    for name, pattern in aggregates.items():
        if pattern.shape != shape:
            raise ValueError(
                f"aggregate {name!r} has shape {pattern.shape}, the heads have {shape}"
            )
    flat = patterns.reshape(-1, *shape)
    return np.concatenate([flat, *(pattern[None] for pattern in aggregates.values())]).astype(
        np.float32, copy=False
    )


def _flat_blocked(
    mask: payload.Bools | None,
    aggregates_mask: payload.Bools | None,
    shape: tuple[int, ...],
    n_aggregates: int,
) -> payload.Bools:
    """Bool [head, query, key], True = blocked, for heads and aggregates."""

    def spread(name: str, given: payload.Bools | None, full: tuple[int, ...]) -> payload.Bools:
        if given is None:
            return np.zeros(full, np.bool_)
        if given.dtype != np.bool_:
            raise ValueError(f"{name} is {given.dtype}, expected bool with True = may attend")
        try:
            return ~np.broadcast_to(given, full)
        except ValueError:
            raise ValueError(f"{name} has shape {given.shape}, expected {full}") from None

    of_heads = spread("mask", mask, shape).reshape(-1, *shape[2:])
    return np.concatenate(
        [of_heads, spread("aggregates_mask", aggregates_mask, (n_aggregates, *shape[2:]))]
    )
