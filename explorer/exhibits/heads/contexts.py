"""Words shared by two sentences: how each context changes their vectors, layer by layer."""

from functools import partial

import numpy as np

from explorer.analysis.heads.contexts import shared_words
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.heads.sides import sides_of
from explorer.exhibits.picking import pick_stream
from explorer.exhibits.saying import quoted
from explorer.figures.curves import lines
from explorer.figures.frame import Figure
from explorer.numbers import fixed
from models.positions import POSITIONS


def show(answer: None, view: View) -> b.Blocks:
    """The cosine of each shared word's two vectors, from the embedding to the last layer."""
    other, title = sides_of(view).second, view.t("contexts.title")
    assert other is not None
    yield b.Title(title, large=True)
    yield from pick_stream(view, "heads.contexts.stream")
    found = shared_words(view.trace, other.trace, view.sequence)
    yield b.Code((shared_words,))
    if not found:
        yield b.Note(view.t("contexts.none"))
        return
    farthest = min(found, key=lambda word: word.cosines[-1])
    cosines = np.stack([word.cosines for word in found])
    names = [f"{word.token} ({word.places[0]}, {word.places[1]})" for word in found]
    titles = view.axes("contexts.layer", "contexts.cosine")
    draw = partial(_curves, np.arange(cosines.shape[1]), cosines, names, **titles)
    reading = view.t(
        "contexts.reading",
        token=quoted(view, farthest.token),
        cosine=fixed(farthest.cosines[-1]),
        layers=cosines.shape[1] - 1,
    )
    acts = view.t(f"contexts.{POSITIONS[view.loaded.config.positions].acts}")
    told = b.Prose(view.t("contexts.lead")), b.Prose(acts), b.Sentence("contexts", reading)
    yield b.Columns(((b.Chart("heads.contexts", draw, title),), told), (3, 2))


def _curves(*curves: object, **titles: object) -> Figure:
    """Curves over layers, which are integers."""
    figure = lines(*curves, **titles)  # type: ignore[arg-type]
    figure["layout"]["xaxis"]["dtick"] = 1
    return figure


EXHIBIT = Exhibit(None, show, open=lambda view: sides_of(view).second is not None)
