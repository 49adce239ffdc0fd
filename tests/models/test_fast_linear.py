"""Linear maps laid out for decoding: the same product, from whichever copy of the matrix."""

import copy

import pytest
import torch
from torch import nn

from models import fast, fast_linear
from models.config import ModelConfig
from models.fast import lay_out_for_decoding
from models.fast_linear import FastLinear, Packed, linear, settle_single_rows
from models.transformer import build_model

SEVERAL = 4
SHAPES = [(SEVERAL, 1), (1, SEVERAL), (2, 1), (2, 4)]  # of two to eight rows


def laid_out(
    d_in: int, d_out: int, bias: bool = True, dtype: torch.dtype = torch.float32
) -> FastLinear:
    torch.manual_seed(0)
    made = FastLinear(d_in, d_out, bias=bias).to(dtype)
    made.lay_out()
    return made


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("d_in", "d_out"), [(6, 9), (9, 6), (6, 6)])
@pytest.mark.parametrize("shape", [*SHAPES, (1, 1), (3, 1), (3, 4)])
def test_it_is_the_same_product(shape, d_in, d_out, bias, dtype):
    made = laid_out(d_in, d_out, bias, dtype)
    x = torch.randn(*shape, d_in, dtype=dtype)
    expected = nn.functional.linear(x, made.weight, made.bias)
    with torch.inference_mode():
        found = made(x)
    atol = 1e-12 if dtype == torch.float64 else 1e-6
    torch.testing.assert_close(found, expected, atol=atol, rtol=0)
    assert found.is_contiguous()


@pytest.mark.parametrize("shape", SHAPES)
def test_few_rows_are_read_packed_and_others_are_not(shape):
    weight, bias = torch.randn(5, 3), torch.randn(5)
    wrong = Packed.of(torch.zeros(5, 3))  # seen in the result, where it is read
    assert wrong is not None
    with torch.no_grad():
        assert torch.equal(linear(torch.randn(*shape, 3), weight, bias, wrong)[0, 0], bias)
        wrong.for_one = True
        assert torch.equal(linear(torch.randn(1, 1, 3), weight, bias, wrong)[0, 0], bias)
        wrong.for_one = False
        for n_rows in (1, 9):
            x = torch.randn(n_rows, 1, 3)
            expected = nn.functional.linear(x, weight, bias)
            assert torch.equal(linear(x, weight, bias, wrong), expected)


def test_a_gradient_reaches_the_parameter():
    made = laid_out(3, 5)
    made(torch.randn(SEVERAL, 1, 3)).sum().backward()
    assert made.weight.grad.abs().sum() > 0


def test_every_map_is_stored_by_columns_and_packed():
    for made in (laid_out(3, 5), laid_out(5, 3)):
        assert made.weight.t().is_contiguous()
        assert made._packed is not None
        made.to(torch.float64).to(torch.float32)
        assert made._packed is None
        made.lay_out()
        assert made._packed is not None
    assert laid_out(3, 5, dtype=torch.float64)._packed is None  # oneDNN multiplies in float32


@pytest.mark.parametrize("sooner", ["packed", "columns"])
def test_single_rows_are_timed_through_large_widening_maps(sooner, monkeypatch):
    monkeypatch.setattr(fast_linear, "LARGE", 12)
    large, narrow, small = laid_out(3, 5), laid_out(5, 3), laid_out(2, 5)
    maps = [(each.weight, each._packed) for each in (large, narrow, small)]
    ticks = iter((0, 3, 5) * 3 if sooner == "packed" else (0, 2, 5) * 3)
    monkeypatch.setattr(fast_linear, "perf_counter", lambda: next(ticks))
    settle_single_rows(maps)
    assert [packed.for_one for _, packed in maps] == [sooner == "packed", False, False]


def test_a_laid_out_model_has_its_maps_timed(monkeypatch):
    timed = []
    monkeypatch.setattr(fast, "settle_single_rows", timed.extend)
    sizes = {"d_model": 8, "n_layers": 1, "n_heads": 2, "d_ff": 12}
    model = build_model(ModelConfig(family="decoder-only", vocab_size=20, **sizes))
    lay_out_for_decoding(model.eval())
    shapes = sorted(tuple(weight.shape) for weight, _ in timed)
    assert shapes == [(8, 8), (8, 12), (12, 8), (20, 8), (24, 8)]  # three projections are one


def test_without_onednn_a_map_is_only_reordered(monkeypatch):
    def missing(*args):
        raise NotImplementedError("no kernel of this name")

    monkeypatch.setattr(torch.ops.mkldnn, "_reorder_linear_weight", missing)
    made = laid_out(3, 5)
    assert made._packed is None
    x = torch.randn(SEVERAL, 3)
    with torch.inference_mode():
        torch.testing.assert_close(made(x), nn.functional.linear(x, made.weight, made.bias))


CHANGES = {
    "in place": lambda made: made.weight.mul_(2),
    "copied, then in place": lambda made: made.weight.mul_(2),
    "converted": lambda made: made.double().float().weight.mul_(2),
    "loaded": lambda made: made.load_state_dict(
        {name: 2 * value for name, value in made.state_dict().items()}
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_later_change_of_the_weights_is_seen(change):
    made = laid_out(3, 5)
    if change.startswith("copied"):
        made = copy.deepcopy(made)
    with torch.no_grad():
        CHANGES[change](made)
        x = torch.randn(SEVERAL, 1, 3)
        expected = nn.functional.linear(x, made.weight, made.bias)
        torch.testing.assert_close(made(x), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("d_out", [2, 5])
def test_a_converted_map_multiplies_in_its_new_precision(d_out):
    made = laid_out(3, d_out).double()
    x = torch.randn(SEVERAL, 1, 3).double()
    with torch.inference_mode():
        torch.testing.assert_close(made(x), nn.functional.linear(x, made.weight, made.bias))
