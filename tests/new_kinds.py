"""Kinds that are not shipped, registered as a user would: a class or function and a registry line.

Positions of each way to act, a norm, an activation, and a gated feed-forward network.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from math import log

import pytest
import torch
from torch import Tensor, nn

from explorer import text
from models.feedforward import ACTIVATIONS, GATED
from models.norms import NORMS, Norm
from models.positions import POSITIONS, Placement, Positions


class Kerple(Positions):
    """A bias of -r1 log(1 + r2 |i - j|) with learned r1, r2 > 0 per head. Chi et al. 2022."""

    acts = "biases"

    def __init__(self, config, causal) -> None:
        super().__init__(config, causal)
        self.logs = nn.Parameter(torch.linspace(-0.5, 0.5, 2 * config.n_heads).view(2, -1))

    def place(self, queries: Tensor, keys: Tensor) -> Placement:
        apart = (keys[:, None, None, :] - queries[:, None, :, None]).abs()
        r1, r2 = self.logs.exp()[:, :, None, None]
        return Placement(bias=-r1 * (r2 * apart).log1p())

    def expected_bias(self, head: int, offset: int) -> float:
        r1, r2 = self.logs.exp()[:, head].tolist()
        return -r1 * log(1 + r2 * abs(offset))


class Ramp(Positions):
    """A learned direction times the share of n_ctx."""

    acts = "adds"

    def __init__(self, config, causal) -> None:
        super().__init__(config, causal)
        self.direction = nn.Parameter(torch.linspace(-1, 1, config.width))

    def added(self, positions: Tensor) -> Tensor:
        return positions[..., None] / self.config.n_ctx * self.direction

    def expected_vector(self, position: int) -> list[float]:
        return [position / self.config.n_ctx * each for each in self.direction.tolist()]


class Spiral(Positions):
    """A rotation whose pairs have the angles 1, 1/2, 1/3, ... per position."""

    acts = "turns"
    pairs = "d_head"

    def place(self, queries: Tensor, keys: Tensor) -> Placement:
        pairs = torch.arange(1, self.config.d_head // 2 + 1, device=queries.device)
        angles = queries.double()[:, None, :, None] / pairs
        return Placement((angles.cos(), angles.sin()))

    def expected_angles(self, layer: int, n_tokens: int) -> list[float]:
        return [1 / (pair + 1) for pair in range(self.config.d_head // 2)]


class MaxNorm(Norm):
    """Divides by the largest magnitude."""

    def scale(self, x: Tensor) -> Tensor:
        return x.abs().amax(-1, keepdim=True) + self.eps


def restarted(positions: Tensor) -> Tensor:
    """Positions that begin at 0 in every cached step."""
    return positions - positions[:, :1]


class KerpleRestarted(Kerple):
    def place(self, queries, keys):
        return super().place(restarted(queries), keys)


class KerpleAhead(Kerple):
    """A bias that depends on how many tokens follow."""

    def place(self, queries, keys):
        bias = super().place(queries, keys).bias
        return Placement(bias=bias * keys.amax())


class RampRestarted(Ramp):
    def added(self, positions):
        return super().added(restarted(positions))


class SpiralRestarted(Spiral):
    def place(self, queries, keys):
        return super().place(restarted(queries), keys)


KINDS = {
    "kerple": ("positions", POSITIONS, Kerple),
    "ramp": ("positions", POSITIONS, Ramp),
    "spiral": ("positions", POSITIONS, Spiral),
    "maxnorm": ("norm", NORMS, MaxNorm),
    "relu2": ("ffn", ACTIVATIONS, lambda x: x.relu().square()),  # So et al. 2021
    "reglu": ("ffn", GATED, "relu"),  # Shazeer 2020
}
"""The field of a config, its registry, and what is registered, by name."""
FAULTS = {
    "kerple": [(KerpleRestarted, {"cache"}), (KerpleAhead, {"cache", "prefix"})],
    "ramp": [(RampRestarted, {"cache"})],
    "spiral": [(SpiralRestarted, {"cache"})],
}
"""Wrong positions, and the properties that they break."""


@contextmanager
def registered(*kinds: str) -> Iterator[None]:
    """These kinds in their registries, each with a name in every language."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in kinds:
            field, registry, entry = KINDS[kind]
            patch.setitem(registry, kind, entry)
            for lang in text.LANGUAGES:
                patch.setitem(text.words(lang), f"designs.{field}.{kind}", kind.title())
        yield
