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

from explorer.analysis.cases import (
    BY_ID,
    CLAIMS,
    VERDICTS,
    Result,
    attention as on_attention,
    blocks as on_blocks,
    case as on_case,
    positions as on_positions,
    training,
)
from explorer.library import LoadedModel, list_models
from explorer.runs.passes import Steps, walked
from explorer.runs.trace import trace
from explorer.text import LANGUAGES, t, words
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
    "reach": "true", "tied_logits": None,
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
    claim.id
    for claim in CLAIMS
    if on_case.inputs(claim.measure, True, True) and not inspect.isgeneratorfunction(claim.measure)
]


def skip_without_the_toy(name: str) -> None:
    if name == "extrapolation" and "reverse" not in list_models():
        pytest.skip("the toy is not shipped here")


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_every_experiment_judges_and_all_that_it_names_has_words(claim, find):
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
            key = why if why in on_case.SHARED else f"{claim.id}.{why}"
            assert t(f"cases.{key}", lang=lang, **found.numbers)
        names = set(found.columns)
        if found.curve is not None:
            names |= {*found.curve.names} - {row.name for row in found.rows}
            names |= {found.curve.x_name, found.curve.y_name}
            assert found.curve.ys.shape == (len(found.curve.names), len(found.curve.x))
        assert {f"cases.columns.{name}" for name in names} <= set(said)


@pytest.mark.parametrize("name", QUICK)
def test_claims_about_the_readers_model_take_the_other_family_too(name, writer):
    found = walked(BY_ID[name].steps(writer, trace(writer, TEXT)))
    assert found.verdict in VERDICTS


def near(expected: float, error: float) -> tuple[float, float]:
    return expected - error, expected + error


def size_of(layer: type[nn.Module]) -> tuple[float, float]:
    return near(sum(p.numel() for p in layer(768, 12, 3072).parameters()), 0)


NUMBERS: list[tuple[str, str, str, str, tuple[float, float]]] = [
    *(
        ("variance", "independent", "variance", str(n), near(n, n / 10))
        for n in on_attention.WIDTHS
    ),
    ("variance", "equal_vectors", "variance", "64", near(128, 13)),
    ("saturation", "random_none", "top", "", near(0.96, 0.02)),
    ("saturation", "random_none", "gradient", "", near(0.055, 0.01)),
    ("saturation", "random_head", "gradient", "", near(0.306, 0.02)),
    ("fills", "low_scores", "ten_thousand", "", (1, 1)),
    ("fills", "low_scores", "billion", "", (0, 0)),
    ("fills", "empty_row", "billion", "", near(1, 1e-6)),
    ("mha_count", "shared_keys", "counted", "", near(64 * 64 * 2 + 2 * 64 * 16, 0)),
    ("mha_count", "own_attention", "counted", "", near(4 * 24 * 24 + 4 * 24, 0)),
    ("ffn_table", "relu_biases", "counted", "", near(2 * 4096 * 11008 + 11008 + 4096, 0)),
    ("tying", "llama_untied", "counted", "", near(6_738_415_616, 0)),
    ("tying", "llama_saved", "counted", "", near(32_000 * 4096, 0)),
    ("layer_shapes", "encoder_layer", "counted", "", size_of(nn.TransformerEncoderLayer)),
    ("layer_shapes", "decoder_layer", "counted", "", size_of(nn.TransformerDecoderLayer)),
    ("totals", "six_layers", "counted", "", near(44_394_696, 0)),
    ("free_heads", "heads", "mebibytes", "1", (1, 1)),  # 512 x 512 x 4 bytes
    ("free_heads", "heads", "mebibytes", "8", (8, 8)),
    ("quadratic", "tokens", "by_hand", "1024", (16, 1e9)),  # 4 heads, 1,024 x 1,024 x 4 bytes
    ("quadratic", "tokens", "four_axes", "1024", (0, 4)),
    ("quadratic", "four_times_as_long", "by_hand", "", near(16, 0.5)),
    ("original", "post", "difference", "", (0, 1e-5)),  # the block of the paper
    ("original", "pre", "difference", "", (0.5, 1e9)),
    ("original", "sublayer", "difference", "", (0.5, 1e9)),
    ("deep_pre", "deep_pre", "largest_gradient", "192", (0, 100)),
    ("deep_pre", "deep_sublayer", "first_gradient", "192", (1e4, 1e30)),
    ("extrapolation", "letters", "right", "10", (0.9, 1)),
    ("extrapolation", "letters", "right", "16", (0, 0)),
    ("causal_order", "all_seen", "value", "", (0, 1e-5)),
    ("causal_order", "causal_seen", "value", "", (0.1, 1e9)),
    ("causal_order", "with_positions", "value", "", (0.1, 1e9)),
    ("batch_norm", "another_sentence", "batch_norm", "", (0.1, 1e9)),
    ("batch_norm", "another_sentence", "layer_norm", "", (0, 1e-6)),
    ("batch_norm", "one_token", "layer_norm", "", (0, 1e-5)),
    ("batch_norm", "training_and_use", "batch_norm", "", (0.01, 1e9)),
    ("gelu_tanh", "largest_difference", "value", "", near(4.7e-4, 1e-5)),
    ("gelu_tanh", "float16_below", "value", "", near(62, 1)),
    ("gelu_tanh", "float16_above", "value", "", (0, 1)),
    ("gelu_tanh", "float16_most", "value", "", (500, 1e9)),
    ("gelu_tanh", "at_x", "value", "", near(2.70, 0.01)),
    ("gelu_tanh", "gelu_minimum_at", "value", "", near(-0.752, 0.001)),
]


@pytest.mark.parametrize(("claim", "row", "column", "of", "ends"), NUMBERS)
def test_numbers_are_those_of_theory_hand_and_paper(find, claim, row, column, of, ends):
    skip_without_the_toy(claim)
    assert ends[0] <= value(find(claim), row, column, of) <= ends[1]


def test_what_cannot_be_computed_is_nan_as_in_the_reference_code(find):
    assert math.isnan(value(find("fills"), "empty_row", "infinity"))
    assert math.isnan(value(find("batch_norm"), "one_token", "batch_norm"))
    found = find("reference")
    fails = {row.name for row in found.rows if math.isnan(row.values[0])}
    assert fails == {"mask_of_four_axes", "empty_row", "mask_and_causal"}
    q = torch.zeros(1, 1, 2, 4)
    mask = torch.ones(2, 2, dtype=torch.bool)
    try:  # from torch 2.14 on, the operator refuses what the reference code refuses
        nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask, is_causal=True)
        same = 4
    except RuntimeError:
        same = 5
    assert found.numbers == {"same": same, "count": 7}


def test_equal_distances_have_equal_products_where_the_table_makes_it_so(translator, tiny):
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


def test_experiments_leave_the_random_numbers_of_others_alone():
    torch.manual_seed(7)
    expected = torch.randn(3)
    torch.manual_seed(7)
    on_blocks.at_start("post", 2, 0)
    assert torch.equal(torch.randn(3), expected)
