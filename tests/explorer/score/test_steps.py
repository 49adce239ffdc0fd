"""One cell: every step recomputed from the one before it, and held against the model's own run."""

import math
from dataclasses import replace

import numpy as np
import pytest

from explorer.analysis.score.steps import (
    Cell,
    cell_of,
    chosen_token,
    effect,
    lengths,
    output_weights,
    stream_before,
)
from explorer.library import LoadedModel
from explorer.runs.edits import HeadOff, MaskSwitch
from explorer.runs.trace import Trace, trace

TEXT = "The cat sat on the mat."


def cells(loaded: LoadedModel, traced: Trace, head: int, query: int, key: int) -> list[Cell]:
    return [cell_of(loaded, traced, site, head, query, key) for site in traced.sites]


@pytest.fixture(params=["post", "pre", "sublayer", "shared", "writer", "alibi", "t5", "capped"])
def loaded(request: pytest.FixtureRequest, tiny) -> LoadedModel:
    changes = {
        "post": {},
        "pre": {"norm_placement": "pre", "final_norm": True},
        "sublayer": {"norm_placement": "sublayer", "final_norm": True},
        "shared": {"n_kv_heads": 2, "bias": False, "positions": "rotary"},
        "writer": {"family": "decoder-only", "positions": "rotary", "norm": "rmsnorm"},
        "alibi": {"n_kv_heads": 2, "positions": "alibi"},
        "capped": {"score_cap": 0.2},
        "t5": {"positions": "t5", "norm_placement": "pre", "final_norm": True},
    }
    return tiny(request.param, **changes[request.param])


def test_each_step_follows_from_the_one_before(loaded) -> None:
    traced = trace(loaded, TEXT)
    for cell in cells(loaded, traced, head=3, query=4, key=2):
        assert cell.dot == pytest.approx(float(np.dot(cell.q, cell.k)), rel=1e-5, abs=1e-6)
        assert cell.dot / cell.divisor == pytest.approx(cell.scaled, rel=1e-4, abs=1e-5)
        capped = cell.cap * math.tanh(cell.scaled / cell.cap) if cell.cap else cell.scaled
        assert (cell.cap is not None) == (loaded.config.score_cap is not None)
        assert capped + (cell.bias or 0) == pytest.approx(cell.score, rel=1e-4, abs=1e-5)
        biased = loaded.config.position_type.acts == "biases" and cell.site.kind == "self"
        assert (cell.bias is not None) == biased
        np.testing.assert_allclose(cell.exponentials / cell.row_sum, cell.weights, atol=1e-6)
        assert cell.weights.sum() == pytest.approx(1, abs=1e-5)
        assert (cell.exponentials[~cell.allowed] == 0).all()


def test_the_cells_of_a_row_add_up_to_the_head_and_the_heads_to_what_is_added(loaded) -> None:
    traced = trace(loaded, TEXT)
    placed = loaded.config.norm_placement
    for site in traced.sites:
        n_key = len(traced.key_tokens(site.name))
        heads, bias = [], output_weights(loaded, site)[1]
        for head in range(site.n_heads):
            row = [cell_of(loaded, traced, site, head, 3, key) for key in range(n_key)]
            np.testing.assert_allclose(
                sum(cell.written for cell in row), row[0].head_written, atol=1e-5
            )
            heads.append(row[0].head_written)
        np.testing.assert_allclose(sum(heads) + bias, row[0].site_written, atol=1e-5)
        if placed != "sublayer":
            what = "cross_attn_out" if site.kind == "cross" else "attn_out"
            added = traced.activations[f"{site.name.rpartition('.')[0]}.hook_{what}"][3]
            np.testing.assert_allclose(row[0].site_written, added, atol=1e-5)


def test_the_slope_is_what_a_hundredth_of_the_cell_does(loaded) -> None:
    traced = trace(loaded, TEXT)
    last = int(traced.tgt_valid.sum()) - 1
    moved = 0.0
    for site in traced.sites:
        cell = cell_of(loaded, traced, site, 1, 2 if site.stack == "encoder" else last, 0)
        whole = effect(loaded, traced, cell, last)
        assert whole.tokens[whole.chosen] == chosen_token(traced, last)
        np.testing.assert_array_equal(whole.before, traced.logits[last, list(whole.tokens)])
        little = effect(loaded, traced, replace(cell, weights=cell.weights / 100), last)
        change = float(little.change[little.chosen])
        assert 100 * change == pytest.approx(whole.slope, abs=1e-3, rel=0.1)
        moved = max(moved, abs(whole.slope))
    assert moved > 0.005  # or nothing was compared


def test_the_only_cell_of_a_row_is_the_whole_head(tiny) -> None:
    """The first row of a causal head sees itself alone, so the cell is the head for that row."""
    loaded = tiny("one", family="decoder-only")
    traced = trace(loaded, TEXT)
    site = traced.sites[0]
    cell = cell_of(loaded, traced, site, 2, 0, 0)
    assert cell.weight == 1
    np.testing.assert_allclose(cell.written, cell.head_written, atol=1e-6)
    alone = trace(loaded, "The")
    first = effect(loaded, traced, cell, 0)
    off = trace(loaded, "The", edits=(HeadOff(site.name, 2),))
    assert alone.tgt_tokens[0] == traced.tgt_tokens[0]
    np.testing.assert_allclose(first.after, off.logits[0, list(first.tokens)], atol=1e-4)
    assert np.abs(first.change).max() > 1e-3


def test_a_cell_that_the_mask_blocks_writes_nothing(translator) -> None:
    traced = trace(translator, TEXT)
    site = next(site for site in traced.sites if site.role == "decoder")
    cell = cell_of(translator, traced, site, 0, 1, 3)
    assert not cell.is_allowed
    assert cell.weight == 0
    assert not cell.written.any()
    found = effect(translator, traced, cell, 1)
    np.testing.assert_allclose(found.change, 0, atol=1e-5)
    assert found.slope == 0


def test_a_head_that_is_off_writes_nothing_and_keeps_its_weights(translator) -> None:
    site = next(site for site in translator.sites if site.role == "cross")
    traced = trace(translator, TEXT, edits=(HeadOff(site.name, 1), MaskSwitch("causal", False)))
    cell = cell_of(translator, traced, site, 1, 2, 0)
    assert cell.weight > 0
    assert not cell.written.any()
    assert not cell.head_written.any()
    np.testing.assert_allclose(effect(translator, traced, cell, 2).change, 0, atol=1e-5)


def test_the_stream_before_is_what_the_sublayer_was_joined_to(tiny) -> None:
    loaded = tiny("pre", norm_placement="pre", final_norm=True)
    traced = trace(loaded, TEXT)
    for site in traced.sites:
        cell = cell_of(loaded, traced, site, 0, 2, 1)
        block = site.name.rpartition(".")[0]
        after = "resid_mid_cross" if site.kind == "cross" else "resid_mid"
        np.testing.assert_allclose(
            stream_before(traced, site)[2] + cell.site_written,
            traced.activations[f"{block}.hook_{after}"][2],
            atol=1e-5,
        )


def test_what_is_not_there_is_refused(translator, writer) -> None:
    traced = trace(translator, TEXT)
    site = traced.sites[0]
    with pytest.raises(IndexError, match="no head 4: its size is 4"):
        cell_of(translator, traced, site, 4, 0, 0)
    with pytest.raises(IndexError, match="no key 99: its size is"):
        cell_of(translator, traced, site, 0, 0, 99)
    with pytest.raises(ValueError, match="the trace was made by"):
        cell_of(writer, traced, site, 0, 0, 0)
    cell = cell_of(translator, traced, site, 0, 0, 0)
    with pytest.raises(IndexError, match="there is no position 99"):
        effect(translator, traced, cell, 99)
    with pytest.raises(IndexError, match="vocabulary"):
        effect(translator, traced, cell, 0, token=10**6)


def test_a_chosen_token_joins_the_candidates(translator) -> None:
    traced = trace(translator, TEXT)
    cell = cell_of(translator, traced, traced.sites[-1], 0, 1, 0)
    unlikely = int(traced.logits[1].argmin())
    found = effect(translator, traced, cell, 1, token=unlikely)
    assert found.tokens[found.chosen] == unlikely
    assert len(found.tokens) == len(found.str_tokens) == 6


def test_lengths_are_euclidean() -> None:
    assert lengths([np.array([3.0, 4.0]), np.zeros(2)]) == (5.0, 0.0)
