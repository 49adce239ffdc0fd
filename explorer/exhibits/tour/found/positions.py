"""Chapter 3 of the path: positions."""

from dataclasses import dataclass

import numpy as np
import torch

from explorer.analysis.positions.encoding import gram, model_table, sizes, table, wavelengths
from explorer.analysis.positions.order import Moved, moved, reading_stream, shuffled_order
from explorer.analysis.positions.turning import angles_of, bare, pairs_of, rotate_as, turns
from explorer.exhibits.tour.found import Missing, QueryRow, best_row, varied, weights_of
from explorer.library import LoadedModel
from explorer.runs.trace import Trace
from models.rows import Stream

LENGTH = 48
"""Positions of the table in the figure."""
ROUNDING = 1e-4
"""Relative changes of vectors up to this size count as rounding."""
BASE = 10_000.0


def _tokens(trace: Trace, stream: Stream) -> tuple[tuple[str, ...], int]:
    """The tokens of a stream, and the number of real ones."""
    tokens = trace.src_str_tokens if stream == "src" else trace.tgt_str_tokens
    valid = trace.src_valid if stream == "src" else trace.tgt_valid
    return tokens, int(valid.sum())


@dataclass(frozen=True, eq=False)
class Shuffled:
    """A permuted sequence (`order[new place] = old place`), and how far its vectors moved."""

    stream: Stream
    order: tuple[int, ...]
    tokens: tuple[str, ...]
    by: dict[str, Moved]

    @property
    def barest(self) -> Moved:
        """The setting in which nothing indicates the order."""
        return list(self.by.values())[-1]


def _shuffled(loaded: LoadedModel, trace: Trace, stream: Stream) -> Shuffled | Missing:
    tokens, n_real = _tokens(trace, stream)
    order = shuffled_order(loaded, tokens, n_real, stream, 1)
    if order == tuple(range(len(tokens))):
        return Missing("short")
    by = {str(each.setting): each for each in moved(loaded, trace, stream, order)}
    return Shuffled(stream, order, tuple(tokens[at] for at in order), by)


def bag(loaded: LoadedModel, trace: Trace) -> Shuffled | Missing:
    """The words shuffled, without positions and, if the model has one, without the causal mask."""
    found = _shuffled(loaded, trace, reading_stream(loaded))
    if not isinstance(found, Missing) and found.barest.mean > ROUNDING:
        return Missing("ordered")
    return found


def leak(loaded: LoadedModel, trace: Trace) -> Shuffled | Missing:
    """The words of a causal stream shuffled, without positions but with the causal mask."""
    if not loaded.config.is_causal:
        return Missing("no_causal")
    found = _shuffled(loaded, trace, "tgt")
    if isinstance(found, Missing):
        return found
    still = found.by["without"].distances[-1] < ROUNDING
    if found.order[0] != 0 or not still[0] or still.sum() != 1 or len(still) < 4:
        return Missing("short")
    return found


@dataclass(frozen=True, eq=False)
class Lengths:
    """Norms of the words' and their positions' vectors, [pos], and the table [pos, d_model]."""

    stream: Stream
    place: int
    tokens: tuple[str, ...]
    words: np.ndarray
    positions: np.ndarray
    table: np.ndarray


def length(loaded: LoadedModel, trace: Trace) -> Lengths | Missing:
    """The norms of the sinusoidal vectors that this model adds to its words."""
    if loaded.config.positions != "sinusoidal":
        return Missing("no_sines")
    stream = reading_stream(loaded)
    tokens, n_real = _tokens(trace, stream)
    found, encoding = sizes(trace, stream), model_table(loaded, LENGTH, stream)
    if found is None or encoding is None or n_real < 2:
        return Missing("no_sines")
    place = round(varied(trace, 1, n_real - 1))
    return Lengths(stream, place, tokens, found[0], found[1], encoding)


@dataclass(frozen=True, eq=False)
class Wave:
    """A dimension of the sinusoidal table, and its wavelength in positions."""

    dim: int
    width: int
    base: float
    wavelength: float
    table: np.ndarray


def waves(loaded: LoadedModel, trace: Trace) -> Wave | Missing:
    """A dimension, of a table as wide as the model, that repeats within the figure."""
    width = loaded.config.d_model
    if width % 2:
        return Missing("odd")
    base = loaded.config.rope_base if loaded.config.positions == "sinusoidal" else BASE
    turns = wavelengths(width, base)
    wanted = varied(trace, 14, 30)
    dim = int(np.abs(turns - wanted).argmin()) // 2 * 2
    if dim == 0:
        return Missing("odd")
    return Wave(dim, width, base, float(turns[dim]), table(LENGTH, width, base))


Pair = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Distance:
    """Pairs of positions with the dot products of their encodings; `same` has that of `pair`."""

    pair: Pair
    same: Pair
    others: tuple[Pair, ...]
    gram: np.ndarray
    table: np.ndarray

    def dot(self, pair: Pair) -> float:
        """The dot product of two positions."""
        return float(self.gram[pair])


def distance(loaded: LoadedModel, trace: Trace) -> Distance | Missing:
    """Two positions, two others at the same distance, and others at a different one."""
    width = loaded.config.d_model
    if width % 2:
        return Missing("odd")
    encoding = table(LENGTH, width)
    products = gram(encoding)
    first, apart = round(varied(trace, 2, 7)), round(varied(trace, 3, 8))
    last, later = first + apart, first + 13
    others = [
        (2 * first, 2 * last),
        (later, later + apart + 2),
        (first, last + 3),
        (later, later + apart - 2),
    ]
    unlike = [pair for pair in others if abs(products[pair] - products[first, last]) > 0.2]
    return Distance((first, last), (later, later + apart), tuple(unlike), products, encoding)


@dataclass(frozen=True, eq=False)
class Rotated:
    """A query and a key of one head rotated at their positions, and both further on; [pair, 2].

    `score` is the scaled score at `places`, `both` the score after both moved by `shift`, `query`
    and `key` the scores if only one of them moved, `bare` the score without rotation.
    """

    row: QueryRow
    places: Pair
    shift: int
    angles: np.ndarray
    q: np.ndarray
    k: np.ndarray
    turned: dict[int, tuple[np.ndarray, np.ndarray]]
    divisor: float
    score: float
    both: float
    query: float
    key: float
    bare: float
    own: bool


def rotary(loaded: LoadedModel, trace: Trace) -> Rotated | Missing:
    """Rotate one query and one key of a self-attention head as rotary positions do."""
    config = loaded.config
    if config.d_head % 2 or config.d_head != (config.n_turned):
        return Missing("odd")
    stream = reading_stream(loaded)
    role = trace.stack(stream).role
    _, n_real = _tokens(trace, stream)
    if n_real < 4:
        return Missing("short")
    row = best_row(
        trace, role, lambda row: float(weights_of(trace, row)[1 : row.query].max(initial=0))
    )
    if row is None or row.query < 2:
        return Missing("short")
    key = 1 + int(weights_of(trace, row)[1 : row.query].argmax())
    shift = round(varied(trace, 5, 20))
    angles, pairs = angles_of(loaded, trace, row.site.name), pairs_of(config.d_head, "interleaved")
    q = bare(loaded, trace, row.site.name, row.head, "q")[row.query]
    k = bare(loaded, trace, row.site.name, row.head, "k")[key]

    def turn(vector: np.ndarray, place: int) -> np.ndarray:
        row_of_one = torch.from_numpy(vector.copy())[None, None, None]
        return rotate_as(row_of_one, torch.tensor([place]), angles, "interleaved")[0, 0, 0].numpy()

    def score(at_query: int, at_key: int) -> float:
        return float(turn(q, at_query) @ turn(k, at_key)) / config.divisor

    moved_to = {by: (turn(q, row.query + by)[pairs], turn(k, key + by)[pairs]) for by in (0, shift)}
    return Rotated(
        row=row,
        places=(row.query, key),
        shift=shift,
        angles=angles,
        q=q[pairs],
        k=k[pairs],
        turned=moved_to,
        divisor=config.divisor,
        score=score(row.query, key),
        both=score(row.query + shift, key + shift),
        query=score(row.query + shift, key),
        key=score(row.query, key + shift),
        bare=float(q @ k) / config.divisor,
        own=turns(loaded, row.site.name),
    )
