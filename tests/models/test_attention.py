"""`Attention`, the sublayer: its hook points, its heads, what looking and editing do."""

import pytest
import torch
from families import sized
from torch.nn import functional as F

from models import fast
from models.attention import Attention, attend
from models.fast import speed_up
from models.hooks import Edits, Record, name_hook_points, visiting
from models.masks import causal_mask, padding_mask, require_mask
from models.positions import Placement

B, H, KV, T, S, D = 3, 4, 2, 5, 7, 6
KEY_VALID = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0]]) == 1
QUERY_VALID = torch.tensor([[1, 1, 1, 1, 1], [0, 1, 1, 1, 1], [1, 1, 1, 0, 0]]) == 1
D_MODEL = 24


@pytest.fixture(params=["plain", "fast"])
def layer(request, scatter):
    attention = Attention(sized(D_MODEL, H, n_kv_heads=KV, dropout=0.3))
    scatter(attention)
    name_hook_points(attention)
    if request.param == "fast":
        speed_up(attention)
    return attention.double().eval()


def everything(name):
    return True


def test_each_step_follows_from_the_one_before(layer):
    x, memory = torch.randn(B, T, D_MODEL).double(), torch.randn(B, S, D_MODEL).double()
    mask = padding_mask(KEY_VALID)
    record = Record(everything)
    with visiting(record):
        out = layer(x, memory, mask=mask)
    seen = {name.removeprefix("hook_"): tensor for name, tensor in record.activations.items()}
    torch.testing.assert_close(layer(x, memory, mask=mask), out, atol=1e-13, rtol=0)  # unseen
    assert {name: tuple(tensor.shape) for name, tensor in seen.items()} == {
        "q": (B, H, T, D),
        "k": (B, KV, S, D),
        "v": (B, KV, S, D),
        "scores": (B, H, T, S),
        "mask": (B, H, T, S),
        "pattern": (B, H, T, S),
        "z": (B, H, T, D),
    }
    torch.testing.assert_close(seen["q"].transpose(1, 2).flatten(2), layer.w_q(x))
    torch.testing.assert_close(seen["k"].transpose(1, 2).flatten(2), layer.w_k(memory))
    torch.testing.assert_close(seen["v"].transpose(1, 2).flatten(2), layer.w_v(memory))
    for head in range(H):
        kv = head // (H // KV)
        raw = torch.einsum("bqd,bkd->bqk", seen["q"][:, head], seen["k"][:, kv]) / D**0.5
        torch.testing.assert_close(seen["scores"][:, head], raw)
        z = torch.einsum("bqk,bkd->bqd", seen["pattern"][:, head], seen["v"][:, kv])
        torch.testing.assert_close(seen["z"][:, head], z)
    assert torch.equal(seen["mask"], mask.expand(B, H, T, S))
    assert seen["scores"].isfinite().all()  # before the mask
    blocked = seen["scores"].masked_fill(~seen["mask"], -torch.inf)
    torch.testing.assert_close(seen["pattern"], blocked.softmax(-1))
    torch.testing.assert_close(layer.w_o(seen["z"].transpose(1, 2).flatten(2)), out)


@pytest.mark.parametrize("mask", [None, causal_mask(T), padding_mask(QUERY_VALID)])
def test_a_bias_joins_the_scaled_scores(layer, mask):
    x, bias = torch.randn(B, T, D_MODEL).double(), torch.randn(B, H, T, T)
    without, record = Record(everything), Record(everything)
    with visiting(without):
        layer(x, mask=mask)
    assert "hook_bias" not in without.activations  # it fires where there is a bias
    with visiting(record):
        seen = layer(x, mask=mask, placement=Placement(bias=bias))
    torch.testing.assert_close(seen, layer(x, mask=mask, placement=Placement(bias=bias)))
    assert torch.equal(record.activations["hook_bias"], bias)
    scores = without.activations["hook_scores"] + bias.double()
    torch.testing.assert_close(record.activations["hook_scores"], scores)
    blocked = scores.masked_fill(~record.activations["hook_mask"], -torch.inf)
    torch.testing.assert_close(record.activations["hook_pattern"], blocked.softmax(-1).nan_to_num())
    with visiting(Edits({"hook_bias": torch.zeros_like})):
        torch.testing.assert_close(
            layer(x, mask=mask, placement=Placement(bias=bias)), layer(x, mask=mask)
        )


def test_an_opened_or_closed_cell_of_one_head_changes_only_that_query(layer):
    x = torch.randn(B, T, D_MODEL).double()

    def close(mask):
        mask = mask.clone()
        mask[:, 1, 3, 2] = False
        return mask

    record = Record(everything, Edits({"hook_mask": close}))
    with visiting(record):
        after = layer(x)
    before = layer(x)
    assert (record.activations["hook_pattern"][:, 1, 3, 2] == 0).all()
    assert (record.activations["hook_pattern"][:, 0, 3, 2] > 0).all()
    changed = ~torch.isclose(before, after, atol=1e-12, rtol=0).all(-1)
    assert changed.tolist() == [[False, False, False, True, False]] * B


def test_an_edited_pattern_is_what_mixes_the_values(layer):
    x = torch.randn(B, T, D_MODEL).double()
    look_back = torch.zeros(B, H, T, T).double()
    look_back[..., 0] = 1
    record = Record(everything, Edits({"hook_pattern": lambda pattern: look_back}))
    with visiting(record):
        layer(x)
    first = record.activations["hook_v"][:, :, :1].repeat_interleave(H // KV, dim=1)
    torch.testing.assert_close(record.activations["hook_z"], first.expand(B, H, T, D))


def test_the_seen_pattern_is_before_dropout(layer):
    layer.train()
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


# Masks, cell by cell, against drawings; and the refusal of a tensor that is no mask.


VALID = torch.tensor([[True, True, False], [False, True, True]])


def drawn(*rows):
    """A mask from a drawing: x = may attend."""
    return torch.tensor([[cell == "x" for cell in row] for row in rows])


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
def test_what_is_no_mask_is_refused(attend):
    q, k = torch.randn(3, 4, 5, 6), torch.randn(3, 4, 7, 6)
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


@pytest.mark.parametrize(
    "shape", [(7,), (5, 7), (1, 7), (4, 5, 7), (1, 5, 7), (3, 1, 1, 7), (3, 4, 5, 7), (1, 1, 1, 1)]
)
def test_masks_that_broadcast_are_accepted(shape):
    require_mask(torch.ones(shape, dtype=torch.bool), (3, 4, 5, 7))
