"""The optimizers of a training run, their state by name, and autocast."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from models.training.muon import Muon
from models.training.settings import Precision, TrainingConfig
from models.transformer import Model


def make_optimizers(model: Model, config: TrainingConfig) -> list[torch.optim.Optimizer]:
    """AdamW for all parameters; or, with `muon`, Muon for the blocks' matrices, AdamW for the rest.

    All state is created at the start, so that a state file always has the same tensors.
    """
    by_muon = [
        parameter
        for name, parameter in model.named_parameters()
        if config.optimizer == "muon" and "blocks." in name and parameter.dim() == 2
    ]
    ids = {id(parameter) for parameter in by_muon}
    rest = [parameter for parameter in model.parameters() if id(parameter) not in ids]
    adam = torch.optim.AdamW(
        rest,
        lr=config.learning_rate,
        betas=config.betas,
        eps=1e-9,
        weight_decay=config.weight_decay,
        fused=True,
    )
    for parameter in rest:
        adam.state[parameter] = {
            "step": torch.tensor(0.0),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }
    if not by_muon:
        return [adam]
    return [adam, Muon(by_muon, config.learning_rate, config.weight_decay)]


def optimizer_state(model: Model, optimizers: list[torch.optim.Optimizer]) -> dict[str, Tensor]:
    """Every tensor of the optimizers' state, by its name in a state file."""
    return {
        f"optimizer/{key}/{name}": value
        for name, parameter in model.named_parameters()
        for optimizer in optimizers
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def has_bfloat16(device: torch.device) -> bool:
    """Whether the device supports bfloat16 natively, so that autocast is faster."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported()
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[Any]:
    """Context manager: matrix products inside use bfloat16 if `precision` selects it."""
    if precision == "bfloat16" or (precision == "auto" and has_bfloat16(device)):
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return nullcontext()
