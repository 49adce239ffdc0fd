"""Pictures of the steps: blocks of other pages with the data of a step."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from explorer.components.mask_matrix import pack_mask_matrix
from explorer.components.token_strip import pack_token_strip
from explorer.exhibits import View, block as b
from explorer.exhibits.heads import picture
from explorer.exhibits.heads.opened import Opened, ablation, grid_of
from explorer.exhibits.reasons import RULES, blocked_by, rule_numbers
from explorer.exhibits.saying import axis_title, blocker_words, quoted_at, site_axes, site_titles
from explorer.exhibits.tour.found import QueryRow
from explorer.figures.bars import row as bars
from explorer.figures.heatmap import attention
from explorer.figures.paired import paired
from explorer.figures.scores import scores
from explorer.runs.trace import Trace
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
        "query": quoted_at(view, tokens, row.query),
    }


def keys_of(view: View, row: QueryRow) -> list[str]:
    """The keys of a query as options: distinct tokens in quotation marks."""
    tokens = view.trace.key_tokens(row.site.name)
    return [quoted_at(view, tokens, key) for key in range(len(tokens))]


def all_heads(view: View, name: str) -> b.AllHeads:
    """All heads as on Heads, with the measure chosen there if it takes no time."""
    choice = Opened(view)
    grid = grid_of(view.run, choice.kind, choice.words is not None)
    measure = choice.measure or ""
    ready = ablation.is_kept(view.run) if measure == "needed" else bool(measure)
    values = picture.values_of(view.run, choice.kind, measure) if ready else None
    return picture.all_heads(choice, grid, values, name, change=lambda chosen: None)


def title_of(view: View, picture: str) -> str:
    """The title of the step that the name of a picture begins with."""
    return view.t(f"tour.steps.{picture.partition('.')[0]}.title")


def chart(
    name: str, alt: str, figure: Callable[..., b.Figure], *data: Any, **options: Any
) -> b.Chart:
    """A chart of a step: `figure` with these arguments, except `dark`."""
    return b.Chart(f"tour.{name}", partial(figure, *data, **options), alt)


def heatmap(view: View, row: QueryRow, name: str, *, whole: bool) -> b.Chart:
    """The head as a heatmap; without the query's own row unless `whole`."""
    trace, site = view.trace, row.site
    queries = trace.query_tokens(site.name)
    shown = [at for at in range(len(queries)) if whole or at != row.query]
    return chart(
        name,
        title_of(view, name),
        attention,
        trace.pattern(site.name)[row.head][shown],
        trace.mask(site.name)[row.head][shown],
        [queries[at] for at in shown],
        trace.key_tokens(site.name),
        blocked_labels=blocker_words(view, blocked_by(trace, site.name)[row.head][shown]),
        selected=row.query if whole else None,
        words=view.words("figures.heatmap"),
        **site_titles(view, site),
    )


def scores_map(view: View, row: QueryRow, name: str) -> b.Chart:
    """The scores of the head before mask and softmax."""
    trace, site, title = view.trace, row.site, view.t("tour.score")
    return chart(
        name,
        title,
        scores,
        trace.activations[site.hook("scores")][row.head],
        trace.mask(site.name)[row.head],
        title=title,
        words=view.words("figures.heatmap"),
        **site_axes(view, site),
    )


def row_bars(
    view: View, row: QueryRow, weights: np.ndarray, name: str, allowed: np.ndarray | None = None
) -> b.Chart:
    """One query's weights [key] as bars over the keys."""
    return chart(
        name,
        title_of(view, name),
        bars,
        view.trace.key_tokens(row.site.name),
        weights,
        stream=row.site.key_stream,
        allowed=allowed,
        title=axis_title(view, "key", row.site.key_stream),
        words=view.words("figures.bars"),
    )


def two_bars(
    labels: Sequence[str],
    first: np.ndarray,
    second: np.ndarray,
    names: tuple[str, str],
    name: str,
    *,
    title: str,
    stream: Stream | None = None,
) -> b.Chart:
    """Two bars per label."""
    alt = " · ".join(names)
    return chart(name, alt, paired, labels, first, second, names, title=title, stream=stream)


def strip(view: View, tokens: Sequence[str], stream: Stream, name: str, at: int | None) -> b.Canvas:
    """A token strip with one token selected."""
    pack = partial(
        pack_token_strip,
        tokens,
        stream=stream,
        title=view.stream(stream),
        selected=at,
        words=view.words("components.token_strip"),
    )
    return b.Canvas(f"tour.{name}", "token_strip", lambda file: pack())


def mask(
    view: View, trace: Trace, row: QueryRow, name: str, selected: tuple[int, int] | None
) -> b.Canvas:
    """The mask of the head, with the blocking rule of each cell."""
    site = row.site
    pack = partial(
        pack_mask_matrix,
        trace.mask(site.name)[row.head],
        rule_numbers(trace, site.name)[row.head],
        title=view.t("masks.matrix", kind=view.t(f"kinds.{site.role}"), layer=site.layer + 1),
        rules=[view.t(f"blockers.{name}") for name in RULES],
        selected=selected,
        words=view.words("components.mask_matrix"),
        **site_axes(view, site, trace),
    )
    return b.Canvas(f"tour.{name}", "mask_matrix", lambda file: pack(file=file))
