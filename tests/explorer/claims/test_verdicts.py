"""Experiments that can come out three ways: each is fed worlds in which the claim is true, is
false, and depends.
"""

import copy
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from explorer.analysis.claims import Result, attention, blocks, cost, counting, positions
from explorer.analysis.machine.cost import Pass, Passes
from explorer.library import LoadedModel
from explorer.runs.passes import Steps
from explorer.runs.trace import trace
from tests.explorer.claims.test_claims import value

TEXT = "The cat sat on the mat."


@pytest.mark.parametrize(
    ("norm", "verdict"),
    [
        (lambda width: nn.BatchNorm1d(width, track_running_stats=False), "true"),
        (nn.BatchNorm1d, "depends"),
        (nn.LayerNorm, "false"),
    ],
)
def test_a_norm_is_unstable_where_neighbours_move_it(find, norm, verdict) -> None:
    found = find(blocks.batch_norm, norm)
    assert found.verdict == verdict
    assert value(found, "another_sentence", "layer_norm") < 1e-5
    assert value(found, "one_token", "layer_norm") < 1e-5


@pytest.mark.parametrize(
    ("off", "verdict"),
    [
        (lambda x: torch.full_like(x, 9e-4), "true"),
        (lambda x: 2e-3 * (x.abs() > 1), "depends"),
        (lambda x: torch.full_like(x, 2e-3), "false"),
    ],
)
def test_an_activation_is_the_other_within_a_thousandth(find, off, verdict) -> None:
    exact = blocks.ACTIVATIONS["gelu"]
    assert find(blocks.gelu_tanh, lambda x: exact(x) + off(x)).verdict == verdict


def test_the_gelus_differ_by_many_float16_steps_where_they_are_small(find) -> None:
    found = find(blocks.gelu_tanh)
    assert value(found, "float16_below", "value") == pytest.approx(62, abs=1)
    assert value(found, "float16_above", "value") < 1
    assert value(found, "float16_most", "value") > 500


def normal(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=generator)


@pytest.mark.parametrize(
    ("draw", "verdict"),
    [
        (normal, "true"),
        (lambda shape, generator: torch.randn(shape, generator=generator).sign(), "true"),
        # Above 64 features, each vector repeats its first entry: no longer independent.
        (
            lambda s, g: normal(s, g) if s[-1] <= 64 else normal((*s[:-1], 1), g).expand(s),
            "depends",
        ),
        (lambda shape, generator: 2 * normal(shape, generator), "false"),
    ],
)
def test_the_variance_is_that_of_the_entries_drawn(find, draw, verdict) -> None:
    assert find(attention.variance, draw).verdict == verdict


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
def test_softmax_saturates_where_scores_are_large(translator, factor, width, verdict) -> None:
    loaded = sharper(translator, factor)
    traced = trace(loaded, TEXT)
    found = attention.saturation(loaded, traced, width)
    assert found.verdict == verdict


@pytest.mark.parametrize(
    ("share", "verdict"),
    [
        (lambda length, seed: 0.95, "true"),
        (lambda length, seed: 0.95 if length <= 12 else 0.1, "depends"),
        (lambda length, seed: 0.95 if length <= 14 or seed else 0.8, "depends"),
        (lambda length, seed: 0.95 if length <= 10 else 0.1, "false"),
        (lambda length, seed: 0.0, "depends"),  # not even what it was trained on
    ],
)
def test_a_model_extrapolates_as_far_as_it_is_right(find, share, verdict) -> None:
    assert find(positions.extrapolation, share).verdict == verdict


@pytest.mark.parametrize(
    ("steps", "difference", "verdict"),
    [((1, 64, 64), 0, "true"), ((1, 64, 64), 0.1, "depends"), ((1, 64, 9), 0, "depends"),
     ((1, 9, 9), 0, "false")],
)  # fmt: skip
def test_training_is_parallel_where_it_takes_one_step_for_the_same(
    find: Callable[..., Result], steps: tuple[int, ...], difference: float, verdict: str
) -> None:
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


@pytest.mark.parametrize(
    ("kernels", "verdict"),
    [
        ((stores_all_pairs, stores_all_pairs), "true"),
        ((stores_all_pairs, stores_rows), "depends"),
        ((stores_rows, stores_rows), "false"),
    ],
)
def test_memory_is_quadratic_where_pairs_are_stored(find, kernels, verdict) -> None:
    names = dict(zip(("by_hand", "four_axes", "three_axes"), (*kernels, kernels[1]), strict=True))
    assert find(cost.quadratic, names).verdict == verdict


def test_the_peak_is_what_is_held_at_once() -> None:
    def held() -> None:
        first = torch.ones(1000, 100)
        del first
        second = torch.ones(1000, 200)
        assert second.numel()

    assert cost.peak_bytes(held) == pytest.approx(4 * 200_000, rel=0.01)


@pytest.mark.parametrize(
    ("tied", "untied", "verdict"),
    [
        (counting.PUBLISHED, counting.PUBLISHED + 131_072_000, "true"),
        (counting.PUBLISHED - 131_072_000, counting.PUBLISHED, "depends"),
        (counting.PUBLISHED, counting.PUBLISHED + 1, "false"),
    ],
)
def test_tying_saves_what_is_said_in_the_model_that_is_named(find, tied, untied, verdict) -> None:
    found = find(counting.tying, lambda tie: tied if tie else untied)
    assert found.verdict == verdict
    assert "own_untied" in found.why  # the tiny model does not tie
    assert value(found, "own_saved", "counted") == value(found, "own_saved", "said")
