"""Three families: `EncoderDecoder` (translation), `DecoderOnly` (continuation) and `EncoderOnly`
(reading both ways, and filling in masked words).

Models hold weights and nothing else: masks, caches and positions are arguments or are derived from
`valid` (Bool [batch, pos], True = a real token; None = all are). `Model` is what all families
promise, so that nobody who runs one has to ask which family it is of.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from models.blocks import DecoderBlock, EncoderBlock
from models.cache import KVCache
from models.config import Family, ModelConfig
from models.hooks import AttentionSite, HookPoint, StackSite, name_hook_points
from models.marks import OUR_MARKS, Marks
from models.masks import causal_mask, padding_mask
from models.norms import NORMS
from models.positions import POSITIONS, Placement, positions_of
from models.rows import Rows, Stream


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
        self.n_heads = config.n_heads
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


class Model(nn.Module, ABC):
    """What every family promises.

    `marks` are those of the tokenizer whose ids the model reads; a fresh model has the ids of the
    tokenizers that are trained here.
    """

    config: ModelConfig
    marks: Marks
    reads: ClassVar[tuple[Stream, ...]]
    """The streams of its rows, in the order in which it reads them."""
    surrounded: ClassVar[dict[Stream, tuple[bool, bool]]]
    """Whether a stream's text has the start mark before it, and the end mark behind it."""

    @property
    def predicts(self) -> Literal["next", "same"] | None:
        """What the logits of a position are about: the token after it, or that at it (None: no
        logits, as the model has no head for them)."""
        return "next"

    @abstractmethod
    def read(
        self,
        rows: Rows,
        memory: Tensor | None = None,
        cache: KVCache | None = None,
        last_only: bool = False,
    ) -> Float[Tensor, "batch tgt_or_1 vocab"]:
        """The logits of every position of `rows.tgt`; with `last_only`, of the last alone.

        `memory` is what `memory_of(rows)` gave, where that was asked for before. With a `cache`,
        `rows.tgt` holds the new tokens only and `rows.tgt_valid` covers the cached ones too.
        Raises ValueError for rows that lack a stream, and for a `valid` that does not fit.
        """

    @abstractmethod
    def begin(
        self, given: Int[Tensor, "batch pos"], valid: Bool[Tensor, "batch pos"] | None = None
    ) -> Rows:
        """The rows that a decoding begins with, when it is given these tokens with their marks.

        What is given is the first of the streams that the family `reads`.
        """

    def room(self, rows: Rows, most: int) -> int:
        """How many tokens can be written into each of these rows, if none may exceed `most`."""
        return most - rows.tgt.shape[1]

    @abstractmethod
    def whole(self, given: Sequence[int], output: Sequence[int]) -> tuple[int, ...]:
        """The text that a decoding leaves behind: its output, or that joined to what was given."""

    def memory_of(self, rows: Rows) -> Float[Tensor, "batch src d_model"] | None:
        """What the source is read into, once for all steps of a decoding; None without a source."""
        return None

    @abstractmethod
    def attention_sites(self) -> tuple[AttentionSite, ...]:
        """Every attention sublayer, stack by stack, self-attention before cross-attention."""

    @abstractmethod
    def stacks(self) -> tuple[StackSite, ...]:
        """The stacks of blocks, one for each stream that is read."""

    def with_marks(self, stream: Stream, tokens: Sequence[int]) -> tuple[int, ...]:
        """The tokens of a text with the marks that this model expects around them, if any."""
        before, behind = self.surrounded[stream]
        start = [self.marks.start] if before and self.marks.start is not None else []
        end = [self.marks.end] if behind and self.marks.end is not None else []
        return (*start, *tokens, *end)


def _self_sites(stack: StackSite, module: "Stack") -> list[AttentionSite]:
    """The self-attention of every block of a stack."""
    return [
        AttentionSite(
            name=stack.path("blocks", layer, "attn"),
            block=stack.path("blocks", layer),
            stack=stack.role,
            layer=layer,
            kind="self",
            query_stream=stack.stream,
            key_stream=stack.stream,
            n_heads=module.n_heads,
        )
        for layer in range(stack.n_layers)
    ]


def _cross_sites(stack: StackSite, module: "Stack") -> list[AttentionSite]:
    """The cross-attention of every block of a decoder."""
    return [
        replace(
            site,
            name=stack.path("blocks", site.layer, "cross_attn"),
            kind="cross",
            key_stream="src",
        )
        for site in _self_sites(stack, module)
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


def _hidden_padding(valid: Tensor | None, n_key: int) -> Tensor | None:
    """Bool [batch, 1, 1, key]: padding hidden as key, and nothing else. Raises ValueError."""
    if valid is None:
        return None
    if valid.shape[1] != n_key:  # one of length 1 would broadcast, and hide the mistake
        raise ValueError(f"valid covers {valid.shape[1]} positions; the text has {n_key}")
    return padding_mask(valid)


class EncoderDecoder(Model):
    """The Transformer of Vaswani et al. 2017, §3.1: encode once, then decode any number of times.

    All encoder blocks run first; every decoder block reads the same `memory`.
    """

    reads = ("src", "tgt")
    surrounded: ClassVar = {"src": (False, True), "tgt": (True, False)}

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        src_embed = nn.Embedding(config.vocab_size, config.d_model)
        tgt_embed = (
            src_embed if config.tie_embeddings else nn.Embedding(config.vocab_size, config.d_model)
        )
        self.encoder = Stack(config, EncoderBlock, config.encoder_layers, src_embed, causal=False)
        self.decoder = Stack(config, DecoderBlock, config.n_layers, tgt_embed, causal=True)
        self.marks = OUR_MARKS
        self.unembed = _unembed(config, tgt_embed)
        self.hook_logits = HookPoint()  # [batch, tgt, vocab]
        _initialise(self)

    def encode(
        self,
        src: Int[Tensor, "batch src"],
        src_valid: Bool[Tensor, "batch src"] | None = None,
    ) -> Float[Tensor, "batch src d_model"]:
        """The encoder's output, `memory`. Raises ValueError when `src_valid` does not fit `src`."""
        mask = _hidden_padding(src_valid, src.shape[1])
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
        cross = _hidden_padding(src_valid, memory.shape[1])
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

    def begin(
        self, given: Int[Tensor, "batch src"], valid: Bool[Tensor, "batch src"] | None = None
    ) -> Rows:
        """A source; the output begins with the start mark. Raises ValueError without one."""
        if self.marks.start is None:
            raise ValueError("a translation has to begin with a start mark: the marks have none")
        return Rows(torch.full_like(given[:, :1], self.marks.start), None, given, valid)

    def whole(self, given: Sequence[int], output: Sequence[int]) -> tuple[int, ...]:
        return tuple(output)

    def memory_of(self, rows: Rows) -> Float[Tensor, "batch src d_model"]:
        return self.encode(rows.tokens("src"), rows.src_valid)

    def read(
        self,
        rows: Rows,
        memory: Tensor | None = None,
        cache: KVCache | None = None,
        last_only: bool = False,
    ) -> Float[Tensor, "batch tgt_or_1 vocab"]:
        memory = self.memory_of(rows) if memory is None else memory
        return self.decode(rows.tgt, memory, rows.src_valid, rows.tgt_valid, cache, last_only)

    def stacks(self) -> tuple[StackSite, ...]:
        return (
            StackSite("encoder", "encoder", "src", len(self.encoder.blocks)),
            StackSite("decoder", "decoder", "tgt", len(self.decoder.blocks)),
        )

    def attention_sites(self) -> tuple[AttentionSite, ...]:
        encoder, decoder = self.stacks()
        return (
            *_self_sites(encoder, self.encoder),
            *_self_sites(decoder, self.decoder),
            *_cross_sites(decoder, self.decoder),
        )


class OneStack(Stack, Model):
    """What models of one text share: one stack, embedded and unembedded by the same object."""

    reads = ("tgt",)
    role: ClassVar[Literal["encoder", "decoder"]]

    def __init__(self, config: ModelConfig) -> None:
        embed = nn.Embedding(config.vocab_size, config.d_model)
        super().__init__(
            config, EncoderBlock, config.n_layers, embed, causal=self.role == "decoder"
        )
        self.config = config
        self.marks = OUR_MARKS
        if config.lm_head:
            self.unembed = _unembed(config, embed)
        self.hook_logits = HookPoint()  # [batch, tgt, vocab]
        _initialise(self)

    def stacks(self) -> tuple[StackSite, ...]:
        return (StackSite("", self.role, "tgt", len(self.blocks)),)

    def attention_sites(self) -> tuple[AttentionSite, ...]:
        return tuple(_self_sites(self.stacks()[0], self))


class DecoderOnly(OneStack):
    """A language model: one stream, causal self-attention. Radford et al. 2018 (GPT)."""

    role = "decoder"
    surrounded: ClassVar = {"tgt": (True, False)}

    def begin(
        self, given: Int[Tensor, "batch tgt"], valid: Bool[Tensor, "batch tgt"] | None = None
    ) -> Rows:
        """A prompt, its padding moved to the left, so that all outputs begin in one column."""
        if valid is None or bool(valid.all()):
            return Rows(given)
        order = valid.long().argsort(dim=1, stable=True)  # padding first, words in order
        return Rows(given.gather(1, order), valid.gather(1, order))

    def whole(self, given: Sequence[int], output: Sequence[int]) -> tuple[int, ...]:
        return (*given, *output)

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

    def read(
        self,
        rows: Rows,
        memory: Tensor | None = None,
        cache: KVCache | None = None,
        last_only: bool = False,
    ) -> Float[Tensor, "batch tgt_or_1 vocab"]:
        return self(rows.tgt, rows.tgt_valid, cache, last_only)


class EncoderOnly(OneStack):
    """An encoder alone: every token sees the whole text. Devlin et al. 2018 (BERT).

    With `lm_head` the logits of a position are about the token at it, which is trained where that
    token was masked. Without one the logits are empty: [batch, tgt, 0].
    """

    role = "encoder"
    surrounded: ClassVar = {"tgt": (True, True)}

    def begin(
        self, given: Int[Tensor, "batch tgt"], valid: Bool[Tensor, "batch tgt"] | None = None
    ) -> Rows:
        """A text in which mask tokens are to be filled in."""
        return Rows(given, valid)

    def room(self, rows: Rows, most: int) -> int:
        """As many as the row with the fewest mask tokens has of them."""
        if self.marks.mask is None:
            return 0
        return int((rows.tgt == self.marks.mask).sum(1).min())

    def whole(self, given: Sequence[int], output: Sequence[int]) -> tuple[int, ...]:
        """The given text, its mask tokens replaced one after another."""
        filling = iter(output)
        return tuple(next(filling, token) if token == self.marks.mask else token for token in given)

    @property
    def predicts(self) -> Literal["same"] | None:
        return "same" if self.config.lm_head else None

    def forward(
        self,
        tgt: Int[Tensor, "batch tgt"],
        tgt_valid: Bool[Tensor, "batch tgt"] | None = None,
    ) -> Float[Tensor, "batch tgt vocab"]:
        """The logits of every position. Raises ValueError when `tgt_valid` does not fit `tgt`."""
        mask = _hidden_padding(tgt_valid, tgt.shape[1])
        x, placement = self.embed_tokens(tgt, tgt_valid)
        for block in self.blocks:
            x = block(x, mask=mask, placement=placement)
        x = self.finish(x)
        return self.hook_logits(self.unembed(x) if self.config.lm_head else x[..., :0])

    def read(
        self,
        rows: Rows,
        memory: Tensor | None = None,
        cache: KVCache | None = None,
        last_only: bool = False,
    ) -> Float[Tensor, "batch tgt_or_1 vocab"]:
        """As `Model.read`. Raises ValueError for a cache: each token depends on later ones."""
        if cache is not None:
            raise ValueError("an encoder keeps no cache: every token sees those that come later")
        logits = self(rows.tgt, rows.tgt_valid)
        return logits[:, -1:] if last_only else logits


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


FAMILIES: dict[Family, type[Model]] = {
    "encoder-decoder": EncoderDecoder,
    "decoder-only": DecoderOnly,
    "encoder-only": EncoderOnly,
}
assert set(FAMILIES) == set(get_args(Family))


def build_model(config: ModelConfig) -> Model:
    """A freshly initialised model of the config's family, in training mode."""
    return FAMILIES[config.family](config)
