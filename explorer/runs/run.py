"""One forward pass of a model over given rows, with edits, recording the requested tensors."""

from collections.abc import Callable, Container

import torch
from torch import Tensor

from models.cache import KVCache
from models.fast.memory import FastRecord
from models.hooks import NO_EDITS, Edits, visiting
from models.rows import Rows
from models.transformer import Model


def run(
    model: Model,
    rows: Rows,
    keep: Container[str] | Callable[[str], bool],
    edits: Edits = NO_EDITS,
    cache: KVCache | None = None,
) -> dict[str, Tensor]:
    """Read `rows` once under `edits`; returns the tensors of the kept hook points, by name.

    `keep` contains hook names, or is a predicate on them. Tensors have their batch axis, and are
    the values that the model continued with, edits included. No gradients are computed. With a
    `cache`, `rows` are as `Model.read` takes them.
    """
    record = FastRecord(keep if callable(keep) else keep.__contains__, edits)
    with torch.inference_mode(), visiting(record):
        model.read(rows, cache=cache)
    return record.activations
