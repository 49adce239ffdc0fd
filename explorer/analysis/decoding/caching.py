"""The KV cache of a decoding: its contents, its size and the computation that it saves.

Without a cache every step reads the whole sequence again, so a sequence of T tokens costs
1 + 2 + … + T positions; with a cache it costs T. The cache stores the keys and values of every
self-attention layer, one column per step, and those of cross-attention, fixed by the source.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from explorer.library import LoadedModel
from explorer.runs.generation import Generation
from explorer.runs.passes import timed
from models.cache import KVCache
from models.config import ModelConfig
from models.feedforward import GATED
from models.foreign.placing import outside
from models.pictures.patches import as_tensor

LENGTHS = (8, 16, 32, 64, 128, 256)
RUNS = 3
FLOAT = 4  # bytes


@dataclass(frozen=True, eq=False)
class CacheComparison:
    """One decoding's sequence read twice: token by token with a cache, and anew at every step.

    `keys` and `values` [layer, kv_head, pos] are the norms of the self-attention vectors in the
    cache at the end; `cross_…` those of cross-attention, None without a source. `n_bytes`
    [step] is the size of the cache after each step, as the cache reports it. `gaps` [step] are the
    largest differences between the cached and the uncached logits of a step. `first` is the
    position of the first step's token: the prompt precedes it.
    """

    keys: Float[np.ndarray, "layer kv_head pos"]
    values: Float[np.ndarray, "layer kv_head pos"]
    cross_keys: np.ndarray | None
    cross_values: np.ndarray | None
    n_bytes: tuple[int, ...]
    gaps: Float[np.ndarray, " step"]
    first: int

    @property
    def largest(self) -> float:
        """The largest difference between a cached and an uncached logit."""
        return float(self.gaps.max())


@torch.inference_mode()
def cached_and_not(loaded: LoadedModel, made: Generation) -> CacheComparison:
    """Read the sequence of a Generation with a cache and without.

    Its edits are ignored: a cache is valid only if no later token changes what it holds. Raises
    ValueError for a Generation of another model, or without steps.
    """
    if made.model != loaded.name:
        raise ValueError(f"the decoding was made by {made.model!r}, not by {loaded.name!r}")
    if not made.steps:
        raise ValueError("the decoding has no steps")
    given, read = _reader(loaded, as_tensor([made.given]))
    row = torch.tensor([[*given, *made.tokens[:-1]]])
    cache = KVCache(loaded.config.n_layers)
    n_bytes, gaps = [], []
    for end in range(len(given), row.shape[1] + 1):
        with_cache = read(row[:, cache.length : end], cache)[0, -1]
        without = read(row[:, :end], None)[0, -1]
        n_bytes.append(held_bytes(cache))
        gaps.append(float((with_cache - without).abs().max()))
    own, cross = cache.self_attn, cache.cross_attn
    has_source = loaded.config.reads_source
    return CacheComparison(
        keys=_lengths([layer.columns[0] for layer in own]),
        values=_lengths([layer.columns[1] for layer in own]),
        cross_keys=_lengths([layer.columns[0] for layer in cross]) if has_source else None,
        cross_values=_lengths([layer.columns[1] for layer in cross]) if has_source else None,
        n_bytes=tuple(n_bytes),
        gaps=np.array(gaps),
        first=len(given) - 1,
    )


def _lengths(tensors: Sequence[Tensor]) -> np.ndarray:
    """The Euclidean norm of each vector: [layer, kv_head, pos]."""
    return outside(torch.stack([each[0].norm(dim=-1) for each in tensors])).numpy()


def _reader(
    loaded: LoadedModel, given: Tensor
) -> tuple[list[int], Callable[[Tensor, KVCache | None], Tensor]]:
    """The tokens that a decoder's sequence begins with, and a function that reads a part of it."""
    model = loaded.model
    first = model.begin(given)
    memory = model.memory_of(first)
    start: list[int] = first.tgt[0].tolist()
    return start, lambda row, cache: model.read(replace(first, tgt=row), memory, cache)


def multiply_adds(config: ModelConfig, n_src: int, past: int, new: int) -> int:
    """Multiply-adds of one decoder pass over `new` tokens after `past` cached ones.

    Counts every matrix product of the decoder and the unembedding: projections, scores, values,
    feed-forward. The keys and values of cross-attention, computed once from `n_src` tokens, are
    counted in the pass with no past. Masked cells are counted, since they are computed. Not
    counted: the encoder, which runs once either way, norms, softmax, embeddings.
    """
    d, d_q, d_kv = config.d_model, *(n * config.d_head for n in (config.n_heads, config.kv_heads))
    own = new * (2 * d * d_q + 2 * d * d_kv) + 2 * new * (past + new) * d_q
    cross = 0
    if config.reads_source:
        cross = new * 2 * d * d_q + 2 * new * n_src * d_q + (0 if past else 2 * n_src * d * d_kv)
    feed_forward = new * (3 if config.ffn in GATED else 2) * d * config.ffn_width
    feed_forward += new * d * config.n_experts if config.n_experts > 1 else 0  # the router
    return config.n_layers * (own + cross + feed_forward) + new * d * config.vocab_size


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


def held_bytes(cache: KVCache) -> int:
    """Bytes of all keys and values."""
    layers = (layer for layer in (*cache.self_attn, *cache.cross_attn) if layer.length)
    return sum(layer.columns.nbytes for layer in layers)


def cache_bytes(config: ModelConfig, n_src: int, length: int, kv_heads: int) -> int:
    """Bytes of a float32 cache with `kv_heads` key/value heads after `length` tokens.

    2 (keys, values) x layers x kv_heads x d_head x positions, of the target and of the source.
    Equals the size of a real cache (tested).
    """
    positions = length + (n_src if config.reads_source else 0)
    return 2 * config.n_layers * kv_heads * config.d_head * positions * FLOAT


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
    loaded: LoadedModel,
    given: Sequence[int],
    lengths: Sequence[int],
) -> Generator[tuple[int, int], bool | None, tuple[Timing, ...]]:
    """Measure decodings of these lengths after a source or prompt, with a cache and without.

    Each value is the best of a few runs. All tokens are the same, since only their number matters.
    Yields (done, total) after every measurement; if sent False, returns the measurements so far.
    Lengths beyond n_ctx are skipped for learned positions.
    """
    config = loaded.config
    start, read = _reader(loaded, as_tensor([list(given)]))
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
