"""Fresh models: what is drawn, by formula and measured, and the scores that follow."""

import math
from collections.abc import Callable

import pytest
import torch

from explorer.analysis.cell.initial import (
    INITS,
    STORAGES,
    Init,
    Storage,
    fresh_model,
    fresh_scores,
    stored_rows,
    weight_std,
)
from explorer.engine.jobs import walked
from explorer.library import LoadedModel
from explorer.runs.trace import trace
from models.attention import Attention
from models.config import ModelConfig

Tiny = Callable[..., LoadedModel]
WIDE = ModelConfig(
    family="decoder-only", vocab_size=50, d_model=512, n_layers=1, n_heads=8, d_ff=64, n_ctx=32
)


def test_the_spread_of_a_matrix_by_formula() -> None:
    assert weight_std("xavier", 512, 512) == pytest.approx(0.0442, abs=5e-5)
    assert weight_std("xavier", 512, 1536) == pytest.approx(0.03125)
    assert weight_std("ours", 512, 64) == pytest.approx(0.0589, abs=5e-5)
    assert weight_std("torch", 512, 7) == pytest.approx(1 / math.sqrt(3 * 512))
    assert weight_std("gpt2", 512, 7) == 0.02


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("storage", STORAGES)
def test_what_is_drawn_has_that_spread(init: Init, storage: Storage) -> None:
    module = fresh_model(WIDE, init, 0, storage).get_submodule("blocks.0.attn")
    assert isinstance(module, Attention)
    rows, _ = stored_rows(WIDE, storage)
    for linear in (module.w_q, module.w_k, module.w_v):
        assert float(linear.weight.std()) == pytest.approx(weight_std(init, 512, rows), rel=0.01)
    # Another head is another draw, in every storage.
    assert not torch.equal(module.w_q.weight[:64], module.w_q.weight[64:128])


def test_biases_and_embeddings_as_each_rule_says() -> None:
    spread = {init: float(fresh_model(WIDE, init, 0).embed.weight.std()) for init in INITS}
    expected = {"torch": 1.0, "unit": 1.0, "gpt2": 0.02, "ours": 512**-0.5}
    expected["xavier"] = math.sqrt(2 / (512 + 50))
    assert spread == pytest.approx(expected, rel=0.02)
    for init in INITS:
        bias = fresh_model(WIDE, init, 0).get_submodule("blocks.0.attn").w_q.bias
        assert float(bias.std()) == pytest.approx(
            (3 * 512) ** -0.5 if init in ("xavier", "torch") else 0.0, rel=0.1
        )


def test_drawing_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    fresh_model(WIDE, "xavier", 1, "fused")
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
@pytest.mark.parametrize("init", ["ours", "torch", "unit"])
def test_scores_scatter_as_the_theory_says(tiny: Tiny, positions: str, init: Init) -> None:
    loaded = tiny("writer", family="decoder-only", positions=positions, d_model=48)
    traced = trace(loaded, "The cat sat on the mat.")
    kept = {name: tensor.clone() for name, tensor in loaded.model.named_parameters()}
    found = walked(fresh_scores(traced, traced.sites[0], init, seeds=range(12)))
    for each in found:
        assert each.spread == pytest.approx(each.theory, rel=0.15)
        assert each.weight_std == pytest.approx(each.weight_formula, rel=0.05)
        assert 0 < each.entropy <= each.most
    one, fused, per_head = found
    ratio = (weight_std(init, 48, 144) / weight_std(init, 48, 48)) ** 2  # 1/2 under Xavier
    assert fused.spread / one.spread == pytest.approx(ratio, rel=0.15)
    assert (per_head.spread > one.spread * 1.2) == (init != "torch")
    assert all(torch.equal(kept[n], tensor) for n, tensor in loaded.model.named_parameters())


def test_of_cross_attention_and_of_shared_keys(tiny: Tiny) -> None:
    loaded = tiny(n_kv_heads=2)
    traced = trace(loaded, "The cat sat.", "猫坐。")
    told: list[tuple[int, int]] = []
    steps = fresh_scores(traced, traced.sites[-1], "xavier", (0, 1))
    (one, fused, _) = walked(steps, lambda *at: told.append(at))
    assert traced.sites[-1].kind == "cross"
    assert one.shape == (24, 24)
    assert fused.shape == (48, 24)  # 24 rows of W_Q, 12 of W_K, 12 of W_V
    assert len(one.scores) == 2 * 4 * len(traced.tgt_tokens) * len(traced.src_tokens)
    assert told == [(0, 2), (1, 2)]


def test_embeddings_of_unit_size_times_the_root_decide_softmax(tiny: Tiny) -> None:
    loaded = tiny("writer", family="decoder-only", d_model=48)
    traced = trace(loaded, "The cat sat on the mat.")
    unit, ours = (
        walked(fresh_scores(traced, traced.sites[0], init, (0, 1))) for init in ("unit", "ours")
    )
    assert unit[0].entropy < 0.4 * unit[0].most
    assert unit[0].top > 0.8
    assert ours[0].entropy > 0.6 * ours[0].most
