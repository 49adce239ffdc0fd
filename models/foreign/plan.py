"""How a family of models is described: what its config means, and where each parameter is stored.

A family is one function that reads a `Keys` and returns a `Plan`. It names every key that it reads,
and refuses values that this library cannot honour: a setting that is silently ignored gives wrong
numbers.
"""

import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from models.config import LARGEST, MOST, ModelConfig
from models.foreign.folds import Fold, as_is
from models.refusals import Refusal

_WITH_HEAD = re.compile("CausalLM|LMHead|MaskedLM|ConditionalGeneration|MTModel")

ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}
"""Their names of activation functions, and ours."""


@dataclass(frozen=True)
class Row:
    """One parameter of ours: its name, the stored tensors that it is made of, and how."""

    ours: str
    theirs: tuple[str, ...]
    fold: Fold = as_is


@dataclass(frozen=True)
class Plan:
    """A model of ours, and how each of its parameters is filled.

    `ignored` are regular expressions for stored tensors that change none of the shown numbers; each
    matches a whole name. Only three kinds may be ignored: tables that `transformers` recomputes
    from the config, heads of other tasks, and copies that `Keys.differs` has compared.
    `starts_with` is the token that the decoder of a translator begins with.
    """

    config: ModelConfig
    rows: tuple[Row, ...]
    ignored: tuple[str, ...] = ()
    starts_with: int | None = None


class Keys:
    """A `config.json`, read key by key, and the names of the tensors that are stored beside it.

    Every method raises ValueError, naming the key and its value, where it cannot be used.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        names: Collection[str] = (),
        alike: Callable[[str, str], bool] = operator.eq,
    ) -> None:
        self.values = values
        self.names = names
        self._alike = alike  # whether two stored tensors hold the same numbers

    def of(self, values: Mapping[str, Any]) -> "Keys":
        """Other settings of the same model: those of a part of it."""
        return Keys(values, self.names, self._alike)

    def stores(self, *names: str) -> bool:
        """Whether there is a tensor with one of these names, prefixes left out."""
        return any(name in self.names for name in names)

    def stored(self, *names: str) -> str:
        """The first of these names under which a tensor is stored; without any, the first one."""
        return next((name for name in names if name in self.names), names[0])

    def differs(self, name: str, copied: str) -> bool:
        """Whether a tensor is stored that usually copies another one, with numbers of its own.

        Merging an adapter, for example, leaves an output matrix that is no longer the embedding.
        """
        return name in self.names and not self._alike(name, copied)

    def says_head(self) -> bool:
        """Whether the config names a class with an LM head, so that its tensors must be there."""
        said = self.values.get("architectures")
        named = said if isinstance(said, list) else []
        return any(isinstance(each, str) and _WITH_HEAD.search(each) for each in named)

    def size(self, name: str, default: int | None = None) -> int:
        """A whole number from 1 to LARGEST."""
        value = self._value(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= LARGEST:
            raise Refusal("bad_size", name=name, value=repr(value), most=LARGEST)
        return value

    def layers(self, name: str, default: int | None = None) -> int:
        """A number of layers, which cannot be larger than that of the stored tensors."""
        value = self.size(name, default)
        if value > len(self.names):
            raise Refusal("more_layers", name=name, value=value, count=len(self.names))
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """A finite number above 0."""
        value = self._value(name, default)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 < value <= MOST:
            raise Refusal("positive", name=name, value=repr(value))
        return float(value)

    def object(self, name: str) -> dict[str, Any]:
        """Settings under a key of their own; none where it is absent or null."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, dict):
            raise Refusal("object_key", name=name, value=repr(value))
        return value or {}

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self._value(name, default)
        if not isinstance(value, bool):
            raise Refusal("flag", name=name, value=repr(value))
        return value

    def token(self, name: str, default: int | None = None) -> int:
        """The id of a token."""
        value = self._value(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise Refusal("token_id", name=name, value=repr(value))
        return value

    def only(self, name: str, *allowed: Any) -> None:
        """A setting that is understood with these values alone; absent, it counts as the first."""
        value = self.values.get(name, allowed[0])
        if value not in allowed:
            said = ", ".join(repr(each) for each in allowed)
            raise Refusal("not_exact", name=name, value=repr(value), allowed=said)

    def activation(self, name: str, default: str) -> str:
        """Our name of an activation function."""
        value = self._value(name, default)
        if value not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            raise Refusal("one_of", name=name, value=repr(value), allowed=known)
        return ACTIVATIONS[value]

    def _value(self, name: str, default: Any) -> Any:
        value = self.values.get(name)
        if value is None:  # null means the family's own default
            value = default
        if value is None:
            raise Refusal("lacks_key", name=name)
        return value


def both(ours: str, theirs: str, fold: Fold = as_is, bias_fold: Fold | None = None) -> list[Row]:
    """The rows of a weight and its bias, filled alike unless `bias_fold` says otherwise."""
    return [
        Row(f"{ours}.weight", (f"{theirs}.weight",), fold),
        Row(f"{ours}.bias", (f"{theirs}.bias",), bias_fold or fold),
    ]


def weight(ours: str, theirs: str, fold: Fold = as_is) -> Row:
    """The row of a weight without a bias."""
    return Row(f"{ours}.weight", (f"{theirs}.weight",), fold)


def blocks(
    n_layers: int, ours: str = "blocks", theirs: str = "layers"
) -> Iterator[tuple[str, str]]:
    """The paths of every block: (ours, theirs)."""
    return ((f"{ours}.{i}", f"{theirs}.{i}") for i in range(n_layers))
