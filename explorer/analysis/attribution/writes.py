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
import torch
from jaxtyping import Float, Int
from torch import Tensor

from explorer.analysis.attribution.ledger import Ledger, Writer, array
from explorer.analysis.attribution.writers import Detail, output, per_key
from explorer.library import LoadedModel
from explorer.numerics import softmax
from explorer.runs.passes import Steps
from explorer.runs.rerun import require_same_model, rerun, written_tokens
from explorer.runs.trace import Trace
from models.foreign.placing import outside
from models.hooks import LOGITS, AttentionSite, Change, Edits

Place = tuple[int | slice, ...]
N_WORDS = 5
MOST_KEYS = 12
"""Keys whose values are projected onto the vocabulary: those with the largest weights."""


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


@dataclass(frozen=True, eq=False)
class Pushes:
    """The words that a head promotes and suppresses at one query, in total and by key.

    Row 0 is the head as a whole, row i the key `keys[i - 1]`. `pushed` and `held` are ids,
    strongest first; `up` and `down` are their logit changes relative to the vocabulary mean.
    `direct` is True if this reaches the logits directly; otherwise it only shows the direction of
    the vector (the output of an encoder head reaches the logits through cross-attention only).
    """

    keys: tuple[int, ...]
    weights: Float[np.ndarray, " key"]
    pushed: Int[np.ndarray, "row word"]
    up: Float[np.ndarray, "row word"]
    held: Int[np.ndarray, "row word"]
    down: Float[np.ndarray, "row word"]
    direct: bool


def pushes(
    loaded: LoadedModel, traced: Trace, site: AttentionSite, head: int, query: int
) -> Steps[Pushes]:
    """Project a head's output at a query onto the vocabulary, key by key.

    Raises ValueError for a model without logits, IndexError for a head or query out of range.
    """
    require_same_model(loaded, traced)
    if not traced.config.lm_head:
        raise ValueError(f"{loaded.name} has no LM head")
    weights = traced.pattern(site.name)[head][query].astype(np.float64)
    keys = tuple(np.argsort(-weights, kind="stable")[:MOST_KEYS].tolist())
    direct = site.query_stream == traced.stacks[-1].stream
    if direct:
        ledger = yield from output(loaded, traced, [query], (site.name, head))
        of_key = {w.key: at for at, w in enumerate(ledger.writers) if w.key is not None}
        vectors = ledger.pieces[[of_key[key] for key in range(len(weights))], 0]
    else:
        w_o = array(loaded.part(f"{site.name}.w_o").get_parameter("weight"))
        own = w_o.reshape(len(w_o), site.n_heads, -1)[:, head]
        vectors = per_key(traced, site, head, [query])[:, 0] @ own.T
    unembed = outside(loaded.model.unembed.weight)
    rows = torch.tensor(np.stack([vectors.sum(0), *vectors[list(keys)]]), dtype=unembed.dtype)
    with torch.inference_mode():
        brought = rows @ unembed.T
        brought = brought - brought.mean(-1, keepdim=True)
        n = min(N_WORDS, brought.shape[-1])
        up, down = brought.topk(n), brought.topk(n, largest=False)
    return Pushes(
        keys=keys,
        weights=weights[list(keys)],
        pushed=up.indices.numpy(),
        up=up.values.numpy(),
        held=down.indices.numpy(),
        down=down.values.numpy(),
        direct=direct,
    )


@dataclass(frozen=True)
class Silenced:
    """A component ablated at one position: the difference of two logits before and after.

    `predicted` follows from its share. `held` is measured: the model runs without it while the
    output of every later component is held fixed, so only the norms change their scale. `free` is
    measured too: every later component reacts.
    """

    writer: Writer
    before: float
    predicted: float
    held: float
    free: float


def silence(loaded: LoadedModel, traced: Trace, result: Writes, writer: int) -> Silenced:
    """Ablate a component where it wrote, in two runs of the model.

    Raises IndexError for a component out of range, ValueError for the biases, which are written in
    many places.
    """
    named = result.writers[writer]
    if named.kind == "bias":
        raise ValueError("biases are added in many places, so they cannot be ablated as one")
    hook, at = _place_of(traced, named, result.position)
    kept = _kept(traced)
    change: dict[str, Change] = {hook: partial(_silent, at=at)}
    held = {name: partial(_as_it_was, array=array) for name, array in kept.items()} | change
    before = result.logits[0] - result.logits[1]
    measured = []
    for edits in (held, change):
        logits = rerun(loaded, traced, {LOGITS}, Edits(edits))[LOGITS][0, result.position].double()
        measured.append(float(logits[result.word] - logits[result.other]))
    return Silenced(named, before, before - float(result.differences[writer]), *measured)


def without_head(
    loaded: LoadedModel, traced: Trace, result: Writes, site: AttentionSite, head: int, query: int
) -> float:
    """The difference of the two logits in a run in which a head, of any stack, writes nothing at
    one query; everything after it reacts. Raises ValueError for another model's Trace."""
    change = Edits({site.hook("z"): partial(_silent, at=(head, query))})
    logits = rerun(loaded, traced, {LOGITS}, change)[LOGITS][0, result.position].double()
    return float(logits[result.word] - logits[result.other])


def _place_of(traced: Trace, writer: Writer, position: int) -> tuple[str, Place]:
    """Where a component writes: its hook point, and the part to set to 0."""
    stack = traced.stacks[-1]
    match writer.kind:
        case "head":
            head = slice(None) if writer.head is None else writer.head
            return traced.site(writer.site).hook("z"), (head, position)
        case "ffn":
            assert writer.layer is not None
            return stack.block_hook(writer.layer, "ffn_out"), (position,)
        case "embedding":
            return stack.hook("embed"), (position,)
    return stack.hook("pos_embed"), (position,)


def _kept(traced: Trace) -> dict[str, np.ndarray]:
    """The recorded output of every sublayer of the last stack."""
    stack = traced.stacks[-1]
    hooks = [site.hook("z") for site in traced.sites if site.query_stream == stack.stream]
    hooks += [stack.block_hook(layer, "ffn_out") for layer in range(stack.n_layers)]
    return {hook: traced.activations[hook] for hook in hooks}


def _as_it_was(tensor: Tensor, array: np.ndarray) -> Tensor:
    return torch.tensor(array, dtype=tensor.dtype)[None]


def _silent(tensor: Tensor, at: Place) -> Tensor:
    changed = tensor.clone()
    changed[0][at] = 0.0
    return changed
