"""The dot products of sinusoids, and where their regular pattern ends: a head's projections."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from explorer.analysis.positions import encoding as numbers
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.picking import titled
from explorer.exhibits.positions.choices import PositionsChoices
from explorer.exhibits.positions.table import table_size
from explorer.figures.positions import encoding as figures
from explorer.library import LoadedModel
from explorer.numbers import percent
from explorer.runs.trace import Trace


@dataclass(frozen=True, eq=False)
class Limits:
    """Dot products of positions after the projections of `head` [pos, pos]; None if the model adds
    no positions."""

    head: int
    projected: np.ndarray | None


def compute(loaded: LoadedModel, trace: Trace, head: int, length: int | None) -> Limits:
    """Project positions in the first layer of the model's first kind of attention."""
    site = trace.sites[0]
    head, n = min(head, site.n_heads - 1), table_size(None, None, length)["length"]
    return Limits(head, numbers.projected_gram(loaded, site.name, head, n))


def show(found: Limits, view: View) -> b.Blocks:
    """The dot products of the table next to those of the model's own after a head's projections."""
    made = view.choices(PositionsChoices)
    size = table_size(made.base, made.width, made.length)
    draw = partial(
        figures.gram,
        numbers.gram(numbers.table(size["length"], size["width"], size["base"])),
        words=view.words("figures.positions"),
    )
    table = titled(view, "positions.gram", draw, note="note")
    title = view.t("positions.projected")
    projected: tuple[b.Block, ...] = (b.Title(title), b.Note(view.t("positions.projected_none")))
    if found.projected is not None:
        note = view.t(
            "positions.projected_note",
            kind=view.t(f"kinds.{view.kinds[0]}"),
            head=found.head + 1,
            spread=percent(numbers.spread_by_distance(found.projected)),
            asymmetry=percent(numbers.asymmetry(found.projected)),
        )
        draw = partial(figures.gram, found.projected, words=view.words("figures.positions"))
        projected = titled(view, "positions.projected", draw, note=note)
    yield b.Columns((table, projected))
    yield b.Prose(view.t("positions.limits"))


EXHIBIT = Exhibit(compute, show)
