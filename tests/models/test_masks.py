"""Masks, cell by cell, against drawings; and the refusal of a tensor that is no mask."""

import pytest
import torch

from models import fast
from models.attention import attend
from models.masks import causal_mask, padding_mask, require_mask

VALID = torch.tensor([[True, True, False], [False, True, True]])


def drawn(*rows):
    """A mask from a drawing: x = may attend."""
    return torch.tensor([[cell == "x" for cell in row] for row in rows])


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (causal_mask(4), drawn("x...", "xx..", "xxx.", "xxxx")),
        (causal_mask(1, 5, offset=4), drawn("xxxxx")),  # a step with a cache
        (causal_mask(2, offset=3), drawn("xxxx.", "xxxxx")),
        (causal_mask(2, 5, offset=1), drawn("xx...", "xxx..")),
        (padding_mask(VALID)[:, 0, 0], VALID),
        ((padding_mask(VALID) & causal_mask(3))[0, 0], drawn("x..", "xx.", "xx.")),
        # Padding on the left: its own row may attend to nothing.
        ((padding_mask(VALID) & causal_mask(3))[1, 0], drawn("...", ".x.", ".xx")),
    ],
)
def test_masks_are_as_drawn(mask, expected):
    assert mask.dtype == torch.bool
    assert torch.equal(mask, expected)


@pytest.mark.parametrize("attend", [attend, fast.attend])
def test_what_is_no_mask_is_refused(attend):
    q, k = torch.randn(3, 4, 5, 6), torch.randn(3, 4, 7, 6)
    for dtype in (torch.float32, torch.int64, torch.uint8):
        with pytest.raises(TypeError):
            attend(q, k, k, causal_mask(5, 7).to(dtype))
        with pytest.raises(TypeError, match=f"True = may attend, not {dtype}"):
            require_mask(torch.ones(5, 7, dtype=dtype), (3, 4, 5, 7))
    # Transposed, without the head's axis, of `valid`, another batch, of kv heads, of five axes.
    for shape in ((7, 5), (3, 5, 7), (3, 7), (6, 1, 5, 7), (3, 2, 5, 7), (1, 1, 1, 5, 7)):
        with pytest.raises(ValueError, match="does not broadcast to"):
            attend(q, k, k, torch.ones(shape, dtype=torch.bool))
    with pytest.raises(ValueError, match="does not broadcast to"):  # it would enlarge the batch
        attend(q[:1], k[:1], k[:1], torch.ones(3, 1, 5, 7, dtype=torch.bool))


@pytest.mark.parametrize(
    "shape", [(7,), (5, 7), (1, 7), (4, 5, 7), (1, 5, 7), (3, 1, 1, 7), (3, 4, 5, 7), (1, 1, 1, 1)]
)
def test_masks_that_broadcast_are_accepted(shape):
    require_mask(torch.ones(shape, dtype=torch.bool), (3, 4, 5, 7))
