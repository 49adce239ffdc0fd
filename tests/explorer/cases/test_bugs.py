"""Common bugs, worked by hand: masks, fill values, padding, the model itself, and around it."""

import math
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from explorer.analysis.cases import BY_ID, ResultRow
from explorer.analysis.cases.inside import nan_rows
from explorer.analysis.cases.planting import causal_keep, fixed_scores, padded_keep
from explorer.numerics import masked_softmax
from explorer.runs.trace import trace
from models.positions import sinusoidal_table


class Ways(NamedTuple):
    """A number of the wrong lines, and the same of the right ones."""

    wrong: float
    right: float


def figure(fault: str, name: str, of: str = "") -> Ways:
    """A number that a bug shows without a reader's model."""
    rows = BY_ID[fault].compared().rows
    (row,) = (each for each in rows if (each.name, each.of) == (name, of))
    return Ways(*row.values)


def close(found: Tensor, expected: list[float], atol: float = 5e-4) -> None:
    """`found` has these values along its last axis."""
    wanted = torch.tensor(expected).to(found).expand(found.shape)
    torch.testing.assert_close(found, wanted, atol=atol, rtol=0)


def test_inverted_masks_show_the_future_or_the_padding_only():
    scores = fixed_scores()
    keep = causal_keep(scores)
    pattern = BY_ID["inverted_causal"].variant(scores, keep)
    n = scores.shape[-1]
    close((pattern * ~keep).sum(-1)[..., :-1], [1.0] * (n - 1))
    assert (pattern * keep)[..., :-1, :].max() == 0
    close(pattern[..., -1, :], [1 / n] * n)  # the last row has no future
    assert figure("inverted_causal", "hidden_mass") == (1.0, 0.0)
    scores = fixed_scores(n_query=6, n_key=6)
    keep = padded_keep(scores)
    wrong = BY_ID["inverted_padding"].variant
    close((wrong(scores, keep) * ~keep).sum(-1), [1.0] * 6)
    close(wrong(scores, torch.ones_like(keep)), [1 / 6] * 6)  # no padding: every word is hidden


def test_a_mask_after_the_softmax_loses_what_was_hidden():
    scores = torch.zeros(1, 1, 4, 4)  # 1/4 each
    pattern = BY_ID["after_softmax"].variant(scores, causal_keep(scores))
    close(pattern.sum(-1)[0, 0], [0.25, 0.5, 0.75, 1.0])
    shown = figure("after_softmax", "row_sum_error")
    assert shown.wrong > 0.5
    assert shown.right < 1e-6


@pytest.mark.parametrize(
    ("fault", "way", "scores", "keep", "row"),
    [
        ("times_zero", "variant", [-1.0, 2.0], [1, 0], [0.2689, 0.7311]),  # as a score of 0
        ("added_ones", "variant", [0.0, 0.0], [1, 0], [0.7311, 0.2689]),  # a factor of e
        ("small_fill", "variant", [-12000.0, -12001.0, 3.0], [1, 1, 0], [0.0, 0.0, 1.0]),
        ("small_fill", "plain", [-12000.0, -12001.0, 3.0], [1, 1, 0], [0.7311, 0.2689, 0.0]),
        ("empty_row_nan", "variant", [-12000.0, -12001.0, 3.0], [1, 1, 0], [0.7311, 0.2689, 0.0]),
        ("empty_row_uniform", "variant", [-12e3, -12001.0, 3.0], [1, 1, 0], [0.7311, 0.2689, 0.0]),
    ],
)
def test_a_row_by_hand(fault, way, scores, keep, row):
    pattern = getattr(BY_ID[fault], way)
    found = pattern(
        torch.tensor(scores)[None, None, None], torch.tensor(keep).bool()[None, None, None]
    )
    close(found[0, 0, 0], row)


@pytest.mark.parametrize(("fault", "seen"), [("diagonal_open", 2), ("diagonal_closed", 0)])
def test_a_diagonal_off_by_one(fault, seen):
    scores = fixed_scores()
    pattern = BY_ID[fault].variant(scores, causal_keep(scores))
    expected = torch.tensor([min(row + seen, 5) for row in range(5)])
    assert torch.equal((pattern > 0).sum(-1), expected.expand(2, 3, 5))
    cached = BY_ID[fault].variant(scores[:, :, 4:], causal_keep(scores)[:, :, 4:])
    torch.testing.assert_close(cached, pattern[:, :, 4:])  # the same fault in a cached step


def test_without_masks_old_rows_drift_as_the_row_grows():
    scores = fixed_scores()
    wrong = BY_ID["no_mask"].variant
    keep = causal_keep(scores)
    first = [float(wrong(scores, keep)[0, 0, 0, 0])]
    first += [float(wrong(scores[..., :n, :n], keep[..., :n, :n])[0, 0, 0, 0]) for n in (1, 2, 3)]
    assert first[1] == 1.0
    assert first[1] > first[2] > first[3] > first[0]


@pytest.mark.parametrize("fault", ["first_item", "first_head"])
def test_an_assignment_by_index_does_not_broadcast(fault):
    scores = fixed_scores(batch=4, n_heads=6)
    keep = causal_keep(scores)
    mass = (BY_ID[fault].variant(scores, keep) * ~keep).sum((-2, -1))  # [batch, head], over 5 rows
    intact = mass[0] if fault == "first_item" else mass[:, 0]
    others = mass[1:] if fault == "first_item" else mass[:, 1:]
    assert intact.max() == 0
    # With equal scores a row i of 5 puts (4 - i) / 5 on the future: 2.0 over the five rows.
    assert float(others.mean()) == pytest.approx(2.0, abs=0.2)
    assert (BY_ID[fault].plain(scores, keep) * ~keep).max() == 0
    assert figure("first_item", "mass_item", "1") == (0.0, 0.0)
    assert figure("first_item", "mass_item", "2").wrong > 0.5


def test_padding_is_read_per_head_where_heads_and_batch_agree():
    scores = torch.zeros(3, 3, 5, 5)
    valid = torch.ones(3, 5, dtype=torch.bool)
    valid[1, 3:] = False
    wrong, right = BY_ID["padding_per_head"].variant, BY_ID["padding_per_head"].plain
    on_pads = wrong(scores, valid)[1][..., 3:].sum((-2, -1))
    close(on_pads, [2.0, 0.0, 2.0])  # 2 of 5 keys over 5 rows, except in the head of its number
    close(wrong(scores, valid)[0, 1, 0], [1 / 3] * 3 + [0.0] * 2)  # hides words of sentence 1
    assert right(scores, valid)[1][..., 3:].max() == 0
    with pytest.raises(RuntimeError):
        wrong(torch.zeros(3, 4, 5, 5), valid)
    assert figure("padding_per_head", "pad_mass_head", "2").wrong == 0
    assert figure("padding_per_head", "pad_mass_head", "1").wrong == pytest.approx(2.0, abs=0.5)


def test_an_empty_row_is_nan_uniform_or_zero_and_nan_spreads():
    scores, keep = fixed_scores(1, 1, 4, 4), torch.ones(1, 1, 4, 4).tril(-1).bool()
    assert BY_ID["empty_row_nan"].variant(scores, keep)[0, 0, 0].isnan().all()
    close(BY_ID["empty_row_uniform"].variant(scores, keep)[0, 0, 0], [0.25] * 4)
    close(masked_softmax(scores, keep)[0, 0, 0], [0.0] * 4)
    fused = nn.functional.scaled_dot_product_attention(scores, scores, scores, attn_mask=keep)
    close(fused[0, 0, 0], [0.0] * 4)  # torch's own kernel gives zeros too
    for layers, wrong in (("1", 1), ("2", 4)):
        assert figure("empty_row_nan", "nan_rows", layers) == (wrong, 0)
        assert figure("empty_row_uniform", "nan_rows", layers).wrong == 0
    # The loss leaves the empty row out, and its gradient is NaN all the same: 0 x NaN.
    assert figure("empty_row_nan", "nan_gradients") == (1.0, 0.0)


def test_is_causal_with_one_query_sees_the_first_key_only():
    q, k, v = (fixed_scores(2, 3, n, 4, seed) for seed, n in enumerate((1, 5, 5)))
    bug = BY_ID["is_causal_cache"]
    torch.testing.assert_close(bug.variant(q, k, v), v[:, :, :1])
    everything = nn.functional.scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(bug.plain(q, k, v), everything)
    whole = fixed_scores(2, 3, 5, 4, 7)
    torch.testing.assert_close(bug.variant(whole, k, v), bug.plain(whole, k, v))
    assert figure("is_causal_cache", "keys_seen") == (1.0, 5.0)
    assert figure("is_causal_cache", "first_key_weight").wrong == 1.0


def test_a_borrowed_padding_id_and_positions_counted_over_padding():
    tokens = torch.tensor([[7, 5, 9, 2, 0, 0]])
    bug = BY_ID["pad_confused"]
    assert bug.variant(tokens, 0, 2).tolist() == [[True, True, True, False, True, True]]
    assert bug.plain(tokens, 0, 2).tolist() == [[True, True, True, True, False, False]]
    assert figure("pad_confused", "pads_seen") == (2.0, 0.0)
    assert figure("pad_confused", "ends_hidden") == (1.0, 0.0)
    valid = torch.tensor([[False, False, True, True], [True, True, True, False]])
    tokens = torch.zeros(2, 4, dtype=torch.long)
    bug = BY_ID["left_positions"]
    assert bug.variant(tokens, valid).tolist() == [[0, 1, 2, 3], [0, 1, 2, 3]]
    assert bug.plain(tokens, valid).tolist() == [[0, 0, 0, 1], [0, 1, 2, 2]]
    assert figure("left_positions", "first_position") == (2.0, 0.0)


def test_positions_by_the_batch_size_are_lost():
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


@pytest.mark.parametrize(
    ("width", "factor"), [("2", 0.7071), ("8", 0.9354), ("64", 0.9922), ("512", 0.9990)]
)
def test_the_unbiased_variance_shrinks_the_output(width, factor):
    shown = figure("unbiased_variance", "output_spread", width)
    assert shown.right == pytest.approx(1.0, abs=1e-4)
    assert shown.wrong == pytest.approx(factor, abs=1e-4)
    assert factor == pytest.approx(math.sqrt((int(width) - 1) / int(width)), abs=1e-4)
    x = fixed_scores(1, 1, 2, int(width))
    torch.testing.assert_close(BY_ID["unbiased_variance"].plain(x), nn.LayerNorm(int(width))(x))


def test_labels_through_a_view_change_the_inputs():
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


def test_a_second_softmax_and_gradients_that_add_up():
    shown = figure("double_softmax", "perfect_loss")
    assert shown.right == 0
    assert shown.wrong == pytest.approx(math.log(math.e + 199) - 1, abs=1e-5)
    assert shown.wrong == pytest.approx(4.31, abs=5e-3)
    gradient = figure("double_softmax", "first_gradient")
    assert gradient.right == pytest.approx(1.0, abs=5e-3)
    assert gradient.wrong == pytest.approx(0.0050, abs=5e-5)
    first = figure("no_zero_grad", "gradient_norm", "1").right
    for step in range(1, 6):
        shown = figure("no_zero_grad", "gradient_norm", str(step))
        assert shown.right == pytest.approx(first)
        assert shown.wrong == pytest.approx(step * first)


def test_a_list_times_three_is_one_matrix():
    one = BY_ID["one_projection"]
    w_q, w_k, w_v = one.variant(4)
    assert w_q is w_k is w_v
    w_q, w_k, _ = one.plain(4)
    assert not torch.allclose(w_q.weight, w_k.weight)
    assert figure("one_projection", "parameters") == (256, 768)  # d = 16


def test_equal_projections_have_symmetric_scores():
    fresh = figure("one_projection", "asymmetry")
    assert fresh.wrong < 1e-5
    assert fresh.right > 0.1
    assert figure("one_projection", "asymmetry_learned").wrong < 1e-4
    loss = figure("one_projection", "loss_learned")
    assert loss.right < 0.1
    assert loss.wrong > 1  # cannot tell left from right


def test_a_constant_row_by_type_and_a_row_of_zeros_that_spreads(translator):
    """0.1 in float32: the mean is off by one rounding, 1.49e-8, over sqrt(1e-12)."""
    shown = figure("tiny_epsilon", "constant_row", "float32")
    assert shown.wrong == pytest.approx(0.0149, abs=1e-4)
    assert shown.right < 1e-5
    assert math.isnan(figure("tiny_epsilon", "constant_row", "float16").wrong)
    assert figure("tiny_epsilon", "constant_row", "float16").right == 0
    x = torch.randn(3, 8)
    torch.testing.assert_close(BY_ID["tiny_epsilon"].plain(x), nn.LayerNorm(8)(x))
    x = torch.cat([torch.randn(3, 8), torch.zeros(1, 8)]).half()
    assert nan_rows(BY_ID["tiny_epsilon"].variant, x) == 4
    assert nan_rows(BY_ID["tiny_epsilon"].variant, x[:3]) == 0
    assert nan_rows(BY_ID["tiny_epsilon"].plain, x) == 0
    traced = trace(translator, "The cat sat.", "猫坐在垫子上。")
    n = len(traced.tgt_tokens) + 1
    assert ResultRow("pad_nan_rows", (n, 0), str(n)) in BY_ID["tiny_epsilon"].compared(traced).rows
