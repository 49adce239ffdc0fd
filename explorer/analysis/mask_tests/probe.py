"""Run a model many times with deliberately changed inputs: the basis of a certificate.

Nothing here reads a mask. What a query attends to is found from outside: with the values of an
attention site replaced by one-hot vectors, one feature per key, the site's output z is the row of
weights itself. A changed token shows how far its effect propagates.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from models.cache import KVCache
from models.config import ModelConfig
from models.hooks import LOGITS, NO_EDITS, AttentionSite, Change, Edits, Record, visiting
from models.marks import Marks
from models.rows import Rows

Interference = Callable[["Rows"], Edits]
"""The edits to apply at a model's hook points in a run over these rows."""


@runtime_checkable
class Subject(Protocol):
    """A model of any family (`models.transformer.Model`), or an object with the same interface."""

    marks: Marks

    def read(
        self, rows: Rows, memory: Tensor | None = None, cache: KVCache | None = None
    ) -> Tensor: ...

    def memory_of(self, rows: Rows) -> Tensor | None: ...

    def attention_sites(self) -> tuple[AttentionSite, ...]: ...


class Probe:
    """A model ready to be probed. The model itself is never changed.

    With `exact`, its weights are copied to float64 if possible: the rounding of float32, about 1e-6
    of the logits, depends on the shape of a batch, and could hide a small leak or look like one.
    """

    precision: torch.dtype | None = None
    """The compute precision, if the tensors do not show it: half-precision tensors are recorded as
    float32."""

    def __init__(
        self,
        model: Subject,
        config: ModelConfig,
        interference: Interference | None = None,
        exact: bool = True,
    ) -> None:
        self.model: Any = model
        if exact and isinstance(model, nn.Module):
            self.model = copy.deepcopy(model).to("cpu", torch.float64).eval()
        self.config = config
        self.interference = interference
        self.sites = model.attention_sites()
        # A block's output is its residual stream after the last sublayer.
        self.blocks = {
            site.block_hook("resid_post"): site for site in self.sites if site.kind == "self"
        }

    @property
    def outcome(self) -> str:
        """The hook point of a pass's output: the logits, or the last stream without an LM head."""
        return LOGITS if self.config.lm_head else list(self.blocks)[-1]

    def batch_of(
        self,
        sentences: Sequence[tuple[Sequence[int], Sequence[int]]],
        left: int = 0,
        right: int = 0,
    ) -> Rows:
        """Sentences (source, target) as one batch, padded as in `Rows.of`."""
        sources, targets = zip(*sentences, strict=True)
        return Rows.of(targets, sources, self.model.marks, left, right)

    def run(self, rows: Rows) -> dict[str, Tensor]:
        """The residual stream after every block, and the logits if the model has an LM head, each
        [batch, pos, ...]."""
        seen = {*self.blocks, self.outcome}
        return self.record(rows, seen.__contains__)

    def weights(
        self, site: AttentionSite, rows: Rows, level: float | None = None
    ) -> Float[Tensor, "batch head query key"]:
        """How much of each key's value reaches each query of a site: its weights, seen from
        outside.

        Value vectors are replaced by one-hot vectors; z then contains the weights themselves. No
        difference is taken, so a weight of 1e-300 differs from 0. A weight of 0 still does not
        prove a mask: a score 750 below the largest of its row underflows in the softmax. With a
        `level`, q·k is that number for every key: at 0, only masked keys have a weight of 0; at
        `LOW`, keys masked with a finite number have weight.
        """
        return self.weights_of([site], rows, level)[site.name]

    def weights_of(
        self, sites: Sequence[AttentionSite], rows: Rows, level: float | None = None
    ) -> dict[str, Tensor]:
        """The weights of several sites in one run; later ones read a stream without attention."""
        n_keys = {site.name: rows.valid(site.key_stream).shape[1] for site in sites}
        hooks = {site.hook("z"): site.name for site in sites}
        parts: dict[str, list[Tensor]] = {name: [] for name in n_keys}
        for first in range(0, max(n_keys.values()), self.config.d_head):
            changes: dict[str, Change] = {}
            for site in sites:
                changes[site.hook("v")] = marked(first)
                if level is not None:
                    changes |= levelled(site, level)
                # Replaced values must not reach the stream: if the marks of all keys need several
                # runs, a later site must have the same weights in each.
                out = "attn_out" if site.kind == "self" else "cross_attn_out"
                changes |= {site.block_hook(out): torch.zeros_like} if len(sites) > 1 else {}
            for hook, z in self.record(rows, hooks.__contains__, changes).items():
                parts[hooks[hook]].append(z)
        return {name: torch.cat(z, dim=-1)[..., : n_keys[name]] for name, z in parts.items()}

    def steps(
        self, rows: Rows, sizes: Sequence[int]
    ) -> Iterator[Float[Tensor, "batch tgt feature"]]:
        """The output of cached steps of the given `sizes` (target positions)."""
        cache, record = KVCache(self.config.n_layers), self._visitor(rows, self.outcome.__eq__)
        with torch.inference_mode(), visiting(record):
            memory = self.model.memory_of(rows)
        for size, end in zip(sizes, accumulate(sizes), strict=True):
            new = rows.tgt[:, end - size : end]
            step = replace(rows, tgt=new, tgt_valid=rows.valid("tgt")[:, :end])
            with torch.inference_mode(), visiting(record):
                self.model.read(step, memory, cache)
            yield record.activations[self.outcome]

    def record(
        self,
        rows: Rows,
        wants: Callable[[str], bool],
        marks: Mapping[str, Callable[[Tensor], Tensor]] | None = None,
    ) -> dict[str, Tensor]:
        """The tensors at the wanted hook points in a run in which `marks` change others."""
        record = self._visitor(rows, wants, marks)
        with torch.inference_mode(), visiting(record):
            self.model.read(rows)
        return record.activations

    def _visitor(
        self,
        rows: Rows,
        wants: Callable[[str], bool],
        marks: Mapping[str, Callable[[Tensor], Tensor]] | None = None,
    ) -> Record:
        edits = self.interference(rows) if self.interference else NO_EDITS
        return Record(wants, edits.then(Edits(marks or {})))


def levelled(site: AttentionSite, level: float) -> dict[str, Change]:
    """Changes that give q·k the same value at every cell of a site."""
    changed = {site.hook("q"): level, site.hook("k"): 1.0}
    return {hook: partial(_along_first, size=size) for hook, size in changed.items()}


def _along_first(x: Tensor, size: float) -> Tensor:
    """Vectors [..., d_head] of one direction and this size, limited by what the dtype can hold."""
    changed, most = torch.zeros_like(x), torch.finfo(x.dtype).max / 8
    changed[..., 0] = min(max(size, -most), most)
    return changed


def marked(first: int) -> Change:
    """Replace values by one-hot vectors, for the keys from `first` on."""
    return partial(_marked, first=first)


def _marked(v: Tensor, first: int) -> Tensor:
    """Values [batch, kv_head, key, d_head] in which key first + i has a 1 at feature i only."""
    n_key, d_head = v.shape[2:]
    eye = torch.eye(n_key, max(n_key, first) + d_head, dtype=v.dtype)
    return eye[:, first : first + d_head].expand(v.shape).contiguous()
