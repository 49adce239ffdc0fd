"""Maximum likelihood on pictures whose contrast and noise change from step to step."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from models.training.data import Batch
from models.training.objectives import Loss, Training
from models.training.objectives.likelihood import Likelihood


@dataclass(kw_only=True)
class Smudged(Likelihood):
    """`Likelihood` on pictures as a scanner may show them; `noise` in grey levels, at most."""

    label_smoothing: float = 0.0
    noise: float = 24.0

    name: ClassVar[str] = "smudged"

    def loss(self, batch: Batch, training: Training) -> Loss:
        """The cross-entropy of all labels, given each picture with its own contrast and noise."""
        src = smudged(batch.rows.tokens("src"), self.noise)
        return super().loss(replace(batch, rows=replace(batch.rows, src=src)), training)


def smudged(patches: Tensor, noise: float) -> Tensor:
    """Grey levels [batch, patch, pixel] times 0.5 to 1.1, plus a tint of 0 to 30 and noise."""
    each = torch.rand(3, len(patches), 1, 1, device=patches.device)
    changed = patches * (0.5 + 0.6 * each[0]) + 30 * each[1] * (each[1] - 0.5).relu()
    changed += torch.randn(patches.shape, device=patches.device) * (noise * each[2] ** 2)
    return changed.clamp(0, 255).to(patches.dtype)
