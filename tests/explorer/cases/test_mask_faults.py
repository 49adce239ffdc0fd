"""Faults of masks, worked by hand: masks that say the wrong thing, or have the wrong shape."""

import math

import pytest
import torch
from faults import BY_ID, close, figure

from explorer.analysis.cases.fixed import causal_keep, fixed_scores, padded_keep
from explorer.numerics import masked_softmax
from models.attention import attend
from models.masks import causal_mask

# Masks that say the wrong thing.


def test_an_inverted_causal_mask_shows_the_future_only() -> None:
    scores = fixed_scores()
    keep = causal_keep(scores)
    pattern = BY_ID["inverted_causal"].variant(scores, keep)
    n = scores.shape[-1]
    close((pattern * ~keep).sum(-1)[..., :-1], [1.0] * (n - 1))
    assert (pattern * keep)[..., :-1, :].max() == 0
    close(pattern[..., -1, :], [1 / n] * n)  # the last row has no future
    assert figure("inverted_causal", "hidden_mass") == (1.0, 0.0)


def test_an_inverted_padding_mask_shows_the_padding_only() -> None:
    scores = fixed_scores(n_query=6, n_key=6)
    keep = padded_keep(scores)
    wrong = BY_ID["inverted_padding"].variant
    close((wrong(scores, keep) * ~keep).sum(-1), [1.0] * 6)
    close(wrong(scores, torch.ones_like(keep)), [1 / 6] * 6)  # no padding: every word is hidden


def test_a_mask_after_the_softmax_loses_what_was_hidden() -> None:
    scores = torch.zeros(1, 1, 4, 4)  # 1/4 each
    pattern = BY_ID["after_softmax"].variant(scores, causal_keep(scores))
    close(pattern.sum(-1)[0, 0], [0.25, 0.5, 0.75, 1.0])
    shown = figure("after_softmax", "row_sum_error")
    assert shown.wrong > 0.5
    assert shown.right < 1e-6


def test_zero_is_a_score_like_any_other() -> None:
    scores = torch.tensor([[-1.0, 2.0]])[None, None]
    keep = torch.tensor([[True, False]])[None, None]
    pattern = BY_ID["times_zero"].variant(scores, keep)
    e = math.exp(-1)
    close(pattern[0, 0, 0], [e / (e + 1), 1 / (e + 1)])  # 0.27 visible, 0.73 hidden


def test_ones_added_are_a_factor_of_e() -> None:
    scores = torch.zeros(1, 1, 1, 2)
    keep = torch.tensor([True, False])[None, None, None]
    close(BY_ID["added_ones"].variant(scores, keep)[0, 0, 0], [math.e / (math.e + 1), 0.2689])


@pytest.mark.parametrize(("fault", "seen"), [("diagonal_open", 2), ("diagonal_closed", 0)])
def test_a_diagonal_off_by_one(fault: str, seen: int) -> None:
    scores = fixed_scores()
    pattern = BY_ID[fault].variant(scores, causal_keep(scores))
    expected = torch.tensor([min(row + seen, 5) for row in range(5)])
    assert torch.equal((pattern > 0).sum(-1), expected.expand(2, 3, 5))
    cached = BY_ID[fault].variant(scores[:, :, 4:], causal_keep(scores)[:, :, 4:])
    torch.testing.assert_close(cached, pattern[:, :, 4:])  # the same fault in a cached step


def test_without_masks_old_rows_drift_as_the_row_grows() -> None:
    scores = fixed_scores()
    wrong = BY_ID["no_mask"].variant
    keep = causal_keep(scores)
    first = [float(wrong(scores, keep)[0, 0, 0, 0])]
    first += [float(wrong(scores[..., :n, :n], keep[..., :n, :n])[0, 0, 0, 0]) for n in (1, 2, 3)]
    assert first[1] == 1.0
    assert first[1] > first[2] > first[3] > first[0]
    assert figure("no_mask", "first_row_self").right == 1.0
    assert figure("no_mask", "first_row_self").wrong == pytest.approx(first[0])


# Masks of the wrong shape.


def test_an_extra_axis_mixes_heads_and_positions() -> None:
    q, k, v = (fixed_scores(2, 4, 5, 4, seed) for seed in range(3))
    keep = causal_mask(5)[None, None]
    wrong, right = BY_ID["extra_axis"].variant, BY_ID["extra_axis"].plain
    bad, good = wrong(q, k, v, keep), right(q, k, v, keep)
    assert bad.shape == good.shape == (2, 5, 16)  # no error, and the right shape
    assert (bad - good).abs().max() > 0.5
    torch.testing.assert_close(good, attend(q, k, v, keep)[0].transpose(1, 2).flatten(2))
    # One head: batch and head have traded places for nothing where the batch is 1 too.
    one = [tensor[:1, :1] for tensor in (q, k, v)]
    torch.testing.assert_close(wrong(*one, keep), right(*one, keep))
    with pytest.raises(AssertionError, match="scores became"):
        right(q, k, v, keep[None])
    changed = v.clone()
    changed[:, :, -1] += 1  # the last token
    rows = ((wrong(q, k, changed, keep) - bad)[0].abs().amax(-1) > 1e-6).nonzero().flatten()
    assert len(rows) > 1
    assert rows.tolist() != [4]
    assert ((right(q, k, changed, keep) - good)[0].abs().amax(-1) > 1e-6).nonzero().tolist() == [
        [4]
    ]
    shown = figure("extra_axis", "future_cells")
    assert shown.wrong > 0
    assert shown.right == 0


@pytest.mark.parametrize("fault", ["first_item", "first_head"])
def test_an_assignment_by_index_does_not_broadcast(fault: str) -> None:
    scores = fixed_scores(batch=4, n_heads=6)
    keep = causal_keep(scores)
    mass = (BY_ID[fault].variant(scores, keep) * ~keep).sum((-2, -1))  # [batch, head], over 5 rows
    intact = mass[0] if fault == "first_item" else mass[:, 0]
    others = mass[1:] if fault == "first_item" else mass[:, 1:]
    assert intact.max() == 0
    # With equal scores a row i of 5 puts (4 - i) / 5 on the future: 2.0 over the five rows.
    assert float(others.mean()) == pytest.approx(2.0, abs=0.2)
    assert (BY_ID[fault].plain(scores, keep) * ~keep).max() == 0


def test_in_a_batch_only_the_first_item_is_masked() -> None:
    assert figure("first_item", "mass_item", "1") == (0.0, 0.0)
    assert figure("first_item", "mass_item", "2").wrong > 0.5


def test_padding_is_read_per_head_where_heads_and_batch_agree() -> None:
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


def test_a_mask_without_head_axis_is_one_row_per_head() -> None:
    scores, keep = torch.zeros(1, 4, 4, 4), causal_mask(4)
    pattern = BY_ID["row_per_head"].variant(scores, keep)
    for head in range(4):
        close(pattern[0, head], [1 / (head + 1)] * (head + 1) + [0.0] * (3 - head))
        assert figure("row_per_head", "open_keys", str(head + 1)).wrong == head + 1
    right = BY_ID["row_per_head"].plain(scores, keep)
    torch.testing.assert_close(right, masked_softmax(scores, causal_keep(scores)))
