"""The attention of a run as the mask tests see it, and where they deviate most."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from models.masks import window_mask
from models.rows import Stream


@dataclass(frozen=True)
class Location:
    """The location of the largest deviation; None for an axis that does not apply.

    `name` is a hook point or an attention site. `query` and `key` count from 0 in the row that was
    run; `left` is the padding before its first real token. If a change propagated, `key` is the
    changed token and `query` the position it reached.
    """

    name: str
    layer: int | None = None
    head: int | None = None
    query: int | None = None
    key: int | None = None
    left: int = 0
    stack: str = ""  # "encoder" or "decoder"; "" after both, at the logits


class Worst:
    """The largest deviation so far, and its location; NaN counts as infinite."""

    def __init__(self) -> None:
        self.deviation = 0.0
        self.where: Location | None = None

    def see(self, deviations: Tensor, place: Callable[..., Location]) -> None:
        """Update with `deviations`; calls `place` with the index of the largest, one per axis."""
        if deviations.numel() == 0:
            return
        clean = deviations.double().nan_to_num(nan=math.inf)
        largest = float(clean.max())
        if largest > self.deviation:
            index = np.unravel_index(int(clean.argmax()), clean.shape)
            self.deviation, self.where = largest, place(*map(int, index))


@dataclass(frozen=True, eq=False)
class Site:
    """One attention in a run over padded rows, and how much of each key reaches each query.

    `kind` are the sequences of queries and keys, of which `query_real` [row, query] and `key_real`
    [row, key] are no padding. `weigh(level)` gives the weights [row, head, query, key]; with a
    `level`, all scores are set to it first (None if they cannot be set). `mask`, Bool,
    is the one that was applied, if it was seen. If `every_query`, padding may not attend to hidden
    keys either. `causal`: later keys must be hidden; `window`: so must keys before it.
    """

    name: str
    kind: tuple[Stream, Stream]
    query_real: Tensor
    key_real: Tensor
    causal: bool
    weigh: Callable[[float | None], Tensor | None]
    mask: Tensor | None = None
    every_query: bool = False
    window: int | None = None
    layer: int | None = None
    stack: str = ""

    @property
    def is_self(self) -> bool:
        return self.kind[0] == self.kind[1]

    @property
    def weights(self) -> Tensor:
        """The weights [row, head, query, key] of the run itself."""
        weights = self.weigh(None)
        assert weights is not None
        return weights

    @property
    def visible(self) -> Tensor:
        """Bool [row, head, query, key]: the cells that are open, whatever their scores."""
        level = self.weigh(0.0)
        if level is not None:
            return level != 0
        return (self.weights != 0) if self.mask is None else self.mask.expand(self.weights.shape)

    @property
    def later(self) -> Tensor:
        """Bool [query, key]: keys after the query."""
        weights = self.weights
        return torch.ones(weights.shape[-2:], device=weights.device).triu(1).bool()

    @property
    def beyond(self) -> Tensor:
        """Bool [query, key]: keys outside the window."""
        n = self.weights.shape[-1]
        return ~window_mask(n, window=self.window or n, device=self.weights.device)

    @property
    def pads(self) -> Tensor:
        """Bool [row, 1, 1, key]: padding among the keys."""
        return ~self.key_real[:, None, None, :]

    @property
    def cells(self) -> Tensor:
        """Bool [row, head, query, key]: cells of real queries and real keys."""
        return (self.query_real[:, None, :, None] & ~self.pads).expand(self.weights.shape)

    @property
    def allowed(self) -> Tensor:
        """Bool [row, head, query, key]: the cells that should be open."""
        allowed = self.cells & ~self.later if self.causal else self.cells
        if self.window is not None:
            allowed = allowed & ~self.beyond
        return allowed

    def at(self, row: int, head: int, query: int, key: int | None = None) -> Location:
        """One cell, or one row of cells."""
        left = int(self.query_real[row].int().argmax())
        return Location(self.name, self.layer, head, query, key, left, self.stack)
