"""The experiment: remove a writer and compare the weights with the prediction."""

import numpy as np

from explorer.analysis.attribution.why import Removal, Why, remove
from explorer.analysis.attribution.writers import Side
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.attribution.place import to_remove, writer_name
from explorer.figures.curves import lines
from explorer.figures.frame import Figure, least_width, upright
from explorer.library import LoadedModel
from explorer.numbers import fixed, number, percent
from explorer.runs.trace import Trace

ROOM = 900
"""Assumed width in pixels for the labels of keys."""


def compute(loaded: LoadedModel, trace: Trace, why: Why, side: Side, taken: int | None) -> Removal:
    """Ablate a writer in the query or the key, by default the largest."""
    return remove(loaded, trace, why, side, to_remove(why.of(side)[1], taken)[1])


def show(removed: Removal | None, view: View) -> b.Blocks:
    """The weights before and after, predicted and measured."""
    if removed is None:
        return
    at = removed.key
    before, predicted, measured, free = (fixed(float(score)) for score in removed.scores[:, at])
    weights = [percent(float(weight)) for weight in removed.patterns[:, at]]
    reading = view.t(
        "attribution.read_removed",
        writer=writer_name(view, removed.writer),
        side=view.t(f"attribution.of_{removed.side}"),
        before=before,
        predicted=predicted,
        measured=measured,
        free=free,
        old=weights[0],
        new=weights[2],
        error=number(removed.error),
    )
    yield b.Sentence("removed", reading)
    curves = ("before", "predicted", "measured", "norms_free")
    tokens = view.trace.key_tokens(view.site.name)

    def draw(dark: bool) -> Figure:
        figure = lines(
            np.arange(len(tokens)),
            100 * removed.patterns,
            [view.t(f"attribution.{name}") for name in curves],
            **view.axes("attribution.key", "attribution.weight"),
            height=280,
            points=True,
            dark=dark,
        )
        figure["layout"]["xaxis"] |= upright(tokens, dark, ROOM)
        figure["layout"]["meta"] = {"least": least_width(tokens, ROOM)}
        return figure

    yield b.Chart("attribution.removed", draw, view.t("attribution.check"))


EXHIBIT = Exhibit(compute, show, wait=Wait("attribution.working", after="attribution.why"))
