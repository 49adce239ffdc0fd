"""`Attention`, the sublayer: its hook points, its heads, what looking and editing do."""

import pytest
import torch
from families import sized

from models.attention import Attention
from models.fast import speed_up
from models.hooks import Edits, Record, name_hook_points, visiting
from models.masks import causal_mask, padding_mask
from models.positions import Placement, rotate, rotation_at

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


def test_a_rotation_turns_queries_and_keys_and_no_values(layer):
    x = torch.randn(B, T, D_MODEL).double()
    positions = torch.tensor([[0, 1, 2, 3, 4], [0, 0, 1, 2, 3], [5, 6, 7, 8, 9]])
    rotation = rotation_at(positions, D)
    record = Record(everything)
    with visiting(record):
        layer(x, placement=Placement(rotation))
    for what, turn in [("q", rotate), ("k", rotate), ("v", lambda split, rotation: split)]:
        projected = getattr(layer, f"w_{what}")(x)
        split = projected.unflatten(2, (-1, D)).transpose(1, 2)  # [batch, head, pos, d_head]
        torch.testing.assert_close(record.activations[f"hook_{what}"], turn(split, rotation))


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


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 1), (6, 2), (4, None)])
def test_parameter_counts(heads, kv_heads):
    d = D_MODEL
    d_kv = d // heads * (kv_heads or heads)
    attention = Attention(sized(d, heads, n_kv_heads=kv_heads))
    count = sum(parameter.numel() for parameter in attention.parameters())
    assert count == 2 * (d * d + d) + 2 * (d * d_kv + d_kv)
    bare = Attention(sized(d, heads, n_kv_heads=kv_heads, bias=False))
    assert sum(parameter.numel() for parameter in bare.parameters()) == 2 * d * d + 2 * d * d_kv


@pytest.mark.parametrize(
    ("d_model", "heads", "kv_heads"), [(16, 3, None), (24, 4, 3), (24, 4, 0), (24, 0, None)]
)
def test_impossible_heads_are_refused(d_model, heads, kv_heads):
    with pytest.raises(ValueError, match="heads"):
        Attention(sized(d_model, heads, n_kv_heads=kv_heads))
