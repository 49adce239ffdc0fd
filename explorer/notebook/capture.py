"""See the attention of any torch module while it runs, without changing the module or its results.

Three ways of computing attention are recognised, wherever they are called:

- `F.scaled_dot_product_attention`: the pattern is computed a second time, from its arguments;
- `F.multi_head_attention_forward`, which `nn.MultiheadAttention` and so `nn.Transformer*` call:
  it is asked for its weights, per head and without dropout;
- plain code: `softmax` over the last axis whose result, perhaps after dropout or a mask, is
  multiplied by values; or whatever else makes rows that sum to 1 of a product of activations.
  Code that hides this, but returns its patterns (`output_attentions`), is seen by what it returns.
  A product of activations whose rows do not (sigmoids, say) is named, but not shown (`by_hand`).

While a TorchFunctionMode is active, torch itself does not take its fused inference path
(`nn.MultiheadAttention` asks `has_torch_function`), so no global switch is touched and other
threads keep theirs. That path differs in two ways: by rounding, and at padded positions, where
`nn.TransformerEncoder` would return zeros.
"""

import math
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from inspect import signature
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules import module as hooks
from torch.overrides import TorchFunctionMode

from explorer.notebook.by_hand import DROPOUT, PRODUCTS, ByHand
from explorer.notebook.captured import Attention, Captured
from explorer.notebook.multi_head import allowed, heads_of

_SOFTMAX = (torch.softmax, F.softmax, Tensor.softmax, torch.special.softmax)
_FUSED = ("_native_multi_head_attention", "_transformer_encoder_layer_fwd", "flex_attention")
_SDPA = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")


class capture:  # noqa: N801 (used as a function: `with capture() as seen`)
    """`with capture() as seen: model(batch)` records every attention of this thread.

    Results, gradients and random numbers are those without it. May be nested (both record) and used
    in several threads at once (each records its own). Nothing remains after an error; what was seen
    before it is kept. Compiled modules run as they were written meanwhile.
    """

    def __enter__(self) -> Captured:
        self._watch = _Watch()
        self._watch.start()
        return self._watch.seen

    def __exit__(self, *error: object) -> None:
        self._watch.stop()


class _Eager:
    """While any capture is active, compiled modules run as they were written, and so are seen.

    torch keeps one such setting for the whole process, so the first capture switches and the last
    puts it back. Nothing can be compiled where the compiler was never imported.
    """

    _lock, _active = threading.Lock(), 0
    _stance: Any = None

    @classmethod
    def begin(cls) -> None:
        with cls._lock:
            cls._active += 1
            if cls._stance is None and "torch._dynamo" in sys.modules:
                cls._stance = torch.compiler.set_stance("force_eager")
                cls._stance.__enter__()

    @classmethod
    def end(cls) -> None:
        with cls._lock:
            cls._active -= 1
            if not cls._active and cls._stance is not None:
                cls._stance.__exit__(None, None, None)
                cls._stance = None


class _Call:
    """A module that is running."""

    def __init__(self, module: nn.Module, name: str, names: Mapping[int, str], first: int) -> None:
        self.module, self.name, self.names, self.first = module, name, names, first
        self.hides = False  # multiplied weights that are no pattern


_busy = threading.local()
"""While one capture recomputes a pattern, an outer one must not record that as well."""


class _Watch(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen = Captured()
        self._thread = threading.get_ident()
        self._running: list[_Call] = []
        # What came out of a softmax, by the id of the tensor, which is kept so that no other
        # tensor gets that id; the pattern that it stands for; and the scores that went in.
        self._weights: dict[int, tuple[Tensor, Tensor, Tensor]] = {}
        self._by_hand = ByHand()

    def start(self) -> None:
        self._handles = [
            hooks.register_module_forward_pre_hook(self._enter),
            hooks.register_module_forward_hook(self._leave, always_call=True),
        ]
        _Eager.begin()
        self.__enter__()  # type: ignore[no-untyped-call]

    def stop(self) -> None:
        self.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        _Eager.end()
        for handle in self._handles:
            handle.remove()
        self._weights.clear()
        self._by_hand.end()

    # Which module is running.

    def _enter(self, module: nn.Module, _: Any) -> None:
        if threading.get_ident() != self._thread:
            return
        if self._running:
            names = self._running[0].names
        else:
            names = {id(part): path for path, part in module.named_modules()}
            self._by_hand.begin(module)
        name = names.get(id(module)) or type(module).__name__
        self._running.append(_Call(module, name, names, len(self.seen.calls)))

    def _leave(self, module: nn.Module, _: Any, output: Any) -> None:
        if threading.get_ident() != self._thread or not self._running:
            return
        call = self._running.pop()
        returned = False
        if len(self.seen.calls) == call.first:
            for pattern in _returned(output):
                self._record(pattern, name=call.name)
                returned = True
        if len(self.seen.calls) == call.first and _looks_like_attention(module):
            self._miss(call.name)
        if call.hides and not returned:
            self._miss(call.name)
        if not self._running:
            self._weights.clear()
            self._by_hand.end()

    @property
    def _name(self) -> str:
        return self._running[-1].name if self._running else ""

    def _miss(self, name: str) -> None:
        if name not in self.seen.unseen:
            self.seen.unseen.append(name)

    def _record(
        self,
        pattern: Tensor,
        name: str | None = None,
        fill: float | None = None,
        **more: Tensor | None,
    ) -> None:
        kept = {
            what: None if tensor is None else tensor.detach().clone()
            for what, tensor in more.items()
        }
        name = self._name if name is None else name
        self.seen.calls.append(Attention(name, pattern.detach().float().clone(), fill=fill, **kept))

    # What is called.

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(_busy, "on", False):
            return func(*args, **kwargs)
        if func is F.multi_head_attention_forward:
            # Inside it the mode is off, so what it calls is not recorded a second time.
            result = func(*args, **kwargs)
            self._quietly(self._multi_head, args, kwargs)
        elif func is F.scaled_dot_product_attention:
            result = func(*args, **kwargs)
            self._quietly(self._dot_product, args, kwargs)
        else:
            if not (func in PRODUCTS and self._product(args)):
                self._hand_made(func, args)
            result = func(*args, **kwargs)
            self._follow(func, args, kwargs, result)
        return result

    def _quietly(self, record: Callable[..., None], args: Any, kwargs: Any) -> None:
        _busy.on = True
        try:
            with torch.no_grad():
                record(args, kwargs)
        finally:
            _busy.on = False

    def _dot_product(self, args: Any, kwargs: Any) -> None:
        given = dict(zip(_SDPA, args, strict=False)) | kwargs
        query, key, mask = given["query"].detach(), given["key"].detach(), given.get("attn_mask")
        if query.is_nested or key.is_nested:
            self._miss(f"{self._name} (nested tensors)")
            return
        if query.shape[:-2] != key.shape[:-2] and query.ndim > 2:  # grouped queries
            if given.get("enable_gqa"):
                key = key.repeat_interleave(query.shape[-3] // key.shape[-3], dim=-3)
            else:
                key = key.expand(*query.shape[:-2], *key.shape[-2:])
        scale = given.get("scale")
        scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
        scores = (query.float() @ key.float().transpose(-2, -1)) * scale
        keep = None
        if given.get("is_causal"):
            keep = scores.new_ones(scores.shape[-2:], dtype=torch.bool).tril()
        elif mask is not None:
            keep = allowed(mask)
        fill = None
        if mask is not None and mask.dtype != torch.bool:
            scores, fill = scores + mask.float(), _fill(mask, allowed(mask))
        elif keep is not None:
            scores = scores.masked_fill(~keep, -math.inf)
        # A row that may see nothing is 0, as `F.scaled_dot_product_attention` leaves it.
        pattern = scores.softmax(-1).masked_fill(torch.isneginf(scores).all(-1, True), 0.0)
        shaped = four_axes(pattern)
        if keep is not None:
            keep = keep.expand(pattern.shape).reshape(shaped.shape)
        self._record(shaped, fill=fill, mask=keep, query=four_axes(query), key=four_axes(key))

    def _multi_head(self, args: Any, kwargs: Any) -> None:
        bound = signature(F.multi_head_attention_forward).bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        _, weights = F.multi_head_attention_forward(
            **{**given, "need_weights": True, "average_attn_weights": False, "training": False}
        )
        assert weights is not None
        # [batch, head, query, key], or without a batch.
        pattern, heads = weights if weights.ndim == 4 else weights[None], heads_of(given)
        if heads.keep is not None and not given["need_weights"]:
            # Without weights torch leaves a row that may see nothing at 0, with them at NaN.
            pattern = pattern.masked_fill(~heads.keep.any(-1, keepdim=True), 0.0)
        self._record(pattern, mask=heads.keep, query=heads.query, key=heads.key)

    # Plain code: what comes out of a softmax, followed until it is multiplied by values.

    def _product(self, args: Any) -> bool:
        """Whether a factor came out of a softmax; it is recorded."""
        # All operands of einsum, else the first: weights @ values.
        tensors = args[1:] if isinstance(args[0], str) else args[:1]
        found = [tensor for tensor in tensors if id(tensor) in self._weights]
        for tensor in found:
            _, pattern, scores = self._weights[id(tensor)]
            self._quietly(self._plain, (four_axes(pattern), scores), {})
        return bool(found)

    def _hand_made(self, func: Callable[..., Any], args: Any) -> None:
        weights = self._by_hand.weights(func, args)
        if weights is not None:
            self._quietly(self._weighted, (weights,), {})

    def _weighted(self, args: Any, _: Any) -> None:
        """Weights that were made by hand: recorded where they are a pattern, else named."""
        if _sums_to_one(args[0]):
            self._record(four_axes(args[0]))
        elif self._running:
            self._running[-1].hides = True
        else:
            self._miss("outside a module")

    def _plain(self, args: Any, _: Any) -> None:
        pattern, scores = args
        keep = allowed(scores)
        same = keep.ndim == 3 or keep.shape == pattern.shape
        if bool(keep.all()) or not same or keep.numel() != pattern.numel():
            self._record(pattern)
        else:
            self._record(pattern, mask=keep.reshape(pattern.shape), fill=_fill(scores, keep))

    def _follow(self, func: Callable[..., Any], args: Any, kwargs: Any, result: Any) -> None:
        if any(name in getattr(func, "__name__", "") for name in _FUSED):
            self._miss(f"{self._name or 'outside a module'} ({func.__name__})")
        if not isinstance(result, Tensor) or not result.is_floating_point():
            return
        if func in _SOFTMAX:
            axis = kwargs.get("dim", args[1] if len(args) > 1 else None)
            if result.ndim in (2, 3, 4) and axis in (-1, result.ndim - 1):
                scores = args[0] if args else kwargs["input"]
                self._weights[id(result)] = result, result, scores.detach()
                return
        self._by_hand.follow(func, args, kwargs, result)
        for source in args[:2]:
            known = self._weights.get(id(source))
            if known is None or result.shape[-2:] != source.shape[-2:]:
                continue
            # Dropout: the pattern before it. Another view: that with an axis of heads.
            other = func not in DROPOUT and (result.ndim == 4 or source.ndim == 3)
            self._weights[id(result)] = result, result if other else known[1], known[2]
            return


def _fill(scores: Tensor, keep: Tensor) -> float | None:
    """The largest number among what is hidden."""
    return None if bool(keep.all()) else float(scores[~keep].max())


def four_axes(tensor: Tensor) -> Tensor:
    """[query, key], [batch, query, key] or more axes as [batch, head, query, key]."""
    if tensor.ndim == 2:
        return tensor[None, None]
    if tensor.ndim == 3:
        return tensor[:, None]
    return tensor.reshape(-1, *tensor.shape[-3:])


def _looks_like_attention(module: nn.Module) -> bool:
    """Named as attention, or opaque to what is watched here."""
    if isinstance(module, torch.jit.ScriptModule) or type(module).__name__ == "OptimizedModule":
        return True
    name = type(module).__name__.lower()
    return "attention" in name or "attn" in name


def _returned(output: Any) -> Iterator[Tensor]:
    """Patterns [batch, head, query, key] among what a module returned beside its main output."""
    if isinstance(output, Mapping):
        parts = list(output.values())
    elif isinstance(output, tuple | list):
        parts = list(output)
    else:
        return
    for part in parts:
        if isinstance(part, Tensor):
            if part.ndim == 4 and part.is_floating_point() and _sums_to_one(part):
                yield part
        else:
            yield from _returned(part)


def _sums_to_one(tensor: Tensor) -> bool:
    with torch.no_grad():
        sums = tensor.float().sum(-1)
        rows = ((sums - 1).abs() < 1e-2) | (sums == 0)
        return bool(tensor.numel()) and bool((tensor >= 0).all()) and bool(rows.all())
