"""The two families: `EncoderDecoder` (translation) and `DecoderOnly` (continuation).

Models hold weights and nothing else: masks, caches and positions are arguments or are derived from
`valid` (Bool [batch, pos], True = a real token; None = all are).
"""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from models.blocks import DecoderBlock, EncoderBlock
from models.cache import KVCache
from models.config import Family, ModelConfig
from models.hooks import AttentionSite, HookPoint, Stream, name_hook_points
from models.masks import causal_mask, padding_mask
from models.norms import NORMS
from models.positions import POSITIONS, Placement, positions_of


class Stack(nn.Module):
    """An embedded token stream and the blocks it flows through; encoder and decoder both."""

    def __init__(
        self,
        config: ModelConfig,
        block: type[EncoderBlock] | type[DecoderBlock],
        n_layers: int,
        embed: nn.Embedding,
        causal: bool,
    ) -> None:
        super().__init__()
        self.embed = embed
        self.embed_scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        self.positions = POSITIONS[config.positions](
            d_model=config.d_model,
            d_head=config.d_head,
            n_heads=config.n_heads,
            n_ctx=config.n_ctx,
            base=config.rope_base,
            causal=causal,
        )
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(block(config) for _ in range(n_layers))
        self.final_norm = (
            NORMS[config.norm](config.d_model, config.norm_eps)
            if config.final_norm
            else nn.Identity()
        )
        self.hook_positions = HookPoint()  # Int [batch, pos], with a cache those before as well
        self.hook_embed = HookPoint()  # [batch, pos, d_model], scaled
        self.hook_pos_embed = HookPoint()  # [batch, pos, d_model], where something is added
        self.hook_resid_final = HookPoint()  # [batch, pos, d_model], before the final norm

    def embed_tokens(
        self, tokens: Int[Tensor, "batch pos"], valid: Tensor | None, past: int = 0
    ) -> tuple[Float[Tensor, "batch pos d_model"], Placement]:
        """Embeddings with what the positions add, and the placement for the blocks' attention.

        `past` tokens were read before these, by way of a cache.
        """
        positions = self.hook_positions(positions_of(valid, tokens, past))  # [batch, past + pos]
        new = positions[:, past:]
        x = self.hook_embed(self.embed(tokens) * self.embed_scale)
        added = self.positions.added(new)
        if added is not None:
            x = x + self.hook_pos_embed(added)
        return self.dropout(x), self.positions.place(new, positions)

    def finish(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        """After the last block: the final norm, where there is one."""
        return self.final_norm(self.hook_resid_final(x))


def _sites(path: str, stack: Stack, query: Stream, key: Stream) -> list[AttentionSite]:
    """One kind of attention sublayer in every block of `stack`, which stands at `path`."""
    cross = query != key
    sublayer = "cross_attn" if cross else "attn"
    return [
        AttentionSite(
            name=f"{path}blocks.{layer}.{sublayer}",
            stack="encoder" if query == "src" else "decoder",
            layer=layer,
            kind="cross" if cross else "self",
            query_stream=query,
            key_stream=key,
            n_heads=getattr(block, sublayer).n_heads,
        )
        for layer, block in enumerate(stack.blocks)
    ]


def _visible(n_new: int, valid: Tensor | None, past: int, device: torch.device) -> Tensor | None:
    """Bool [batch | -, ..., new, past + new]: causal, and padding hidden as key.

    None where nothing is hidden: the newest token alone, with a cache, sees every one before it.
    """
    if n_new == 1 and valid is None:
        return None
    causal = causal_mask(n_new, past + n_new, offset=past, device=device)
    return causal if valid is None else causal & padding_mask(valid)


def _checked_valid(valid: Tensor | None, tokens: Tensor, past: int) -> Tensor | None:
    """Check that `valid` covers the cached positions too. Raises ValueError."""
    if valid is not None and valid.shape[1] != past + tokens.shape[1]:
        raise ValueError(
            f"valid covers {valid.shape[1]} positions; {past} cached and {tokens.shape[1]} new "
            f"tokens need {past + tokens.shape[1]}"
        )
    return valid


def _source_visible(src_valid: Tensor | None, n_src: int) -> Tensor | None:
    """Bool [batch, 1, 1, src]: padding of the source hidden as key. Raises ValueError."""
    if src_valid is None:
        return None
    if src_valid.shape[1] != n_src:  # one of length 1 would broadcast, and hide the mistake
        raise ValueError(f"src_valid covers {src_valid.shape[1]} positions; the source has {n_src}")
    return padding_mask(src_valid)


class EncoderDecoder(nn.Module):
    """The Transformer of Vaswani et al. 2017, §3.1: encode once, then decode any number of times.

    All encoder blocks run first; every decoder block reads the same `memory`.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        src_embed = nn.Embedding(config.vocab_size, config.d_model)
        tgt_embed = (
            src_embed if config.tie_embeddings else nn.Embedding(config.vocab_size, config.d_model)
        )
        self.encoder = Stack(config, EncoderBlock, config.encoder_layers, src_embed, causal=False)
        self.decoder = Stack(config, DecoderBlock, config.n_layers, tgt_embed, causal=True)
        self.unembed = _unembed(config, tgt_embed)
        self.hook_logits = HookPoint()  # [batch, tgt, vocab]
        _initialise(self)

    def encode(
        self,
        src: Int[Tensor, "batch src"],
        src_valid: Bool[Tensor, "batch src"] | None = None,
    ) -> Float[Tensor, "batch src d_model"]:
        """The encoder's output, `memory`. Raises ValueError when `src_valid` does not fit `src`."""
        mask = _source_visible(src_valid, src.shape[1])
        x, placement = self.encoder.embed_tokens(src, src_valid)
        for block in self.encoder.blocks:
            x = block(x, mask=mask, placement=placement)
        return self.encoder.finish(x)

    def decode(
        self,
        tgt: Int[Tensor, "batch new"],
        memory: Float[Tensor, "batch src d_model"],
        src_valid: Bool[Tensor, "batch src"] | None = None,
        tgt_valid: Bool[Tensor, "batch tgt"] | None = None,
        cache: KVCache | None = None,
        last_only: bool = False,
    ) -> Float[Tensor, "batch new_or_1 vocab"]:
        """Logits for the token after each of `tgt`; with `last_only`, after the last alone.

        With a `cache`, `tgt` holds the new tokens only and `tgt_valid` covers the cached ones too.
        Raises ValueError when a `valid` does not fit its tokens.
        """
        past = cache.length if cache else 0
        valid = _checked_valid(tgt_valid, tgt, past)
        x, placement = self.decoder.embed_tokens(tgt, valid, past)
        mask = _visible(tgt.shape[1], valid, past, tgt.device)
        cross = _source_visible(src_valid, memory.shape[1])
        for layer, block in enumerate(self.decoder.blocks):
            x = block(
                x,
                memory,
                mask=mask,
                cross_mask=cross,
                placement=placement,
                cache=cache.self_attn[layer] if cache else None,
                cross_cache=cache.cross_attn[layer] if cache else None,
            )
        x = x[:, -1:] if last_only else x
        return self.hook_logits(self.unembed(self.decoder.finish(x)))

    def forward(
        self,
        src: Int[Tensor, "batch src"],
        tgt: Int[Tensor, "batch tgt"],
        src_valid: Bool[Tensor, "batch src"] | None = None,
        tgt_valid: Bool[Tensor, "batch tgt"] | None = None,
    ) -> Float[Tensor, "batch tgt vocab"]:
        """Teacher forcing: logits for the token after each target token, all in one pass."""
        return self.decode(tgt, self.encode(src, src_valid), src_valid, tgt_valid)

    def attention_sites(self) -> tuple[AttentionSite, ...]:
        """Every attention sublayer: encoder, decoder self, cross."""
        return (
            *_sites("encoder.", self.encoder, query="src", key="src"),
            *_sites("decoder.", self.decoder, query="tgt", key="tgt"),
            *_sites("decoder.", self.decoder, query="tgt", key="src"),
        )


class DecoderOnly(Stack):
    """A language model: one stream, causal self-attention. Radford et al. 2018 (GPT)."""

    def __init__(self, config: ModelConfig) -> None:
        embed = nn.Embedding(config.vocab_size, config.d_model)
        super().__init__(config, EncoderBlock, config.n_layers, embed, causal=True)
        self.config = config
        self.unembed = _unembed(config, embed)
        self.hook_logits = HookPoint()  # [batch, tgt, vocab]
        _initialise(self)

    def forward(
        self,
        tgt: Int[Tensor, "batch new"],
        tgt_valid: Bool[Tensor, "batch tgt"] | None = None,
        cache: KVCache | None = None,
        last_only: bool = False,
    ) -> Float[Tensor, "batch new_or_1 vocab"]:
        """Logits for the token after each of `tgt`; the rest as in `EncoderDecoder.decode`."""
        past = cache.length if cache else 0
        valid = _checked_valid(tgt_valid, tgt, past)
        x, placement = self.embed_tokens(tgt, valid, past)
        mask = _visible(tgt.shape[1], valid, past, tgt.device)
        for layer, block in enumerate(self.blocks):
            x = block(
                x,
                mask=mask,
                placement=placement,
                cache=cache.self_attn[layer] if cache else None,
            )
        x = x[:, -1:] if last_only else x
        return self.hook_logits(self.unembed(self.finish(x)))

    def attention_sites(self) -> tuple[AttentionSite, ...]:
        """Every attention sublayer; all are causal self-attention."""
        return tuple(_sites("", self, query="tgt", key="tgt"))


def _unembed(config: ModelConfig, embed: nn.Embedding) -> nn.Linear:
    unembed = nn.Linear(config.d_model, config.vocab_size, bias=False)
    if config.tie_embeddings:
        unembed.weight = embed.weight
    return unembed


def _initialise(model: nn.Module) -> None:
    """Xavier for every logical matrix, zero biases, embeddings N(0, 1 / d_model); name the hooks.

    Each of w_q, w_k, w_v is its own matrix here, so Xavier gives each the spread that it should
    have; on a fused w_qkv it would be smaller by sqrt(2). Embeddings of that spread times
    sqrt(d_model) have unit size, near the sines' 0.71; learned positions start as large as the
    embeddings that they join, scaled or not. Glorot & Bengio 2010; Vaswani et al. §3.4.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    for module in model.modules():  # afterwards: a tied unembedding keeps the embedding's spread
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
        if isinstance(module, Stack):
            module.positions.initialise(module.embed_scale * module.embed.embedding_dim**-0.5)
    name_hook_points(model)


Model = EncoderDecoder | DecoderOnly
FAMILIES: dict[Family, type[EncoderDecoder] | type[DecoderOnly]] = {
    "encoder-decoder": EncoderDecoder,
    "decoder-only": DecoderOnly,
}


def build_model(config: ModelConfig) -> Model:
    """A freshly initialised model of the config's family, in training mode."""
    return FAMILIES[config.family](config)
