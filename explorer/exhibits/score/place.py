"""The open cell, and what the exhibits of the page share."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from explorer.analysis.score.steps import chosen_token
from explorer.exhibits import View, block as b
from explorer.exhibits.saying import quoted_at, site_axes
from explorer.exhibits.score.choices import ScoreChoices
from explorer.figures.matrix import signed, weights


def key_of(view: View) -> int:
    """The chosen key, else the key with the highest weight."""
    if view.state.key is not None:
        return min(view.state.key, len(view.trace.key_tokens(view.site.name)) - 1)
    return int(view.trace.pattern(view.site.name)[view.head, view.row].argmax())


def goal_of(view: View) -> tuple[int, int] | None:
    """The position of the query (in an encoder, the chosen one) and the chosen token, by default
    the predicted one; None for a model without logits."""
    trace, chosen = view.trace, view.choices(ScoreChoices).goal
    if not trace.config.lm_head:
        return None
    place = view.step if view.site.query_stream == "src" else view.row
    position = min(place, int(trace.tgt_valid.sum()) - 1)
    if chosen is None or chosen >= trace.config.vocab_size:
        chosen = chosen_token(trace, position)
    return position, chosen


def is_open(name: str, view: View) -> bool:
    """Whether the user has opened this aside."""
    return name == view.choices(ScoreChoices).aside


def tokens(view: View) -> dict[str, str]:
    """The query and the key in quotation marks."""
    site = view.site.name
    return {
        "query": quoted_at(view, view.trace.query_tokens(site), view.row),
        "key": quoted_at(view, view.trace.key_tokens(site), key_of(view)),
    }


def matrices(
    view: View, name: str, shown: Sequence[tuple[str, np.ndarray]], limit: float | None = None
) -> b.Matrices:
    """Scores [query, key] with this cell marked side by side, each with its title."""
    at, title = (view.row, key_of(view)), view.t("score.score")
    more: dict[str, Any] = {"limit": limit, "selected": at}
    drawn = [(named, signed(scores, site_axes(view), title, **more)) for named, scores in shown]
    return b.Matrices(f"score.{name}", drawn)


def patterns(view: View, name: str, shown: Sequence[tuple[str, np.ndarray]]) -> b.Matrices:
    """Patterns [query, key] under this head's mask side by side, each with its title."""
    more: dict[str, Any] = {"selected": view.row, "words": view.words("figures.heatmap")}
    cells, axes = view.trace.mask(view.site.name)[view.head], site_axes(view)
    drawn = [(title, weights(pattern, cells, axes, **more)) for title, pattern in shown]
    return b.Matrices(f"score.{name}", drawn)


def pick_dropout(view: View, key: str, width: int) -> b.Slider:
    """The share of zeroed weights in percent, 0 to 90."""
    label, now = view.t("score.drop"), view.choices(ScoreChoices).drop
    shares = b.Span(0, 90, 5, "%d %%")
    return b.Slider(key, label, shares, now, b.sets("drop"), display=b.Display(width))


def drop_of(view: View) -> float:
    """The chosen dropout, 0 to 0.9."""
    return view.choices(ScoreChoices).drop / 100
