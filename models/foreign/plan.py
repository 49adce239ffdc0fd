"""Describing a family of models: the meaning of its config and the source of each parameter.

A family is a function that reads a `Keys` and returns a `Plan`. It refuses values that this library
does not support, since silently ignoring a setting would give wrong numbers.
"""

import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from models.config import LARGEST, MOST, ModelConfig
from models.foreign.folds import Fold, as_is, zeros
from models.pictures.processing import Processing
from models.refusals import Refusal

_WITH_HEAD = re.compile("CausalLM|LMHead|DoubleHeads|MaskedLM|ConditionalGeneration|MTModel")
_HEADLESS = re.compile(r"Model$|For\w*(Classification|QuestionAnswering|MultipleChoice)$")
ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "quick_gelu": "gelu_quick",
    "silu": "silu",
    "swish": "silu",
}
"""Names of activation functions in configs, and in this library."""


@dataclass(frozen=True)
class PlanRow:
    """One parameter: its name, the stored tensors it is made from, and the conversion."""

    ours: str
    theirs: tuple[str, ...]
    fold: Fold = as_is


DECODER: dict[str, Any] = {
    "family": "decoder-only",
    "norm_placement": "pre",
    "final_norm": True,
    "scale_embeddings": False,
    "dropout": 0.0,
}
"""`ModelConfig` fields of most decoders."""
POST_NORM = {"norm_placement": "post", "final_norm": False}
QKV = {"q": "query", "k": "key", "v": "value"}
"""How BERT, and models written after it, name the projections."""


@dataclass(frozen=True)
class Plan:
    """The config of a model, and how each of its parameters is filled.

    `ignored` are regular expressions, matching whole names, for stored tensors that do not affect
    the results. Only three kinds may be ignored: tables that `transformers` recomputes from the
    config, heads of other tasks, and copies that `Keys.differs` has compared.
    `starts_with` is the start token of a translator's decoder; `pictures` is how a picture is
    prepared, and the names of the learned tokens before its patches.
    """

    config: ModelConfig
    rows: tuple[PlanRow, ...]
    ignored: tuple[str, ...] = ()
    starts_with: int | None = None
    labels: Any = None  # how labels are read off: `models.foreign.classes.TaskHead`
    pictures: tuple[Processing, tuple[str, ...]] | None = None


class Keys:
    """A `config.json`, read key by key, and the names of the stored tensors.

    Every method raises ValueError, naming the key and its value, if the value is not supported.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        names: Collection[str] = (),
        alike: Callable[[str, str], bool] = operator.eq,
    ) -> None:
        self.values = values
        self.names = names
        self._alike = alike  # whether two stored tensors are equal

    def of(self, values: Mapping[str, Any]) -> "Keys":
        """A `Keys` for a nested object of the same config."""
        return Keys(values, self.names, self._alike)

    def stores(self, *names: str) -> bool:
        """Whether a tensor with one of these names (without prefix) is stored."""
        return any(name in self.names for name in names)

    def stored(self, *names: str) -> str:
        """The first of these names under which a tensor is stored, or else the first name."""
        return next((name for name in names if name in self.names), names[0])

    def differs(self, name: str, copied: str) -> bool:
        """Whether a tensor is stored that is normally a copy of `copied` but differs from it.

        Merging an adapter, for example, may leave an output matrix that differs from the embedding.
        """
        return name in self.names and not self._alike(name, copied)

    def says_head(self) -> bool:
        """Whether the config names a class with an LM head, whose tensors must then be stored."""
        return any(map(_WITH_HEAD.search, self._classes()))

    def says_headless(self) -> bool:
        """Whether the config names only classes without an LM head."""
        named = self._classes()
        return bool(named) and not self.says_head() and all(map(_HEADLESS.search, named))

    def _classes(self) -> list[str]:
        names = self.values.get("architectures")
        return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []

    def size(self, name: str, default: int | None = None) -> int:
        """A whole number from 1 to LARGEST."""
        value = self._value(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= LARGEST:
            raise Refusal("bad_size", name=name, value=repr(value), most=LARGEST)
        return value

    def layers(self, name: str, default: int | None = None) -> int:
        """A number of layers, at most the number of stored tensors."""
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
        """A nested object; empty if the key is absent or null."""
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
        """Require a setting to have one of these values; if absent, it counts as the first."""
        value = self.values.get(name, allowed[0])
        if value not in allowed:
            choices = ", ".join(repr(choice) for choice in allowed)
            raise Refusal("not_exact", name=name, value=repr(value), allowed=choices)

    def activation(self, name: str, default: str) -> str:
        """An activation function, by this library's name."""
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


def both(ours: str, theirs: str, fold: Fold = as_is, zero: int = 0) -> list[PlanRow]:
    """The rows of a weight and its bias; with `zero`, of so many zeros, since none is stored."""
    bias = PlanRow(f"{ours}.bias", (f"{theirs}.bias",), fold)
    if zero:
        bias = PlanRow(f"{ours}.bias", (), zeros(zero))
    return [weight(ours, theirs, fold), bias]


def weight(ours: str, theirs: str, fold: Fold = as_is) -> PlanRow:
    """The row of a weight without a bias."""
    return PlanRow(f"{ours}.weight", (f"{theirs}.weight",), fold)


def blocks(
    n_layers: int, ours: str = "blocks", theirs: str = "layers"
) -> Iterator[tuple[str, str]]:
    """The paths of every block: (ours, theirs)."""
    return ((f"{ours}.{i}", f"{theirs}.{i}") for i in range(n_layers))


def block_rows(
    n_layers: int,
    names: Mapping[str, str],
    theirs: str = "layers",
    ours: str = "blocks",
    folds: Mapping[str, Fold] | None = None,
    zero: Mapping[str, int] | None = None,
) -> list[PlanRow]:
    """The rows of all blocks: `names` are the stored names of their parts, by ours.

    `folds` convert some parts; those in `zero` have no bias, which is so many zeros.
    """
    folds, zero = folds or {}, zero or {}
    return [
        row
        for our_block, block in blocks(n_layers, ours, theirs)
        for part, name in names.items()
        for row in both(
            f"{our_block}.{part}", f"{block}.{name}", folds.get(part, as_is), zero.get(part, 0)
        )
    ]


def sizes(
    keys: Keys,
    d_model: str = "hidden_size",
    n_layers: str = "num_hidden_layers",
    n_heads: str = "num_attention_heads",
) -> dict[str, Any]:
    """The sizes that every model has, as fields of `ModelConfig`, from these keys."""
    return {
        "vocab_size": keys.size("vocab_size"),
        "d_model": keys.size(d_model),
        "n_layers": keys.layers(n_layers),
        "n_heads": keys.size(n_heads),
    }


class LMHead(NamedTuple):
    """The LM head of a model: fields of its config, rows, and the names that may be ignored.

    As in `transformers`, a stored matrix that differs from the embedding is used even if the config
    ties them. A model without a stored matrix has no LM head unless the config ties it, and none if
    the config names a class without one (GPT2Model). If it names a class with one that is not tied,
    the tensor is missing, and the file is refused.
    """

    settings: dict[str, Any]
    rows: tuple[PlanRow, ...]
    ignored: tuple[str, ...] = ()


def output(
    keys: Keys,
    tied: bool,
    theirs: str = "lm_head",
    embed: str = "embed_tokens",
    biased: bool = False,
) -> LMHead:
    """The LM head of a single-sequence model; `tied`: the config ties it to the embedding."""
    name = f"{theirs}.weight"
    bias = (PlanRow("unembed.bias", (f"{theirs}.bias",)),) if biased else ()
    settings = {"unembed_bias": biased}
    headless = LMHead({"tie_embeddings": False, "lm_head": False}, ())
    if keys.says_headless() and not keys.stores(name):
        return headless
    if tied and not keys.differs(name, f"{embed}.weight"):
        return LMHead(settings | {"tie_embeddings": True}, bias, (re.escape(name),))
    settings["tie_embeddings"] = False
    if keys.stores(name) or keys.says_head():
        return LMHead(settings, (PlanRow("unembed.weight", (name,)), *bias))
    return headless


def own_output(keys: Keys, tied: bool = True) -> LMHead:
    """The embeddings of a translator's two vocabularies, and the LM head of the target's."""
    source, target = "encoder.embed_tokens", "decoder.embed_tokens"
    head = output(keys, tied, embed=target)
    rows = (weight("encoder.embed", source), weight("decoder.embed", target), *head.rows)
    return head._replace(rows=rows)


def shared_output(keys: Keys, tied: bool = True) -> LMHead:
    """The embeddings and the LM head of a translator, which usually share one matrix."""
    stacks = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
    head = "lm_head.weight"
    shared = keys.stored("shared.weight", *stacks)
    ignored = tuple(re.escape(name) for name in ("shared.weight", *stacks, head))
    source, target, out = (
        name if keys.differs(name, shared) else shared for name in (*stacks, head)
    )
    without = not keys.stores(head) and (keys.says_headless() if tied else not keys.says_head())
    if source == target == out and (tied or without):
        settings = {"tie_embeddings": True, "lm_head": not without}
        return LMHead(settings, (PlanRow("encoder.embed.weight", (shared,)),), ignored)
    rows = [PlanRow("encoder.embed.weight", (source,)), PlanRow("decoder.embed.weight", (target,))]
    if not without:
        rows.append(PlanRow("unembed.weight", (out if tied else head,)))
    return LMHead({"tie_embeddings": False, "lm_head": not without}, tuple(rows), ignored)
