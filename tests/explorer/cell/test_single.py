"""A single head of any width: the model's own at d_head, and refusals of the usual slips."""

import math

import numpy as np
import pytest
import torch

from explorer.analysis.cell.steps import cell_of
from explorer.exhibits.cell.single import SingleHead, cut_head, single, widths
from explorer.library import LoadedModel
from explorer.runs.trace import trace

TEXT = "The cat sat on the mat."
MODELS = [
    {},
    {"n_kv_heads": 2},
    {"bias": False, "norm_placement": "pre", "final_norm": True},
    {"score_cap": 0.2},
    {"score_divisor": 1.0},
]


def test_a_head_worked_out_by_hand() -> None:
    """d_in = 2, d_out = 1: q = x1, k = x2, v = x1 + x2, then out = (z, -z)."""
    head = SingleHead(2, 1, bias=False)
    with torch.no_grad():
        for linear, weight in (
            (head.w_q, [[1.0, 0.0]]),
            (head.w_k, [[0.0, 1.0]]),
            (head.w_v, [[1.0, 1.0]]),
            (head.w_o, [[1.0], [-1.0]]),
        ):
            linear.weight.copy_(torch.tensor(weight))
        x = torch.tensor([[1.0, 0.0], [0.0, math.log(3.0)]])
        found = head(x, x, torch.ones(2, 2, dtype=torch.bool))
    # scores: row 0 is 1 * (0, ln 3), so weights 1/4 and 3/4; row 1 is 0: even
    expected = torch.tensor([[0.25, 0.75], [0.5, 0.5]])
    torch.testing.assert_close(found["pattern"], expected)
    z = 0.25 * 1.0 + 0.75 * math.log(3.0)
    torch.testing.assert_close(found["out"][0], torch.tensor([z, -z], dtype=torch.float32))


@pytest.mark.parametrize("changes", MODELS)
def test_at_its_own_width_it_is_the_head_of_the_model(tiny, changes: dict[str, object]) -> None:
    loaded = tiny("single", **changes)
    traced = trace(loaded, TEXT, pads=1)
    for site in traced.sites:
        found = single(loaded, traced, site, 3, 6)
        assert found.own
        assert found.apart < 1e-5
        for query in range(len(found.tensors["out"])):
            own = cell_of(loaded, traced, site, 3, query, 0).head_written
            np.testing.assert_allclose(found.tensors["out"][query], own, atol=1e-5)


def test_shapes_follow_d_out_and_only_x_and_the_output_have_d_in(translator: LoadedModel) -> None:
    traced = trace(translator, TEXT)
    site = traced.sites_of("cross")[0]
    n_query, n_key = traced.pattern(site.name).shape[1:]
    assert widths(translator, site) == (1, 2, 4, 6, 8, 16, 24)
    for d_out in widths(translator, site):
        found = single(translator, traced, site, 1, d_out)
        shapes = {name: array.shape for name, array in found.tensors.items()}
        assert shapes == {
            "x": (n_query, 24),
            "memory": (n_key, 24),
            "q": (n_query, d_out),
            "k": (n_key, d_out),
            "v": (n_key, d_out),
            "pattern": (n_query, n_key),
            "z": (n_query, d_out),
            "out": (n_query, 24),
        }
        assert found.parameters == 3 * (24 * d_out + d_out) + d_out * 24
        assert found.own == (d_out == 6)
        assert bool(found.refused) == (d_out != 24)


def test_dividing_by_the_root_of_d_in_flattens(translator: LoadedModel) -> None:
    traced = trace(translator, TEXT)
    site = traced.sites[0]
    narrow, whole = (single(translator, traced, site, 0, d_out) for d_out in (2, 24))
    assert narrow.entropy < narrow.entropy_wide < narrow.most
    assert whole.entropy == pytest.approx(whole.entropy_wide)  # the two roots are one
    n_key = traced.pattern(site.name).shape[2]
    assert narrow.most == pytest.approx(np.log2(n_key))


def test_positions_in_the_scores_are_left_out(tiny) -> None:
    loaded = tiny("turned", positions="rotary")
    traced = trace(loaded, TEXT)
    decoder, cross = traced.sites_of("decoder")[0], traced.sites_of("cross")[0]
    for site, lacks in ((decoder, ("positions",)), (cross, ())):  # not turned there
        found = single(loaded, traced, site, 1, 6)
        assert found.lacks == lacks
        assert (found.apart > 1e-3) == bool(lacks)


def test_norms_of_queries_and_keys_are_left_out_too(tiny) -> None:
    loaded = tiny("normed", qk_norm=True)
    found = single(loaded, trace(loaded, TEXT), loaded.sites[0], 1, 6)
    assert found.lacks == ("normed",)
    assert found.apart > 1e-3


def test_a_model_with_a_divisor_of_its_own_keeps_it_at_every_width(tiny) -> None:
    loaded = tiny("undivided", score_divisor=1.0)
    traced = trace(loaded, TEXT)
    found = single(loaded, traced, loaded.sites[0], 1, 2).tensors
    expected = torch.tensor(found["q"] @ found["k"].T).softmax(-1)
    np.testing.assert_allclose(found["pattern"], expected, atol=1e-6)


def test_rows_behind_the_last_are_the_first_again(translator: LoadedModel) -> None:
    site = translator.sites[0]
    weight = translator.model.get_submodule(site.name).w_q.weight
    head = cut_head(translator, site, 3, 8)
    torch.testing.assert_close(head.w_q.weight, torch.cat([weight[18:], weight[:2]]))


def test_a_width_that_the_layer_cannot_give_is_refused(tiny) -> None:
    loaded = tiny("few", n_kv_heads=2)
    traced = trace(loaded, TEXT)
    assert widths(loaded, traced.sites[0])[-1] == 12  # two key heads of 6
    with pytest.raises(ValueError, match="d_out is 24"):
        single(loaded, traced, traced.sites[0], 0, 24)
