"""The map of all heads by two measures, coloured by their typical behaviour."""

from collections import Counter
from functools import partial

import numpy as np

from explorer.analysis.atlas.ablation import cost_sums
from explorer.analysis.atlas.make import one_by_one, stamp_of
from explorer.analysis.atlas.measures import Adding
from explorer.analysis.atlas.store import Atlas, name_of, numbers_of
from explorer.analysis.roles import MEASURES, AttentionRows
from explorer.engine.models import atlas, atlas_file
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.atlas.choices import AtlasChoices
from explorer.exhibits.atlas.opened import (
    WHICH,
    AtlasView,
    kind_words,
    name_words,
    open_head,
    place,
    values,
)
from explorer.exhibits.picking import pick_one, pick_place
from explorer.exhibits.saying import head_columns, in_a_row, message
from explorer.figures.atlas import scatter

FORMULA = (
    r"s_m = \frac{\left|\{\,i : \arg\max_j A_{ij} \in K_m(i)\,\}\right|}"
    r"{\left|\{\,i : K_m(i) \ne \varnothing\,\}\right|}, \qquad "
    r"H = \overline{-\sum_j A_{ij} \log_2 A_{ij}}",
    r"c = \overline{\log p(t_n \mid t_{<n}) - \log p_{z_h = 0}(t_n \mid t_{<n})} "
    r"\pm t_{n-1,\, 0.05 / h}\, \frac{\sigma}{\sqrt{n}}",
)


def show(atlas: Atlas, view: View) -> b.Blocks:
    """Where the atlas is from, the map, its axes, and the table of all heads."""
    shown = AtlasView(view, atlas)
    yield from _about_file(view)
    if not atlas.about.digest:
        yield b.Hint(_measured_here(shown))
    across, up = _axes(shown)
    yield b.Hero((b.Sentence("atlas", _reading(shown)), _picture(shown, across, up)))
    picks = [_pick_axis(shown, "atlas.across", across), _pick_axis(shown, "atlas.up", up)]
    yield b.Row((*picks, *pick_place(view, "atlas")))
    yield b.Formula(FORMULA, f"{_about(shown)}\n\n{view.t('atlas.formula')}")
    yield b.Code(_code(shown))
    yield b.Numbers(lambda: _columns(shown))


def _about_file(view: View) -> b.Blocks:
    """The problem with the atlas file of the open model, if there is one."""
    file = atlas_file(view.loaded.name, stamp_of(view.loaded))
    if file.problem is not None:
        yield b.Hint(message(file.problem, view.lang), "info", warns=True)
    if file.stale:
        yield b.Hint(view.t("atlas.stale", path=str(file.path)), "history", warns=True)


def _measured_here(shown: AtlasView) -> str:
    """What an atlas without a file was measured over."""
    view, counts = shown.view, shown.atlas.counts
    sentences = [view.t("atlas.no_file", model=view.loaded.name, count=counts["sentences"])]
    if left := counts["too_long"] + counts["unreadable"]:
        sentences.append(view.t("atlas.here_left", count=left))
    return in_a_row(sentences)


def _about(shown: AtlasView) -> str:
    """The data of the atlas, in one line."""
    view, about, counts = shown.view, shown.atlas.about, shown.atlas.counts
    sentences = []
    if about.digest:
        corpus = {"corpus": about.corpus, "digest": about.digest[:12]}
        count = counts["sentences"]
        sentences.append(view.t("atlas.about", count=count, sentences=f"{count:,}", **corpus))
        if left := counts["too_long"] + counts["unreadable"]:
            sentences.append(view.t("atlas.about_left", count=left))
    return in_a_row([*sentences, view.t("atlas.about_rows")])


def _axes(shown: AtlasView) -> tuple[str, str]:
    """The two axes of the map: the chosen ones, else sharpness and ablation cost."""
    chosen, offered = shown.view.choices(AtlasChoices), shown.axes
    across = chosen.across if chosen.across in offered else "entropy"
    usual = "cost" if "cost" in offered else "first"
    return across, chosen.up if chosen.up in offered else usual


def _axis_title(shown: AtlasView, axis: str) -> str:
    """A measure, with its unit."""
    view = shown.view
    if axis in MEASURES:
        return view.t("atlas.axis_share", kind=kind_words(view, axis))
    return view.t("atlas.axes", axis)


def _pick_axis(shown: AtlasView, key: str, now: str) -> b.Pick:
    """The choice of an axis."""
    more = b.More(said=partial(_axis_title, shown), form="menu", width=260)
    return pick_one(shown.view, key, shown.axes, now, **more)


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
        x_title=_axis_title(shown, across),
        y_title=_axis_title(shown, up),
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
    numbers = {view.t("atlas.axes", axis): values(atlas, axis) for axis in axes}
    low, high = atlas.ends
    numbers |= {view.t("atlas.columns.low"): low, view.t("atlas.columns.high"): high}
    numbers |= {_axis_title(shown, name): values(atlas, name) for name in able}
    return {
        view.t("place.kind"): [view.t("kinds", head.role) for head in atlas.heads],
        **head_columns(view, [(head.layer, head.head) for head in atlas.heads]),
        view.t("atlas.columns.kind"): [kind_words(view, name.kind) for name in atlas.names],
        view.t("atlas.columns.share"): [f"{100 * name.share:.2f}" for name in atlas.names],
        **{name: [_plain(number) for number in column] for name, column in numbers.items()},
    }


def _plain(number: float) -> str:
    return "" if np.isnan(number) else f"{number:.4f}".rstrip("0").rstrip(".")


EXHIBIT = Exhibit(atlas, show, inputs=WHICH, wait=Wait("atlas.measuring", blocks=_about_file))
