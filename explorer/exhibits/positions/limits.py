"""Where the regular pattern of sinusoids ends: after a head's projections, and next to words."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from explorer.analysis.positions import encoding as numbers
from explorer.analysis.positions.order import reading_stream
from explorer.exhibits import block as b
from explorer.exhibits.exhibit import Exhibit
from explorer.exhibits.picking import titled
from explorer.exhibits.positions.table import table_size
from explorer.exhibits.view import View
from explorer.figures.paired import paired
from explorer.figures.positions import encoding as figures
from explorer.library import LoadedModel
from explorer.numbers import percent
from explorer.runs.trace import Trace


@dataclass(frozen=True, eq=False)
class Limits:
    """Dot products of positions after the projections of `head` [pos, pos], and the norms of word
    and position vectors by token; None if the model adds no positions.
    """

    head: int
    projected: np.ndarray | None
    sizes: tuple[np.ndarray, np.ndarray] | None


def compute(loaded: LoadedModel, trace: Trace, head: int, length: int | None) -> Limits:
    """In the first layer of the model's first kind of attention."""
    site = trace.sites[0]
    head, n = min(head, site.n_heads - 1), table_size(None, None, length)["length"]
    projected = numbers.projected_gram(loaded, site.name, head, n)
    return Limits(head, projected, numbers.sizes(trace, reading_stream(loaded)))


def show(found: Limits, view: View) -> Iterator[b.Block]:
    """The projected dot products, and the sizes, which must be comparable."""
    title = view.t("positions.projected")
    left: tuple[b.Block, ...] = (b.Title(title), b.Note(view.t("positions.projected_none")))
    if found.projected is not None:
        note = view.t(
            "positions.projected_note",
            kind=view.t(f"kinds.{view.kinds[0]}"),
            head=found.head + 1,
            spread=percent(numbers.spread_by_distance(found.projected)),
            asymmetry=percent(numbers.asymmetry(found.projected)),
        )
        draw = partial(figures.gram, found.projected, words=view.words("figures.positions"))
        left = titled(view, "positions.projected", draw, note=note)
    yield b.Columns((left, (b.Prose(view.t("positions.limits")),)))
    if found.sizes is None:
        return
    words, added = found.sizes
    stream = reading_stream(view.loaded)
    names = (view.t("positions.size_word"), view.t("positions.size_position"))
    title = view.t("positions.size")
    draw = partial(paired, view.str_tokens(stream), words, added, names, title=title, stream=stream)
    yield from titled(view, "positions.sizes", draw, note="note")
    config = view.loaded.config
    means = {"word": f"{float(words.mean()):.1f}", "position": f"{float(added.mean()):.1f}"}
    said = view.t("positions.read_sizes", **means)
    if config.positions == "sinusoidal" and config.scale_embeddings:
        scale, sines = (f"{(config.d_model / part) ** 0.5:.0f}" for part in (1, 2))
        said += " " + view.t("positions.read_scale", scale=scale, sines=sines)
    yield b.Sentence("sizes", said)


EXHIBIT = Exhibit(compute, show)
