"""Texts longer than in training: the loss of each token given its whole context, and given only
the last few tokens.

Both losses are for the same tokens, so the difficulty of the text affects both, and their
difference is the effect of the far context. A window begins with the start token, like every
training sequence, and its positions count from 0, so it never exceeds the trained length. The model
is only read: computed positions have values everywhere, and no weight depends on n_ctx.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float
from torch.nn import functional as F

from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.runs.inputs import text_tokens
from explorer.runs.sentences import clean_text
from models.rows import Rows

MAX_CHARS = 5000
"""The longest text, in characters; a link stores all of it."""
TIMES = 3
"""Text is read up to this multiple of n_ctx."""
WINDOW = 128
LEAST_BEYOND = 32
"""The minimum number of tokens beyond n_ctx for a measurement."""
ROWS = 8
"""Windows per batch; more would take more memory without being faster."""


@dataclass(frozen=True, eq=False)
class Beyond:
    """-ln p of each token of a text, in nats: `whole` and `windowed` [token], for the same tokens.

    Token i is predicted from i earlier tokens, including the start token: all of them, or at most
    `window`. From `n_ctx` on that is more than in any training sequence. `n_tokens` is the length
    of the text, of which the first tokens were read; `unknown` are its characters that the
    vocabulary lacks.
    """

    n_ctx: int
    window: int
    n_tokens: int
    unknown: tuple[str, ...]
    whole: Float[np.ndarray, " token"] = field(repr=False)
    windowed: Float[np.ndarray, " token"] = field(repr=False)

    @property
    def curves(self) -> tuple[Float[np.ndarray, " bucket"], Float[np.ndarray, "way bucket"]]:
        """The centres of buckets of `width` tokens, and their mean losses: whole, windowed.

        A last bucket that is less than half full is left out: its mean would be too noisy.
        """
        middles, whole = by_bucket(self.whole, self.width)
        return middles, np.stack([whole, by_bucket(self.windowed, self.width)[1]])

    @property
    def width(self) -> int:
        """The number of tokens per bucket, a quarter of n_ctx."""
        return max(1, self.n_ctx // 4)

    @property
    def difference(self) -> float:
        """The mean extra loss per token beyond n_ctx with the whole context, in nats."""
        return float((self.whole - self.windowed)[self.n_ctx :].mean())

    @property
    def error(self) -> float:
        """The standard error of `difference` over the tokens, assuming independence."""
        gaps = (self.whole - self.windowed)[self.n_ctx :]
        return float(gaps.std(ddof=1) / len(gaps) ** 0.5)


def can_go_beyond(loaded: LoadedModel) -> bool:
    """Whether a model continues texts and has unlimited positions: learned ones end at n_ctx."""
    return loaded.continues and loaded.config.longest is None


def beyond(loaded: LoadedModel, text: str) -> Beyond:
    """Read the first 3 n_ctx tokens of a text in both ways.

    Raises ValueError for a model that cannot go beyond n_ctx; InputProblem as `clean_text`, and
    `too_few_tokens`.
    """
    if not can_go_beyond(loaded):
        raise ValueError(f"{loaded.name} has no positions beyond n_ctx, or does not continue texts")
    n_ctx, window = loaded.config.n_ctx, min(WINDOW, max(1, loaded.config.n_ctx // 2))
    cleaned = clean_text(text, MAX_CHARS)
    tokens = text_tokens(loaded, cleaned)
    if len(tokens) < n_ctx + LEAST_BEYOND:
        raise InputProblem("too_few_tokens", limit=n_ctx + LEAST_BEYOND, length=len(tokens))
    row = [*loaded.model.with_marks("tgt", tokens[: TIMES * n_ctx])]
    (whole,) = _losses(loaded, [row], len(row) - 1)
    return Beyond(
        n_ctx=n_ctx,
        window=window,
        n_tokens=len(tokens),
        unknown=tuple(loaded.tokenizer.of("src").unknown(cleaned)),
        whole=whole,
        windowed=_windowed(loaded, row, window),
    )


def _windowed(loaded: LoadedModel, row: list[int], window: int) -> Float[np.ndarray, " token"]:
    """The losses with a context of at most `window` tokens, and at least three quarters of it.

    The tokens of the first window are predicted from all tokens before them. Of each later window,
    including its start token, only the last quarter is used, and the next begins a quarter later.
    """
    hop = max(1, window // 4)
    (first,) = _losses(loaded, [row[: window + 1]], window)
    ends = range(window + 1 + hop, len(row) + hop, hop)  # the last one may exceed the sequence
    rows = [
        [*loaded.model.with_marks("tgt", row[end - window : end])]
        for end in (min(e, len(row)) for e in ends)
    ]
    later = [
        losses
        for start in range(0, len(rows), ROWS)
        for losses in _losses(loaded, rows[start : start + ROWS], hop)
    ]
    short = len(row) - 1 - window - hop * (len(rows) - 1)  # new tokens in the last window
    return np.concatenate([first, *later[:-1], later[-1][hop - short :]])


def _losses(
    loaded: LoadedModel, rows: list[list[int]], n_last: int
) -> Float[np.ndarray, "row token"]:
    """-ln p of the last `n_last` tokens of equally long rows, each given the tokens before it."""
    tokens = torch.tensor(rows)
    with torch.inference_mode():
        logits = loaded.model.read(Rows(tokens[:, :-1]))[:, -n_last:]
        losses = F.cross_entropy(logits.transpose(1, 2), tokens[:, -n_last:], reduction="none")
    return losses.double().numpy()


def by_bucket(
    losses: Float[np.ndarray, " token"], width: int
) -> tuple[Float[np.ndarray, " bucket"], Float[np.ndarray, " bucket"]]:
    """The centre of each bucket of `width` tokens, and the mean loss in it.

    A last bucket that is less than half full is left out: its mean would be too noisy.
    """
    starts = [at for at in range(0, len(losses), width) if 2 * (len(losses) - at) >= width]
    middles = [(at + min(at + width, len(losses))) / 2 for at in starts]
    return np.array(middles), np.array([losses[at : at + width].mean() for at in starts])


def perplexity(losses: Float[np.ndarray, " token"]) -> float:
    """exp of the mean loss: the effective number of equally likely tokens to choose from."""
    return float(np.exp(losses.mean()))
