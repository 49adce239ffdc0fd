"""Experiments that can come out three ways: each is fed worlds in which the claim is true, is
false, and depends.
"""

import copy
import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from explorer.analysis.cases import attention, blocks, cost, counting, positions
from explorer.analysis.cases.fills import hidden_with_infinity
from explorer.analysis.model.cost import Pass, Passes
from explorer.analysis.model.parameters import numbers_of
from explorer.library import LoadedModel
from explorer.runs.passes import Steps, walked
from explorer.runs.trace import trace
from models.attention import Attention
from models.blocks import Block
from models.config import ModelConfig
from models.feedforward import FeedForward
from tests.explorer.cases.test_claims import value

TEXT = "The cat sat on the mat."
GELU = blocks.ACTIVATIONS["gelu"]


def normal(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=generator)


def sharper(loaded: LoadedModel, factor: float) -> LoadedModel:
    """The model with all queries multiplied by a factor."""
    model = copy.deepcopy(loaded.model)
    for site in loaded.sites:
        w_q = model.get_submodule(site.name).w_q
        w_q.weight.mul_(factor)
        w_q.bias.mul_(factor)
    return replace(loaded, model=model)


@pytest.mark.parametrize(
    ("factor", "width", "verdict"),
    [(30.0, 1024, "true"), (1e-3, 1024, "depends"), (1e-3, 1, "false")],
)
def test_softmax_saturates_where_scores_are_large(translator, factor, width, verdict):
    loaded = sharper(translator, factor)
    traced = trace(loaded, TEXT)
    found = attention.saturation(traced, width)
    assert found.verdict == verdict


@pytest.mark.parametrize(
    ("steps", "difference", "verdict"),
    [((1, 64, 64), 0, "true"), ((1, 64, 64), 0.1, "depends"), ((1, 64, 9), 0, "depends"),
     ((1, 9, 9), 0, "false")],
)  # fmt: skip
def test_training_is_parallel_where_it_takes_one_step_for_the_same(
    find, steps, difference, verdict
):
    seconds = iter(range(1, 100))

    def measure(*args: object) -> Steps[Passes]:
        yield 1, 1
        names = ("training", "no_cache", "with_cache")
        passes = (Pass(n, s, 64, next(seconds)) for n, s in zip(names, steps, strict=True))
        return Passes(tuple(passes), difference)

    found = find(cost.parallel, measure)
    assert found.verdict == verdict
    assert value(found, "training", "milliseconds") == 4000  # the median of 1, 4 and 7 seconds
    assert value(found, "training", "milliseconds_range") == 6000


def stores_all_pairs(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return q @ k.transpose(-2, -1)


def stores_rows(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return q + k


def off(*kinds: type[nn.Module]) -> Callable[[nn.Module], int]:
    """A world in which modules of these kinds have one parameter more."""
    return lambda module: numbers_of(module) + isinstance(module, kinds)


def gated_off(module: nn.Module) -> int:
    """A world in which nets with a gate have one parameter more."""
    return numbers_of(module) + (isinstance(module, FeedForward) and module.gated)


def test_attention_counts_for_any_number_of_heads_and_the_readers_fits_or_not(find, tiny):
    def count(module: nn.Module) -> int:
        assert isinstance(module, Attention)
        d_model = module.w_q.in_features
        return 4 * d_model**2 + (4 * d_model if module.w_q.bias is not None else 0)

    assert find(counting.mha_count, count).verdict == "true"
    for found, fits in ((find(counting.mha_count), True),
                        (counting.mha_count(tiny("sharing", n_kv_heads=2)), False)):  # fmt: skip
        own, said = (value(found, "own_attention", column) for column in counting.COLUMNS)
        assert (own == said) == fits


@pytest.mark.parametrize(("times", "verdict"), [(1, "true"), (2, "depends")])
def test_shapes_are_those_claimed_where_the_block_makes_them(find, times, verdict):
    def run(config: ModelConfig, shape: tuple[int, ...]) -> counting.Shapes:
        found = counting.block_shapes(config, shape)
        gate = counting.LONE.block_hook(0, "gate", "ffn")
        return found | ({gate: (times, *found[gate])} if gate in found else {})

    assert find(counting.shape_flow, run).verdict == verdict


def test_shapes_that_differ_refute_and_ties_are_told_what_they_save(find):
    def run(config: ModelConfig, shape: tuple[int, ...]) -> counting.Shapes:
        return {name: (7, 7) for name in counting.block_shapes(config, shape)}

    assert find(counting.shape_flow, run).verdict == "false"
    assert find(counting.layer_shapes, run=run).verdict == "depends"
    assert find(counting.layer_shapes, off(nn.Module), run).verdict == "false"
    found = find(counting.tying)
    assert value(found, "own_saved", "counted") == value(found, "own_saved", "said")


def test_the_fills_depend_on_the_scores(find, tiny):
    found = find(attention.fills)
    assert (found.verdict, found.rows[0].name) == ("depends", "own_scores")
    reader = tiny("reader", family="encoder-only")
    blind = attention.fills(trace(reader, "The cat"))
    assert blind.rows[0].name == "random_scores", "no causal mask, so no sentence of its own"


def operator(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)


@pytest.mark.parametrize(
    ("way", "verdict"),
    [
        (operator, "true"),
        (lambda *args: attention.one_bias(*args[:4], False), "depends"),  # blind to is_causal
        (lambda *args: operator(*args[:4], args[4] and args[3] is None) + 1, "false"),
    ],
)
def test_reference_code_is_equivalent_where_it_gives_the_same(find, way, verdict):
    found = find(attention.reference, way)
    assert found.verdict == verdict
    close = sum(row.values[0] < 1e-4 for row in found.rows)
    both_refuse = verdict == "true" and math.isnan(value(found, "mask_and_causal", "difference"))
    assert found.numbers["same"] == close + both_refuse


class Sublayer(nn.Module):
    """x + LN(f(x)) with a block's weights; `off` is added, to be another design."""

    def __init__(self, block: Block, off: float) -> None:
        super().__init__()
        self.block, self.off = block, off

    def forward(self, x: Tensor) -> Tensor:
        block = self.block
        x = x + block.attn_norm(block.attn(x))
        return x + block.ffn_norm(block.ffn(x)) + self.off


@pytest.mark.parametrize(("n_seeds", "verdict"), [(3, "true"), (1, "depends"), (0, "false")])
def test_deep_stacks_explode_where_their_gradients_do(find, n_seeds, verdict):
    def start(placement: str, n_layers: int, seed: int) -> tuple[float, float, float]:
        explodes = (placement, n_layers) == ("pre", 192) and seed < n_seeds
        return 2.0, (torch.inf if explodes and seed == 0 else 1e6 if explodes else 1.0), 0.5

    found = find(blocks.deep_pre, start)
    assert found.verdict == verdict
    assert value(found, "deep_pre", "last_gradient", "192") == 0.5


def filled_with(fill: Callable[[Tensor, Tensor], Tensor]) -> dict[str, Any]:
    return dict.fromkeys(("ten_thousand", "billion"), fill) | {"infinity": hidden_with_infinity}


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


def qkv(*ratios: float) -> Callable[[object], float]:
    """At each of three sizes: three matrices take so many times as long as one."""
    return taking(*((ratio, 1.0) for ratio in ratios for _ in range(cost.TIMED)))


def saving(tied: int, untied: int) -> Callable[[bool], int]:
    return lambda tie: tied if tie else untied


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
    (attention.variance, lambda s, g: 2 * normal(s, g), "false"),
    (attention.fills, filled_with(hidden_with_infinity), "true"),
    (attention.fills, filled_with(lambda scores, keep: scores.softmax(-1)), "false"),
    (positions.extrapolation, lambda length, seed: 0.95, "true"),
    (positions.extrapolation, lambda length, seed: 0.95 if length <= 12 else 0.1, "depends"),
    (positions.extrapolation, lambda n, seed: 0.95 if n <= 14 or seed else 0.8, "depends"),
    (positions.extrapolation, lambda length, seed: 0.95 if length <= 10 else 0.1, "false"),
    (positions.extrapolation, lambda length, seed: 0.0, "depends"),  # not even what it learned
    (positions.frequencies, lambda width: np.arange(1.0, width + 1), "true"),
    (positions.frequencies, lambda width: np.arange(1.0, width + 1) + 5 * (np.arange(width) % 2),
     "depends"),
    (positions.frequencies, lambda width: np.arange(1.0, width + 1)[::-1], "false"),
    (cost.quadratic, kernels(*[stores_all_pairs] * 3), "true"),
    (cost.quadratic, kernels(stores_all_pairs, stores_rows, stores_rows), "depends"),
    (cost.quadratic, kernels(*[stores_rows] * 3), "false"),
    (cost.free_heads, lambda n: (100, 4096), "true"),
    (cost.free_heads, lambda n: (100, 4096 * n), "depends"),
    (cost.free_heads, lambda n: (100 * n, 4096), "false"),
    (counting.mha_count, numbers_of, "depends"),
    (counting.mha_count, off(nn.Module), "false"),
    (counting.ffn_table, numbers_of, "true"),
    (counting.ffn_table, gated_off, "depends"),
    (counting.ffn_table, off(nn.Module), "false"),
    (counting.totals, numbers_of, "true"),
    (counting.totals, off(Block), "depends"),
    (counting.totals, off(nn.Module), "false"),
    (counting.layer_shapes, off(Block), "depends"),
    (counting.tying, saving(counting.PUBLISHED, counting.PUBLISHED + 131_072_000), "true"),
    (counting.tying, saving(counting.PUBLISHED - 131_072_000, counting.PUBLISHED), "depends"),
    (counting.tying, saving(counting.PUBLISHED, counting.PUBLISHED + 1), "false"),
    (blocks.batch_norm, partial(nn.BatchNorm1d, track_running_stats=False), "true"),
    (blocks.batch_norm, nn.BatchNorm1d, "depends"),
    (blocks.batch_norm, nn.LayerNorm, "false"),
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
    (cost.fused_qkv, qkv(1.5, 1.5, 1.5), "true"),
    (cost.fused_qkv, qkv(1.5, 1.0, 1.0), "depends"),
    (cost.fused_qkv, qkv(1.0, 1.0, 0.8), "false"),
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
