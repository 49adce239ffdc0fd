"""Optional speed-ups for a built model; the computed numbers are those of the plain model.

`speed_up` replaces the classes of a model's modules by the subclasses below. They share parameters,
names and hook points with the plain classes, so checkpoints, tied weights, copies and `.to()` work
unchanged. `lay_out_for_decoding` also stores the matrices in the fastest layout for decoding.

- *Attention* uses torch's fused kernel at every site that no visitor wants, and drops a mask that
  hides nothing. If only the pattern is recorded (`patterns.py`), scale and mask are folded into the
  matrix product; the mask term is computed once for all layers. Queries are processed in chunks
  whose scores fit into the processor's cache. Keys hidden from a whole chunk are skipped: half of
  them under a causal mask. 12 heads of 512 tokens take 7.6 ms, compared with 10 for the fused
  kernel and 30 step by step; 128 tokens take 0.6, 0.7 and 1.4 ms.
- *The KV cache* has spare capacity, so a decoding step copies none of its contents. Reordering
  identical rows, such as the cross-attention of one source in beam search, is skipped.
- *Rotations* of queries and keys use complex multiplication: one pass over memory instead of six.
- *Sinusoidal encodings* are read from a table that is computed once.
- *Hook points, and dropout outside training*, skip `nn.Module.__call__`, which costs ten times as
  much as the work itself; a decoding step passes more than a hundred of them.
- *Columns*: a decoding step multiplies every matrix by one token, so reading the matrix dominates.
  Stored by rows, the product is many dot products, which BLAS reads at half to three quarters of
  the memory bandwidth; stored by columns, it is a few long sums. Measured on one core of an EPYC
  server for one token: 8,000 x 512 takes 0.54 ms instead of 0.80, 2,048 x 512 takes 0.14 instead of
  0.21, and 512 x 2,048 takes 0.13 instead of 0.17. On a desktop machine, 8,000 x 512 takes 0.85
  instead of 1.6, and narrowing maps are as fast by rows. The three projections of self-attention
  are joined into one map.
- *Packed for several rows*: for two to eight tokens (beam search, a small batch), BLAS first copies
  a matrix into another order, and reads at half the memory bandwidth. oneDNN stores the matrix in
  that order ("packed"). On one core of a Sapphire Rapids server with four tokens, 2,048 x 512 takes
  0.40 ms instead of 0.57 by columns and 0.59 by rows; 8,000 x 512 takes 1.5 instead of 2.1 and 2.7.
  A single token is faster by columns if the matrix is in the processor's cache, on some machines
  also from memory. So each matrix is stored twice, and models larger than a cache are timed both
  ways. For many rows the gain is smaller if BLAS uses the full processor. On an AMD EPYC with
  AVX-512, which MKL does not use, oneDNN is 2.2 times as fast (96 x 256 x 1,024: 0.2 ms instead of
  0.5), so one product is timed both ways, once per process.
- *A batch of identical sequences*, as made by `expand`, is multiplied once.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from models.attention import Attention, capped, share_heads
from models.cache import LayerCache
from models.fast.maps import FastLinear, NotCopied, Packed, linear, settle_single_rows
from models.fast.patterns import masked_softmax, patterned, products
from models.hooks import VISITOR, HookPoint, Record
from models.masks import require_mask
from models.positions import (
    NOWHERE,
    Placement,
    Rotation,
    Sinusoidal,
    rotate as plain_rotate,
    sinusoidal_table,
)
from models.transformer import Model


def speed_up(model: nn.Module) -> None:
    """Replace the modules of `model` by faster ones, in place; also valid for training."""
    for module in model.modules():
        module.__class__ = FASTER.get(type(module), type(module))


def lay_out_for_decoding(model: Model) -> None:
    """`speed_up`, and store the matrices of `model` in the memory layout that decodes fastest.

    Shapes, values and the state dict do not change. Do not train the model afterwards: an
    optimizer keeps its state in the previous layout of the weights. A tied embedding changes its
    layout too, which makes lookups slightly slower.
    """
    speed_up(model)
    for site in model.attention_sites():
        attention = model.get_submodule(site.name)
        if isinstance(attention, FastAttention) and site.kind == "self":
            attention.join_projections()
    for module in model.modules():
        if isinstance(module, FastLinear):
            module.lay_out()
        # Looking up a submodule in `_modules` takes 0.5 us, 400 times per step; a plain attribute
        # is found immediately.
        vars(module).update(module.named_children())
    settle_single_rows(packed_maps(model))


@dataclass(frozen=True, eq=False)
class Joined(NotCopied):
    """Several linear maps of one input, joined: their weights are consecutive views of `weight`."""

    weight: Tensor
    bias: Tensor | None
    packed: Packed | None


def packed_maps(model: nn.Module) -> list[tuple[Tensor, Packed]]:
    """Pairs of every matrix by columns, [out, in], and its packed copy, joined ones included."""
    pairs = []
    for module in model.modules():
        if isinstance(module, FastAttention) and module._joined is not None:
            pairs.append((module._joined.weight, module._joined.packed))
        if isinstance(module, FastLinear):
            pairs.append((module.weight, module._packed))
    return [(weight, packed) for weight, packed in pairs if packed is not None]


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
    """`models.attention.attend`; the pattern is None, and not computed, if no visitor wants it."""
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
        z, original = patterned(q, k_t, v, mask, bias, scale, cap, kept)
        version = original._version
        pattern = hooks.hook_pattern(original)
        changed = pattern is not original or original._version != version
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
    """`models.positions.rotate` in one pass: pairs of features are rotated as complex numbers."""
    n = 2 * rotation[0].shape[-1]
    if n < x.shape[-1] or x.dtype not in (torch.float32, torch.float64):
        return plain_rotate(x, rotation)
    cos, sin = (factor.to(x.dtype) for factor in rotation)
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * torch.complex(cos, sin)).flatten(-2)


class FastAttention(Attention):
    """Attention with the `attend` above, a growing cache, and joined projections in
    self-attention."""

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
        # Gradients must reach the three matrices themselves.
        if joined is None or source is not x or torch.is_grad_enabled():
            return super().project(x, source)
        heads = self._split(linear(x, joined.weight, joined.bias, joined.packed))
        q, k, v = heads.tensor_split((self.n_heads, self.n_heads + self.n_kv_heads), dim=1)
        return q, k, v

    @torch.no_grad()
    def join_projections(self) -> None:
        """Store w_q, w_k and w_v in one tensor, so that self-attention needs a single product.

        Names, shapes and values do not change; a pass without gradients multiplies by all three
        at once, stored by columns. Moving or converting the sublayer separates them again.
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
        self._joined = None  # `fn` gives each matrix its own storage
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self


class GrowingCache(LayerCache):
    """A cache with spare capacity that doubles when full, so a step writes one column only.

    An empty plain cache is converted into a growing one.
    """

    _stored: Tensor | None = None  # [keys and values, batch, kv_head, room, d_head]
    _origins: list[int]  # per row: its index at the last append

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
        if origins == self._origins:  # same content, e.g. one source in cross-attention
            return
        _, _, *sizes = self._stored.shape
        chosen = self._stored.new_empty(2, len(rows), *sizes)
        held = chosen[:, :, :, : self.length]  # the spare room is not copied
        torch.index_select(self.columns, 1, rows, out=held)
        self._stored, self._columns, self._origins = chosen, held, origins


class FastSinusoidal(Sinusoidal):
    """Sinusoidal encodings read from a table of n_ctx positions, computed on first use."""

    _table: Tensor | None = None  # [pos, d_model], on the device of the positions

    def added(self, positions: Tensor) -> Tensor:
        if int(positions.max()) >= self.config.n_ctx:  # the table is shared and never grows
            return super().added(positions)
        table = self._table
        if table is None or table.device != positions.device:
            config = self.config
            with torch.inference_mode(False):
                table = sinusoidal_table(config.n_ctx, config.width, config.rope_base)
                table = table.to(positions.device)
            self._table = table
        return table[positions]


_DRAWN = frozenset({"normal_", "uniform_", "kaiming_uniform_"})


class Unnumbered(TorchFunctionMode):
    """Skip random initialisation inside, for weights that are loaded from a file, and join tensors
    without numbers by their shapes. Drawing takes longer than reading the file, and for either
    torch would import its compiler on device "meta" (2 to 5 s)."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        if getattr(func, "__name__", "") in _DRAWN:  # of torch.nn.init, or a tensor's own
            return args[0] if args else named["tensor"]
        if func is torch.cat and all(tensor.is_meta for tensor in args[0]):
            return _joined(*args, **named)
        return func(*args, **named)


def _joined(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """`torch.cat` on device "meta". Raises RuntimeError if the other axes differ."""
    rows = [tensor.movedim(dim, 0) for tensor in tensors]
    if len({tuple(tensor.shape[1:]) for tensor in rows}) > 1:
        raise RuntimeError(f"shapes differ: {[tuple(tensor.shape) for tensor in tensors]}")
    total = sum(len(tensor) for tensor in rows)
    return rows[0].new_empty(total, *rows[0].shape[1:]).movedim(0, dim)


@contextmanager
def without_numbers() -> Iterator[None]:
    """Modules built inside have shapes but no storage (torch's device "meta")."""
    with torch.device("meta"), Unnumbered():
        yield


class FastHookPoint(HookPoint):
    """A hook point without torch's own hooks, unless one was registered on it."""

    @property
    def wanted(self) -> bool:
        """Whether the current visitor wants this hook point; if not, skip its tensor."""
        visitor = VISITOR.get()
        return visitor is not None and visitor.wants(self.name)

    @property
    def dtype(self) -> torch.dtype | None:
        """The dtype in which the record stores a pattern that it does not edit; None: unchanged."""
        visitor = VISITOR.get()
        return visitor.dtype(self.name) if isinstance(visitor, Record) else None

    def __call__(self, tensor: Tensor) -> Tensor:
        if self._forward_hooks:
            seen: Tensor = super().__call__(tensor)
            return seen
        return self.forward(tensor)


class FastDropout(nn.Dropout):
    """Dropout that skips `nn.Module.__call__` outside training."""

    def __call__(self, x: Tensor) -> Tensor:
        return super().__call__(x) if self.training else x


FASTER: dict[type[nn.Module], type[nn.Module]] = {
    Attention: FastAttention,
    nn.Linear: FastLinear,
    nn.Dropout: FastDropout,
    Sinusoidal: FastSinusoidal,
    HookPoint: FastHookPoint,
}


def plain_type(module: nn.Module) -> type[nn.Module]:
    """The class of a module; of a faster one, the class that it replaces."""
    kind = type(module)
    return next((plain for plain, fast in FASTER.items() if fast is kind), kind)
