"""Claims that count, compare formulas or look at fresh weights: worlds for each verdict."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from explorer.analysis.claims import Result, attention, blocks, cost, counting, depth, positions
from explorer.analysis.clinic.fills import hidden_with_infinity
from explorer.analysis.machine.parameters import numbers_of
from explorer.runs.trace import trace
from models.attention import Attention
from models.blocks import Block
from models.config import ModelConfig
from models.feedforward import FeedForward
from tests.explorer.claims.test_claims import value

Find = Callable[..., Result]


def off(*kinds: type[nn.Module]) -> Callable[[nn.Module], int]:
    """A world in which modules of these kinds have one parameter more."""
    return lambda module: numbers_of(module) + isinstance(module, kinds)


def gated_off(module: nn.Module) -> int:
    """A world in which nets with a gate have one parameter more."""
    return numbers_of(module) + (isinstance(module, FeedForward) and module.gated)


@pytest.mark.parametrize(
    ("test", "count", "verdict"),
    [
        (counting.mha_count, numbers_of, "depends"),
        (counting.mha_count, off(nn.Module), "false"),
        (counting.ffn_table, numbers_of, "true"),
        (counting.ffn_table, gated_off, "depends"),
        (counting.ffn_table, off(nn.Module), "false"),
        (counting.totals, numbers_of, "true"),
        (counting.totals, off(Block), "depends"),
        (counting.totals, off(nn.Module), "false"),
        (counting.layer_shapes, off(Block), "depends"),
    ],
)
def test_a_count_is_the_one_claimed_where_the_modules_have_it(find, test, count, verdict) -> None:
    assert find(test, count).verdict == verdict


def test_attention_has_the_same_count_for_any_number_of_heads_where_none_share(find: Find) -> None:
    def count(module: nn.Module) -> int:
        assert isinstance(module, Attention)
        d_model = module.w_q.in_features
        return 4 * d_model**2 + (4 * d_model if module.w_q.bias is not None else 0)

    found = find(counting.mha_count, count)
    assert found.verdict == "true"
    assert found.why == ("true", "own_fits")


def test_the_readers_attention_is_said_to_fit_or_not(find: Find, tiny: Any) -> None:
    assert "own_fits" in find(counting.mha_count).why
    sharing = tiny("sharing", n_kv_heads=2)
    found = counting.mha_count(sharing, trace(sharing, "The cat"))
    assert "own_differs" in found.why
    assert (found.numbers["n_heads"], found.numbers["n_kv_heads"]) == (4, 2)


@pytest.mark.parametrize(("times", "verdict"), [(1, "true"), (2, "depends")])
def test_shapes_are_those_claimed_where_the_block_makes_them(find, times, verdict) -> None:
    def run(config: ModelConfig, shape: tuple[int, ...]) -> counting.Shapes:
        found = counting.block_shapes(config, shape)
        gate = counting.LONE.block_hook(0, "gate", "ffn")
        return found | ({gate: (times, *found[gate])} if gate in found else {})

    assert find(counting.shape_flow, run).verdict == verdict


def test_shapes_that_all_differ_refute_the_claim(find: Find) -> None:
    def run(config: ModelConfig, shape: tuple[int, ...]) -> counting.Shapes:
        return {name: (7, 7) for name in counting.block_shapes(config, shape)}

    assert find(counting.shape_flow, run).verdict == "false"
    assert find(counting.layer_shapes, run=run).verdict == "depends"
    assert find(counting.layer_shapes, off(nn.Module), run).verdict == "false"


def leaking(scores: Tensor, keep: Tensor) -> Tensor:
    return scores.softmax(-1)


@pytest.mark.parametrize(("fill", "verdict"), [(hidden_with_infinity, "true"), (leaking, "false")])
def test_a_fill_is_as_good_as_infinity_where_it_leaves_the_same(find, fill, verdict) -> None:
    ways = dict.fromkeys(("ten_thousand", "billion"), fill) | {"infinity": hidden_with_infinity}
    assert find(attention.fills, ways).verdict == verdict


def test_the_fills_depend_on_the_scores(find: Find, tiny: Any) -> None:
    found = find(attention.fills)
    assert found.verdict == "depends"
    assert found.why == ("depends", "own", "beyond", "rule")
    reader = tiny("reader", family="encoder-only")
    blind = attention.fills(reader, trace(reader, "The cat"))
    assert blind.why[1] == "random", "no causal mask, so no sentence of its own"


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
def test_reference_code_is_equivalent_where_it_gives_the_same(find, way, verdict) -> None:
    found = find(attention.reference, way)
    assert found.verdict == verdict
    close = sum(row.values[0] < 1e-4 for row in found.rows)
    assert found.numbers["same"] == close + ("neither" in found.why)
    if verdict == "true":
        assert found.why in [(verdict,), (verdict, "neither")]
    elif verdict == "false":
        assert found.why == (verdict,)
    else:
        assert "both" not in found.why, "it does not refuse, it is wrong"


@pytest.mark.parametrize(
    ("of_heads", "verdict"),
    [
        (lambda n: (100, 4096), "true"),
        (lambda n: (100, 4096 * n), "depends"),
        (lambda n: (100 * n, 4096), "false"),
    ],
)
def test_heads_are_free_where_nothing_grows(find, of_heads, verdict) -> None:
    assert find(cost.free_heads, of_heads).verdict == verdict


@pytest.mark.parametrize(
    ("turns", "verdict"),
    [
        (lambda width: np.arange(1.0, width + 1), "true"),
        (lambda width: np.arange(1.0, width + 1) + 5 * (np.arange(width) % 2), "depends"),
        (lambda width: np.arange(1.0, width + 1)[::-1], "false"),
    ],
)
def test_high_dimensions_are_slow_where_their_turns_are_long(find, turns, verdict) -> None:
    assert find(positions.frequencies, turns).verdict == verdict


class Sublayer(nn.Module):
    """x + LN(f(x)) with a block's weights; `off` is added, to be another design."""

    def __init__(self, block: Block, off: float) -> None:
        super().__init__()
        self.block, self.off = block, off

    def forward(self, x: Tensor) -> Tensor:
        block = self.block
        x = x + block.attn_norm(block.attn(x))
        return x + block.ffn_norm(block.ffn(x)) + self.off


@pytest.mark.parametrize(
    ("published", "verdict"),
    [
        (lambda block: Sublayer(block, 0.0), "true"),
        (lambda block: Sublayer(block, 1.0), "depends"),
        (None, "false"),
    ],
)
def test_the_original_is_the_design_that_gives_the_numbers(find, published, verdict) -> None:
    assert find(blocks.original, published).verdict == verdict


@pytest.mark.parametrize(("n_seeds", "verdict"), [(3, "true"), (1, "depends"), (0, "false")])
def test_deep_stacks_explode_where_their_gradients_do(find, n_seeds, verdict) -> None:
    def start(placement: str, n_layers: int, seed: int) -> tuple[float, float, float]:
        explodes = (placement, n_layers) == ("pre", 192) and seed < n_seeds
        return 2.0, (torch.inf if explodes and seed == 0 else 1e6 if explodes else 1.0), 0.5

    found = find(depth.deep_pre, start)
    assert found.verdict == verdict
    assert "branch_too" in found.why, "the other design is calm in this world"
    assert value(found, "deep_pre", "last_gradient", "192") == 0.5
