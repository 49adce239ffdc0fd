"""QK and OV of one head as maps over the vocabulary: which token looks for which, and what a token
that is looked at makes the head write.

Every token is taken as it is embedded, through the norm that the head reads by, without a position
and without what earlier layers would add: exact for a head of the first layer where positions act
in attention, and the direct path only for later ones. Both maps are vocabulary x vocabulary; they
are computed some rows at a time, and only the largest cells are kept.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from explorer.analysis.circuits.rows import ordinary
from explorer.library import LoadedModel
from models.hooks import AttentionSite

Map = Literal["ov", "qk"]
MAPS: tuple[Map, ...] = get_args(Map)
TOP = 40
CHUNK = 1 << 22
"""Cells that are held at once: 16 MB."""
MOST_TOKENS = 65_536
"""Tokens of the vocabulary that are asked, the first ones."""
Tell = Callable[[int, int], object]


@dataclass(frozen=True, eq=False)
class VocabularyMap:
    """The largest cells of a map, (row token, column token, value), the largest first.

    For `qk` a row is the query and a column the key, the value the score; for `ov` a row is the
    token looked at and a column the token written, the value its logit but for the final norm's
    scale. `own` is the share of tokens whose own column is the largest of their row (they look for
    themselves, or are copied), `guess` what chance would give. `copying` is, for `ov`, the sum of
    the map's eigenvalues by the sum of their sizes: 1 where it copies, -1 where it writes the
    opposite (Elhage et al. 2021); NaN for `qk`.
    """

    kind: Map
    pairs: tuple[tuple[int, int, float], ...]
    own: float
    guess: float
    copying: float
    n_tokens: int
    left_out: int


def vocabulary_map(
    loaded: LoadedModel,
    site: AttentionSite,
    head: int,
    kind: Map,
    tell: Tell | None = None,
) -> VocabularyMap:
    """One map of one head; `tell(done, total)` is told of rows.

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
        if tell is not None:
            tell(min(start + step, len(tokens)), len(tokens))
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
    """What a head reads of each token [token, d_model] where the embedding is all there is."""
    stack = loaded.model.stacks()[-1]
    with torch.inference_mode():
        x = loaded.part(stack.path("embed")).get_parameter("weight")[tokens].float()
        x = x * loaded.model.last_stack.embed_scale
        x = loaded.part(stack.path("embed_norm"))(x)
        if loaded.config.norm_placement == "pre":
            x = loaded.part(f"{site.block}.attn_norm")(x)
    found: Tensor = x
    return found


def _qk(
    loaded: LoadedModel, site: AttentionSite, head: int, tokens: Tensor
) -> tuple[Float[Tensor, "token d_head"], Float[Tensor, "token d_head"]]:
    x, config = _read(loaded, site, tokens), loaded.config
    group, d = head // (config.n_heads // config.kv_heads), config.d_head
    with torch.inference_mode():
        q = loaded.part(f"{site.name}.w_q")(x)[:, head * d : (head + 1) * d]
        k = loaded.part(f"{site.name}.w_k")(x)[:, group * d : (group + 1) * d]
        q = loaded.part(f"{site.name}.q_norm")(q)
        k = loaded.part(f"{site.name}.k_norm")(k)
    return q / config.divisor, k


def _ov(
    loaded: LoadedModel, site: AttentionSite, head: int, tokens: Tensor
) -> tuple[Float[Tensor, "token d_head"], Float[Tensor, "token d_head"]]:
    config = loaded.config
    if not config.lm_head:
        raise ValueError(f"{loaded.name} has no head that says tokens")
    x = _read(loaded, site, tokens)
    group, d = head // (config.n_heads // config.kv_heads), config.d_head
    stack = loaded.model.stacks()[-1]
    norm = loaded.part(stack.path("final_norm"))
    with torch.inference_mode():
        v = loaded.part(f"{site.name}.w_v")(x)[:, group * d : (group + 1) * d]
        o = loaded.part(f"{site.name}.w_o").get_parameter("weight")[:, head * d : (head + 1) * d]
        out = loaded.part("unembed").get_parameter("weight")[tokens].float()
        if not isinstance(norm, nn.Identity):
            out = out * norm.get_parameter("weight").float()
            if getattr(norm, "bias", None) is not None:  # LayerNorm, which centres
                out = out - out.mean(1, keepdim=True)
        return v, out @ o.float()


def _copying(left: Tensor, right: Tensor) -> float:
    """The eigenvalues of left right' are those of right' left, of the size of a head."""
    small = (right.T.double() @ left.double()).numpy()
    values = np.linalg.eigvals(small)
    size = float(np.abs(values).sum())
    return float(values.real.sum()) / size if size else 0.0
