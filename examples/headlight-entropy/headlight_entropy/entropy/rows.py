"""How evenly each query spreads its attention."""

from functools import partial

import numpy as np

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.picking import pick_place, slider
from explorer.exhibits.saying import quoted_at
from explorer.figures.curves import lines
from explorer.runs.trace import Trace
from models.hooks import AttentionSite

from .choices import EntropyChoices


def row_entropy(trace: Trace, site: AttentionSite, head: int, entropy_floor: int) -> np.ndarray:
    """Entropy of each query's weights from the floor on, rescaled, in bits, [query]."""
    weights = trace.pattern(site.name)[head].astype(np.float64)
    counted = np.where(weights >= entropy_floor / 100, weights, 0)
    shares = counted / np.maximum(counted.sum(-1, keepdims=True), 1e-12)
    return -(shares * np.log2(np.where(shares > 0, shares, 1))).sum(-1) + 0.0


def show(entropies: np.ndarray, view: View) -> b.Blocks:
    """The most even row in words, all rows as a curve."""
    tokens, title = view.trace.query_tokens(view.site.name), view.t("entropy.bits")
    most = int(entropies.argmax())
    values = {"token": quoted_at(view, tokens, most), "bits": f"{entropies[most]:.2f}"}
    yield b.Sentence("entropy", view.t("entropy.most", **values))
    titles = {"x_title": view.t("place.query"), "y_title": title}
    draw = partial(lines, np.arange(len(entropies)), entropies[None], (title,), **titles)
    yield b.Chart("entropy.rows", draw, title)
    floor = view.choices(EntropyChoices).entropy_floor
    yield b.Row(
        (
            *pick_place(view, "entropy"),
            slider(view, "entropy.floor", b.Span(0, 50), floor, "entropy_floor"),
        )
    )
    yield b.Formula((r"H_i = -\sum_j p_{ij} \log_2 p_{ij}",), view.t("entropy.formula"))
    yield b.Numbers(lambda: {view.t("place.query"): tokens, title: entropies.round(4).tolist()})


EXHIBIT = Exhibit(row_entropy, show)
