"""The families by what the tests of one ability need."""

from models.config import ModelConfig
from models.transformer import FAMILIES

WRITERS = [family for family in FAMILIES if ModelConfig(family=family, vocab_size=9).is_causal]
"""Those that write one token after another, with a cache or without."""
