"""Blocks: where the norm stands, by formula and by what the hook points see."""

import pytest
import torch

from models.blocks import Block, DecoderBlock
from models.hooks import Record, name_hook_points, visiting
from models.masks import causal_mask, padding_mask
from models.norms import NORMS

B, T, S, D_MODEL = 3, 5, 7, 24
PLACEMENTS = {
    "post": lambda x, f, norm: norm(x + f(x)),
    "pre": lambda x, f, norm: x + f(norm(x)),
    "sublayer": lambda x, f, norm: x + norm(f(x)),
}
SRC_VALID = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0]]) == 1


@pytest.fixture
def block(tiny_config, scatter):
    def make(kind, **changes):
        made = scatter(kind(tiny_config(**changes)))
        name_hook_points(made)
        return made.double().eval()

    return make


def seen_by(forward):
    record = Record(lambda name: "." not in name)
    with visiting(record):
        out = forward()
    return out, {name.removeprefix("hook_"): t for name, t in record.activations.items()}


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("ffn", ["relu", "swiglu"])
def test_an_encoder_block_is_its_formula(block, placement, norm, ffn):
    made = block(Block, norm_placement=placement, norm=norm, ffn=ffn)
    x = torch.randn(B, T, D_MODEL).double()
    around = PLACEMENTS[placement]
    mid = around(x, lambda h: made.attn(h, mask=causal_mask(T)), made.attn_norm)
    expected = around(mid, made.ffn, made.ffn_norm)
    torch.testing.assert_close(made(x, mask=causal_mask(T)), expected)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_decoder_block_is_its_formula_step_by_step(block, placement):
    made = block(DecoderBlock, norm_placement=placement)
    x, memory = torch.randn(B, T, D_MODEL).double(), torch.randn(B, S, D_MODEL).double()
    cross_mask = padding_mask(SRC_VALID)
    out, seen = seen_by(lambda: made(x, memory, mask=causal_mask(T), cross_mask=cross_mask))
    assert torch.equal(seen["resid_pre"], x)
    parts = {
        "attn": (lambda h: made.attn(h, mask=causal_mask(T)), "resid_mid"),
        "cross_attn": (lambda h: made.cross_attn(h, memory, mask=cross_mask), "resid_mid_cross"),
        "ffn": (made.ffn, "resid_post"),
    }
    for part, (sublayer, after) in parts.items():
        norm = getattr(made, f"{part}_norm")
        whole, added = PLACEMENTS[placement](x, sublayer, norm), seen[f"{part}_out"]
        torch.testing.assert_close(seen[after], whole)
        stream = norm(x + added) if placement == "post" else x + added
        torch.testing.assert_close(seen[after], stream)
        x = seen[after]
    assert torch.equal(out, x)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_dropout_acts_on_the_branch_in_training_only(block, placement):
    made = block(Block, norm_placement=placement, dropout=0.5)
    x = torch.randn(B, T, D_MODEL).double()
    assert torch.equal(made(x), made(x))
    made.train()
    _, seen = seen_by(lambda: made(x))
    dropped = (seen["ffn_out"] == 0).double().mean().item()
    assert 0.35 < dropped < 0.65
    assert (seen["resid_pre"] == x).all()


@pytest.mark.parametrize(("own", "expected"), [(None, 0.5), (0.0, 0.0), (0.25, 0.25)])
def test_attention_can_have_a_dropout_of_its_own(block, own, expected):
    made = block(DecoderBlock, dropout=0.5, attention_dropout=own)
    assert made.attn.dropout == made.cross_attn.dropout == expected
    assert made.dropout.p == made.ffn.dropout.p == 0.5


@pytest.mark.parametrize("kind", [Block, DecoderBlock])
def test_a_memory_that_is_missing_or_that_nothing_reads_is_refused(block, kind):
    x = torch.randn(B, T, D_MODEL).double()
    memory = None if kind is DecoderBlock else x
    with pytest.raises(ValueError, match="a decoder block needs an encoder's output"):
        block(kind)(x, memory)
