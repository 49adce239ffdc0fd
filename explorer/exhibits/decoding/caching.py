"""The KV cache of a decoding: its contents, its size, and the time that it saves.

The cache stores the keys and values of every self-attention layer, one column per step, and those
of cross-attention, fixed by the source. Without it, every step reads the whole sequence again, so a
sequence of T tokens costs 1 + 2 + … + T positions; with it, T.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from explorer.components.cache_view import pack_cache_view
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.choices import PartChoices
from explorer.exhibits.decoding.one_pass import is_open
from explorer.figures.curves import lines
from explorer.library import LoadedModel
from explorer.numbers import number
from explorer.runs.generation import Generation
from explorer.runs.passes import Steps, timed
from models.cache import KVCache, LayerCache
from models.foreign.placing import outside
from models.rows import as_tensor

RUNS, SHORT = 3, 64
"""How often a decoding of at most SHORT steps is timed; other load disturbs a longer one less."""


@dataclass(frozen=True, eq=False)
class CacheComparison:
    """One decoding's sequence read twice: token by token with a cache, and anew at every step.

    `keys` and `values` [layer, kv_head, pos] are the norms of the self-attention vectors in the
    cache at the end; `cross_…` the same for cross-attention, None without a source. `n_bytes`
    [step] is the size of the cache after each step, as the cache reports it. `gaps` [step] are the
    largest differences between the cached and the uncached logits of a step. `seconds`
    [2, step] are the times of the decoder with a cache and without, of each step the fastest of
    RUNS. `first` is the position of the first step's token: the prompt precedes it.
    """

    keys: Float[np.ndarray, "layer kv_head pos"]
    values: Float[np.ndarray, "layer kv_head pos"]
    cross_keys: np.ndarray | None
    cross_values: np.ndarray | None
    n_bytes: tuple[int, ...]
    gaps: Float[np.ndarray, " step"]
    seconds: Float[np.ndarray, "2 step"]
    first: int

    @property
    def largest(self) -> float:
        """The largest difference between a cached and an uncached logit."""
        return float(self.gaps.max())


@torch.inference_mode()
def cached_and_not(loaded: LoadedModel, generation: Generation) -> Steps[CacheComparison]:
    """Read the sequence of a Generation with a cache and without, step by step.

    Its edits are ignored: a cache is valid only if no later token changes what it holds. Raises
    ValueError for a Generation of another model, or without steps.
    """
    if generation.model != loaded.name:
        raise ValueError(f"the decoding was made by {generation.model!r}, not by {loaded.name!r}")
    if not generation.steps:
        raise ValueError("the decoding has no steps")
    first = loaded.model.begin(as_tensor([generation.given]))
    memory = loaded.model.memory_of(first)
    start: list[int] = first.tgt[0].tolist()
    row = torch.tensor([[*start, *generation.tokens[:-1]]])

    def logits(part: Tensor, cache: KVCache | None) -> Tensor:
        return loaded.model.read(replace(first, tgt=part), memory, cache)[0, -1]

    seconds = np.full((2, len(generation.tokens)), np.inf)
    runs = RUNS if len(generation.tokens) <= SHORT else 1
    for run in range(runs):
        cache = KVCache(loaded.config.n_layers)
        n_bytes, gaps = [], []
        for step, end in enumerate(range(len(start), row.shape[1] + 1)):
            cached_s, cached = timed(partial(logits, row[:, cache.length : end], cache))
            uncached_s, uncached = timed(partial(logits, row[:, :end], None))
            seconds[:, step] = np.minimum(seconds[:, step], (cached_s, uncached_s))
            n_bytes.append(held_bytes(cache))
            gaps.append(float((cached - uncached).abs().max()))
            yield run * len(generation.tokens) + len(gaps), runs * len(generation.tokens)
    cross = [layer for layer in cache.cross_attn if layer.length]
    keys, values = _lengths(cache.self_attn)
    cross_keys, cross_values = _lengths(cross) if cross else (None, None)
    return CacheComparison(
        keys=keys,
        values=values,
        cross_keys=cross_keys,
        cross_values=cross_values,
        n_bytes=tuple(n_bytes),
        gaps=np.array(gaps),
        seconds=seconds,
        first=len(start) - 1,
    )


def _lengths(layers: Sequence[LayerCache]) -> np.ndarray:
    """The Euclidean norms of keys and values: [2, layer, kv_head, pos]."""
    both = [[vectors[0].norm(dim=-1) for vectors in layer.columns] for layer in layers]
    return np.stack([outside(torch.stack(norms)).numpy() for norms in zip(*both, strict=True)])


def held_bytes(cache: KVCache) -> int:
    """Bytes of all keys and values."""
    layers = (layer for layer in (*cache.self_attn, *cache.cross_attn) if layer.length)
    return sum(layer.columns.nbytes for layer in layers)


@dataclass(frozen=True, eq=False)
class Caching:
    """A decoding and its cache."""

    made: Generation
    contents: CacheComparison


def compute(loaded: LoadedModel, film: Generation) -> Steps[Caching]:
    """Read the decoding with a cache and without."""
    return Caching(film, (yield from cached_and_not(loaded, film)))


def show(answer: Caching | None, view: View) -> b.Blocks:
    """The contents of the cache, its size, and what it saves."""
    if answer is None:
        return
    generation, contents = answer.made, answer.contents
    yield b.Prose(view.t("decoding.cache.lead"))
    if view.trace.edits:
        yield b.Note(view.t("decoding.cache.without_edits"))
    limit = view.loaded.config.cacheable
    if contents.first + len(contents.gaps) > limit:
        yield b.Note(view.t("decoding.cache.turned", limit=limit))
    heads, control = _heads(view)
    yield control
    yield b.Canvas(
        "decoding.cache.view", "cache_view", lambda file: _packed(view, generation, contents, heads)
    )
    yield b.Sentence("caching", f"{_reading(view, answer, heads)} {_saved(view, answer)}")
    draw = partial(
        lines,
        np.arange(1, contents.seconds.shape[1] + 1),
        1000 * contents.seconds.cumsum(1),
        [view.t("decoding.cache.with"), view.t("decoding.cache.without")],
        **view.axes("decoding.cache.length", "decoding.cache.milliseconds"),
        height=240,
    )
    title = view.t("decoding.cache.ms")
    yield b.Note(title)
    yield b.Chart("decoding.cache.ms", draw, title)
    yield b.Formula.of(
        view.t("decoding.cache.formula"),
        r"K_t = [\,K_{t-1};\ x_t W_K\,], \qquad V_t = [\,V_{t-1};\ x_t W_V\,], \qquad "
        r"z_t = \mathrm{softmax}\!\left(" + view.scaled(r"q_t K_t^\top") + r"\right) V_t",
        r"\text{cache}(t) = 2\,t\,n_\mathrm{kv}d_\mathrm{head}\cdot\text{layers}\cdot b",
    )
    layer = view.loaded.model.last_stack.blocks[0].attn
    yield b.Code((cached_and_not, layer, KVCache, LayerCache, held_bytes))
    steps = range(len(contents.n_bytes))
    yield b.Numbers(
        lambda: {
            view.t("components.cache_view.columns"): [contents.first + at + 1 for at in steps],
            view.t("decoding.cache.bytes"): list(contents.n_bytes),
            view.t("decoding.pass.gap"): [f"{gap:.2g}" for gap in contents.gaps],
        }
    )


def _packed(view: View, generation: Generation, contents: CacheComparison, heads: int) -> bytes:
    """The payload of the view of a cache, at the film's step."""
    return pack_cache_view(
        contents.keys,
        contents.values,
        generation.steps[-1].input_tokens,
        contents.n_bytes,
        first=contents.first,
        cross_keys=contents.cross_keys,
        cross_values=contents.cross_values,
        source=generation.src_str_tokens,
        kept_heads=heads,
        step=min(view.step, len(contents.n_bytes) - 1),
        words=view.words("components.cache_view"),
    )


def _heads(view: View) -> tuple[int, b.Block]:
    """The number of key/value heads, and its control: the model's own, or fewer."""
    config, asked = view.loaded.config, view.choices(PartChoices).kv_heads
    own = config.kv_heads
    offered = [n for n in range(1, own + 1) if own % n == 0]
    if len(offered) == 1:
        return own, b.Note(view.t("decoding.cache.one_head", heads=config.n_heads))
    now = asked if asked in offered else own
    control = b.Slider(
        "decoding.cache.heads",
        view.t("decoding.cache.heads", heads=config.n_heads),
        offered,
        now,
        b.sets("kv_heads"),
        display=b.Display(320, view.t("decoding.cache.heads_help")),
    )
    return now, control


def _reading(view: View, answer: Caching, heads: int) -> str:
    own, held = view.loaded.config.kv_heads, answer.contents.n_bytes[-1]
    return view.t(
        "decoding.cache.reading" if heads == own else "decoding.cache.reading_fewer",
        bytes=f"{held:,}",
        less=f"{held * heads // own:,}",
        heads=heads,
        own=own,
        largest=number(answer.contents.largest),
    )


def _saved(view: View, answer: Caching) -> str:
    """The time of this decoding, with the cache and without."""
    cached_ms, uncached_ms = 1000 * answer.contents.seconds.sum(1)
    return view.t(
        "decoding.cache.saved",
        count=len(answer.made.steps),
        cached_ms=f"{cached_ms:.0f}",
        uncached_ms=f"{uncached_ms:.0f}",
    )


EXHIBIT = Exhibit(
    compute, show, open=is_open, wait=Wait("decoding.cache.working", after="decoding.film")
)
