"""Chapter 4 of the path: norms, blocks and depth."""

from dataclasses import dataclass

import numpy as np

from explorer import text
from explorer.analysis.blocks.norms import (
    NORMS,
    Norm,
    batch_of,
    moved_by_others,
    normalised,
    statistics,
)
from explorer.analysis.blocks.residual import PLACEMENTS, StreamNorms, fresh_flow
from explorer.analysis.positions.order import reading_stream
from explorer.exhibits.tour.found import Missing
from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.runs.trace import Trace
from models.config import NormPlacement
from models.rows import Stream

DEPTH = 8
"""Layers of the fresh models: enough to distinguish norm placements, few enough to be quick."""


@dataclass(frozen=True, eq=False)
class Scales:
    """The divisor of a norm for the tokens of a text: vectors x [pos, d_model], scales [pos]."""

    norm: Norm
    stream: Stream
    tokens: tuple[str, ...]
    x: np.ndarray
    scales: np.ndarray
    eps: float

    def after(self, factor: float) -> np.ndarray:
        """The norm of `factor` times x, [pos, d_model]."""
        return normalised(factor * self.x[None], self.norm, self.eps)[0]

    @property
    def grown(self) -> float:
        """The factor by which the output grows if the input is ten times as large."""
        both = [float(np.sqrt((self.after(factor) ** 2).mean())) for factor in (1.0, 10.0)]
        return both[1] / both[0]


def scales(loaded: LoadedModel, trace: Trace) -> Scales | Missing:
    """The norm of this model on the input of its first block."""
    norm: Norm = "rmsnorm" if loaded.config.norm == "rmsnorm" else "layernorm"
    try:
        batch = batch_of(loaded, [trace.text])
    except InputProblem:
        return Missing("short")
    n = int(batch.valid[0].sum())
    if n < 2:
        return Missing("short")
    x = batch.x[0, :n]
    found = statistics(x[None], norm).scale[0]
    return Scales(
        norm, reading_stream(loaded), batch.tokens[0][:n], x, found, loaded.config.norm_eps
    )


def tenfold(loaded: LoadedModel, trace: Trace) -> Scales | Missing:
    """Multiply the input of a norm by ten; `Missing` if a large eps makes the outputs differ."""
    found = scales(loaded, trace)
    return found if isinstance(found, Missing) or abs(found.grown - 1) < 0.02 else Missing("flat")


@dataclass(frozen=True, eq=False)
class Company:
    """How far each token's vector moves because other texts share its batch, [norm, pos]."""

    stream: Stream
    tokens: tuple[str, ...]
    others: tuple[str, ...]
    shares: np.ndarray

    @property
    def most(self) -> Norm:
        """The norm under which the sentence's vectors move most."""
        return NORMS[int(self.shares.mean(1).argmax())]

    def mean(self, norm: Norm) -> float:
        """The mean change under a norm."""
        return float(self.shares[NORMS.index(norm)].mean())


def company(loaded: LoadedModel, trace: Trace) -> Company | Missing:
    """This sentence alone and in a batch with two examples, under each norm."""
    first = next(iter(text.examples(loaded.name, like=loaded.like).values()))
    others = tuple(sentence for sentence in first if sentence != trace.text)[:2]
    try:
        shares, _ = moved_by_others(loaded, [trace.text, *others])
        tokens = batch_of(loaded, [trace.text]).tokens[0]
    except InputProblem:
        return Missing("short")
    found = Company(reading_stream(loaded), tokens, others, shares[:, : len(tokens)])
    means = sorted(found.mean(norm) for norm in NORMS)
    return found if means[-1] > 0.01 > means[-2] else Missing("flat")


@dataclass(frozen=True, eq=False)
class Added:
    """The additions of a stack's sublayers to the stream, in order.

    `names` are "self", "cross" or "ffn" with their layer (from 0); `sizes` the root mean square of
    each addition.
    """

    stream: Stream
    n_layers: int
    names: tuple[tuple[str, int], ...]
    sizes: np.ndarray

    @property
    def per_layer(self) -> int:
        """Sublayers per layer."""
        return len(self.names) // self.n_layers


SUBLAYERS = (("self", "attn_out"), ("cross", "cross_attn_out"), ("ffn", "ffn_out"))


def added(loaded: LoadedModel, trace: Trace) -> Added | Missing:
    """The sublayers of the stack that generates."""
    stack = trace.stack("tgt")
    names, sizes = [], []
    for layer in range(stack.n_layers):
        for name, what in SUBLAYERS:
            values = trace.activations.get(stack.block_hook(layer, what))
            if values is not None:
                names.append((name, layer))
                sizes.append(float(np.sqrt((values.astype(np.float64) ** 2).mean())))
    if len(names) % stack.n_layers or not names:
        return Missing("other_shape")
    return Added("tgt", stack.n_layers, tuple(names), np.array(sizes))


@dataclass(frozen=True, eq=False)
class NormPlacements:
    """Fresh models, one per norm placement, that read this text."""

    depth: int
    flows: dict[str, StreamNorms]

    def growth(self, placement: str) -> float:
        """The factor by which the stream grows from after the first block to the end."""
        stream = self.flows[placement].stream.mean(0)
        return float(stream[-1] / stream[1])


def _ids(trace: Trace) -> tuple[int, ...]:
    return trace.src_tokens or trace.tgt_tokens


def placement(loaded: LoadedModel, trace: Trace) -> NormPlacements | Missing:
    """One fresh model per norm placement, and the size of its stream."""
    if len(_ids(trace)) < 3:
        return Missing("short")
    flows: dict[str, StreamNorms] = {}
    for place in PLACEMENTS:
        flows[place] = fresh_flow(_ids(trace), place, DEPTH, True, (0,))
    found = NormPlacements(DEPTH, flows)
    steady = sorted(abs(found.growth(place) - 1) for place in flows)
    return found if steady[0] < 0.1 < 0.3 < steady[1] else Missing("flat")


@dataclass(frozen=True, eq=False)
class Spreads:
    """A fresh pre-norm model with x + f(x), and with f(x) alone: spread [place] of its tokens."""

    depth: int
    on: np.ndarray
    off: np.ndarray


def summed(loaded: LoadedModel, trace: Trace) -> Spreads | Missing:
    """How the differences between tokens develop without the residual connection."""
    if len(set(_ids(trace))) < 3:
        return Missing("short")
    place: NormPlacement = "pre"
    on, off = (
        fresh_flow(_ids(trace), place, DEPTH, True, (0,), residual=residual).spread.mean(0)
        for residual in (True, False)
    )
    return Spreads(DEPTH, on, off) if off[-1] < on[-1] / 4 else Missing("flat")


@dataclass(frozen=True)
class BlockSizes:
    """The parameters of each part of one block, and of each of its matrices by name."""

    attention: int
    ffn: int
    norms: int
    matrices: tuple[tuple[str, int], ...]

    @property
    def share(self) -> float:
        """The feed-forward network's share."""
        return self.ffn / (self.attention + self.ffn + self.norms)


def parts(loaded: LoadedModel, trace: Trace) -> BlockSizes | Missing:
    """Count the first block of the stack that generates."""
    stack = trace.stack("tgt")
    block = loaded.model.get_submodule(stack.path("blocks", 0))
    counts = {"attention": 0, "ffn": 0, "norms": 0}
    matrices = []
    for name, parameter in block.named_parameters():
        part = "ffn" if name.startswith("ffn.") else "attention"
        counts["norms" if "norm" in name else part] += parameter.numel()
        if parameter.ndim == 2:
            matrices.append((name.removesuffix(".weight"), parameter.numel()))
    if not counts["ffn"] or not counts["attention"]:
        return Missing("other_shape")
    return BlockSizes(counts["attention"], counts["ffn"], counts["norms"], tuple(matrices))
