"""Pictures of the steps: blocks of other pages with the data of a step."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from explorer.components.token_strip import pack_token_strip
from explorer.exhibits import View, block as b
from explorer.exhibits.exhibit import choices_of, exhibit_of
from explorer.exhibits.heads import picture
from explorer.exhibits.heads.opened import Opened, ablation, grid_of
from explorer.exhibits.links import Links
from explorer.exhibits.reasons import blocked_by
from explorer.exhibits.saying import axis_title, blocker_words, site_axes
from explorer.exhibits.shared import PartChoices
from explorer.exhibits.tour.rows import QueryRow, tokens_of
from explorer.exhibits.view import build
from explorer.figures.bars import row as bars
from explorer.figures.matrix import Matrix, scores, weights
from explorer.figures.measured import measured
from explorer.figures.paired import paired
from models.rows import Stream


def all_heads(view: View) -> b.AllHeads:
    """All heads as on Heads, with the measure chosen there if it takes no time."""
    choice = Opened(view)
    grid = grid_of(view.run, choice.kind, choice.words is not None)
    measure = choice.measure or ""
    ready = ablation.is_kept(view.run) if measure == "needed" else bool(measure)
    values = picture.values_of(view.run, choice.kind, measure) if ready else None
    return picture.all_heads(choice, grid, values, "tour.heads", change=lambda chosen: None)


def chart(
    view: View,
    key: str,
    alt: str | Sequence[str],
    figure: Callable[..., b.Figure],
    *data: Any,
    **options: Any,
) -> b.Chart:
    """A chart of a step: `figure` with these arguments, except `dark`.

    `key` begins with the step's name. `alt` is a text key ("": of the step's title) or the names in
    the legend; of the options, `axes` and `title` are text keys, `words` is a table of texts.
    """
    label, options = _named(view, key, alt, **options)
    return b.Chart(f"tour.{key}", partial(figure, *data, **options), label)


def matrix(
    view: View, key: str, alt: str, made: Callable[..., Matrix], *data: Any, **options: Any
) -> b.Matrices:
    """A matrix of a step; arguments as those of `chart`."""
    label, options = _named(view, key, alt, **options)
    return b.Matrices(f"tour.{key}", ((label, made(*data, **options)),), captioned=False)


def _named(
    view: View,
    key: str,
    alt: str | Sequence[str],
    axes: tuple[str, ...] = (),
    title: str = "",
    words: str = "",
    **options: Any,
) -> tuple[str, dict[str, Any]]:
    options |= view.axes(*axes) if axes else {}
    options |= {"title": view.t(title)} if title else {}
    options |= {"words": view.words(words)} if words else {}
    alt = alt or f"tour.steps.{key.split('.')[0]}.title"
    return view.t(alt) if isinstance(alt, str) else " · ".join(alt), options


def amounts(
    view: View, name: str, labels: Sequence[str], values: np.ndarray, title: str, alt: str
) -> b.Chart:
    """One bar per label; `title` and `alt` as of `chart`."""
    return chart(view, name, alt, measured, labels, values, title=title)


def heatmap(view: View, row: QueryRow, name: str, *, whole: bool = True) -> b.Matrices:
    """The head as a matrix; without the query's own row unless `whole`."""
    trace, site = view.trace, row.site
    queries = trace.query_tokens(site.name)
    shown = [at for at in range(len(queries)) if whole or at != row.query]
    cells = (of(site.name)[row.head][shown] for of in (trace.pattern, trace.mask))
    tokens = [queries[at] for at in shown], trace.key_tokens(site.name)
    why = blocker_words(view, blocked_by(trace, site.name)[row.head][shown])
    more: dict[str, Any] = {"why": why, "selected": row.query if whole else None}
    axes = site_axes(view, site, tokens=tokens)
    return matrix(view, name, "", weights, *cells, axes, words="figures.heatmap", **more)


def scores_map(view: View, row: QueryRow, name: str) -> b.Matrices:
    """The scores of the head before mask and softmax."""
    trace, site, key = view.trace, row.site, "tour.score"
    cells = trace.activations[site.hook("scores")][row.head], trace.mask(site.name)[row.head]
    axes = site_axes(view, site)
    return matrix(view, name, key, scores, *cells, axes, title=key, words="figures.heatmap")


def row_bars(
    view: View, row: QueryRow, name: str, weights: np.ndarray, allowed: np.ndarray | None = None
) -> b.Chart:
    """Weights [key] of one query as bars over the keys."""
    tokens, stream = view.trace.key_tokens(row.site.name), row.site.key_stream
    title = axis_title(view, "key", stream)
    drawn = partial(bars, tokens, weights, stream=stream, allowed=allowed, title=title)
    return chart(view, name, "", drawn, words="figures.bars")


def two_bars(
    view: View,
    name: str,
    labels: Sequence[str],
    pair: tuple[np.ndarray, np.ndarray],
    names: tuple[str, str],
    title: str,
    stream: Stream | None,
) -> b.Chart:
    """Two bars per label; `title` is text."""
    drawn = partial(paired, labels, *pair, names, title=title, stream=stream)
    return chart(view, name, names, drawn)


def two_rows(
    view: View,
    row: QueryRow,
    name: str,
    pair: tuple[np.ndarray, np.ndarray],
    names: tuple[str, str],
    title: str = "",
) -> b.Chart:
    """Two shares [key], 0 to 1, of one query's keys as bars in percent."""
    tokens, shares = view.trace.key_tokens(row.site.name), (100 * pair[0], 100 * pair[1])
    title = title or view.t("tour.weight")
    return two_bars(view, name, tokens, shares, names, title, row.site.key_stream)


def strip(
    view: View, name: str, stream: Stream, tokens: Sequence[str] = (), at: int | None = None
) -> b.Canvas:
    """A token strip, by default of the view's own tokens, with one token selected."""
    pack = partial(
        pack_token_strip,
        tokens or tokens_of(view.trace, stream)[0],
        stream=stream,
        title=view.stream(stream),
        selected=at,
        words=view.words("components.token_strip"),
    )
    return b.Canvas(f"tour.{name}", "token_strip", lambda file: pack())


def exhibited(view: View, name: str, address: str, block: str, /, **place: Any) -> b.Block:
    """A picture of an exhibit with these choices, and without what clicks in it do."""
    own = choices_of(address.partition(".")[0])
    state = Links(PartChoices, own).change(replace(view.state, owned=()), **place)
    there, exhibit = build(state, view.dark), exhibit_of(address)
    blocks = b.inside(exhibit.show(exhibit.answer(there), there))
    picture = next(drawing for drawing in blocks if getattr(drawing, "name", "") == block)
    if isinstance(picture, b.Canvas):
        return replace(picture, name=f"tour.{name}.{block}", on={})
    if isinstance(picture, b.Matrices):
        return replace(picture, name=f"tour.{name}.{block}", picked=None, painted=None, words={})
    assert isinstance(picture, b.Chart)
    return replace(picture, name=f"tour.{name}.{block}", clicks=())
