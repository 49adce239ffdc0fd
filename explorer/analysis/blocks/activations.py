"""Activation functions as curves, and the hidden units of a feed-forward network for a sentence."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from explorer.library import LoadedModel
from explorer.runs.rerun import rerun
from explorer.runs.trace import Trace
from models.feedforward import ACTIVATIONS

What = Literal["value", "slope", "difference"]
EXACT = "gelu"
"""The reference for differences."""


def curves(x: Float[np.ndarray, " x"], what: What = "value") -> dict[str, Float[np.ndarray, " x"]]:
    """Each activation of the library at `x`, float64: its value, slope, or value minus GELU."""
    found = {}
    for name, function in ACTIVATIONS.items():
        leaf = torch.from_numpy(np.asarray(x, np.float64)).requires_grad_()
        with torch.enable_grad():
            y = function(leaf)
            (slope,) = torch.autograd.grad(y.sum(), leaf)
        found[name] = (slope if what == "slope" else y.detach()).numpy()
    if what == "difference":
        return {name: y - found[EXACT] for name, y in found.items() if name != EXACT}
    return found


@dataclass(frozen=True, eq=False)
class Hidden:
    """The hidden units of one block for one sentence, each [pos, d_ff].

    `pre` is the input of the activation; for SwiGLU it is the output of w_up, and `gate` is
    silu(w_gate x). `post` is the input of w_down: activation(pre), or the product of both. `biased`
    names the matrices whose bias is not all zeros: a model with biases in attention only is loaded
    with zero biases elsewhere.
    """

    pre: Float[np.ndarray, "pos d_ff"]
    post: Float[np.ndarray, "pos d_ff"]
    gate: Float[np.ndarray, "pos d_ff"] | None = None
    biased: frozenset[str] = frozenset()

    def strongest(self, n: int) -> np.ndarray:
        """The `n` units with the largest |post| on any token, in index order."""
        reach = np.abs(self.post).max(0)
        return np.sort(np.argsort(-reach, kind="stable")[:n])

    @property
    def silent(self) -> float:
        """The share of (token, unit) pairs that add nothing: |post| below 1e-6."""
        return float((np.abs(self.post) < 1e-6).mean())

    @property
    def shut(self) -> float:
        """The share of (token, unit) pairs whose gate is nearly shut: |gate| below 0.05."""
        return 0.0 if self.gate is None else float((np.abs(self.gate) < 0.05).mean())


def hidden(
    loaded: LoadedModel, traced: Trace, stack: Literal["encoder", "decoder"], layer: int
) -> Hidden:
    """Rerun a Trace's rows and record one block's hidden units.

    `stack` is "encoder" or "decoder". Raises KeyError for a missing block, ValueError for another
    model's Trace.
    """
    of_role = {site.role: site for site in loaded.model.stacks()}
    hooks = {
        what: of_role[stack].block_hook(layer, what, "ffn") for what in ("pre", "post", "gate")
    }
    seen = rerun(loaded, traced, set(hooks.values()))
    gate = seen.get(hooks["gate"])
    pre, post = (seen[hooks[what]][0].numpy() for what in ("pre", "post"))
    net = loaded.model.get_submodule(of_role[stack].path("blocks", layer, "ffn"))
    matrices = {name: each for name, each in net.named_children() if isinstance(each, nn.Linear)}
    return Hidden(
        pre=pre,
        post=post,
        gate=None if gate is None else gate[0].numpy(),
        biased=frozenset(
            name
            for name, matrix in matrices.items()
            if isinstance(matrix.bias, Tensor) and matrix.bias.any()
        ),
    )
