"""Whole models against torch's own, with copied weights, and leaks of masks."""

from functools import partial

import pytest
import torch
from families import WRITERS
from tables import assert_close
from torch import nn

from models.attention import Attention
from models.blocks import Block, DecoderBlock
from models.fast import speed_up
from models.masks import causal_mask
from models.rows import Rows

ATOL = 1e-10
close = partial(assert_close, atol=ATOL)

B, T, S, H, D_MODEL, D_FF = 3, 5, 7, 4, 24, 20
SRC_VALID = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0, 0], [1, 1, 1, 0, 0, 0, 0]]) == 1
TGT_VALID = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1], [1, 1, 0, 0, 0]]) == 1
PLACEMENT = {True: "pre", False: "post"}


def blocked(mask):
    """Ours (True = may attend) to torch's (True = blocked, or True = ignore this key)."""
    return ~mask


def copy_linear(ours, theirs):
    ours.load_state_dict(theirs.state_dict())


def copy_attention(ours: Attention, theirs: nn.MultiheadAttention):
    for projection, weight in zip("qkv", theirs.in_proj_weight.chunk(3), strict=True):
        getattr(ours, f"w_{projection}").weight.data.copy_(weight)
    for projection, bias in zip("qkv", theirs.in_proj_bias.chunk(3), strict=True):
        getattr(ours, f"w_{projection}").bias.data.copy_(bias)
    copy_linear(ours.w_o, theirs.out_proj)


def copy_block(ours: Block | DecoderBlock, theirs):
    copy_attention(ours.attn, theirs.self_attn)
    copy_linear(ours.ffn.w_up, theirs.linear1)
    copy_linear(ours.ffn.w_down, theirs.linear2)
    norms = [ours.attn_norm, ours.ffn_norm]
    if isinstance(ours, DecoderBlock):
        copy_attention(ours.cross_attn, theirs.multihead_attn)
        norms.insert(1, ours.cross_attn_norm)
    for number, norm in enumerate(norms, start=1):
        copy_linear(norm, getattr(theirs, f"norm{number}"))


def transformer_pair(tiny_model, scatter, norm_first, ffn="relu", **changes):
    ours = tiny_model(
        norm_placement=PLACEMENT[norm_first],
        ffn=ffn,
        norm_eps=1e-3,
        final_norm=True,  # torch ends both stacks with a norm, post-norm or not
        **changes,
    )
    sizes = {"num_encoder_layers": 3, "num_decoder_layers": 2, "dim_feedforward": D_FF}
    kind = {"norm_first": norm_first, "activation": ffn, "layer_norm_eps": 1e-3}
    theirs = nn.Transformer(D_MODEL, H, **sizes, **kind, dropout=0.0, batch_first=True)
    theirs = scatter(theirs).double()
    for stack in ("encoder", "decoder"):
        mine, other = getattr(ours, stack), getattr(theirs, stack)
        for block, layer in zip(mine.blocks, other.layers, strict=True):
            copy_block(block, layer)
        copy_linear(mine.final_norm, other.norm)
    # In train mode (dropout 0) torch does not take the fast path, which would blank the padding.
    return ours.double(), theirs.train()


def torch_logits(ours, theirs, src, tgt, src_valid, tgt_valid):
    """Our embeddings and unembedding around torch's two stacks."""
    embedded_src, _ = ours.encoder.embed_tokens(src, src_valid)
    embedded_tgt, _ = ours.decoder.embed_tokens(tgt, tgt_valid)
    hidden = theirs(
        embedded_src,
        embedded_tgt,
        tgt_mask=blocked(causal_mask(T)),
        src_key_padding_mask=None if src_valid is None else blocked(src_valid),
        tgt_key_padding_mask=None if tgt_valid is None else blocked(tgt_valid),
        memory_key_padding_mask=None if src_valid is None else blocked(src_valid),
    )
    return ours.unembed(hidden)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True:UserWarning")
@pytest.mark.parametrize("norm_first", [True, False], ids=PLACEMENT.get)
@pytest.mark.parametrize("ffn", ["relu", "gelu"])
@pytest.mark.parametrize("padded", [True, False])
def test_the_encoder_decoder_is_torchs_transformer(
    norm_first, ffn, padded, tiny_model, scatter, random_tokens
):
    ours, theirs = transformer_pair(tiny_model, scatter, norm_first, ffn)
    src, tgt = random_tokens(B, S), random_tokens(B, T)
    src_valid, tgt_valid = (SRC_VALID, TGT_VALID) if padded else (None, None)
    expected = torch_logits(ours, theirs, src, tgt, src_valid, tgt_valid)
    rows = Rows(tgt, tgt_valid, src, src_valid)
    close(ours.read(rows), expected, atol=1e-11)
    speed_up(ours)
    close(ours.read(rows), expected, atol=1e-11)


# That no mask leaks is asked in tests/explorer/mask_tests, of every family and kind of positions.
@pytest.mark.parametrize("is_fast", [False, True])
@pytest.mark.parametrize("family", WRITERS)
def test_an_empty_sentence_in_a_batch_is_finite(
    family, is_fast, tiny_model, run_model, random_tokens
):
    model = tiny_model(family=family).train()
    if is_fast:
        speed_up(model)
    src, tgt = random_tokens(B, S), random_tokens(B, T)
    src_valid, tgt_valid = torch.ones(B, S) == 1, torch.ones(B, T) == 1
    src_valid[1], tgt_valid[2] = False, False
    logits = run_model(model, src, tgt, src_valid=src_valid, tgt_valid=tgt_valid)
    logits[tgt_valid].pow(2).sum().backward()
    assert logits.isfinite().all()
    for name, parameter in model.named_parameters():
        assert parameter.grad.isfinite().all(), name
