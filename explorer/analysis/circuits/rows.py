"""Synthetic sequences: repeated random tokens, and the members of known series.

Random tokens can only be predicted from the sequence itself, so whatever helps with the second half
was looked up in the first.

And the matrices of one head acting on the residual stream. Elhage et al. 2021, "A Mathematical
Framework for Transformer Circuits": a head's scores depend on W_Q and W_K only through W_QK =
W_Q' W_K, and its output depends on W_V and W_O only through W_OV = W_O W_V. Of a norm before the
sublayer, the linear part is folded in: LayerNorm's centring and the weights. Its scale, which
differs from token to token, changes no order and is left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.runs.inputs import given_tokens, limit, room_for_output, target_tokens
from models.decoding import best, decode
from models.hooks import AttentionSite
from models.norms import Norm
from models.rows import Rows, as_tensor
from models.strategies import Greedy

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


HALF, N_ROWS, SEED = 25, 10, 27
SERIES: tuple[tuple[str, ...], ...] = (
    tuple("0123456789"),
    tuple("abcdefghijklmnopqrstuvwxyz"),
    tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    ("first", "second", "third", "fourth", "fifth", "sixth"),
    ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    ("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    tuple("一二三四五六七八九十"),
)
LEAST_SERIES = 4
"""Minimum number of consecutive members that must be one token each for a series to be used."""


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


def series_of(loaded: LoadedModel) -> tuple[tuple[int, ...], ...]:
    """The longest run of each series whose members are single tokens of this vocabulary.

    A member may be preceded by a blank. Runs shorter than LEAST_SERIES are left out.
    """
    sequences = []
    for series in SERIES:
        runs: list[list[int]] = [[]]
        for word in series:
            tokens = loaded.tokenizer.encoded(f" {word}") if word.isascii() else []
            tokens = tokens if len(tokens) == 1 else loaded.tokenizer.encoded(word)
            if len(tokens) == 1 and not loaded.tokenizer.is_special(tokens[0]):
                runs[-1].append(tokens[0])
            else:
                runs.append([])
        longest = max(runs, key=len)
        if len(set(longest)) == len(longest) >= LEAST_SERIES:
            sequences.append(tuple(longest))
    return tuple(sequences)
