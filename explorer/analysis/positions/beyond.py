"""A natural text longer than any in training: the loss of each token, with all that went before
as its context, and with the last few tokens only.

Both read the same tokens, so whatever is hard about the text is hard for both, and their difference
is what the far context does. A window begins with the start mark, as every row of the training did,
and its positions are counted from 0, so it never leaves what was trained. The model is only read:
computed positions have values everywhere, and no weight depends on n_ctx.
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
"""The longest text, in characters; a link holds all of it."""
TIMES = 3
"""How many times n_ctx is read at most."""
WINDOW = 128
LEAST_BEYOND = 32
"""Tokens beyond n_ctx without which there is nothing to measure."""
ROWS = 8
"""Windows in one batch; more would not be faster, only larger."""


@dataclass(frozen=True, eq=False)
class Beyond:
    """-ln p of each token of a text, in nats: `whole` and `windowed` [token], on the same tokens.

    Token i is read from i others before it, the start mark included: all of them, or at most
    `window`. From `n_ctx` on that is more than any row of the training had. `n_tokens` is how many
    tokens the text has, of which the first were read; `unknown` are its characters that the
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
        """The middles of buckets of `width` tokens, and the mean losses in them: whole, windowed.

        A last bucket that is less than half full is left out: its mean would be mostly chance.
        """
        middles, whole = by_bucket(self.whole, self.width)
        return middles, np.stack([whole, by_bucket(self.windowed, self.width)[1]])

    @property
    def width(self) -> int:
        """The tokens of a bucket, a quarter of n_ctx."""
        return max(1, self.n_ctx // 4)

    @property
    def difference(self) -> float:
        """What the whole context costs a token beyond n_ctx, against the window; in nats."""
        return float((self.whole - self.windowed)[self.n_ctx :].mean())

    @property
    def error(self) -> float:
        """The standard error of `difference` over the tokens, as if they were independent."""
        gaps = (self.whole - self.windowed)[self.n_ctx :]
        return float(gaps.std(ddof=1) / len(gaps) ** 0.5)


def can_go_beyond(loaded: LoadedModel) -> bool:
    """Whether a model continues texts and has positions for any place: learned ones end."""
    one_text = not loaded.config.reads_source and loaded.model.predicts == "next"
    return one_text and loaded.config.longest is None


def beyond(loaded: LoadedModel, text: str) -> Beyond:
    """Read the first 3 n_ctx tokens of a text in both ways.

    Raises ValueError for a model that cannot go beyond n_ctx; InputProblem as `clean_text`, and
    `too_few_tokens`.
    """
    if not can_go_beyond(loaded):
        raise ValueError(f"{loaded.name} has no positions beyond n_ctx, or continues no text")
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
        unknown=tuple(loaded.tokenizer.unknown(cleaned)),
        whole=whole,
        windowed=_windowed(loaded, row, window),
    )


def _windowed(loaded: LoadedModel, row: list[int], window: int) -> Float[np.ndarray, " token"]:
    """The losses with a context of `window` tokens at most, three quarters of it at least.

    The tokens of the first window are read from all before them. Of each later window, its start
    mark included, only the last quarter is kept, and the next begins a quarter later.
    """
    hop = max(1, window // 4)
    (first,) = _losses(loaded, [row[: window + 1]], window)
    ends = range(window + 1 + hop, len(row) + hop, hop)  # the last one may reach beyond the row
    rows = [
        [*loaded.model.with_marks("tgt", row[end - window : end])]
        for end in (min(e, len(row)) for e in ends)
    ]
    later = [
        losses
        for start in range(0, len(rows), ROWS)
        for losses in _losses(loaded, rows[start : start + ROWS], hop)
    ]
    short = len(row) - 1 - window - hop * (len(rows) - 1)  # what is new in the last window
    return np.concatenate([first, *later[:-1], later[-1][hop - short :]])


def _losses(
    loaded: LoadedModel, rows: list[list[int]], n_last: int
) -> Float[np.ndarray, "row token"]:
    """-ln p of the last `n_last` tokens of rows of one length, each read from those before it."""
    tokens = torch.tensor(rows)
    with torch.inference_mode():
        logits = loaded.model.read(Rows(tokens[:, :-1]))[:, -n_last:]
        losses = F.cross_entropy(logits.transpose(1, 2), tokens[:, -n_last:], reduction="none")
    return losses.double().numpy()


def by_bucket(
    losses: Float[np.ndarray, " token"], width: int
) -> tuple[Float[np.ndarray, " bucket"], Float[np.ndarray, " bucket"]]:
    """The middle of each bucket of `width` tokens, and the mean loss in it.

    A last bucket that is less than half full is left out: its mean would be mostly chance.
    """
    starts = [at for at in range(0, len(losses), width) if 2 * (len(losses) - at) >= width]
    middles = [(at + min(at + width, len(losses))) / 2 for at in starts]
    return np.array(middles), np.array([losses[at : at + width].mean() for at in starts])


def perplexity(losses: Float[np.ndarray, " token"]) -> float:
    """exp of the mean loss: among how many equally likely tokens the model seems to choose."""
    return float(np.exp(losses.mean()))
