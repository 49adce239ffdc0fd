"""Shown instead of alignment for models without cross-attention: attention between words."""

import numpy as np
import streamlit as st

from explorer.analysis.alignment.links import strongest
from explorer.analysis.heads.words import by_word, words_of
from explorer.exhibits.view import View
from explorer.figures.alignment.links import lines
from explorer.numbers import whole_percent
from explorer.pages.alignment.words import MOST_LINES
from explorer.ui import controls
from explorer.ui.stage import hero


def without_cross(view: View) -> None:
    """For each word of the text, the other word with the highest weight in the open head."""
    controls.sentence_line(view)
    st.info(view.t("alignment.no_cross"), icon=":material/info:")
    traced, site = view.before(), view.site
    tokens = traced.query_tokens(site.name)
    words = words_of(tokens)
    weights = by_word(traced.pattern(site.name)[view.head], words, words).astype(np.float64)
    special = np.array([getattr(each, "special", False) for each in words.labels])
    weights[:, special] = 0
    weights[special] = 0
    np.fill_diagonal(weights, 0)
    links = strongest(weights)
    if len(words.labels) <= MOST_LINES:
        with hero():
            _reading(view, words.labels, weights, links)
            figure = lines(
                words.labels,
                words.labels,
                links,
                np.where(links, "both", ""),
                weights,
                titles=(view.t("alignment.read_word"), view.t("alignment.reading_word")),
                dark=view.dark,
                words={**view.words("figures.alignment"), "both": view.t("alignment.strongest")},
            )
            controls.chart(figure, "alignment.lines", alt=view.t("alignment.self_alt"))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        controls.pick_place(view, "alignment", kind=len(view.kinds) > 1)
    controls.small_print(
        view,
        "alignment",
        formula=(r"s(t) = \arg\max_{s \ne t} A_{ts}",),
        code=(by_word, strongest),
        numbers=lambda: {
            view.t("alignment.reading_word"): list(words.labels),
            view.t("alignment.read_word"): [
                words.labels[int(row.argmax())] if row.any() else "–" for row in links
            ],
            view.t("alignment.forward"): [f"{row.max():.3f}" for row in weights],
        },
        explained="alignment.self_formula",
    )


def _reading(view: View, labels: tuple[str, ...], weights: np.ndarray, links: np.ndarray) -> None:
    if not links.any():
        controls.reading("alignment", view.t("alignment.self_nothing"))
        return
    query, key = np.unravel_index(weights.argmax(), weights.shape)
    controls.reading(
        "alignment",
        view.t(
            "alignment.self_reading",
            layer=view.layer + 1,
            head=view.head + 1,
            query=controls.quoted_at(view, labels, int(query)),
            key=controls.quoted_at(view, labels, int(key)),
            weight=whole_percent(float(weights.max())),
        ),
    )
