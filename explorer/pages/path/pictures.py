"""Pictures of the steps: figures and components of other pages with the data of a step."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.analysis.path import QueryRow
from explorer.components import HeadGrid, mask_matrix, token_strip
from explorer.engine import jobs
from explorer.exhibits.heads import picture
from explorer.exhibits.heads.grids import ablation, grid_of
from explorer.exhibits.heads.linked import values_of
from explorer.exhibits.heads.opened import Opened
from explorer.exhibits.reasons import RULES, blocked_by, rule_numbers
from explorer.exhibits.view import View
from explorer.figures.bars import row as bars
from explorer.figures.heatmap import attention
from explorer.figures.paired import paired
from explorer.figures.scores import scores
from explorer.render.drawing import draw
from explorer.render.sheet import Sheet
from explorer.runs.trace import Trace
from explorer.ui import controls, running
from models.hooks import AttentionSite
from models.rows import Stream


def place_of(row: QueryRow) -> dict[str, Any]:
    """The choices that select a query on another page."""
    return {"site": row.site.role, "layer": row.site.layer, "head": row.head, "row": row.query}


def where(view: View, row: QueryRow) -> dict[str, object]:
    """The layer, head and query of a row, as fields for texts."""
    tokens = view.trace.query_tokens(row.site.name)
    return {
        "kind": view.t(f"kinds.{row.site.role}"),
        "layer": row.site.layer + 1,
        "head": row.head + 1,
        "query": controls.quoted_at(view, tokens, row.query),
    }


def keys_of(view: View, row: QueryRow) -> list[str]:
    """The keys of a query as options: distinct tokens in quotation marks."""
    tokens = view.trace.key_tokens(row.site.name)
    return [controls.quoted_at(view, tokens, key) for key in range(len(tokens))]


def titles(view: View, site: AttentionSite) -> dict[str, Any]:
    """Names and streams of the axes of a site."""
    return {
        "query_title": controls.axis_title(view, "query", site.query_stream),
        "key_title": controls.axis_title(view, "key", site.key_stream),
        "query_stream": site.query_stream,
        "key_stream": site.key_stream,
    }


def all_heads(view: View, key: str) -> None:
    """All heads as on Heads, with the measure chosen there if it takes no time."""
    choice = Opened(view)
    grid = _grid(choice, key)
    if grid is not None:
        drawn = picture.all_heads(choice, grid, _values(choice), key, change=lambda chosen: None)
        draw(Sheet(view, "path"), [drawn])


def _grid(choice: Opened, key: str) -> HeadGrid | None:
    """The thumbnails; None while those of a long text are computed."""
    view = choice.view
    of = (view.run, choice.kind, choice.words is not None)
    if view.trace.patterns_kept:
        return grid_of(*of)
    return running.awaited(
        f"{key}.grid",
        of,
        lambda tell: grid_of(*of, progress=jobs.whole(tell)),
        view.t("heads.working"),
        view.lang,
    )


def _values(choice: Opened) -> NDArray[np.float64] | None:
    view, name = choice.view, choice.measure
    ready = ablation.is_kept(view.run) if name == "needed" else view.trace.patterns_kept
    return values_of(view.run, choice.kind, name) if name and ready else None


def heatmap(view: View, row: QueryRow, key: str, alt: str, *, whole: bool) -> None:
    """The head as a heatmap; without the query's own row unless `whole`."""
    trace, site = view.trace, row.site
    queries = trace.query_tokens(site.name)
    shown = [at for at in range(len(queries)) if whole or at != row.query]
    blocked = controls.blocker_words(view, blocked_by(trace, site.name)[row.head][shown])
    figure = attention(
        trace.pattern(site.name)[row.head][shown],
        trace.mask(site.name)[row.head][shown],
        [queries[at] for at in shown],
        trace.key_tokens(site.name),
        blocked_labels=blocked,
        selected=row.query if whole else None,
        dark=view.dark,
        words=view.words("figures.heatmap"),
        **titles(view, site),
    )
    controls.chart(figure, f"path.{key}", alt=alt)


def scores_map(view: View, row: QueryRow, key: str) -> None:
    """The scores of the head before mask and softmax."""
    trace, site = view.trace, row.site
    figure = scores(
        trace.activations[site.hook("scores")][row.head],
        trace.mask(site.name)[row.head],
        trace.query_tokens(site.name),
        trace.key_tokens(site.name),
        title=view.t("path.score"),
        dark=view.dark,
        words=view.words("figures.heatmap"),
        **titles(view, site),
    )
    controls.chart(figure, f"path.{key}", alt=view.t("path.score"))


def row_bars(
    view: View,
    row: QueryRow,
    weights: np.ndarray,
    allowed: np.ndarray | None,
    key: str,
    alt: str,
) -> None:
    """One query's weights [key] as bars over the keys."""
    figure = bars(
        view.trace.key_tokens(row.site.name),
        weights,
        stream=row.site.key_stream,
        allowed=allowed,
        title=controls.axis_title(view, "key", row.site.key_stream),
        dark=view.dark,
        words=view.words("figures.bars"),
    )
    controls.chart(figure, f"path.{key}", alt=alt)


def two_bars(
    view: View,
    labels: Sequence[str],
    first: np.ndarray,
    second: np.ndarray,
    names: tuple[str, str],
    key: str,
    *,
    title: str,
    stream: Stream | None = None,
) -> None:
    """Two bars per label."""
    figure = paired(labels, first, second, names, title=title, stream=stream, dark=view.dark)
    controls.chart(figure, f"path.{key}", alt=" · ".join(names))


def strip(view: View, tokens: Sequence[str], stream: Stream, key: str, at: int | None) -> None:
    """A token strip with one token selected."""
    token_strip(
        tokens,
        stream=stream,
        title=view.stream(stream),
        selected=at,
        words=view.words("components.token_strip"),
        key=f"path.{key}",
    )


def mask(
    view: View, trace: Trace, row: QueryRow, key: str, selected: tuple[int, int] | None
) -> None:
    """The mask of the head, with the blocking rule of each cell."""
    site = row.site
    mask_matrix(
        trace.mask(site.name)[row.head],
        rule_numbers(trace, site.name)[row.head],
        title=view.t("masks.matrix", kind=view.t(f"kinds.{site.role}"), layer=site.layer + 1),
        rules=[view.t(f"blockers.{name}") for name in RULES],
        query_tokens=trace.query_tokens(site.name),
        key_tokens=trace.key_tokens(site.name),
        selected=selected,
        words=view.words("components.mask_matrix"),
        key=f"path.{key}",
        **titles(view, site),
    )
