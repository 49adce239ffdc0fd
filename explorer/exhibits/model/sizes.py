"""The link format of model sizes, for the calculator of the Model page."""

import re
from dataclasses import dataclass, replace
from typing import Any

from models.config import ModelConfig
from models.feedforward import GATED
from models.transformer import FAMILIES

OWN = "own"
_TEXT = re.compile(
    r"(\d{1,6})-(\d{1,4})-(\d{1,4})-(\d{1,3})-(\d{1,6})-(\d{1,7})-([01])([01])([01])([01])"
    r"(?:-(\d{1,7})-([01])([01]))?",
    re.ASCII,
)
MOST = {"d_model": 16_384, "n_layers": 128, "d_ff": 131_072, "vocab_size": 1_000_000}


@dataclass(frozen=True)
class Sizes:
    """The sizes that determine a model's parameter count; `vocab_size` 0 means its layers only.

    `src_vocab` is the size of an encoder's own vocabulary, 0 if both streams share one.
    """

    d_model: int
    n_heads: int
    kv_heads: int
    n_layers: int
    d_ff: int
    vocab_size: int
    has_encoder: bool = False
    swiglu: bool = False
    bias: bool = True
    tied: bool = True
    src_vocab: int = 0
    out_bias: bool = False
    final_norm: bool = False

    @classmethod
    def of(cls, config: ModelConfig) -> "Sizes":
        """The sizes of a config."""
        sizes = config.d_model, config.n_heads, config.kv_heads, config.n_layers, config.d_ff
        return cls(
            *sizes,
            config.vocab_size,
            src_vocab=config.src_vocab_size or 0,
            out_bias=config.unembed_bias,
            has_encoder=config.reads_source,
            swiglu=config.ffn in GATED,
            bias=config.bias,
            tied=config.tie_embeddings,
            final_norm=config.final_norm,
        )

    def config(self) -> ModelConfig:
        """A config of these sizes: pre-norm RMSNorm with SwiGLU, else post-norm LayerNorm.

        For layers only, a placeholder vocabulary is used. Raises ValueError, as ModelConfig does,
        if the number of heads does not divide the width.
        """
        family = next(
            name for name, kind in FAMILIES.items() if ("src" in kind.reads) == self.has_encoder
        )
        return ModelConfig(
            family=family,
            vocab_size=max(self.vocab_size, 1),
            src_vocab_size=self.src_vocab or None,
            d_model=self.d_model,
            n_layers=self.n_layers,
            n_heads=self.n_heads,
            n_kv_heads=self.kv_heads,
            d_ff=self.d_ff,
            norm="rmsnorm" if self.swiglu else "layernorm",
            norm_placement="pre" if self.swiglu else "post",
            final_norm=self.final_norm,
            positions="none",  # computed positions have no parameters
            ffn="swiglu" if self.swiglu else "relu",
            bias=self.bias,
            tie_embeddings=self.tied,
            unembed_bias=self.out_bias,
        )

    def with_size(self, name: str, size: int) -> "Sizes":
        """Change one size, and the number of heads if it no longer divides the width."""
        changed: dict[str, Any] = {name: size}
        new = replace(self, **changed)
        heads = max(n for n in range(1, new.n_heads + 1) if new.d_model % n == 0)
        kv = max(n for n in range(1, min(new.kv_heads, heads) + 1) if heads % n == 0)
        if name == "n_heads" and self.kv_heads == self.n_heads:
            kv = heads
        return replace(new, n_heads=heads, kv_heads=kv)

    def with_switch(self, name: str, on: bool) -> "Sizes":
        """Change one switch: SwiGLU adds a final norm, removing the encoder removes its
        vocabulary."""
        changed: dict[str, Any] = {name: on} | ({"final_norm": on} if name == "swiglu" else {})
        new = replace(self, **changed)
        return new if new.has_encoder else replace(new, src_vocab=0)

    def text(self) -> str:
        """`512-8-8-6-2048-37000-1011`, which `parse_sizes` reads, followed by the encoder's
        vocabulary, the output bias and the final norm unless these are the defaults."""
        numbers = (self.d_model, self.n_heads, self.kv_heads, self.n_layers, self.d_ff)
        switches = (self.has_encoder, self.swiglu, self.bias, self.tied)
        words = "-".join(map(str, (*numbers, self.vocab_size)))
        text = f"{words}-{''.join(str(int(switch)) for switch in switches)}"
        if (self.src_vocab, self.out_bias, self.final_norm) == (0, False, self.swiglu):
            return text
        return f"{text}-{self.src_vocab}-{int(self.out_bias)}{int(self.final_norm)}"


LLAMA = Sizes(4096, 32, 32, 32, 11_008, 32_000, swiglu=True, bias=False, final_norm=True)
TWO = Sizes(512, 8, 8, 6, 2048, 200, has_encoder=True, tied=False, src_vocab=100, out_bias=True)
PRESETS = {
    "base": Sizes(512, 8, 8, 6, 2048, 37_000, has_encoder=True),
    "layers768": Sizes(768, 12, 12, 12, 3072, 30_522),
    "block4096": replace(LLAMA, n_layers=1, vocab_size=0, tied=False),
    "llama": replace(LLAMA, tied=False),
    "llama_tied": LLAMA,
    "two_6": TWO,
    "two_3": replace(TWO, n_layers=3, vocab_size=2000, src_vocab=1000, final_norm=True),
}


def parse_sizes(text: str, own: ModelConfig) -> Sizes | None:
    """Parse the sizes of a link: a preset's name or numbers; "" and "own" are the model's.

    None for impossible sizes.
    """
    if text in ("", OWN):
        return Sizes.of(own)
    if text in PRESETS:
        return PRESETS[text]
    match = _TEXT.fullmatch(text)
    if match is None:
        return None
    *numbers, src_vocab, out_bias, final_norm = match.groups()
    settings: list[Any] = [*map(int, numbers[:6]), *(switch == "1" for switch in numbers[6:])]
    normed = settings[7] if final_norm is None else final_norm == "1"
    settings += [int(src_vocab or 0), out_bias == "1", normed]
    sizes = Sizes(*settings)
    if sizes.src_vocab > MOST["vocab_size"] or (sizes.src_vocab and not sizes.has_encoder):
        return None
    if any(getattr(sizes, name) > most for name, most in MOST.items()):
        return None
    try:
        sizes.config()
    except ValueError:
        return None
    return sizes
