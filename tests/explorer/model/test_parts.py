"""The whole machine: shapes of a real run, parameters by part, models that nobody could
load, and where the diagram leads."""

from dataclasses import replace

import pytest
import torch
from payloads import unpack
from tiny import hook_names

from explorer.analysis.model import parameters
from explorer.exhibits.block import Canvas
from explorer.exhibits.links import State
from explorer.exhibits.model.boxes import EXHIBIT, shapes, towers
from explorer.exhibits.model.calculator import compute, count_layers
from explorer.exhibits.model.choices import ModelChoices
from explorer.exhibits.model.sizes import PRESETS, Sizes, parse_sizes
from explorer.exhibits.view import build
from explorer.runs.edits import MaskSwitch
from explorer.runs.rerun import rows_of
from explorer.runs.trace import trace
from models.config import ModelConfig
from models.masks import causal_mask
from models.transformer import build_model

TEXT = "The cat sat on the mat."


def test_shapes_are_those_of_the_trace_and_of_the_nets_too(translator):
    traced = trace(translator, TEXT, edits=(MaskSwitch("causal", False),))
    found = shapes(translator, traced)
    unbiased = {site.hook("bias") for site in translator.sites}  # its positions give no bias
    assert set(found) == set(hook_names(translator.model)) - unbiased
    for name, array in traced.activations.items():
        assert found[name] == array.shape
    assert found["encoder.blocks.0.ffn.hook_post"] == (len(traced.src_tokens), 20)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tie_embeddings": True, "positions": "learned"},
        {"positions": "t5"},
        {"family": "decoder-only", "final_norm": True, "n_kv_heads": 1, "ffn": "swiglu"},
        {"family": "encoder-only", "embed_norm": True, "head_net": True, "tie_embeddings": True},
        {"family": "encoder-only", "norm_placement": "pre", "ffn": "geglu", "first_norm": False},
    ],
)
def test_the_parts_of_the_towers_add_up_to_the_model(tiny, changes):
    loaded = tiny("towers", **changes)
    traced = trace(loaded, TEXT)
    made = towers(loaded, shapes(loaded, traced))
    assert sum(tower.parameters for tower in made) == parameters.numbers_of(loaded.model)
    decoder = made[-1]
    assert decoder.stream == "tgt"
    assert len(decoder.layers) == 2
    kinds = [station.what for station in decoder.layers[0]]
    assert kinds.count("cross") == len(made) - 1
    attention = decoder.layers[0][0]
    n = len(traced.tgt_tokens)
    assert attention.inside == (4, n, n)
    assert attention.shape == (n, 24)
    output = decoder.after[-1]
    assert output.shape == (n, loaded.config.vocab_size)
    if not loaded.config.head_net:
        assert (output.parameters == 0) == loaded.config.tie_embeddings


def test_a_norm_may_stand_before_the_addition_too(tiny):
    changes = {"norm_placement": "pre", "out_norms": True, "qk_norm": True, "head_dim": 10}
    loaded = tiny("towers", family="decoder-only", **changes)
    (tower,) = towers(loaded, shapes(loaded, trace(loaded, TEXT)))
    assert tower.parameters == parameters.numbers_of(loaded.model)
    kinds = [station.what for station in tower.layers[0]]
    assert kinds == ["norm", "self", "norm", "add", "norm", "ffn", "norm", "add"]
    assert [s.skips for s in tower.layers[0] if s.what == "add"] == [3, 3]


@pytest.mark.parametrize("tied", [True, False])
def test_counts_by_kind_are_those_of_hand(tied):
    config = ModelConfig(
        vocab_size=50, d_model=24, n_layers=2, n_encoder_layers=3, n_heads=4, n_kv_heads=2,
        d_ff=20, tie_embeddings=tied, positions="learned", n_ctx=16,
    )  # fmt: skip
    found = parameters.count_config(config)
    attention = 2 * (24 * 24 + 24) + 2 * (24 * 12 + 12)
    assert found.by_kind["attention"] == 5 * attention
    assert found.by_kind["cross_attention"] == 2 * attention
    assert found.by_kind["ffn"] == 5 * (24 * 20 + 20 + 20 * 24 + 24)
    assert found.by_kind["norms"] == (3 * 2 + 2 * 3) * 2 * 24
    assert found.by_kind["positions"] == 2 * 16 * 24
    assert found.by_kind["embedding"] == (1 if tied else 2) * 50 * 24
    assert found.by_kind["unembed"] == (0 if tied else 50 * 24)
    assert sum(found.by_kind.values()) == found.total
    assert found.total == parameters.numbers_of(build_model(config))
    assert tuple(found.by_kind) == parameters.KINDS


@pytest.mark.parametrize(
    ("name", "total_of"), [("llama", 6_738_415_616), ("llama_tied", 6_738_415_616 - 131_072_000)]
)
def test_presets_have_their_published_counts(name, total_of):
    assert parameters.count_config(PRESETS[name].config()).total == total_of


@pytest.mark.parametrize(
    ("name", "layers", "src", "tgt", "final"),
    [("two_6", 6, 100, 200, 0), ("two_3", 3, 1000, 2000, 2)],
)
def test_two_vocabularies_and_an_output_bias_by_hand(name, layers, src, tgt, final):
    d, d_ff = 512, 2048
    attention, ffn, norm = 4 * (d * d + d), 2 * d * d_ff + d_ff + d, 2 * d
    encoder, decoder = attention + ffn + 2 * norm, 2 * attention + ffn + 3 * norm
    total = layers * (encoder + decoder) + final * norm + (src + tgt) * d + tgt * d + tgt
    sizes = PRESETS[name]
    found = parameters.count_config(sizes.config())
    assert found.total == total == sum(found.by_kind.values())
    assert total == {"two_6": 44_394_696, "two_3": 24_633_296}[name]  # as such code prints it
    assert found.by_kind["embedding"] == (src + tgt) * d
    assert found.by_kind["unembed"] == tgt * d + tgt
    assert compute(sizes.config(), whole=True).logits == (2, 5, tgt)
    model = parameters.on_paper(lambda: build_model(sizes.config()))
    assert all(parameter.is_meta for parameter in model.parameters())


def test_a_tied_output_is_the_decoder_s_table_where_the_encoder_has_its_own():
    sizes = replace(PRESETS["two_3"], tied=True)
    found = parameters.count_config(sizes.config())
    assert found.by_kind["embedding"] == 3000 * 512
    assert found.by_kind["unembed"] == 2000  # its bias alone


def test_sizes_give_way_to_each_other_and_to_switches():
    assert PRESETS["base"].with_switch("swiglu", True).final_norm
    assert PRESETS["two_3"].with_switch("has_encoder", False).src_vocab == 0
    assert PRESETS["two_3"].with_switch("bias", False) == replace(PRESETS["two_3"], bias=False)
    sizes = PRESETS["base"]
    assert sizes.with_size("n_heads", 4).kv_heads == 4
    assert sizes.with_size("d_model", 768).n_heads == 8
    narrow = PRESETS["layers768"].with_size("d_model", 64)
    assert (narrow.n_heads, narrow.kv_heads) == (8, 8)
    shared = sizes.with_size("kv_heads", 2)
    assert shared.with_size("n_heads", 16).kv_heads == 2
    assert shared.with_size("n_heads", 1).kv_heads == 1


def test_sizes_are_written_and_read_and_old_links_mean_what_they_meant(translator):
    own = translator.config
    assert parse_sizes("512-8-8-6-2048-37000-1011", own) == PRESETS["base"]
    assert parse_sizes("4096-32-32-32-11008-32000-0100", own) == PRESETS["llama"]
    assert PRESETS["two_3"].text() == "512-8-8-3-2048-2000-1010-1000-11"
    assert parse_sizes("512-8-8-3-2048-2000-0010-1000-11", own) is None  # no encoder to have one
    for sizes in (*PRESETS.values(), Sizes.of(own)):
        assert parse_sizes(sizes.text(), own) == sizes
    assert parse_sizes("", own) == parse_sizes("own", own) == Sizes.of(own)
    assert Sizes.of(replace(own, ffn="geglu")).config().ffn == "swiglu"  # as many
    for bad in ("x", "7-2-2-1-1-9-0000", "512-8-3-6-2048-100-0000", "512-8-8-999-2-9-0000", "１-1"):
        assert parse_sizes(bad, own) is None


@pytest.mark.parametrize("has_encoder", [False, True])
def test_layers_alone_have_no_table_and_no_norm_after_them(has_encoder):
    block = PRESETS["block4096"]
    assert count_layers(block.config()).total == 202_383_360  # 4 d² + 3 d d_ff + 2 d
    sizes = replace(PRESETS["layers768"], vocab_size=0, has_encoder=has_encoder)
    whole = parameters.count_config(replace(sizes, vocab_size=100).config())
    layers = count_layers(sizes.config())
    assert layers.by_kind == whole.by_kind | {"embedding": 0}
    assert parse_sizes(sizes.text(), block.config()) == sizes


@pytest.mark.parametrize("placement", ["post", "pre", "sublayer"])
@pytest.mark.parametrize("final_norm", [False, True])
def test_the_parts_computed_as_drawn_give_what_the_model_computes(tiny, placement, final_norm):
    """Every part after the one above it, every addition with the stream its arrow comes from."""
    loaded = tiny("drawn", norm_placement=placement, final_norm=final_norm)
    traced = trace(loaded, TEXT)
    model = loaded.model
    given = rows_of(traced)
    cross_mask = torch.ones(1, 1, 1, len(traced.src_tokens), dtype=torch.bool)
    memory = torch.empty(0)
    with torch.inference_mode():
        expected = model.read(given)
        for tower in towers(loaded, shapes(loaded, traced)):
            stack = model.get_submodule(tower.role)
            x, placed = stack.embed_tokens(getattr(given, tower.stream), None)
            mask = causal_mask(x.shape[1], x.shape[1]) if tower.role == "decoder" else None
            for block, layer in zip(stack.blocks, tower.layers, strict=True):
                norms = iter(
                    module for name, module in block.named_children() if name.endswith("_norm")
                )
                streams = [x]  # before each part
                for station in layer:
                    if station.what == "self":
                        x = block.attn(x, mask=mask, placement=placed)
                    elif station.what == "cross":
                        x = block.cross_attn(x, memory, mask=cross_mask)
                    elif station.what == "ffn":
                        x = block.ffn(x)
                    elif station.what == "norm":
                        x = next(norms)(x)
                    else:
                        assert station.what == "add"
                        x = x + streams[-1 - station.skips]
                    streams.append(x)
            x = stack.final_norm(x)
            kinds = [station.what for station in tower.after]
            assert ("final_norm" in kinds) == final_norm
            if tower.role == "encoder":
                assert kinds[-1] == "memory"
                memory = x
        torch.testing.assert_close(model.unembed(x), expected)


@pytest.mark.parametrize(
    ("positions", "shown"),
    [
        ("sinusoidal", ["tokens", "embedding", "positions"]),
        ("rotary", ["rotation", "tokens", "embedding"]),
        ("alibi", ["bias", "tokens", "embedding"]),
        ("none", ["tokens", "embedding"]),
    ],
)
def test_positions_are_drawn_where_they_act(tiny, positions, shown):
    loaded = tiny("placed", positions=positions)
    for tower in towers(loaded, shapes(loaded, trace(loaded, TEXT))):
        assert [station.what for station in tower.before] == shown


@pytest.fixture(scope="module")
def canvas() -> Canvas:
    state = State(model="en-zh", text="I love you.", owned=(ModelChoices(unfolded=1),))
    view = build(state, dark=False)
    shown = EXHIBIT.show(EXHIBIT.answer(view), view)
    return next(block for block in shown if isinstance(block, Canvas))


def names(canvas: Canvas) -> list[str]:
    head, _ = unpack(canvas.payload("file"))
    return [
        box["name"] for column in head["columns"] for _, group in column["groups"] for box in group
    ]


def test_a_part_opens_its_page_at_its_layer_and_has_its_address(canvas):
    found = names(canvas)
    there = canvas.on["picked"](next(at for at, name in enumerate(found) if "Cross" in name))
    assert (there.visit, there.elsewhere) == ("heads", True)
    assert there.choices(State()) == {"site": "cross", "layer": 1, "head": 0}
    assert canvas.on["picked"](found.index("Tokens")) is None
    head, _ = unpack(canvas.payload("file", lambda change: f"{change.visit}?"))
    found = dict(zip(names(canvas), head["hrefs"], strict=True))
    pages = {"Embedding": "score?", "Norm": "model?", "Output": "decoding?", "Tokens": ""}
    assert {name: found[name] for name in pages} == pages
