"""Sinusoidal positions: the table that is added, its waves, its dot products, and where their
regular pattern ends: a head's projections."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from explorer.analysis.positions import encoding as numbers
from explorer.analysis.positions.encoding import model_table
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.picking import titled
from explorer.exhibits.positions.choices import MOST_DIMS, PositionsChoices
from explorer.exhibits.positions.opening import opening
from explorer.figures.curves import lines
from explorer.figures.positions import encoding as figures
from explorer.library import LoadedModel
from explorer.numbers import digits, percent
from explorer.runs.trace import Trace


def projected_gram(
    loaded: LoadedModel, site: str, head: int, n_positions: int
) -> Float[np.ndarray, "pos pos"] | None:
    """The position part of a head's scores, (PE W_Q)(PE W_K)^T / divisor, without biases.

    This is `gram` after the projections of a self-attention head. Exact for the first layer's input
    only; a norm before the sublayer is ignored. None if nothing is added.
    """
    of_site = loaded.site(site)
    encoding = model_table(loaded, n_positions, of_site.query_stream)
    if encoding is None or of_site.kind != "self":
        return None
    attention = loaded.part(site)
    d_head, group = loaded.config.d_head, loaded.config.n_heads // loaded.config.kv_heads
    table_ = torch.from_numpy(encoding).double()
    if loaded.config.d_embed is not None:
        stack = loaded.stack(of_site.query_stream)
        table_ = table_ @ loaded.part(stack.path("embed_map")).get_parameter("weight").double().T
    rows = {"w_q": head, "w_k": head // group}
    with torch.inference_mode():
        q, k = (
            table_ @ attention.get_parameter(f"{name}.weight")[at * d_head :][:d_head].double().T
            for name, at in rows.items()
        )
        return (q @ k.T / loaded.config.divisor).numpy()


def spread_by_distance(products: Float[np.ndarray, "pos pos"]) -> float:
    """The share of the products' variance that signed distance does not explain, 0 to 1.

    The squared deviations from the means of their diagonals, divided by those from the overall
    mean.
    """
    n = len(products)
    inside = [np.diagonal(products, distance) for distance in range(1 - n, n)]
    within = sum(float(((diagonal - diagonal.mean()) ** 2).sum()) for diagonal in inside)
    whole = float(((products - products.mean()) ** 2).sum())
    return within / whole if whole else 0.0


def largest_rise(curve: Float[np.ndarray, " distance"]) -> tuple[int, int, float]:
    """The distances between which a curve rises most, and by how much; (0, 0, 0) if it only
    falls."""
    lowest = np.minimum.accumulate(curve)
    top = int((curve - lowest).argmax())
    low = int(curve[: top + 1].argmin())
    return (low, top, float(curve[top] - curve[low])) if top > low else (0, 0, 0.0)


STOPS = {
    "positions.base": (10, 100, 1_000, 10_000, 100_000, 1_000_000),
    "positions.width": (8, 16, 32, 64, 128, 256, 512),
    "positions.length": (16, 32, 64, 128, 256),
}


@dataclass(frozen=True, eq=False)
class Sinusoids:
    """The table [pos, dim], the wavelength of each dimension, the mean dot product by distance, and
    the dot products of any two positions [pos, pos]; `projected`: after the projections of `head`,
    None if the model adds no positions."""

    encoding: np.ndarray
    wavelengths: np.ndarray
    by_distance: np.ndarray
    products: np.ndarray
    head: int
    projected: np.ndarray | None


def compute(
    loaded: LoadedModel, trace: Trace, head: int, base: int, width: int, length: int
) -> Sinusoids:
    """Project positions in the first layer of the model's first kind of attention."""
    site, width = trace.sites[0], width // 2 * 2  # a sine and its cosine share a frequency
    encoding, turns = numbers.table(length, width, base), numbers.wavelengths(width, base)
    by_distance, products = numbers.dot_by_distance(encoding), numbers.gram(encoding)
    head = min(head, site.n_heads - 1)
    projected = projected_gram(loaded, site.name, head, length)
    return Sinusoids(encoding, turns, by_distance, products, head, projected)


def show(answer: Sinusoids, view: View) -> b.Blocks:
    """The table, waves and wavelengths of some dimensions, and dot products by distance and of any
    two positions, also after a head's projections."""
    yield from opening(view, sentence=False)
    length, width = answer.encoding.shape
    size = {"base": view.choices(PositionsChoices).base, "width": width, "length": length}
    yield b.Row([*_controls(view, size)], gap="medium")
    encoding, turns, mean = answer.encoding, answer.wavelengths, answer.by_distance
    words: dict[str, Any] = {"words": view.words("figures.positions")}
    values = {"fast": f"{turns[0]:.1f}", "last": width - 2, "slow": f"{turns[-1]:,.0f}"}
    yield b.Sentence("table", view.t("positions.reading", **values))
    shown = ((view.t("positions.table"), figures.table(encoding, **words)),)
    yield b.Matrices("positions.table", shown, captioned=False)
    dims = _dimensions(view, width)
    waves: b.Block = b.Hint(view.t("positions.no_dims"))
    if dims:
        draw = partial(
            lines,
            np.arange(length),
            encoding.T[dims],
            [view.t("positions.dim", dim=dim) for dim in dims],
            **view.axes("figures.positions.position", "figures.positions.value"),
        )
        waves = b.Chart("positions.waves", draw, view.t("positions.waves"))
    n_ctx = view.loaded.config.n_ctx
    draw = partial(figures.wavelengths, turns, n_ctx=n_ctx, marked=dims, **words)
    by_width = titled(view, "positions.wavelengths", draw)
    axes = view.axes("figures.positions.distance", "figures.positions.dot")
    draw = partial(lines, np.arange(len(mean)), mean[None], [view.t("positions.dot")], **axes)
    by_distance = titled(view, "positions.dot", draw)
    yield b.Columns(((_pick_dims(view, width, dims), waves), by_width, by_distance))
    low, top, rise = largest_rise(mean)
    if rise > 0:
        ends = {"low": low, "top": top, "rise": digits(rise)}
        yield b.Sentence("rises", view.t("positions.rises", **ends))
    products = figures.gram(answer.products, **words)
    of_table = titled(view, "positions.gram", products, note=view.t("positions.gram_note"))
    yield b.Columns((of_table, _projected(view, answer)))
    yield b.Prose(view.t("positions.limits"))
    yield b.Formula.of(
        view.t("positions.formula"),
        r"PE_{p,\,2i} = \sin(p\,\theta_i),\quad PE_{p,\,2i+1} = \cos(p\,\theta_i),\quad "
        r"\theta_i = \mathrm{base}^{-2i/d},\quad \lambda_i = 2\pi/\theta_i",
        r"PE_p\cdot PE_{p+n} = \sum_i \cos(n\,\theta_i)",
    )
    yield b.Code((numbers.table, numbers.wavelengths, numbers.dot_by_distance))
    wavelengths = [round(float(turn), 2) for turn in turns]
    names = [*map(view.t, ("positions.dimension", "positions.wavelength"))]
    columns = dict(zip(names, (range(width), wavelengths), strict=True))
    yield b.Numbers(lambda: columns)


def _controls(view: View, size: dict[str, int]) -> b.Blocks:
    def change(name: str, value: int) -> b.Change:
        return b.Change(lambda _: {name: value})

    for key, stops in STOPS.items():
        name = key.removeprefix("positions.")
        act, shown = partial(change, name), b.Display(220)
        yield b.Slider(key, view.t(key), stops, size[name], act, display=shown)
    config = view.loaded.config
    if config.positions == "sinusoidal":
        own = {"base": int(config.rope_base), "width": config.d_model}
        same = own.items() <= size.items()
        words = view.t("positions.own")
        yield b.Button("positions.own", words, b.Change(lambda _: own), disabled=same)


def _dimensions(view: View, width: int) -> list[int]:
    """The dimensions whose waves are drawn; defaults to four for every width."""
    proposed = tuple(sorted({int(share * width) // 2 * 2 for share in (0, 0.125, 0.25, 0.5)}))
    dims = view.choices(PositionsChoices).dims
    return [dim for dim in (proposed if dims is None else dims) if dim < width]


def _pick_dims(view: View, width: int, dims: list[int]) -> b.Several:
    return b.Several(
        f"positions.dims.{width}",
        view.t("positions.waves"),
        {dim: view.t("positions.dim", dim=dim) for dim in range(width)},
        dims,
        lambda chosen: b.choose(dims=tuple(chosen)),
        MOST_DIMS,
    )


def _projected(view: View, answer: Sinusoids) -> tuple[b.Block, ...]:
    """The dot products of the model's own positions after a head's projections."""
    if answer.projected is None:
        title = b.Title(view.t("positions.projected"))
        return title, b.Note(view.t("positions.projected_none"))
    note = view.t(
        "positions.projected_note",
        kind=view.t("kinds", view.kinds[0]),
        head=answer.head + 1,
        spread=percent(spread_by_distance(answer.projected)),
        asymmetry=percent(numbers.asymmetry(answer.projected)),
    )
    products = figures.gram(answer.projected, words=view.words("figures.positions"))
    return titled(view, "positions.projected", products, note=note)


EXHIBIT = Exhibit(compute, show)
