"""How a family of models is described: what its config means, and where each parameter is stored.

A family is one function that reads a `Keys` and returns a `Plan`. It names every key that it reads,
and refuses values that this library cannot honour: a setting that is silently ignored gives wrong
numbers.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from models.config import ModelConfig
from models.foreign.folds import Fold, as_is
from models.refusals import Refusal

LARGEST = 2**24
"""No width, vocabulary or number of layers is larger: a config that asks for more is broken."""

MOST = 1e30
"""No other number is larger: float32 ends at 3e38."""

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

    `ignored` are regular expressions for stored tensors that mean nothing here; each says the whole
    name. `prefixes` are left out of stored names: whether they are there depends on who saved.
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

    def __init__(self, values: Mapping[str, Any], names: Collection[str]) -> None:
        self.values = values
        self.names = names

    def stores(self, name: str) -> bool:
        """Whether there is a tensor of this name, its prefix left out."""
        return name in self.names

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
