"""All that only makes a model faster, put on from outside; the numbers stay those of the plain one.

`speed_up` exchanges the classes of a built model's modules for the subclasses below. They share
parameters, names and hook points with the plain ones, so checkpoints, ties, copies and `.to()` do
not notice. `lay_out_for_decoding` also stores the matrices as one token reads them soonest.

- *Attention* takes torch's fused kernel at every site that nobody looks at, and leaves out a mask
  that hides nothing. Where the pattern alone is looked at (`patterns.py`), scale and mask are terms
  of one product, found once for all layers; it is made of some queries at a time, so that their
  scores never leave the processor's cache, and keys that none of them may attend to are not
  multiplied: half of them under a causal mask. 12 heads of 512 tokens take 7.6 ms, the fused kernel
  10, step by step 30; 128 tokens 0.6, 0.7 and 1.4.
- *The cache* has spare room, so that a step of decoding copies nothing that it holds; where a beam
  exchanges rows that hold the same, as those of one source do, it does nothing.
- *Rotations* of queries and keys multiply complex numbers, in one pass over them in place of six.
- *Sines* are read from a table, which is made once.
- *A record* copies what is alike along an axis, as a mask is for all heads, once, and a pattern not
  at all; where a picture is all that is wanted, it is written in float16.
- *Hook points, and dropout outside training*, skip `nn.Module.__call__`, which costs ten times what
  there is to do; a step of decoding passes more than a hundred of them.
- *Columns*: a step of decoding multiplies every matrix by one token, and its time is that of
  reading it. Stored row by row, a matrix is many dot products, which BLAS reads at half to three
  quarters of the speed of memory; stored column by column it is few long sums. Measured on one core
  of an EPYC server, one token: 8,000 x 512 takes 0.54 ms in place of 0.80, 2,048 x 512 0.14 in
  place of 0.21, 512 x 2,048 0.13 in place of 0.17. On a desktop machine, where 8,000 x 512 takes
  0.85 in place of 1.6, narrowing maps are as fast by rows. Self-attention's three projections are
  read as one map.
- *Packed for several rows*: for the two to eight tokens of a beam or a small batch BLAS first
  copies a matrix into another order, and reads at half the speed of memory. oneDNN keeps it in that
  order ("packed"). On one core of a Sapphire Rapids server, four tokens: 2,048 x 512 takes 0.40 ms
  in place of 0.57 by columns and 0.59 by rows, 8,000 x 512 1.5 in place of 2.1 and 2.7. A single
  token is read faster by columns out of the processor's cache, and on some machines out of memory
  too, so each matrix is held twice, and a model that is larger than a cache is timed both ways.
  For many rows there is less to gain where BLAS uses the whole processor; on an AMD EPYC with
  AVX-512, which MKL leaves alone, oneDNN is 2.2 times as fast (96 x 256 x 1,024: 0.2 ms in place of
  0.5), so one product is timed both ways, once in a process.
- *One text in all rows* of a batch, as `expand` makes it, is multiplied once.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from models.attention import Attention, capped, share_heads
from models.cache import LayerCache
from models.fast.maps import FastLinear, NotCopied, Packed, linear, settle_single_rows
from models.fast.memory import FastRecord
from models.fast.patterns import masked_softmax, patterned, products
from models.hooks import VISITOR, HookPoint
from models.masks import require_mask
from models.positions import NOWHERE, Placement, Rotation, Sinusoidal, sinusoidal_table
from models.positions import rotate as plain_rotate
from models.transformer import Model


def speed_up(model: nn.Module) -> None:
    """Exchange the modules of `model` for faster ones, in place; right for training too."""
    for module in model.modules():
        module.__class__ = FASTER.get(type(module), type(module))


def lay_out_for_decoding(model: Model) -> None:
    """`speed_up`, and the matrices of `model` in the order in memory that decoding reads soonest.

    Shapes, values and the state dict stay as they are. Call it on a model that will not be trained
    further: an optimizer keeps its state in the layout that the weights had before. A tied
    embedding goes along; looking up a row of it costs a little more.
    """
    speed_up(model)
    for site in model.attention_sites():
        attention = model.get_submodule(site.name)
        if isinstance(attention, FastAttention) and site.kind == "self":
            attention.join_projections()
    for module in model.modules():
        if isinstance(module, FastLinear):
            module.lay_out()
        # A part is looked up in `_modules` only after all else has failed, 0.5 us each time and
        # 400 times a step; as an attribute like any other it is found at once.
        vars(module).update(module.named_children())
    settle_single_rows(packed_maps(model))


@dataclass(frozen=True, eq=False)
class Joined(NotCopied):
    """Several maps of one input as one: their matrices share its memory, in order."""

    weight: Tensor
    bias: Tensor | None
    packed: Packed | None


def packed_maps(model: nn.Module) -> list[tuple[Tensor, Packed]]:
    """Every packed matrix of a model, joined ones too, beside the same by columns: [out, in]."""
    found = []
    for module in model.modules():
        if isinstance(module, FastAttention) and module._joined is not None:
            found.append((module._joined.weight, module._joined.packed))
        if isinstance(module, FastLinear):
            found.append((module.weight, module._packed))
    return [(weight, packed) for weight, packed in found if packed is not None]


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    *,
    bias: Tensor | None = None,
    divisor: float | None = None,
    cap: float | None = None,
    dropout: float = 0.0,
    hooks: "FastAttention | None" = None,
) -> tuple[Tensor, Tensor | None]:
    """`models.attention.attend`; the pattern is None, and never computed, where nobody looks."""
    k, v = share_heads(q, k), share_heads(q, v)
    if mask is not None:
        require_mask(mask, (*q.shape[:3], k.shape[2]))
    scores_wanted = hooks is not None and (hooks.hook_scores.wanted or hooks.hook_mask.wanted)
    looked_at = scores_wanted or (hooks is not None and hooks.hook_pattern.wanted)
    bias = None if bias is None else bias.to(q.dtype)
    if cap is None and not looked_at:
        if bias is not None:
            mask = bias if mask is None else bias.masked_fill(~mask, -torch.inf)
        scale = None if divisor is None else 1 / divisor
        z = nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=dropout, scale=scale
        )
        return z, None
    scale = 1 / (divisor or math.sqrt(q.shape[-1]))
    k_t, alone = k.transpose(-2, -1), not (dropout or torch.is_grad_enabled())
    if hooks is not None and alone and not scores_wanted and q.device.type == "cpu":
        kept = hooks.hook_pattern.dtype or q.dtype
        z, made = patterned(q, k_t, v, mask, bias, scale, cap, kept)
        version = made._version
        pattern = hooks.hook_pattern(made)
        changed = pattern is not made or made._version != version
        return (pattern @ v if changed else z), pattern
    scores = capped(products(q, k_t, scale), cap)
    scores = scores if bias is None else scores + bias
    if hooks is not None:
        scores = hooks.hook_scores(scores)
    if hooks is not None and hooks.hook_mask.wanted:
        full = torch.ones((), dtype=torch.bool, device=q.device) if mask is None else mask
        mask = hooks.hook_mask(full.expand(scores.shape))
    pattern = masked_softmax(scores, mask)
    pattern = pattern if hooks is None else hooks.hook_pattern(pattern)
    return (nn.functional.dropout(pattern, dropout) if dropout else pattern) @ v, pattern


def rotate(x: Tensor, rotation: Rotation) -> Tensor:
    """`models.positions.rotate` in one pass: a pair of features is turned as a complex number."""
    n = 2 * rotation[0].shape[-1]
    if n < x.shape[-1] or x.dtype not in (torch.float32, torch.float64):
        return plain_rotate(x, rotation)
    cos, sin = (each.to(x.dtype) for each in rotation)
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * torch.complex(cos, sin)).flatten(-2)


class FastAttention(Attention):
    """Attention by the `attend` above, a cache that grows without copying, and self-attention's
    three projections in one product."""

    _joined: Joined | None = None  # see `join_projections`
    hook_scores: "FastHookPoint"
    hook_mask: "FastHookPoint"
    hook_pattern: "FastHookPoint"

    attend = staticmethod(attend)
    rotate = staticmethod(rotate)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        mask: Tensor | None = None,
        placement: Placement = NOWHERE,
        cache: LayerCache | None = None,
    ) -> Tensor:
        if cache is not None:
            cache.__class__ = GrowingCache
        return super().forward(x, memory, mask, placement, cache)

    def project(self, x: Tensor, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        joined = self._joined
        # With gradients, which have to reach the three matrices themselves, there are three.
        if joined is None or source is not x or torch.is_grad_enabled():
            return super().project(x, source)
        heads = self._split(linear(x, joined.weight, joined.bias, joined.packed))
        q, k, v = heads.tensor_split((self.n_heads, self.n_heads + self.n_kv_heads), dim=1)
        return q, k, v

    @torch.no_grad()
    def join_projections(self) -> None:
        """Let w_q, w_k and w_v share one memory, so that self-attention reads them in one product.

        They keep their names, shapes and values; a pass without gradients multiplies by all three
        at once, stored column by column. Moving or converting the sublayer parts them again.
        """
        parts = (self.w_q, self.w_k, self.w_v)
        weight = torch.cat([part.weight for part in parts]).t().contiguous().t()
        bias = None if self.w_q.bias is None else torch.cat([part.bias for part in parts])
        first = 0
        for part in parts:
            last = first + part.out_features
            part.weight.data = weight[first:last]
            if bias is not None:
                part.bias.data = bias[first:last]
            first = last
        packed = Packed.of(weight, *(part.weight for part in parts))
        self._joined = Joined(weight, bias, packed)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> "FastAttention":
        self._joined = None  # `fn` gives each matrix a memory of its own
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self


class GrowingCache(LayerCache):
    """A cache whose storage is larger than what it holds and doubles when full.

    So a step writes one column and copies nothing. A plain cache becomes one while it is empty.
    """

    _stored: Tensor | None = None  # [keys and values, batch, kv_head, room, d_head]
    _origins: list[int]  # of each row: which one it was when last written to

    def append(self, k: Tensor, v: Tensor) -> None:
        batch, kv_head, new, d_head = k.shape
        start, end = self.length, self.length + new
        if self._stored is None or self._stored.shape[3] < end:
            larger = k.new_empty(2, batch, kv_head, max(16, 2 * end), d_head)
            if start:
                larger[:, :, :, :start] = self.columns
            self._stored = larger
        self._stored[0, :, :, start:end] = k
        self._stored[1, :, :, start:end] = v
        self._columns, self._origins = self._stored[:, :, :, :end], list(range(batch))

    def select(self, rows: Tensor) -> None:
        if self._stored is None:
            return
        origins = [self._origins[row] for row in rows.tolist()]
        if origins == self._origins:  # the hypotheses of one sentence, in cross-attention
            return
        _, _, *sizes = self._stored.shape
        chosen = self._stored.new_empty(2, len(rows), *sizes)
        held = chosen[:, :, :, : self.length]  # the spare room is not copied
        torch.index_select(self.columns, 1, rows, out=held)
        self._stored, self._columns, self._origins = chosen, held, origins


class FastSinusoidal(Sinusoidal):
    """Sines read from a table of n_ctx positions, which is made when it is first asked for."""

    _table: Tensor | None = None  # [pos, d_model], on the device that computes

    def added(self, positions: Tensor) -> Tensor:
        if int(positions.max()) >= self.config.n_ctx:  # the module is shared: its table never grows
            return super().added(positions)
        table = self._table
        if table is None or table.device != positions.device:
            config = self.config
            with torch.inference_mode(False):
                table = sinusoidal_table(config.n_ctx, config.d_model, config.rope_base)
                table = table.to(positions.device)
            self._table = table
        return table[positions]


class FastHookPoint(HookPoint):
    """A hook point without torch's own hooks, unless one was registered on it."""

    @property
    def wanted(self) -> bool:
        """Whether the current visitor asked for this hook point: else its tensor need not exist."""
        visitor = VISITOR.get()
        return visitor is not None and visitor.wants(self.name)

    @property
    def dtype(self) -> torch.dtype | None:
        """In which dtype a record keeps a pattern that it leaves as it is; None: in its own."""
        visitor = VISITOR.get()
        return visitor.dtype(self.name) if isinstance(visitor, FastRecord) else None

    def __call__(self, tensor: Tensor) -> Tensor:
        if self._forward_hooks:
            seen: Tensor = super().__call__(tensor)
            return seen
        return self.forward(tensor)


class FastDropout(nn.Dropout):
    """Dropout that is the identity outside training at the price of one."""

    def __call__(self, x: Tensor) -> Tensor:
        return super().__call__(x) if self.training else x


FASTER: dict[type[nn.Module], type[nn.Module]] = {
    Attention: FastAttention,
    nn.Linear: FastLinear,
    nn.Dropout: FastDropout,
    Sinusoidal: FastSinusoidal,
    HookPoint: FastHookPoint,
}
