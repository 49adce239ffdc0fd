"""Pictures of the steps: from exhibits, or drawn with the data of a step."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from explorer.components.token_strip import pack_token_strip
from explorer.engine.cache import Run
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.choices import PartChoices
from explorer.exhibits.exhibit import choices_of, exhibit_of
from explorer.exhibits.links import Links, State
from explorer.exhibits.masks.causal import weights_of
from explorer.exhibits.reasons import blocker_codes
from explorer.exhibits.saying import axis_title
from explorer.exhibits.tour.rows import QueryRow, tokens_of
from explorer.exhibits.view import build
from explorer.figures.bars import grouped, row as bars
from explorer.figures.matrix import Matrix
from models.rows import Stream


@dataclass(frozen=True, eq=False)
class Exhibited:
    """The picture `block` of the exhibit at an address with these choices; of matrices only
    `panel`, if it is given. Clicks in it do nothing. `found` is the answer, once it was `asked`."""

    address: str
    block: str
    place: Mapping[str, Any]
    panel: int | None = None
    found: Any = None

    def _there(self, view: View) -> tuple[Exhibit[Any], View]:
        own, exhibit = choices_of(self.address.partition(".")[0]), exhibit_of(self.address)
        state = Links(PartChoices, own).change(choices_for(view.run, view.lang), **self.place)
        return exhibit, build(state, view.dark)

    def answer(self, view: View) -> Any:
        """The exhibit's answer for the text and model of a view. Raises any error of it."""
        exhibit, there = self._there(view)
        return exhibit.answer(there)

    def asked(self, view: View) -> "Exhibited":
        """The same with its answer for the text and model of a view."""
        return replace(self, found=self.answer(view))

    def shown(self, view: View) -> b.Block:
        """The picture for the text and model of a view."""
        exhibit, there = self._there(view)
        blocks = b.inside(exhibit.show(self.found, there))
        picture = next(shown for shown in blocks if getattr(shown, "name", "") == self.block)
        match picture:
            case b.Canvas():
                return replace(picture, on={})
            case b.Chart():
                return replace(picture, clicks=())
            case b.AllHeads():
                return replace(picture, change=lambda chosen: None, down=None)
            case b.Matrices():
                panels = picture.panels if self.panel is None else [picture.panels[self.panel]]
                return replace(picture, panels=panels, picked=None, painted=None, words={})
        raise TypeError(f"{self.block} is a {type(picture).__name__}, not a picture")


def choices_for(run: Run, lang: str) -> State:
    """The run of a step and its language, without any other choice."""
    own = {name: value for name, value in vars(run).items() if name != "without_sinks"}
    return State(lang=lang, **own)


Drawing = Exhibited | Matrix | b.Canvas | Callable[..., b.Figure]
"""A picture of a step; a figure lacks only `dark`."""


def drawn(view: View, drawing: Drawing, name: str, title: str) -> b.Block:
    """A picture under this name; `title` is the text alternative of a step's own drawing."""
    match drawing:
        case Exhibited():
            shown: Any = drawing.shown(view)
            return replace(shown, name=name)
        case b.Canvas():
            return replace(drawing, name=name)
        case Matrix():
            return b.Matrices(name, ((title, drawing),), captioned=False)
    return b.Chart(name, drawing, title)


def heatmap(view: View, row: QueryRow, *, whole: bool) -> Matrix:
    """The head with the row outlined; with a blank row unless `whole`."""
    codes = blocker_codes(view.trace, row.site.name)[row.head]
    matrix = weights_of(view, view.trace, row.site, row.head, codes)
    changed: dict[str, Any] = {"selected": (row.query, None)}
    if not whole:
        hidden = np.arange(len(codes))[:, None] == row.query
        blank: dict[str, Any] = {"values": np.nan, "blocked": 0, "texts": ""}
        changed = {name: np.where(hidden, by, getattr(matrix, name)) for name, by in blank.items()}
    return replace(matrix, **changed)


def softmax_of(row: QueryRow) -> Exhibited:
    """The weights of a row as bars, as on Attention score."""
    return Exhibited("score.chain", "score.softmax", {**row.place, "stage": 3})


def scores_of(row: QueryRow) -> Exhibited:
    """The scores of the head before mask and softmax, as on Masks."""
    return Exhibited("masks.effect", "masks.scores", {**row.place, "picture": "scores"}, 0)


def row_bars(view: View, row: QueryRow, weights: np.ndarray) -> Callable[..., b.Figure]:
    """Weights [key] of one query as bars over the keys, none of them blocked."""
    tokens, stream = view.trace.key_tokens(row.site.name), row.site.key_stream
    words, title = view.words("figures.bars"), axis_title(view, "key", stream)
    return partial(bars, tokens, weights, stream=stream, title=title, words=words)


def two_rows(
    view: View, row: QueryRow, shares: Mapping[str, np.ndarray], title: str = ""
) -> Callable[..., b.Figure]:
    """Two shares [key], 0 to 1, of one query's keys by their names, as bars in percent."""
    tokens, stream = view.trace.key_tokens(row.site.name), row.site.key_stream
    (one, first), (other, second) = shares.items()
    pair, title = (100 * first, 100 * second), title or view.t("tour.weight")
    return partial(grouped, tokens, pair, (one, other), title=title, stream=stream)


def strip(
    view: View, stream: Stream, tokens: Sequence[str] = (), at: int | None = None
) -> b.Canvas:
    """A token strip, by default of the view's own tokens, with one token selected."""
    words, title = view.words("components.token_strip"), view.stream(stream)
    shown = tokens or tokens_of(view.trace, stream)[0]
    pack = partial(pack_token_strip, shown, stream=stream, title=title, selected=at, words=words)
    return b.Canvas("", "token_strip", lambda file: pack())
