"""The open head's QK and OV circuits over the vocabulary: the largest cells."""

from functools import partial

import numpy as np
import streamlit as st

from explorer.analysis.circuits.rows import ordinary, own_sites
from explorer.analysis.circuits.vocabulary import MAPS, VocabularyMap, vocabulary_map
from explorer.engine import jobs
from explorer.exhibits.saying import in_a_row
from explorer.exhibits.view import View
from explorer.figures.measured import measured
from explorer.numbers import fixed, percent, percents
from explorer.pages.circuits import cached
from explorer.pages.circuits.choices import CircuitsChoices
from explorer.pages.circuits.roles import found_of, open_head, place
from explorer.ui import controls, running, session
from explorer.ui.parts import pick_one
from explorer.ui.stage import hero

JOB = "circuits.vocabulary"
DRAWN = 20


def over_the_vocabulary(view: View) -> None:
    """Draw this part of the page."""
    made = found_of(view, tested=False)
    if made is None:
        return
    looked, _ = made
    kinds = MAPS if view.loaded.config.lm_head else ("qk",)
    asked = view.choices(CircuitsChoices).head_map
    kind = asked if asked in kinds else kinds[0]
    layer, head = open_head(view, looked, "induction")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        pick_one(
            view,
            "head_map",
            view.t("circuits.head_map"),
            kinds,
            "circuits.head_map",
            lambda each: view.t(f"circuits.maps.{each}"),
        )
        pick_own_head(view, (layer, head))
    model = view.loaded.name
    found = running.awaited(
        JOB,
        (model, layer, head, kind),
        lambda tell: cached.vocabulary(model, layer, head, kind, progress=jobs.whole(tell)),
        view.t("circuits.map_working"),
        view.lang,
    )
    if found is None:
        return
    with hero():
        controls.reading("vocabulary", _reading(view, found, (layer, head)))
        _bars(view, found)
    st.caption(view.t(f"circuits.{kind}_note", tokens=f"{found.n_tokens:,}"))
    if found.left_out:
        st.caption(view.t("circuits.left_out", count=found.left_out))
    controls.small_print(
        view,
        "circuits",
        formula=(
            r"\mathrm{QK} = E\,W_Q\,W_K^\top E^\top / \sqrt{d_\mathrm{head}}"
            if kind == "qk"
            else r"\mathrm{OV} = E\,W_V\,W_O\,U^\top",
        ),
        code=(vocabulary_map, ordinary),
        numbers=lambda: _numbers(view, found),
        explained="circuits.map_formula",
    )


def pick_own_head(view: View, at: tuple[int, int]) -> None:
    """Controls for a head of self-attention."""
    sites = own_sites(view.loaded)
    places = [(site.layer, head) for site in sites for head in range(site.n_heads)]
    with st.container(width=200):
        controls.pick(
            view.t("place.head"),
            places,
            at,
            "circuits.head",
            partial(_open, view),
            format_func=partial(place, view),
        )


def _open(view: View, at: tuple[int, int]) -> None:
    session.change_site(site=view.own_role, layer=at[0], head=at[1])


def _labels(view: View, found: VocabularyMap, count: int) -> list[tuple[str, str]]:
    shown = view.loaded.str_tokens
    return [(shown([row])[0], shown([column])[0]) for row, column, _ in found.pairs[:count]]


def _reading(view: View, found: VocabularyMap, at: tuple[int, int]) -> str:
    row, column = _labels(view, found, 1)[0]
    said = [
        view.t(
            f"circuits.{found.kind}_reading",
            place=place(view, at),
            row=controls.quoted(view, row),
            column=controls.quoted(view, column),
            value=fixed(found.pairs[0][2], 1),
            own=percent(found.own),
            guess=str(percents(np.array([found.guess]))[0]),
        )
    ]
    if not np.isnan(found.copying):
        said.append(view.t("circuits.copying", value=fixed(found.copying)))
    return in_a_row(said)


def _bars(view: View, found: VocabularyMap) -> None:
    labels = _labels(view, found, DRAWN)
    figure = measured(
        [f"{row} → {column}" for row, column in labels],
        np.array([value for *_, value in found.pairs[:DRAWN]]),
        title=view.t(f"circuits.{found.kind}_value"),
        dark=view.dark,
    )
    controls.chart(figure, "circuits.pairs", alt=view.t("circuits.pairs_alt"))


def _numbers(view: View, found: VocabularyMap) -> dict[str, list[object]]:
    labels = _labels(view, found, len(found.pairs))
    return {
        view.t(f"circuits.{found.kind}_row"): [row for row, _ in labels],
        view.t(f"circuits.{found.kind}_column"): [column for _, column in labels],
        view.t(f"circuits.{found.kind}_value"): [f"{value:.2f}" for *_, value in found.pairs],
    }
