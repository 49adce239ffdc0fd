"""The open cell, and what the exhibits of the page share."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from explorer.analysis.score.steps import chosen_token
from explorer.exhibits import View, block as b
from explorer.exhibits.saying import quoted_at, site_axes
from explorer.exhibits.score.choices import ScoreChoices
from explorer.figures.matrix import signed


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
