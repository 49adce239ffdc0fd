"""Whole sublayers, blocks and models against torch's own, with copied weights.

torch's modules speak another language of masks: True = blocked, True = ignore. `blocked` below is
the only place where it is translated.
"""

import pytest
import torch
from families import sized
from torch import nn

from models.attention import Attention
from models.blocks import Block, DecoderBlock
from models.fast import speed_up
from models.hooks import Record, name_hook_points, visiting
from models.masks import causal_mask, padding_mask
from models.rows import Rows

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
    if theirs.in_proj_bias is not None:
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


def close(ours, theirs, atol=1e-12):
    assert ours.shape == theirs.shape
    torch.testing.assert_close(ours, theirs, atol=atol, rtol=0)


def attention_pair(scatter, bias=True):
    theirs = scatter(nn.MultiheadAttention(D_MODEL, H, bias=bias, batch_first=True))
    ours = Attention(sized(D_MODEL, H, bias=bias, dropout=0.0))
    copy_attention(ours, theirs)
    name_hook_points(ours)
    return ours.double().eval(), theirs.double().eval()


MASKS = torch.rand(B, H, T, S, generator=torch.Generator().manual_seed(1)) < 0.5
MASKS[..., 0] = True  # torch gives NaN for a row with nothing allowed; ours has its own test
CASES = {
    "causal": (False, causal_mask(T), {"attn_mask": blocked(causal_mask(T))}),
    "padded": (True, padding_mask(SRC_VALID), {"key_padding_mask": blocked(SRC_VALID)}),
    "per head": (True, MASKS, {"attn_mask": blocked(MASKS).reshape(B * H, T, S)}),
}
"""Whether keys come from a memory, our mask, and torch's."""


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("bias", [True, False])
def test_attention_is_multihead_attention(bias, case, scatter):
    crosses, mask, theirs_of = CASES[case]
    ours, theirs = attention_pair(scatter, bias)
    x, memory = torch.randn(B, T, D_MODEL).double(), torch.randn(B, S, D_MODEL).double()
    source = memory if crosses else x
    expected, weights = theirs(x, source, source, average_attn_weights=False, **theirs_of)
    record = Record(lambda name: name == "hook_pattern")
    with visiting(record):
        close(ours(x, memory if crosses else None, mask=mask), expected)
    close(record.activations["hook_pattern"], weights)
    speed_up(ours)  # and by the fused kernel, where nobody looks
    close(ours(x, memory if crosses else None, mask=mask), expected)


def test_attention_gradients_are_multihead_attentions(scatter):
    ours, theirs = attention_pair(scatter)
    x = torch.randn(B, T, D_MODEL).double()
    mine, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    ours(mine, mask=causal_mask(T)).pow(2).sum().backward()
    out, _ = theirs(other, other, other, attn_mask=blocked(causal_mask(T)))
    out.pow(2).sum().backward()
    close(mine.grad, other.grad)
    stacked = torch.cat([getattr(ours, f"w_{name}").weight.grad for name in "qkv"])
    close(stacked, theirs.in_proj_weight.grad)
    close(ours.w_o.bias.grad, theirs.out_proj.bias.grad)


# nn.TransformerEncoderLayer, nn.TransformerDecoderLayer


LAYER = {"d_model": D_MODEL, "nhead": H, "dim_feedforward": D_FF, "batch_first": True}


def transformer_pair(tiny_model, scatter, norm_first, ffn="relu", **changes):
    ours = tiny_model(
        norm_placement=PLACEMENT[norm_first],
        ffn=ffn,
        norm_eps=1e-3,
        final_norm=True,  # torch ends both stacks with a norm, post-norm or not
        **changes,
    )
    theirs = nn.Transformer(
        D_MODEL,
        H,
        num_encoder_layers=3,
        num_decoder_layers=2,
        dim_feedforward=D_FF,
        dropout=0.0,
        activation=ffn,
        batch_first=True,
        norm_first=norm_first,
        layer_norm_eps=1e-3,
    )
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


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True:UserWarning")
@pytest.mark.parametrize("norm_first", [True, False], ids=PLACEMENT.get)
def test_gradients_are_torchs_gradients(norm_first, tiny_model, scatter, random_tokens):
    ours, theirs = transformer_pair(tiny_model, scatter, norm_first, tie_embeddings=False)
    src, tgt = random_tokens(B, S), random_tokens(B, T)
    real = TGT_VALID.reshape(-1)
    weights = torch.randn(B * T, 23).double()[real]

    def gradients(logits):
        ours.zero_grad()
        (logits.reshape(B * T, -1)[real] * weights).sum().backward()
        return [ours.encoder.embed.weight.grad.clone(), ours.decoder.embed.weight.grad.clone()]

    mine = gradients(ours.read(Rows(tgt, TGT_VALID, src, SRC_VALID)))
    last = ours.encoder.blocks[2].ffn.w_down.weight.grad.clone()
    others = gradients(torch_logits(ours, theirs, src, tgt, SRC_VALID, TGT_VALID))
    for a, b in zip(mine, others, strict=True):
        close(a, b, atol=1e-9)
    close(last, theirs.encoder.layers[2].linear2.weight.grad, atol=1e-9)


@pytest.mark.parametrize("norm_first", [True, False], ids=PLACEMENT.get)
def test_decoder_only_is_a_causal_encoder_stack(norm_first, tiny_model, scatter, random_tokens):
    ours = tiny_model(
        family="decoder-only", norm_placement=PLACEMENT[norm_first], final_norm=True, ffn="gelu"
    )
    layers = [
        nn.TransformerEncoderLayer(**LAYER, dropout=0.0, activation="gelu", norm_first=norm_first)
        for _ in range(2)
    ]
    for block, layer in zip(ours.blocks, layers, strict=True):
        copy_block(block, scatter(layer).double())
    ours = ours.double()
    tgt = random_tokens(B, T)
    x, _ = ours.embed_tokens(tgt, TGT_VALID)
    for layer in layers:
        x = layer(x, src_mask=blocked(causal_mask(T)), src_key_padding_mask=blocked(TGT_VALID))
    close(ours.read(Rows(tgt, TGT_VALID)), ours.unembed(ours.final_norm(x)), atol=1e-11)
