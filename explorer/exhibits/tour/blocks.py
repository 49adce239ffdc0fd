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
from explorer.exhibits.tour.asked import Posed, Step
from explorer.exhibits.tour.attention import times
from explorer.exhibits.tour.later import Later, later, word
from explorer.exhibits.tour.rows import MissingError
from explorer.figures.blocks import WiringNumbers, by_block, by_token, wiring
from explorer.figures.curves import lines
from explorer.figures.measured import measured
from explorer.figures.order import moved
from explorer.figures.positions.sums import strips
from explorer.library import LoadedModel
from explorer.numbers import fixed, percent, share
from explorer.problems import InputProblem
from explorer.runs.trace import Trace

DEPTH = 8
"""Layers of the fresh models: enough to distinguish norm placements, few enough to be quick."""
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
    if n < 2:
        raise MissingError("short")
    return norm, batch.tokens[0][:n], batch.x[0, :n]


def divides(loaded: LoadedModel, trace: Trace) -> Posed:
    """The divisors of this model's norm for the input of its first block."""
    norm, tokens, x = _normed(loaded, trace)
    scales, (n, width) = statistics(x[None], norm).scale[0], x.shape
    title = word("blocks.rms" if norm == "rmsnorm" else "blocks.scale")
    chart = later(
        pictures.chart,
        "divides",
        title,
        by_token,
        scales[None],
        np.ones((1, n), bool),
        [tokens],
        [word("blocks.sentence", number=1)],
        title=title,
        top=float(scales.max()),
    )
    return Posed(
        [f"{number:,}" for number in (n, width, 1, n * width)],
        {
            "norm": word(f"blocks.{norm}"),
            "count": n,
            "width": f"{width:,}",
            "low": fixed(float(scales.min()), 2),
            "high": fixed(float(scales.max()), 2),
        },
        [later(pictures.strip, "divides.strip", reading_stream(loaded), tokens)],
        [chart],
        place={"part": "norms", "norm": norm},
    )


def tenfold(loaded: LoadedModel, trace: Trace) -> Posed:
    """Multiply the input of a norm by ten; missing if a large eps makes the outputs differ."""
    norm, _, x = _normed(loaded, trace)
    normed, ten = (normalised(by * x[None], norm, loaded.config.norm_eps)[0] for by in (1.0, 10.0))
    sizes = [float(np.sqrt((output**2).mean())) for output in (normed, ten)]
    grown, name = sizes[1] / sizes[0], word(f"blocks.{norm}")
    if abs(grown - 1) >= 0.02:
        raise MissingError("flat")

    def picture(rows: Sequence[np.ndarray], names: list[Later[str]]) -> list[Later[b.Block]]:
        words = later(View.words, "figures.positions")
        alt = later(_joined, names)
        return [later(pictures.chart, "tenfold", alt, strips, np.stack(rows), names, words=words)]

    return Posed(
        [times(option) for option in (grown, 10, 10**0.5, 0.1)],
        {"norm": name, "grown": times(grown)},
        picture((x[0], 10 * x[0]), [word("tour.vector"), word("tour.vector_ten")]),
        picture(
            (normed[0], ten[0]),
            [word("tour.normed", norm=name), word("tour.normed_ten", norm=name)],
        ),
        place={"part": "norms", "norm": norm},
    )


def _joined(view: View, names: Sequence[str]) -> str:
    return " · ".join(names)


def company(loaded: LoadedModel, trace: Trace) -> Posed:
    """This sentence alone and in a batch with two examples, under each norm."""
    try:
        answer = norms_of(loaded, trace.text, ())
    except InputProblem:
        raise MissingError("short") from None
    n, stream = int(answer.batch.valid[0].sum()), reading_stream(loaded)
    tokens, shares = answer.batch.tokens[0][:n], answer.shares[:, :n]
    means = shares.mean(1)
    most, names = NORMS[int(means.argmax())], {norm: word(f"blocks.{norm}") for norm in NORMS}
    if not np.sort(means)[-1] > 0.01 > np.sort(means)[-2]:
        raise MissingError("flat")
    chart = later(
        pictures.chart,
        "company",
        word("blocks.who_moves"),
        moved,
        tokens,
        shares,
        list(names.values()),
        y_title=word("blocks.moved"),
        x_title=word("blocks.sentence", number=1),
        stream=stream,
    )
    return Posed(
        [names[norm] for norm in (most, *NORMS)],
        {
            "others": len(answer.batch.x) - 1,
            "norm": names[most],
            "moved": share(float(means.max())),
        },
        [later(pictures.strip, "company.strip", stream, tokens)],
        [chart],
        place={"part": "norms", "norm": most},
        names=(most, *NORMS),
    )


def _wiring(name: str, placements: Sequence[str]) -> list[Later[b.Block]]:
    """The wiring of norm placements, without numbers."""
    wirings = {place: WiringNumbers("", "", "", "") for place in placements}
    words = later(View.words, "figures.residual")
    alt = word("blocks.wiring")
    return [later(pictures.chart, f"{name}.wiring", alt, wiring, wirings, words=words)]


def added(loaded: LoadedModel, trace: Trace) -> Posed:
    """The additions of the sublayers of the stack that generates to its stream, in order, each as
    its root mean square."""
    stack = trace.stack("tgt")
    names, sizes = [], []
    for layer in range(stack.n_layers):
        for name, what in SUBLAYERS:
            output = trace.activations.get(stack.block_hook(layer, what))
            if output is not None:
                names.append(later(_sublayer, name, layer))
                sizes.append(float(np.sqrt((output.astype(np.float64) ** 2).mean())))
    layers, right = stack.n_layers, len(names)
    if right % layers or not names:
        raise MissingError("other_shape")
    per, size = right // layers, word("tour.size")
    return Posed(
        [str(number) for number in (right, layers, 2 * layers, 3 * layers, per, right + 1)],
        {"layers": layers, "added": right},
        _wiring("added", [loaded.config.norm_placement]),
        [later(pictures.chart, "added", "", measured, names, np.array(sizes), title=size)],
        told="told_cross" if per > 2 else "told",
    )


def _sublayer(view: View, name: str, layer: int) -> str:
    return f"{layer + 1} · {view.t(f'model.parts.{name}')}"


def _tokens(trace: Trace, least: int) -> tuple[int, ...]:
    """The text, for fresh models. Raises MissingError if it has too few tokens."""
    tokens = trace.src_tokens or trace.tgt_tokens
    if len(tokens) < least:
        raise MissingError("short")
    return tokens


def placement(loaded: LoadedModel, trace: Trace) -> Posed:
    """One fresh model per norm placement, and the factor by which its stream grows from after the
    first block to the end."""
    tokens = _tokens(trace, 3)
    streams = {place: fresh_flow(tokens, place, DEPTH, True, (0,)).stream for place in PLACEMENTS}
    means = {place: stream.mean(0) for place, stream in streams.items()}
    growths = {place: float(mean[-1] / mean[1]) for place, mean in means.items()}
    steady, other, *_ = sorted(PLACEMENTS, key=lambda place: abs(growths[place] - 1))
    if not abs(growths[steady] - 1) < 0.1 < 0.3 < abs(growths[other] - 1):
        raise MissingError("flat")
    names = {place: word(f"tour.place_{place}") for place in PLACEMENTS}
    chart = later(
        pictures.chart,
        "placement",
        word("blocks.stream"),
        by_block,
        streams,
        [word(f"figures.residual.{place}") for place in PLACEMENTS],
        x_title=word("blocks.block"),
        y_title=word("blocks.stream_axis"),
    )
    return Posed(
        [names[place] for place in (steady, *PLACEMENTS)],
        {
            "depth": DEPTH,
            "name": names[steady],
            "own": names[loaded.config.norm_placement],
            **{place: times(growth) for place, growth in growths.items()},
        },
        _wiring("placement", PLACEMENTS),
        [chart],
        place={"part": "residual", "depth": DEPTH},
        names=(steady, *PLACEMENTS),
    )


def summed(loaded: LoadedModel, trace: Trace) -> Posed:
    """How the differences between tokens develop in a fresh pre-norm model, with and without the
    residual connection."""
    tokens = _tokens(trace, 3)
    if len(set(tokens)) < 3:
        raise MissingError("short")
    spreads = [
        100 * fresh_flow(tokens, "pre", DEPTH, True, (0,), residual=residual).spread.mean(0)
        for residual in (True, False)
    ]
    on, off = (float(spread[-1]) / 100 for spread in spreads)
    if off >= on / 4:
        raise MissingError("flat")
    names = [word("blocks.sum_on"), word("blocks.sum_off")]
    before, after = (
        later(
            pictures.chart,
            "summed",
            word("blocks.spread"),
            lines,
            np.arange(DEPTH + 1),
            np.stack(spreads[:shown]),
            names[:shown],
            x_title=word("blocks.block"),
            y_title=word("blocks.spread_axis"),
        )
        for shown in (1, 2)
    )
    return Posed(
        [percent(option) for option in (off, on, min(0.99, 1.5 * on), on / 2)],
        {"depth": DEPTH, "on": percent(on), "off": percent(off)},
        [before],
        [after],
        place={"part": "residual", "depth": DEPTH},
    )


def parts(loaded: LoadedModel, trace: Trace) -> Posed:
    """The parameters of each part of the first block of the stack that generates."""
    block = loaded.model.get_submodule(trace.stack("tgt").path("blocks", 0))
    counts = count(block).by_kind
    attention, ffn = counts["attention"] + counts["cross_attention"], counts["ffn"]
    if not ffn or not attention:
        raise MissingError("other_shape")
    norms, named = counts["norms"], block.named_parameters()
    whole = attention + ffn + norms
    matrices = {name.removesuffix(".weight"): of.numel() for name, of in named if of.ndim == 2}
    kinds = {"attention": attention, "ffn": ffn, "norms": norms}
    title = word("tour.numbers_held")
    before, after = (
        later(pictures.chart, "parts", "", measured, names, np.array(sizes, float), title=title)
        for names, sizes in (
            (list(matrices), list(matrices.values())),
            ([word(f"model.kinds.{kind}") for kind in kinds], list(kinds.values())),
        )
    )
    shares = (ffn / whole, attention / whole, 2 / 3, 1 / 2, 1 / 3, norms / whole)
    return Posed(
        [percent(option) for option in shares],
        {**{kind: f"{size:,}" for kind, size in kinds.items()}, "share": percent(ffn / whole)},
        [before],
        [after],
    )


STEPS = (
    Step(
        divides,
        "blocks",
        r"\mathrm{LayerNorm}(x) = \gamma\,\frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} + \beta",
    ),
    Step(tenfold, "blocks", r"\frac{10x - 10\mu}{10\,\sigma} = \frac{x - \mu}{\sigma}"),
    Step(
        company,
        "blocks",
        r"\mathrm{BatchNorm}(x)_i = \gamma_i\,\frac{x_i - \mu_i}{\sqrt{\sigma_i^2 + \varepsilon}}"
        r" + \beta_i,\qquad \mu_i, \sigma_i^2\ \text{over all tokens}",
    ),
    Step(added, "model", r"x_{\ell + 1} = x_\ell + f_\ell(x_\ell)"),
    Step(
        placement,
        "blocks",
        r"\text{post}:\ \mathrm{Norm}(x + f(x)),\qquad \text{pre}:\ x + f(\mathrm{Norm}(x))"
        r",\qquad \text{sublayer output}:\ x + \mathrm{Norm}(f(x))",
    ),
    Step(
        summed,
        "blocks",
        r"\text{spread}(X) = \frac{\lVert X - \mathbf{1}\,\bar{x}^{\top} \rVert}{\lVert X \rVert}",
    ),
    Step(parts, "model", r"4\,d_\mathrm{model}^2,\qquad 2\,d_\mathrm{model}\,d_\mathrm{ff}"),
)
