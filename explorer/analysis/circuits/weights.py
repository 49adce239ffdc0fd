"""The matrices of one head acting on the residual stream, with norms folded in.

Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits": a head's scores depend on
W_Q and W_K only through W_QK = W_Q' W_K, and its output depends on W_V and W_O only through W_OV =
W_O W_V. Of a norm before the sublayer, the linear part is folded in: LayerNorm's centring and the
weights. Its scale, which differs from token to token, changes no order and is left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from torch import nn

from explorer.library import LoadedModel
from models.hooks import AttentionSite
from models.norms import Norm

Matrix = Float[np.ndarray, "row column"]


@dataclass(frozen=True, eq=False)
class HeadWeights:
    """`q`, `k`, `v` [d_head, d_model] read the stream, `o` [d_model, d_head] writes to it.

    All are float64. Biases are not part of the circuits.
    """

    q: Float[np.ndarray, "d_head d_model"]
    k: Float[np.ndarray, "d_head d_model"]
    v: Float[np.ndarray, "d_head d_model"]
    o: Float[np.ndarray, "d_model d_head"]


def head_weights(loaded: LoadedModel, site: AttentionSite, head: int) -> HeadWeights:
    """One head of self-attention, with the norm before its sublayer folded into q, k and v."""
    config = loaded.config
    group, d = head // (config.n_heads // config.kv_heads), config.d_head
    own, shared = slice(head * d, (head + 1) * d), slice(group * d, (group + 1) * d)
    is_pre = config.norm_placement == "pre"
    norm = loaded.part(f"{site.block}.attn_norm") if is_pre else nn.Identity()
    q, k, v = (_folded(weight_of(loaded, f"{site.name}.w_{name}"), norm) for name in "qkv")
    return HeadWeights(
        q=q[own], k=k[shared], v=v[shared], o=weight_of(loaded, f"{site.name}.w_o")[:, own]
    )


def _folded(reading: Matrix, norm: nn.Module) -> Matrix:
    """A matrix [rows, d_model] with a norm folded in, so that it reads the stream itself; the norm
    without its scale, or no norm."""
    if not isinstance(norm, Norm):
        return reading
    folded: Matrix = reading * norm.weight.detach().double().numpy()
    return folded - folded.mean(1, keepdims=True) if norm.centres else folded


def unembedding(
    loaded: LoadedModel, tokens: Sequence[int] | None = None
) -> Float[np.ndarray, "token d_model"]:
    """The unembedding, with the final norm folded in; of some tokens only, or of the vocabulary.

    Raises ValueError for a model without logits.
    """
    if not loaded.config.lm_head:
        raise ValueError(f"{loaded.name} has no LM head")
    norm = loaded.part(loaded.stacks[-1].path("final_norm"))
    return _folded(weight_of(loaded, "unembed", tokens), norm)


def weight_of(loaded: LoadedModel, path: str, rows: Sequence[int] | None = None) -> Matrix:
    """A module's weight in float64; some of its rows only, or all."""
    weight = loaded.part(path).get_parameter("weight").detach()
    matrix: Matrix = (weight if rows is None else weight[list(rows)]).double().numpy()
    return matrix
