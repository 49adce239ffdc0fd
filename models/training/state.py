"""The progress of a training run, and the file from which it is resumed.

`state.safetensors` contains the weights, the optimizers' state and, as metadata, the settings and
the progress. It is replaced atomically: a kill at any moment leaves the old or the new file.
"""

import json
from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from models.config import ModelConfig
from models.training.objectives import Objective, settings_of
from models.training.optimizers import optimizer_state
from models.training.saving import save_tensors
from models.training.settings import TrainingConfig
from models.transformer import Model

STATE = "state.safetensors"
MAY_CHANGE = ("epochs", "save_seconds", "average")  # settings that do not affect past steps


@dataclass
class Progress:
    """The progress of a run, and its training curve: one row per epoch."""

    step: int = 0
    epoch: int = 0
    batch: int = 0  # batches of this epoch already trained on
    seconds: float = 0.0
    loss_sum: float = 0.0  # of this epoch so far
    n_labels: int = 0
    curve: list[dict[str, float | int]] = field(default_factory=list)

    def epoch_seconds(self) -> float:
        """How long this epoch has taken so far; above 0."""
        past = sum(row["seconds"] for row in self.curve)
        return max(1e-9, self.seconds - past)


@dataclass
class TrainingState:
    """Everything needed to continue a run; it is saved to and restored from the state file."""

    model: Model
    optimizers: list[torch.optim.Optimizer]
    config: TrainingConfig
    objectives: Sequence[Objective]
    progress: Progress = field(default_factory=Progress)

    def weights(self) -> dict[str, Tensor]:
        """The model's parameters by name."""
        return {name: p.detach() for name, p in self.model.named_parameters()}

    def _settings(self) -> dict[str, dict[str, Any]]:
        training = {**asdict(self.config), "objectives": settings_of(self.objectives)}
        return {"model": asdict(self.model.config), "training": training}

    def save(self, folder: Path) -> None:
        """Write the state file of a run's folder."""
        tensors = {f"weights/{name}": tensor for name, tensor in self.weights().items()}
        tensors |= optimizer_state(self.model, self.optimizers)
        about = {
            "run": json.dumps(self._settings(), sort_keys=True),
            "progress": json.dumps(asdict(self.progress)),
        }
        save_tensors(folder / STATE, tensors, about)

    def resume(self, folder: Path) -> None:
        """Restore from the state file of a run's folder.

        Raises ValueError if it was written under settings that would have led to other steps.
        """
        with safe_open(folder / STATE, framework="pt") as file:
            about = file.metadata()
            stored = json.loads(about["run"])
            ours = json.loads(json.dumps(self._settings()))
            for section, kind in (("model", ModelConfig), ("training", TrainingConfig)):
                theirs = {**_defaults(kind), **stored[section]}
                for name, value in ours[section].items():
                    if name not in MAY_CHANGE and theirs.get(name) != value:
                        raise ValueError(
                            f"{folder} contains a run with {name} = {theirs.get(name)!r}, "
                            f"not {value!r}: use another folder"
                        )
            self.progress = Progress(**json.loads(about["progress"]))
            with torch.no_grad():
                for name, parameter in self.model.named_parameters():
                    parameter.copy_(file.get_tensor(f"weights/{name}"))
                for name, tensor in optimizer_state(self.model, self.optimizers).items():
                    tensor.copy_(file.get_tensor(name))


def _defaults(kind: type[ModelConfig] | type[TrainingConfig]) -> dict[str, Any]:
    """The defaults of a table, for fields that did not exist yet when a run was started."""
    known = {field.name: field.default for field in fields(kind) if field.default is not MISSING}
    return dict(json.loads(json.dumps(known)))
