"""The computation that a cache saves: multiply-adds, and milliseconds on request.

Without a cache every step reads the whole sequence again, so a sequence of T tokens costs
1 + 2 + … + T positions; with a cache it costs T.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.decoding.caching import reader
from explorer.exhibits.decoding.one_pass import is_open
from explorer.figures.curves import lines
from explorer.library import LoadedModel
from explorer.runs.generation import Generation
from explorer.runs.passes import timed
from explorer.text import LARGE_UNITS, in_units
from models.cache import KVCache
from models.config import ModelConfig
from models.feedforward import GATED
from models.pictures.patches import as_tensor

LENGTHS = (8, 16, 32, 64, 128, 256)
RUNS = 3
COUNTED = 256
"""The longest sequence whose multiply-adds are counted."""


def multiply_adds(config: ModelConfig, n_src: int, past: int, new: int) -> int:
    """Multiply-adds of one decoder pass over `new` tokens after `past` cached ones.

    Counts every matrix product of the decoder and the unembedding: projections, scores, values,
    feed-forward. The keys and values of cross-attention, computed once from `n_src` tokens, are
    counted in the pass with no past. Masked cells are counted, since they are computed. Not
    counted: the encoder, which runs once either way, norms, softmax, embeddings.
    """
    d, d_q, d_kv = config.d_model, *(n * config.d_head for n in (config.n_heads, config.kv_heads))
    own = new * (2 * d * d_q + 2 * d * d_kv) + 2 * new * (past + new) * d_q
    cross = new * 2 * d * d_q + 2 * new * n_src * d_q + (0 if past else 2 * n_src * d * d_kv)
    feed_forward = new * (3 if config.ffn in GATED else 2) * d * config.ffn_width
    feed_forward += new * d * config.n_experts if config.n_experts > 1 else 0  # the router
    blocks = config.n_layers * (own + feed_forward) + config.cross_layers * cross
    return blocks + new * d * config.vocab_size


def decoding_multiply_adds(
    config: ModelConfig, n_src: int, prompt: int, steps: int
) -> tuple[int, int]:
    """`multiply_adds` of a whole generation of `steps` tokens, with a cache and without."""
    first = multiply_adds(config, n_src, 0, prompt)
    with_cache = first + sum(
        multiply_adds(config, n_src, prompt + step - 1, 1) for step in range(1, steps)
    )
    without = sum(multiply_adds(config, n_src, 0, prompt + step) for step in range(steps))
    return with_cache, without


@dataclass(frozen=True)
class Timing:
    """Milliseconds of the decoder for a sequence of `length` tokens, with a cache and without."""

    length: int
    cached_ms: float
    uncached_ms: float


def lengths_for(loaded: LoadedModel, given: Sequence[int], lengths: Sequence[int]) -> list[int]:
    """The `lengths` that are possible after `given`: learned positions end at n_ctx."""
    longest = loaded.config.longest
    begun = loaded.model.begin(as_tensor([list(given)])).tgt.shape[1]
    return [n for n in lengths if longest is None or begun + n - 1 <= longest]


@torch.inference_mode()
def timings(
    loaded: LoadedModel, given: Sequence[int], lengths: Sequence[int]
) -> Generator[tuple[int, int], bool | None, tuple[Timing, ...]]:
    """Measure decodings of these lengths after a source or prompt, with a cache and without.

    Each value is the best of a few runs. All tokens are the same, since only their number matters.
    Yields (done, total) after every measurement; if sent False, returns the measurements so far.
    Lengths beyond n_ctx are skipped for learned positions.
    """
    config = loaded.config
    start, read = reader(loaded, as_tensor([list(given)]))
    fits = lengths_for(loaded, given, lengths)
    found: list[Timing] = []
    for done, n in enumerate(fits, 1):
        row = torch.tensor([[*start, *[start[-1]] * (n - 1)]])
        # A longer sequence takes longer, so other load on the machine disturbs it less.
        runs = RUNS if n <= 64 else 1
        cached, uncached = (
            min(_seconds(read, row, len(start), each()) for _ in range(runs))
            for each in (lambda: KVCache(config.n_layers), lambda: None)
        )
        found.append(Timing(n, 1000 * cached, 1000 * uncached))
        if (yield done, len(fits)) is False:
            break
    return tuple(found)


def _seconds(
    read: Callable[[Tensor, KVCache | None], Tensor],
    row: Tensor,
    n_given: int,
    cache: KVCache | None,
) -> float:
    seconds = 0.0
    for end in range(n_given, row.shape[1] + 1):
        begin = 0 if cache is None else cache.length
        seconds += timed(partial(read, row[:, begin:end], cache))[0]
    return seconds


@dataclass(frozen=True, eq=False)
class Spared:
    """A decoding, `adds` [length, 2] with and without a cache, and the measured times, if any."""

    made: Generation
    adds: np.ndarray
    times: tuple[Timing, ...] | None


def key_of(loaded: LoadedModel, made: Generation) -> tuple[object, ...]:
    """What the times depend on."""
    return loaded.name, made.given, len(made.steps)


def compute(
    loaded: LoadedModel, made: Generation, measured: tuple[object, ...]
) -> Generator[tuple[int, int], bool | None, Spared]:
    """Count for lengths up to COUNTED; measure if `measured` is the `key_of` this decoding."""
    prompt = loaded.model.begin(as_tensor([made.given])).tgt.shape[1]
    sizes = (loaded.config, len(made.src_str_tokens), prompt)
    adds = [decoding_multiply_adds(*sizes, n) for n in range(1, COUNTED + 1)]
    times = None
    if measured == key_of(loaded, made):
        wanted = sorted({len(made.steps), *LENGTHS})
        times = yield from timings(loaded, made.given, wanted)
    return Spared(made, np.array(adds), times)


def show(found: Spared | None, view: View) -> b.Blocks:
    """Both with and without a cache, for lengths up to COUNTED."""
    if found is None:
        return
    yield b.Title(view.t("caching.spared"), large=True)
    own = len(found.made.steps)
    with_cache, without = found.adds[own - 1]
    words = view.t(
        "caching.adds",
        count=own,
        cached=in_units(with_cache, lang=view.lang),
        uncached=in_units(without, lang=view.lang),
        times=f"{without / with_cache:.1f}",
    )
    yield b.Prose(words)
    title, unit = view.t("caching.adds_title"), LARGE_UNITS[view.lang][0]
    draw = _curves(view, own, np.arange(1, COUNTED + 1), found.adds.T / unit, "caching.billions")
    left = (b.Note(title), b.Chart("caching.adds", draw, title))
    yield b.Columns((left, tuple(_measured(view, found))))
    yield b.Code((decoding_multiply_adds,))


def _curves(
    view: View, own: int, lengths: np.ndarray, both: np.ndarray, unit: str, points: bool = False
) -> Callable[..., b.Figure]:
    return partial(
        lines,
        lengths,
        both,
        [view.t("caching.with"), view.t("caching.without")],
        **view.axes("caching.length", unit),
        marked_x=float(own),
        height=240,
        points=points,
    )


def _measured(view: View, found: Spared) -> b.Blocks:
    """Measured times, on request."""
    title, own = view.t("caching.ms_title"), len(found.made.steps)
    yield b.Note(title)
    if found.times is None:
        fitting = lengths_for(view.loaded, found.made.given, LENGTHS)
        yield b.Prose(view.t("caching.ask", lengths=", ".join(map(str, fitting))))
        asked = b.choose(measured=key_of(view.loaded, found.made))
        yield b.Button("caching.run", view.t("caching.run"), asked, "timer")
        return
    both = np.array([[each.cached_ms, each.uncached_ms] for each in found.times]).T
    lengths = np.array([each.length for each in found.times])
    draw = _curves(view, own, lengths, both, "caching.ms", points=True)
    yield b.Chart("caching.ms", draw, title)
    at = next((each for each in found.times if each.length == own), None)
    if at is not None:
        words = view.t(
            "caching.own",
            count=own,
            cached=f"{at.cached_ms:.0f}",
            uncached=f"{at.uncached_ms:.0f}",
            times=f"{at.uncached_ms / at.cached_ms:.1f}",
        )
        yield b.Prose(words)


EXHIBIT = Exhibit(
    compute,
    show,
    open=is_open,
    after="decoding.film",
    given="made",
    working="caching.measuring",
    stop="decoding.stop",
)
