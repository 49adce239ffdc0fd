"""The claims: each experiment runs, its numbers are those of theory or of torch, and it judges."""

import inspect
import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from explorer import library
from explorer.analysis.cases import (
    BY_ID,
    CLAIMS,
    GROUPS,
    VERDICTS,
    Result,
    attention as on_attention,
    blocks as on_blocks,
    case as on_case,
    positions as on_positions,
    training,
)
from explorer.engine.jobs import walked
from explorer.library import LoadedModel, list_models
from explorer.problems import InputProblem
from explorer.runs.passes import Steps, finished
from explorer.runs.trace import trace
from explorer.text import LANGUAGES, words
from models.config import NormPlacement

TEXT = "The cat sat on the mat."
# What the numbers say on the tiny translator; None: the clock of this machine decides.
FOUND = {
    "variance": "true", "saturation": None, "fills": "depends", "reference": "depends",
    "one_head": None, "mha_count": "depends", "ffn_table": "true", "tying": "depends",
    "shape_flow": "true", "layer_shapes": "true", "totals": "true", "rms_speed": None,
    "fused_speed": None, "free_heads": "depends", "parallel": "true", "quadratic": "depends",
    "offset_only": "true", "frequencies": "true", "extrapolation": "false",
    "causal_order": None, "original": "false", "warmup": None, "deep_pre": "false",
    "batch_norm": "depends", "gelu_tanh": "true",
    "fused_qkv": None, "swiglu_equal": None, "rms_quality": None, "tying_quality": None,
    "no_positions": None, "learned_positions": None, "norm_stabilises": None,
}  # fmt: skip


def value(found: Result, row: str, column: str, of: str = "") -> float:
    (only,) = (each for each in found.rows if (each.name, each.of) == (row, of))
    return only.values[found.columns.index(column)]


@pytest.fixture(scope="module")
def find(translator: LoadedModel):
    """find("variance"): the experiment on the tiny translator, run once."""
    traced = trace(translator, TEXT)

    @cache
    def found(name: str) -> Result:
        told: list[tuple[int, int]] = []
        test = BY_ID[name].measure
        brief = {name: BRIEF[name] for name in BRIEF.keys() & inspect.signature(test).parameters}
        steps = replace(BY_ID[name], measure=partial(test, **brief)).steps(translator, traced)
        finding = walked(steps, lambda *step: told.append(step))
        assert told == sorted(told)
        assert len({total for _, total in told}) <= 1
        assert inspect.isgeneratorfunction(test) <= bool(told)
        assert all(0 < done <= total for done, total in told)
        return finding

    return found


def briefly(asked: training.TaskTraining, seed: int) -> Steps[training.TrainingResult]:
    """Two steps of a training, of two layers at most."""
    config = replace(asked.config, n_layers=min(2, asked.config.n_layers))
    return (yield from training.train(replace(asked, config=config, steps=2), seed))


def once(way: Callable[[], object]) -> float:
    """The seconds of a single call."""
    start = time.perf_counter()
    way()
    return time.perf_counter() - start


@cache
def of_one_seed(placement: NormPlacement, n_layers: int) -> tuple[float, float, float]:
    return on_blocks.at_start(placement, n_layers, 0)


BRIEF: dict[str, Any] = {
    "learn": briefly,
    "seconds": once,
    "start": lambda placement, n_layers, seed: of_one_seed(placement, n_layers),
}
"""Experiments that take long, in less time: by the names of their parameters."""


QUICK = [
    claim.id for claim in CLAIMS if claim.own and not inspect.isgeneratorfunction(claim.measure)
]


def skip_without_the_toy(name: str) -> None:
    if name == "extrapolation" and "reverse" not in list_models():
        pytest.skip("the toy is not shipped here")


def test_each_claim_has_its_own_name() -> None:
    assert set(FOUND) == {claim.id for claim in CLAIMS}
    assert {claim.group for claim in CLAIMS} == set(GROUPS["claims"])


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_every_experiment_judges_and_all_that_it_names_has_words(claim, find) -> None:
    skip_without_the_toy(claim.id)
    found = find(claim.id)
    expected = FOUND[claim.id]
    assert found.verdict == expected if expected else found.verdict in VERDICTS
    assert all(len(row.values) == len(found.columns) for row in found.rows)
    assert found.bars in ("", *found.columns)
    for lang in LANGUAGES:
        said = words(lang)
        assert {f"cases.rows.{row.name}" for row in found.rows} <= set(said)
        for why in found.why:
            assert said[f"cases.{claim.id}.{why}"].format(**found.numbers)
        names = set(found.columns)
        if found.curve is not None:
            names |= {*found.curve.names} - {row.name for row in found.rows}
            names |= {found.curve.x_name, found.curve.y_name}
            assert found.curve.ys.shape == (len(found.curve.names), len(found.curve.x))
        assert {f"cases.columns.{name}" for name in names} <= set(said)


@pytest.mark.parametrize("name", QUICK)
def test_claims_about_the_readers_model_take_the_other_family_too(name, writer) -> None:
    found = finished(BY_ID[name].steps(writer, trace(writer, TEXT)))
    assert found.verdict in VERDICTS


def test_variances_are_those_of_theory(find) -> None:
    found = find("variance")
    for width in on_attention.WIDTHS:
        assert value(found, "independent", "variance", str(width)) == pytest.approx(width, rel=0.1)
    assert value(found, "equal_vectors", "variance", "64") == pytest.approx(128, rel=0.1)


def test_saturated_softmax_has_a_fifth_of_the_gradient(find) -> None:
    found = find("saturation")
    assert value(found, "random_none", "top") == pytest.approx(0.96, abs=0.02)
    assert value(found, "random_none", "gradient") == pytest.approx(0.055, abs=0.01)
    assert value(found, "random_head", "gradient") == pytest.approx(0.306, abs=0.02)


def test_fills_hide_until_scores_are_lower_than_they(find) -> None:
    found = find("fills")
    assert value(found, "low_scores", "ten_thousand") == 1
    assert value(found, "low_scores", "billion") == 0
    assert value(found, "empty_row", "billion") == pytest.approx(1)
    assert math.isnan(value(found, "empty_row", "infinity"))


def test_the_reference_code_agrees_but_for_three_cases(find) -> None:
    found = find("reference")
    fails = {row.name for row in found.rows if math.isnan(row.values[0])}
    assert fails == {"mask_of_four_axes", "empty_row", "mask_and_causal"}
    q = torch.zeros(1, 1, 2, 4)
    mask = torch.ones(2, 2, dtype=torch.bool)
    try:  # from torch 2.14 on, the operator refuses what the reference code refuses
        nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask, is_causal=True)
        both, same = "both", 4
    except RuntimeError:
        both, same = "neither", 5
    assert found.why == ("depends", "four_axes", "empty_row", both)
    assert found.numbers == {"same": same, "count": 7}


def test_counts_are_those_of_hand_and_paper(find) -> None:
    assert value(find("mha_count"), "shared_keys", "counted") == 64 * 64 * 2 + 2 * 64 * 16
    own = find("mha_count")
    assert value(own, "own_attention", "counted") == 4 * 24 * 24 + 4 * 24
    assert value(find("ffn_table"), "relu_biases", "counted") == 2 * 4096 * 11008 + 11008 + 4096
    assert value(find("tying"), "llama_untied", "counted") == 6_738_415_616
    assert value(find("tying"), "llama_saved", "counted") == 32_000 * 4096
    assert value(find("layer_shapes"), "encoder_layer", "counted") == sum(
        p.numel() for p in nn.TransformerEncoderLayer(768, 12, 3072).parameters()
    )
    assert value(find("layer_shapes"), "decoder_layer", "counted") == sum(
        p.numel() for p in nn.TransformerDecoderLayer(768, 12, 3072).parameters()
    )
    assert value(find("totals"), "six_layers", "counted") == 44_394_696


def test_memory_grows_by_heads_and_by_the_square(find) -> None:
    heads = find("free_heads")
    assert value(heads, "heads", "mebibytes", "1") == 1  # 512 x 512 x 4 bytes
    assert value(heads, "heads", "mebibytes", "8") == 8
    lengths = find("quadratic")
    assert value(lengths, "tokens", "by_hand", "1024") >= 16  # 4 heads, 1,024 x 1,024 x 4 bytes
    assert value(lengths, "four_times_as_long", "by_hand") == pytest.approx(16, abs=0.5)
    assert value(lengths, "tokens", "four_axes", "1024") < 4


def test_only_the_post_norm_block_is_that_of_the_paper(find) -> None:
    found = find("original")
    assert value(found, "post", "difference") < 1e-5
    assert min(value(found, "pre", "difference"), value(found, "sublayer", "difference")) > 0.5


def test_the_norm_on_the_branch_is_what_explodes(find) -> None:
    found = find("deep_pre")
    assert value(found, "deep_pre", "largest_gradient", "192") < 100
    assert value(found, "deep_sublayer", "first_gradient", "192") > 1e4
    assert "branch" in found.why


def test_the_table_goes_on_and_the_model_does_not(find) -> None:
    skip_without_the_toy("extrapolation")
    found = find("extrapolation")
    assert value(found, "letters", "right", "10") > 0.9
    assert value(found, "letters", "right", "16") == 0


def test_without_the_toy_its_claim_says_so(translator, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(on_positions, "open_model", lambda name: library.open_model(name, tmp_path))
    with pytest.raises(InputProblem, match="unknown_model"):
        finished(BY_ID["extrapolation"].steps(translator, trace(translator, TEXT)))


def test_equal_distances_have_equal_products_where_the_table_makes_it_so(translator, tiny) -> None:
    learned = tiny("learned", positions="learned", n_ctx=64)
    test = BY_ID["offset_only"].measure
    assert test(translator, trace(translator, TEXT)).verdict == "true"
    found = test(learned, trace(learned, TEXT))
    assert found.verdict == "depends"
    assert value(found, "own_table_spread", "dot") > 0.01
    for loaded in (translator, learned):
        found = on_positions.offset_only(
            loaded, trace(loaded, TEXT), lambda n, d: np.linspace(0, 1, n * d).reshape(n, d)
        )
        assert found.verdict == "false"


def test_order_is_told_by_the_causal_mask_alone(find) -> None:
    found = find("causal_order")
    assert value(found, "all_seen", "value") < 1e-5
    assert value(found, "causal_seen", "value") > 0.1
    assert value(found, "with_positions", "value") > 0.1


def test_batch_norm_moves_with_its_neighbours_and_layer_norm_does_not(find) -> None:
    found = find("batch_norm")
    assert value(found, "another_sentence", "batch_norm") > 0.1
    assert value(found, "another_sentence", "layer_norm") < 1e-6
    assert value(found, "training_and_use", "batch_norm") > 0.01
    assert math.isnan(value(found, "one_token", "batch_norm"))


def test_the_two_gelus_differ_where_they_are_said_to(find) -> None:
    found = find("gelu_tanh")
    assert value(found, "largest_difference", "value") == pytest.approx(4.7e-4, abs=1e-5)
    assert value(found, "at_x", "value") == pytest.approx(2.70, abs=0.01)
    assert value(found, "gelu_minimum_at", "value") == pytest.approx(-0.752, abs=0.001)


def test_experiments_leave_the_random_numbers_of_others_alone() -> None:
    torch.manual_seed(7)
    expected = torch.randn(3)
    torch.manual_seed(7)
    on_blocks.at_start("post", 2, 0)
    assert torch.equal(torch.randn(3), expected)


def test_a_verdict_follows_its_two_conditions() -> None:
    assert on_case.judged(True) == "true"
    assert on_case.judged(False) == "depends"
    assert on_case.judged(True, false=True) == "false"
