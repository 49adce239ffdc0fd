"""A model whose circuit is built by hand."""

from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer as Library, models, pre_tokenizers

from explorer.library import LoadedModel
from models.config import ModelConfig
from models.tokenizer import BLANK, SPECIAL_TOKENS, Tokenizer
from models.transformer import build_model

LETTERS = tuple("abcdefghijkl")
N_CTX = 2 * len(LETTERS) + 2
SHARP = 3.0
"""Scale of the entries of W_Q and W_K: large enough that a match gets nearly all the attention."""
LOUD = 8.0
"""Scale of the entries of the unembedding."""
NAME = "by-hand"


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
