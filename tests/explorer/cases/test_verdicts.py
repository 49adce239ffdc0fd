"""Experiments that can come out three ways: each is fed worlds in which the claim is true, is
false, and depends.
"""

import copy
import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from explorer.analysis.cases import attention, blocks, cost
from explorer.analysis.model.parameters import numbers_of
from explorer.runs.passes import walked
from explorer.runs.trace import trace
from models.attention import Attention
from models.blocks import Block
from tests.explorer.cases.test_claims import TEXT, value

GELU = blocks.ACTIVATIONS["gelu"]


def normal(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=generator)


@pytest.mark.parametrize(
    ("factor", "width", "verdict"),
    [(30.0, 1024, "true"), (1e-3, 1024, "depends"), (1e-3, 1, "false")],
)
def test_softmax_saturates_where_scores_are_large(translator, factor, width, verdict):
    model = copy.deepcopy(translator.model)
    for site in translator.sites:
        w_q = model.get_submodule(site.name).w_q
        w_q.weight.mul_(factor)
        w_q.bias.mul_(factor)
    traced = trace(replace(translator, model=model), TEXT)
    assert attention.saturation(traced, width).verdict == verdict


def stores_all_pairs(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return q @ k.transpose(-2, -1)


def stores_rows(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return q + k


def off(*kinds: type[nn.Module]) -> Callable[[nn.Module], int]:
    """A world in which modules of these kinds have one parameter more."""
    return lambda module: numbers_of(module) + isinstance(module, kinds)


def test_attention_counts_for_any_number_of_heads_and_the_readers_fits_or_not(find, tiny):
    def count(module: nn.Module) -> int:
        assert isinstance(module, Attention)
        d_model = module.w_q.in_features
        return 4 * d_model**2 + (4 * d_model if module.w_q.bias is not None else 0)

    assert find(cost.mha_count, count).verdict == "true"
    for found, fits in ((find(cost.mha_count), True),
                        (cost.mha_count(tiny("sharing", n_kv_heads=2)), False)):  # fmt: skip
        own, said = (value(found, "own_attention", column) for column in ("counted", "said"))
        assert (own == said) == fits


class Sublayer(nn.Module):
    """x + LN(f(x)) with a block's weights; `off` is added, to be another design."""

    def __init__(self, block: Block, off: float) -> None:
        super().__init__()
        self.block, self.off = block, off

    def forward(self, x: Tensor) -> Tensor:
        block = self.block
        x = x + block.attn_norm(block.attn(x))
        return x + block.ffn_norm(block.ffn(x)) + self.off


def kernels(*stores: Callable[..., Tensor]) -> dict[str, Callable[..., Tensor]]:
    return dict(zip(("by_hand", "four_axes", "three_axes"), stores, strict=True))


def taking(*tries: tuple[float, ...]) -> Callable[[object], float]:
    """A stopwatch: what each way takes in the first try, in the second, and again."""
    left = itertools.cycle([seconds for each in tries for seconds in each])
    return lambda function: next(left)


def at_lengths(*ratios: tuple[float, float]) -> Callable[[object], float]:
    """At each of four lengths: written out takes so many times as long as each of two calls."""
    return taking(
        *((1.0, 1 / four, 1 / three) for four, three in ratios for _ in range(cost.TIMED))
    )


WORLDS: list[tuple[Any, Any, str]] = [
    (blocks.gelu_tanh, lambda x: GELU(x) + torch.full_like(x, 9e-4), "true"),
    (blocks.gelu_tanh, lambda x: GELU(x) + 2e-3 * (x.abs() > 1), "depends"),
    (blocks.gelu_tanh, lambda x: GELU(x) + torch.full_like(x, 2e-3), "false"),
    (blocks.original, lambda block: Sublayer(block, 0.0), "true"),
    (blocks.original, lambda block: Sublayer(block, 1.0), "depends"),
    (blocks.original, blocks._as_torch, "false"),
    (attention.variance, normal, "true"),
    (attention.variance, lambda s, g: normal(s, g).sign(), "true"),
    # Above 64 features, each vector repeats its first entry: no longer independent.
    (
        attention.variance,
        lambda s, g: normal(s, g) if s[-1] <= 64 else normal((*s[:-1], 1), g).expand(s),
        "depends",
    ),
    (attention.variance, lambda s, g: 1.2 * normal(s, g), "false"),
    (cost.quadratic, kernels(*[stores_all_pairs] * 3), "true"),
    (cost.quadratic, kernels(stores_all_pairs, stores_rows, stores_rows), "depends"),
    (cost.quadratic, kernels(*[stores_rows] * 3), "false"),
    (cost.mha_count, numbers_of, "depends"),
    (cost.mha_count, off(nn.Module), "false"),
    # LayerNorm written out, LayerNorm of torch, RMSNorm written out, RMSNorm of torch.
    (cost.rms_speed, taking((1.15, 1.12, 1.0, 1.0)), "true"),
    (cost.rms_speed, taking((1.15, 1.12, 1.0, 1.0), (0.99, 1.12, 1.0, 1.0)), "depends"),  # overlaps
    (cost.rms_speed, taking((3.0, 0.5, 1.0, 2.0)), "depends"),
    (cost.rms_speed, taking((3.0, 3.0, 1.0, 1.0)), "depends"),  # faster, not by what is said
    (cost.rms_speed, taking((0.9, 0.5, 1.0, 2.0)), "false"),
    (cost.rms_speed, taking((0.9, 0.5, 1.0, 2.0), (1.2, 0.5, 1.0, 2.0)), "depends"),
    (cost.fused_speed, at_lengths((1.5, 1.5), (2, 2), (3, 3), (4, 4)), "true"),
    (cost.fused_speed, at_lengths((5, 5), (2, 2), (3, 3), (4, 4)), "depends"),  # least where long
    (cost.fused_speed, at_lengths((1, 1), (2, 1), (3, 1), (4, 1)), "depends"),
    (cost.fused_speed, at_lengths((9, 9), (9, 9), (1, 1), (1, 1)), "false"),
]  # fmt: skip


@pytest.mark.parametrize(("test", "world", "verdict"), WORLDS)
def test_the_verdict_is_that_of_the_world(find, test, world, verdict):
    assert find(test, world).verdict == verdict


def test_ways_take_turns_and_the_peak_is_what_is_held_at_once():
    asked: list[str] = []
    told: list[tuple[int, int]] = []

    def seconds(way: Callable[[], object]) -> float:
        asked.append(str(way()))
        return float(len(asked))

    steps = cost.interleaved({"a": lambda: "a", "b": lambda: "b"}, seconds)
    times = walked(steps, lambda *step: told.append(step))
    assert asked == ["a", "b"] * cost.TIMED
    assert times["b"].tolist() == [2000 * (turn + 1) for turn in range(cost.TIMED)]
    assert told[-1] == (cost.TIMED, cost.TIMED)

    def held() -> None:
        first = torch.ones(1000, 100)
        del first
        second = torch.ones(1000, 200)
        assert second.numel()

    assert cost.peak_bytes(held) == pytest.approx(4 * 200_000, rel=0.01)


def test_times_are_those_of_the_stopwatch_and_one_slow_try_overlaps(find):
    found = find(cost.rms_speed, taking((1.15, 1.12, 1.0, 1.0)))
    assert value(found, "layer_norm_written", "milliseconds") == 1150
    assert value(found, "layer_norm_written", "timed_range") == 0
    found = find(cost.fused_speed, at_lengths((1, 1), (2, 2), (3, 3), (4, 1)))
    assert value(found, "tokens", "gain_four", "1024") == pytest.approx(4)
    assert value(found, "tokens", "gain_three", "1024") == pytest.approx(1)
    slow = [(1.0, 0.5, 0.5)] * (cost.TIMED - 1) + [(1.0, 1.0, 1.0)]
    found = find(cost.fused_speed, taking(*slow))
    assert found.verdict == "false"
    assert value(found, "tokens", "gain_four_range", "1024") == pytest.approx(1)
