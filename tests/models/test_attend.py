"""`attend` against torch's kernel, plain and fast, forwards and backwards, under every mask."""

import pytest
import torch
from families import sized
from torch.nn import functional as F

from models import fast
from models.attention import Attention, attend
from models.hooks import Record, name_hook_points, visiting
from models.masks import causal_mask, padding_mask

B, H, KV, T, S, D = 3, 4, 2, 5, 7, 6

KEY_VALID = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0]]) == 1
QUERY_VALID = torch.tensor([[1, 1, 1, 1, 1], [0, 1, 1, 1, 1], [1, 1, 1, 0, 0]]) == 1
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


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_rows_sum_to_one_on_allowed_cells_and_are_zero_on_blocked(mask):
    _, pattern = attend(*tensors(), mask)
    allowed = torch.ones(B, H, T, S, dtype=torch.bool) if mask is None else mask
    allowed = allowed.expand(B, H, T, S)
    assert (pattern[~allowed] == 0).all()
    assert (pattern[allowed] > 0).all()
    rows = allowed.any(-1).to(pattern.dtype)
    torch.testing.assert_close(pattern.sum(-1), rows, atol=1e-14, rtol=0)


def test_the_softmax_by_hand():
    # d_head 4: scores 4 ln 2 / 2, 0 and (blocked) a large one; weights 4 / 5 and 1 / 5.
    ln2 = torch.log(torch.tensor(2.0))
    q = torch.tensor([[[[1.0, 1.0, 1.0, 1.0]]]])
    k = torch.stack((ln2.expand(4), torch.zeros(4), torch.full((4,), 50.0)))[None, None]
    v = torch.tensor([[[[10.0, 0, 0, 0], [0, 20.0, 0, 0], [0, 0, 1e6, 0]]]])
    z, pattern = attend(q, k, v, torch.tensor([[True, True, False]]))
    torch.testing.assert_close(pattern, torch.tensor([[[[0.8, 0.2, 0.0]]]]))
    torch.testing.assert_close(z, torch.tensor([[[[8.0, 4.0, 0.0, 0.0]]]]))


@pytest.mark.parametrize("attend", WAYS.values(), ids=WAYS)
def test_no_score_is_too_low_to_beat_a_blocked_key(attend):
    """A fill of -1e4 would give all the weight to the blocked key here."""
    q = torch.tensor([[[[1.0]]]])
    k = torch.tensor([[[[-12000.0], [-12001.0], [0.0]]]])
    v = torch.tensor([[[[1.0], [2.0], [100.0]]]])
    z, _ = attend(q, k, v, torch.tensor([[True, True, False]]))
    torch.testing.assert_close(z, torch.tensor([[[[1.0 + 0.2689414]]]]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_masks_without_overflow(dtype):
    q, k, v = (tensor.detach() for tensor in tensors(dtype))
    _, pattern = attend(q, k, v, causal_mask(T, S))
    assert pattern.isfinite().all()
    assert (pattern[:, :, 0, 1:] == 0).all()


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


def test_heads_that_do_not_divide_are_refused():
    q, k = torch.randn(1, 4, 2, 6), torch.randn(1, 3, 2, 6)
    with pytest.raises(ValueError, match="4 query heads cannot share 3 key/value heads"):
        attend(q, k, k)


def test_dropout_falls_on_the_pattern_after_it_was_returned():
    q, k, v = tensors()
    z, pattern = attend(q, k, v, dropout=0.5)
    torch.testing.assert_close(pattern.sum(-1), torch.ones(B, H, T).double())
    assert (z - pattern @ v).abs().max() > 0.01
    # In the mean over many draws it is the z without dropout.
    many = [tensor.repeat(3000, 1, 1, 1) for tensor in (q, k, v)]
    mean = attend(*many, dropout=0.5)[0].unflatten(0, (3000, B)).mean(0)
    torch.testing.assert_close(mean, pattern @ v, atol=0.25, rtol=0)
