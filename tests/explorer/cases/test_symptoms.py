"""A fault planted into the reader's model, and what it does there."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from faults import BY_ID

from explorer.analysis.cases import BUGS
from explorer.analysis.cases.symptom import symptom
from explorer.engine.jobs import walked
from explorer.library import LoadedModel
from explorer.runs.rerun import rows_of, token_logprobs, written_tokens
from explorer.runs.run import run
from explorer.runs.trace import trace
from models.hooks import LOGITS, NO_EDITS


def test_a_symptom_is_the_run_with_the_fault(translator: LoadedModel) -> None:
    traced = trace(translator, "The cat sat.", "猫坐在垫子上。")
    found = walked(symptom(translator, traced, BY_ID["inverted_causal"]))
    assert len(found.logprobs_before) == len(found.logprobs_after) > 0
    assert found.loss_before != found.loss_after
    rows = rows_of(traced)
    hook, planted = "decoder.blocks.0.attn.hook_pattern", BY_ID["inverted_causal"].plant
    assert planted is not None
    seen = run(translator.model, rows, {hook, LOGITS}, planted(translator.model, rows))
    np.testing.assert_allclose(seen[hook].triu(1).sum(-1)[:, :, :-1], 1.0, atol=1e-6)
    expected = token_logprobs(seen[LOGITS][0].numpy(), written_tokens(traced))
    np.testing.assert_allclose(found.logprobs_after, expected, atol=1e-5)
    # A hidden source of nothing but PADs in sight is another translation altogether.
    padding = walked(symptom(translator, traced, BY_ID["inverted_padding"]))
    assert padding.output_before == found.output_before
    assert padding.output_after != padding.output_before


def test_a_fault_of_decoding_is_measured_in_cached_steps(translator: LoadedModel) -> None:
    """In one pass it does not exist: an equal loss there would say that it costs nothing."""
    traced = trace(translator, "The cat sat.", "猫坐在垫子上。")
    found = walked(symptom(translator, traced, BY_ID["is_causal_cache"]))
    whole = walked(symptom(translator, traced, BY_ID["no_mask"]))
    np.testing.assert_allclose(found.logprobs_before, whole.logprobs_before, atol=1e-5)
    assert found.logprobs_after[0] == pytest.approx(found.logprobs_before[0], abs=1e-5)
    assert np.abs(found.logprobs_after - found.logprobs_before)[1:].max() > 1e-3
    assert found.moved > 1e-3
    assert found.output_before != found.output_after


@pytest.mark.parametrize("kind", ["translator", "writer"])
def test_without_a_fault_the_symptom_is_the_model_itself(
    kind: str, request: pytest.FixtureRequest
) -> None:
    loaded: LoadedModel = request.getfixturevalue(kind)
    traced = trace(loaded, "The cat sat.", None if kind == "translator" else "")
    alone = replace(BY_ID["first_item"], batched=False)  # a batch of one stays intact
    found = walked(symptom(loaded, traced, alone))
    assert not found.changed
    np.testing.assert_allclose(found.logprobs_before, found.logprobs_after, atol=1e-5)
    assert found.output_before == found.output_after
    assert found.output_before
    if kind == "translator":  # the same greedy decoding, however long each lets it run
        assert traced.output.startswith(found.output_before[:10])
    again = trace(loaded, "The cat sat.", None if kind == "translator" else "")
    np.testing.assert_array_equal(again.logits, traced.logits)  # nothing stays in the model


def test_a_fault_that_spares_the_first_sentence_shows_at_the_second(
    translator: LoadedModel,
) -> None:
    traced = trace(translator, "The cat sat.", "猫坐在垫子上。")
    found = walked(symptom(translator, traced, BY_ID["first_item"]))
    assert found.changed
    usual = walked(symptom(translator, traced, BY_ID["no_mask"]))
    np.testing.assert_allclose(found.logprobs_before, usual.logprobs_before, atol=1e-5)


def test_a_symptom_names_its_tokens_and_words(translator: LoadedModel) -> None:
    traced = trace(translator, "The cat sat.", "猫坐在垫子上。")
    found = walked(symptom(translator, traced, BY_ID["inverted_causal"]))
    assert found.tokens == (*traced.tgt_str_tokens[1:], "</s>")
    assert len(found.tokens) == len(found.logprobs_after)
    kept = [token for token, status in found.words if status != "gone"]
    assert "".join(kept).replace("·", "") == found.output_after.replace(" ", "")


def test_a_picture_shows_the_head_that_differs_most() -> None:
    shown = BY_ID["first_head"].compared()
    picture = shown.pair
    assert picture is not None
    assert picture.head != 0  # the only head that is right
    assert picture.hidden is not None
    np.testing.assert_array_equal(picture.hidden, np.triu(np.ones((5, 5), dtype=bool), 1))
    lost = BY_ID["empty_row_nan"].compared().pair
    assert lost is not None
    assert np.isnan(lost.wrong[0]).all()
    assert BY_ID["norm_backward"].compared().pair is None


def test_own_patterns_name_their_site(translator: LoadedModel) -> None:
    traced = trace(translator, "The cat sat.", "猫坐在垫子上。", pads=2)
    for bug in BUGS:
        way = bug.compared(traced).ways[0]
        if way.labels:
            assert way.picture is not None
            n_rows = len(way.labels) if way.picture.dtype == torch.bool and bug.left else 1
            assert way.picture.shape == (n_rows, len(way.labels))
        if way.site:
            assert way.picture is not None
            mask = traced.mask(way.site)
            assert way.picture.shape[-1] == mask.shape[-1]
    assert BY_ID["inverted_padding"].compared(traced).ways[0].site == "encoder.blocks.0.attn"
    assert BY_ID["inverted_padding"].compared().ways[0].site == ""


def test_what_cannot_be_planted_is_refused(translator: LoadedModel, writer: LoadedModel) -> None:
    traced = trace(translator, "The cat sat.", "猫坐")
    with pytest.raises(ValueError, match="label_view"):
        walked(symptom(translator, traced, BY_ID["label_view"]))
    with pytest.raises(ValueError, match="made by 'tiny'"):
        walked(symptom(writer, traced, BY_ID["inverted_causal"]))


@pytest.mark.parametrize(
    ("changes", "lacking"),
    [
        ({"family": "encoder-only", "positions": "alibi"}, {"causal", "added"}),
        ({"family": "decoder-only", "positions": "rotary"}, {"both_ways", "added"}),
        ({"family": "decoder-only", "positions": "learned"}, {"both_ways"}),
        ({}, set()),
    ],
)
def test_a_bug_is_injected_only_where_there_is_what_it_needs(
    tiny: Callable[..., LoadedModel], changes: dict[str, str], lacking: set[str]
) -> None:
    loaded = tiny("needs", **changes)
    traced = trace(loaded, "The cat sat.", "猫坐" if not changes else "")
    for bug in (each for each in BUGS if each.plant is not None):
        fits = bug.fits(loaded.model, rows_of(traced))
        assert fits == (bug.needs not in lacking), bug.id


def test_a_model_without_logits_is_compared_by_its_vectors(
    tiny: Callable[..., LoadedModel],
) -> None:
    loaded = tiny("bare", family="encoder-only", lm_head=False)
    traced = trace(loaded, "The cat sat.")
    stream = loaded.model.stacks()[-1].hook("resid_final")
    before, after = (
        run(loaded.model, rows_of(traced), {stream}, edits)[stream].double()
        for edits in (NO_EDITS, BY_ID["model_scale"].plant(loaded.model, rows_of(traced)))
    )
    found = walked(symptom(loaded, traced, BY_ID["model_scale"]))
    assert found.moved == pytest.approx(float((after - before).norm() / before.norm()))
    assert found.changed
    assert not walked(symptom(loaded, traced, BY_ID["small_fill"])).changed
