"""The experiment: remove a writer and compare the weights with the prediction."""

from typing import cast

import numpy as np

from explorer.analysis.attribution.why import Removal, remove
from explorer.analysis.attribution.writers import Detail, Side
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.engine.caching import cached
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.attribution.place import writer_name
from explorer.exhibits.attribution.why import CELL, to_remove, why
from explorer.figures.curves import lines
from explorer.figures.frame import Figure, least_width, upright
from explorer.numbers import fixed, number, percent, signed
from explorer.runs.passes import Steps

ROOM = 900
"""Assumed width in pixels for the labels of keys."""


@cached
def removal(
    run: Run,
    site: str,
    head: int,
    row: int,
    at_key: int,
    against: int | None,
    detail: Detail,
    side: str,
    taken: int | None,
) -> Steps[Removal]:
    """Ablate a writer in the query or the key, by default the largest. Raises as `why`."""
    cell = run, site, head, row, at_key
    compared = yield from why.steps(*cell, against, detail)
    whole = yield from why.steps(*cell, None, detail)
    loaded, writer = cache.open_model(run.model), to_remove(compared, side, taken)[1]
    return remove(loaded, cache.trace(run), whole, cast(Side, side), writer)


def show(removed: Removal, view: View) -> b.Blocks:
    """The weights before and after, predicted and measured."""
    yield b.Sentence("removed", _reading(view, removed))
    names = [
        view.t(f"attribution.{name}") for name in ("before", "predicted", "measured", "norms_free")
    ]
    tokens = view.trace.key_tokens(view.site.name)

    def draw(dark: bool) -> Figure:
        figure = lines(
            np.arange(len(tokens)),
            100 * removed.patterns,
            names,
            **view.axes("attribution.key", "attribution.weight"),
            height=280,
            points=True,
            dark=dark,
        )
        figure["layout"]["xaxis"] |= upright(tokens, dark, ROOM, below=True)
        figure["layout"]["meta"] = {"least": least_width(tokens, ROOM)}
        return figure

    yield b.Chart("attribution.removed", draw, view.t("attribution.check"))


def _reading(view: View, removed: Removal) -> str:
    at = removed.key
    before, predicted, measured, free = (fixed(float(score)) for score in removed.scores[:, at])
    weights = [percent(float(weight)) for weight in removed.patterns[:, at]]
    key = (
        "attribution.read_removed" if removed.error < 5e-4 else "attribution.read_not_as_predicted"
    )
    return view.t(
        key,
        writer=writer_name(view, removed.writer),
        side=view.t(f"attribution.of_{removed.side}"),
        before=before,
        predicted=predicted,
        measured=measured,
        free=free,
        left=signed(removed.left_out),
        old=weights[0],
        new=weights[2],
        error=number(removed.error),
    )


EXHIBIT = Exhibit(removal, show, inputs=CELL, wait=Wait("attribution.working"))
