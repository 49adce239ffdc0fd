"""Shown instead of alignment for models without cross-attention: attention between words."""

from functools import partial

import numpy as np

from explorer.analysis.alignment.links import strongest
from explorer.analysis.heads.words import by_word, words_of
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.alignment.words import MOST_LINES
from explorer.exhibits.picking import pick_place
from explorer.exhibits.saying import quoted_at
from explorer.figures.alignment import lines
from explorer.numbers import whole_percent


def show(answer: None, view: View) -> b.Blocks:
    """For each word of the text, the other word with the highest weight in the open head."""
    if view.sites_of("cross"):
        return
    yield b.SentenceLine()
    yield b.Hint(view.t("alignment.no_cross"), "info")
    traced, site = view.before(), view.site
    tokens = traced.query_tokens(site.name)
    words = words_of(tokens)
    weights = by_word(traced.pattern(site.name)[view.head], words, words).astype(np.float64)
    special = np.array([getattr(label, "special", False) for label in words.labels])
    weights[:, special] = 0
    weights[special] = 0
    np.fill_diagonal(weights, 0)
    links = strongest(weights)
    if len(words.labels) <= MOST_LINES:
        draw = partial(
            lines,
            words.labels,
            words.labels,
            links,
            np.where(links, "both", ""),
            weights,
            titles=(view.t("alignment.read_word"), view.t("alignment.reading_word")),
            words={**view.words("figures.alignment"), "both": view.t("alignment.strongest")},
        )
        reading = b.Sentence("alignment", _reading(view, words.labels, weights, links))
        yield b.Hero((reading, b.Chart("alignment.lines", draw, view.t("alignment.self_alt"))))
    yield b.Row(pick_place(view, "alignment", kind=len(view.kinds) > 1))
    yield b.Formula((r"s(t) = \arg\max_{s \ne t} A_{ts}",), view.t("alignment.self_formula"))
    yield b.Code((by_word, strongest))
    yield b.Numbers(
        lambda: {
            view.t("alignment.reading_word"): list(words.labels),
            view.t("alignment.read_word"): [
                words.labels[int(row.argmax())] if row.any() else "–" for row in links
            ],
            view.t("alignment.forward"): [f"{row.max():.3f}" for row in weights],
        }
    )


def _reading(view: View, labels: tuple[str, ...], weights: np.ndarray, links: np.ndarray) -> str:
    if not links.any():
        return view.t("alignment.self_nothing")
    query, key = np.unravel_index(weights.argmax(), weights.shape)
    return view.t(
        "alignment.self_reading",
        layer=view.layer + 1,
        head=view.head + 1,
        query=quoted_at(view, labels, int(query)),
        key=quoted_at(view, labels, int(key)),
        weight=whole_percent(float(weights.max())),
    )


EXHIBIT = Exhibit(None, show)
