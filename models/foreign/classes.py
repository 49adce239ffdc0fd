"""Classification heads of other libraries: labels of a whole text, or of each of its tokens."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from models.checkpoint import CheckpointError
from models.feedforward import ACTIVATIONS
from models.foreign.plan import Keys
from models.foreign.weights import Safetensors
from models.rows import Tokens

_KINDS = re.compile(r"For(Sequence|Token|Image)Classification\b")
Pool = Literal["first", "last", "mean", "each", "both"]
NETS = {**ACTIVATIONS, "tanh": torch.tanh}


class TaskHeadNames(NamedTuple):
    """The stored names of a head: a linear map, its activation, a norm, and the output."""

    out: str = "classifier"
    dense: str = ""
    activation: str = "tanh"
    norm: str = ""


_ROBERTA = TaskHeadNames("classifier.out_proj", "classifier.dense")
OF_TEXTS = {
    "bert": TaskHeadNames(dense="pooler.dense"),
    "albert": TaskHeadNames(dense="pooler"),
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "camembert": _ROBERTA,
    "electra": _ROBERTA._replace(activation="gelu"),
    "distilbert": TaskHeadNames(dense="pre_classifier", activation="relu"),
    "modernbert": TaskHeadNames(dense="head.dense", activation="gelu", norm="head.norm"),
    **dict.fromkeys(("vit", "deit", "dinov2", "dinov2_with_registers"), TaskHeadNames()),
}
"""Heads that label a whole text or picture; those that label tokens have only the output, except
ModernBERT's. Decoders have only the output too, under one of `OF_DECODERS`."""
OF_DECODERS = ("score", "classifier")


@dataclass(frozen=True)
class TaskHead:
    """A head as the config describes it.

    `pool`: it reads the first token, the last one that is not `skipped`, the mean of all, or each;
    or the first and the mean of all but `patches` ones, side by side. Of labels that exclude each
    other, "one" is right; of others "several" may be; a regression gives a "value".
    """

    parts: TaskHeadNames
    labels: tuple[str, ...]
    pool: Pool = "first"
    gives: Literal["one", "several", "value"] = "one"
    patches: int = 0
    skipped: int | None = None


def head_of(keys: Keys) -> TaskHead | None:
    """The head of a config that names a class with one; None without."""
    kind, classes = keys.values.get("model_type"), keys.values.get("architectures")
    hit = _KINDS.search(str(classes))
    of_decoder = [name for name in OF_DECODERS if keys.stores(f"{name}.weight")]
    if hit is None or (kind not in OF_TEXTS and not of_decoder):
        return None
    named = keys.object("id2label")
    count = len(named) or keys.size("num_labels", 2)
    labels = tuple(str(named.get(str(at), f"LABEL_{at}")) for at in range(count))
    pool: Pool = "both" if str(kind).startswith("dinov2") else "first"
    if kind in OF_TEXTS:
        parts = OF_TEXTS[kind]
    else:
        parts, pool = TaskHeadNames(of_decoder[0]), "last"
    if hit[1] == "Token":
        parts = TaskHeadNames() if kind in OF_TEXTS and kind != "modernbert" else parts
        return TaskHead(parts, labels, "each")
    patches = 1 + (keys.size("num_register_tokens", 4) if kind == "dinov2_with_registers" else 0)
    if kind == "modernbert":
        keys.only("classifier_pooling", "cls", "mean")
        pool = "mean" if keys.values.get("classifier_pooling") == "mean" else "first"
    problem = keys.values.get("problem_type")
    several = problem == "multi_label_classification" or count == 1
    gives: Literal["one", "several"] = "several" if several else "one"
    skipped = keys.values.get("pad_token_id")
    return TaskHead(
        parts, labels, pool, "value" if problem == "regression" else gives, patches, skipped
    )


@dataclass(frozen=True, eq=False)
class Classifier:
    """A classification head with its tensors, in float32 on the CPU."""

    head: TaskHead
    tensors: Mapping[str, Tensor]
    eps: float  # of the norm

    def __call__(
        self,
        x: Float[Tensor, "batch pos d_model"],
        valid: Bool[Tensor, "batch pos"],
        tokens: Tokens,
    ) -> Float[Tensor, "batch *pos label"]:
        """The logits of a row, or of each token, from the model's output after its final norm."""
        parts, rows = self.head.parts, torch.arange(len(x))
        if self.head.pool == "first":
            x = x[rows, valid.long().argmax(1)]
        elif self.head.pool == "last":
            seen = valid if self.head.skipped is None else valid & (tokens != self.head.skipped)
            x = x[rows, (seen * torch.arange(x.shape[1])).argmax(1)]
        elif self.head.pool == "both":
            seen = (valid & (valid.long().cumsum(1) > self.head.patches))[..., None]
            mean = (x * seen).sum(1) / seen.sum(1)
            x = torch.cat((x[rows, valid.long().argmax(1)], mean), -1)
        elif self.head.pool == "mean":
            x = (x * valid[..., None]).sum(1) / valid.sum(1, keepdim=True)
        if parts.dense:
            x = NETS[parts.activation](nn.functional.linear(x, *self._of(parts.dense)))
        if parts.norm:
            weight, bias = self._of(parts.norm)
            x = nn.functional.layer_norm(x, weight.shape, weight, bias, self.eps)
        return nn.functional.linear(x, *self._of(parts.out))

    def chances(self, logits: Float[Tensor, "*rest label"]) -> Float[Tensor, "*rest label"]:
        """The labels' probabilities; a regression's values as they are."""
        if self.head.gives == "one":
            return logits.softmax(-1)
        return logits.sigmoid() if self.head.gives == "several" else logits

    def _of(self, part: str) -> tuple[Tensor, Tensor | None]:
        return self.tensors[f"{part}.weight"], self.tensors.get(f"{part}.bias")


def tensors_of(
    head: TaskHead, d_model: int, stored: Safetensors, real_name: Callable[[str], str]
) -> dict[str, str]:
    """The stored name of each tensor of a head.

    Raises CheckpointError if a tensor is missing or does not fit the labels.
    """
    parts, names = head.parts, dict[str, str]()
    asked: dict[str, tuple[int, ...]] = {
        parts.out: (len(head.labels), d_model * (2 if head.pool == "both" else 1)),
        parts.dense: (d_model,) * 2,
    }
    asked[parts.norm] = (d_model,)
    for part, leaf in ((part, leaf) for part in asked if part for leaf in ("weight", "bias")):
        name = real_name(f"{part}.{leaf}")
        if name in stored.shapes:
            names[f"{part}.{leaf}"] = name
        elif leaf == "weight":
            raise CheckpointError("lacks", file=stored.name, tensor=name)
        shape = asked[part] if leaf == "weight" else asked[part][:1]
        if (had := stored.shapes.get(name, shape)) != shape:
            raise CheckpointError(
                "shape_of",
                file=stored.name,
                tensors=name,
                shapes=str(had),
                name="id2label",
                asked=str(shape),
            )
    return names
