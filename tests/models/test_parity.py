"""Whole models against torch's own, with copied weights, and leaks of masks."""

from contextlib import nullcontext
from functools import cache, partial
from itertools import product

import pytest
import torch
from families import WRITERS
from tables import assert_close
from torch import nn

from models.attention import Attention
from models.blocks import Block, DecoderBlock
from models.fast import speed_up
from models.hooks import Record, visiting
from models.masks import causal_mask
from models.positions import POSITIONS
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


# Leaks, for every attention path, family, norm placement and kind of positions. Edit a future
# token: nothing before it changes. Add padding, left or right: nothing changes at real tokens.
# Run a prefix: it gives what the full pass gave there.
V, PAD = 23, 0
PLACEMENTS = ("post", "pre", "sublayer")


def looking(path):
    """Somebody looks at every site, or nobody at any."""
    return visiting(Record(lambda name: "pattern" in name)) if path == "explicit" else nullcontext()


def taking(path, model):
    """The plain model, or the fast one, which takes the fused kernel where nobody looks."""
    if path == "fused":
        speed_up(model)
    return model


@pytest.fixture(params=["explicit", "fused"])
def path(request):
    return request.param


@cache
def made(tiny_model, path, **changes):
    return taking(path, tiny_model(**changes, n_kv_heads=2))


@pytest.fixture(params=product(WRITERS, PLACEMENTS, POSITIONS), ids="-".join)
def model(request, path, tiny_model):
    family, placement, positions = request.param
    return made(tiny_model, path, family=family, norm_placement=placement, positions=positions)


def changed(a, b):
    """Bool [batch, pos]: where the logits differ."""
    return ~torch.isclose(a, b, atol=ATOL, rtol=0).all(-1)


def test_an_edited_or_missing_future_token_changes_nothing_before_it(
    model, path, run_model, random_tokens
):
    src, tgt = random_tokens(T + 1, S), random_tokens(T + 1, T)
    edited = tgt.clone()
    rows = torch.arange(T)  # sentence i gets another token at i; the last sentence is left alone
    edited[rows, rows] = (edited[rows, rows] - 4 + 1) % (V - 4) + 4
    with looking(path):
        whole = run_model(model, src, tgt)
        where = changed(whole, run_model(model, src, edited))
        for length in range(1, T):
            close(run_model(model, src, tgt[:, :length]), whole[:, :length])
    expected = torch.ones(T + 1, T).triu().bool()  # the token itself and what follows it
    assert torch.equal(where, expected)


def padded(rows, n, left):
    """Rows of different lengths in n columns, `left` of them padding before every row."""
    tokens = torch.full((len(rows), n), PAD)
    for row, ids in zip(tokens, rows, strict=True):
        row[left : left + len(ids)] = ids
    return tokens, tokens != PAD


def test_a_row_is_read_alone_as_in_a_padded_batch(model, path, run_model, random_tokens):
    """With padding on both sides, of random content."""
    srcs = [random_tokens(1, n)[0] for n in (7, 4, 1)]
    tgts = [random_tokens(1, n)[0] for n in (5, 2, 3)]
    (src, src_valid), (tgt, tgt_valid) = padded(srcs, 11, 3), padded(tgts, 8, 2)
    with looking(path):
        both = run_model(model, src, tgt, src_valid=src_valid, tgt_valid=tgt_valid)
        other = src.masked_fill(~src_valid, 9), tgt.masked_fill(~tgt_valid, 9)
        refilled = run_model(model, *other, src_valid=src_valid, tgt_valid=tgt_valid)
        close(refilled[tgt_valid], both[tgt_valid])
        assert both.isfinite().all()
        for row, (src_ids, tgt_ids) in enumerate(zip(srcs, tgts, strict=True)):
            alone = run_model(model, src_ids[None], tgt_ids[None])[0]
            close(both[row][tgt_valid[row]], alone)


@pytest.mark.parametrize("family", WRITERS)
def test_an_empty_sentence_in_a_batch_is_finite(family, path, tiny_model, run_model, random_tokens):
    model = taking(path, tiny_model(family=family).train())
    src, tgt = random_tokens(B, S), random_tokens(B, T)
    src_valid, tgt_valid = torch.ones(B, S) == 1, torch.ones(B, T) == 1
    src_valid[1], tgt_valid[2] = False, False
    with looking(path):
        logits = run_model(model, src, tgt, src_valid=src_valid, tgt_valid=tgt_valid)
        logits[tgt_valid].pow(2).sum().backward()
    assert logits.isfinite().all()
    for name, parameter in model.named_parameters():
        assert parameter.grad.isfinite().all(), name
