"""The feed-forward nets of a block: the same small net on every token, each by itself.

ReLU (Vaswani et al. 2017, §3.3), GELU and SiLU (Hendrycks & Gimpel 2016), GLUs (Shazeer 2020).
"""

from collections.abc import Callable
from functools import partial
from typing import Literal, get_args

from jaxtyping import Float
from torch import Tensor, nn

from models.hooks import HookPoint

FeedForwardKind = Literal["relu", "gelu", "gelu_tanh", "silu", "swiglu", "geglu_tanh"]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": nn.functional.relu,
    "gelu": nn.functional.gelu,  # x * Phi(x), with the error function
    "gelu_tanh": partial(nn.functional.gelu, approximate="tanh"),  # within 4.8e-4 of the exact
    "silu": nn.functional.silu,
}

GATED = {"swiglu": "silu", "geglu_tanh": "gelu_tanh"}  # a gate with this activation, and the way up
FEEDFORWARDS = (*ACTIVATIONS, *GATED)
assert set(FEEDFORWARDS) == set(get_args(FeedForwardKind))


class FeedForward(nn.Module):
    """w_down(activation(w_up(x))): d_model -> d_ff -> d_model, narrow, wide, narrow.

    Gated, w_down(activation(w_gate(x)) * w_up(x)): a gate decides how much of each unit passes.
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
        self.hook_pre = HookPoint()  # [batch, pos, d_ff], w_up's side
        if self.gated:
            self.hook_gate = HookPoint()  # [batch, pos, d_ff], after the activation
        self.hook_post = HookPoint()  # [batch, pos, d_ff], what w_down reads

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        pre = self.hook_pre(self.w_up(x))
        if self.gated:
            post = self.hook_gate(self.activation(self.w_gate(x))) * pre
        else:
            post = self.activation(pre)
        return self.w_down(self.dropout(self.hook_post(post)))
