"""Record the attention of any torch module while it runs.

Attention is recognised wherever it is computed:

- `F.scaled_dot_product_attention` and `flex_attention`: the pattern is computed a second time
  (`kernels`);
- `nn.MultiheadAttention`, and so `nn.Transformer*`: from the arguments of the function it calls
  (`multi_head`);
- plain code: `softmax` over the last axis whose result, optionally after dropout or a mask, is
  multiplied by values; or any other function that turns a product of activations into rows that
  sum to 1. Opaque code that returns its patterns (`output_attentions`) is read from its output.
  A product whose rows do not sum to 1 (sigmoids, for example) is named, but not shown, and so is a
  softmax whose use was not understood (`by_hand`).

Which axes are batch and heads is read off the equation, the code's reshapes and the batch of the
input (`axes`). What gradient checkpointing computes again in the backward pass is not recorded.

A recomputed pattern is shown only if it reproduces the result of the call. Otherwise the module is
named in `unseen`, as is any call that cannot be inspected.

Three torch modules have a fused path for inference, which torch does not take while a mode of
`torch.overrides` is active.
"""

import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Literal, ParamSpec

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules import module as hooks
from torch.overrides import TorchFunctionMode

from explorer.notebook import kernels
from explorer.notebook.axes import AxisEvidence, Why
from explorer.notebook.by_hand import ByHand, Softmax, Weights, product_of
from explorer.notebook.captured import Attention, Captured
from explorer.notebook.torch_modules import FUSED, looks_like_attention, multi_head, patterns_in


class capture:  # noqa: N801 (used as a function: `with capture() as seen`)
    """`with capture() as seen: model(batch)` records every attention call of this thread.

    Gradients and random numbers do not change, nor do results; but while a capture is active,
    compiled modules run in eager mode and `nn.Transformer*` on torch's plain path, whose results
    can differ by rounding. Captures may be nested (both record) and used in several threads at once
    (each records its own thread). After an error all hooks are removed, and calls recorded before
    it remain available.

    `sequences` is the number of sequences in the batch, by default the batch of the model's input.
    `show(seen, heads=…)` divides an axis that may hold heads, sequences or both.
    """

    keeps_scores = False
    """Whether to record masked scores, and queries and keys of plain code too, for `certify`."""

    def __init__(self, sequences: int | None = None) -> None:
        self._sequences = sequences

    def __enter__(self) -> Captured:
        self._seen = Captured()
        watch = getattr(_here, "watch", None)
        if watch is None:
            watch = _here.watch = _Watch()
            watch.start()
        watch.listeners.append(self._seen)
        watch.evidence.sequences = self._sequences
        watch.by_hand.keeps_factors = watch.keeps_scores = self.keeps_scores
        return self._seen

    def __exit__(self, *error: object) -> None:
        watch: _Watch = _here.watch
        if error[0] is None:
            watch.name_unused()
            watch.name_compiled()
        watch.listeners = [listener for listener in watch.listeners if listener is not self._seen]
        if not watch.listeners:
            _here.watch = None
            watch.stop()


_here = threading.local()
"""The watch of a thread, which all its captures share."""


_COMPILER = "torch._dynamo"


class _Eager:
    """Runs compiled modules in eager mode while any capture is active, so that they are recorded.

    The setting is process-wide: the first capture sets it and the last one restores it. If the
    compiler is not imported yet, there is no setting, and importing it takes seconds: what is then
    compiled while capturing runs compiled, and is named.
    """

    _lock, _active = threading.Lock(), 0
    _stance: Any = None

    @classmethod
    def begin(cls) -> None:
        with cls._lock:
            cls._active += 1
            if cls._stance is None and _COMPILER in sys.modules:
                cls._stance = torch.compiler.set_stance("force_eager")
                cls._stance.__enter__()

    @classmethod
    def end(cls) -> None:
        with cls._lock:
            cls._active -= 1
            if not cls._active and cls._stance is not None:
                cls._stance.__exit__(None, None, None)
                cls._stance = None


P = ParamSpec("P")


def _unheard(function: Callable[P, None]) -> Callable[P, None]:
    """Decorator: no torch function mode sees the torch calls of this function."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> None:
        with torch._C.DisableTorchFunction():
            function(*args, **kwargs)

    return call


@dataclass(eq=False)
class _Running:
    """A module that is running. `first` is the number of calls recorded before it."""

    module: nn.Module
    name: str
    names: Mapping[int, str]
    first: int
    hides: bool = False  # multiplied weights that are not a pattern


class _Watch(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.listeners: list[Captured] = []
        self._n_seen = 0
        self._thread = threading.get_ident()
        self._running: list[_Running] = []
        self.by_hand, self.evidence, self.keeps_scores = ByHand(), AxisEvidence(), False
        self._may_compile = _COMPILER in sys.modules

    def start(self) -> None:
        self._handles = [
            hooks.register_module_forward_pre_hook(self._enter),
            hooks.register_module_forward_hook(self._leave, with_kwargs=True, always_call=True),
        ]
        _Eager.begin()
        kernels.set_modes([*kernels.active_modes(), self])

    def stop(self) -> None:
        kernels.set_modes([mode for mode in kernels.active_modes() if mode is not self])
        _Eager.end()
        for handle in self._handles:
            handle.remove()
            hooks._global_forward_hooks_with_kwargs.pop(handle.id, None)  # torch forgets this
        self._end()

    def _end(self) -> None:
        self.by_hand.end()
        self.evidence.end()

    def name_unused(self) -> None:
        """Name the softmaxes whose use was not understood."""
        for softmax in self.by_hand.unused():
            self._name_softmax(softmax)

    def name_compiled(self) -> None:
        """Name the compiler if it was imported meanwhile: what it compiled ran unseen."""
        if not self._may_compile and _COMPILER in sys.modules:
            self._miss("torch.compile (first used while capturing)")

    def _name_softmax(self, softmax: Softmax) -> None:
        module = softmax.module or "outside a module"
        if softmax.over_features or softmax.is_used:
            self._name_in("others", f"{module} (softmax)")
        else:
            self._name_in("unseen", f"{module} (softmax)")

    # Which module is running.

    def _enter(self, module: nn.Module, args: Any) -> None:
        if torch.compiler.is_compiling():
            return
        if threading.get_ident() != self._thread or _in_backward():
            return
        if self._running:
            names = self._running[0].names
        else:
            names = {id(part): path for path, part in module.named_modules()}
            self.by_hand.begin(module)
            with torch._C.DisableTorchFunction():
                self.evidence.begin(args)
        name = names.get(id(module)) or type(module).__name__
        self._running.append(_Running(module, name, names, self._n_seen))

    def _leave(self, module: nn.Module, args: Any, *rest: Any) -> None:
        if torch.compiler.is_compiling():
            return
        if threading.get_ident() != self._thread or not self._running:
            return
        running = self._running[-1]
        if running.module is not module:  # it began before the capture
            return
        if len(rest) == 2:  # after an error there are no keyword arguments
            self._look(self._ended, running, rest[1])
        self._running.pop()
        if not self._running:
            if len(rest) == 2:
                self.name_unused()
            self._end()

    def _ended(self, call: "_Running", output: Any) -> None:
        returned = False
        if self._n_seen == call.first:
            for pattern in patterns_in(output):
                self.by_hand.returned(pattern)
                self._record(Attention(call.name, pattern))
                returned = True
        if self._n_seen == call.first and looks_like_attention(call.module):
            self._miss(call.name)
        if call.hides and not returned:
            self._miss(call.name)

    @property
    def _name(self) -> str:
        return self._running[-1].name if self._running else ""

    def _miss(self, name: str) -> None:
        self._name_in("unseen", name)

    def _name_in(self, which: Literal["unseen", "others"], name: str) -> None:
        for seen in self.listeners:
            names = getattr(seen, which)
            if name not in names:
                names.append(name)

    def _found(self, attention: Attention | None, name: str = "") -> None:
        """Record the attention of a kernel; None: it could not be reproduced."""
        if attention is None:
            self._miss(f"{self._name or 'outside a module'}{name}")
        else:
            self._record(replace(self._laid(attention), name=self._name))

    def _laid(self, attention: Attention) -> Attention:
        """A call of a function that takes any axes before [head, pos, d_head]."""
        *leading, n_query, n_key = attention.pattern.shape
        axes = self.evidence.read(tuple(leading), n_query, n_key)
        if len(leading) == 2:  # [batch, head] by definition; a batch of windows is not the input's
            return replace(attention, axes="kernel" if axes.why == "batch" else "order")
        return attention.laid(axes)

    def _record(self, attention: Attention) -> None:
        if kernels.opaque(attention.pattern):
            self._miss(attention.name or "outside a module")
            return
        mask, query, key, scores = (
            None if tensor is None else tensor.detach().clone()
            for tensor in (
                *(attention.mask, attention.query, attention.key),
                attention.scores if self.keeps_scores else None,
            )
        )
        pattern = attention.pattern.detach().float().clone()
        attention = replace(
            attention, pattern=pattern, mask=mask, query=query, key=key, scores=scores
        )
        self._n_seen += 1
        for seen in self.listeners:
            seen.calls.append(attention)

    # Intercepted calls.

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if torch.compiler.is_compiling() or _in_backward():
            return func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        kernel = (
            multi_head if func is F.multi_head_attention_forward else kernels.FUNCTIONS.get(name)
        )
        if kernel is not None:
            result = func(*args, **kwargs)
            self._look(self._called, kernel, func, args, kwargs, result)
        else:
            self._look(self._multiplied, func, args, kwargs)
            result = func(*args, **kwargs)
            self._look(self._follow, func, args, kwargs, result)
        return result

    def _look(self, at: Callable[..., None], *what: Any) -> None:
        """Inspect without ever raising: a call that cannot be inspected is listed in `unseen`."""
        try:
            at(*what)
        except Exception as error:  # third-party tensor classes may raise anything
            self._miss(f"{self._name or 'outside a module'} ({type(error).__name__})")

    def _called(self, kernel: Any, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        with kernels.aside():
            attention = kernel(func, args, kwargs, result)
            self._found(attention, "" if kernel is multi_head else f" ({func.__name__})")

    # Plain code: track the result of a softmax until it is multiplied by values.

    @_unheard
    def _multiplied(self, func: Callable[..., Any], args: Any, kwargs: Any) -> None:
        product = product_of(func, args, kwargs)
        if product is None:
            return
        for weights in self.by_hand.weights(product):
            with kernels.aside():
                if isinstance(weights, Softmax):
                    self._name_softmax(weights)
                elif weights.scores is not None:
                    self._plain(weights)
                else:
                    self._weighted(weights)

    def _weighted(self, weights: Weights) -> None:
        """Record hand-made weights if they are a pattern, else list the module in `unseen`."""
        if not kernels.opaque(weights.pattern) and kernels.sums_to_one(weights.pattern):
            self._plain(weights)
        elif self._running:
            self._running[-1].hides = True
        else:
            self._miss("outside a module")

    def _plain(self, weights: Weights) -> None:
        pattern, mask, scores, fill = weights.pattern, None, None, None
        why: Why = "order"
        if kernels.opaque(pattern):
            self._miss(self._name or "outside a module")
            return
        if weights.scores is not None:
            cut = weights.scores[..., : pattern.shape[-1]]
            if cut.numel() == pattern.numel() and (cut.ndim == 3 or cut.shape == pattern.shape):
                keep = kernels.allowed(weights.scores)[..., : pattern.shape[-1]]
                scores = cut.reshape(pattern.shape)
                if not bool(keep.all()):
                    mask, fill = keep.reshape(pattern.shape), kernels.fill_of(cut, keep)
        factors, equation = weights.factors, weights.equation
        reading = equation and equation.order(pattern.shape, self.evidence.lengths)
        if equation and not reading:
            factors = None
        elif equation and reading:
            order, why = reading
            pattern = pattern.permute(order)
            mask, scores = (
                None if tensor is None else tensor.permute(order) for tensor in (mask, scores)
            )
            factors = factors and equation.queries_and_keys(*factors, order)
        *leading, n_query, n_key = pattern.shape
        axes = self.evidence.read(tuple(leading), n_query, n_key, why)
        query, key = factors or (None, None)
        call = Attention(self._name, pattern, mask, query, key, fill, scores=scores)
        self._record(call.laid(axes))

    @_unheard
    def _follow(self, func: Callable[..., Any], args: Any, kwargs: Any, result: Any) -> None:
        name = getattr(func, "__name__", "")
        if any(part in name for part in FUSED):
            self._miss(f"{self._name or 'outside a module'} ({name})")
        if isinstance(result, Tensor) and result.is_floating_point() and not result.is_nested:
            self.evidence.follow(func, args, result)
            self.by_hand.follow(func, args, kwargs, result, self._name)


def _in_backward() -> bool:
    """Whether autograd runs: gradient checkpointing then computes a forward pass again."""
    return bool(torch._C._current_graph_task_id() != -1)
