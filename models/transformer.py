"""Three families: `EncoderDecoder` (translation), `DecoderOnly` (continuation) and `EncoderOnly`
(bidirectional, filling in masked words).

Models hold weights only: masks, caches and positions are arguments or are derived from `valid`
(None = all tokens are real). `Model` is the common interface, so no caller depends on the family.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, get_args

from jaxtyping import Float
from torch import Tensor, nn

from models.attention import capped
from models.blocks import Block, DecoderBlock
from models.cache import KVCache
from models.config import Family, ModelConfig
from models.feedforward import ACTIVATIONS, GATED
from models.hooks import AttentionSite, HookPoint, StackSite, name_hook_points
from models.marks import OUR_MARKS, Marks
from models.masks import causal_mask, padding_mask, window_mask
from models.norms import NORMS
from models.pictures.patches import Patches
from models.positions import NOWHERE, At, Placement, positions_of
from models.rows import Rows, Stream, Tokens, Valid


class Stack(nn.Module):
    """The embedding and the blocks of an encoder or a decoder."""

    announce: ClassVar[Callable[..., None]] = staticmethod(lambda: None)
    """Called when a pass begins; set from outside to yield to other sessions first."""
    marks: Marks  # of a stack that is the whole model

    def __init__(
        self,
        config: ModelConfig,
        block: type[Block],
        n_layers: int,
        embed: nn.Embedding | Patches,
        causal: bool,
        stream: Stream = "tgt",
    ) -> None:
        super().__init__()
        self.causal, self.stream, self.embed = causal, stream, embed
        self.embed_scale = math.sqrt(config.width) if config.scale_embeddings else 1.0
        self.positions = config.position_type(config, causal)
        self.near_layers, self.window = config.near_layers or (), config.window
        self.still_layers = config.still_layers or ()
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(block(config) for _ in range(n_layers))
        if not config.first_norm:
            self.blocks[0].attn_norm = nn.Identity()
        norm = partial(NORMS[config.norm], eps=config.norm_eps)
        self.embed_norm = norm(config.width) if config.embed_norm else nn.Identity()
        widened = config.d_embed is not None
        self.embed_map = nn.Linear(config.width, config.d_model) if widened else nn.Identity()
        self.final_norm = norm(config.d_model) if config.final_norm else nn.Identity()
        self.hook_positions = HookPoint()  # Int [batch, pos], including cached positions
        self.hook_embed = HookPoint()  # [batch, pos, width], scaled
        self.hook_pos_embed = HookPoint()  # [batch, pos, width], if positions are added
        self.hook_resid_final = HookPoint()  # [batch, pos, d_model], before the final norm

    def run(
        self, rows: Rows, memory: Tensor | None = None, cache: KVCache | None = None
    ) -> Float[Tensor, "batch new d_model"]:
        """Embed the tokens and apply every block and the final norm, if there is one.

        Cross-attention reads `memory`, [batch, src, d_model]. With a `cache`, the tokens follow the
        cached ones, and `valid` must cover both. Raises ValueError if the shape of `valid` does not
        fit, or if a stack without a causal mask gets a cache.
        """
        x, inputs = self.enter(rows, memory, cache)
        for layer, block in enumerate(self.blocks):
            x = block(x, *inputs(layer))
        return self.final_norm(self.hook_resid_final(x))

    def enter(
        self, rows: Rows, memory: Tensor | None = None, cache: KVCache | None = None
    ) -> tuple[Float[Tensor, "batch new d_model"], Callable[[int], tuple[Any, ...]]]:
        """The embedded tokens, and a function of a layer that returns the other inputs of its
        block.

        A single block can thus be rerun from its input. Arguments and errors are those of `run`.
        """
        self.announce()
        if cache is not None and not self.causal:
            raise ValueError("an encoder has no cache: every token also attends to later ones")
        tokens = rows.tokens(self.stream)
        valid = rows.src_valid if self.stream == "src" else rows.tgt_valid
        past, n_new = cache.length if cache else 0, tokens.shape[1]
        mask = _padding(valid, n_new, past)
        if self.causal and n_new > 1:  # a single token is the last and sees all earlier ones
            causal = causal_mask(n_new, past + n_new, offset=past, device=tokens.device)
            mask = causal if mask is None else causal & mask
        near_mask = mask
        if self.window is not None and self.window < past + n_new:
            near_mask = window_mask(n_new, past + n_new, past, self.window, tokens.device)
            near_mask = near_mask if mask is None else near_mask & mask
        cross_mask = None if memory is None else _padding(rows.src_valid, memory.shape[1])
        x, placement = self.embed_tokens(tokens, valid, past)

        def inputs(layer: int) -> tuple[Any, ...]:
            near = layer in self.near_layers
            here = placement.near if near and placement.near else placement
            here = NOWHERE if layer in self.still_layers else here
            held = (cache.self_attn[layer], cache.cross_attn[layer]) if cache else (None, None)
            return memory, near_mask if near else mask, cross_mask, here, *held

        return x, inputs

    def embed_tokens(
        self, tokens: Tokens, valid: Tensor | None, past: int = 0
    ) -> tuple[Float[Tensor, "batch pos d_model"], Placement]:
        """Embeddings plus positional encodings, and the placement for the blocks' attention.

        `past` is the number of cached tokens before these.
        """
        positions = self.hook_positions(self.places(valid, tokens, past))  # [batch, past + pos]
        new = positions[:, past:]
        x = self.hook_embed(self.embed(tokens) * self.embed_scale)
        if (added := self.added(tokens, new)) is not None:
            x = x + self.hook_pos_embed(added.to(x.dtype))
        x = self.dropout(self.embed_map(self.embed_norm(x)))
        return x, self.positions.place(new, positions)

    def places(self, valid: Tensor | None, tokens: Tokens, past: int = 0) -> At:
        """The positions of the cached and the new tokens, as `positions_of`."""
        return positions_of(valid, tokens, past, self.positions.config.unplaced or ())

    def added(self, tokens: Tokens, positions: At) -> Float[Tensor, "batch pos width"] | None:
        """What is added to the embeddings: positions, and the type of the second text's tokens,
        which begins after the first end token. None if positions are not added."""
        added = self.positions.added(positions)
        types = getattr(self.positions, "types", None)
        if types is not None and self.marks.end is not None:
            ended = tokens.eq(self.marks.end).long()
            added = added + types[(ended.cumsum(1) - ended).clamp(max=len(types) - 1)]
        return added


def _padding(valid: Tensor | None, n_new: int, past: int = 0) -> Tensor | None:
    """Bool [batch, 1, 1, past + new]; None without padding. Raises ValueError on a wrong length."""
    if valid is None:
        return None
    if valid.shape[1] != past + n_new:
        cached = f"{past} cached and {n_new} new tokens need {past + n_new}"
        text = cached if past else f"the text has {n_new}"
        raise ValueError(f"valid covers {valid.shape[1]} positions; {text}")
    return padding_mask(valid)


class Model(nn.Module, ABC):
    """The interface of every family.

    `marks` holds the special tokens of the model's tokenizer; a new model has this project's.
    """

    config: ModelConfig
    marks: Marks
    unembed: nn.Linear
    hook_logits: HookPoint
    reads: ClassVar[tuple[Stream, ...]]  # the sequences of its rows, in this order
    # Tokens before and after a sequence, if they differ from the special tokens below.
    framed: Mapping[Stream, tuple[tuple[int, ...], tuple[int, ...]]] = MappingProxyType({})
    surrounded: ClassVar[dict[Stream, tuple[bool, bool]]]  # start token before, end token after?

    def tie(self) -> None:
        """Share the weights that the config shares; needed again after they were replaced."""
        if self.config.lm_head and self.config.tie_embeddings:
            self.unembed.weight = self.last_stack.embed.weight
        stacks = [module.blocks for module in self.modules() if isinstance(module, Stack)]
        for blocks in stacks if self.config.shared_layers else ():
            for name, weight in blocks[0].named_parameters():
                path, _, leaf = name.rpartition(".")
                for block in blocks[1:]:
                    setattr(block.get_submodule(path), leaf, weight)

    def complete(self, config: ModelConfig) -> None:
        """Add the LM head, initialise all weights and name the hook points.

        Xavier for every matrix, zero biases, embeddings N(0, 1 / width). w_q, w_k and w_v are
        separate matrices, so Xavier gives each the intended standard deviation; for a fused w_qkv
        it would be smaller by sqrt(2). Embeddings times sqrt(width) have unit standard deviation,
        close to 0.71 of the sinusoids; learned positions start with the standard deviation of the
        embeddings, scaled or not. Glorot & Bengio 2010; Vaswani et al. §3.4.
        """
        self.config, self.marks = config, OUR_MARKS
        if config.lm_head:
            self.unembed = nn.Linear(config.width, config.vocab_size, bias=config.unembed_bias)
            self.head = HeadNet(config) if config.head_net else nn.Identity()
        self.tie()
        self.hook_logits = HookPoint()  # [batch, tgt, vocab]
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        for module in self.modules():  # last, so that it also applies to tied matrices
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
            if isinstance(module, Stack):
                module.positions.initialise(module.embed_scale * config.width**-0.5)
        name_hook_points(self)

    def read(
        self, rows: Rows, memory: Tensor | None = None, cache: KVCache | None = None
    ) -> Float[Tensor, "batch tgt vocab"]:
        """The logits of every position of `rows.tgt`.

        `memory` is the result of `memory_of(rows)`, if already computed. With a `cache`, `rows.tgt`
        holds the new tokens only, and `rows.tgt_valid` also covers the cached ones. Raises
        ValueError for a missing sequence, a `valid` of the wrong shape, or a cache for an encoder.
        """
        memory = self.memory_of(rows) if memory is None else memory
        return self.logits_of(self.last_stack.run(rows, memory, cache))

    def logits_of(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos vocab"]:
        """The logits from the last stack's output, after its final norm."""
        logits = self.unembed(self.head(x)) if self.config.lm_head else x[..., :0]
        return self.hook_logits(capped(logits, self.config.logit_cap))

    @property
    @abstractmethod
    def last_stack(self) -> Stack:
        """The stack that reads `rows.tgt`; the logits come from its output."""

    def begin(self, tokens: Tokens, valid: Valid | None = None) -> Rows:
        """The initial rows of a decoding, given tokens that include their special tokens.

        The given tokens are the first of the sequences that the family `reads`.
        """
        return Rows(tokens, valid)

    def whole(self, given: Sequence[int], output: Sequence[int]) -> tuple[int, ...]:
        """The final text of a decoding: the given tokens followed by the output."""
        return (*given, *output)

    def memory_of(self, rows: Rows) -> Float[Tensor, "batch src d_model"] | None:
        """The encoder's output, computed once for all decoding steps; None without a source."""
        return None

    def stacks(self) -> tuple[StackSite, ...]:
        """The stacks of blocks, one per sequence; each may attend to earlier stacks' sequences."""
        parts = (("", self), *self.named_children())
        stacks = [(name, module) for name, module in parts if isinstance(module, Stack)]
        return tuple(
            StackSite(name, role, stack.stream, len(stack.blocks), self.reads[:i])
            for i, (name, stack) in enumerate(stacks)
            for role in ("decoder" if stack.causal else "encoder",)
        )

    def attention_sites(self) -> tuple[AttentionSite, ...]:
        """Every attention sublayer, stack by stack, self-attention before cross-attention."""
        return tuple(
            AttentionSite(
                name=stack.path("blocks", layer, "attn" if own else "cross_attn"),
                block=stack.path("blocks", layer),
                stack=stack.role,
                layer=layer,
                kind="self" if own else "cross",
                query_stream=stack.stream,
                key_stream=keys,
                n_heads=self.config.n_heads,
                window=self.config.window if own and self.config.looks_near(layer) else None,
            )
            for stack in self.stacks()
            for keys in (stack.stream, *stack.reads_too)
            for own in (keys == stack.stream,)
            for layer in range(stack.n_layers)
        )

    def with_marks(self, stream: Stream, tokens: Sequence[int]) -> tuple[int, ...]:
        """The tokens of a text with the special tokens that this model expects around them."""
        if stream in self.framed:
            first, last = self.framed[stream]
            return (*first, *tokens, *last)
        marks, (before, behind) = self.marks.of(stream), self.surrounded[stream]
        start = [marks.start] if before and marks.start is not None else []
        end = [marks.end] if behind and marks.end is not None else []
        return (*start, *tokens, *end)


class HeadNet(nn.Module):
    """BERT's layer before the unembedding: a linear map, the FFN's activation and a norm."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.linear = nn.Linear(config.d_model, config.width)
        self.activation = ACTIVATIONS[GATED.get(config.ffn, config.ffn)]
        self.norm = NORMS[config.norm](config.width, config.norm_eps)

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos width"]:
        return self.norm(self.activation(self.linear(x)))


class EncoderDecoder(Model):
    """Vaswani et al. 2017, §3.1: encode once; every decoder block reads the same `memory`."""

    reads = ("src", "tgt")
    surrounded: ClassVar = {"src": (False, True), "tgt": (True, False)}

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        embed = nn.Embedding(config.n_tokens("src"), config.width)
        shares = config.tie_embeddings and not config.src_vocab_size
        tgt_embed = embed if shares else nn.Embedding(config.vocab_size, config.width)
        src_embed = Patches(config.picture, config.width) if config.picture else embed
        self.encoder = Stack(config, Block, config.encoder_layers, src_embed, False, "src")
        self.decoder = Stack(config, DecoderBlock, config.n_layers, tgt_embed, causal=True)
        if config.picture:
            self.framed = {"src": ((), ())}  # no special patches
        self.complete(config)

    @property
    def last_stack(self) -> Stack:
        return self.decoder

    def memory_of(self, rows: Rows) -> Float[Tensor, "batch src d_model"]:
        return self.encoder.run(rows)

    def begin(self, tokens: Tokens, valid: Valid | None = None) -> Rows:
        """Rows with this source; the target begins with the start token. Raises ValueError if the
        tokenizer has no start token."""
        if not (first := self.with_marks("tgt", ())):
            raise ValueError("a translation must begin with a start token, and this model has none")
        return Rows(tokens.new_tensor(first).expand(len(tokens), -1), None, tokens, valid)

    def whole(self, given: Sequence[int], output: Sequence[int]) -> tuple[int, ...]:
        return tuple(output)


class OneStack(Stack, Model):
    """Base of single-sequence models: the model itself is its only stack."""

    reads = ("tgt",)

    def __init__(self, config: ModelConfig) -> None:
        embed: nn.Embedding | Patches = nn.Embedding(config.vocab_size, config.width)
        if config.picture:
            embed = Patches(config.picture, config.width, config.n_marks or 0)
        super().__init__(config, Block, config.n_layers, embed, config.is_causal)
        self.complete(config)

    @property
    def last_stack(self) -> Stack:
        return self


class DecoderOnly(OneStack):
    """A language model: one sequence, causal self-attention. Radford et al. 2018 (GPT)."""

    surrounded: ClassVar = {"tgt": (True, False)}

    def begin(self, tokens: Tokens, valid: Valid | None = None) -> Rows:
        """Rows with this prompt, padded on the left, so that all outputs begin in one column."""
        if valid is None or bool(valid.all()):
            return Rows(tokens)
        order = valid.long().argsort(dim=1, stable=True)  # padding first, words in order
        return Rows(tokens.gather(1, order), valid.gather(1, order))


class EncoderOnly(OneStack):
    """An encoder without a decoder: bidirectional attention. Devlin et al. 2018 (BERT).

    Its logits (empty without `lm_head`) predict the token at the same position; they are trained
    at masked positions.
    """

    surrounded: ClassVar = {"tgt": (True, True)}

    def whole(self, given: Sequence[int], output: Sequence[int]) -> tuple[int, ...]:
        """The given text with its mask tokens replaced by the output, in order."""
        filling = iter(output)
        return tuple(next(filling, token) if token == self.marks.mask else token for token in given)


FAMILIES: dict[Family, type[Model]] = {
    "encoder-decoder": EncoderDecoder,
    "decoder-only": DecoderOnly,
    "encoder-only": EncoderOnly,
}
assert set(FAMILIES) == set(get_args(Family))


def build_model(config: ModelConfig) -> Model:
    """A freshly initialised model of the config's family, in training mode."""
    return FAMILIES[config.family](config)
