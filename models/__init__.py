"""Headlight's Transformer library: models, masks, hook points, decoding and training."""

from models.checkpoint import Checkpoint, CheckpointError, load_checkpoint
from models.config import ModelConfig
from models.hooks import visiting
from models.transformer import DecoderOnly, EncoderDecoder, build_model

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "DecoderOnly",
    "EncoderDecoder",
    "ModelConfig",
    "build_model",
    "load_checkpoint",
    "visiting",
]
