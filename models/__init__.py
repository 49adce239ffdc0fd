"""Headlight's Transformer library: models, masks, hook points, decoding and training.

Each name is loaded on first use: a server answers before it has imported torch.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "Checkpoint": "models.checkpoint",
    "CheckpointError": "models.checkpoint",
    "DecoderOnly": "models.transformer",
    "EncoderDecoder": "models.transformer",
    "ModelConfig": "models.config",
    "build_model": "models.transformer",
    "load_checkpoint": "models.checkpoint",
    "visiting": "models.hooks",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
