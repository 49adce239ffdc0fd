"""The families: what adds up, what is shared, what an edit does, what is refused."""

import math

import pytest
import torch
from torch import nn

from models.positions import POSITIONS, sinusoidal_table
from models.rows import Rows
from models.transformer import FAMILIES

B, T, S, H, D_MODEL = 3, 5, 7, 4, 24
STACKS = {"encoder-decoder": ("encoder.", "decoder."), "decoder-only": ("",), "encoder-only": ("",)}


def everything(name):
    return True


@pytest.fixture(params=FAMILIES)
def family(request):
    return request.param


@pytest.fixture
def streams(random_tokens):
    return random_tokens(B, S), random_tokens(B, T)


# Sum to the whole


@pytest.mark.parametrize(
    ("placement", "positions", "n_kv_heads"),
    [
        *(("pre", positions, None) for positions in POSITIONS),
        ("sublayer", "sinusoidal", 2),
        ("post", "rotary", 2),
    ],
)
def test_heads_and_residual_pieces_add_up(
    family, placement, positions, n_kv_heads, streams, tiny_model, run_model, record
):
    changes = {"norm_placement": placement, "positions": positions, "n_kv_heads": n_kv_heads}
    model = tiny_model(family=family, **changes)
    seen = record(lambda: run_model(model, *streams), everything)
    for site in model.attention_sites() if placement != "sublayer" else ():  # there a norm follows
        w_o = model.get_submodule(site.name).w_o
        heads = w_o.weight.unflatten(1, (H, -1))  # [d_model, head, d_head]
        parts = torch.einsum("bhqd,mhd->bhqm", seen[site.hook("z")], heads)
        whole = seen[site.block_hook("attn_out" if site.kind == "self" else "cross_attn_out")]
        torch.testing.assert_close(parts.sum(1) + w_o.bias, whole, atol=1e-12, rtol=0)
    for stack in STACKS[family]:
        layers = 3 if stack == "encoder." else 2
        for layer in range(1, layers):
            ended = seen[f"{stack}blocks.{layer - 1}.hook_resid_post"]
            assert torch.equal(seen[f"{stack}blocks.{layer}.hook_resid_pre"], ended)
        final = seen[f"{stack}hook_resid_final"]
        assert torch.equal(final, seen[f"{stack}blocks.{layers - 1}.hook_resid_post"])
        pieces = [
            tensor
            for name, tensor in seen.items()
            if name.startswith(f"{stack}blocks.") and name.endswith("_out")
        ]
        assert len(pieces) == {"encoder.": 6, "decoder.": 6, "": 4}[stack]
        begun = (f"{stack}hook_embed", f"{stack}hook_pos_embed")
        pieces += [seen[name] for name in begun if name in seen]
        if placement != "post":
            torch.testing.assert_close(sum(pieces), final, atol=1e-12, rtol=0)


@pytest.mark.parametrize("final_norm", [True, False])
def test_logits_are_the_unembedded_last_stream(
    family, final_norm, streams, tiny_model, run_model, record
):
    model = tiny_model(family=family, final_norm=final_norm)
    seen = record(lambda: run_model(model, *streams), everything)
    stack = STACKS[family][-1]
    x = seen[f"{stack}hook_resid_final"]
    if final_norm:
        norm = model.get_submodule(f"{stack}final_norm")
        x = nn.functional.layer_norm(x, (D_MODEL,), norm.weight, norm.bias, 1e-5)
    torch.testing.assert_close(x @ model.unembed.weight.T, seen["hook_logits"])


@pytest.mark.parametrize("scale", [True, False])
def test_the_input_is_scaled_embeddings_plus_positions(
    family, scale, streams, tiny_model, run_model, record
):
    model = tiny_model(family=family, scale_embeddings=scale, tie_embeddings=False)
    seen = record(lambda: run_model(model, *streams), everything)
    for stack in STACKS[family]:
        tokens = streams[0] if stack == "encoder." else streams[1]
        embedding = model.get_submodule(f"{stack}embed").weight[tokens]
        embedding = embedding * (math.sqrt(D_MODEL) if scale else 1)
        table = sinusoidal_table(tokens.shape[1], D_MODEL).double()
        torch.testing.assert_close(seen[f"{stack}hook_embed"], embedding)
        torch.testing.assert_close(seen[f"{stack}blocks.0.hook_resid_pre"], embedding + table)


# One memory


def test_the_encoder_runs_once_and_every_decoder_block_reads_it(streams, tiny_model, record):
    model = tiny_model()
    src, tgt = streams
    memory = model.memory_of(Rows(tgt, src=src))
    seen = record(lambda: model.read(Rows(tgt), memory), everything)
    assert not any(name.startswith("encoder.") for name in seen)
    for layer, block in enumerate(model.decoder.blocks):
        keys = block.cross_attn.w_k(memory).unflatten(2, (H, -1)).transpose(1, 2)
        torch.testing.assert_close(seen[f"decoder.blocks.{layer}.cross_attn.hook_k"], keys)
    torch.testing.assert_close(seen["hook_logits"], model.read(Rows(tgt, src=src)))


def test_rotary_turns_self_attention_and_not_cross_attention(streams, tiny_model, record):
    model = tiny_model(positions="rotary")
    src, tgt = streams
    seen = record(lambda: model.read(Rows(tgt, src=src)), everything)

    def turned(site):
        layer = model.get_submodule(site)
        block = site.rsplit(".", 1)[0]
        stream = "resid_mid" if site.endswith("cross_attn") else "resid_pre"
        plain = layer.w_q(seen[f"{block}.hook_{stream}"]).unflatten(2, (H, -1)).transpose(1, 2)
        return ~torch.isclose(seen[f"{site}.hook_q"], plain).all(-1).all(1)  # [batch, query]

    assert not turned("decoder.blocks.1.cross_attn").any()
    for site in ("encoder.blocks.1.attn", "decoder.blocks.1.attn"):
        assert not turned(site)[:, 0].any()  # position 0 is turned by nothing
        assert turned(site)[:, 1:].all()


# Refusals


def test_a_source_mask_of_another_length_is_refused(tiny_model, random_tokens):
    model, tgt = tiny_model(), random_tokens(B, T)
    # ValueError from the model; TypeError where shapes are checked on the way in.
    with pytest.raises((ValueError, TypeError), match=r"src_valid|valid covers"):
        model.memory_of(Rows(tgt, None, random_tokens(B, S), torch.ones(B, S + 1) == 1))
    rows = Rows(tgt, src_valid=torch.ones(B, 1) == 1)
    with pytest.raises(ValueError, match=f"valid covers 1 positions; the text has {S}"):
        model.read(rows, torch.randn(B, S, D_MODEL).double())
