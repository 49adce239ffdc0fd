"""One forward pass of a model over given rows, with edits, recording the requested tensors."""

from collections.abc import Callable, Container, Set
from contextlib import suppress

import torch
from torch import Tensor

from models.cache import KVCache
from models.hooks import NO_EDITS, Edits, Record, visiting
from models.rows import Rows
from models.transformer import Model


class EnoughError(Exception):
    """Everything that was requested has been recorded."""


class Until(Record):
    """A record that ends the pass with `EnoughError` as soon as it has all `names`."""

    def __init__(self, names: Set[str], wants: Callable[[str], bool], edits: Edits) -> None:
        super().__init__(wants, edits)
        self._names = names

    def __call__(self, name: str, tensor: Tensor) -> Tensor:
        tensor = super().__call__(name, tensor)
        if self._names <= self.activations.keys():
            raise EnoughError
        return tensor


def run(
    model: Model,
    rows: Rows,
    keep: Container[str] | Callable[[str], bool],
    edits: Edits = NO_EDITS,
    cache: KVCache | None = None,
) -> dict[str, Tensor]:
    """Read `rows` once under `edits`; returns the tensors of the kept hook points, by name.

    `keep` contains hook names, or is a predicate on them; for a set of names, the pass ends with
    the last of them. Tensors have their batch axis, and are the values that the model continued
    with, edits included. No gradients are computed. With a `cache`, which takes a whole pass,
    `rows` are as `Model.read` takes them.
    """
    wants = keep if callable(keep) else keep.__contains__
    record = Record(wants, edits)
    if isinstance(keep, Set) and cache is None:
        record = Until(keep, wants, edits)
    with torch.inference_mode(), suppress(EnoughError), visiting(record):
        model.read(rows, cache=cache)
    return record.activations
