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


def test_each_kind_of_masks_is_wrong_just_where_it_says(model: Model) -> None:
    right = seen(model, "right")
    own = "decoder.blocks.0.attn"
    padded = (TGT != 0)[:, None, :].expand(2, 4, 4)
    assert torch.equal(right[own], CAUSAL & padded)
    assert torch.equal(right["encoder.blocks.0.attn"], (SRC != 0)[:, None, :].expand(2, 3, 3))
    for masks, causes in (("no_causal", padded), ("pad_visible", CAUSAL.expand(2, 4, 4))):
        wrong = seen(model, masks)
        for name, mask in wrong.items():
            if name.startswith("decoder") and name.endswith(".attn"):
                assert torch.equal(mask, causes), name
            elif masks == "pad_visible":
                assert mask.all(), name
            else:
                assert torch.equal(mask, right[name]), name
    for name, mask in seen(model, "inverted").items():
        assert torch.equal(mask, ~right[name]), name


def test_a_fault_ends_with_its_block(model: Model) -> None:
    assert isinstance(model, EncoderDecoder)
    before = model.read(Rows(TGT, TGT != 0, SRC, SRC != 0))
    with masked_as("inverted", model, TGT != 0):
        assert not torch.equal(model.read(Rows(TGT, TGT != 0, SRC, SRC != 0)), before)
    assert torch.equal(model.read(Rows(TGT, TGT != 0, SRC, SRC != 0)), before)
