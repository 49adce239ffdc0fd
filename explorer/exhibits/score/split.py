"""A score of the first layer as a sum over the words and positions of its query and key.

In the first layer the stream is a sum, word + position, and a score is a product of two sums: it
splits into word-word, word-position, position-word and position-position terms. In later layers the
two cannot be separated. The four parts are those of Dai et al. 2019 (Transformer-XL), §3.3.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from explorer.analysis.score.steps import module_of, norm_of
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.score import place
from explorer.figures.score import signed as bars
from explorer.library import LoadedModel
from explorer.numbers import fixed, signed
from explorer.runs.trace import Trace
from models.hooks import AttentionSite
from models.norms import Norm

Split = dict[str, Float[np.ndarray, "query key"]]
PARTS = ("word_word", "word_position", "position_word", "position_position", "constant")
"""The first part of a name refers to the query: `word_position` is the query's word with the key's
position. `constant` collects every term that contains a bias."""


def can_split(trace: Trace, site: AttentionSite) -> bool:
    """Whether this site's scores are a product of two sums of words and positions.

    True for first-layer self-attention in a model that adds its positions to the embeddings.
    """
    config = trace.config
    plain = not config.embed_norm and not config.qk_norm and config.score_cap is None
    first = site.kind == "self" and site.layer == 0
    return plain and first and _added(trace, site) in trace.activations


def _added(trace: Trace, site: AttentionSite) -> str:
    """The hook point of the positions that are added to the input of a site's queries."""
    return trace.stack(site.query_stream).hook("pos_embed")


def split(loaded: LoadedModel, trace: Trace, site: AttentionSite, head: int) -> Split | None:
    """The scaled scores of a head as a sum of PARTS; None where they cannot be separated.

    A norm before the sublayer is applied with the statistics of the sum, so that it acts on each
    part in the same way and the parts still add up.
    """
    if not can_split(trace, site):
        return None
    embedded = trace.stack(site.query_stream).hook("embed")
    word = torch.tensor(trace.activations[embedded]).double()
    position = torch.tensor(trace.activations[_added(trace, site)]).double()
    position = position.expand(word.shape)
    constant = torch.zeros_like(word)
    if trace.config.norm_placement == "pre":
        norm = norm_of(loaded, site)
        assert isinstance(norm, Norm)
        word, position, constant = _normed(norm, word, position)
    module = module_of(loaded, site)
    queries, keys = (
        _projected(linear, at * module.d_head, module.d_head, (word, position, constant))
        for linear, at in (
            (module.w_q, head),
            (module.w_k, head * module.n_kv_heads // site.n_heads),
        )
    )
    products = [
        [(q @ k.T / trace.config.divisor).numpy() for k in keys] for q in queries
    ]  # [word, position, constant] of the query by those of the key
    rest = products[2][0] + products[2][1] + products[2][2] + products[0][2] + products[1][2]
    return dict(zip(PARTS, (*products[0][:2], *products[1][:2], rest), strict=True))


def _projected(
    linear: nn.Linear, first: int, d_head: int, inputs: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """The inputs times the rows of a head; the last one also gets the bias."""
    weight = linear.weight.detach().double()[first : first + d_head]
    *parts, last = (part @ weight.T for part in inputs)
    bias = 0 if linear.bias is None else linear.bias.detach().double()[first : first + d_head]
    return *parts, last + bias


def _normed(norm: Norm, word: Tensor, position: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Word, position and bias after a norm that uses the statistics of their sum."""
    factor = norm.weight.detach().double() / norm.scale(norm.centred(word + position))
    zero = torch.zeros_like(word)
    constant = zero if norm.bias is None else zero + norm.bias.detach().double()
    return factor * norm.centred(word), factor * norm.centred(position), constant


def show(parts: Split | None, view: View) -> b.Blocks:
    """The five parts of this cell, and four of them for all cells."""
    if parts is None:
        yield b.Hint(view.t("score.split_not"))
        first = next((site for site in view.trace.sites if can_split(view.trace, site)), None)
        if first is not None:
            there = b.choose(site=first.role, layer=0, head=0, row=None, key=None)
            yield b.Button("score.split_go", view.t("score.split_go"), there)
        return
    yield b.Prose(view.t("score.split_lead"))
    title = view.t("score.score")
    query, key = view.row, place.key_of(view)
    here = np.array([part[query, key] for part in parts.values()])
    names = {name: view.t("score.parts", name) for name in parts}
    draw = partial(bars, [*names.values()], here, title=title, words=view.words("figures.score"))
    yield b.Chart("score.split", draw, view.t("score.asides.split"))
    terms = " ".join(signed(float(value), 2) for value in here)
    own = view.trace.activations[view.site.hook("scores")][view.head, query, key]
    reading = view.t("score.split_reading", terms=terms, score=fixed(float(own)))
    yield b.Sentence("aside", reading)
    limit = max(float(np.abs(part).max()) for part in parts.values())
    shown = [(names[name], parts[name]) for name in PARTS[:4]]
    yield place.matrices(view, "parts", shown, limit)
    yield b.Code((split,), first=True)


EXHIBIT = Exhibit(split, show, open=partial(place.is_open, "split"))
