"""Follow attention that is written out, from the scores to the product with the values.

Two kinds of weights are followed through elementwise operations, views and dropout:

- the result of a softmax over its last axis, which are the keys;
- a product of two activations over their features (queries by keys) after a nonlinearity, as of
  code that writes its softmax by hand.

They are attention if they are then multiplied by an activation, the values, with the keys as the
axis of the sum. A softmax over features (of a linear layer, without a product of activations) or
one that is multiplied by a parameter is no attention. Not recognised: values that are multiplied
elementwise and summed, and computations inside a custom autograd function.
"""

import re
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from explorer.notebook.axes import Equation

DROPOUT = (F.dropout, torch.dropout)
_SOFTMAX = (torch.softmax, F.softmax, Tensor.softmax, torch.special.softmax)
_BY_TRANSPOSED = (F.linear,)
_AFTER_A_SUMMAND = (torch.addmm, Tensor.addmm, torch.baddbmm, Tensor.baddbmm)
_FROM_RIGHT = (Tensor.__rmatmul__,)
_PLAIN = (
    torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm, torch.mm, Tensor.mm,
    torch.linalg.matmul,
)  # fmt: skip

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


class Factors(NamedTuple):
    """Two factors, the axes that are summed over, from the end, and the equation of an einsum."""

    left: Tensor
    right: Tensor
    left_axis: int
    right_axis: int
    equation: Equation | None = None


def product_of(func: Callable[..., Any], args: Any, kwargs: Any) -> Factors | None:
    """The product that a call computes; None for other calls and for sums over several axes."""
    tensors = tensors_in([*args, *kwargs.values()])
    if func is torch.einsum:
        return _einsum(args[0], tensors) if args and isinstance(args[0], str) else None
    if func in _AFTER_A_SUMMAND:
        tensors = tensors[1:]
    if len(tensors) < 2:
        return None
    left, right = tensors[1::-1] if func in _FROM_RIGHT else tensors[:2]
    if left.ndim < 2 or right.ndim < 2:
        return None
    if func in _BY_TRANSPOSED:
        return Factors(left, right, -1, -1)
    if func in (*_PLAIN, *_AFTER_A_SUMMAND, *_FROM_RIGHT):
        return Factors(left, right, -1, -2)
    return None


def _einsum(equation: str, tensors: list[Tensor]) -> Factors | None:
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    factors = inputs.split(",")
    if not arrow or "." in equation or len(factors) != 2 or len(tensors) != 2:
        return _ellipsis(equation, tensors)
    left, right = factors
    summed = [letter for letter in left if letter in right and letter not in output]
    if len(summed) != 1:
        return None
    axes = [factor.index(summed[0]) - len(factor) for factor in factors]
    return Factors(tensors[0], tensors[1], axes[0], axes[1], Equation(left, right, output))


def _ellipsis(equation: str, tensors: list[Tensor]) -> Factors | None:
    """An einsum with `...`, written out in letters that it does not use."""
    inputs, arrow, _ = equation.replace(" ", "").partition("->")
    factors = inputs.split(",")
    if not arrow or "..." not in equation or len(factors) != 2 or len(tensors) != 2:
        return None
    named = [len(factor.replace("...", "")) for factor in factors]
    wide = {tensor.ndim - n for tensor, n in zip(tensors, named, strict=True)}
    if len(wide) != 1:  # the axes of one are broadcast
        return None
    spare = [letter for letter in "ABCDEFGHIJ" if letter not in equation][: wide.pop()]
    return _einsum(equation.replace("...", "".join(spare)), tensors)


@dataclass(eq=False)
class Softmax:
    """One softmax over its last axis: the module that computed it, and its input. `is_used`: its
    use was understood. `over_features`: its last axis are features."""

    module: str
    scores: Tensor
    over_features: bool
    is_used: bool = False


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights about to be multiplied by values: `pattern` is their tensor before dropout, `scores`
    the input of the softmax (None without one). `factors` are the queries and keys, if they are
    kept: as the `equation` of the scores names them, or [..., pos, d_head] with the pattern's
    leading axes.
    """

    pattern: Tensor
    scores: Tensor | None = None
    equation: Equation | None = None
    factors: tuple[Tensor, Tensor] | None = None


@dataclass(frozen=True, eq=False)
class _Held:
    """A tensor made of a softmax: `pattern` is what it shows, `key_axis` where its keys are."""

    tensor: Tensor  # referenced, so that its id is not used again
    softmax: Softmax
    pattern: Tensor
    key_axis: int


@dataclass(frozen=True, eq=False)
class _Score:
    """A product of two activations. `is_bent`: after a nonlinearity; `before`: before dropout."""

    tensor: weakref.ref[Tensor]
    equation: Equation | None
    is_bent: bool = False
    before: Tensor | None = None
    factors: tuple[Tensor, Tensor] | None = None


class ByHand:
    """Follows the weights of one thread. Scores are referenced weakly, so that following them does
    not extend their lifetime; with `keeps_factors`, queries and keys are kept until the end."""

    def __init__(self) -> None:
        self.keeps_factors = False
        self._constants: dict[int, weakref.ref[Tensor]] = {}
        self._scores: dict[int, _Score] = {}
        self._softmaxes: list[Softmax] = []
        self._held: dict[int, _Held] = {}
        # Results of linear layers, and whether their axis with stride 1 are features.
        self._linear: dict[int, tuple[weakref.ref[Tensor], bool]] = {}

    def begin(self, module: nn.Module) -> None:
        """The outermost module starts: register its parameters and buffers as constants."""
        for constant in (*module.parameters(), *module.buffers()):
            self._constants[id(constant)] = weakref.ref(constant)

    def unused(self) -> list[Softmax]:
        """The softmaxes whose use was not understood."""
        return [softmax for softmax in self._softmaxes if not softmax.is_used]

    def end(self) -> None:
        for followed in (self._constants, self._scores, self._held, self._linear):
            followed.clear()
        self._softmaxes.clear()

    # Before a call: is it a product with values?

    def weights(self, product: Factors) -> Iterator[Weights | Softmax]:
        """The weights that a product multiplies by values; a softmax that is no attention."""
        factors = (product.left, product.right)
        for factor, axis, other in zip(
            factors, (product.left_axis, product.right_axis), factors[::-1], strict=True
        ):
            held = self._held.get(id(factor))
            if held is not None and held.key_axis % factor.ndim == axis % factor.ndim:
                held.softmax.is_used = True
                if held.softmax.over_features or self._is_constant(other):
                    yield held.softmax
                else:
                    scores = held.softmax.scores
                    yield _weights(held.pattern, scores, self._score(scores))
            elif held is None and not any(map(self._is_constant, factors)):
                score = self._score(factor)
                if score is not None and score.is_bent and axis == -1:
                    shown = factor if score.before is None else score.before
                    yield _weights(shown, None, score)

    def returned(self, pattern: Tensor) -> None:
        """A module returns this pattern, which is recorded from there."""
        held = self._held.get(id(pattern))
        if held is not None:
            held.softmax.is_used = True

    # After a call: what does it make of tensors that are followed?

    def follow(
        self, func: Callable[..., Any], args: Any, kwargs: Any, result: Tensor, module: str
    ) -> None:
        """Follow the result of a call on tensors that are followed."""
        tensors = tensors_in([*args, *kwargs.values()])
        if tensors and all(map(self._is_constant, tensors)):
            self._constants[id(result)] = weakref.ref(result)
            return
        if func in _SOFTMAX and tensors:
            axis = kwargs.get("dim", args[1] if len(args) > 1 else None)
            if result.ndim > 1 and axis in (-1, result.ndim - 1):
                self._softmaxed(tensors[0], result, module)
                return
        product = product_of(func, args, kwargs)
        if product is not None:
            self._multiplied(product, result)
            return
        name = getattr(func, "__name__", "").strip("_")
        for source in tensors[:2]:
            if id(source) in self._held:
                self._reshaped(func, self._held[id(source)], source, result)
                return
        self._linear_followed(tensors, result, name)
        if name in _STRAIGHT or name in _BENT:
            self._score_followed(func, tensors, result, name in _BENT)

    def _softmaxed(self, scores: Tensor, result: Tensor, module: str) -> None:
        linear = self._linear.get(id(scores))
        features = linear is not None and linear[0]() is scores and linear[1]
        features = features and scores.stride(-1) == 1 and self._score(scores) is None
        softmax = Softmax(module, scores.detach(), features)
        score = self._score(scores)
        if score is not None:  # the detached tensor stands for it
            self._scores[id(softmax.scores)] = replace(score, tensor=weakref.ref(softmax.scores))
        self._softmaxes.append(softmax)
        self._held[id(result)] = _Held(result, softmax, result, result.ndim - 1)

    def _multiplied(self, product: Factors, result: Tensor) -> None:
        if self._is_constant(product.right):
            if result.shape[-1] > 1:  # one number per position may be a score
                self._linear[id(result)] = weakref.ref(result), True
        elif not self._is_constant(product.left) and _over_features(product):
            factors = _factors(product, result) if self.keeps_factors else None
            ref = weakref.ref(result)
            self._scores[id(result)] = _Score(ref, product.equation, factors=factors)

    def _reshaped(
        self, func: Callable[..., Any], held: _Held, source: Tensor, result: Tensor
    ) -> None:
        """Follow weights through an elementwise operation, a view, a cut of keys, or dropout."""
        order = _order(source, result)
        if order is not None and order != tuple(range(source.ndim)):
            at = order.index(held.key_axis)
            self._held[id(result)] = replace(held, tensor=result, key_axis=at)
            return
        if held.key_axis != source.ndim - 1:
            return
        cut = result.ndim == source.ndim and result.shape[:-1] == source.shape[:-1]
        if result.shape[-2:] != source.shape[-2:] and not (
            cut and result.shape[-1] < source.shape[-1] and _is_view(source, result)
        ):
            return
        # After dropout, use the pattern before it; of several views, the one with a head axis.
        shown = func not in DROPOUT and (
            result.ndim == 4 or source.ndim == 3 or result.ndim == source.ndim
        )
        pattern = result if shown else held.pattern
        self._held[id(result)] = _Held(result, held.softmax, pattern, result.ndim - 1)

    def _score_followed(
        self, func: Callable[..., Any], tensors: list[Tensor], result: Tensor, bent: bool
    ) -> None:
        for source in tensors:
            score = self._score(source)
            if score is None or sorted(result.shape[-2:]) != sorted(source.shape[-2:]):
                continue
            before = score.before
            if func in DROPOUT and before is None:
                before = source
            elif func not in DROPOUT:
                before = None
            equation, order = score.equation, _order(source, result)
            alike = result.shape == source.shape and order is None
            if equation is not None and not alike:
                named = "".join(equation.result[at] for at in order or ())
                equation = equation._replace(result=named) if named else None
            self._scores[id(result)] = _Score(
                weakref.ref(result),
                equation,
                score.is_bent or bent,
                before,
                score.factors if alike or order == tuple(range(source.ndim)) else None,
            )
            return

    def _linear_followed(self, tensors: list[Tensor], result: Tensor, name: str) -> None:
        """Whether the last axis are features still: a view keeps the memory, a copy the axes."""
        for source in tensors:
            linear = self._linear.get(id(source))
            if linear is None or linear[0]() is not source or not result.ndim:
                continue
            if _is_view(source, result):
                features = linear[1] if result.shape[-1] > 1 else False
            elif name in _STRAIGHT | _BENT and result.shape[-1] == source.shape[-1]:
                features = linear[1] and source.stride(-1) == 1
            else:
                continue
            self._linear[id(result)] = weakref.ref(result), features
            return

    def _score(self, tensor: Tensor) -> _Score | None:
        score = self._scores.get(id(tensor))
        return score if score is not None and score.tensor() is tensor else None

    def _is_constant(self, tensor: Tensor) -> bool:
        known = self._constants.get(id(tensor))
        return isinstance(tensor, nn.Parameter) or (known is not None and known() is tensor)


def _weights(pattern: Tensor, scores: Tensor | None, score: _Score | None) -> Weights:
    if score is None:
        return Weights(pattern, scores)
    equation, factors = score.equation, score.factors
    if equation is None:
        fits = factors is not None and factors[0].shape[:-2] == pattern.shape[:-2]
    else:
        fits = len(equation.result) == pattern.ndim
    return Weights(pattern, scores, equation, factors) if fits else Weights(pattern, scores)


def _factors(product: Factors, result: Tensor) -> tuple[Tensor, Tensor]:
    """The factors of scores; without equation, [..., pos, d_head] with the scores' leading axes."""
    left, right = product.left.detach(), product.right.detach()
    if product.equation is not None:
        return left, right
    right = right if product.right_axis == -1 else right.mT
    return left.expand(*result.shape[:-2], -1, -1), right.expand(*result.shape[:-2], -1, -1)


def _over_features(product: Factors) -> bool:
    """Whether a product sums over the features of both factors: one is transposed, as keys are.

    This excludes graph aggregation, which multiplies features by an adjacency matrix.
    """
    if product.equation is not None:
        return product.equation.left[-1] == product.equation.right[-1]
    if product.left_axis == product.right_axis:
        return True
    return any(factor.stride(-1) != 1 for factor in (product.left, product.right))


def _is_view(source: Tensor, result: Tensor) -> bool:
    with suppress(RuntimeError):  # a tensor without memory
        return source.untyped_storage().data_ptr() == result.untyped_storage().data_ptr() != 0
    return False


def _order(source: Tensor, result: Tensor) -> tuple[int, ...] | None:
    """The axes of `source` in the order of `result`, a view that permutes them; None otherwise."""
    if source.ndim != result.ndim or not _is_view(source, result) or source is result:
        return None
    before = list(zip(source.shape, source.stride(), strict=True))
    after = list(zip(result.shape, result.stride(), strict=True))
    if sorted(before) != sorted(after):
        return None
    order: list[int] = []
    for axis, pair in enumerate(after):
        fitting = [at for at, other in enumerate(before) if other == pair and at not in order]
        order.append(axis if axis in fitting else fitting[0])
    return tuple(order)


def tensors_in(values: Iterable[Any]) -> list[Tensor]:
    """The tensors among the arguments, including those in lists and tuples; no nested ones."""
    tensors: list[Tensor] = []
    for value in values:
        parts = value if isinstance(value, list | tuple) else (value,)
        tensors += [part for part in parts if isinstance(part, Tensor) and not part.is_nested]
    return tensors
