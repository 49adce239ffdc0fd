"""A matrix kept in two orders: one product, and no order that outlives a change of the weights."""

import copy

import pytest
import torch
from torch import nn

from models.linear import FEW, Linear, RowCopy, linear

SHAPES = [(FEW, 1), (1, FEW), (2, 2)]  # all of FEW rows


def laid_out(d_in: int, d_out: int, bias: bool = True) -> Linear:
    torch.manual_seed(0)
    made = Linear(d_in, d_out, bias=bias).double()
    made.lay_out()
    return made


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("d_in", "d_out"), [(6, 9), (9, 6), (6, 6)])
@pytest.mark.parametrize("shape", [*SHAPES, (1, 1), (3, 1), (3, 4)])
def test_it_is_the_same_product(shape, d_in, d_out, bias):
    made = laid_out(d_in, d_out, bias)
    x = torch.randn(*shape, d_in).double()
    expected = nn.functional.linear(x, made.weight, made.bias)
    with torch.inference_mode():
        found = made(x)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)
    assert found.is_contiguous()


@pytest.mark.parametrize("shape", SHAPES)
def test_few_rows_are_read_by_rows_and_others_are_not(shape):
    weight, bias = torch.randn(5, 3), torch.randn(5)
    wrong = RowCopy.of(torch.zeros(5, 3))  # seen in the result, where it is read
    with torch.no_grad():
        assert torch.equal(linear(torch.randn(*shape, 3), weight, bias, wrong)[0, 0], bias)
        more = torch.randn(FEW + 1, 1, 3)
        expected = nn.functional.linear(more, weight, bias)
        assert torch.equal(linear(more, weight, bias, wrong), expected)


def test_a_gradient_reaches_the_parameter():
    made = laid_out(3, 5)
    made(torch.randn(FEW, 1, 3).double()).sum().backward()
    assert made.weight.grad.abs().sum() > 0


def test_only_a_widening_map_is_stored_twice():
    wide, narrow = laid_out(3, 5), laid_out(5, 3)
    assert wide.weight.t().is_contiguous()
    assert wide._by_rows.matrix.is_contiguous()
    assert wide._by_rows.matrix.data_ptr() != wide.weight.data_ptr()
    assert narrow._by_rows.matrix.data_ptr() == narrow.weight.data_ptr()


CHANGES = {
    "in place": lambda made: made.weight.mul_(2),
    "copied, then in place": lambda made: made.weight.mul_(2),
    "converted": lambda made: made.float().double().weight.mul_(2),
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
        x = torch.randn(FEW, 1, 3).double()
        expected = nn.functional.linear(x, made.weight, made.bias)
        torch.testing.assert_close(made(x), expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("d_out", [2, 5])
def test_a_converted_map_multiplies_in_its_new_precision(d_out):
    made = laid_out(3, d_out).float()
    x = torch.randn(FEW, 1, 3)
    with torch.inference_mode():
        torch.testing.assert_close(made(x), nn.functional.linear(x, made.weight, made.bias))
