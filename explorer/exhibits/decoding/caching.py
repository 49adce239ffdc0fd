"""The KV cache of a decoding: its contents and its size.

The cache stores the keys and values of every self-attention layer, one column per step, and those
of cross-attention, fixed by the source.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from explorer.components.cache_view import pack_cache_view
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.decoding.one_pass import is_open
from explorer.exhibits.shared import PartChoices
from explorer.library import LoadedModel
from explorer.numbers import number
from explorer.runs.generation import Generation
from models.cache import KVCache, LayerCache
from models.config import ModelConfig
from models.foreign.placing import outside
from models.pictures.patches import as_tensor

FLOAT = 4  # bytes


@dataclass(frozen=True, eq=False)
class CacheComparison:
    """One decoding's sequence read twice: token by token with a cache, and anew at every step.

    `keys` and `values` [layer, kv_head, pos] are the norms of the self-attention vectors in the
    cache at the end; `cross_…` the same for cross-attention, None without a source. `n_bytes`
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
def cached_and_not(
    loaded: LoadedModel, made: Generation, progress: Callable[[int, int], object] = lambda *_: None
) -> CacheComparison:
    """Read the sequence of a Generation with a cache and without.

    `progress(done, total)` is called after every step. Its edits are ignored: a cache is valid only
    if no later token changes what it holds. Raises ValueError for a Generation of another model, or
    without steps.
    """
    if made.model != loaded.name:
        raise ValueError(f"the decoding was made by {made.model!r}, not by {loaded.name!r}")
    if not made.steps:
        raise ValueError("the decoding has no steps")
    given, read = reader(loaded, as_tensor([made.given]))
    row = torch.tensor([[*given, *made.tokens[:-1]]])
    cache = KVCache(loaded.config.n_layers)
    n_bytes, gaps = [], []
    for end in range(len(given), row.shape[1] + 1):
        with_cache = read(row[:, cache.length : end], cache)[0, -1]
        without = read(row[:, :end], None)[0, -1]
        n_bytes.append(held_bytes(cache))
        gaps.append(float((with_cache - without).abs().max()))
        progress(len(gaps), len(made.tokens))
    own, cross = cache.self_attn, [layer for layer in cache.cross_attn if layer.length]
    return CacheComparison(
        keys=_lengths([layer.columns[0] for layer in own]),
        values=_lengths([layer.columns[1] for layer in own]),
        cross_keys=_lengths([layer.columns[0] for layer in cross]) if cross else None,
        cross_values=_lengths([layer.columns[1] for layer in cross]) if cross else None,
        n_bytes=tuple(n_bytes),
        gaps=np.array(gaps),
        first=len(given) - 1,
    )


def _lengths(tensors: Sequence[Tensor]) -> np.ndarray:
    """The Euclidean norm of each vector: [layer, kv_head, pos]."""
    return outside(torch.stack([each[0].norm(dim=-1) for each in tensors])).numpy()


def reader(
    loaded: LoadedModel, given: Tensor
) -> tuple[list[int], Callable[[Tensor, KVCache | None], Tensor]]:
    """The tokens that a decoder's sequence begins with, and a function that reads a part of it."""
    model = loaded.model
    first = model.begin(given)
    memory = model.memory_of(first)
    start: list[int] = first.tgt[0].tolist()
    return start, lambda row, cache: model.read(replace(first, tgt=row), memory, cache)


def held_bytes(cache: KVCache) -> int:
    """Bytes of all keys and values."""
    layers = (layer for layer in (*cache.self_attn, *cache.cross_attn) if layer.length)
    return sum(layer.columns.nbytes for layer in layers)


def cache_bytes(config: ModelConfig, n_src: int, length: int, kv_heads: int) -> int:
    """Bytes of a float32 cache with `kv_heads` key/value heads after `length` tokens.

    2 (keys, values) x layers x positions, of the target and of the source, x kv_heads x d_head.
    Equals the size of a real cache (tested).
    """
    positions = config.n_layers * length + config.cross_layers * n_src
    return 2 * positions * kv_heads * config.d_head * FLOAT


def compute(
    loaded: LoadedModel, made: Generation, progress: Callable[[int, int], object]
) -> tuple[Generation, CacheComparison]:
    """The decoding, and its cache."""
    return made, cached_and_not(loaded, made, progress)


def show(answer: tuple[Generation, CacheComparison] | None, view: View) -> b.Blocks:
    """The contents of the cache, and its size."""
    if answer is None:
        return
    made, found = answer
    source = [view.t("caching.source")] if found.cross_keys is not None else []
    yield b.Prose(" ".join([view.t("caching.lead"), *source]))
    if view.trace.edits:
        yield b.Note(view.t("caching.without_edits"))
    heads, control = _heads(view)
    yield control
    yield b.Canvas("caching.view", "cache_view", lambda file: packed(view, made, found, heads))
    yield b.Sentence("caching", _reading(view, made, found, heads))
    yield b.Formula.of(
        view.t("caching.formula"),
        r"K_t = [\,K_{t-1};\ x_t W_K\,], \qquad V_t = [\,V_{t-1};\ x_t W_V\,], \qquad "
        r"z_t = \mathrm{softmax}\!\left(" + view.scaled(r"q_t K_t^\top") + r"\right) V_t",
        r"\text{cache}(t) = 2\,t\,n_\mathrm{kv}d_\mathrm{head}\cdot\text{layers}\cdot 4",
    )
    layer = view.loaded.model.last_stack.blocks[0].attn
    yield b.Code((cached_and_not, layer, KVCache, LayerCache, cache_bytes))
    yield b.Numbers(
        lambda: {
            view.t("caching.length"): [found.first + at + 1 for at in range(len(found.n_bytes))],
            view.t("caching.bytes"): list(found.n_bytes),
            view.t("onepass.gap"): [f"{gap:.2g}" for gap in found.gaps],
        }
    )


def packed(
    view: View, made: Generation, found: CacheComparison, heads: int, step: int = -1
) -> bytes:
    """The payload of the view of a cache, by default at the film's step."""
    return pack_cache_view(
        *(found.keys, found.values, made.steps[-1].input_tokens, found.n_bytes),
        first=found.first,
        cross_keys=found.cross_keys,
        cross_values=found.cross_values,
        source=made.src_str_tokens,
        kept_heads=heads,
        step=min(view.step, len(found.n_bytes) - 1) if step < 0 else step,
        words=view.words("components.cache_view"),
    )


def _heads(view: View) -> tuple[int, b.Block]:
    """The number of key/value heads, and its control: the model's own, or fewer."""
    config, asked = view.loaded.config, view.choices(PartChoices).kv_heads
    own = config.kv_heads
    offered = [n for n in range(1, own + 1) if own % n == 0]
    if len(offered) == 1:
        return own, b.Note(view.t("caching.one_head", heads=config.n_heads))
    now = asked if asked in offered else own
    control = b.Slider(
        *("caching.heads", view.t("caching.heads", heads=config.n_heads), 1, own, now),
        lambda heads: b.choose(kv_heads=heads),
        stops=offered,
        help=view.t("caching.heads_help"),
        width=320,
    )
    return now, control


def _reading(view: View, made: Generation, found: CacheComparison, heads: int) -> str:
    config = view.loaded.config
    length = found.first + len(made.steps)
    whole, less = (
        cache_bytes(config, len(made.src_str_tokens), length, n) for n in (config.kv_heads, heads)
    )
    return view.t(
        "caching.reading" if heads == config.kv_heads else "caching.reading_fewer",
        bytes=f"{whole:,}",
        less=f"{less:,}",
        heads=heads,
        own=config.kv_heads,
        largest=number(found.largest),
    )


EXHIBIT = Exhibit(
    compute, show, open=is_open, after="decoding.film", given="made", working="caching.working"
)
