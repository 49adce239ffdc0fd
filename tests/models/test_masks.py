"""Masks, cell by cell: each is compared with its rule written as a loop, or with a drawing."""

import pytest
import torch

from models import fast
from models.attention import attend
from models.masks import causal_mask, padding_mask, require_mask
from models.rows import Rows


def drawn(*rows):
    """A mask from a drawing: x = may attend."""
    return torch.tensor([[cell == "x" for cell in row] for row in rows])


def same(mask, expected):
    assert mask.dtype == torch.bool
    assert mask.shape == expected.shape
    assert torch.equal(mask, expected)


def test_causal_mask_keeps_the_diagonal():
    same(causal_mask(4), drawn("x...", "xx..", "xxx.", "xxxx"))


def test_causal_mask_of_a_cached_step_sees_all_keys():
    same(causal_mask(1, 5, offset=4), drawn("xxxxx"))


def test_causal_mask_offset_is_the_position_of_the_first_query():
    same(causal_mask(2, offset=3), drawn("xxxx.", "xxxxx"))


def test_causal_mask_steps_are_the_rows_of_the_whole():
    whole = causal_mask(6)
    for start in range(6):
        same(causal_mask(6 - start, 6, offset=start), whole[start:])


SRC_VALID = torch.tensor([[True, True, True, False], [False, True, True, True]])
TGT_VALID = torch.tensor([[True, True, False], [False, True, True]])


def test_padding_mask_hides_keys_and_broadcasts_over_queries():
    mask = padding_mask(SRC_VALID)
    assert mask.shape == (2, 1, 1, 4)
    same(mask[:, 0, 0], SRC_VALID)


def test_padded_keys_and_padded_queries_are_an_outer_product():
    mask = padding_mask(SRC_VALID) & padding_mask(TGT_VALID).mT
    assert mask.shape == (2, 1, 3, 4)
    for b in range(2):
        for query in range(3):
            for key in range(4):
                wanted = TGT_VALID[b, query] and SRC_VALID[b, key]
                assert mask[b, 0, query, key] == wanted


def test_an_encoders_mask_is_its_padding():
    same(
        (padding_mask(SRC_VALID) & padding_mask(SRC_VALID).mT)[1, 0],
        drawn("....", ".xxx", ".xxx", ".xxx"),
    )


def test_a_decoders_mask_joins_causal_and_padding():
    mask = padding_mask(TGT_VALID) & causal_mask(3)
    same(mask[0, 0], drawn("x..", "xx.", "xx."))
    same(mask[1, 0], drawn("...", ".x.", ".xx"))  # padding on the left: its own row sees nothing
    mask = padding_mask(TGT_VALID) & padding_mask(TGT_VALID).mT & causal_mask(3)
    same(mask[0, 0], drawn("x..", "xx.", "..."))


def test_a_cross_mask_has_target_queries_and_source_keys():
    mask = padding_mask(SRC_VALID) & padding_mask(TGT_VALID).mT
    same(mask[0, 0], drawn("xxx.", "xxx.", "...."))
    same(mask[1, 0], drawn("....", ".xxx", ".xxx"))


def test_a_model_applies_just_these(tiny_model, random_tokens, record):
    model = tiny_model()
    rows = Rows(random_tokens(2, 3), TGT_VALID, random_tokens(2, 4), SRC_VALID)
    seen = record(lambda: model.read(rows), lambda name: name.endswith("hook_mask"))
    usual = {
        "encoder.blocks.0.attn": padding_mask(SRC_VALID),
        "decoder.blocks.0.attn": padding_mask(TGT_VALID) & causal_mask(3),
        "decoder.blocks.0.cross_attn": padding_mask(SRC_VALID),
    }
    for site, mask in usual.items():
        found = seen[f"{site}.hook_mask"]
        same(found, mask.expand(found.shape))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8])
@pytest.mark.parametrize("attend", [attend, fast.attend])
def test_a_mask_that_is_not_bool_is_refused(dtype, attend):
    q = torch.randn(1, 2, 3, 4)
    with pytest.raises(TypeError):
        attend(q, q, q, causal_mask(3).to(dtype))


def test_the_refusal_says_why():
    with pytest.raises(TypeError, match=r"True = may attend, not torch\.float32"):
        require_mask(torch.ones(3, 3), (1, 2, 3, 3))


@pytest.mark.parametrize(
    "shape", [(7,), (5, 7), (1, 7), (4, 5, 7), (1, 5, 7), (3, 1, 1, 7), (3, 4, 5, 7), (1, 1, 1, 1)]
)
def test_masks_that_broadcast_are_accepted(shape):
    require_mask(torch.ones(shape, dtype=torch.bool), (3, 4, 5, 7))


@pytest.mark.parametrize(
    "shape",
    [(7, 5), (3, 5, 7), (3, 7), (6, 1, 5, 7), (3, 2, 5, 7), (1, 1, 1, 5, 7)],
    ids=["transposed", "no head axis", "valid", "batch", "kv heads", "5-D"],
)
@pytest.mark.parametrize("attend", [attend, fast.attend])
def test_masks_that_do_not_fit_are_refused(shape, attend):
    q, k = torch.randn(3, 4, 5, 6), torch.randn(3, 4, 7, 6)
    with pytest.raises(ValueError, match="does not broadcast to"):
        attend(q, k, k, torch.ones(shape, dtype=torch.bool))


def test_a_mask_may_not_enlarge_the_batch():
    q = torch.randn(1, 2, 3, 4)
    with pytest.raises(ValueError, match="does not broadcast to"):
        attend(q, q, q, torch.ones(5, 1, 3, 3, dtype=torch.bool))
