"""Headlight's Transformer library: models, their masks and hook points, decoding, training.

Knows nothing of the explorer, of Streamlit or of Plotly, and is useful without them.
"""

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
