"""Chapter 4 of the guided tour: norms, blocks and depth."""

from collections.abc import Sequence

import numpy as np

from explorer.analysis.blocks.norms import NORMS, Norm, batch_of, normalised, statistics
from explorer.analysis.blocks.residual import PLACEMENTS, fresh_flow
from explorer.analysis.model.parameters import count
from explorer.analysis.positions.order import reading_stream
from explorer.exhibits import View, block as b
from explorer.exhibits.blocks.norms import compute as norms_of
from explorer.exhibits.tour import pictures
from explorer.exhibits.tour.attention import times
from explorer.exhibits.tour.later import Later, later, word
from explorer.exhibits.tour.posed import Posed, Words
from explorer.exhibits.tour.rows import MissingError, require
from explorer.figures.blocks import WiringNumbers, by_block, by_token, wiring
from explorer.figures.curves import lines
from explorer.figures.positions.sums import strips
from explorer.library import LoadedModel
from explorer.numbers import fixed, percent, share
from explorer.problems import InputProblem
from explorer.runs.trace import Trace

DEPTH = 8
"""Layers of the fresh models: enough to distinguish norm placements, few enough to be quick."""
SENTENCE = word("blocks.sentence", number=1)
SUBLAYERS = (("self", "attn_out"), ("cross", "cross_attn_out"), ("ffn", "ffn_out"))


def _normed(loaded: LoadedModel, trace: Trace) -> tuple[Norm, tuple[str, ...], np.ndarray]:
    """The norm of this model, the tokens of the text, and the input of its first block [pos,
    d_model]."""
    norm: Norm = "rmsnorm" if loaded.config.norm == "rmsnorm" else "layernorm"
    try:
        batch = batch_of(loaded, [trace.text])
    except InputProblem:
        raise MissingError("short") from None
    n = int(batch.valid[0].sum())
    require(n >= 2, "short")
    return norm, batch.tokens[0][:n], batch.x[0, :n]


def divides(loaded: LoadedModel, trace: Trace) -> Posed:
    """The divisors of this model's norm for the input of its first block."""
    norm, tokens, x = _normed(loaded, trace)
    scales, (n, width) = statistics(x[None], norm).scale[0], x.shape
    key = "blocks.rms" if norm == "rmsnorm" else "blocks.scale"
    data = scales[None], [tokens], [SENTENCE]
    top = float(scales.max())
    options = [f"{number:,}" for number in (n, width, 1, n * width)]
    low, high = (fixed(float(end), 2) for end in (scales.min(), scales.max()))
    words: Words = {"norm": word(f"designs.norm.{norm}"), "count": n, "width": f"{width:,}"}
    before = later(pictures.strip, "divides.strip", reading_stream(loaded), tokens)
    after = later(pictures.matrix, "divides", key, by_token, *data, title=key, top=top)
    place = {"part": "norms", "norm": norm}
    return Posed(options, words | {"low": low, "high": high}, [before], [after], place=place)


def tenfold(loaded: LoadedModel, trace: Trace) -> Posed:
    """Multiply the input of a norm by ten; missing if a large eps makes the outputs differ."""
    norm, _, x = _normed(loaded, trace)
    inputs = np.stack([x, 10 * x])
    outputs = np.stack([normalised(x[None], norm, loaded.config.norm_eps)[0] for x in inputs])
    small, large = (float(np.sqrt((output**2).mean())) for output in outputs)
    grown, name = large / small, word(f"designs.norm.{norm}")
    require(abs(grown - 1) < 0.02, "flat")
    names = [
        word(f"tour.{key}", norm=name) for key in ("vector", "vector_ten", "normed", "normed_ten")
    ]
    before, after = (
        later(pictures.matrix, "tenfold", "", strips, first, labels, words="figures.positions")
        for labels, first in ((names[:2], inputs[:, 0]), (names[2:], outputs[:, 0]))
    )
    options = [times(option) for option in (grown, 10, 10**0.5, 0.1)]
    place = {"part": "norms", "norm": norm}
    return Posed(options, {"norm": name, "grown": times(grown)}, [before], [after], place=place)


def company(loaded: LoadedModel, trace: Trace) -> Posed:
    """This sentence alone and in a batch with two examples, under each norm."""
    try:
        answer = norms_of(loaded, trace.text, ())
    except InputProblem:
        raise MissingError("short") from None
    n, stream = int(answer.batch.valid[0].sum()), reading_stream(loaded)
    tokens, shares = answer.batch.tokens[0][:n], answer.shares[:, :n]
    *_, second, first = np.sort(shares.mean(1))
    require(first > 0.01 > second, "flat")
    most = NORMS[int(shares.mean(1).argmax())]
    right, names = word(f"designs.norm.{most}"), [word(f"designs.norm.{norm}") for norm in NORMS]
    words = {"others": len(answer.batch.x) - 1, "norm": right, "moved": share(float(first))}
    before = later(pictures.strip, "company.strip", stream, tokens)
    place, kinds = {"part": "norms", "norm": most, "beside": ""}, (most, *NORMS)
    after = later(pictures.exhibited, "company", "blocks.norms", "blocks.moved", **place)
    return Posed([right, *names], words, [before], [after], place=place, names=kinds)


def _wiring(name: str, placements: Sequence[str]) -> list[Later[b.Block]]:
    """The wiring of norm placements, without numbers."""
    data = {place: WiringNumbers("", "", "", "") for place in placements}
    key, words = "blocks.wiring", "figures.residual"
    return [later(pictures.chart, f"{name}.wiring", key, wiring, data, words=words)]


def added(loaded: LoadedModel, trace: Trace) -> Posed:
    """The additions of the sublayers of the stack that generates to its stream, in order, each as
    its root mean square."""
    stack = trace.stack("tgt")
    sizes: dict[Later[str], float] = {}
    for layer in range(stack.n_layers):
        for name, what in SUBLAYERS:
            output = trace.activations.get(stack.block_hook(layer, what))
            if output is not None:
                square = (output.astype(np.float64) ** 2).mean()
                sizes[later(_sublayer, name, layer)] = float(np.sqrt(square))
    layers, right = stack.n_layers, len(sizes)
    require(sizes and right % layers == 0, "other_shape")
    per, data = right // layers, (list(sizes), np.array(list(sizes.values())))
    return Posed(
        [str(number) for number in (right, layers, 2 * layers, 3 * layers, per, right + 1)],
        {"layers": layers, "added": right},
        _wiring("added", [loaded.config.norm_placement]),
        [later(pictures.amounts, "added", *data, "tour.size", "")],
        told="told_cross" if per > 2 else "told",
    )


def _sublayer(view: View, name: str, layer: int) -> str:
    return f"{layer + 1} · {view.t(f'model.parts.{name}')}"


def _tokens(trace: Trace) -> tuple[int, ...]:
    """The text, for fresh models. Raises MissingError for fewer than three tokens."""
    tokens = trace.src_tokens or trace.tgt_tokens
    require(len(tokens) >= 3, "short")
    return tokens


def placement(loaded: LoadedModel, trace: Trace) -> Posed:
    """One fresh model per norm placement, and the factor by which its stream grows from after the
    first block to the end."""
    tokens, key = _tokens(trace), "blocks.stream"
    streams = {place: fresh_flow(tokens, place, DEPTH, True, (0,)).stream for place in PLACEMENTS}
    means = {place: stream.mean(0) for place, stream in streams.items()}
    growths = {place: float(mean[-1] / mean[1]) for place, mean in means.items()}
    steady, other, *_ = sorted(PLACEMENTS, key=lambda place: abs(growths[place] - 1))
    require(abs(growths[steady] - 1) < 0.1 < 0.3 < abs(growths[other] - 1), "flat")
    names = {place: word(f"tour.place_{place}") for place in PLACEMENTS}
    legend = [word(f"figures.residual.{place}") for place in PLACEMENTS]
    axes, order = ("blocks.block", "blocks.stream_axis"), (steady, *PLACEMENTS)
    own, options = names[loaded.config.norm_placement], [names[place] for place in order]
    words: Words = {"depth": DEPTH, "name": options[0], "own": own}
    words |= {place: times(growth) for place, growth in growths.items()}
    before, where = _wiring("placement", PLACEMENTS), {"part": "residual", "depth": DEPTH}
    after = later(pictures.chart, "placement", key, by_block, streams, legend, axes=axes)
    return Posed(options, words, before, [after], place=where, names=order)


def summed(loaded: LoadedModel, trace: Trace) -> Posed:
    """How the differences between tokens develop in a fresh pre-norm model, with and without the
    residual connection."""
    tokens = _tokens(trace)
    require(len(set(tokens)) >= 3, "short")
    spreads = np.stack(
        [
            fresh_flow(tokens, "pre", DEPTH, True, (0,), residual=residual).spread.mean(0)
            for residual in (True, False)
        ]
    )
    on, off = (float(spread[-1]) for spread in spreads)
    require(off < on / 4, "flat")
    names, key = [word("blocks.sum_on"), word("blocks.sum_off")], "blocks.spread"
    axes, x = ("blocks.block", "blocks.spread_axis"), np.arange(DEPTH + 1)
    before, after = (
        later(pictures.chart, "summed", key, lines, x, 100 * spreads[:n], names[:n], axes=axes)
        for n in (1, 2)
    )
    options = [percent(option) for option in (off, on, min(0.99, 1.5 * on), on / 2)]
    words, place = {"depth": DEPTH, "on": options[1], "off": options[0]}, {"part": "residual"}
    return Posed(options, words, [before], [after], place=place | {"depth": DEPTH})


def parts(loaded: LoadedModel, trace: Trace) -> Posed:
    """The parameters of each part of the first block of the stack that generates."""
    block = loaded.model.get_submodule(trace.stack("tgt").path("blocks", 0))
    counts = count(block).by_kind
    attention, ffn = counts["attention"] + counts["cross_attention"], counts["ffn"]
    require(ffn and attention, "other_shape")
    kinds = {"attention": attention, "ffn": ffn, "norms": counts["norms"]}
    named, whole = block.named_parameters(), sum(kinds.values())
    matrices = {name.removesuffix(".weight"): of.numel() for name, of in named if of.ndim == 2}
    keys = "tour.numbers_held", ""
    groups = {word(f"model.kinds.{kind}"): size for kind, size in kinds.items()}
    before, after = (
        later(pictures.amounts, "parts", list(sizes), np.array(list(sizes.values()), float), *keys)
        for sizes in (matrices, groups)
    )
    shares = (ffn / whole, attention / whole, 2 / 3, 1 / 2, 1 / 3, kinds["norms"] / whole)
    options = [percent(option) for option in shares]
    words = {kind: f"{size:,}" for kind, size in kinds.items()} | {"share": options[0]}
    return Posed(options, words, [before], [after])
