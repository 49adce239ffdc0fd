"""Token + position: both vectors of a word and their sum, compared with concatenation.

A concatenation [e; p] read by a matrix [W_e W_p] gives W_e e + W_p p. The sum is the special case
in which both halves are the same matrix: W (e + p) = [W W] [e; p]. Then only the directions that
training finds separate the two.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from explorer.analysis.model.parameters import count_config
from explorer.exhibits import Exhibit, View, block as b, saying
from explorer.exhibits.picking import pick_stream, pick_token
from explorer.exhibits.positions.choices import PositionsChoices
from explorer.exhibits.positions.opening import opening
from explorer.figures.curves import lines
from explorer.figures.positions import sums as figures
from explorer.library import LoadedModel
from explorer.numbers import fixed, percent
from explorer.runs.trace import Trace
from models.config import ModelConfig
from models.foreign.placing import outside
from models.rows import Stream
from models.transformer import Stack

ENERGY = 0.99
"""The share of the position vectors' squared norm that their span must contain."""


@dataclass(frozen=True, eq=False)
class Addends:
    """The addends at each place of a stream, [pos, d_model]: the scaled embedding, the position
    vector, and the sum."""

    token: Float[np.ndarray, "pos d_model"]
    position: Float[np.ndarray, "pos d_model"]
    total: Float[np.ndarray, "pos d_model"]

    def lengths(self, at: int) -> tuple[float, float, float]:
        """|token|, |position| and |sum| at one place."""
        token, position, total = (
            float(np.linalg.norm(vectors[at]))
            for vectors in (self.token, self.position, self.total)
        )
        return token, position, total

    def angle(self, at: int) -> float:
        """Between token and position at one place, in degrees."""
        return angle(self.token[at], self.position[at])

    def turned(self, at: int) -> float:
        """Between token and sum at one place, in degrees."""
        return angle(self.token[at], self.total[at])


def angle(one: Float[np.ndarray, " n"], other: Float[np.ndarray, " n"]) -> float:
    """Between two vectors, in degrees, from 0 to 180; NaN where one of them is 0."""
    lengths = float(np.linalg.norm(one)) * float(np.linalg.norm(other))
    if lengths == 0:
        return float("nan")
    cosine = float(one.astype(np.float64) @ other.astype(np.float64)) / lengths
    return float(np.degrees(np.arccos(np.clip(cosine, -1, 1))))


def sums(traced: Trace, stream: Stream) -> Addends | None:
    """The sum at each place of a stream of the Trace; None where positions add nothing to it."""
    for stack in traced.stacks:
        position = traced.activations.get(stack.hook("pos_embed"))
        if stack.stream == stream and position is not None:
            token = traced.activations[stack.hook("embed")]
            return Addends(token, position, token + position)
    return None


@dataclass(frozen=True)
class Overlap:
    """How much of the embeddings lies in the subspace of the positions.

    The position vectors lie, up to 1 % of their squared norm, in a subspace of `n` of the `of`
    dimensions. `share` is the share of the embeddings' squared norm in that subspace; for random
    directions it would be n / of.
    """

    n: int
    of: int
    share: float

    @property
    def by_chance(self) -> float:
        """The share expected for random directions."""
        return self.n / self.of


@torch.inference_mode()
def room(loaded: LoadedModel, stream: Stream) -> Overlap:
    """For the whole vocabulary and all n_ctx positions. Only for models that add positions."""
    stack = loaded.stack(stream)
    module = loaded.model.get_submodule(stack.name) if stack.name else loaded.model
    assert isinstance(module, Stack)
    added = module.positions.added(torch.arange(loaded.config.n_ctx)[None])
    assert added is not None
    weight = outside(module.embed.weight)  # of patches, a column for each pixel
    tokens = weight if isinstance(module.embed, nn.Embedding) else weight.T
    return shared_room(outside(added[0]).double().numpy(), tokens.double().numpy())


def shared_room(
    positions: Float[np.ndarray, "pos d_model"], tokens: Float[np.ndarray, "token d_model"]
) -> Overlap:
    """The `Overlap` of these vectors."""
    _, sizes, directions = np.linalg.svd(positions, full_matrices=False)
    held = np.cumsum(sizes**2) / np.sum(sizes**2)
    n = int(np.searchsorted(held, ENERGY) + 1)
    inside = tokens @ directions[:n].T
    share = float(np.sum(inside**2) / np.sum(tokens**2))
    return Overlap(n, positions.shape[1], share)


@dataclass(frozen=True)
class Widths:
    """Parameters of the model: with the sum, with [e; p] mapped back to d_model by one matrix, and
    with blocks as wide as [e; p]."""

    summed: int
    mapped: int
    wide: int


def widths(config: ModelConfig) -> Widths:
    """Counted from models on the meta device. Blocks twice as wide need an output matrix of that
    width, which can no longer be tied to embeddings of d_model."""
    d, built = config.d_model, count_config(replace(config, d_model=2 * config.d_model))
    table = (config.vocab_size - (config.src_vocab_size or 0)) * d
    # Lookup tables, of words and of learned positions, have half that width.
    tables = table if config.tie_embeddings and config.lm_head else -built.by_kind["embedding"] // 2
    summed = count_config(config).total
    wide = built.total + tables - built.by_kind["positions"] // 2
    inputs = 2 if config.reads_source else 1
    return Widths(summed, summed + inputs * 2 * d * d, wide)


Answer = tuple[Addends, Overlap, Widths]


def compute(loaded: LoadedModel, trace: Trace, stream: Stream) -> Answer | None:
    """The sums of a sequence, the room of both parts, and the cost of concatenation; None for a
    model that adds no positions to its embeddings."""
    vectors = sums(trace, stream)
    return None if vectors is None else (vectors, room(loaded, stream), widths(loaded.config))


def show(answer: Answer | None, view: View) -> b.Blocks:
    """The vectors of one token, the angles of all, and the cost of concatenation."""
    yield from opening(view)
    if streams := pick_stream(view, "positions.stream.sum"):
        yield b.Row(streams)
    if answer is None:
        yield b.Hint(view.t("positions.sum.nothing_added"))
        return
    (vectors, space, counted), tokens = answer, view.str_tokens()
    at = min(view.choices(PositionsChoices).place, len(tokens) - 1)
    yield pick_token(view, "positions.place", "positions.sum.token", tokens, at, "place", width=260)
    yield from _drawn(view, vectors, at, tokens[at])
    yield from _every(view, vectors)
    yield from _concatenated(view, space, counted)
    yield b.Formula.of(
        view.t("positions.sum.formula"),
        r"x_p = s\,E[w_p] + P[p], \qquad s = \sqrt{d} \;\text{or}\; 1",
        r"W(e + p) = \begin{pmatrix} W & W \end{pmatrix}"
        r"\begin{pmatrix} e \\ p \end{pmatrix}, \qquad "
        r"\cos(e, p) = \frac{e \cdot p}{\lVert e\rVert\,\lVert p\rVert}",
    )
    yield b.Code((view.loaded.model.last_stack.embed_tokens, sums, room, widths))
    parts = {"word": vectors.token[at], "position": vectors.position[at], "sum": vectors.total[at]}
    named = {view.t("positions.sum.parts", name): part for name, part in parts.items()}
    columns = {name: [f"{x:.4f}" for x in part] for name, part in named.items()}
    dimensions = list(range(vectors.total.shape[1]))
    yield b.Numbers(lambda: {view.t("positions.sum.dimension"): dimensions, **columns})


def _drawn(view: View, addends: Addends, at: int, token: str) -> b.Blocks:
    """The vectors of one token, by component and as arrows."""
    lengths, degrees = addends.lengths(at), addends.angle(at)
    words = view.t(
        "positions.sum.reading_typed"
        if view.loaded.config.n_types > 1
        else "positions.sum.reading",
        token=saying.quoted(view, token),
        at=at,
        word=fixed(lengths[0]),
        position=fixed(lengths[1]),
        angle=fixed(degrees, 0),
    )
    yield b.Sentence("sums", words)
    names = [view.t("positions.sum.parts", name) for name in ("word", "position", "sum")]
    values = np.stack([addends.token[at], addends.position[at], addends.total[at]])
    strips = figures.strips(values, names, words=view.words("figures.positions"))
    left = b.Matrices("positions.sum.strips", ((view.t("positions.sum.strips"), strips),))
    plane = partial(figures.plane, lengths[:2], degrees, names)
    title = view.t("positions.sum.plane")
    right = b.Note(title), b.Chart("positions.sum.plane", plane, title)
    yield b.Columns(((left,), right), (3, 2))


def _every(view: View, addends: Addends) -> b.Blocks:
    """The angles at every position."""
    places = range(len(addends.token))
    angles = [[addends.angle(at) for at in places], [addends.turned(at) for at in places]]
    names = [view.t("positions.sum.angle_between"), view.t("positions.sum.angle_turned")]
    titles = view.axes("positions.sum.place", "positions.sum.degrees")
    yield b.Note(view.t("positions.sum.angles"))
    draw = partial(
        lines, np.array(places), np.array(angles), names, height=240, points=True, **titles
    )
    yield b.Chart("positions.sum.angles", draw, view.t("positions.sum.angles"))


def _concatenated(view: View, space: Overlap, counted: Widths) -> b.Blocks:
    """The cost of concatenation, and how separable both parts are in the sum."""
    yield b.Title(view.t("positions.sum.why"))
    yield b.Prose(view.t("positions.sum.why_lead"))
    d = view.loaded.config.d_model
    columns = ("way", "width", "parameters", "more")
    head = [view.t("positions.sum.columns", name) for name in columns]
    rows = []
    for key, width, total in (
        ("positions.sum.summed", d, counted.summed),
        ("positions.sum.mapped", d, counted.mapped),
        ("positions.sum.wide", 2 * d, counted.wide),
    ):
        more = f"+{percent(total / counted.summed - 1)}" if total > counted.summed else ""
        rows.append((view.t(key), f"{width:,}", f"{total:,}", more))
    yield b.Table(head, rows)
    shares = {"share": percent(space.share), "chance": percent(space.by_chance)}
    yield b.Sentence("room", view.t("positions.sum.room", n=space.n, of=space.of, **shares))


EXHIBIT = Exhibit(compute, show)
