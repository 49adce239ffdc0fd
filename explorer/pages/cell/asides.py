"""Asides to the steps: scalings, fresh models, parts of a score, layouts, dropout."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import streamlit as st

from explorer.analysis.cell import layouts as cell_layouts
from explorer.analysis.cell import origin as cell_origin
from explorer.analysis.cell.initial import fresh_scores
from explorer.analysis.cell.scaling import SCALINGS, scaled
from explorer.analysis.cell.steps import Cell, Effect
from explorer.exhibits.shared import PartChoices
from explorer.exhibits.view import View
from explorer.figures import cell as figures
from explorer.figures.paired import paired
from explorer.numbers import fixed, percent, signed
from explorer.pages.cell import backward, engines, single
from explorer.pages.cell.choices import ASIDES, CellChoices
from explorer.pages.cell.initial import initial
from explorer.pages.cell.shown import pick_dropout
from explorer.ui import controls, session
from explorer.ui.parts import pick_one
from explorer.ui.tables import table

CODE: dict[str, tuple[object, ...]] = {
    "scaling": (scaled,),
    "initial": (fresh_scores,),
    "split": (cell_origin.split,),
    "raw": (cell_origin.raw,),
    "layouts": (cell_layouts.layouts,),
    "groups": (cell_layouts.grouped,),
    "dropout": (cell_layouts.dropped,),
    "single": single.CODE,
    "engines": engines.CODE,
    "backward": backward.CODE,
}
"""The functions that compute each aside."""


def aside(view: View, cell: Cell, goal: Effect | None) -> None:
    """The menu of asides, and the chosen one."""
    st.subheader(view.t("cell.further"), anchor=False)
    st.session_state["cell.aside"] = view.choices(CellChoices).aside or None
    st.pills(
        view.t("cell.further"),
        ASIDES,
        format_func=lambda name: view.t(f"cell.asides.{name}"),
        key="cell.aside",
        label_visibility="collapsed",
        on_change=lambda: session.change(aside=st.session_state["cell.aside"] or ""),
    )
    drawn: Mapping[str, Callable[[View, Cell], None]] = {
        "scaling": _scaling,
        "initial": initial,
        "split": _split,
        "raw": _raw,
        "layouts": _layouts,
        "groups": _groups,
        "dropout": _dropout,
        "single": single.alone,
        "engines": engines.engine,
        "backward": partial(backward.backward, goal=goal),
    }
    if view.choices(CellChoices).aside:
        drawn[view.choices(CellChoices).aside](view, cell)


def code_of(view: View, cell: Cell) -> tuple[object, ...]:
    """The code of the open aside, if any."""
    aside = view.choices(CellChoices).aside
    if not aside or (aside == "split" and not cell_origin.can_split(view.trace, cell.site)):
        return ()
    return CODE[aside]


def _scaling(view: View, cell: Cell) -> None:
    st.markdown(view.t("cell.scaling_lead"))
    chosen = pick_one(
        view,
        "scaling",
        view.t("cell.asides.scaling"),
        SCALINGS,
        "cell.scaling",
        lambda name: view.t(f"cell.scalings.{name}"),
        label_visibility="collapsed",
    )
    found = {name: scaled(view.trace, cell.site, cell.head, name) for name in SCALINGS}
    limit = max(1.0, float(np.abs(found["none"].scores).max(initial=0.0)))
    left, right = st.columns(2, gap="medium")
    with left:
        figure = figures.histogram(
            found[chosen].scores, limit, dark=view.dark, words=view.words("figures.cell")
        )
        controls.chart(figure, "cell.histogram", alt=view.t("cell.asides.scaling"))
    with right:
        names = ("divided_by", "entropy", "top", "gradient")
        table(
            ["", *(view.t(f"cell.{name}") for name in names)],
            [
                [
                    _bold(view.t(f"cell.scalings.{name}"), name == chosen),
                    fixed(of.divisor),
                    fixed(of.entropy),
                    percent(of.top),
                    fixed(of.gradient, 3),
                ]
                for name, of in found.items()
            ],
        )
    mine = found[chosen].pattern[cell.query, cell.key]
    words = {"weight": percent(float(mine)), "own": percent(cell.weight)}
    controls.reading("aside", view.t("cell.scaling_reading", **words))


def _bold(words: str, bold: bool) -> str:
    return f"**{words}**" if bold else words


def _split(view: View, cell: Cell) -> None:
    if not cell_origin.can_split(view.trace, cell.site):
        st.info(view.t("cell.split_not"), icon=":material/lightbulb:")
        first = next((s for s in view.trace.sites if cell_origin.can_split(view.trace, s)), None)
        if first is not None:
            kind = first.role
            st.button(
                view.t("cell.split_go"),
                key="cell.split_go",
                on_click=lambda: session.change(site=kind, layer=0, head=0, row=None, key=None),
            )
        return
    st.markdown(view.t("cell.split_lead"))
    found = cell_origin.split(view.loaded, view.trace, cell.site, cell.head)
    parts = found.parts
    here = np.array([part[cell.query, cell.key] for part in parts.values()])
    names = [view.t(f"cell.parts.{name}") for name in parts]
    figure = figures.signed(
        names,
        here,
        title=view.t("cell.score"),
        dark=view.dark,
        words=view.words("figures.cell"),
    )
    controls.chart(figure, "cell.split", alt=view.t("cell.asides.split"))
    allowed = view.trace.mask(cell.site.name)[cell.head]
    spread = {name: float(part[allowed].std()) for name, part in parts.items()}
    most = max(spread, key=lambda name: spread[name])
    terms = " ".join(signed(float(value), 2) for value in here)
    controls.reading(
        "aside",
        view.t(
            "cell.split_reading",
            terms=terms,
            score=fixed(cell.score),
            most=view.t(f"cell.parts.{most}"),
            spread=fixed(spread[most]),
        ),
    )
    limit = max(float(np.abs(part).max()) for part in parts.values())
    for pair in (names[:2], names[2:4]):
        for title, column in zip(pair, st.columns(2, gap="large"), strict=True):
            with column:
                part = list(parts.values())[names.index(title)]
                _matrix(view, cell, part, title, f"cell.part.{names.index(title)}", limit)


def _matrix(
    view: View, cell: Cell, values: np.ndarray, title: str, key: str, limit: float | None = None
) -> None:
    st.caption(title)
    site = cell.site
    figure = figures.matrix(
        values,
        view.trace.query_tokens(site.name),
        view.trace.key_tokens(site.name),
        title=view.t("cell.score"),
        streams=(site.query_stream, site.key_stream),
        limit=limit,
        marked=(cell.query, cell.key),
        dark=view.dark,
        words=view.words("figures.cell"),
    )
    controls.chart(figure, key, alt=title)


def _raw(view: View, cell: Cell) -> None:
    st.markdown(view.t("cell.raw_lead"))
    found = cell_origin.raw(view.loaded, view.trace, cell.site, cell.head)
    left, right = st.columns(2, gap="large")
    with left:
        _matrix(view, cell, found.unprojected, view.t("cell.unprojected"), "cell.raw.x")
    with right:
        _matrix(view, cell, found.projected, view.t("cell.projected"), "cell.raw.qk")
    if found.asymmetry is None:
        controls.reading("aside", view.t("cell.raw_cross"))
    else:
        raw, projected = (fixed(each) for each in found.asymmetry)
        n = len(found.unprojected)
        own = int((found.unprojected.argmax(1) == np.arange(n)).sum())
        values = {"raw": raw, "projected": projected, "own": own, "count": n}
        controls.reading("aside", view.t("cell.raw_reading", **values))


def _layouts(view: View, cell: Cell) -> None:
    st.markdown(view.t("cell.layouts_lead"))
    found = cell_layouts.layouts(view.loaded, view.trace, cell.site)
    table(
        ["", *(view.t(f"cell.{name}") for name in ("matrices", "parameters", "difference"))],
        [
            [
                view.t(f"cell.layout.{each.name}"),
                str(each.matrices),
                f"{each.parameters:,}",
                f"{each.difference:.1e}" if each.difference else "0",
            ]
            for each in found
        ],
    )
    largest = max(each.difference for each in found)
    controls.reading("aside", view.t("cell.layouts_reading", largest=f"{largest:.1e}"))


def _groups(view: View, cell: Cell) -> None:
    st.markdown(view.t("cell.groups_lead"))
    choices = cell_layouts.possible_groups(cell.site)
    own = view.loaded.config.kv_heads
    asked = view.choices(PartChoices).kv_heads
    chosen = asked if asked in choices else own
    if len(choices) > 1:
        st.session_state["cell.kv_heads"] = chosen
        st.select_slider(
            view.t("cell.kv_heads"),
            choices,
            key="cell.kv_heads",
            width=320,
            on_change=lambda: session.change(kv_heads=st.session_state["cell.kv_heads"]),
        )
    found = cell_layouts.grouped(view.trace, cell.site, chosen)
    figure = figures.groups(found.group_of, dark=view.dark, words=view.words("figures.cell"))
    controls.chart(figure, "cell.groups", alt=view.t("cell.asides.groups"))
    most = cell_layouts.grouped(view.trace, cell.site, cell.site.n_heads).cache_bytes
    values = {
        "bytes": f"{found.cache_bytes:,}",
        "most": f"{most:,}",
        "heads": cell.site.n_heads,
        "kv": chosen,
        "own": own,
    }
    words = view.t("cell.groups_reading", **values)
    if found.moved is not None and found.tiled is not None:
        moved, tiled = percent(found.moved), percent(found.tiled)
        words += " " + view.t("cell.groups_moved", kv=chosen, moved=moved, tiled=tiled)
    controls.reading("aside", words)


def _dropout(view: View, cell: Cell) -> None:
    trained = view.loaded.config.pattern_dropout
    without = "cell.dropout_none" if view.loaded.foreign else "cell.dropout_zero"
    st.markdown(view.t("cell.dropout_lead", p=trained) if trained else view.t(without))
    share = pick_dropout(view, "cell.drop", width=320)
    found = cell_layouts.dropped(view.trace, cell.site, cell.head, cell.query, share)
    figure = paired(
        view.trace.key_tokens(cell.site.name),
        found.before,
        found.after,
        (view.t("cell.without_dropout"), view.t("cell.with_dropout")),
        title=view.t("cell.weight"),
        stream=cell.site.key_stream,
        dark=view.dark,
    )
    controls.chart(figure, "cell.dropout", alt=view.t("cell.asides.dropout"))
    controls.reading(
        "aside",
        view.t(
            "cell.dropout_reading",
            row=fixed(float(found.after.sum())),
            low=fixed(float(found.sums.min())),
            high=fixed(float(found.sums.max())),
        ),
    )
