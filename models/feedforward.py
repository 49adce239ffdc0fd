"""Feed-forward networks: the same network applied to every token independently.

ReLU (Vaswani et al. 2017, §3.3), GELU and SiLU (Hendrycks & Gimpel 2016), GLUs (Shazeer 2020);
mixtures of experts (Shazeer et al. 2017; Jiang et al. 2024).
"""

from collections import ChainMap
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from models.hooks import HookPoint

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": nn.functional.relu,
    "gelu": nn.functional.gelu,  # x * Phi(x), with the error function
    "gelu_tanh": partial(nn.functional.gelu, approximate="tanh"),  # error at most 4.8e-4
    "gelu_quick": lambda x: x * torch.sigmoid(1.702 * x),  # CLIP's GELU, error at most 0.021
    "silu": nn.functional.silu,
}

# The activation of the gate, times w_up(x).
GATED = {"swiglu": "silu", "geglu": "gelu", "geglu_tanh": "gelu_tanh"}
FEEDFORWARDS = ChainMap[str, Any](GATED, ACTIVATIONS)  # the activations first


class FeedForward(nn.Module):
    """w_down(activation(w_up(x))): d_model -> d_ff -> d_model.

    Gated kinds compute w_down(activation(w_gate(x)) * w_up(x)).
    `kind` is one of `FEEDFORWARDS`. Raises ValueError for any other.
    """

    def __init__(
        self, d_model: int, d_ff: int, kind: str, dropout: float = 0.0, bias: bool = True
    ) -> None:
        super().__init__()
        if kind not in FEEDFORWARDS:
            raise ValueError(f"activation is {kind!r}: it must be one of {[*FEEDFORWARDS]}")
        self.activation, self.gated = ACTIVATIONS[GATED.get(kind, kind)], kind in GATED
        if self.gated:
            self.w_gate = nn.Linear(d_model, d_ff, bias=bias)
        self.w_up = nn.Linear(d_model, d_ff, bias=bias)
        self.w_down = nn.Linear(d_ff, d_model, bias=bias)
        self.dropout = nn.Dropout(dropout)
        self.hook_pre = HookPoint()  # [batch, pos, d_ff], the output of w_up
        if self.gated:
            self.hook_gate = HookPoint()  # [batch, pos, d_ff], after the activation
        self.hook_post = HookPoint()  # [batch, pos, d_ff], the input of w_down

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        pre = self.hook_pre(self.w_up(x))
        if self.gated:
            post = self.hook_gate(self.activation(self.w_gate(x))) * pre
        else:
            post = self.activation(pre)
        return self.w_down(self.dropout(self.hook_post(self.routed(post, x))))

    def routed(self, post: Tensor, x: Tensor) -> Tensor:
        """The hidden units, weighted by a router if there is one."""
        return post


class Experts(FeedForward):
    """A mixture of `n_experts` networks; the router sends each token to `n_active` of them.

    With `experts_sum`, the weights of the chosen experts sum to 1. The experts are one wide network
    whose hidden units are multiplied by their expert's weight, 0 if it is not chosen: the same sum
    as if only the chosen ones ran, at the price of computing all. With `d_shared`, one more expert
    is for every token, weighted by a gate of its own (Qwen2-MoE).
    """

    def __init__(self, config: Any) -> None:
        sizes = config.d_model, config.ffn_width
        super().__init__(*sizes, config.ffn, config.dropout, config.bias)
        self.router = nn.Linear(config.d_model, config.n_experts, bias=False)
        self.n_active, self.sums, self.d_ff = config.n_active, config.experts_sum, config.d_ff
        if config.d_shared:
            self.shared_gate = nn.Linear(config.d_model, 1, bias=False)
        # [batch, pos, expert], 0 for experts not chosen; a shared expert is the last one.
        self.hook_router = HookPoint()

    def routed(self, post: Tensor, x: Tensor) -> Tensor:
        shares = self.router(x).softmax(-1, dtype=torch.float32)
        chosen, experts = shares.topk(self.n_active, dim=-1)
        if self.sums:
            chosen = chosen / chosen.sum(-1, keepdim=True)
        weights = torch.zeros_like(shares).scatter(-1, experts, chosen).to(post.dtype)
        sizes = [self.d_ff] * weights.shape[-1]
        if hasattr(self, "shared_gate"):
            weights = torch.cat((weights, self.shared_gate(x).sigmoid()), -1)
            sizes.append(post.shape[-1] - sum(sizes))
        repeats = torch.tensor(sizes, device=post.device)
        return post * self.hook_router(weights).repeat_interleave(repeats, dim=-1)
