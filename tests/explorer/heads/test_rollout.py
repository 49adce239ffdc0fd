"""Rollout, worked by hand: every head of every layer looks one token back; and ablations."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from explorer.analysis.heads import ablation
from explorer.analysis.heads.ablation import ablate, ablating
from explorer.analysis.heads.aggregates import MAX_ROWS, aggregates_of
from explorer.analysis.heads.rollout import cross_rollout, layer_mixes, mean_head, rollout
from explorer.library import LoadedModel
from explorer.runs.edits import CellEdit, Edit, HeadOff, MaskSwitch
from explorer.runs.passes import walked
from explorer.runs.rerun import token_logprobs, written_tokens
from explorer.runs.trace import Trace, trace
from models.hooks import VISITOR

CROSS, SELF = "decoder.blocks.1.cross_attn", "decoder.blocks.0.attn"
BACK = [[1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]  # the row of query 3: key 2


def with_patterns(traced: Trace, patterns: dict[str, np.ndarray | list[list[int]]]) -> Trace:
    """The trace with these patterns [query, key] in every head of a site."""
    changed = {}
    for site, rows in patterns.items():
        name = f"{site}.hook_pattern"
        changed[name] = np.broadcast_to(
            np.array(rows, dtype=np.float32), traced.activations[name].shape
        )
    return replace(traced, activations=traced.activations | changed)


@pytest.fixture
def back(traced: Trace) -> Trace:
    return with_patterns(traced, {f"encoder.blocks.{layer}.attn": BACK for layer in range(3)})


def test_rollout_of_one_token_back(back) -> None:
    rolled = rollout(back, "encoder")
    # Half stays, half goes one back: after 3 layers the steps back are 1 3 3 1, the wall gathers.
    assert rolled[2].tolist() == [
        [1, 0, 0, 0],
        [7 / 8, 1 / 8, 0, 0],
        [4 / 8, 3 / 8, 1 / 8, 0],
        [1 / 8, 3 / 8, 3 / 8, 1 / 8],
    ]
    assert rolled[0].tolist() == ((np.array(BACK) + np.eye(4)) / 2).tolist()
    assert rolled[1][3].tolist() == [0, 1 / 4, 2 / 4, 1 / 4]


def test_padding_and_the_future_bring_nothing_and_other_kinds_are_refused(
    translator, writer
) -> None:
    traced = trace(translator, "The cat ran", "我爱你猫", pads=2)
    future, n_src = np.triu(np.ones((5, 5), dtype=bool), 1), 4
    assert (rollout(traced, "decoder")[:, future] == 0).all()
    assert (rollout(traced, "encoder")[-1][:n_src, n_src:] == 0).all()
    crossed = cross_rollout(traced)
    assert (crossed.source[:, :, n_src:] == 0).all()
    assert (crossed.source[:, :3, :n_src] > 0).all()
    text = trace(writer, "The cat ran")
    with pytest.raises(ValueError, match="'encoder'"):
        rollout(text, "encoder")
    with pytest.raises(ValueError, match="cross"):
        rollout(traced, "cross")
    with pytest.raises(ValueError, match="no cross"):
        cross_rollout(text)


def test_a_closed_row_is_its_residual_and_the_mean_of_heads_that_are_on(translator, traced) -> None:
    def closed(site: str, row: int) -> list[Edit]:
        return [CellEdit(site, None, row, key, False) for key in range(4)]

    edits = closed("encoder.blocks.1.attn", 1) + closed(CROSS, 2)
    run = trace(translator, "The cat ran", "我爱你猫", edits)
    assert layer_mixes(run, "encoder")[1][1].tolist() == [0, 1, 0, 0]
    crossed = cross_rollout(run)
    mix = layer_mixes(run, "decoder")[1]
    np.testing.assert_allclose(crossed.source[1][2], (mix @ crossed.source[0])[2], rtol=1e-12)
    np.testing.assert_allclose(crossed.source[1].sum(1) + crossed.target[1].sum(1), 1, atol=1e-6)
    edits = [edit for site in run.sites_of("cross") for edit in closed(site.name, 0)]
    nothing = cross_rollout(trace(translator, "The cat ran", "我爱你猫", edits))
    assert nothing.source[1][0].tolist() == nothing.aligned[1][0].tolist() == [0, 0, 0, 0]
    pattern = traced.pattern(SELF).astype(np.float64)
    np.testing.assert_allclose(mean_head(traced, SELF), pattern.sum(0) / 4)
    assert (mean_head(traced, SELF)[~traced.mask(SELF)[0]] == 0).all()
    off = trace(translator, "The cat ran", "我爱你猫", [HeadOff(SELF, 1)])
    np.testing.assert_allclose(mean_head(off, SELF), pattern[[0, 2, 3]].sum(0) / 4)
    with pytest.raises(KeyError):
        mean_head(traced, "nowhere")


def test_rollout_through_the_whole_translator_carries_what_crossed_over_before(back) -> None:
    crosses = {"decoder.blocks.0.cross_attn": [[1, 0, 0, 0]] * 3, CROSS: np.eye(3, 4, 1)}
    own = {SELF: np.eye(3), "decoder.blocks.1.attn": np.eye(3)}
    crossed = cross_rollout(with_patterns(back, own | crosses))
    assert crossed.target[1].tolist() == (np.eye(3) / 4).tolist()
    assert crossed.source[0].tolist() == [[1 / 2, 0, 0, 0]] * 3
    # A quarter from layer 1, all on token 0; half from layer 2, through the encoder's rollout.
    assert crossed.source[1].tolist() == [
        [1 / 4 + 7 / 16, 1 / 16, 0, 0],
        [1 / 4 + 4 / 16, 3 / 16, 1 / 16, 0],
        [1 / 4 + 1 / 16, 3 / 16, 3 / 16, 1 / 16],
    ]
    assert crossed.aligned[1][2].tolist() == [5 / 12, 3 / 12, 3 / 12, 1 / 12]
    own["decoder.blocks.1.attn"] = [[1, 0, 0]] * 3  # every target token looks at the start mark
    crosses = {"decoder.blocks.0.cross_attn": np.eye(4)[[0, 1, 1]], CROSS: [[1, 0, 0, 0]] * 3}
    crossed = cross_rollout(with_patterns(back, own | crosses))
    # Before: rows [1/2 ...] and [7/16, 1/16 ...]; half of each, then half for the crossing.
    assert crossed.source[1][1].tolist() == [(1 / 2 + 7 / 16) / 4 + 1 / 2, (0 + 1 / 16) / 4, 0, 0]
    assert crossed.target[1][1].tolist() == [1 / 8, 1 / 8, 0]


def test_aggregates_are_what_analysis_computes_and_long_rows_have_none(traced, writer) -> None:
    aggregates = {aggregate.name: aggregate for aggregate in aggregates_of(traced, "encoder")}
    assert list(aggregates) == ["mean-1", "mean-2", "mean-3", "rollout"]
    site = traced.sites_of("encoder")[1].name
    for name, expected in (
        ("mean-2", mean_head(traced, site)),
        ("rollout", rollout(traced, "encoder")[-1]),
    ):
        np.testing.assert_allclose(aggregates[name].pattern, expected, rtol=1e-6, err_msg=name)
    assert (aggregates["mean-2"].layer, aggregates["rollout"].layer) == (1, None)
    assert aggregates["rollout"].pattern.dtype == np.float32
    aggregates = aggregates_of(traced, "cross")
    assert [aggregate.name for aggregate in aggregates] == ["mean-1", "mean-2", "rollout"]
    np.testing.assert_allclose(aggregates[-1].pattern, cross_rollout(traced).aligned[-1], rtol=1e-6)
    long = replace(traced, src_str_tokens=("x",) * (MAX_ROWS + 1))
    assert aggregates_of(long, "encoder") == ()
    with pytest.raises(ValueError, match="no attention of the kind 'cross'"):
        aggregates_of(trace(writer, "The cat"), "cross")


def test_open_cells_are_those_that_the_masks_connect_also_on_a_way_round(translator) -> None:
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
    shut = tuple(CellEdit(f"encoder.blocks.{layer}.attn", None, 0, 1, False) for layer in range(3))
    aggregates = {
        aggregate.name: aggregate
        for aggregate in aggregates_of(trace(translator, "The cat ran", edits=shut), "encoder")
    }
    assert not aggregates["mean-3"].mask[0, 1]
    assert aggregates["rollout"].mask[0, 1]
    assert aggregates["rollout"].pattern[0, 1] > 0


TEXT, TARGET = "The cat sat on the mat.", "猫坐在垫子上。"
EDITS: tuple[Edit, ...] = (
    MaskSwitch("causal", False),
    HeadOff("decoder.blocks.1.attn", 2),
    CellEdit("decoder.blocks.0.cross_attn", None, 1, 0, False),
    HeadOff("blocks.1.attn", 2),
)


def one_by_one(
    loaded: LoadedModel, traced: Trace, target: str | None, edits: tuple[Edit, ...], pads: int
) -> dict[str, np.ndarray]:
    """log p(head off) - log p of every written token, a whole trace for every head."""
    tokens = written_tokens(traced)
    before = token_logprobs(traced.logits, tokens)

    def change(off: HeadOff) -> np.ndarray:
        without = trace(loaded, TEXT, target, (*edits, off), pads)
        return token_logprobs(without.logits, tokens) - before

    return {
        site.name: np.stack([change(HeadOff(site.name, head)) for head in range(site.n_heads)])
        for site in traced.sites
    }


@pytest.mark.parametrize("family", ["translator", "writer"])
@pytest.mark.parametrize(("edits", "pads"), [((), 0), (EDITS, 2)])
def test_the_same_as_one_head_at_a_time(family, edits, pads, request) -> None:
    loaded: LoadedModel = request.getfixturevalue(family)
    traced = trace(loaded, TEXT, TARGET, edits, pads)
    found = ablate(loaded, traced)
    expected = one_by_one(loaded, traced, TARGET, edits, pads)
    assert set(found.token_deltas) == set(expected)
    assert set(found.delta_logprob) == {site.role for site in traced.sites}
    assert max(np.abs(deltas).max() for deltas in expected.values()) > 0.1
    for name, deltas in expected.items():
        np.testing.assert_allclose(found.token_deltas[name], deltas, atol=1e-5, err_msg=name)
    for kind, heads in found.delta_logprob.items():
        sites = traced.sites_of(kind)
        np.testing.assert_allclose(heads, [expected[site.name].sum(1) for site in sites], atol=1e-4)
    assert found.logprob == pytest.approx(found.logprobs.sum())
    assert found.logprobs.max() < 0


def test_what_is_scored_are_the_written_tokens_or_others(translator, writer) -> None:
    end = translator.marks.end
    traced = trace(translator, TEXT, TARGET, pads=2)
    assert written_tokens(traced) == (*traced.tgt_tokens[1:-2], end)
    assert written_tokens(replace(traced, finished=False)) == traced.tgt_tokens[1:-2]
    text = trace(writer, TEXT, pads=2)
    assert written_tokens(text) == text.tgt_tokens[1:-2]
    log_softmax = torch.tensor(traced.logits).double().log_softmax(-1)
    tokens = written_tokens(traced)
    expected = log_softmax[range(len(tokens)), list(tokens)]
    np.testing.assert_allclose(token_logprobs(traced.logits, tokens), expected, rtol=1e-12)
    traced = trace(translator, TEXT, TARGET)
    written = written_tokens(traced)
    other = (*written[:2], 7)
    found, usual = ablate(translator, traced, other), ablate(translator, traced)
    assert found.tokens == other
    for name, deltas in found.token_deltas.items():
        np.testing.assert_allclose(deltas[:, :2], usual.token_deltas[name][:, :2], atol=1e-6)
        assert np.abs(deltas[:, 2] - usual.token_deltas[name][:, 2]).max() > 1e-3
    for tokens in ((), (*written, 7)):
        with pytest.raises(ValueError, match="do not follow"):
            ablate(translator, traced, tokens)


@pytest.mark.parametrize(
    ("at_once", "limits", "done"),
    [
        (1, {"MAX_ROWS": 5}, (4, 8, 12, 17, 20, 25, 28)),
        (2, {"MAX_ROWS": 5}, (8, 17, 25, 28)),
        (1, {"MAX_LOGITS": 1}, tuple(range(1, 29))),  # long rows take smaller batches
    ],
)
def test_progress_and_nothing_in_force_between_steps(
    at_once, limits, done, translator, monkeypatch
) -> None:
    traced = trace(translator, TEXT, TARGET)
    usual = ablate(translator, traced)
    for name, limit in {"AT_ONCE": at_once, **limits}.items():
        monkeypatch.setattr(ablation, name, limit)
    seen: list[tuple[int, int]] = []

    def between(*step: int) -> None:
        seen.append(step)
        assert VISITOR.get() is None
        assert torch.is_grad_enabled()
        assert not torch.is_inference_mode_enabled()

    found = walked(ablating(translator, traced), between)
    assert seen == [(heads, 28) for heads in done]
    for name, deltas in usual.token_deltas.items():
        np.testing.assert_allclose(found.token_deltas[name], deltas, atol=1e-5)


def test_the_head_that_is_needed_most(translator, tiny) -> None:
    found = ablate(translator, trace(translator, TEXT, TARGET))
    site, head = found.most_needed()
    lowest = min(deltas.sum(1).min() for deltas in found.token_deltas.values())
    assert found.token_deltas[site.name][head].sum() == lowest == found.totals.min()
    assert (
        found.totals[12:16].tolist() == found.token_deltas["decoder.blocks.0.attn"].sum(1).tolist()
    )
    with pytest.raises(ValueError, match="'tiny'"):
        ablate(tiny("other"), trace(translator, TEXT, TARGET))
