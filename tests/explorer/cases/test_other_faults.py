"""Faults of fill values, padding, the cache and the model itself, worked by hand."""

import math

import numpy as np
import pytest
import torch
from faults import BY_ID, close, figure
from torch import nn

from explorer.analysis.cases.fills import fill_table
from explorer.analysis.cases.fixed import causal_keep, fixed_scores
from explorer.numerics import masked_softmax
from models.positions import sinusoidal_table

# Fill values.


def test_ten_thousand_is_not_infinity() -> None:
    scores = torch.tensor([-12000.0, -12001.0, 3.0])[None, None, None]
    keep = torch.tensor([True, True, False])[None, None, None]
    close(BY_ID["small_fill"].variant(scores, keep)[0, 0, 0], [0.0, 0.0, 1.0])
    for fault in ("empty_row_nan", "empty_row_uniform"):  # -inf, -1e9
        close(BY_ID[fault].variant(scores, keep)[0, 0, 0], [0.7311, 0.2689, 0.0])
    close(BY_ID["small_fill"].plain(scores, keep)[0, 0, 0], [0.7311, 0.2689, 0.0])
    assert figure("small_fill", "hidden_mass") == (1.0, 0.0)


def test_added_to_a_whole_row_it_cancels() -> None:
    scores = torch.tensor([1.0, -1.0, 0.0])[None, None, None]
    keep = torch.zeros(1, 1, 1, 3, dtype=torch.bool)
    close(BY_ID["added_fill"].variant(scores, keep)[0, 0, 0], [0.665, 0.090, 0.245])
    close(BY_ID["added_fill"].plain(scores, keep)[0, 0, 0], [0.0, 0.0, 0.0])


def test_what_each_type_stores() -> None:
    fills = fill_table()
    expected = [
        [-1e4, -9984.0, -1e4],
        [-1e9, -998244352.0, math.nan],  # float16 refuses
        [-math.inf] * 3,
        [torch.finfo(dtype).min for dtype in (torch.float32, torch.bfloat16, torch.float16)],
    ]
    np.testing.assert_array_equal(fills, expected)
    scores, keep = fixed_scores(), causal_keep(fixed_scores())
    with pytest.raises(RuntimeError, match="overflow"):
        BY_ID["half_fill"].variant(scores, keep)
    right = BY_ID["half_fill"].plain(scores, keep)
    assert right.dtype == torch.float16
    torch.testing.assert_close(right.float(), masked_softmax(scores, keep), atol=2e-3, rtol=0)
    by_index = torch.zeros(2, dtype=torch.float16)
    by_index[torch.tensor([True, False])] = -1e9
    assert by_index[0] == -math.inf  # as the words of the card say


def test_an_empty_row_is_nan_uniform_or_zero() -> None:
    scores, keep = fixed_scores(1, 1, 4, 4), torch.ones(1, 1, 4, 4).tril(-1).bool()
    assert BY_ID["empty_row_nan"].variant(scores, keep)[0, 0, 0].isnan().all()
    close(BY_ID["empty_row_uniform"].variant(scores, keep)[0, 0, 0], [0.25] * 4)
    close(masked_softmax(scores, keep)[0, 0, 0], [0.0] * 4)
    fused = nn.functional.scaled_dot_product_attention(scores, scores, scores, attn_mask=keep)
    close(fused[0, 0, 0], [0.0] * 4)  # torch's own kernel gives zeros too


def test_one_nan_row_becomes_all_rows_a_layer_later() -> None:
    for layers, wrong in (("1", 1), ("2", 4)):
        assert figure("empty_row_nan", "nan_rows", layers) == (wrong, 0)
        assert figure("empty_row_uniform", "nan_rows", layers).wrong == 0
    # The loss leaves the empty row out, and its gradient is NaN all the same: 0 x NaN.
    assert figure("empty_row_nan", "nan_gradients") == (1.0, 0.0)


# Padding and the cache.


def test_is_causal_with_one_query_sees_the_first_key_only() -> None:
    q, k, v = (fixed_scores(2, 3, n, 4, seed) for seed, n in enumerate((1, 5, 5)))
    bug = BY_ID["is_causal_cache"]
    torch.testing.assert_close(bug.variant(q, k, v), v[:, :, :1])
    everything = nn.functional.scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(bug.plain(q, k, v), everything)
    whole = fixed_scores(2, 3, 5, 4, 7)
    torch.testing.assert_close(bug.variant(whole, k, v), bug.plain(whole, k, v))
    assert figure("is_causal_cache", "keys_seen") == (1.0, 5.0)
    assert figure("is_causal_cache", "first_key_weight").wrong == 1.0


def test_a_borrowed_padding_id() -> None:
    tokens = torch.tensor([[7, 5, 9, 2, 0, 0]])
    bug = BY_ID["pad_confused"]
    assert bug.variant(tokens, 0, 2).tolist() == [[True, True, True, False, True, True]]
    assert bug.plain(tokens, 0, 2).tolist() == [[True, True, True, True, False, False]]
    assert figure("pad_confused", "pads_seen") == (2.0, 0.0)
    assert figure("pad_confused", "ends_hidden") == (1.0, 0.0)


def test_positions_counted_over_padding() -> None:
    valid = torch.tensor([[False, False, True, True], [True, True, True, False]])
    tokens = torch.zeros(2, 4, dtype=torch.long)
    bug = BY_ID["left_positions"]
    assert bug.variant(tokens, valid).tolist() == [[0, 1, 2, 3], [0, 1, 2, 3]]
    assert bug.plain(tokens, valid).tolist() == [[0, 0, 0, 1], [0, 1, 2, 2]]
    assert figure("left_positions", "first_position") == (2.0, 0.0)


# Inside the model, and around it.


def test_positions_by_the_batch_size() -> None:
    bug, table = BY_ID["batch_positions"], sinusoidal_table(20, 8)
    one = torch.zeros(1, 10, 8)
    torch.testing.assert_close(bug.variant(one, table)[0], table[:1].expand(10, 8))
    torch.testing.assert_close(bug.plain(one, table)[0], table[:10])
    with pytest.raises(RuntimeError):
        bug.variant(torch.zeros(2, 10, 8), table)
    ten = torch.zeros(10, 10, 8)  # as many sentences as positions: right, by chance
    torch.testing.assert_close(bug.variant(ten, table), bug.plain(ten, table))
    assert figure("batch_positions", "different_positions").wrong == 1
    assert figure("batch_positions", "different_positions").right == 10


def test_rotating_by_head_leaves_no_positions() -> None:
    bug = BY_ID["rotated_heads"]
    x = fixed_scores(1, 6, 6, 4)
    assert bug.variant(x).shape == x.shape
    assert not torch.allclose(bug.variant(x), bug.plain(x))
    torch.testing.assert_close(bug.variant(x), bug.plain(x.transpose(1, 2)).transpose(1, 2))
    shown = figure("rotated_heads", "position_effect")
    assert shown.wrong < 1e-5
    assert shown.right > 1


@pytest.mark.parametrize(
    ("width", "factor"), [("2", 0.7071), ("8", 0.9354), ("64", 0.9922), ("512", 0.9990)]
)
def test_the_unbiased_variance_shrinks_the_output(width: str, factor: float) -> None:
    shown = figure("unbiased_variance", "output_spread", width)
    assert shown.right == pytest.approx(1.0, abs=1e-4)
    assert shown.wrong == pytest.approx(factor, abs=1e-4)
    assert factor == pytest.approx(math.sqrt((int(width) - 1) / int(width)), abs=1e-4)
    x = fixed_scores(1, 1, 2, int(width))
    torch.testing.assert_close(BY_ID["unbiased_variance"].plain(x), nn.LayerNorm(int(width))(x))


def test_the_backward_pass_is_wrong_for_unequal_weights_only() -> None:
    assert figure("norm_backward", "dx_error_equal").wrong < 1e-12
    assert figure("norm_backward", "dx_error_unequal").wrong > 0.1
    assert figure("norm_backward", "dx_error_unequal").right < 1e-12
    x = fixed_scores(1, 1, 3, 8).double()[0, 0].requires_grad_()
    weight = torch.linspace(-1, 2, 8, dtype=torch.float64)
    grad_out = fixed_scores(1, 1, 3, 8, seed=5).double()[0, 0]
    y = nn.functional.layer_norm(x, (8,), weight)
    (true,) = torch.autograd.grad(y, x, grad_out)
    x = x.detach()
    torch.testing.assert_close(BY_ID["norm_backward"].plain(x, weight, grad_out), true)
    assert (BY_ID["norm_backward"].variant(x, weight, grad_out) - true).abs().max() > 0.1


def test_labels_through_a_view_change_the_inputs() -> None:
    bug, row = BY_ID["label_view"], [1, 5, 6, 2, 0, 0]
    tokens = torch.tensor([row])
    inputs, labels = bug.plain(tokens, 0)
    assert (inputs.tolist(), tokens.tolist()) == ([[1, 5, 6, 2, 0]], [row])
    assert labels.tolist() == [[5, 6, 2, -100, -100]]
    inputs, labels = bug.variant(tokens, 0)
    assert inputs.tolist() == [[1, 5, 6, 2, -100]]
    assert labels.tolist() == [[5, 6, 2, -100, -100]]  # what is looked at is right
    with pytest.raises(IndexError):
        nn.Embedding(9, 3)(inputs)
    assert figure("label_view", "pads_found") == (0.0, 1.0)


def test_a_second_softmax_makes_perfection_cost_as_much_as_a_guess() -> None:
    shown = figure("double_softmax", "perfect_loss")
    assert shown.right == 0
    assert shown.wrong == pytest.approx(math.log(math.e + 199) - 1, abs=1e-5)
    assert shown.wrong == pytest.approx(4.31, abs=5e-3)
    gradient = figure("double_softmax", "first_gradient")
    assert gradient.right == pytest.approx(1.0, abs=5e-3)
    assert gradient.wrong == pytest.approx(0.0050, abs=5e-5)


def test_gradients_add_up() -> None:
    first = figure("no_zero_grad", "gradient_norm", "1").right
    for step in range(1, 6):
        shown = figure("no_zero_grad", "gradient_norm", str(step))
        assert shown.right == pytest.approx(first)
        assert shown.wrong == pytest.approx(step * first)
