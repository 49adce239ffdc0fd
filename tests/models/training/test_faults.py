"""Masks to train twins under: each is wrong just where it says, and only in its own block."""

from collections.abc import Callable

import pytest
import torch

from models.config import ModelConfig
from models.hooks import NO_EDITS, VISITOR, Edits, Record, visiting
from models.rows import Rows
from models.training.faults import Masks, masked_as
from models.transformer import EncoderDecoder, Model, build_model

SRC = torch.tensor([[5, 6, 2], [5, 2, 0]])
TGT = torch.tensor([[1, 7, 8, 9], [1, 7, 0, 0]])
CAUSAL = torch.ones(4, 4, dtype=torch.bool).tril()


@pytest.fixture
def model(tiny_config: Callable[..., ModelConfig]) -> Model:
    return build_model(tiny_config()).eval()


def seen(model: Model, masks: Masks) -> dict[str, torch.Tensor]:
    """The mask [batch, query, key] of each site's first head, under a fault."""
    assert isinstance(model, EncoderDecoder)
    found: dict[str, torch.Tensor] = {}
    with masked_as(masks, model, TGT != 0):
        fault = VISITOR.get()  # to be asked beside a record, since only one visitor is
    edits = fault if isinstance(fault, Edits) else NO_EDITS
    record = Record(lambda name: name.endswith("hook_mask"), edits)
    with visiting(record):
        model.read(Rows(TGT, TGT != 0, SRC, SRC != 0))
    for name, mask in record.activations.items():
        found[name.removesuffix(".hook_mask")] = mask[:, 0]
    return found


def test_right_masks_are_left_alone(model: Model) -> None:
    masks = seen(model, "right")
    assert torch.equal(masks["decoder.blocks.0.attn"][0], CAUSAL)
    assert torch.equal(masks["encoder.blocks.0.attn"][1, 0], torch.tensor([True, True, False]))


def test_without_the_causal_mask_only_padding_is_hidden(model: Model) -> None:
    masks = seen(model, "no_causal")
    assert masks["decoder.blocks.0.attn"][0].all()
    assert torch.equal(
        masks["decoder.blocks.0.attn"][1], torch.tensor([True, True, False, False]).expand(4, 4)
    )
    right = seen(model, "right")
    for name in right:
        if name != "decoder.blocks.0.attn" and not name.endswith("1.attn"):
            assert torch.equal(masks[name], right[name]), name


def test_visible_padding_leaves_the_causal_mask(model: Model) -> None:
    masks = seen(model, "pad_visible")
    assert torch.equal(masks["decoder.blocks.0.attn"], CAUSAL.expand(2, 4, 4))
    assert masks["encoder.blocks.0.attn"].all()
    assert masks["decoder.blocks.0.cross_attn"].all()


def test_inverted_masks_are_the_opposite_of_the_right_ones(model: Model) -> None:
    right, wrong = seen(model, "right"), seen(model, "inverted")
    for name, mask in right.items():
        assert torch.equal(wrong[name], ~mask), name


def test_a_fault_ends_with_its_block(model: Model) -> None:
    assert isinstance(model, EncoderDecoder)
    before = model.read(Rows(TGT, TGT != 0, SRC, SRC != 0))
    with masked_as("inverted", model, TGT != 0):
        assert not torch.equal(model.read(Rows(TGT, TGT != 0, SRC, SRC != 0)), before)
    assert torch.equal(model.read(Rows(TGT, TGT != 0, SRC, SRC != 0)), before)
