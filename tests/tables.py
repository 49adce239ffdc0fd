"""Fixed tables for models, tiny random real ones, masks from drawings, and comparing tensors."""

import math
from functools import cache
from typing import Any

import torch
from torch import Tensor

from models.config import ModelConfig
from models.decoding import DecodeStep, Hypothesis, best, decode
from models.strategies import Strategy
from models.transformer import DecoderOnly, Model, build_model

EOS = 2


class Chain(DecoderOnly):
    """The next token depends on the last one only: P(next | last) = table[last]."""

    def __init__(self, table: torch.Tensor) -> None:
        super().__init__(
            ModelConfig(
                family="decoder-only",
                vocab_size=len(table),
                d_model=2,
                n_layers=1,
                n_heads=1,
                d_ff=1,
                positions="none",
            )
        )
        self.table = table
        self.forwards: list[tuple[int, ...]] = []
        self.eval()

    def run(self, rows, memory=None, cache=None):
        tokens = rows.tgt
        self.forwards.append(tuple(tokens.shape))
        if cache is not None:
            column = torch.zeros(*tokens.shape, 1, 1).transpose(1, 2)
            cache.self_attn[0].append(column, column)
        return self.table[tokens]

    def logits_of(self, x):
        return x


def chain(n_vocab: int = 6, **rows: dict[int, float]) -> Chain:
    """`chain(_3={4: 0.7, 2: 0.3})`: after token 3, 4 with 0.7 and eos with 0.3. Elsewhere: eos."""
    table = torch.full((n_vocab, n_vocab), -math.inf)
    table[:, EOS] = 0.0
    for name, probs in rows.items():
        last = int(name[1:])
        table[last] = -math.inf
        for token, prob in probs.items():
            table[last, token] = math.log(prob)
    return Chain(table)


def random_chain(seed: int, n_vocab: int = 5) -> Chain:
    return Chain(2 * torch.randn(n_vocab, n_vocab, generator=torch.Generator().manual_seed(seed)))


def only(model: Model, strategy: Strategy, limit: int = 8, **options: Any) -> Hypothesis:
    """The answer for the one prompt `<s>`."""
    return best(decode(model, torch.tensor([[1]]), strategy, limit, **options))[0]


@cache
def wide_model(family: str, positions: str = "sinusoidal", vocab_size: int = 13) -> Model:
    """Random weights, logits spread widely enough for outputs that vary and end."""
    torch.manual_seed(3)
    config = ModelConfig(
        family=family,
        positions=positions,
        vocab_size=vocab_size,
        d_model=16,
        n_layers=2,
        n_heads=4,
        n_kv_heads=2,
        d_ff=24,
        n_ctx=14,
        tie_embeddings=False,
        bias=False,
    )
    # float64: a batch and its rows alone then never differ enough to turn a near tie round.
    model = build_model(config).double().eval()
    model.unembed.weight.data *= 3
    return model


def drawn(*rows: str) -> torch.Tensor:
    """A mask from a drawing: x = may attend."""
    return torch.tensor([[cell == "x" for cell in row] for row in rows])


def chosen(step: DecodeStep) -> list[int]:
    """The last token of the best extension of each sentence; 0 where it was finished before."""
    made = (
        [h for h in (*live, *ended) if len(h.tokens) == step.index + 1]
        for live, ended in zip(step.live, step.ended, strict=True)
    )
    return [max(each, key=lambda h: h.logprob).tokens[-1] if each else 0 for each in made]


def finished(step: DecodeStep) -> list[bool]:
    return [not live for live in step.live]


def assert_close(actual: Tensor, expected: Tensor, atol: float, message: str | None = None) -> None:
    """As torch's own, which takes a third of a millisecond to find nothing wrong."""
    alike = actual.dtype == expected.dtype and actual.shape == expected.shape
    if not (alike and torch.allclose(actual, expected, atol=atol, rtol=0)):
        torch.testing.assert_close(actual, expected, atol=atol, rtol=0, msg=message)
