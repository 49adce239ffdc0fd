"""Encoder and decoder blocks: their sublayers and the placement of the norm.

post      x ──┬── f ──(+)── norm ──     norm(x + f(x))      Vaswani et al. 2017
              └───────┘
pre       x ──┬── norm ── f ──(+)──     x + f(norm(x))      Xiong et al. 2020
              └────────────────┘
sublayer  x ──┬── f ── norm ──(+)──     x + norm(f(x))      often mislabelled "post"
              └────────────────┘
"""

from functools import partial
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from models.attention import Attention
from models.cache import LayerCache
from models.config import ModelConfig
from models.feedforward import Experts, FeedForward
from models.hooks import HookPoint
from models.norms import NORMS
from models.positions import NOWHERE, Placement


class Block(nn.Module):
    """Self-attention, then feed-forward: used by encoders and by single-sequence models.

    A `DecoderBlock` has cross-attention between the two.
    """

    crosses: ClassVar[bool] = False

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        d, dropout = config.d_model, config.dropout
        norm = partial(NORMS[config.norm], d, config.norm_eps)
        self.norm_placement, self.parallel = config.norm_placement, config.parallel
        self.dropout = nn.Dropout(dropout)
        self.attn, self.attn_norm = Attention(config), norm()
        if self.crosses:
            self.cross_attn, self.cross_attn_norm = Attention(config), norm()
        self.ffn = FeedForward(d, config.d_ff, config.ffn, dropout, config.bias)
        if config.n_experts > 1:
            self.ffn = Experts(config)
        self.ffn_norm = norm()
        outer = norm if config.out_norms else nn.Identity
        self.attn_out_norm, self.ffn_out_norm = outer(), outer()
        self.hook_resid_pre = HookPoint()  # [batch, pos, d_model], as are all below
        self.hook_attn_out = HookPoint()
        self.hook_resid_mid = HookPoint()
        if self.crosses:
            self.hook_cross_attn_out = HookPoint()
            self.hook_resid_mid_cross = HookPoint()
        self.hook_ffn_out = HookPoint()
        self.hook_resid_post = HookPoint()

    def forward(
        self,
        x: Float[Tensor, "batch pos d_model"],
        memory: Float[Tensor, "batch src d_model"] | None = None,
        mask: Tensor | None = None,
        cross_mask: Tensor | None = None,
        placement: Placement = NOWHERE,
        cache: LayerCache | None = None,
        cross_cache: LayerCache | None = None,
    ) -> Float[Tensor, "batch pos d_model"]:
        """Apply the block to the residual stream `x`; cross-attention reads `memory`.

        `memory` is the encoder's output. Raises ValueError if a block with cross-attention gets
        none, or a block without cross-attention gets one.
        """
        if self.crosses != (memory is not None):
            raise ValueError("a decoder block needs an encoder's output, and no other block does")
        x = self.hook_resid_pre(x)
        start, norm = x, self.attn_norm
        out = self.attn(self.read(x, norm), mask=mask, placement=placement, cache=cache)
        out = self.attn_out_norm(out)
        x = self.add(x, out, norm, self.hook_attn_out, self.hook_resid_mid)
        if self.crosses:
            # No placement: source and target positions are not comparable.
            norm, reading = self.cross_attn_norm, self.read(x, self.cross_attn_norm)
            out = self.cross_attn(reading, memory=memory, mask=cross_mask, cache=cross_cache)
            x = self.add(x, out, norm, self.hook_cross_attn_out, self.hook_resid_mid_cross)
        if self.parallel:
            out = self.dropout(self.ffn(self.ffn_norm(start)))
            return self.hook_resid_post(x + self.hook_ffn_out(out))
        out = self.ffn_out_norm(self.ffn(self.read(x, self.ffn_norm)))
        return self.add(x, out, self.ffn_norm, self.hook_ffn_out, self.hook_resid_post)

    def read(self, x: Tensor, norm: nn.Module) -> Tensor:
        """What a sublayer reads of the residual stream x [batch, pos, d_model]."""
        reading: Tensor = norm(x) if self.norm_placement == "pre" else x
        return reading

    def add(
        self, x: Tensor, out: Tensor, norm: nn.Module, hook_out: HookPoint, hook_resid: HookPoint
    ) -> Tensor:
        """Add the output of a sublayer to the residual stream x, both [batch, pos, d_model].

        `hook_out` receives the tensor added to the stream, `hook_resid` the next sublayer's input.
        """
        if self.norm_placement == "sublayer":
            out = norm(out)
        x = x + hook_out(self.dropout(out))
        return hook_resid(norm(x) if self.norm_placement == "post" else x)


class DecoderBlock(Block):
    """Masked self-attention, cross-attention over the encoder's output, feed-forward."""

    crosses = True
