"""Blocks: where the norm stands, by formula and by what the hook points see."""

import pytest
import torch

from models.blocks import Block, DecoderBlock
from models.feedforward import FEEDFORWARDS
from models.hooks import Edits, Record, name_hook_points, visiting
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
@pytest.mark.parametrize("ffn", FEEDFORWARDS)
def test_an_encoder_block_is_its_formula(block, placement, norm, ffn):
    made = block(Block, norm_placement=placement, norm=norm, ffn=ffn)
    x = torch.randn(B, T, D_MODEL).double()
    around = PLACEMENTS[placement]
    mid = around(x, lambda h: made.attn(h, mask=causal_mask(T)), made.attn_norm)
    expected = around(mid, made.ffn, made.ffn_norm)
    torch.testing.assert_close(made(x, mask=causal_mask(T)), expected)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_decoder_block_is_its_formula(block, placement):
    made = block(DecoderBlock, norm_placement=placement)
    x, memory = torch.randn(B, T, D_MODEL).double(), torch.randn(B, S, D_MODEL).double()
    cross_mask = padding_mask(SRC_VALID)
    around = PLACEMENTS[placement]
    mid = around(x, lambda h: made.attn(h, mask=causal_mask(T)), made.attn_norm)
    mid = around(mid, lambda h: made.cross_attn(h, memory, mask=cross_mask), made.cross_attn_norm)
    expected = around(mid, made.ffn, made.ffn_norm)
    out = made(x, memory, mask=causal_mask(T), cross_mask=cross_mask)
    torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("placement", ["pre", "sublayer"])
def test_pre_and_sublayer_outs_add_up_to_the_stream(block, placement):
    made = block(DecoderBlock, norm_placement=placement)
    x, memory = torch.randn(B, T, D_MODEL).double(), torch.randn(B, S, D_MODEL).double()
    out, seen = seen_by(lambda: made(x, memory))
    assert torch.equal(seen["resid_pre"], x)
    assert torch.equal(seen["resid_mid"], seen["resid_pre"] + seen["attn_out"])
    assert torch.equal(seen["resid_mid_cross"], seen["resid_mid"] + seen["cross_attn_out"])
    assert torch.equal(seen["resid_post"], seen["resid_mid_cross"] + seen["ffn_out"])
    assert torch.equal(seen["resid_post"], out)


def test_post_mids_are_norms_of_stream_plus_out(block):
    made = block(DecoderBlock, norm_placement="post")
    x, memory = torch.randn(B, T, D_MODEL).double(), torch.randn(B, S, D_MODEL).double()
    out, seen = seen_by(lambda: made(x, memory))
    mid = made.attn_norm(seen["resid_pre"] + seen["attn_out"])
    torch.testing.assert_close(seen["resid_mid"], mid)
    mid = made.cross_attn_norm(seen["resid_mid"] + seen["cross_attn_out"])
    torch.testing.assert_close(seen["resid_mid_cross"], mid)
    post = made.ffn_norm(seen["resid_mid_cross"] + seen["ffn_out"])
    torch.testing.assert_close(seen["resid_post"], post)
    assert torch.equal(seen["resid_post"], out)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_silencing_what_is_added_leaves_the_stream(block, placement):
    made = block(Block, norm_placement=placement)
    x = torch.randn(B, T, D_MODEL).double()
    silent = Edits(dict.fromkeys(("hook_attn_out", "hook_ffn_out"), torch.zeros_like))
    with visiting(silent):
        out = made(x)
    expected = made.ffn_norm(made.attn_norm(x)) if placement == "post" else x
    torch.testing.assert_close(out, expected)


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


def test_cross_attention_reads_memory_and_self_attention_does_not(block):
    made = block(DecoderBlock)
    x, memory = torch.randn(B, T, D_MODEL).double(), torch.randn(B, S, D_MODEL).double()
    _, before = seen_by(lambda: made(x, memory))
    _, after = seen_by(lambda: made(x, memory + 1))
    assert torch.equal(before["attn_out"], after["attn_out"])
    assert (before["cross_attn_out"] - after["cross_attn_out"]).abs().max() > 1e-3


@pytest.mark.parametrize("kind", [Block, DecoderBlock])
def test_a_memory_that_is_missing_or_that_nothing_reads_is_refused(block, kind):
    x = torch.randn(B, T, D_MODEL).double()
    memory = None if kind is DecoderBlock else x
    with pytest.raises(ValueError, match="a decoder block needs an encoder's output"):
        block(kind)(x, memory)
