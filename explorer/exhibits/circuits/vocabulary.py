"""The open head's QK and OV circuits over the vocabulary: which token attends to which, and what
the head writes when it attends to a token.

Every token is represented by its embedding, after the norm that precedes the head, without a
position and without the output of earlier layers. This is exact for a head of the first layer if
positions act in attention, and only the direct path for later ones. Both maps are vocabulary x
vocabulary; they are computed in chunks of rows, and only the largest cells are stored.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from explorer.analysis.circuits.rows import ordinary, output_of, own_sites, unembedding
from explorer.engine.models import head_behaviour
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.circuits.choices import MAPS, CircuitsChoices, Map
from explorer.exhibits.circuits.place import chosen_head, open_head, scope
from explorer.exhibits.picking import pick_one
from explorer.exhibits.saying import head_name, in_a_row, quoted
from explorer.figures.bars import measured
from explorer.library import LoadedModel
from explorer.numbers import fixed, percent, percents
from explorer.runs.passes import Steps
from models.hooks import AttentionSite

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
    out = torch.from_numpy(unembedding(loaded, tokens.tolist())).float()
    o = torch.from_numpy(output_of(loaded, site, head)).float()
    d = loaded.config.d_head
    group = head // (loaded.config.n_heads // loaded.config.kv_heads)
    with torch.inference_mode():
        v = loaded.part(f"{site.name}.w_v")(_read(loaded, site, tokens))
    return v[:, group * d : (group + 1) * d], out @ o


def _copying(left: Tensor, right: Tensor) -> float:
    """The copying score; right' left (d_head wide) has the nonzero eigenvalues of left right'."""
    small = (right.T.double() @ left.double()).numpy()
    values = np.linalg.eigvals(small)
    size = float(np.abs(values).sum())
    return float(values.real.sum()) / size if size else 0.0


DRAWN = 20
Head = tuple[int, int]


def _kinds(view: View) -> tuple[Map, ...]:
    return MAPS if view.loaded.config.lm_head else ("qk",)


def _kind(view: View) -> Map:
    asked, kinds = view.choices(CircuitsChoices).head_map, _kinds(view)
    return asked if asked in kinds else kinds[0]


def compute(loaded: LoadedModel, at: Head | None, kind: Map) -> Steps[tuple[Head, VocabularyMap]]:
    """A head of self-attention, by default the best induction head, and its map."""
    layer, head = at or head_behaviour(loaded.name).best("induction")
    cells = yield from vocabulary_map(loaded, own_sites(loaded)[layer], head, kind)
    return (layer, head), cells


def show(answer: tuple[Head, VocabularyMap], view: View) -> b.Blocks:
    """The largest cells of the map."""
    yield from scope(view)
    at, token_map = answer
    yield b.Hero((b.Sentence("vocabulary", _reading(view, token_map, at)), _bars(view, token_map)))
    name = "circuits.head_map"
    kinds = pick_one(view, name, _kinds(view), token_map.kind, said="circuits.maps")
    yield b.Row((kinds, _pick_head(view, at)))
    yield b.Note(view.t("circuits.map_note", tokens=f"{token_map.n_tokens:,}"))
    if token_map.left_out:
        yield b.Note(view.t("circuits.left_out", count=token_map.left_out))
    lines = {
        "qk": rf"\mathrm{{QK}} = E\,W_Q\,W_K^\top E^\top / {view.latex_divisor}",
        "ov": r"\mathrm{OV} = E\,W_V\,W_O\,U^\top",
    }
    yield b.Formula((lines[token_map.kind],), view.t("circuits.map_formula"))
    yield b.Code((vocabulary_map, ordinary))
    yield b.Numbers(lambda: _numbers(view, token_map))


def _pick_head(view: View, at: Head) -> b.Pick:
    """A head of self-attention."""
    sites, name = own_sites(view.loaded), partial(head_name, view)
    heads = [(site.layer, head) for site in sites for head in range(site.n_heads)]
    more = b.More(said=name, change=partial(open_head, view), form="menu", width=200)
    return pick_one(view, "circuits.head", heads, at, label="place.head", **more)


def _labels(view: View, mapping: VocabularyMap, count: int) -> list[tuple[str, str]]:
    shown = view.loaded.str_tokens
    return [(shown([row])[0], shown([column])[0]) for row, column, _ in mapping.pairs[:count]]


def _reading(view: View, mapping: VocabularyMap, at: tuple[int, int]) -> str:
    row, column = _labels(view, mapping, 1)[0]
    sentences = [
        view.t(
            "circuits",
            mapping.kind,
            "reading",
            place=head_name(view, at),
            row=quoted(view, row),
            column=quoted(view, column),
            value=fixed(mapping.pairs[0][2], 1),
            own=percent(mapping.own),
            guess=str(percents(np.array([mapping.guess]))[0]),
        )
    ]
    if not np.isnan(mapping.copying):
        sentences.append(view.t("circuits.copying", value=fixed(mapping.copying)))
    return in_a_row(sentences)


def _bars(view: View, mapping: VocabularyMap) -> b.Chart:
    labels = _labels(view, mapping, DRAWN)
    draw = partial(
        measured,
        [f"{row} → {column}" for row, column in labels],
        np.array([value for *_, value in mapping.pairs[:DRAWN]]),
        title=view.t("circuits", mapping.kind, "value"),
    )
    return b.Chart("circuits.pairs", draw, view.t("circuits.pairs_alt"))


def _numbers(view: View, mapping: VocabularyMap) -> dict[str, list[object]]:
    labels = _labels(view, mapping, len(mapping.pairs))
    return {
        view.t("circuits", mapping.kind, "row"): [row for row, _ in labels],
        view.t("circuits", mapping.kind, "column"): [column for _, column in labels],
        view.t("circuits", mapping.kind, "value"): [f"{value:.2f}" for *_, value in mapping.pairs],
    }


EXHIBIT = Exhibit(
    compute,
    show,
    inputs={"at": chosen_head, "kind": _kind},
    wait=Wait("circuits.map_working", blocks=scope),
)
