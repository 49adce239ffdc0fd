"""A trace: one sentence, one run of the shared model, everything that pages look at. Numpy only."""

from dataclasses import dataclass, field

import numpy as np

from explorer.edits import Edit
from explorer.generation import Candidate, Generation, GenerationStep
from models.config import ModelConfig
from models.hooks import AttentionSite

__all__ = ["Candidate", "Generation", "GenerationStep", "Trace"]

MAX_TOKENS = 128  # per stream, special tokens included, padding not
MAX_CHARS = 1000
MAX_PADS = 16


@dataclass(frozen=True, eq=False)
class Trace:
    """What one run of a model did with one sentence; read-only arrays without a batch axis.

    `tgt_tokens` is the decoder's input row: `<s>`, then the translation (decoder-only: the text).
    `activations[hook name]`: scores, mask, pattern [head, query, key]; q, z [head, query, d_head];
    k, v [kv_head, key, d_head]; the residual stream and what is added to it [pos, d_model].
    Masks are as the model applied them, edits included. `logits` is [tgt, vocab].
    """

    model: str
    config: ModelConfig
    text: str
    src_tokens: tuple[int, ...]
    src_str_tokens: tuple[str, ...]
    tgt_tokens: tuple[int, ...]
    tgt_str_tokens: tuple[str, ...]
    src_valid: np.ndarray
    tgt_valid: np.ndarray
    sites: tuple[AttentionSite, ...]
    activations: dict[str, np.ndarray] = field(repr=False)
    logits: np.ndarray = field(repr=False)
    output: str = ""  # the translation; "" for a decoder-only model
    edits: tuple[Edit, ...] = ()  # those in force
    ignored_edits: tuple[Edit, ...] = ()  # those that name a site, head or cell not in this run
    unknown: tuple[str, ...] = ()  # characters of the text that the vocabulary lacks
    finished: bool = True  # False: the translation was cut off before its end mark
    predicted_tokens: tuple[int, ...] = ()  # the most probable token after each of tgt_tokens
    predicted_str_tokens: tuple[str, ...] = ()

    def site(self, name: str) -> AttentionSite:
        """The site with this name. Raises KeyError."""
        for site in self.sites:
            if site.name == name:
                return site
        raise KeyError(f"{self.model} has no attention site {name!r}")

    def pattern(self, site: str) -> np.ndarray:
        """Attention weights of a site, float32 [head, query, key], as the model gave them."""
        return self.activations[self.site(site).hook("pattern")]

    def mask(self, site: str) -> np.ndarray:
        """The mask that a site applied, bool [head, query, key], True = may attend."""
        return self.activations[self.site(site).hook("mask")]

    def query_tokens(self, site: str) -> tuple[str, ...]:
        """What stands on the query axis of a site."""
        return self._tokens(self.site(site).query_stream)

    def key_tokens(self, site: str) -> tuple[str, ...]:
        """What stands on the key axis of a site."""
        return self._tokens(self.site(site).key_stream)

    def _tokens(self, stream: str) -> tuple[str, ...]:
        return self.src_str_tokens if stream == "src" else self.tgt_str_tokens
