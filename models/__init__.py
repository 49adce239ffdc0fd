"""Headlight's Transformer library: models, their masks and hook points, decoding, training.

Knows nothing of the explorer, of Streamlit or of Plotly, and is useful without them.
"""

from models.config import ModelConfig
from models.hooks import visiting
from models.transformer import DecoderOnly, EncoderDecoder, build_model

__all__ = ["DecoderOnly", "EncoderDecoder", "ModelConfig", "build_model", "visiting"]
