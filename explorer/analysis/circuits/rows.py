"""Synthetic sequences: repeated random tokens, and what a head writes to the residual stream.

Random tokens can only be predicted from the sequence itself, so whatever helps with the second half
was looked up in the first.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.runs.inputs import given_tokens, limit, room_for_output, target_tokens
from models.decoding import best, decode
from models.hooks import AttentionSite
from models.norms import Norm
from models.rows import Rows, as_tensor
from models.strategies import Greedy


def unembedding(
    loaded: LoadedModel, tokens: Sequence[int] | None = None
) -> Float[np.ndarray, "token d_model"]:
    """The unembedding of some tokens, or of the vocabulary, with the linear parts of the net and
    the norm before it folded in, so that it reads the residual stream. The norm's scale, which
    differs from token to token, changes no order and is left out.

    Raises ValueError for a model without logits.
    """
    if not loaded.config.lm_head:
        raise ValueError(f"{loaded.name} has no LM head")
    matrix = _weight(loaded, "unembed", "weight", tokens)
    if loaded.config.head_net:
        matrix = matrix @ _weight(loaded, "head", "linear.weight")
    norm = loaded.part(loaded.stacks[-1].path("final_norm"))
    if not isinstance(norm, Norm):
        return matrix
    matrix = matrix * norm.weight.detach().double().numpy()
    return matrix - matrix.mean(1, keepdims=True) if norm.centres else matrix


def output_of(
    loaded: LoadedModel, site: AttentionSite, head: int
) -> Float[np.ndarray, "d_model d_head"]:
    """W_O of one head."""
    d = loaded.config.d_head
    return _weight(loaded, f"{site.name}.w_o", "weight")[:, head * d : (head + 1) * d]


def _weight(
    loaded: LoadedModel, path: str, name: str, rows: Sequence[int] | None = None
) -> Float[np.ndarray, "row column"]:
    """A module's matrix in float64; some of its rows only, or all."""
    weight = loaded.part(path).get_parameter(name).detach()
    matrix: np.ndarray = (weight if rows is None else weight[list(rows)]).double().numpy()
    return matrix


HALF, N_ROWS, SEED = 25, 10, 27


@dataclass(frozen=True, eq=False)
class Twice:
    """Rows [row, pos] that contain `n` tokens twice, the first of them at `start`."""

    rows: Rows
    n: int
    start: int

    @property
    def tokens(self) -> Tensor:
        """The rows' ids [row, pos], special tokens included."""
        return self.rows.tgt


def own_sites(loaded: LoadedModel) -> tuple[AttentionSite, ...]:
    """Self-attention of the sequence that the logits belong to, first layer first."""
    return tuple(s for s in loaded.sites if s.kind == "self" and s.query_stream == "tgt")


def ordinary(loaded: LoadedModel) -> list[int]:
    """The ids of all tokens that represent text: no special tokens, spaces or single bytes."""
    tokenizer = loaded.tokenizer
    tokens = []
    for token in range(min(tokenizer.vocab_size, loaded.config.vocab_size)):
        if not tokenizer.is_special(token):
            text = tokenizer.bytes_of(token).decode("utf-8", "replace").strip()
            if text and "\ufffd" not in text:
                tokens.append(token)
    return tokens


def half_for(loaded: LoadedModel) -> int:
    """How many tokens can be repeated in one sequence of this model, at most HALF."""
    return min(HALF, (limit(loaded) - 2) // 2)


def random_twice(loaded: LoadedModel) -> Twice:
    """Rows of repeated random ordinary tokens, distinct within a row if there are enough.

    The source of a translator is `source_of` them. Raises ValueError for a vocabulary without
    ordinary tokens.
    """
    known = ordinary(loaded)
    if not known:
        raise ValueError(f"{loaded.name} has no tokens for text")
    n, draw = half_for(loaded), torch.Generator().manual_seed(SEED)
    ids = torch.tensor(known)
    picks = [
        ids[torch.randperm(len(ids), generator=draw)[:n]]
        if len(ids) >= n
        else ids[torch.randint(len(ids), (n,), generator=draw)]
        for _ in range(N_ROWS)
    ]
    return twice(loaded, [pick.tolist() for pick in picks])


def twice(loaded: LoadedModel, halves: Sequence[Sequence[int]]) -> Twice:
    """Repeat each of these rows of ids.

    Raises ValueError for rows of different lengths, and for empty rows.
    """
    n = len(halves[0])
    if not n or any(len(half) != n for half in halves):
        raise ValueError("the rows must have equal, non-zero length")
    rows = [loaded.model.with_marks("tgt", [*half, *half]) for half in halves]
    source = [source_of(loaded, half) for half in halves]
    start = list(rows[0]).index(halves[0][0])
    return Twice(Rows.of(rows, source, loaded.marks), n, start)


def repeatable(loaded: LoadedModel, text: str) -> list[int]:
    """The tokens of a text to repeat; of a picture, what the model reads in it.

    Raises InputProblem as `given_tokens`, and `one_token` if it reads nothing.
    """
    inputs = given_tokens(loaded, text)
    if not loaded.config.picture:
        return target_tokens(loaded, text)
    read = best(decode(loaded.model, as_tensor([inputs]), Greedy(), room_for_output(loaded)))
    tokens = [token for token in read[0].tokens if not loaded.tokenizer.is_special(token)]
    if not tokens:
        raise InputProblem("one_token")
    return tokens


def source_of(loaded: LoadedModel, tokens: Sequence[int]) -> tuple[int, ...]:
    """The source that goes with tokens of the target: the same tokens, their text in another
    vocabulary, or, for a model that reads pictures, a blank page; () without a source."""
    if not loaded.config.reads_source:
        return ()
    if loaded.config.picture:
        return tuple(loaded.tokenizer.encode(""))
    if loaded.config.src_vocab_size:
        tokens = loaded.tokenizer.of("src").encoded(loaded.tokenizer.decode(tokens))
    return loaded.model.with_marks("src", tokens)


def said_twice(loaded: LoadedModel, text: str) -> tuple[Twice, bool]:
    """A text's tokens repeated twice, and whether its end was cut off. Raises InputProblem."""
    tokens = repeatable(loaded, text)
    most = max(1, half_for(loaded))
    return twice(loaded, [tokens[:most]]), len(tokens) > most
