"""Linear maps laid out for decoding: the same product, from whichever copy of the matrix."""

import copy

import pytest
import torch
from torch import nn

import models.fast.maps
from models.fast.maps import (
    FastLinear,
    Packed,
    linear,
    many_are_sooner_packed,
    read_packed,
    settle_single_rows,
)

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


@pytest.mark.parametrize("shape", [(9,), (5, 17), (3, 700)], ids=str)
def test_packed_rows_of_any_number_give_the_same_product(shape):
    made, x = laid_out(6, 9), torch.randn(*shape, 6)
    with torch.inference_mode():
        found = read_packed(x, made._packed, made.bias)
        expected = nn.functional.linear(x, made.weight, made.bias)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("shape", SHAPES)
def test_few_rows_are_read_packed_and_others_where_that_is_sooner(shape, monkeypatch):
    weight, bias = torch.randn(5, 3), torch.randn(5)
    wrong = Packed.of(torch.zeros(5, 3))  # seen in the result, where it is read
    with torch.no_grad():
        assert torch.equal(linear(torch.randn(*shape, 3), weight, bias, wrong)[0, 0], bias)
        wrong.for_one = True
        assert torch.equal(linear(torch.randn(1, 1, 3), weight, bias, wrong)[0, 0], bias)
        wrong.for_one = False
        for n_rows, sooner in ((1, False), (1, True), (9, False), (0, True)):
            monkeypatch.setattr(models.fast.maps, "many_are_sooner_packed", lambda: sooner)  # noqa: B023
            x = torch.randn(n_rows, 1, 3)
            expected = nn.functional.linear(x, weight, bias)
            assert torch.equal(linear(x, weight, bias, wrong), expected)
        monkeypatch.setattr(models.fast.maps, "many_are_sooner_packed", lambda: True)
        assert torch.equal(linear(torch.randn(9, 1, 3), weight, bias, wrong)[0, 0], bias)


@pytest.mark.parametrize(("packed", "expected"), [(5, True), (7, True), (8, False), (12, False)])
def test_many_rows_are_timed_and_packed_where_a_quarter_is_saved(packed, expected, monkeypatch):
    ticks = []
    for longer in (9, 0, 9, 9, 9):  # one quiet round in five, of which ten go to the plain matrix
        ticks += [0, 10 + longer, 10 + longer + packed + longer]
    clock = iter(ticks)
    monkeypatch.setattr(models.fast.maps, "perf_counter", lambda: next(clock))
    assert many_are_sooner_packed.__wrapped__() == expected


@pytest.mark.parametrize("rows", [1, 7])
def test_a_batch_that_is_one_text_is_multiplied_once(rows, monkeypatch):
    monkeypatch.setattr(models.fast.maps, "many_are_sooner_packed", lambda: False)
    made, text = laid_out(3, 5), torch.randn(1, 12, 3)
    multiplied = []
    plain = nn.functional.linear

    def spy(x, *rest):
        multiplied.append(x.numel() // x.shape[-1])
        return plain(x, *rest)

    monkeypatch.setattr(nn.functional, "linear", spy)
    with torch.inference_mode():
        found = made(text.expand(rows, -1, -1))
        assert multiplied == [12]
        expected = plain(text.expand(rows, -1, -1), made.weight, made.bias)
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("sooner", ["packed", "columns"])
def test_single_rows_are_timed_through_large_widening_maps(sooner, monkeypatch):
    monkeypatch.setattr(models.fast.maps, "LARGE", 12)
    large, narrow, small = laid_out(3, 5), laid_out(5, 3), laid_out(2, 5)
    maps = [(each.weight, each._packed) for each in (large, narrow, small)]
    ticks = iter((0, 3, 5) * 3 if sooner == "packed" else (0, 2, 5) * 3)
    monkeypatch.setattr(models.fast.maps, "perf_counter", lambda: next(ticks))
    settle_single_rows(maps)
    assert [packed.for_one for _, packed in maps] == [sooner == "packed", False, False]


def test_without_onednn_a_map_is_only_reordered(monkeypatch):
    def missing(*args):
        raise RuntimeError("no kernel of this name")

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
