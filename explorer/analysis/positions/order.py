"""Word order: shuffle the words and test whether the outputs are merely permuted.

Attention by itself is equivariant: permuting its inputs permutes its outputs, nothing else.
Positions break that, and so does a causal mask, under which a token sees as many keys as precede it
(Haviv et al. 2022).
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from explorer.analysis.positions.changes import REMOVE, position_functions
from explorer.library import LoadedModel
from explorer.runs.edits import Edit, MaskSwitch
from explorer.runs.inputs import given_tokens, room_after
from explorer.runs.interventions import edit_functions
from explorer.runs.passes import Steps
from explorer.runs.rerun import edits_of, require_same_model, rows_of
from explorer.runs.run import run
from explorer.runs.trace import Trace
from models.decoding import best, decode
from models.hooks import Change, Edits, visiting
from models.rows import Stream, as_tensor
from models.strategies import Greedy

Setting = Literal["as_is", "without", "unmasked"]
CAUSAL_OFF = MaskSwitch("causal", False)
CONTINUED = 16
"""New tokens of a decoder-only model, which has no natural end."""


@dataclass(frozen=True, eq=False)
class Moved:
    """How far each token's vector moves when the words are shuffled.

    `distances` [layer + 1, pos] are |after - before| / |before| of the residual stream before the
    first block, then after each; token by token in the order of the shuffled sequence. `setting`:
    the model as it is, without positions, or also without the causal mask.
    """

    setting: Setting
    distances: Float[np.ndarray, "layer pos"]

    @property
    def mean(self) -> float:
        """The mean over the tokens, after the last layer."""
        return float(self.distances[-1].mean())


def shuffled_order(
    loaded: LoadedModel, str_tokens: Sequence[str], n_real: int, stream: Stream, seed: int
) -> tuple[int, ...]:
    """The permutation that shuffles the words: `order[new place] = old place`.

    Pieces of a word stay together; the special tokens that the model expects around a sequence stay
    in place, as does padding (from `n_real` on). Never the identity if there are at least two
    words; the same seed gives the same order.
    """
    framed = loaded.model.with_marks(stream, (-1,))
    first, last = framed.index(-1), n_real - (len(framed) - framed.index(-1) - 1)
    first += loaded.config.n_marks or 0  # of an encoder of pictures
    words: list[list[int]] = []
    for place in range(first, last):
        if words and str_tokens[place].startswith("·"):
            words[-1].append(place)
        else:
            words.append([place])
    places = list(range(len(words)))
    random.Random(seed).shuffle(places)
    if places == sorted(places):
        places = places[1:] + places[:1]
    inside = [place for word in places for place in words[word]]
    return (*range(first), *inside, *range(last, len(str_tokens)))


def moved(
    loaded: LoadedModel, traced: Trace, stream: Stream, order: Sequence[int]
) -> tuple[Moved, ...]:
    """Run a Trace's `stream` in another order, in each setting that applies to this model.

    A model without positions has no "as_is" in addition to "without"; "unmasked" is for streams
    under a causal mask. The Trace's own edits stay in force. Raises ValueError for another model's
    Trace, an unknown stream, or an invalid order.
    """
    require_same_model(loaded, traced)
    stack = next((each for each in loaded.stacks if each.stream == stream), None)
    n = len(traced.src_tokens if stream == "src" else traced.tgt_tokens)
    if stack is None or sorted(order) != list(range(n)):
        raise ValueError(f"{list(order)} is not a permutation of the {n} tokens of {stream}")
    names = [stack.block_hook(0, "resid_pre")]
    names += [stack.block_hook(layer, "resid_post") for layer in range(stack.n_layers)]
    settings: list[Setting] = ["as_is", "without"]
    if loaded.config.position_type.acts == "nothing":
        settings.remove("as_is")
    if traced.stack(stream).role == "decoder" and CAUSAL_OFF not in traced.edits:
        settings.append("unmasked")
    return tuple(_moved(loaded, traced, stream, list(order), names, each) for each in settings)


def _moved(
    loaded: LoadedModel,
    traced: Trace,
    stream: Stream,
    order: list[int],
    names: list[str],
    setting: Setting,
) -> Moved:
    before = _states(loaded, traced, stream, None, names, setting)[:, order]
    after = _states(loaded, traced, stream, order, names, setting)
    lengths = np.maximum(np.linalg.norm(before, axis=-1), 1e-12)
    return Moved(setting, np.linalg.norm(after - before, axis=-1) / lengths)


def _states(
    loaded: LoadedModel,
    traced: Trace,
    stream: Stream,
    order: list[int] | None,
    names: list[str],
    setting: Setting,
) -> Float[np.ndarray, "layer pos d_model"]:
    if order is None and setting == "as_is":
        return np.stack([traced.activations[name].astype(np.float64) for name in names])
    rows = rows_of(traced)
    if order is not None:
        rows = replace(rows, **{stream: rows.tokens(stream)[:, list(order)]})
    edits = edits_of(traced)
    if setting == "unmasked":
        switched = (*traced.edits, CAUSAL_OFF)
        edits = edit_functions(traced.sites, switched, rows.src_valid, rows.tgt_valid)
    if setting != "as_is":
        edits = edits.then(Edits(position_functions(loaded, stream, REMOVE)))
    seen = run(loaded.model, rows, set(names), edits)
    return np.stack([seen[name][0].double().numpy() for name in names])


def reading_stream(loaded: LoadedModel) -> Stream:
    """The stream that a model reads before it generates."""
    return loaded.model.reads[0]


def writing(
    loaded: LoadedModel,
    given: Sequence[int],
    functions: Edits,
    orders: Sequence[Sequence[int]] = (),
    use_cache: bool = False,
) -> Steps[list[str]]:
    """The model's greedy output under edits for the `given` tokens, and for each order of them.

    A text is continued by at most `CONTINUED` tokens. "" if there is nothing to generate.
    Yields the tokens generated and their maximum. `use_cache`: only if `functions` change nothing
    in the decoder; otherwise every step recomputes the sequence.
    """
    tokens = as_tensor([list(given)])
    tokens = torch.cat([tokens, *(tokens[:, list(order)] for order in orders)])
    usual = 2 * len(given) + 20 if loaded.config.reads_source else CONTINUED
    longest = min(room_after(loaded, tokens), usual)
    if longest < 1 or not loaded.config.lm_head:
        return [""] * len(tokens)
    steps, seen = decode(loaded.model, tokens, Greedy(), longest, use_cache=use_cache), []
    while True:
        with visiting(functions):
            step = next(steps, None)
        if step is None:
            break
        seen.append(step)
        yield len(seen), longest
    return [loaded.tokenizer.decode(output.tokens) for output in best(seen)]


def written(loaded: LoadedModel, given: Sequence[int], functions: Edits) -> str:
    """The result of `writing`, run to its end without yielding in between."""
    steps = writing(loaded, given, functions)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return str(end.value[0])


@dataclass(frozen=True)
class FourTexts:
    """The model's outputs for the words in order and shuffled, with positions and without."""

    in_order: str
    shuffled: str
    in_order_without: str
    shuffled_without: str


def four_texts(
    loaded: LoadedModel, text: str, seed: int, edits: Sequence[Edit] = ()
) -> Steps[FourTexts | None]:
    """Generate four texts in one batch; None if the words have only one order. Yields the tokens
    generated and their maximum.

    Raises InputProblem as `trace`.
    """
    tokens, stream = given_tokens(loaded, text), reading_stream(loaded)
    order = shuffled_order(loaded, loaded.str_tokens(tokens, stream), len(tokens), stream, seed)
    if [tokens[place] for place in order] == list(tokens):
        return None
    removed = position_functions(loaded, stream, REMOVE)
    without = Edits({name: partial(_from_row, 2, change) for name, change in removed.items()})
    functions = edit_functions(loaded.sites, edits).then(without)
    orders = [order, range(len(tokens)), order]
    cached = stream == "src" and not edits
    return FourTexts(*(yield from writing(loaded, tokens, functions, orders, cached)))


def _from_row(first: int, change: Change, tensor: Tensor) -> Tensor:
    """A change of a tensor [batch, ...] in its rows from `first` on."""
    return torch.cat([tensor[:first], change(tensor[first:])])
