"""The masks that a visitor switches on, cell by cell: each is compared with a drawing."""

import pytest
import torch

from explorer.runs.masks import block_mask, prefix_mask
from models.masks import causal_mask, window_mask


def drawn(*rows):
    """A mask from a drawing: x = may attend."""
    return torch.tensor([[cell == "x" for cell in row] for row in rows])


def same(mask, expected):
    assert mask.dtype == torch.bool
    assert mask.shape == expected.shape
    assert torch.equal(mask, expected)


def test_window_mask_looks_both_ways():
    same(window_mask(4, window=2), drawn("xx..", "xxx.", ".xxx", "..xx"))
    same(window_mask(2, 5, offset=3, window=2), drawn("..xxx", "...xx"))


def test_window_of_one_is_the_token_itself():
    same(window_mask(3, window=1), torch.eye(3, dtype=torch.bool))


def test_window_under_one_is_refused():
    with pytest.raises(ValueError, match="window must be at least 1, not 0"):
        window_mask(3, window=0)


def test_prefix_mask():
    same(prefix_mask(4, 2), drawn("xx..", "xx..", "xxx.", "xxxx"))
    same(prefix_mask(3, 0), causal_mask(3))


def test_block_mask_keeps_packed_texts_apart():
    mask = block_mask(torch.tensor([[0, 0, 1, 1, 1], [7, 7, 7, 7, 3]]))
    assert mask.shape == (2, 1, 5, 5)
    same(mask[0, 0], drawn("xx...", "xx...", "..xxx", "..xxx", "..xxx"))
    same(mask[1, 0], drawn("xxxx.", "xxxx.", "xxxx.", "xxxx.", "....x"))
