"""Training settings (the table [training] of a recipe) and the learning rate schedule."""

import math
from dataclasses import dataclass
from typing import Literal, get_args, no_type_check

Optimizer = Literal["adamw", "muon"]
Schedule = Literal["inverse_sqrt", "cosine"]
Precision = Literal["auto", "float32", "bfloat16"]


@no_type_check  # the run-time type checker would report before __post_init__ can say why
@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Training settings. Raises ValueError, naming the field, for an invalid value.

    The learning rate rises linearly for `warmup` steps to `learning_rate` and then falls with the
    inverse square root of the step (Vaswani et al. 2017, §5.3), or with half a cosine to zero at
    the last step.
    """

    epochs: int = 10
    optimizer: Optimizer = "adamw"  # "muon": for the blocks' matrices, AdamW for the rest
    max_tokens: int = 2048  # per batch, in the longer of source and target, padding included
    learning_rate: float = 7e-4  # the peak, after warmup
    warmup: int = 1000
    schedule: Schedule = "inverse_sqrt"
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.98)
    clip: float = 1.0  # maximum norm of the gradient
    average: int = 5  # how many snapshots (one per epoch) are averaged at the end
    seed: int = 1
    snapshots: tuple[int, ...] = ()  # steps whose weights are saved, to show the training
    precision: Precision = "auto"
    save_seconds: float = 60.0

    def __post_init__(self) -> None:
        for name, choices in (
            ("optimizer", Optimizer),
            ("schedule", Schedule),
            ("precision", Precision),
        ):
            if getattr(self, name) not in get_args(choices):
                options = ", ".join(get_args(choices))
                raise ValueError(f"{name} is {getattr(self, name)!r}: it must be one of {options}")
        for name in ("epochs", "max_tokens", "warmup", "average"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be at least 1")
        for name in ("learning_rate", "clip", "save_seconds"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be above 0")


def learning_rate(step: int, total: int, config: TrainingConfig) -> float:
    """The learning rate for the step after `step` completed steps, of `total`."""
    if step < config.warmup:
        return config.learning_rate * (step + 1) / config.warmup
    if config.schedule == "inverse_sqrt":
        return config.learning_rate * math.sqrt(config.warmup / (step + 1))
    done = (step - config.warmup) / max(1, total - config.warmup)
    return config.learning_rate * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))
