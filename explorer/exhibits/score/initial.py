"""Before training: the scores of untrained models, by initialization and layout of weights."""

import math
from functools import partial

from explorer.analysis.score.initial import INITS, SEEDS, Fresh, fresh_scores
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.picking import pick_one
from explorer.exhibits.score.choices import ScoreChoices
from explorer.exhibits.score.place import is_open
from explorer.figures.curves import histograms
from explorer.numbers import fixed, percent, tabled


def show(layouts: tuple[Fresh, ...], view: View) -> b.Blocks:
    """The histogram of the three layouts, their table, and the conclusion."""
    yield b.Prose(view.t("score.initial_lead", seeds=len(SEEDS)))
    init, title = view.choices(ScoreChoices).init, "score.asides.initial"
    yield pick_one(view, "score.init", INITS, init, "", "score.inits.", title, quiet=True)
    yield b.Note(view.t(f"score.init_notes.{init}"))
    names = [view.t(f"score.layout.{layout.storage}") for layout in layouts]
    draw = partial(
        histograms,
        [layout.scores for layout in layouts],
        names,
        max(1e-3, 3.5 * max(layout.spread for layout in layouts)),
        **view.axes("score.initial_score", "score.initial_share"),
    )
    yield b.Chart("score.initial", draw, view.t(title))
    yield _table(view, names, layouts)
    yield b.Sentence("aside", _of_layouts(view, layouts))
    wide = ""
    if view.loaded.config.score_divisor is not None:  # the default one cancels the root
        wide = rf"\,\frac{{\sqrt{{d_\mathrm{{head}}}}}}{{{view.latex_divisor}}}"
    line = (
        r"\sigma_W = \sqrt{\tfrac{2}{\mathrm{fan_{in}} + \mathrm{fan_{out}}}}, \qquad "
        r"\sigma_s = \sigma_{W_Q}\,\sigma_{W_K}\,\lVert x_i\rVert\,\lVert x_j\rVert"
    )
    yield b.Formula((line + wide,), view.t("score.initial_formula"))
    yield b.Code((fresh_scores,), first=True)


def _table(view: View, names: list[str], layouts: tuple[Fresh, ...]) -> b.Table:
    columns = ("weights", "scores", "bits", "most")
    rows = [
        [
            f"{name}, {layout.shape[0]}\u00a0×\u00a0{layout.shape[1]}",
            f"{layout.weight_formula:.4f} / {layout.weight_std:.4f}",
            f"{tabled(layout.theory)} / {layout.spread:.3g}",
            "–"
            if math.isnan(layout.entropy)
            else f"{fixed(layout.entropy)} / {fixed(layout.most)}",
            "–" if math.isnan(layout.top) else percent(layout.top),
        ]
        for name, layout in zip(names, layouts, strict=True)
    ]
    return b.Table(["", *(view.t(f"score.initial_{name}") for name in columns)], rows)


def _of_layouts(view: View, layouts: tuple[Fresh, ...]) -> str:
    """Whether the layout matters here: separate matrices compared with the fused one."""
    by_storage = {layout.storage: layout for layout in layouts}
    one, fused = by_storage["one"], by_storage["fused"]
    ratio = fused.spread / one.spread
    by_rule = one.weight_formula == fused.weight_formula
    if by_rule or (view.loaded.config.qk_norm and abs(ratio - 1) < 0.01):
        reason = "rule" if by_rule else "normed"
        return view.t("score.initial_same", why=view.t(f"score.initial_why_{reason}"))
    rows = {"rows": fused.shape[0], "own": one.shape[0]}
    return view.t("score.initial_differs", ratio=fixed(ratio), **rows)


EXHIBIT = Exhibit(
    fresh_scores,
    show,
    inputs={"seeds": lambda view: SEEDS},
    open=partial(is_open, "initial"),
    wait=Wait("score.initial_working"),
)
