"""One mask in the renderings of tutorials and torch, and each given to each other's code."""

import numpy as np
import streamlit as st

from explorer.analysis.masks import conventions as analysis
from explorer.analysis.masks.conventions import (
    READ_BY,
    READERS,
    RENDERINGS,
    WRITTEN,
    Conventions,
    Handed,
    Outcome,
)
from explorer.exhibits.escape import escape
from explorer.exhibits.view import View
from explorer.figures.clinic import suspect
from explorer.figures.outcomes import Level, outcomes, written_mask
from explorer.numbers import percent
from explorer.pages.masks.choices import MasksChoices
from explorer.ui import controls
from explorer.ui.parts import pick_one

LEVEL_OF: dict[Outcome, Level] = {
    "right": "good",
    "inverted": "silent",
    "unmasked": "silent",
    "wrong": "silent",
    "nan": "loud",
    "refused": "loud",
}


def conventions(view: View) -> None:
    """The renderings of this head's mask, the grid of pairs, and the chosen pair in full."""
    st.markdown(view.t("masks.conventions_lead"))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        controls.pick_place(view, "masks")
    found = analysis.conventions(view.trace, view.site, view.head)
    _renderings(view, found)
    _grid(view, found)
    chosen = _pick(view, found)
    _pair(view, found, chosen)
    _small_print(view, found)


def _renderings(view: View, found: Conventions) -> None:
    """The same mask five times."""
    with st.container(horizontal=True, gap="small"):
        for name in RENDERINGS:
            with st.container(width=170):
                st.markdown(f"**{view.t(f'masks.rendering_{name}')}**")
                figure = written_mask(found.keep, _said(found.renderings[name]), dark=view.dark)
                alt = view.t(f"masks.rendering_{name}")
                controls.chart(figure, f"masks.rendering.{name}", alt=alt)
                st.caption(view.t(f"masks.rendering_{name}_by"))
    words = {"alike": f"{found.alike:,}", "cells": f"{found.cells:,}", "count": len(RENDERINGS)}
    said = view.t("masks.conventions_alike", **words)
    if not found.readers_of_all:
        said += " " + view.t("masks.conventions_none")
    controls.reading("renderings", said)
    if found.keep.all():
        st.info(view.t("masks.conventions_open"), icon=":material/lightbulb:")


def _said(mask: np.ndarray) -> np.ndarray:
    """The values of a mask as they are printed: T and F, 0 and 1, −∞, −1e9."""
    if mask.dtype == np.bool_:
        return np.where(mask, "T", "F")
    names = {1.0: "1", 0.0: "0", -np.inf: "−∞", -1e9: "−1e9"}
    return np.vectorize(lambda value: names[float(np.float64(value))], otypes=[str])(mask)


def _grid(view: View, found: Conventions) -> None:
    choices = view.choices(MasksChoices)
    figure = outcomes(
        [[LEVEL_OF[found.of(one, other).outcome] for other in READERS] for one in RENDERINGS],
        [[_short(view, found.of(one, other)) for other in READERS] for one in RENDERINGS],
        [view.t(f"masks.rendering_{name}") for name in RENDERINGS],
        [view.t(f"masks.reader_{name}") for name in READERS],
        selected=(RENDERINGS.index(choices.rendering), READERS.index(choices.reader)),
        dark=view.dark,
    )
    st.markdown(f"**{view.t('masks.conventions_grid')}**")
    controls.chart(figure, "masks.conventions", alt=view.t("masks.conventions_grid"))
    counts = {
        "count": len(found.handed),
        "right": found.count("right"),
        "silent": found.count("inverted", "unmasked", "wrong"),
        "loud": found.count("nan", "refused"),
    }
    controls.reading("conventions", view.t("masks.conventions_reading", **counts))


def _short(view: View, handed: Handed) -> str:
    word = view.t(f"masks.outcome_{handed.outcome}")
    return f"{word}\n{percent(handed.hidden)}" if handed.hidden > 0.0005 else word


def _pick(view: View, found: Conventions) -> Handed:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        one = pick_one(
            view,
            "rendering",
            view.t("masks.rendering"),
            RENDERINGS,
            "masks.rendering",
            lambda name: view.t(f"masks.rendering_{name}"),
        )
        other = pick_one(
            view,
            "reader",
            view.t("masks.reader"),
            READERS,
            "masks.reader",
            lambda name: view.t(f"masks.reader_{name}"),
        )
    return found.of(one, other)


def _pair(view: View, found: Conventions, handed: Handed) -> None:
    """What comes out beside what should, or the message of the refusal."""
    words = {
        "rendering": view.t(f"masks.rendering_{handed.rendering}"),
        "reader": view.t(f"masks.reader_{handed.reader}"),
    }
    said = view.t(f"masks.handed_{handed.outcome}", hidden=_share(handed), **words)
    if handed.nan_rows:
        said += " " + view.t("masks.handed_rows", count=handed.nan_rows)
    if handed.pattern is None:
        controls.reading("handed", said)
        st.code(handed.refused, language=None, wrap_lines=True)
        return
    controls.reading("handed", said)
    shown = (("right", found.right), ("got", handed.pattern))
    for (name, pattern), column in zip(shown, st.columns(2, gap="large"), strict=True):
        with column:
            title = view.t(f"masks.handed_{name}_title")
            st.caption(title)
            figure = suspect(
                pattern,
                ~found.keep,
                view.trace.query_tokens(view.site.name),
                view.trace.key_tokens(view.site.name),
                hidden_word=view.t("clinic.hidden"),
                dark=view.dark,
                words=view.words("figures.heatmap"),
                **controls.place_titles(view),
            )
            controls.chart(figure, f"masks.handed.{name}", alt=title)


def _share(handed: Handed) -> str:
    return "–" if np.isnan(handed.hidden) else percent(handed.hidden)


def _small_print(view: View, found: Conventions) -> None:
    choices = view.choices(MasksChoices)
    controls.small_print(
        view,
        "masks",
        formula=(
            r"m^{01}_{ij} = [\,j\le i\,],\qquad m^{+}_{ij} = "
            r"\begin{cases} 0 & j\le i \\ -\infty & j > i \end{cases},\qquad "
            r"m^{\neg}_{ij} = [\,j > i\,]",
            r"e^{s + m^{+}} = m^{01}\,e^{s} = (1 - m^{\neg})\,e^{s}",
        ),
        code=(
            *([WRITTEN[choices.rendering].causal] if found.causal else []),
            *(READ_BY[choices.reader], analysis.conventions),
        ),
        explained="masks.conventions_formula",
        numbers=lambda: _numbers(view, found),
    )


def _numbers(view: View, found: Conventions) -> dict[str, list[object]]:
    each = found.handed
    return {
        view.t("masks.rendering"): [view.t(f"masks.rendering_{one.rendering}") for one in each],
        view.t("masks.reader"): [view.t(f"masks.reader_{one.reader}") for one in each],
        view.t("masks.outcome"): [view.t(f"masks.outcome_{one.outcome}") for one in each],
        view.t("masks.hidden_weight"): [_share(one) for one in each],
        view.t("masks.nan_rows"): [one.nan_rows for one in each],
        view.t("masks.refusal"): [escape(one.refused) for one in each],
    }
