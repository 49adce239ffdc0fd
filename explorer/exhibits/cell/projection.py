"""Step 1: the query and the key vector of this head."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from explorer.exhibits import View, block as b
from explorer.exhibits.cell import place
from explorer.exhibits.cell.place import CellEffect
from explorer.figures.cell import vectors


def show(found: CellEffect, view: View) -> b.Blocks:
    """Both vectors, and how the model changes them after projection."""
    site, cell = view.site, found.cell
    draw = partial(
        vectors,
        np.stack([cell.q, cell.k]),
        (view.t("cell.q_of"), view.t("cell.k_of")),
        (site.query_stream, site.key_stream if site.key_stream != site.query_stream else None),
        words=view.words("figures.cell"),
    )
    changed = view.t("heads.and").join(_changes(view))
    values = {"d_model": len(cell.stream), "d_head": len(cell.q), **place.tokens(view)}
    turned = {"changed": changed} if changed else {}
    key = "cell.reading_projection_turned" if changed else "cell.reading_projection"
    chart = b.Chart("cell.vectors", draw, view.t("cell.stages.projection"))
    yield place.with_sentence(view, view.t(key, **values, **turned), chart)
    yield from place.small_print(view, found, 1)


def _changes(view: View) -> Iterator[str]:
    """The model's changes of queries and keys after projection."""
    config = view.loaded.config
    if config.qk_norm:
        yield view.t("cell.changed_normed")
    if config.position_type.acts == "turns" and view.site.kind == "self":
        partly = config.n_turned < config.d_head
        yield view.t("cell.changed_partly" if partly else "cell.changed_turned", n=config.n_turned)


EXHIBIT = place.step("projection", show)
