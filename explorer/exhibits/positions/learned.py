"""Learned position vectors compared with sinusoids: the effect and the limits of training."""

from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from jaxtyping import Float

from explorer.analysis.positions.encoding import dot_by_distance, gram, model_table, table
from explorer.engine import cache
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.picking import pick_stream, titled
from explorer.exhibits.positions.opening import opening
from explorer.exhibits.saying import in_a_row
from explorer.figures.curves import lines
from explorer.figures.positions import encoding as figures
from explorer.library import LoadedModel, split_step
from explorer.numbers import fixed, share
from explorer.numerics import cosines
from explorer.runs.passes import seeded
from explorer.text import model_name
from models.pictures import places
from models.rows import Stream
from models.transformer import build_model

SEEDS = {"twin-learned": 1}
"""The seeds with which shipped models were initialised, by name, as in their recipes."""
MOVED = 0.001
"""A vector has moved if it changed by more than this share of its norm: storing it in 16 bits
changes each component by a relative 0.0005 at most."""
SAME = 0.9
"""The minimum cosine of at least one vector with its rebuilt initial vector; below it, the rebuilt
vectors belong to another training run."""


@dataclass(frozen=True, eq=False)
class PositionVectors:
    """The position vectors of one stream of a model and sines of the same size, [pos, d_model].

    `before` are the initial vectors of its training, `moved` how far each of them moved, as a
    share of its norm, and `reached` the number of first positions that training covered: all None
    if the initial vectors cannot be rebuilt (no recipe of that name, or another model under it).
    Every picture has the same number of patches, so for pictures `reached` is known without them.
    """

    vectors: Float[np.ndarray, "pos d_model"] = field(repr=False)
    sines: Float[np.ndarray, "pos d_model"] = field(repr=False)
    before: Float[np.ndarray, "pos d_model"] | None = field(repr=False)
    moved: Float[np.ndarray, " pos"] | None
    reached: int | None

    @property
    def added(self) -> Float[np.ndarray, "pos d_model"] | None:
        """What training added to each vector; None if the initial vectors are unknown."""
        return None if self.before is None else self.vectors - self.before

    @property
    def computed(self) -> bool:
        """Whether the vectors are the sines, up to the order of their dimensions (Marian)."""
        own, sines = gram(self.vectors), gram(self.sines)
        return own.shape == sines.shape and np.allclose(own, sines, atol=1e-3 * sines.max())

    @property
    def n_trained(self) -> int:
        """The number of positions that training covered; all of them if unknown."""
        return len(self.vectors) if self.reached is None else self.reached


def learned(loaded: LoadedModel, stream: Stream) -> PositionVectors:
    """The position vectors of a stream. Raises ValueError for a model that learned none there."""
    config = loaded.config
    vectors = model_table(loaded, config.n_ctx, stream)
    if config.positions != "learned" or vectors is None:
        raise ValueError(f"{loaded.name} has no learned positions for {stream}")
    sines = table(config.n_ctx, config.width // 2 * 2, config.rope_base)
    before = _beginning(loaded, stream)
    if before is None or float(cosines(vectors, before).max()) < SAME:
        always = None
        if config.picture is not None and stream == loaded.model.reads[0]:
            always = (config.n_marks or 0) + len(places(config.picture))
        return PositionVectors(vectors, sines, None, None, always)
    went = np.linalg.norm(vectors - before, axis=1) / np.linalg.norm(before, axis=1)
    changed = np.flatnonzero(went > MOVED)
    return PositionVectors(
        vectors, sines, before, went, int(changed[-1]) + 1 if len(changed) else 0
    )


def _beginning(loaded: LoadedModel, stream: Stream) -> Float[np.ndarray, "pos d_model"] | None:
    """The initial vectors of a shipped model: the model, built from its recipe's seed."""
    base, _ = split_step(loaded.name)
    if base not in SEEDS:
        return None
    with seeded(SEEDS[base]):
        model = build_model(loaded.config).requires_grad_(False)
    return model_table(replace(loaded, model=model), loaded.config.n_ctx, stream)


def alike_by_distance(encoding: Float[np.ndarray, "pos d_model"]) -> Float[np.ndarray, " distance"]:
    """The mean cosine of two positions by their distance: 1 at distance 0."""
    lengths = np.linalg.norm(encoding, axis=1, keepdims=True)
    return dot_by_distance(encoding / np.maximum(lengths, 1e-12)).mean


def by_chance(n_positions: int, d_model: int) -> float:
    """The similarity of neighbours expected by chance: three standard deviations of a mean cosine.

    The cosine of two random directions has the standard deviation 1 / sqrt(d_model); there are
    n_positions - 1 pairs of neighbours.
    """
    return 3 / (d_model * max(1, n_positions - 1)) ** 0.5


TWIN = "twin-learned"


def compute(
    loaded: LoadedModel, shelf: tuple[str, ...], chosen_stream: str
) -> tuple[LoadedModel, PositionVectors] | None:
    """The open model's vectors if it has learned positions, else those of a listed twin, if any."""
    if loaded.config.positions != "learned":
        if TWIN not in shelf:
            return None
        loaded = cache.open_model(TWIN)
    reads = loaded.model.reads
    stream = next((each for each in reads if each == chosen_stream), reads[0])
    return loaded, learned(loaded, stream)


def show(answer: tuple[LoadedModel, PositionVectors] | None, view: View) -> b.Blocks:
    """Both tables, their dot products, the similarity of positions, and the change in training."""
    yield from opening(view, sentence=False)
    if answer is None:
        yield b.Hint(view.t("positions.learned_nobody"))
        return
    loaded, vectors = answer
    name = model_name(loaded.name, lang=view.lang)
    lead = [view.t("positions.learned_lead", name=name, limit=len(vectors.vectors))]
    if vectors.computed:
        lead.append(view.t("positions.learned_computed"))
    yield b.Prose(in_a_row(lead))
    yield from pick_stream(view, "positions.stream.learned", loaded.model.reads)
    yield b.Sentence("learned", _neighbours(view, vectors))
    words = view.words("figures.positions")
    for what in ("table", "gram"):
        columns = []
        for source in ("sines", "vectors"):
            values: np.ndarray = getattr(vectors, source)
            drawn = figures.table(values, words=words)
            if what == "gram":
                drawn = figures.gram(gram(values), words=words)
            title = view.t(f"positions.learned_{what}_{source}")
            columns.append(titled(view, f"positions.learned.{what}.{source}", drawn, title))
        yield b.Columns(columns)
    yield b.Columns((_alike(view, vectors), _moved(view, vectors)))
    if vectors.moved is not None and vectors.reached:
        went = share(float(vectors.moved[: vectors.reached].mean()))
        counts = {"count": vectors.reached, "total": len(vectors.moved)}
        yield b.Prose(view.t("positions.learned_reach", moved=went, **counts))
    yield b.Formula.of(
        view.t("positions.learned_formula"),
        r"\cos(p_i, p_j) = \frac{p_i \cdot p_j}{\lVert p_i\rVert\,\lVert p_j\rVert},\qquad "
        r"\text{moved}_i = \frac{\lVert p_i - p_i^{0}\rVert}{\lVert p_i^{0}\rVert}",
    )
    yield b.Code((learned, loaded.model.last_stack.positions, gram, alike_by_distance))
    yield b.Numbers(lambda: _numbers(view, vectors))


def _alike(view: View, vectors: PositionVectors) -> tuple[b.Block, ...]:
    """The mean cosine by distance, over the positions seen in training."""
    n = max(2, vectors.n_trained)
    tables = {"sines": vectors.sines, "vectors": vectors.vectors, "before": vectors.before}
    tables["added"] = vectors.added
    shown = {name: values[:n] for name, values in tables.items() if values is not None}
    draw = partial(
        lines,
        np.arange(n),
        np.stack([alike_by_distance(values) for values in shown.values()]),
        [view.t(f"positions.learned_curve_{name}") for name in shown],
        **view.axes("figures.positions.distance", "positions.learned_cosine"),
    )
    title = view.t("positions.learned_alike")
    note = view.t("positions.learned_alike_note", last=n - 1)
    return titled(view, "positions.learned.alike", draw, title, note)


def _moved(view: View, vectors: PositionVectors) -> tuple[b.Block, ...]:
    """The change of each vector in training."""
    title = view.t("positions.learned_moved")
    if vectors.moved is None or vectors.reached is None:
        return b.Title(title), b.Note(view.t("positions.learned_unknown"))
    draw = partial(
        lines,
        np.arange(len(vectors.moved)),
        100 * vectors.moved[None],
        [title],
        marked_x=vectors.reached - 0.5,
        steps=True,
        from_zero=True,
        **view.axes("figures.positions.position", "positions.learned_moved_axis"),
    )
    note = view.t("positions.learned_moved_note")
    return titled(view, "positions.learned.moved", draw, title, note)


def _neighbours(view: View, vectors: PositionVectors) -> str:
    """The mean cosines of neighbours and of all pairs, and the difference expected by chance."""
    n = max(2, vectors.n_trained)
    sines, alike = (
        alike_by_distance(encoding[:n]) for encoding in (vectors.sines, vectors.vectors)
    )
    own, far = alike[1], np.average(alike[1:], weights=np.arange(n - 1, 0, -1))
    chance = by_chance(n, vectors.vectors.shape[1])
    values = {"sines": sines[1], "own": own, "far": far, "chance": chance}
    numbers = {name: fixed(float(value)) for name, value in values.items()}
    return view.t("positions.learned_neighbours", **numbers)


def _numbers(view: View, vectors: PositionVectors) -> dict[str, list[object]]:
    lengths = np.linalg.norm(vectors.vectors, axis=1)
    columns: dict[str, list[object]] = {
        view.t("figures.positions.position"): list(range(len(lengths))),
        view.t("positions.size"): lengths.round(3).tolist(),
    }
    if vectors.moved is not None:
        columns[view.t("positions.learned_moved_axis")] = (100 * vectors.moved).round(3).tolist()
    return columns


EXHIBIT = Exhibit(compute, show)
