"""Scores divided by nothing, by the model's divisor or by sqrt(d_model)."""

from functools import partial

import numpy as np

from explorer.analysis.score.steps import SCALINGS, ScaledHead, Scaling, scaled
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.score.choices import ScoreChoices
from explorer.exhibits.score.place import is_open, key_of
from explorer.figures.curves import histograms
from explorer.numbers import fixed, percent
from explorer.runs.trace import Trace
from models.hooks import AttentionSite


def compute(trace: Trace, site: AttentionSite, head: int) -> dict[Scaling, ScaledHead]:
    """One head under each scaling."""
    return {name: scaled(trace, site, head, name) for name in SCALINGS}


def show(found: dict[Scaling, ScaledHead], view: View) -> b.Blocks:
    """The scores under the chosen scaling, all scalings in a table, and this cell's weight."""
    yield b.Prose(view.t("score.scaling_lead"))
    chosen, title = view.choices(ScoreChoices).scaling, view.t("score.asides.scaling")
    names = {name: view.t("score.scalings", name) for name in SCALINGS}
    change, display = b.sets("scaling"), b.Display(quiet=True)
    yield b.Pick("score.scaling", title, names, chosen, change, display=display)
    limit = max(1.0, float(np.abs(found["none"].scores).max(initial=0.0)))
    draw = partial(
        histograms,
        [found[chosen].scores],
        [names[chosen]],
        limit,
        **view.axes("score.score", "score.initial_share"),
    )
    columns = ("score.divided_by", "score.entropy", "score.top", "score.gradient")
    rows = [
        [
            f"**{names[name]}**" if name == chosen else names[name],
            fixed(of.divisor),
            fixed(of.entropy),
            percent(of.top),
            fixed(of.gradient, 3),
        ]
        for name, of in found.items()
    ]
    chart = b.Chart("score.histogram", draw, title)
    table = b.Table(["", *map(view.t, columns)], rows)
    yield b.Columns(((chart,), (table,)), gap="medium")
    place = view.row, key_of(view)
    own = view.trace.pattern(view.site.name)[view.head]
    weights = {"weight": found[chosen].pattern[place], "own": own[place]}
    shares = {name: percent(float(weight)) for name, weight in weights.items()}
    yield b.Sentence("aside", view.t("score.scaling_reading", **shares))
    yield b.Code((scaled,), first=True)


EXHIBIT = Exhibit(compute, show, open=partial(is_open, "scaling"))
