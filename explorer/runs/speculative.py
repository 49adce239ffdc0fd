"""Speculative decoding: a cheap model drafts tokens, the model itself checks them in one pass.

    d_1 … d_k                                  k passes of the draft, each of one token
    o_i = argmax p(· | row, d_1 … d_i)         one pass of the model, i = 0 … k
    write o_0 … o_n, so that d_i+1 = o_i for all i < n, and begin again

Every token written is the model's own best one given the previous tokens, so the text equals that
of `Greedy`, and a bad draft costs time, not quality. (One pass over k + 1 tokens and k + 1 passes
over one token round differently, so two tokens that are equal up to rounding could swap.)
Leviathan et al. 2023, Algorithm 1; for the best token alone, Stern et al. 2018, §3.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from jaxtyping import Int
from torch import Tensor, nn

from models.cache import KVCache
from models.decoding import require_decodable
from models.strategies import require_whole
from models.transformer import Model

Module = TypeVar("Module", bound=nn.Module)


@dataclass(frozen=True)
class Round:
    """The `drafted` tokens, and the tokens `written` by one pass of the model: at least one.

    The first `accepted` tokens of both are equal; after them `written` has the model's own token,
    unless the end token was accepted.
    """

    drafted: tuple[int, ...]
    written: tuple[int, ...]
    accepted: int


def speculate(
    model: Model, draft: Model, given: Int[Tensor, "1 pos"], n_drafted: int, max_new_tokens: int
) -> Iterator[Round]:
    """Generate the output of `Greedy`, round by round, to the end token or `max_new_tokens`.

    `given` is the input of `model`, as in `decode`; `draft` gets the same, and proposes up to
    `n_drafted` tokens per round. Raises ValueError as `decode`, and for a draft with another
    vocabulary.
    """
    require_whole("n_drafted", n_drafted, 0)
    one, other = (
        (each.marks, each.reads, each.config.vocab_size, each.config.src_vocab_size)
        for each in (draft, model)
    )
    if one != other:
        raise ValueError("the draft must use the same tokens as the model")
    for each in (model, draft):
        require_decodable(each, given, None, max_new_tokens, ())
    return _rounds(_Rewinder(model, given), _Rewinder(draft, given), n_drafted, max_new_tokens)


def _rounds(model: "_Rewinder", draft: "_Rewinder", k: int, most: int) -> Iterator[Round]:
    output: tuple[int, ...] = ()
    ends = model.model.marks.ends
    while len(output) < most and not any(map(ends, output[-1:])):
        drafted: tuple[int, ...] = ()
        while len(drafted) < min(k, most - len(output) - 1) and not any(map(ends, drafted)):
            drafted += (draft.best_after((*output, *drafted))[-1],)
        own = model.best_after((*output, *drafted))[-1 - len(drafted) :]
        accepted = [d == o for d, o in zip((*drafted, None), own, strict=True)].index(False)
        written = tuple(own[: accepted + 1])
        ended = [at for at, token in enumerate(written) if ends(token)]
        if ended:  # accepted as well: nothing follows it
            written = written[: ended[0] + 1]
        output += written
        yield Round(drafted, written, accepted)


class _Rewinder:
    """A model with the tokens that it has read, and a cache that rewinds to the common prefix."""

    def __init__(self, model: Model, given: Tensor) -> None:
        self.model = model
        with torch.inference_mode():
            self.rows = model.begin(given.long().to(next(model.parameters()).device))
            self.memory = model.memory_of(self.rows)
        self.start = self.rows.tgt[0].tolist()
        self.read: list[int] = []
        self.cache = KVCache(model.config.n_layers)

    @torch.inference_mode()
    def best_after(self, output: Sequence[int]) -> list[int]:
        """The best next token after each token that was not read yet: one pass."""
        row = [*self.start, *output]
        agree = [old == new for old, new in zip(self.read, row[:-1], strict=False)]
        for layer in self.cache.self_attn:
            layer.keep([*agree, False].index(False))
        new = torch.tensor([row[self.cache.length :]], device=self.rows.tgt.device)
        logits = self.model.read(replace(self.rows, tgt=new), self.memory, self.cache)
        self.read = row
        best: list[int] = logits[0].argmax(-1).tolist()
        return best


def first_layers(model: Model, n_layers: int) -> Model:
    """The same model with the first `n_layers` blocks of its last stack only: a draft for it.

    It shares all weights, and applies the LM head to an early residual stream (as Elhoushi et al.
    2024). Raises ValueError unless 1 <= n_layers <= those of `model`.
    """
    if not 1 <= n_layers <= model.config.n_layers:
        raise ValueError(f"n_layers is {n_layers}: the model has {model.config.n_layers}")
    shallow, stack = _shared(model), model.last_stack
    for name, part in model.named_children():
        if part is stack:  # a model of one text is its stack
            setattr(shallow, name, _shared(stack))
    n_encoder_layers = model.config.encoder_layers or None
    shallow.config = replace(model.config, n_layers=n_layers, n_encoder_layers=n_encoder_layers)
    shallow.last_stack.blocks = stack.blocks[:n_layers]
    return shallow


def _shared(module: Module) -> Module:
    """A module with the same parts, which can be replaced without changing `module`."""
    other = copy.copy(module)
    other._modules = dict(module._modules)
    return other
