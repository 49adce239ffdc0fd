"""The sentences that best show what the open head does, and its pattern in one of them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from explorer.analysis.atlas.store import Head, Text
from explorer.analysis.roles import MEASURES, Measure
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.engine.models import alone, atlas
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.atlas.opened import WHICH, kind_words, opened, place, shown_atlas
from explorer.exhibits.block import escape
from explorer.exhibits.saying import site_axes
from explorer.exhibits.view import build
from explorer.figures.matrix import weights
from explorer.numbers import percent
from models.hooks import Role

LIST = 140
"""Height of the list of sentences in pixels; it scrolls."""
LISTED = 160
"""Most characters of a text in the list."""


@dataclass(frozen=True, eq=False)
class Best:
    """The sentences that best show what a head does, by `measure`, with its share in each; the
    index `at` of the open one."""

    measure: Measure
    texts: tuple[Text, ...]
    shares: Float[np.ndarray, " text"]
    at: int


def compute(model: str, stamp: int, kind: Role, layer: int, head: int, sentence: int) -> Best:
    """Also runs the open sentence. Raises InputProblem as `atlas`; a sentence may be too long."""
    whole = atlas(model, stamp)
    number = opened(whole, kind, layer, head).number
    measure = whole.names[number].nearest
    texts = tuple(whole.texts[at] for at in whole.best[number])
    shares = alone(model, stamp, texts).weight[:, number, MEASURES.index(measure)]
    at = sentence - 1 if sentence <= len(texts) else 0
    if texts:
        cache.trace(Run(model, texts[at].source, texts[at].target or None))
    return Best(measure, texts, shares, at)


def show(best: Best | None, view: View) -> b.Blocks:
    """The list, the open sentence, the head's pattern in it, and its source."""
    if best is None:
        return
    yield b.Title(view.t("atlas.sentences"), large=True)
    if not best.texts:
        yield b.Note(view.t("atlas.sentences_none"))
        return
    how = best.measure if best.measure in ("spread", "alignment") else "weight"
    yield b.Note(view.t("atlas.ranked", how, kind=kind_words(view, best.measure)))
    listed = b.Pick(
        "atlas.sentence",
        view.t("atlas.sentences"),
        {at: _listed(text, float(best.shares[at])) for at, text in enumerate(best.texts)},
        best.at,
        lambda at: b.choose(sentence=at + 1),
        "list",
        b.Display(quiet=True),
    )
    yield b.Pane((listed,), height=LIST)
    yield from _pattern(view, best.texts[best.at])


def _listed(text: Text, share: float) -> str:
    """A sentence in the list: its share, its text, its translation."""
    number = f"{percent(share)} · " if np.isfinite(share) else ""
    target = f" ⟶ {escape(beginning(text.target))}" if text.target else ""
    return f"{number}{escape(beginning(text.source))}{target}"


def beginning(text: str) -> str:
    """A text shortened for the list; the open one is shown in full."""
    return text if len(text) <= LISTED else f"{text[:LISTED].rstrip()} …"


def _pattern(view: View, text: Text) -> b.Blocks:
    """The open sentence with the head's pattern in it, a button that opens it on Heads, and its
    authors."""
    shown = shown_atlas(view)
    there = _open(text, shown.head)
    of = build(replace(view.state, model=view.loaded.name, **there), view.dark)
    pattern, mask = of.trace.pattern(of.site.name)[of.head], of.trace.mask(of.site.name)[of.head]
    drawn = weights(pattern, mask, site_axes(of), words=view.words("figures.heatmap"))
    yield b.SentenceLine("sentence-atlas", of, here=True)
    yield b.Matrices("atlas.pattern", ((place(view, shown.head), drawn),))
    change = b.choose(visit="heads", elsewhere=True, **there)
    button = b.Button("atlas.open_sentence", view.t("atlas.open_sentence"), change, "open_in_full")
    authors = " · ".join(filter(None, (text.credit, shown.atlas.about.credit)))
    yield b.Row((button, *([b.Note(escape(authors))] if authors else [])), align="center")


def _open(text: Text, head: Head) -> dict[str, Any]:
    """The choices that open a corpus sentence, as it is, at `head`."""
    return {
        "text": text.source,
        "target": text.target or None,
        "site": head.role,
        "layer": head.layer,
        "head": head.head,
        "row": None,
        "edits": (),
        "pads": None,
    }


EXHIBIT = Exhibit(compute, show, inputs=WHICH, wait=Wait(after="atlas.map"))
