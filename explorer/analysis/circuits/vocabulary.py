"""QK and OV circuits of one head over the vocabulary: which token attends to which, and what the
head writes when it attends to a token.

Every token is represented by its embedding, after the norm that precedes the head, without a
position and without the output of earlier layers. This is exact for a head of the first layer if
positions act in attention, and only the direct path for later ones. Both maps are vocabulary x
vocabulary; they are computed in chunks of rows, and only the largest cells are stored.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from explorer.analysis.circuits.rows import ordinary
from explorer.library import LoadedModel
from explorer.runs.passes import Steps
from models.hooks import AttentionSite

Map = Literal["ov", "qk"]
MAPS: tuple[Map, ...] = get_args(Map)
TOP = 40
CHUNK = 1 << 22
"""Cells in memory at once: 16 MB."""
MOST_TOKENS = 65_536
"""Only the first MOST_TOKENS tokens of the vocabulary are used."""


@dataclass(frozen=True, eq=False)
class VocabularyMap:
    """The largest cells of a map, (row token, column token, value), in descending order.

    For `qk` a row is the query, a column the key, and the value the score. For `ov` a row is the
    attended token, a column the token written, and the value its logit up to the final norm's
    scale. `own` is the share of tokens whose own column is the largest in their row (they attend to
    themselves, or are copied), `guess` the rate by chance. `copying` is, for `ov`, the sum of the
    map's eigenvalues divided by the sum of their absolute values: 1 if it copies, -1 if it writes
    the opposite (Elhage et al. 2021); NaN for `qk`.
    """

    kind: Map
    pairs: tuple[tuple[int, int, float], ...]
    own: float
    guess: float
    copying: float
    n_tokens: int
    left_out: int


def vocabulary_map(
    loaded: LoadedModel, site: AttentionSite, head: int, kind: Map
) -> Steps[VocabularyMap]:
    """Compute one map of one head; the steps count rows.

    Raises ValueError for the `ov` of a model without logits.
    """
    known = ordinary(loaded)
    tokens = torch.tensor(known[:MOST_TOKENS])
    left, right = (_qk if kind == "qk" else _ov)(loaded, site, head, tokens)
    step = max(1, CHUNK // len(tokens))
    best: list[tuple[float, int, int]] = []
    own = 0
    for start in range(0, len(tokens), step):
        cells = left[start : start + step] @ right.T
        own += int((cells.argmax(1) == torch.arange(start, start + len(cells))).sum())
        values, places = cells.flatten().topk(min(TOP, cells.numel()))
        best += [
            (value, start + place // len(tokens), place % len(tokens))
            for value, place in zip(values.tolist(), places.tolist(), strict=True)
        ]
        best = sorted(best, reverse=True)[:TOP]
        yield min(start + step, len(tokens)), len(tokens)
    ids = tokens.tolist()
    return VocabularyMap(
        kind=kind,
        pairs=tuple((ids[row], ids[column], value) for value, row, column in best),
        own=own / len(ids),
        guess=1 / len(ids),
        copying=_copying(left, right) if kind == "ov" else float("nan"),
        n_tokens=len(ids),
        left_out=len(known) - len(ids),
    )


def _read(loaded: LoadedModel, site: AttentionSite, tokens: Tensor) -> Tensor:
    """A head's input for each token [token, d_model], computed from the embedding alone."""
    stack = loaded.stacks[-1]
    with torch.inference_mode():
        x = loaded.part(stack.path("embed")).get_parameter("weight")[tokens].float()
        x = x * loaded.model.last_stack.embed_scale
        x = loaded.part(stack.path("embed_map"))(loaded.part(stack.path("embed_norm"))(x))
        if loaded.config.norm_placement == "pre":
            x = loaded.part(f"{site.block}.attn_norm")(x)
    inputs: Tensor = x
    return inputs


def _qk(
    loaded: LoadedModel, site: AttentionSite, head: int, tokens: Tensor
) -> tuple[Float[Tensor, "token d_head"], Float[Tensor, "token d_head"]]:
    x, config = _read(loaded, site, tokens), loaded.config
    group, d = head // (config.n_heads // config.kv_heads), config.d_head
    with torch.inference_mode():
        vectors = []
        for letter, own in (("q", head), ("k", group)):
            heads = loaded.part(f"{site.name}.w_{letter}")(x).unflatten(-1, (-1, d))
            heads = heads.transpose(0, 1)[None]  # [1, head, token, d_head]
            first = own
            if not config.qk_norm_joint:  # such a norm needs all heads
                heads, first = heads[:, own : own + 1], 0
            vectors.append(loaded.part(f"{site.name}.{letter}_norm")(heads)[0, first])
    q, k = vectors
    return q / config.divisor, k


def _ov(
    loaded: LoadedModel, site: AttentionSite, head: int, tokens: Tensor
) -> tuple[Float[Tensor, "token d_head"], Float[Tensor, "token d_head"]]:
    config = loaded.config
    if not config.lm_head:
        raise ValueError(f"{loaded.name} has no LM head")
    x = _read(loaded, site, tokens)
    group, d = head // (config.n_heads // config.kv_heads), config.d_head
    stack = loaded.stacks[-1]
    norm = loaded.part(stack.path("final_norm"))
    with torch.inference_mode():
        v = loaded.part(f"{site.name}.w_v")(x)[:, group * d : (group + 1) * d]
        o = loaded.part(f"{site.name}.w_o").get_parameter("weight")[:, head * d : (head + 1) * d]
        out = loaded.part("unembed").get_parameter("weight")[tokens].float()
        if config.head_net:  # its linear map; its activation and norm have no matrix
            out = out @ loaded.part("head").get_parameter("linear.weight").float()
        if not isinstance(norm, nn.Identity):
            out = out * norm.get_parameter("weight").float()
            if norm.centres:
                out = out - out.mean(1, keepdim=True)
        return v, out @ o.float()


def _copying(left: Tensor, right: Tensor) -> float:
    """The copying score; right' left (d_head wide) has the nonzero eigenvalues of left right'."""
    small = (right.T.double() @ left.double()).numpy()
    values = np.linalg.eigvals(small)
    size = float(np.abs(values).sum())
    return float(values.real.sum()) / size if size else 0.0
