"""Detect hand-written attention that does not call softmax.

Such code multiplies two activations, one of them transposed (queries by keys), applies an
elementwise nonlinearity or softmax variant, and multiplies the result by a third activation
(values). Not taken for attention: a product with a parameter or buffer (a linear layer), products
without a nonlinearity between them (a chain of matrices), and a softmax that ends in a loss or a
sum of experts (not a factor of a product). Not found: additive attention, values that are
multiplied elementwise and summed, and computations inside a custom autograd function.
"""

import re
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PRODUCTS = (torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm, torch.einsum)
DROPOUT = (F.dropout, torch.dropout)

# By name, since `a / b`, `a.div(b)`, `torch.div(a, b)` and `a.div_(b)` are different functions.
_WORD = re.compile(r"\w+")
_STRAIGHT = set(
    _WORD.findall(
        "add radd sub rsub mul rmul div rdiv truediv rtruediv true_divide neg view reshape "
        "transpose permute contiguous clone detach to float double half unsqueeze squeeze expand "
        "flatten unflatten getitem get type_as dropout nan_to_num"
    )
)
_BENT = set(
    _WORD.findall(
        "exp exp2 sigmoid logsigmoid hardsigmoid relu leaky_relu elu gelu silu softplus tanh "
        "softmax log_softmax gumbel_softmax pow square abs clamp clamp_min maximum threshold "
        "masked_fill where tril normalize"
    )
)


class ByHand:
    """Tracks products of activations through elementwise operations until the next product.

    Tensors are referenced weakly, so tracking does not extend their lifetime.
    """

    def __init__(self) -> None:
        self._constants: dict[int, weakref.ref[Tensor]] = {}
        # Products by the id of their current tensor: the tensor, whether a nonlinearity was
        # applied, and the tensor before dropout, if any.
        self._scores: dict[int, tuple[weakref.ref[Tensor], bool, Tensor | None]] = {}

    def begin(self, module: nn.Module) -> None:
        """The outermost module starts: register its parameters and buffers as constants."""
        for constant in (*module.parameters(), *module.buffers()):
            self._constants[id(constant)] = weakref.ref(constant)

    def end(self) -> None:
        self._constants.clear()
        self._scores.clear()

    def weights(self, func: Callable[..., Any], args: Any) -> Tensor | None:
        """The attention weights that this call multiplies by values; None if there are none."""
        operands = _operands(func, args)
        if len(operands) != 2 or any(map(self._is_constant, operands)):
            return None
        for operand in operands if func is torch.einsum else operands[:1]:
            known = self._known(operand)
            if known is not None and known[1]:
                return operand if known[2] is None else known[2]
        return None

    def follow(self, func: Callable[..., Any], args: Any, kwargs: Any, result: Tensor) -> None:
        """Track the result of a call on tracked tensors."""
        tensors = _tensors([*args, *kwargs.values()])
        if tensors and all(map(self._is_constant, tensors)):
            self._constants[id(result)] = weakref.ref(result)
            return
        operands = _operands(func, args)
        if operands:
            is_score = len(operands) == 2 and result.ndim >= 2 and _over_features(args, operands)
            if is_score and not any(map(self._is_constant, operands)):
                self._scores[id(result)] = weakref.ref(result), False, None
            return
        name = getattr(func, "__name__", "").strip("_")
        if name not in _STRAIGHT and name not in _BENT:
            return
        for source in tensors:
            known = self._known(source)
            if known is None or sorted(result.shape[-2:]) != sorted(source.shape[-2:]):
                continue
            before = known[2]
            if func in DROPOUT and before is None:
                before = source
            elif func not in DROPOUT:
                before = None
            self._scores[id(result)] = weakref.ref(result), known[1] or name in _BENT, before
            return

    def _known(self, tensor: Tensor) -> tuple[weakref.ref[Tensor], bool, Tensor | None] | None:
        known = self._scores.get(id(tensor))
        return known if known is not None and known[0]() is tensor else None

    def _is_constant(self, tensor: Tensor) -> bool:
        known = self._constants.get(id(tensor))
        return isinstance(tensor, nn.Parameter) or (known is not None and known() is tensor)


def _operands(func: Callable[..., Any], args: Any) -> list[Tensor]:
    """The factors of a product; an empty list for any other call."""
    if func in (torch.baddbmm, Tensor.baddbmm):
        return _tensors(args[1:3])
    return _tensors(args) if func in PRODUCTS else []


def _over_features(args: Any, operands: list[Tensor]) -> bool:
    """Whether a product contracts the features of both factors: one is transposed, as keys are.

    This excludes graph aggregation, which multiplies features by an adjacency matrix.
    """
    if isinstance(args[0], str):
        first, second = args[0].replace(" ", "").split("->")[0].split(",")
        return first[-1] == second[-1]
    return any(each.ndim >= 2 and each.stride(-1) != 1 for each in operands)


def _tensors(values: Iterable[Any]) -> list[Tensor]:
    """The tensors among the arguments, including those in lists and tuples."""
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += [each for each in value if isinstance(each, Tensor)]
    return found
