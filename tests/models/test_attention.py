"""Attention, norms and blocks against torch; masks, dropout, and what is refused."""

import pytest
import torch
from tables import drawn
from tiny import everything, scatter, sized, tiny_config
from torch.nn import functional as F

from models import fast
from models.attention import Attention, attend
from models.blocks import Block, DecoderBlock
from models.fast import speed_up
from models.hooks import Record, name_hook_points, visiting
from models.masks import causal_mask, padding_mask, require_mask
from models.norms import NORMS, LayerNorm, RMSNorm

B, H, KV, T, S, D = 3, 4, 2, 5, 7, 6
KEY_VALID = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0]]) == 1
QUERY_VALID = torch.tensor([[1, 1, 1, 1, 1], [0, 1, 1, 1, 1], [1, 1, 1, 0, 0]]) == 1
D_MODEL = 24


@pytest.mark.parametrize("is_fast", [False, True])
def test_the_seen_pattern_is_before_dropout(is_fast):
    layer = Attention(sized(D_MODEL, H, n_kv_heads=KV, dropout=0.3)).double()
    scatter(layer)
    name_hook_points(layer)
    if is_fast:
        speed_up(layer)
    x = torch.randn(B, T, D_MODEL).double()
    record = Record(everything)
    with visiting(record):
        first = layer(x, mask=causal_mask(T))
    pattern = record.activations["hook_pattern"]
    torch.testing.assert_close(pattern.sum(-1), torch.ones(B, H, T).double())
    assert not torch.equal(first, layer(x, mask=causal_mask(T)))
    layer.eval()
    assert torch.equal(layer(x), layer(x))


# `attend` against torch's kernel, plain and fast, forwards and backwards, under every mask.
PER_HEAD = torch.rand(H, T, S, generator=torch.Generator().manual_seed(1)) < 0.6
MASKS = {
    "none": None,
    "causal [query, key]": causal_mask(T, S, offset=S - T),
    "top left [query, key]": causal_mask(T, S),
    "padded keys [batch, 1, 1, key]": padding_mask(KEY_VALID),
    "padded both [batch, 1, query, key]": padding_mask(KEY_VALID) & padding_mask(QUERY_VALID).mT,
    "joined [batch, 1, query, key]": padding_mask(KEY_VALID) & causal_mask(T, S, offset=S - T),
    "per head [1, head, query, key]": PER_HEAD[None],
    "per head and sentence": PER_HEAD[None] & padding_mask(KEY_VALID),
    "nothing allowed": torch.zeros(1, 1, dtype=torch.bool),
}
WAYS = {"plain": attend, "fused": fast.attend}  # nobody looks: the fast one takes the kernel


def tensors(dtype=torch.float64, kv_heads=H):
    q = torch.randn(B, H, T, D, dtype=dtype)
    k, v = torch.randn(2, B, kv_heads, S, D, dtype=dtype).unbind()
    return tuple(tensor.clone().requires_grad_() for tensor in (q, k, v))


def grads(z, leaves):
    weights = torch.linspace(-1, 1, z.numel(), dtype=z.dtype).reshape(z.shape)
    return torch.autograd.grad((z * weights).sum(), leaves)


@pytest.mark.parametrize("kv_heads", [H, KV, 1])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float64, 1e-13), (torch.float32, 2e-6)])
def test_explicit_fused_and_torch_agree_forwards_and_backwards(dtype, atol, mask, kv_heads):
    leaves = tensors(dtype, kv_heads)
    explicit, _ = attend(*leaves, mask)
    fused, no_pattern = fast.attend(*leaves, mask)
    expected = F.scaled_dot_product_attention(*leaves, attn_mask=mask, enable_gqa=True)
    assert no_pattern is None
    torch.testing.assert_close(explicit, expected, atol=atol, rtol=0)
    torch.testing.assert_close(fused, expected, atol=atol, rtol=0)
    expected_grads = grads(expected, leaves)
    for z in (explicit, fused):
        for ours, theirs in zip(grads(z, leaves), expected_grads, strict=True):
            torch.testing.assert_close(ours, theirs, atol=20 * atol, rtol=0)


@pytest.mark.parametrize("attend", WAYS.values(), ids=WAYS)
def test_no_score_is_too_low_to_beat_a_blocked_key(attend):
    """A fill of -1e4 would give all the weight to the blocked key here."""
    q = torch.tensor([[[[1.0]]]])
    k = torch.tensor([[[[-12000.0], [-12001.0], [0.0]]]])
    v = torch.tensor([[[[1.0], [2.0], [100.0]]]])
    z, _ = attend(q, k, v, torch.tensor([[True, True, False]]))
    torch.testing.assert_close(z, torch.tensor([[[[1.0 + 0.2689414]]]]))


@pytest.mark.parametrize("attend", WAYS.values(), ids=WAYS)
def test_half_precision_scales_by_the_unrounded_number(attend):
    # 1 / sqrt(12) in bfloat16 is 0.13 % too large, which 7 times it shows.
    layer = Attention(sized(12, 1))
    fast.speed_up(layer)
    name_hook_points(layer)
    q = torch.zeros(1, 1, 1, 12, dtype=torch.bfloat16)
    q[..., 0] = 7
    record = Record({"hook_scores"}.__contains__)
    with visiting(record):
        attend(q, (q > 0).to(q.dtype), q, hooks=layer)
    assert record.activations["hook_scores"].item() == torch.tensor(7 / 12**0.5).bfloat16().item()


# Masks, cell by cell, against drawings; and the refusal of a tensor that is no mask.
VALID = torch.tensor([[True, True, False], [False, True, True]])


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
def test_what_is_no_mask_is_refused_and_heads_that_do_not_divide(attend):
    q, k = torch.randn(3, 4, 5, 6), torch.randn(3, 4, 7, 6)
    with pytest.raises(ValueError, match="4 query heads cannot share 3 key/value heads"):
        attend(q, k[:, :3], k[:, :3])
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


@pytest.fixture
def block():
    def make(kind, **changes):
        made = scatter(kind(tiny_config(**changes)))
        name_hook_points(made)
        return made.double().eval()

    return make


@pytest.mark.parametrize("placement", ["post", "pre", "sublayer"])
def test_dropout_acts_on_the_branch_in_training_only(block, placement):
    made = block(Block, norm_placement=placement, dropout=0.5)
    x = torch.randn(B, T, D_MODEL).double()
    assert torch.equal(made(x), made(x))
    made.train()
    record = Record(everything)
    with visiting(record):
        made(x)
    seen = record.activations
    dropped = (seen["hook_ffn_out"] == 0).double().mean().item()
    assert 0.35 < dropped < 0.65
    assert (seen["hook_resid_pre"] == x).all()


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


# Norms against torch; norm weights are never uniform.
SHAPES = [(8,), (5, 8), (3, 5, 8), (2, 3, 5, 8)]


def inputs(shape, dtype=torch.float64):
    x = 3 * torch.randn(shape, dtype=dtype) + 1
    weight = torch.linspace(-1.5, 2.5, shape[-1], dtype=dtype)
    bias = torch.linspace(2.0, -1.0, shape[-1], dtype=dtype)
    return x, weight, bias


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float64, 1e-13), (torch.float32, 2e-6)])
@pytest.mark.parametrize("eps", [1e-5, 0.3])
def test_norms_are_torchs(shape, dtype, atol, eps):
    x, weight, bias = inputs(shape, dtype)
    layer, rms = (kind(shape[-1], eps).to(dtype) for kind in (LayerNorm, RMSNorm))
    layer.weight.data, layer.bias.data, rms.weight.data = weight, bias, weight
    expected = F.layer_norm(x, weight.shape, weight, bias, eps)
    torch.testing.assert_close(layer(x), expected, atol=atol, rtol=0)
    expected = F.rms_norm(x, weight.shape, weight, eps)
    torch.testing.assert_close(rms(x), expected, atol=atol, rtol=0)


@pytest.mark.parametrize("kind", NORMS)
def test_half_precision_does_not_overflow(kind):
    # 300 squared is beyond float16, whose largest number is 65504.
    x = torch.tensor([[300.0, -300.0, 300.0, -300.0]], dtype=torch.float16)
    out = NORMS[kind](4).half()(x)
    assert out.dtype == torch.float16
    assert out.tolist() == [[1.0, -1.0, 1.0, -1.0]]
