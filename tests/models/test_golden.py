"""The golden list: every hook point of each family, by name and in order.

These names are an interface: pages, checkpoints' cards and notebooks use them. A change here is a
change of that interface.
"""

import pytest
from families import hook_names

from models.hooks import AttentionSite
from models.positions import POSITIONS

ATTENTION = (
    "hook_q", "hook_k", "hook_v", "hook_bias", "hook_scores", "hook_mask", "hook_pattern", "hook_z"
)  # fmt: skip

ONE_STACK = """
blocks.0.attn.*
blocks.0.ffn.hook_pre
blocks.0.ffn.hook_gate
blocks.0.ffn.hook_post
blocks.0.hook_resid_pre
blocks.0.hook_attn_out
blocks.0.hook_resid_mid
blocks.0.hook_ffn_out
blocks.0.hook_resid_post
hook_positions
hook_embed
hook_pos_embed
hook_resid_final
hook_logits
"""

ENCODER_DECODER = """
encoder.blocks.0.attn.*
encoder.blocks.0.ffn.hook_pre
encoder.blocks.0.ffn.hook_post
encoder.blocks.0.hook_resid_pre
encoder.blocks.0.hook_attn_out
encoder.blocks.0.hook_resid_mid
encoder.blocks.0.hook_ffn_out
encoder.blocks.0.hook_resid_post
encoder.hook_positions
encoder.hook_embed
encoder.hook_pos_embed
encoder.hook_resid_final
decoder.blocks.0.attn.*
decoder.blocks.0.cross_attn.*
decoder.blocks.0.ffn.hook_pre
decoder.blocks.0.ffn.hook_post
decoder.blocks.0.hook_resid_pre
decoder.blocks.0.hook_attn_out
decoder.blocks.0.hook_resid_mid
decoder.blocks.0.hook_cross_attn_out
decoder.blocks.0.hook_resid_mid_cross
decoder.blocks.0.hook_ffn_out
decoder.blocks.0.hook_resid_post
decoder.hook_positions
decoder.hook_embed
decoder.hook_pos_embed
decoder.hook_resid_final
hook_logits
"""
"""`*` stands for each of `ATTENTION`."""

GOLDEN = {
    "decoder-only": (ONE_STACK, "swiglu"),
    "encoder-decoder": (ENCODER_DECODER, "relu"),
    "encoder-only": (ONE_STACK, "swiglu"),  # the same parts; only the mask differs
}


@pytest.mark.parametrize("family", GOLDEN)
def test_the_hook_points_of_a_one_layer_model(family, tiny_model):
    golden, ffn = GOLDEN[family]
    model = tiny_model(family=family, ffn=ffn, n_layers=1, n_encoder_layers=1)
    expected = []
    for line in golden.split():
        expected += [line.replace("*", name) for name in (ATTENTION if "*" in line else ("",))]
    assert list(hook_names(model)) == expected


@pytest.mark.parametrize("family", GOLDEN)
@pytest.mark.parametrize("positions", POSITIONS)
def test_every_hook_point_fires_where_it_has_something_to_show(
    family, positions, tiny_model, run_model, random_tokens, record
):
    model = tiny_model(family=family, positions=positions)
    src, tgt = random_tokens(3, 7), random_tokens(3, 5)
    seen = record(lambda: run_model(model, src, tgt), lambda name: True)
    silent = set(hook_names(model)) - set(seen)
    acts = POSITIONS[positions].acts
    expected = set()
    if acts != "adds":
        expected |= {stack.hook("pos_embed") for stack in model.stacks()}
    expected |= {
        site.hook("bias")
        for site in model.attention_sites()
        if acts != "biases" or site.kind == "cross"
    }
    assert silent == expected


def test_sites_of_the_encoder_decoder(tiny_model):
    sites = tiny_model().attention_sites()
    rows = [(s.name, s.stack, s.layer, s.kind, s.query_stream, s.key_stream) for s in sites]
    assert all(s.name.startswith(f"{s.block}.") for s in sites)
    assert [s.role for s in sites] == ["encoder"] * 3 + ["decoder"] * 2 + ["cross"] * 2
    assert rows == [
        ("encoder.blocks.0.attn", "encoder", 0, "self", "src", "src"),
        ("encoder.blocks.1.attn", "encoder", 1, "self", "src", "src"),
        ("encoder.blocks.2.attn", "encoder", 2, "self", "src", "src"),
        ("decoder.blocks.0.attn", "decoder", 0, "self", "tgt", "tgt"),
        ("decoder.blocks.1.attn", "decoder", 1, "self", "tgt", "tgt"),
        ("decoder.blocks.0.cross_attn", "decoder", 0, "cross", "tgt", "src"),
        ("decoder.blocks.1.cross_attn", "decoder", 1, "cross", "tgt", "src"),
    ]


@pytest.mark.parametrize("role", ["decoder", "encoder"])
def test_sites_of_models_of_one_text(role, tiny_model):
    assert tiny_model(family=f"{role}-only").attention_sites() == (
        AttentionSite("blocks.0.attn", "blocks.0", role, 0, "self", "tgt", "tgt", n_heads=4),
        AttentionSite("blocks.1.attn", "blocks.1", role, 1, "self", "tgt", "tgt", n_heads=4),
    )


def test_stacks_name_what_is_inside_them(tiny_model):
    encoder, decoder = tiny_model().stacks()
    assert (encoder.stream, encoder.role, encoder.n_layers) == ("src", "encoder", 3)
    assert (decoder.stream, decoder.role, decoder.n_layers) == ("tgt", "decoder", 2)
    (alone,) = tiny_model(family="decoder-only").stacks()
    assert (alone.hook("embed"), alone.path("embed")) == ("hook_embed", "embed")


@pytest.mark.parametrize("family", GOLDEN)
def test_stacks_and_sites_lead_to_their_hook_points(family, tiny_model):
    model = tiny_model(family=family)
    names = set(hook_names(model))
    for stack in model.stacks():
        assert {stack.hook("embed"), stack.hook("resid_final")} <= names
        for layer in range(stack.n_layers):
            assert stack.block_hook(layer, "resid_post") in names
            assert stack.block_hook(layer, "post", "ffn") in names
        assert stack.block_hook(stack.n_layers, "resid_post") not in names
    for site in model.attention_sites():
        assert {site.hook(name.removeprefix("hook_")) for name in ATTENTION} <= names
    patterns = {name for name in names if name.endswith("hook_pattern")}
    assert patterns == {site.hook("pattern") for site in model.attention_sites()}
