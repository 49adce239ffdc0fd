"""Before training: the sizes of embeddings and positions, and which of them can be decoded."""

import math

import numpy as np
import streamlit as st

from explorer.analysis.positions.sizes import SEEDS, Sizes, sizes
from explorer.analysis.positions.sums import Sums
from explorer.exhibits.view import View
from explorer.figures.positions import sums as figures
from explorer.numbers import digits, fixed
from explorer.ui import controls
from explorer.ui.tables import table
from models.positions import sinusoidal_table
from models.rows import Stream


def sizes_at_the_start(view: View, summed: Sums, stream: Stream) -> None:
    """Draw the section: sizes, the readability of order and words, and the conclusion."""
    config = view.loaded.config
    found = sizes(view.trace, stream, summed)
    st.markdown(f"**{view.t('sizes.title')}**")
    st.markdown(
        view.t("sizes.lead", d=config.d_model, vocab=f"{config.vocab_size:,}", seeds=len(SEEDS))
    )
    names = [_name(view, each) for each in found]
    figure = figures.sizes(
        names,
        np.array([each.token for each in found]),
        np.array([each.position for each in found]),
        (view.t("sums.word"), view.t("sums.position")),
        title=view.t("sizes.rms"),
        dark=view.dark,
    )
    controls.chart(figure, "sizes", alt=view.t("sizes.title"))
    way, token, position, same_word, same_place = (
        view.t(key)
        for key in (
            *("sizes.way", "sizes.token", "sizes.position"),
            *("sizes.same_word", "sizes.same_place"),
        )
    )
    rows = [
        (
            f"**{name}**" if each.drawn is None else name,
            _cosine(each.same_word),
            _cosine(each.same_place),
            view.t(f"sizes.verdicts.{each.verdict}") if each.verdict else "–",
        )
        for name, each in zip(names, found, strict=True)
    ]
    heads = (way, same_word, same_place, view.t("sizes.follows"))
    table(heads, rows, "lrrl")
    own, *fresh = found
    counts = {
        verdict: sum(each.verdict == verdict for each in fresh)
        for verdict in ("drown", "dominate", "both")
    }
    if own.verdict:
        controls.reading("sizes", view.t("sizes.reading", n=len(fresh), **counts))
    else:
        st.caption(view.t("sizes.verdict_few"))
    controls.small_print(
        view,
        "sizes",
        explained="sizes.formula",
        formula=(
            r"\sqrt{\tfrac{1}{d}\textstyle\sum_i P[p]_i^2} = \tfrac{1}{\sqrt{2}}, \qquad "
            r"\sqrt{\tfrac{1}{d}\textstyle\sum_i (s\,E[w]_i)^2} \approx s\,\sigma, \qquad "
            r"s = 1 \;\text{or}\; \sqrt{d}",
            r"\sigma = 0.02, \qquad \sigma = \tfrac{1}{\sqrt{d}}, \qquad "
            r"\sigma = \sqrt{\tfrac{2}{V + d}}, \qquad \sigma = 1",
        ),
        code=(sizes, sinusoidal_table),
        numbers=lambda: {
            way: names,
            token: [digits(each.token) for each in found],
            position: [digits(each.position) for each in found],
            same_word: [_cosine(each.same_word) for each in found],
            same_place: [_cosine(each.same_place) for each in found],
        },
    )


def _name(view: View, each: Sizes) -> str:
    if each.drawn is None:
        return view.t("sizes.own")
    times = " × √d" if each.scaled else ""
    return view.t(f"sizes.drawn.{each.drawn}") + times


def _cosine(value: float) -> str:
    return "–" if math.isnan(value) else fixed(value, 3)
