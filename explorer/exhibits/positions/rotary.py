"""RoPE: a query and a key of this head as rotating arrows, pair by pair."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float

from explorer.analysis.positions.turning import (
    LAYOUTS,
    Angles,
    Layout,
    Turned,
    angles_of,
    bare,
    pairs_of,
    rotate_as,
    score_by_offset,
    turn,
    turned,
    turns,
)
from explorer.exhibits import Exhibit, View, block as b, saying
from explorer.exhibits.links import FREE
from explorer.exhibits.picking import pick_one, pick_place, pick_token, titled
from explorer.exhibits.positions.opening import opening
from explorer.figures.curves import lines
from explorer.figures.positions.turning import arrows
from explorer.library import LoadedModel
from explorer.numbers import number, signed
from explorer.runs.trace import Trace
from models.hooks import AttentionSite, Role
from models.positions import rotate


def layout_difference(
    q: Float[np.ndarray, "pos d_head"],
    k: Float[np.ndarray, "pos d_head"],
    angles: Angles,
    divisor: float,
) -> tuple[float, float]:
    """The largest change of a score if weights for one layout are rotated with the other's pairs,
    and the residual once the features are permuted to match."""
    n = list(range(len(q)))
    right = turn(q, n, angles, "interleaved") @ turn(k, n, angles, "interleaved").T / divisor
    wrong = turn(q, n, angles, "half") @ turn(k, n, angles, "half").T / divisor
    fit = pairs_of(q.shape[1], "interleaved").T.reshape(-1)  # evens first, then odds
    fitted = turn(q[:, fit], n, angles, "half") @ turn(k[:, fit], n, angles, "half").T / divisor
    return float(np.abs(wrong - right).max()), float(np.abs(fitted - right).max())


FAR = 32
"""Least number of positions on either side of the curve."""
FORMULA = (
    r"\begin{pmatrix} x_{2i}' \\ x_{2i+1}' \end{pmatrix} = "
    r"\begin{pmatrix} \cos p\theta_i & -\sin p\theta_i \\ "
    r"\sin p\theta_i & \cos p\theta_i \end{pmatrix}"
    r"\begin{pmatrix} x_{2i} \\ x_{2i+1} \end{pmatrix}",
    r"R_m q \cdot R_n k = q \cdot R_{n-m} k",
)


@dataclass(frozen=True, eq=False)
class Arrows:
    """A query and a key of a head: their rotation, the score at other `offsets`, and the largest
    difference of scores if weights of one layout are read with the other (`wrong`, and `left` after
    reordering)."""

    site: AttentionSite
    query: int
    key: int
    layout: Layout
    turned: Turned
    offsets: np.ndarray
    by_offset: np.ndarray
    wrong: float
    left: float


def compute(
    loaded: LoadedModel,
    trace: Trace,
    kind: Role,
    layer: int,
    head: int,
    chosen_row: int | None,
    key: int | None,
    layout: str,
) -> Arrows | str:
    """The arrows in self-attention (the decoder's for cross-attention, which has no rotation), or
    the key of the reason why there are none."""
    config = loaded.config
    if config.d_head % 2:
        return "positions.odd_head"
    if config.rotary_dim is not None or config.rope_scaling is not None:
        return "positions.partial"
    sites = trace.sites_of("decoder" if kind == "cross" else kind)
    site = sites[min(layer, len(sites) - 1)]
    head = min(head, site.n_heads - 1)
    tokens = trace.query_tokens(site.name)
    query = min(len(tokens) - 1, 4 if chosen_row in (None, FREE) else chosen_row or 0)
    key = min(len(tokens) - 1, max(0, query - 2) if key is None else key)
    chosen = next((option for option in LAYOUTS if option == layout), LAYOUTS[0])
    far = max(FAR, len(tokens))
    offsets = np.arange(-far, far + 1)
    q, k = (bare(loaded, trace, site.name, head, which) for which in ("q", "k"))
    angles = angles_of(loaded, trace, site.name)
    rotation = turned(loaded, trace, site.name, head, query, key, chosen)
    scores = score_by_offset(q[query], k[key], offsets, angles, config.divisor, chosen)
    differences = layout_difference(q, k, angles, config.divisor)
    return Arrows(site, query, key, chosen, rotation, offsets, scores, *differences)


def show(result: Arrows | str, view: View) -> b.Blocks:
    """One query, one key, and their score by distance."""
    yield from opening(view)
    if isinstance(result, str):
        yield b.Hint(view.t(result))
        return
    tokens = view.trace.query_tokens(result.site.name)
    page = "positions.rotary"
    places = [
        pick_token(view, f"{page}.query", "positions.query", tokens, result.query, "row"),
        pick_token(view, f"{page}.key", "positions.key", tokens, result.key, "key"),
    ]
    layout = pick_one(view, "positions.layout", LAYOUTS, result.layout)
    yield b.Row((*pick_place(view, page, kind=len(view.kinds) > 1), *places, layout))
    if not turns(view.loaded, result.site.name):
        yield b.Note(view.t("positions.as_if"))
    yield b.Sentence("arrows", _said(view, result, tokens))
    rotation = result.turned
    drawn = partial(
        arrows,
        rotation.q,
        rotation.k,
        rotation.q_turned,
        rotation.k_turned,
        wavelengths=2 * np.pi / rotation.angles,
        contributions=rotation.contributions,
        words=view.words("figures.turning"),
    )
    curve = partial(
        lines,
        result.offsets,
        result.by_offset[None],
        (view.t("positions.shows.scores"),),
        marked_x=result.query - result.key,
        height=420,
        **view.axes("positions.query_behind", "positions.shows.scores"),
    )
    yield b.Columns(
        (
            titled(view, "positions.arrows", drawn, note=view.t("positions.arrows_note")),
            titled(view, "positions.score_by_offset", curve),
        ),
        (2, 3),
    )
    differences = {"wrong": f"{result.wrong:.2f}", "left": number(result.left)}
    yield b.Prose(view.t("positions.other_layout", divisor=view.divisor, **differences))
    yield b.Formula(FORMULA, view.t("positions.rotary_formula"))
    yield b.Code((turned, rotate_as, rotate, score_by_offset, layout_difference))
    yield b.Numbers(lambda: _numbers(view, rotation))


def _said(view: View, result: Arrows, tokens: tuple[str, ...]) -> str:
    rotation = result.turned
    still = float((rotation.q * rotation.k).sum() / view.loaded.config.divisor)
    return view.t(
        "positions.read_arrows",
        query=saying.quoted_at(view, tokens, result.query),
        key=saying.quoted_at(view, tokens, result.key),
        score=signed(rotation.score),
        still=signed(still),
        divisor=view.divisor,
    )


def _numbers(view: View, rotation: Turned) -> dict[str, list[object]]:
    return {
        view.t("figures.turning.pair"): list(range(len(rotation.q))),
        view.t("positions.wavelength"): (2 * np.pi / rotation.angles).round(2).tolist(),
        view.t("positions.query"): [f"{a:+.3f}, {b:+.3f}" for a, b in rotation.q_turned],
        view.t("positions.key"): [f"{a:+.3f}, {b:+.3f}" for a, b in rotation.k_turned],
        view.t("figures.turning.adds"): rotation.contributions.round(4).tolist(),
    }


EXHIBIT = Exhibit(compute, show)
