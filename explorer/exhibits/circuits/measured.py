"""What several exhibits ask of a model's heads, and a model whose circuit is built by hand.

python -m explorer.exhibits.circuits.measured    # writes the chance level of the shipped models
"""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from tokenizers import AddedToken, Tokenizer as Library, models, pre_tokenizers

from explorer.analysis.atlas.make import weights_digest
from explorer.analysis.circuits import behaviour as behaving
from explorer.analysis.circuits.chance import COPIES, Chance
from explorer.analysis.circuits.rows import Twice, half_for, random_twice, repeatable, twice
from explorer.engine import cache
from explorer.engine.caching import cached
from explorer.exhibits import View, block as b
from explorer.exhibits.saying import site_axes
from explorer.figures.matrix import Mark, Matrix, weights
from explorer.library import LoadedModel
from explorer.runs.passes import Steps, walked
from models.config import ModelConfig
from models.tokenizer import BLANK, SPECIAL_TOKENS, Tokenizer
from models.training.home import asset
from models.transformer import build_model

LETTERS = tuple("abcdefghijkl")
N_CTX = 2 * len(LETTERS) + 2
SHARP = 3.0
"""Scale of the entries of W_Q and W_K: large enough that a match gets nearly all the attention."""
LOUD = 8.0
"""Scale of the entries of the unembedding."""
NAME = "by-hand"
CHANCES = asset("chances.json")
"""For each shipped model the digest of its weights, and the best scores of its shuffled copies."""


def by_hand() -> LoadedModel:
    """A decoder-only model with hand-set weights, an induction circuit: a clear reference case.

    It reads letters separated by spaces. Two layers of two heads, no feed-forward networks; the
    second head of each layer is empty. The stream has four parts with fixed meanings: the current
    token, its position, the token before it, and the token to predict.

    first head, layer 1   a query at position p matches position p - 1; the value is the token
                          there, written to the part "before"
    first head, layer 2   a query's token matches keys whose "before" is that token; the value is
                          the key's own token, written to the part "write", which the logits read
    """
    pieces = [BLANK + letter for letter in LETTERS]
    vocabulary = {piece: at for at, piece in enumerate((*SPECIAL_TOKENS, *pieces))}
    n = len(vocabulary)
    token, place, before, write = 0, n, n + N_CTX, 2 * n + N_CTX
    d_head = max(n, N_CTX)
    config = ModelConfig(
        family="decoder-only",
        vocab_size=n,
        d_model=3 * n + N_CTX,
        n_layers=2,
        n_heads=2,
        head_dim=d_head,
        d_ff=1,
        n_ctx=N_CTX,
        norm="rmsnorm",
        norm_placement="pre",
        final_norm=True,
        positions="learned",
        ffn="relu",
        dropout=0.0,
        bias=False,
        tie_embeddings=False,
        scale_embeddings=False,
    )
    model = build_model(config).eval().requires_grad_(False)
    weights = {name: torch.zeros_like(weight) for name, weight in model.state_dict().items()}
    for name in weights:
        if name.endswith("norm.weight"):
            weights[name] += 1
    every = torch.arange(n)
    weights["embed.weight"][every, token + every] = 1
    where = torch.arange(N_CTX)
    weights["positions.weight"][where, place + where] = 1
    first, second = "blocks.0.attn.", "blocks.1.attn."
    weights[first + "w_q.weight"][where[:-1], place + where[1:]] = SHARP
    weights[first + "w_k.weight"][where, place + where] = SHARP
    weights[first + "w_v.weight"][every, token + every] = 1
    weights[first + "w_o.weight"][before + every, every] = 1
    weights[second + "w_q.weight"][every, token + every] = SHARP
    weights[second + "w_k.weight"][every, before + every] = SHARP
    weights[second + "w_v.weight"][every, token + every] = 1
    weights[second + "w_o.weight"][write + every, every] = 1
    weights["unembed.weight"][every, write + every] = LOUD
    model.load_state_dict(weights)
    return LoadedModel(NAME, model, _tokenizer(vocabulary), config, Path(NAME))


def _tokenizer(vocabulary: dict[str, int]) -> Tokenizer:
    library = Library(models.WordLevel(vocabulary, unk_token=SPECIAL_TOKENS[-1]))
    library.pre_tokenizer = pre_tokenizers.Metaspace(replacement=BLANK)
    library.add_special_tokens([AddedToken(word, special=True) for word in SPECIAL_TOKENS])
    return Tokenizer(library)


def scope(view: View) -> b.Blocks:
    """A note on what is measured in a translator, or in a model that reads both ways."""
    if view.sites_of("cross"):
        yield b.Note(view.t("circuits.translator"))
    elif not view.loaded.config.is_causal:
        yield b.Note(view.t("circuits.both_ways"))


def opened(model: str) -> LoadedModel:
    """A model of the shelf, or the one built by hand."""
    return by_hand() if model == NAME else cache.open_model(model)


@cached
def behaviour(model: str, text: str | None = None) -> behaving.HeadScores:
    """The behaviour of every head on synthetic sequences, or on a text repeated twice. Cached for
    `roles`, whose open behaviour or head may change, and `induction`. Raises InputProblem."""
    loaded = opened(model)
    if text is None:
        return behaving.behaviour(loaded)
    return behaving.looked(loaded, said_twice(loaded, text)[0])


def work_of_chance(loaded: LoadedModel) -> int:
    """The cost of `chance` in tokens times parameters."""
    rows = random_twice(loaded).rows
    n_tokens = sum(rows.tokens(stream).numel() for stream in loaded.model.reads)
    return COPIES * n_tokens * loaded.n_parameters


@cached
def chance(model: str) -> Steps[Chance]:
    """The best head's score by chance on synthetic sequences, from the file if that is of these
    weights. Cached for `roles` and `induction`: computed, this takes ten seconds."""
    loaded, stored = opened(model), json.loads(CHANCES.read_text("utf-8")).get(model)
    if stored is None or stored["weights"] != weights_digest(loaded):
        return (yield from behaving.best_by_chance(loaded))
    return Chance({name: np.array(scores) for name, scores in stored["best"].items()})


def write_chances() -> None:
    """Compute the chance level of all shipped models and write the file."""
    chances = {}
    for model in cache.models():
        loaded = opened(model)
        best = walked(behaving.best_by_chance(loaded)).best
        scores = {name: copies.tolist() for name, copies in best.items()}
        chances[model] = {"weights": weights_digest(loaded), "best": scores}
    CHANCES.write_text(f"{json.dumps(chances)}\n", encoding="utf-8")


def said_twice(loaded: LoadedModel, text: str) -> tuple[Twice, bool]:
    """A text's tokens repeated twice, and whether its end was cut off. Raises InputProblem."""
    tokens = repeatable(loaded, text)
    most = max(1, half_for(loaded))
    return twice(loaded, [tokens[:most]]), len(tokens) > most


def chosen_head(view: View) -> tuple[int, int] | None:
    """Layer and head of the open head, if the link has one of self-attention."""
    state = view.state
    own = state.site in ("", view.own_role) or len(view.kinds) == 1
    if own and state.layer is not None and state.head is not None and view.kind == view.own_role:
        return view.layer, view.head
    return None


def open_head(view: View, at: tuple[int, int]) -> b.Change:
    """Open a head of self-attention."""
    return b.choose(elsewhere=True, site=view.own_role, layer=at[0], head=at[1])


def tokens_matrix(
    view: View,
    pattern: np.ndarray,
    mask: np.ndarray,
    labels: Sequence[str],
    ringed: tuple[np.ndarray, np.ndarray] | None = None,
) -> Matrix:
    """Attention within one sequence, with a ring around some (queries, keys). The colour scale ends
    below the largest weight: the first queries have all their attention on one or two keys."""
    top = max(0.1, float(np.quantile(pattern[2:, 1:], 0.995))) if len(pattern) > 2 else 1.0
    site, words = view.sites_of(view.own_role)[0], view.words("figures.heatmap")
    marks = [] if ringed is None else [Mark("circle", np.transpose(ringed).tolist())]
    axes = site_axes(view, site, tokens=(labels, labels))
    return weights(pattern, mask, axes, top=top, marks=marks, words=words)


if __name__ == "__main__":
    write_chances()
