"""Where a score comes from: words and positions in the first layer, and the effect of projections.

In the first layer the stream is a sum, word + position, and a score is a product of two sums: it
splits into word-word, word-position, position-word and position-position terms. In later layers the
two cannot be separated. The four parts are those of Dai et al. 2019 (Transformer-XL), §3.3.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from explorer.analysis.cell.steps import bias_of, stream_before
from explorer.library import LoadedModel
from explorer.runs.trace import Trace
from models.attention import Attention
from models.hooks import AttentionSite, StackSite
from models.norms import LayerNorm
from models.rows import Stream

Parts = Float[np.ndarray, "query key"]
PARTS = ("word_word", "word_position", "position_word", "position_position", "constant")


def module_of(loaded: LoadedModel, site: AttentionSite) -> Attention:
    """The attention sublayer at a site. Raises TypeError if the module is of another type."""
    module = loaded.part(site.name)
    if not isinstance(module, Attention):
        raise TypeError(f"{site.name} is {type(module).__name__}, not Attention")
    return module


def site_inputs(
    loaded: LoadedModel, traced: Trace, site: AttentionSite
) -> tuple[Float[Tensor, "query d_model"], Float[Tensor, "key d_model"]]:
    """The input of a site's W_Q, and the input of its W_K and W_V, from the Trace.

    In self-attention the two are one tensor. A norm before the sublayer is applied.
    """
    x = torch.tensor(stream_before(traced, site))
    with torch.inference_mode():
        if traced.config.norm_placement == "pre":
            x = _norm_of(loaded, site)(x)
        if site.kind == "self":
            return x, x
        source = _stack(traced, site.key_stream)
        memory = torch.tensor(traced.activations[source.hook("resid_final")])
        finish: Any = loaded.part(source.path("final_norm"))
        return x, finish(memory)


def _norm_of(loaded: LoadedModel, site: AttentionSite) -> nn.Module:
    name = "cross_attn_norm" if site.kind == "cross" else "attn_norm"
    return loaded.part(f"{site.block}.{name}")


@dataclass(frozen=True, eq=False)
class Split:
    """The scaled scores of a head as a sum, each part [query, key].

    The first name refers to the query: `word_position` is the query's word with the key's position.
    `constant` collects every term that contains a bias. `difference` is the largest deviation of
    the sum from the model's own scores.
    """

    word_word: Parts = field(repr=False)
    word_position: Parts = field(repr=False)
    position_word: Parts = field(repr=False)
    position_position: Parts = field(repr=False)
    constant: Parts = field(repr=False)
    difference: float

    @property
    def parts(self) -> dict[str, Parts]:
        """The five parts by name; they add up to the scores."""
        return {name: getattr(self, name) for name in PARTS}


def can_split(traced: Trace, site: AttentionSite) -> bool:
    """Whether this site's scores are a product of two sums of words and positions.

    True for first-layer self-attention in a model that adds its positions to the embeddings.
    """
    config = traced.config
    plain = not config.embed_norm and not config.qk_norm and config.score_cap is None
    return (
        plain
        and site.kind == "self"
        and site.layer == 0
        and _added(traced, site) in traced.activations
    )


def _added(traced: Trace, site: AttentionSite) -> str:
    """The hook point of the positions that are added to the input of a site's queries."""
    return _stack(traced, site.query_stream).hook("pos_embed")


def _stack(traced: Trace, stream: Stream) -> StackSite:
    return next(each for each in traced.stacks if each.stream == stream)


def split(loaded: LoadedModel, traced: Trace, site: AttentionSite, head: int) -> Split:
    """Split the scores of a first-layer head by origin. Raises ValueError for other heads.

    A norm before the sublayer is applied with the statistics of the sum, so that it acts on each
    part in the same way and the parts still add up.
    """
    if not can_split(traced, site):
        raise ValueError(f"{site.name}: its input is not a plain sum of words and positions")
    embedded = _stack(traced, site.query_stream).hook("embed")
    word = torch.tensor(traced.activations[embedded]).double()
    position = torch.tensor(traced.activations[_added(traced, site)]).double()
    position = position.expand(word.shape)
    constant = torch.zeros_like(word)
    if traced.config.norm_placement == "pre":
        word, position, constant = _normed(_norm_of(loaded, site), word, position)
    module = module_of(loaded, site)
    queries: list[Tensor] = []
    keys: list[Tensor] = []
    for side, linear, n_heads in (
        (queries, module.w_q, module.n_heads),
        (keys, module.w_k, module.n_kv_heads),
    ):
        first = head * n_heads // module.n_heads * module.d_head
        which = slice(first, first + module.d_head)
        weight = linear.weight.detach().double()[which]
        side.extend(part @ weight.T for part in (word, position, constant))
        if linear.bias is not None:
            side[-1] = side[-1] + linear.bias.detach().double()[which]
    products = [
        [(q @ k.T / traced.config.divisor).numpy() for k in keys] for q in queries
    ]  # [word, position, constant] of the query by those of the key
    rest = products[2][0] + products[2][1] + products[2][2] + products[0][2] + products[1][2]
    parts = dict(zip(PARTS, (*products[0][:2], *products[1][:2], rest), strict=True))
    own = traced.activations[site.hook("scores")][head]
    return Split(**parts, difference=float(np.abs(sum(parts.values()) - own).max()))


def _normed(norm: nn.Module, word: Tensor, position: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Word, position and bias after a norm that uses the statistics of their sum."""
    whole = word + position
    weight = norm.get_parameter("weight").detach().double()
    constant = torch.zeros_like(word)
    eps = float(getattr(norm, "eps", 0.0))
    if isinstance(norm, LayerNorm):
        std = torch.sqrt(whole.var(-1, keepdim=True, correction=0) + eps)
        word = word - word.mean(-1, keepdim=True)
        position = position - position.mean(-1, keepdim=True)
        constant = constant + norm.bias.detach().double()
    else:
        std = torch.sqrt(whole.pow(2).mean(-1, keepdim=True) + eps)
    return weight * word / std, weight * position / std, constant


@dataclass(frozen=True, eq=False)
class Raw:
    """X X^T / sqrt(d_model) compared with a head's scores, both [query, key].

    `asymmetry` of each is max |s_ij - s_ji|, None in cross-attention, where queries and keys are
    different tokens. Without projections a token would mostly attend to itself, and i would attend
    to j exactly as j attends to i.
    """

    unprojected: Parts = field(repr=False)
    projected: Parts = field(repr=False)
    asymmetry: tuple[float, float] | None


def raw(loaded: LoadedModel, traced: Trace, site: AttentionSite, head: int) -> Raw:
    """What the scores would be without W_Q and W_K. Raises IndexError."""
    x, memory = site_inputs(loaded, traced, site)
    unprojected = (x @ memory.T / math.sqrt(x.shape[-1])).numpy()
    projected, biases = traced.activations[site.hook("scores")][head], bias_of(traced, site)
    if biases is not None:  # positional biases come from no projection
        projected = projected - biases[head]
    both = None
    if site.kind == "self":
        both = (_asymmetry(unprojected), _asymmetry(projected))
    return Raw(unprojected, projected, both)


def _asymmetry(matrix: Parts) -> float:
    return float(np.abs(matrix - matrix.T).max())
