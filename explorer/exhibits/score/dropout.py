"""Dropout between softmax and values: one row of weights before and after it."""

from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from jaxtyping import Float

from explorer.analysis.score.steps import attended
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.picking import slider
from explorer.exhibits.saying import in_a_row
from explorer.exhibits.score.choices import ScoreChoices
from explorer.exhibits.score.place import is_open
from explorer.figures.bars import grouped
from explorer.numbers import fixed
from explorer.runs.passes import seeded
from explorer.runs.trace import Trace
from models.hooks import AttentionSite


@dataclass(frozen=True, eq=False)
class Dropped:
    """A row of weights before and after dropout, both [key], and the row sums of the whole head.

    `before` sums to 1; `sums` [query] after dropout do not, only their mean over many draws does.
    """

    before: Float[np.ndarray, " key"] = field(repr=False)
    after: Float[np.ndarray, " key"] = field(repr=False)
    sums: Float[np.ndarray, " query"] = field(repr=False)


def dropped(
    trace: Trace, site: AttentionSite, head: int, query: int, p: float, seed: int = 0
) -> Dropped:
    """The effect of dropout between softmax and values on one row. Raises ValueError for a bad p.

    The values are replaced by one-hot vectors, so that the model's own `attend` returns the weights
    it used.
    """
    if not 0.0 <= p < 1.0:
        raise ValueError(f"p is {p}: dropout must be at least 0 and below 1")
    n_heads, n_keys, _ = trace.activations[site.hook("v")].shape  # heads may share values
    marks = torch.eye(n_keys).expand(1, n_heads, -1, -1)
    with seeded(seed):
        z, _ = attended(trace, site, v=marks, dropout=p)
    used = z[0, head].numpy()
    return Dropped(trace.pattern(site.name)[head, query], used[query], used.sum(-1))


def show(row: Dropped, view: View) -> b.Blocks:
    """The share, the row, and the sums of all rows."""
    site, words = view.site, [view.t("score.dropout_lead")]
    if not view.loaded.foreign:  # other libraries' settings of training are not read
        words.append(view.t("score.dropout_config", p=view.loaded.config.pattern_dropout))
    yield b.Prose(in_a_row(words))
    shares, now = b.Span(0, 90, 5, "%d %%"), view.choices(ScoreChoices).drop
    yield slider(view, "score.drop", shares, now, display=b.Display(320))
    draw = partial(
        grouped,
        view.trace.key_tokens(site.name),
        (row.before, row.after),
        (view.t("score.without_dropout"), view.t("score.with_dropout")),
        title=view.t("score.weight"),
        stream=site.key_stream,
    )
    yield b.Chart("score.dropout", draw, view.t("score.asides.dropout"))
    sums = {"row": row.after.sum(), "low": row.sums.min(), "high": row.sums.max()}
    shown = {name: fixed(float(value)) for name, value in sums.items()}
    yield b.Sentence("aside", view.t("score.dropout_reading", **shown))
    yield b.Code((dropped,), first=True)


INPUTS = {
    "query": lambda view: view.row,
    "p": lambda view: view.choices(ScoreChoices).drop / 100,
    "seed": lambda view: 0,
}
EXHIBIT = Exhibit(dropped, show, inputs=INPUTS, open=partial(is_open, "dropout"))
