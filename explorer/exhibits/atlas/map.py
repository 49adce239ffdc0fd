"""The map of all heads by two measures, coloured by their typical behaviour."""

from collections import Counter
from functools import partial

import numpy as np

from explorer.analysis.atlas.ablation import cost_sums
from explorer.analysis.atlas.measures import Adding
from explorer.analysis.atlas.store import Atlas, name_of, numbers_of
from explorer.analysis.roles import MEASURES, AttentionRows
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.atlas.measured import WHICH, atlas, one_by_one
from explorer.exhibits.atlas.shown import (
    AtlasView,
    about,
    axes_of,
    axis_title,
    kind_words,
    name_words,
    open_head,
    pick_axis,
    place,
    values,
)
from explorer.exhibits.picking import pick_place
from explorer.exhibits.saying import head_columns
from explorer.exports.archive import to_rows
from explorer.figures.atlas import scatter

BOM = "\ufeff"
"""At the beginning of a file, for spreadsheets."""
FORMULA = (
    r"s_m = \frac{\left|\{\,i : \arg\max_j A_{ij} \in K_m(i)\,\}\right|}"
    r"{\left|\{\,i : K_m(i) \ne \varnothing\,\}\right|}, \qquad "
    r"H = \overline{-\sum_j A_{ij} \log_2 A_{ij}}",
    r"c = \overline{\log p(t_n \mid t_{<n}) - \log p_{z_h = 0}(t_n \mid t_{<n})} "
    r"\pm t_{n-1,\, 0.05 / h}\, \frac{\sigma}{\sqrt{n}}",
)


def show(atlas: Atlas | None, view: View) -> b.Blocks:
    """The map, its axes, and the tables of all heads."""
    if atlas is None:
        return
    shown = AtlasView(view, atlas)
    axes = axes_of(shown)
    yield b.Hero((b.Sentence("atlas", _reading(shown)), _picture(shown, *axes)))
    picks = [pick_axis(shown, *pair, 260) for pair in zip(("across", "up"), axes, strict=True)]
    yield b.Row((*picks, *pick_place(view, "atlas")))
    yield b.Note(about(shown))
    for name, make in (("heads", heads_csv), ("sentences", sentences_csv)):
        label = view.t(f"atlas.csv_{name}")
        yield b.Download(f"atlas.take.{name}", label, partial(make, shown), "csv", export=name)
    yield b.Formula(FORMULA, view.t("atlas.formula"))
    yield b.Code(_code(shown))
    yield b.Numbers(lambda: _columns(shown))


def _reading(shown: AtlasView) -> str:
    view, kinds = shown.view, Counter(name.kind for name in shown.atlas.names)
    return view.t(
        "atlas.reading",
        place=place(view, shown.head),
        name=name_words(view, shown.name),
        mixed=kinds["mixed"],
        count=len(shown.atlas.heads),
    )


def _picture(shown: AtlasView, across: str, up: str) -> b.Chart:
    view, atlas = shown.view, shown.atlas
    low, high = atlas.ends if up == "cost" else (None, None)
    kinds = [name.kind for name in atlas.names]
    draw = partial(
        scatter,
        values(atlas, across),
        values(atlas, up),
        kinds,
        [
            f"{place(view, head)}: {name_words(view, name)}"
            for head, name in zip(atlas.heads, atlas.names, strict=True)
        ],
        x_title=axis_title(shown, across),
        y_title=axis_title(shown, up),
        low=low,
        high=high,
        kind_words=[kind_words(view, kind) for kind in kinds],
        selected=shown.head.number,
    )
    clicks = [open_head(head) for head in atlas.heads]
    return b.Chart("atlas.map", draw, view.t("atlas.map_alt"), clicks=clicks)


def _code(shown: AtlasView) -> list[object]:
    """The code that computed the atlas; also the measuring code if the page measured it."""
    if not shown.atlas.about.digest and np.isfinite(shown.atlas.cost).any():
        return [Adding.add, AttentionRows.shares, numbers_of, name_of, cost_sums, one_by_one]
    return [Adding.add, AttentionRows.shares, numbers_of, name_of, one_by_one]


def _columns(shown: AtlasView) -> dict[str, list[object]]:
    """Every number of every head, by the name of its column."""
    view, atlas = shown.view, shown.atlas
    able = [name for name in MEASURES if np.isfinite(values(atlas, name)).any()]
    axes = ("entropy", "deviation", "distance", "cost")
    numbers = {view.t(f"atlas.axes.{axis}"): values(atlas, axis) for axis in axes}
    low, high = atlas.ends
    numbers |= {view.t("atlas.column_low"): low, view.t("atlas.column_high"): high}
    numbers |= {axis_title(shown, name): values(atlas, name) for name in able}
    return {
        view.t("place.kind"): [view.t(f"kinds.{head.role}") for head in atlas.heads],
        **head_columns(view, [(head.layer, head.head) for head in atlas.heads]),
        view.t("atlas.column_kind"): [kind_words(view, name.kind) for name in atlas.names],
        view.t("atlas.column_share"): [f"{100 * name.share:.2f}" for name in atlas.names],
        **{name: [_plain(number) for number in column] for name, column in numbers.items()},
    }


def _plain(number: float) -> str:
    return "" if np.isnan(number) else f"{number:.4f}".rstrip("0").rstrip(".")


def heads_csv(shown: AtlasView) -> str:
    """All heads as a CSV that spreadsheets open."""
    columns = _columns(shown)
    return BOM + to_rows(list(columns), zip(*columns.values(), strict=True))


def sentences_csv(shown: AtlasView) -> str:
    """The sentences of every head as a CSV, with credits."""
    view, atlas = shown.view, shown.atlas
    columns = [view.t(f"place.{name}") for name in ("kind", "layer", "head")]
    columns += [view.t(f"atlas.column_{name}") for name in ("kind", "source", "target", "credit")]
    rows = [
        [
            view.t(f"kinds.{head.role}"),
            head.layer + 1,
            head.head + 1,
            kind_words(view, atlas.names[head.number].nearest),
            text.source,
            text.target,
            text.credit,
        ]
        for head in atlas.heads
        for text in (atlas.texts[number] for number in atlas.best[head.number])
    ]
    return BOM + to_rows(columns, rows)


EXHIBIT = Exhibit(atlas, show, inputs=WHICH, wait=Wait(after="atlas.measured"))
