"""Encoder and decoder blocks: their sublayers and the placement of the norm.

post      x ──┬── f ──(+)── norm ──     norm(x + f(x))      Vaswani et al. 2017
              └───────┘
pre       x ──┬── norm ── f ──(+)──     x + f(norm(x))      Xiong et al. 2020
              └────────────────┘
sublayer  x ──┬── f ── norm ──(+)──     x + norm(f(x))      often mislabelled "post"
              └────────────────┘
"""

from collections.abc import Callable
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
        attn = partial(self.attn, mask=mask, placement=placement, cache=cache)
        hooks, start = (self.hook_attn_out, self.hook_resid_mid), x
        x = self.residual(x, lambda h: self.attn_out_norm(attn(h)), self.attn_norm, *hooks)
        if self.crosses:
            # No placement: source and target positions are not comparable.
            cross = partial(self.cross_attn, memory=memory, mask=cross_mask, cache=cross_cache)
            hooks = self.hook_cross_attn_out, self.hook_resid_mid_cross
            x = self.residual(x, cross, self.cross_attn_norm, *hooks)
        if self.parallel:
            out = self.dropout(self.ffn(self.ffn_norm(start)))
            return self.hook_resid_post(x + self.hook_ffn_out(out))
        hooks = self.hook_ffn_out, self.hook_resid_post
        return self.residual(x, lambda h: self.ffn_out_norm(self.ffn(h)), self.ffn_norm, *hooks)

    def residual(
        self,
        x: Tensor,
        sublayer: Callable[[Tensor], Tensor],
        norm: nn.Module,
        hook_out: HookPoint,
        hook_resid: HookPoint,
    ) -> Tensor:
        """Add one sublayer to the residual stream x [batch, pos, d_model].

        `hook_out` receives the tensor added to the stream, `hook_resid` the next sublayer's input.
        """
        if self.norm_placement == "post":
            x = norm(x + hook_out(self.dropout(sublayer(x))))
        elif self.norm_placement == "pre":
            x = x + hook_out(self.dropout(sublayer(norm(x))))
        else:
            x = x + hook_out(self.dropout(norm(sublayer(x))))
        return hook_resid(x)


class DecoderBlock(Block):
    """Masked self-attention, cross-attention over the encoder's output, feed-forward."""

    crosses = True
