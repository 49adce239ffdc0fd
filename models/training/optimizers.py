"""The optimizers of a training run, their state by name, and autocast.

Muon is an optimizer whose update of a matrix has about the same size in every direction: the
momentum of the gradient with all singular values moved close to 1 (Jordan et al.
2024, https://kellerjordan.github.io/posts/muon/), times 0.2 sqrt(longer side). This makes it about
as large as an Adam update, so both use the same learning rate and weight decay (Liu et al. 2025,
Muon is Scalable for LLM Training, §2.2). torch's own `optim.Muon` computes in bfloat16 only: on a
CPU without native bfloat16 an update took 77 ms, compared with 4.2 in float32 (432 x 160).
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from models.training.settings import Precision, TrainingConfig
from models.transformer import Model

MOMENTUM = 0.95
# of the polynomial a x + b x^3 + c x^5, applied ITERATIONS times (Jordan et al. 2024)
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5


def orthogonalised(matrix: Float[Tensor, "rows columns"]) -> Float[Tensor, "rows columns"]:
    """U S' V^T for `matrix` = U S V^T, with all singular values S' roughly between 0.7 and 1.2.

    Uses five Newton-Schulz iterations, which need matrix products only. Singular values below a
    thousandth of the matrix's Frobenius norm remain smaller; a zero matrix remains zero.
    """
    a, b, c = COEFFICIENTS
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.t()
    wide = wide / wide.norm().clamp(min=1e-7)  # no singular value above 1
    for _ in range(ITERATIONS):
        gram = wide @ wide.t()
        wide = torch.addmm(wide, torch.addmm(gram, gram, gram, beta=b, alpha=c), wide, beta=a)
    return wide if matrix.shape[0] <= matrix.shape[1] else wide.t()


class Muon(torch.optim.Optimizer):
    """Muon with Nesterov momentum and decoupled weight decay, for matrices only.

    Raises ValueError for a parameter that is not a matrix.
    """

    def __init__(
        self, parameters: Iterable[nn.Parameter], lr: float, weight_decay: float = 0.0
    ) -> None:
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay})
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.dim() != 2:
                    raise ValueError(f"Muon takes matrices, not a shape {tuple(parameter.shape)}")
                self.state[parameter] = {"momentum": torch.zeros_like(parameter)}

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]  # there is no closure to call
        """One update of every parameter that has a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                momentum = self.state[parameter]["momentum"]
                momentum.lerp_(parameter.grad, 1 - MOMENTUM)
                ahead = parameter.grad.lerp(momentum, MOMENTUM)  # Nesterov
                size = 0.2 * max(parameter.shape) ** 0.5
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.add_(orthogonalised(ahead), alpha=-group["lr"] * size)


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
