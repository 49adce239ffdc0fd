"""Direct logit attribution: a word's logit as a sum over components, and one head key by key.

logit of a word = sum over all components of (what reaches the unembedding) . W_U[word] + bias, with
the norms' scales frozen (`writers`). This is the direct path from a component to the logits; its
effect through a later component is counted there. A difference of two logits is ln(p / p') of the
two words and, unlike a logit, is unchanged if all logits are shifted by a constant.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from jaxtyping import Float
from torch import Tensor

from explorer.analysis.attribution.ledger import Ledger, Writer, array
from explorer.analysis.attribution.writers import Detail, output
from explorer.library import LoadedModel
from explorer.numerics import softmax
from explorer.runs.passes import Steps
from explorer.runs.rerun import require_same_model, rerun, written_tokens
from explorer.runs.trace import Trace
from models.hooks import LOGITS, AttentionSite, Edits

Place = tuple[int | slice, ...]
N_WORDS = 5


@dataclass(frozen=True, eq=False)
class Writes:
    """The decomposed logits of two words after one position.

    `shares` [writer] add up to the logit of `word`, `other_shares` to the logit of `other`, up to
    `caps` (what a cap on the logits subtracts, 0 without one) and `rests`. `lost` [writer] is how
    much their difference drops without the component if the norms recompute their scale.
    """

    position: int
    word: int
    other: int
    logits: tuple[float, float]
    probabilities: tuple[float, float]
    caps: tuple[float, float]
    shares: Float[np.ndarray, " writer"]
    other_shares: Float[np.ndarray, " writer"]
    lost: Float[np.ndarray, " writer"]
    ledger: Ledger = field(repr=False)

    @property
    def writers(self) -> list[Writer]:
        """The components, in the order of `shares`."""
        return self.ledger.writers

    @property
    def compares(self) -> bool:
        """Whether there are two words."""
        return self.word != self.other

    def between(self, two: tuple[float, float]) -> float:
        """The value of the word; if two are compared, minus the value of the other."""
        return two[0] - two[1] * self.compares

    @property
    def differences(self) -> Float[np.ndarray, " writer"]:
        """The contribution of each component to the first word's logit minus the other's."""
        return self.shares - self.other_shares

    @property
    def terms(self) -> Float[np.ndarray, " writer"]:
        """The contribution of each component to the logit, or to the difference of two."""
        return self.differences if self.compares else self.shares

    @property
    def rests(self) -> tuple[float, float]:
        """The part of the two logits that the terms do not explain."""
        of_word = self.logits[0] - float(self.shares.sum()) - self.caps[0]
        return of_word, self.logits[1] - float(self.other_shares.sum()) - self.caps[1]


def next_word(traced: Trace, position: int) -> int:
    """The word generated after a position; if there is none, the most probable one.

    Raises ValueError for a model without logits, IndexError for a position that is padding or out
    of range.
    """
    if not traced.config.lm_head:
        raise ValueError(f"{traced.model} has no LM head")
    n_real = int(traced.tgt_valid.sum())
    if not 0 <= position < n_real:
        raise IndexError(f"there is no position {position}: the sequence has {n_real}")
    written = written_tokens(traced)
    return written[position] if position < len(written) else traced.predicted_tokens[position]


def runner_up(traced: Trace, position: int, word: int) -> int:
    """The most probable other word after a position."""
    first, second = np.argsort(-traced.logits[position], kind="stable")[:2].tolist()
    return int(second if first == word else first)


def writes(
    loaded: LoadedModel,
    trace: Trace,
    position: int,
    word: int,
    other: int,
    detail: Detail = "heads",
) -> Steps[Writes]:
    """Decompose the logits of two words.

    Raises IndexError for ids outside the vocabulary, ValueError for another model's Trace.
    """
    require_same_model(loaded, trace)
    words = [word, other]
    if not all(0 <= token < loaded.config.vocab_size for token in words):
        raise IndexError(f"the vocabulary has {loaded.config.vocab_size} tokens: {words}")
    ledger = yield from output(loaded, trace, [position], detail)
    unembed = loaded.model.unembed
    rows = array(unembed.weight[words]).T  # [d_model, word]
    shares = ledger.pieces[:, 0] @ rows
    lost = (ledger.whole[0] - ledger.without[:, 0]) @ (rows[:, 0] - rows[:, 1])
    if unembed.bias is not None:
        constants = array(unembed.bias[words])
        shares[0] += constants
        lost[0] += constants[0] - constants[1]
    logits = trace.logits[position].astype(np.float64)
    sums, cap = shares.sum(0), loaded.config.logit_cap
    caps = np.zeros(2) if cap is None else cap * np.tanh(sums / cap) - sums
    return Writes(
        position=position,
        word=word,
        other=other,
        logits=_pair(logits[words]),
        probabilities=_pair(softmax(logits)[words]),
        caps=_pair(caps),
        shares=shares[:, 0],
        other_shares=shares[:, 1],
        lost=lost,
        ledger=ledger,
    )


def _pair(two: Sequence[float] | np.ndarray) -> tuple[float, float]:
    return float(two[0]), float(two[1])


def without_head(
    loaded: LoadedModel, traced: Trace, result: Writes, site: AttentionSite, head: int, query: int
) -> float:
    """The difference of the two logits in a run in which a head, of any stack, writes nothing at
    one query; everything after it reacts. Raises ValueError for another model's Trace."""
    change = Edits({site.hook("z"): partial(silent_at, at=(head, query))})
    logits = rerun(loaded, traced, {LOGITS}, change)[LOGITS][0, result.position].double()
    return float(logits[result.word] - logits[result.other])


def silent_at(tensor: Tensor, at: Place) -> Tensor:
    """A tensor of a batch of one, with 0 at a place."""
    changed = tensor.clone()
    changed[0][at] = 0.0
    return changed
