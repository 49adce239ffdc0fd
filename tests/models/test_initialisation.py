"""How a model starts: the spread of every matrix, what is tied, how many parameters there are."""

import math

import pytest
import torch
from torch import nn

from models.config import ModelConfig
from models.transformer import FAMILIES, build_model

V, D_MODEL = 23, 24


@pytest.fixture(params=FAMILIES)
def family(request):
    return request.param


@pytest.fixture(scope="module")
def wide():
    torch.manual_seed(0)
    return build_model(
        ModelConfig(
            vocab_size=500,
            d_model=96,
            n_layers=1,
            n_heads=6,
            n_kv_heads=2,
            d_ff=160,
            n_ctx=300,
            positions="learned",
            tie_embeddings=False,
        )
    )


def test_every_matrix_starts_xavier_and_every_bias_at_zero(wide):
    linears = [(name, m) for name, m in wide.named_modules() if isinstance(m, nn.Linear)]
    assert len(linears) == 6 + 10 + 1  # encoder block, decoder block, unembedding
    for name, linear in linears:
        xavier = math.sqrt(2 / (linear.in_features + linear.out_features))
        assert linear.weight.std().item() == pytest.approx(xavier, rel=0.05), name
        assert linear.weight.abs().max().item() <= math.sqrt(3) * xavier, name
        if name != "unembed":
            assert (linear.bias == 0).all(), name
    assert wide.unembed.bias is None


def test_embeddings_start_at_unit_size_once_scaled(wide):
    for stack in (wide.encoder, wide.decoder):
        assert stack.embed.weight.std().item() == pytest.approx(96**-0.5, rel=0.03)
        assert stack.embed_scale == math.sqrt(96)
        assert stack.positions.weight.std().item() == pytest.approx(1, rel=0.03)
    assert not torch.equal(wide.encoder.embed.weight, wide.decoder.embed.weight)


def test_a_tied_unscaled_model_starts_at_the_spread_of_its_embeddings(tiny_config):
    changes = {"positions": "learned", "scale_embeddings": False, "d_model": 96, "n_ctx": 300}
    model = build_model(tiny_config(**changes, vocab_size=900))
    for table in (model.encoder.positions.weight, model.unembed.weight):
        assert table.std().item() == pytest.approx(96**-0.5, rel=0.03)


def test_a_tied_model_has_one_matrix_counted_once(family, tiny_config):
    tied = build_model(tiny_config(family=family))
    untied = build_model(tiny_config(family=family, tie_embeddings=False))
    stacks = [tied.encoder, tied.decoder] if family == "encoder-decoder" else [tied]
    storages = {stack.embed.weight.data_ptr() for stack in stacks}
    storages.add(tied.unembed.weight.data_ptr())
    assert len(storages) == 1
    assert tied.unembed.weight is stacks[0].embed.weight
    tied_count, untied_count = (
        sum(parameter.numel() for parameter in model.parameters()) for model in (tied, untied)
    )
    extra = 2 if family == "encoder-decoder" else 1
    assert untied_count - tied_count == extra * V * D_MODEL


def test_the_parameter_count_by_hand(tiny_config):
    model = build_model(tiny_config(final_norm=True))
    attention = 4 * (24 * 24 + 24)
    ffn = 24 * 20 + 20 + 20 * 24 + 24
    norm = 2 * 24
    encoder = 3 * (attention + ffn + 2 * norm) + norm
    decoder = 2 * (2 * attention + ffn + 3 * norm) + norm
    assert sum(p.numel() for p in model.parameters()) == 23 * 24 + encoder + decoder


def test_a_state_dict_holds_weights_only(tiny_config):
    names = build_model(tiny_config()).state_dict().keys()
    assert not [name for name in names if "hook" in name or "table" in name]
