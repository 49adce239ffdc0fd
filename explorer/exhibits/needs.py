"""Capabilities that an exhibit or a page may require of a model; reasons are at `needs.NAME`."""

from collections.abc import Callable
from dataclasses import dataclass

from explorer.library import LoadedModel


@dataclass(frozen=True)
class Need:
    """A capability by its name, and whether a model has it."""

    name: str
    met: Callable[[LoadedModel], bool]


CAUSAL = Need("causal", lambda loaded: loaded.config.is_causal)
"""A causal mask."""
CROSS = Need("cross", lambda loaded: loaded.config.reads_source)
"""Attention from one text to another."""
EXPERTS = Need("experts", lambda loaded: loaded.config.n_experts > 1)
"""A mixture of experts in every block."""
OUTPUT = Need("output", lambda loaded: loaded.config.lm_head)
"""An LM head."""
TEXTS = Need("texts", lambda loaded: loaded.config.picture is None)
"""Its input is a text, which other models can read too."""
TRANSLATES = Need("translation", lambda loaded: CROSS.met(loaded) and OUTPUT.met(loaded))
"""A text in, another text out."""
WORDS = Need("words", lambda loaded: loaded.config.picture is None or loaded.config.reads_source)
"""A vocabulary: the sequence of the logits consists of tokens of a text, not of patches."""
