"""Which heads read the output of earlier ones: composition scores compared with random matrices."""

import numpy as np
import streamlit as st

from explorer.analysis.circuits.chance import COPIES, RATE, by_chance, shuffle
from explorer.analysis.circuits.composition import (
    MOST_HEADS,
    WAYS,
    Composition,
    Way,
    composed,
    composition,
    random_scores,
)
from explorer.analysis.circuits.weights import head_weights
from explorer.engine import jobs
from explorer.exhibits.view import View
from explorer.figures.circuits.composed import composed as composed_figure
from explorer.numbers import fixed, percent
from explorer.pages.circuits import cached
from explorer.pages.circuits.choices import CircuitsChoices
from explorer.pages.circuits.roles import place
from explorer.ui import controls, running
from explorer.ui.parts import pick_one
from explorer.ui.stage import hero
from explorer.ui.tables import table

JOB = "circuits.composition"
FIRST = 8


def reading_each_other(view: View) -> None:
    """Draw this part of the page."""
    model = view.loaded.name
    done = running.awaited(
        JOB,
        model,
        lambda tell: (cached.composition(model, progress=jobs.whole(tell)), True),
        view.t("circuits.composition_working"),
        view.lang,
    )
    if done is None:
        return
    found = done[0]
    if found is None:
        st.info(view.t("circuits.too_many_heads", limit=MOST_HEADS), icon=":material/info:")
        return
    way = view.choices(CircuitsChoices).composed
    strongest = found.strongest(way)
    if strongest is None:
        st.info(view.t("circuits.one_layer"), icon=":material/info:")
        return
    with hero():
        controls.reading("composition", _reading(view, found, way, strongest))
    pick_one(
        view,
        "composed",
        view.t("circuits.way"),
        WAYS,
        "circuits.way",
        lambda each: view.t(f"circuits.ways.{each}"),
    )
    st.caption(view.t(f"circuits.way_{way}"))
    with hero():
        figure = composed_figure(
            found.scores[way],
            found.heads,
            baseline=found.baseline,
            dark=view.dark,
            words=view.words("figures.composed"),
        )
        controls.chart(figure, "circuits.composed", alt=view.t("circuits.composed_alt"))
    _first(view, found, way)
    tested = [] if found.chance is None else [by_chance, shuffle]
    if view.loaded.config.norm_placement != "pre":
        st.caption(view.t("circuits.norms_behind"))
    controls.small_print(
        view,
        "circuits",
        formula=(
            r"K: \frac{\|W_{QK}\,W_{OV}'\|}{\|W_{QK}\|\,\|W_{OV}'\|}, \qquad "
            r"Q: \frac{\|W_{QK}^\top W_{OV}'\|}{\|W_{QK}\|\,\|W_{OV}'\|}, \qquad "
            r"V: \frac{\|W_{OV}\,W_{OV}'\|}{\|W_{OV}\|\,\|W_{OV}'\|}",
        ),
        code=(composition, composed, head_weights, random_scores, *tested),
        numbers=lambda: _numbers(view, found),
        explained="circuits.composition_formula",
    )


def _reading(
    view: View,
    found: Composition,
    way: Way,
    strongest: tuple[tuple[int, int], tuple[int, int]],
) -> str:
    score = float(np.nanmax(found.scores[way]))
    state = {True: "above", False: "even", None: "untested"}[found.stands_out(way)]
    return view.t(
        f"circuits.composed_{state}",
        way=view.t(f"circuits.ways.{way}"),
        later=place(view, strongest[0]),
        earlier=place(view, strongest[1]),
        score=fixed(score, 3),
        random=fixed(found.baseline, 3),
        spread=fixed(found.spread, 3),
        chance="" if found.chance is None else fixed(found.chance.most(way), 3),
        copies=COPIES,
        rate=percent(RATE),
    )


def _ranked(found: Composition, way: Way) -> list[tuple[int, int]]:
    """Pairs (later, earlier) of head indices, the highest score first."""
    scores = found.scores[way]
    order = np.argsort(-np.nan_to_num(scores, nan=-1), axis=None, kind="stable")
    pairs = [divmod(int(at), len(scores)) for at in order[: int(np.isfinite(scores).sum())]]
    return pairs


def _first(view: View, found: Composition, way: Way) -> None:
    rows = [
        [place(view, found.heads[later]), place(view, found.heads[earlier]), fixed(score, 3)]
        for later, earlier in _ranked(found, way)[:FIRST]
        for score in [float(found.scores[way][later, earlier])]
    ]
    head = [view.t(f"circuits.{name}") for name in ("later", "earlier", "composed_score")]
    table(head, rows, "llr")


def _numbers(view: View, found: Composition) -> dict[str, list[object]]:
    ranked = _ranked(found, "k")[:200]
    columns: dict[str, list[object]] = {
        view.t("circuits.later"): [place(view, found.heads[later]) for later, _ in ranked],
        view.t("circuits.earlier"): [place(view, found.heads[earlier]) for _, earlier in ranked],
    }
    for way in WAYS:
        columns[view.t(f"circuits.ways.{way}")] = [f"{found.scores[way][at]:.4f}" for at in ranked]
    return columns
