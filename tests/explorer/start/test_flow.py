"""The way of a text through a model: the numbers of the run, and bins that keep them."""

import numpy as np
import pytest

from explorer.analysis.start import flow as flows
from explorer.analysis.start.flow import bins, flow, in_bins, text_after
from explorer.analysis.start.opened import MOST_SIDE, open_head
from explorer.runs.edits import MaskSwitch
from explorer.runs.trace import generate, trace
from models.strategies import Greedy

TEXT = "The cat ran."
OFF = (MaskSwitch("causal", False),)


def test_steps_are_rows_of_one_pass_with_the_generations_candidates(loaded):
    made = generate(loaded, TEXT, Greedy(), 6)
    found = flow(loaded, trace(loaded, TEXT), made)
    lane = found.lanes[-1]
    assert len(lane.tokens) == found.given + len(made.steps) - 1
    for block in lane.blocks:
        for each in block:
            for at, step in enumerate(found.steps):
                assert step.token == found.given - 1 + at
                np.testing.assert_allclose(each.steps[at], each.pattern[:, step.token], atol=1e-5)
    for step, told in zip(made.steps, found.steps, strict=True):
        assert told.tokens[told.chosen] == step.chosen_str
        assert told.chances[told.chosen] == pytest.approx(step.chosen_prob, rel=1e-5)
        assert list(told.chances) == sorted(told.chances, reverse=True)
    assert found.steps[-1].text.endswith(made.text)
    assert text_after(loaded, made, len(made.steps) - 1) == found.steps[-1].text


def test_without_the_causal_mask_only_the_last_step_saw_what_one_pass_sees(writer):
    made = generate(writer, TEXT, Greedy(), 6, OFF)
    last = flow(writer, trace(writer, TEXT, edits=OFF), made, OFF).lanes[-1].blocks[-1][0]
    rows = last.pattern[:, -len(made.steps) :].swapaxes(0, 1)
    gaps = np.abs(rows - last.steps).max((1, 2))
    assert gaps[-1] < 1e-5
    assert (gaps[:-1] > 1e-3).all()
    assert last.allowed.all()
    assert not last.allowed_then[0, -1]  # its key did not exist yet


def test_the_source_lane_and_its_waves_are_those_of_the_trace(translator):
    traced = trace(translator, TEXT)
    found = flow(translator, traced, generate(translator, TEXT, Greedy(), 6))
    source, target = found.lanes
    assert source.tokens == traced.src_str_tokens
    assert [[each.site.role for each in block] for block in target.blocks] == [
        ["decoder", "cross"]
    ] * 2
    for block in source.blocks:
        (each,) = block
        np.testing.assert_allclose(each.pattern, traced.pattern(each.site.name), atol=1e-6)
        assert len(each.steps) == 0
    embedded = traced.activations["encoder.hook_embed"]
    np.testing.assert_allclose(source.embedded, embedded[:, : flows.SHOWN_VALUES], atol=1e-6)
    lane = flow(translator, traced, None).lanes[0]
    added = traced.activations["encoder.hook_pos_embed"]
    assert not lane.turns
    np.testing.assert_allclose(lane.waves[:, 0], added[:, 0], atol=1e-6)  # sin(position)
    np.testing.assert_allclose(lane.waves[:, 0], np.sin(np.arange(len(lane.tokens))), atol=1e-5)


def test_rotary_positions_are_shown_by_their_angles_and_biases_not_at_all(tiny):
    loaded = tiny("rotary", family="decoder-only", positions="rotary")
    lane = flow(loaded, trace(loaded, TEXT), None).lanes[0]
    assert lane.turns
    np.testing.assert_allclose(lane.waves[:, 0], np.sin(np.arange(len(lane.tokens))), atol=1e-6)
    loaded = tiny("alibi", family="decoder-only", positions="alibi")
    assert flow(loaded, trace(loaded, TEXT), None).lanes[0].waves is None


def test_a_silent_model_goes_by_threads_and_another_models_run_is_refused(tiny, translator, writer):
    loaded = tiny("silent", family="encoder-only", lm_head=False)
    found = flow(loaded, trace(loaded, TEXT), None)
    assert [step.thread for step in found.steps] == list(range(len(found.lanes[0].tokens)))
    assert all(not step.tokens and step.chosen is None for step in found.steps)
    with pytest.raises(ValueError, match="the run was made by 'tiny', not by 'writer'"):
        flow(writer, trace(translator, TEXT), None)


def test_bins_keep_the_sum_of_a_row_of_long_texts_too(writer, monkeypatch):
    pattern = np.array([[[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0, 0.25, 0.75, 0], [0, 0, 0, 1]]])
    binned = in_bins(pattern, (0, 2), (0, 1, 3))
    # Rows 0 and 1 averaged, keys 1 and 2 summed; so are rows 2 and 3.
    np.testing.assert_allclose(binned, [[[0.75, 0.25, 0], [0, 0.5, 0.5]]])
    assert bins(5, 8) == (0, 1, 2, 3, 4)
    many = bins(1000, 960)  # isqrt(1,500,000 / 960) = 39
    assert len(many) == 39
    assert many[0] == 0
    assert np.diff([*many, 1000]).max() <= np.diff([*many, 1000]).min() + 1
    monkeypatch.setattr(flows, "MOST_THREADS", 8)
    made = generate(writer, "The cat sat on the mat. " * 3, Greedy(), 4)
    found = flow(writer, trace(writer, "The cat sat on the mat. " * 3), made)
    lane = found.lanes[0]
    assert len(lane.starts) == 8
    np.testing.assert_allclose(lane.blocks[0][0].pattern.sum(-1), 1, atol=1e-5)
    np.testing.assert_allclose(lane.blocks[0][0].steps.sum(-1), 1, atol=1e-5)
    assert found.steps[-1].thread == 7


def test_an_opened_head_is_that_of_the_trace(translator):
    traced = trace(translator, TEXT)
    site = traced.sites_of("cross")[1]
    found = open_head(translator, traced, None, (), site.name, 3)
    n_query = min(MOST_SIDE, found.n_query)
    assert found.pattern.shape == (n_query, found.n_key)
    assert found.n_query == len(traced.tgt_tokens)
    pattern = traced.pattern(site.name)[3, :n_query]
    np.testing.assert_allclose(found.pattern, pattern, atol=1e-6)
    scores = found.q @ found.k.T / np.sqrt(found.q.shape[1])
    np.testing.assert_allclose(found.scores, scores, atol=1e-5)
    np.testing.assert_allclose(found.z, found.pattern @ found.v, atol=1e-5)
    assert found.keys == traced.src_str_tokens
