"""Means, rollout and flow as further heads: their numbers, and which cells the masks leave open."""

from dataclasses import replace

import numpy as np
import pytest

from explorer.analysis.heads.aggregates import MAX_FLOW, aggregates_of
from explorer.analysis.heads.flow import attention_flow
from explorer.analysis.heads.rollout import cross_rollout, mean_head, rollout
from explorer.library import LoadedModel
from explorer.runs.edits import CellEdit
from explorer.runs.trace import Trace, trace


@pytest.fixture
def traced(translator: LoadedModel) -> Trace:
    """Source: 3 tokens and the end mark; decoder's row: start and 2 tokens."""
    return trace(translator, "The cat ran", "我爱你猫")


def test_extras_of_a_kind_are_what_analysis_computes(traced: Trace) -> None:
    aggregates = {aggregate.name: aggregate for aggregate in aggregates_of(traced, "encoder")}
    assert list(aggregates) == ["mean-1", "mean-2", "mean-3", "rollout", "flow"]
    site = traced.sites_of("encoder")[1].name
    np.testing.assert_allclose(aggregates["mean-2"].pattern, mean_head(traced, site), rtol=1e-6)
    np.testing.assert_allclose(
        aggregates["rollout"].pattern, rollout(traced, "encoder")[-1], rtol=1e-6
    )
    np.testing.assert_allclose(
        aggregates["flow"].pattern, attention_flow(traced, "encoder"), rtol=1e-6
    )
    assert (aggregates["mean-2"].layer, aggregates["rollout"].layer) == (1, None)
    assert aggregates["flow"].pattern.dtype == np.float32


def test_cross_attention_rolls_out_through_the_encoder_and_has_no_flow(traced: Trace) -> None:
    aggregates = aggregates_of(traced, "cross")
    assert [aggregate.name for aggregate in aggregates] == ["mean-1", "mean-2", "rollout"]
    np.testing.assert_allclose(aggregates[-1].pattern, cross_rollout(traced).aligned[-1], rtol=1e-6)


def test_open_cells_are_those_that_the_masks_connect(translator: LoadedModel) -> None:
    causal = aggregates_of(trace(translator, "The cat ran", "我爱你猫"), "decoder")
    for aggregate in causal:
        np.testing.assert_array_equal(aggregate.mask, np.tril(np.ones_like(aggregate.mask)))
    padded = trace(translator, "The cat ran", "我爱你猫", pads=2)
    for aggregate in aggregates_of(padded, "cross"):
        assert (aggregate.mask == padded.src_valid).all()
    reach = {aggregate.name: aggregate.mask for aggregate in aggregates_of(padded, "encoder")}
    assert not reach["mean-1"][-1, -1]  # no head looks at a PAD
    assert reach["rollout"][-1, -1]  # but it keeps itself by the residual
    assert not reach["rollout"][0, -1]


def test_a_cell_closed_in_each_layer_stays_open_on_a_way_round(translator: LoadedModel) -> None:
    shut = tuple(CellEdit(f"encoder.blocks.{layer}.attn", None, 0, 1, False) for layer in range(3))
    aggregates = {
        aggregate.name: aggregate
        for aggregate in aggregates_of(trace(translator, "The cat ran", edits=shut), "encoder")
    }
    assert not aggregates["mean-3"].mask[0, 1]
    assert aggregates["rollout"].mask[0, 1]
    assert aggregates["rollout"].pattern[0, 1] > 0


def test_what_the_masks_close_is_exactly_zero(traced: Trace) -> None:
    for kind in ("encoder", "decoder", "cross"):
        for aggregate in aggregates_of(traced, kind):
            assert (aggregate.pattern[~aggregate.mask] == 0).all()


def test_a_long_row_has_no_flow_and_an_absent_kind_is_refused(
    traced: Trace, writer: LoadedModel
) -> None:
    long = replace(
        traced,
        activations={
            name: np.pad(cells, ((0, 0), (0, 30), (0, 30))) if cells.shape[-2:] == (4, 4) else cells
            for name, cells in traced.activations.items()
        },
        src_tokens=traced.src_tokens + (5,) * 30,
        src_str_tokens=traced.src_str_tokens + ("x",) * 30,
        src_valid=np.ones(34, np.bool_),
    )
    assert len(long.src_tokens) > MAX_FLOW
    assert [aggregate.name for aggregate in aggregates_of(long, "encoder")][-1] == "rollout"
    with pytest.raises(ValueError, match="no attention of the kind 'cross'"):
        aggregates_of(trace(writer, "The cat"), "cross")
