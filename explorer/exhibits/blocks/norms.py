"""LayerNorm, RMSNorm and BatchNorm on the same padded batch of the user's sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from explorer.analysis.blocks.norms import (
    NORMS,
    Norm,
    PaddedSentences,
    batch_of,
    layer_norm_forward,
    normalised,
    statistics,
)
from explorer.analysis.positions.order import reading_stream
from explorer.engine.cache import examples_of
from explorer.exhibits import Exhibit, block as b
from explorer.exhibits.blocks.choices import BlocksChoices
from explorer.exhibits.choices import ScreenChoices
from explorer.exhibits.picking import pick_one, titled
from explorer.exhibits.saying import placement
from explorer.exhibits.view import View
from explorer.figures import blocks as figures
from explorer.figures.bars import WIDE, grouped
from explorer.figures.curves import lines
from explorer.library import LoadedModel
from explorer.numbers import number, share
from models.norms import RMSNorm


def eps_curves(
    x: Float[np.ndarray, " d_model"],
    scales: Float[np.ndarray, " scale"],
    epsilons: Sequence[float],
    norm: Literal["layernorm", "rmsnorm", "rms_outside"] = "layernorm",
) -> Float[np.ndarray, "eps scale"]:
    """The root mean square after a norm of `x` times each scale, for each eps.

    It is 1 while eps is small compared with the input, and proportional to the input otherwise.
    "rms_outside" is the variant x / (rms + eps) with eps outside of the root.
    """
    scaled = x[None, None, :] * scales[None, :, None]  # [1, scale, d_model]
    curves = []
    for eps in epsilons:
        if norm == "rms_outside":
            out = scaled / (statistics(scaled, "rmsnorm").scale[..., None] + eps)
        else:
            out = normalised(scaled, norm, eps)
        curves.append(np.sqrt((out[0] ** 2).mean(-1)))
    return np.stack(curves)


def moved_by_others(loaded: LoadedModel, sentences: Sequence[str]) -> Float[np.ndarray, "norm pos"]:
    """How far the first sentence's vectors move because of the rest of the batch, by norm.

    |together - alone| / |alone| of each token, or / |together| if alone is 0; `alone` is a batch of
    that sentence only. Raises InputProblem and ValueError as `batch_of` does.
    """
    together, alone = batch_of(loaded, sentences), batch_of(loaded, sentences[:1])
    n = alone.x.shape[1]
    shares = []
    for norm in NORMS:
        before = normalised(alone.x, norm)[0]
        after = normalised(together.x, norm)[0, :n]
        size, size_after = (np.linalg.norm(vectors, axis=-1) for vectors in (before, after))
        size = np.where(size < 1e-9, size_after, size)  # one token alone is 0 under BatchNorm
        shares.append(np.linalg.norm(after - before, axis=-1) / np.maximum(size, 1e-12))
    return np.stack(shares)


EPSILONS = (1e-12, 1e-8, 1e-6, 1e-5)


SCALES = np.logspace(-6, 1, 57)


@dataclass(frozen=True, eq=False)
class Norms:
    """A batch, how far each norm moves the first sentence in it (`shares` [norm, pos]), and output
    sizes by input size: for each eps, and for eps inside and outside of the root."""

    batch: PaddedSentences
    shares: np.ndarray
    by_eps: np.ndarray
    by_place: np.ndarray


def compute(loaded: LoadedModel, text: str, others: tuple[str, ...]) -> Norms:
    """The sentence and further ones, two examples if there are none. Raises InputProblem."""
    first = next(iter(examples_of(loaded.name).values()))
    sentences = [text, *(others or [example for example in first if example != text][:2])]
    batch = batch_of(loaded, sentences)
    x = batch.x[0, 0] / max(float(statistics(batch.x, "layernorm").scale[0, 0]), 1e-9)
    inside, outside = (
        eps_curves(x, SCALES, (1e-6,), kind)[0] for kind in ("rmsnorm", "rms_outside")
    )
    by_eps = eps_curves(x, SCALES, EPSILONS)
    return Norms(batch, moved_by_others(loaded, sentences), by_eps, np.stack([inside, outside]))


def model_line(view: View) -> b.Blocks:
    """Norm, placement, feed-forward network and eps of the open model, in one line that is left out
    in presentation mode."""
    config = view.loaded.config
    if not view.choices(ScreenChoices).beamer:
        norm, ffn = view.t("designs.norm", config.norm), view.t("designs.ffn", config.ffn)
        words = {"norm": norm, "ffn": ffn, "eps": number(config.norm_eps)}
        yield b.Note(view.t("blocks.model", placement=placement(view), **words))


def show(norms: Norms, view: View) -> b.Blocks:
    """Statistics as heatmaps, dependence on other tokens, and eps."""
    yield from model_line(view)
    norm = next((kind for kind in NORMS if kind == view.chosen("norm", BlocksChoices)), NORMS[0])
    yield pick_one(view, "blocks.norm", NORMS, norm, said="designs.norm")
    yield from _statistics(view, norms.batch, norm)
    yield from _who_moves(view, norms)
    yield from _eps(view, norms)
    yield b.Formula.of(
        f"{view.t('blocks.batch', others=len(norms.batch.x) - 1)}\n\n{view.t('blocks.formula')}",
        r"\mathrm{LayerNorm}(x) = \gamma\,\frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} + \beta"
        r",\qquad \mathrm{RMSNorm}(x) = \gamma\,\frac{x}{\sqrt{\frac1d\sum_i x_i^2 +"
        r" \varepsilon}}",
        r"\mathrm{BatchNorm}(x)_i = \gamma_i\,\frac{x_i - \mu_i}{\sqrt{\sigma_i^2 + "
        r"\varepsilon}} + \beta_i,\qquad \mu_i, \sigma_i^2\ \text{over all tokens}",
    )
    yield b.Code((statistics, normalised, layer_norm_forward, RMSNorm, moved_by_others, eps_curves))
    yield b.Numbers(lambda: _numbers(view, norms.batch))


def _statistics(view: View, batch: PaddedSentences, norm: Norm) -> b.Blocks:
    moments = statistics(batch.x, norm)
    yield b.Sentence("norm", view.t("blocks.computes", norm, count=moments.scale.size))
    both = {"mean": "blocks.mean", "scale": "blocks.scale"}
    titles = {"scale": "blocks.rms"} if norm == "rmsnorm" else both
    names = [view.t("blocks.sentence", number=at + 1) for at in range(len(batch.x))]
    for name, key in titles.items():
        values, title = getattr(moments, name), view.t(key)
        top = float(np.abs(values).max(initial=1e-6))
        more: dict[str, Any] = {"title": title, "top": top}
        if norm == "batchnorm":
            drawn = figures.by_feature(values, x_title=view.t("blocks.feature"), **more)
        else:
            drawn = figures.by_token(values, batch.tokens, names, **more)
        yield from titled(view, f"blocks.statistics.{name}", drawn, title)


def _who_moves(view: View, norms: Norms) -> b.Blocks:
    """The user's sentence in this batch compared with the same sentence alone."""
    batch = norms.batch
    tokens = [token for token, valid in zip(batch.tokens[0], batch.valid[0], strict=True) if valid]
    stream = reading_stream(view.loaded)
    draw = partial(
        grouped,
        tokens,
        [100 * shares[: len(tokens)] for shares in norms.shares],
        [view.t("designs.norm", name) for name in NORMS],
        title=view.t("blocks.moved"),
        label_title=view.t("blocks.sentence", number=1),
        stream=stream,
        streams=(stream,),
        unit=" %",
        height=340,
        room=WIDE,
    )
    yield from titled(view, "blocks.moved", draw, view.t("blocks.who_moves"))
    layer, rms, batchnorm = (share(float(row.mean())) for row in norms.shares)
    words = view.t("blocks.read_moved", batch=batchnorm, layer=layer, rms=rms)
    yield b.Sentence("moved", words)


def _eps(view: View, norms: Norms) -> b.Blocks:
    """The output size against the input size, for several eps."""
    words = view.axes("blocks.input_size", "blocks.output_size")
    names = [f"ε = {eps:.0e}".replace("e-0", "e-") for eps in EPSILONS]
    places = [view.t("blocks.inside"), view.t("blocks.outside")]
    more: dict[str, Any] = {"log_x": True, "height": 300, **words}
    by_eps = partial(lines, SCALES, norms.by_eps, names, **more)
    by_place = partial(lines, SCALES, norms.by_place, places, **more)
    eps = titled(view, "blocks.eps", by_eps, note=view.t("blocks.eps_note"))
    note = view.t("blocks.eps_place_note")
    yield b.Columns((eps, titled(view, "blocks.eps_place", by_place, note=note)))


def _numbers(view: View, batch: PaddedSentences) -> dict[str, list[object]]:
    layer, rms = (statistics(batch.x, name) for name in ("layernorm", "rmsnorm"))
    return {
        view.t("blocks.sentence", number=1): list(batch.tokens[0]),
        view.t("blocks.mean"): layer.mean[0].round(4).tolist(),
        view.t("blocks.scale"): layer.scale[0].round(4).tolist(),
        view.t("blocks.rms"): rms.scale[0].round(4).tolist(),
    }


EXHIBIT = Exhibit(compute, show)
