"""All common bugs: their code, what they measure on a sentence, and their effect in a model."""

import ast
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from explorer.analysis.cases import BUGS, BY_ID
from explorer.analysis.cases.case import source_of
from explorer.analysis.cases.planting import fixed_scores
from explorer.analysis.cases.symptom import padded_on_the_left, room, symptom
from explorer.numerics import masked_softmax
from explorer.runs.inputs import limit
from explorer.runs.passes import walked
from explorer.runs.rerun import rows_of, token_logprobs, written_tokens
from explorer.runs.run import run
from explorer.runs.trace import trace
from models.attention import attend
from models.hooks import LOGITS, NO_EDITS
from models.rows import Rows
from tests.explorer.cases.test_bugs import figure

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.id)
def test_wrong_and_right_differ_in_code_and_numbers(bug):
    shown = bug.compared()
    wrong, right = shown.ways
    assert not right.own
    assert any(row.values[0] != row.values[1] for row in shown.rows)  # NaN differs from everything
    assert all(math.isfinite(row.values[1]) for row in shown.rows)
    if wrong.picture is not None and right.picture is not None:
        assert wrong.picture.shape == right.picture.shape
        assert right.picture.isfinite().all()
        assert not torch.equal(wrong.picture, right.picture)
    sources = source_of(bug.variant), source_of(bug.plain)
    assert sources[0] != sources[1]
    for source in sources:  # the page says in the reader's language what a docstring says
        assert ast.get_docstring(ast.parse(source).body[0]) is None


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.id)
def test_a_demonstration_takes_the_sentence_of_the_reader(bug, loaded):
    traced = trace(loaded, "The cat sat.", "猫坐", pads=2)
    shown = bug.compared(traced)
    assert shown.rows
    assert all(math.isfinite(row.values[1]) for row in shown.rows)
    way = shown.ways[1]
    if way.own and way.picture is not None and way.picture.ndim == 3:
        assert way.picture.shape[-1] in (len(traced.src_tokens), len(traced.tgt_tokens))
    assert bug.compared(traced).ways[1].own == way.own  # and the Trace is as it was
    wrong = shown.ways[0]
    if wrong.labels:
        n_rows = len(wrong.labels) if wrong.picture.dtype == torch.bool and bug.left else 1
        assert wrong.picture.shape == (n_rows, len(wrong.labels))
    if wrong.site:
        assert wrong.picture.shape[-1] == traced.mask(wrong.site).shape[-1]


def test_what_is_not_of_the_readers_sentence_is_not_called_so(translator, tiny):
    """Without an end token, and without a causal mask, the example is the fixed one."""
    traced = trace(translator, "The cat sat.", "猫坐")
    foreign = replace(traced, marks=replace(traced.marks, end=None))
    both_ways = trace(tiny("both ways", family="encoder-only"), "The cat sat.")
    for id, unlike in (("pad_confused", foreign), ("mask_replaced", both_ways)):
        shown, fixed = BY_ID[id].compared(unlike), BY_ID[id].compared()
        assert not shown.ways[1].own
        assert shown.rows == fixed.rows
    own = replace(traced.marks, pad=traced.marks.end, end=traced.marks.pad, source=traced.marks)
    for marks in (traced.marks, own):  # a source with a vocabulary of its own
        shown = BY_ID["pad_confused"].compared(replace(traced, marks=marks))
        assert shown.ways[1].own
        assert [row.values for row in shown.rows] == [(2, 0), (1, 0)]


def test_the_wrong_code_is_imported_by_nothing_but_the_pages_that_show_it():
    # `certify` names the line that shows a fault; an exercise injects a learner's mask as a bug is
    # injected.
    showing = ("explorer/exhibits/", "explorer/notebook/", "explorer/analysis/exercises/")
    showing += ("explorer/engine/exercises.py",)
    importers = [
        path.relative_to(ROOT).as_posix()
        for folder in ("models", "explorer")
        for path in (ROOT / folder).rglob("*.py")
        if path.parent != ROOT / "explorer/analysis/cases"
        and "analysis.cases" in path.read_text(encoding="utf-8")
    ]
    assert importers
    assert [each for each in importers if not each.startswith(showing)] == []


def test_the_right_pattern_is_that_of_the_models():
    q, k, v = (fixed_scores(2, 3, 5, 4, seed) for seed in range(3))
    keep = torch.rand(2, 3, 5, 5) > 0.5
    keep[0, 0, 0] = False  # a row with nothing too
    right = attend(q, k, v, keep)[1]
    torch.testing.assert_close(masked_softmax(q @ k.transpose(-2, -1) / 2, keep), right)


def test_a_symptom_is_the_run_with_the_fault(translator):
    traced = trace(translator, "The cat sat.", "猫坐在垫子上。")
    found = walked(symptom(translator, traced, BY_ID["inverted_causal"]))
    assert len(found.logprobs_before) == len(found.logprobs_after) > 0
    assert found.loss_before != found.loss_after
    assert found.tokens == (*traced.tgt_str_tokens[1:], "</s>")
    assert len(found.tokens) == len(found.logprobs_after)
    kept = [token for token, status in found.words if status != "gone"]
    assert "".join(kept).replace("·", "") == found.output_after.replace(" ", "")
    rows = rows_of(traced)
    hook, planted = "decoder.blocks.0.attn.hook_pattern", BY_ID["inverted_causal"].plant
    seen = run(translator.model, rows, {hook, LOGITS}, planted(translator.model, rows))
    np.testing.assert_allclose(seen[hook].triu(1).sum(-1)[:, :, :-1], 1.0, atol=1e-6)
    expected = token_logprobs(seen[LOGITS][0].numpy(), written_tokens(traced))
    np.testing.assert_allclose(found.logprobs_after, expected, atol=1e-5)
    # A hidden source of nothing but PADs in sight is another translation altogether.
    padding = walked(symptom(translator, traced, BY_ID["inverted_padding"]))
    assert padding.output_before == found.output_before
    assert padding.output_after != padding.output_before


def test_faults_of_decoding_and_of_later_sentences_are_measured_there(translator):
    """In one pass it does not exist: an equal loss there would say that it costs nothing."""
    traced = trace(translator, "The cat sat.", "猫坐在垫子上。")
    found = walked(symptom(translator, traced, BY_ID["is_causal_cache"]))
    whole = walked(symptom(translator, traced, BY_ID["no_mask"]))
    np.testing.assert_allclose(found.logprobs_before, whole.logprobs_before, atol=1e-5)
    assert found.logprobs_after[0] == pytest.approx(found.logprobs_before[0], abs=1e-5)
    assert np.abs(found.logprobs_after - found.logprobs_before)[1:].max() > 1e-3
    assert found.moved > 1e-3
    assert found.output_before != found.output_after
    found = walked(symptom(translator, traced, BY_ID["first_item"]))
    assert found.changed
    usual = walked(symptom(translator, traced, BY_ID["no_mask"]))
    np.testing.assert_allclose(found.logprobs_before, usual.logprobs_before, atol=1e-5)


def test_without_a_fault_the_symptom_is_the_model_itself(loaded):
    traced = trace(loaded, "The cat sat.", None if loaded.name == "tiny" else "")
    alone = replace(BY_ID["first_item"], batched=False)  # a batch of one stays intact
    found = walked(symptom(loaded, traced, alone))
    assert not found.changed
    np.testing.assert_allclose(found.logprobs_before, found.logprobs_after, atol=1e-5)
    assert found.output_before == found.output_after
    assert found.output_before
    if loaded.name == "tiny":  # the same greedy decoding, however long each lets it run
        assert traced.output.startswith(found.output_before[:10])
    again = trace(loaded, "The cat sat.", None if loaded.name == "tiny" else "")
    np.testing.assert_array_equal(again.logits, traced.logits)  # nothing stays in the model


def test_pictures_show_the_head_that_differs_and_name_their_site(translator):
    shown = BY_ID["first_head"].compared()
    picture = shown.pair
    assert picture.head != 0  # the only head that is right
    np.testing.assert_array_equal(picture.hidden, np.triu(np.ones((5, 5), dtype=bool), 1))
    lost = BY_ID["empty_row_nan"].compared().pair
    assert np.isnan(lost.wrong[0]).all()
    assert BY_ID["tiny_epsilon"].compared().pair is None
    traced = trace(translator, "The cat sat.", "猫坐在垫子上。")
    assert BY_ID["inverted_padding"].compared(traced).ways[0].site == "encoder.blocks.0.attn"
    assert BY_ID["inverted_padding"].compared().ways[0].site == ""


def test_what_cannot_be_planted_is_refused(translator, writer):
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
def test_a_bug_is_injected_only_where_there_is_what_it_needs(tiny, changes, lacking):
    loaded = tiny("needs", **changes)
    traced = trace(loaded, "The cat sat.", "猫坐" if not changes else "")
    for bug in (each for each in BUGS if each.plant is not None):
        fits = bug.fits(loaded.model, rows_of(traced))
        assert fits == (bug.needs not in lacking), bug.id


def test_a_model_without_logits_is_compared_by_its_vectors(tiny):
    loaded = tiny("bare", family="encoder-only", lm_head=False)
    traced = trace(loaded, "The cat sat.")
    stream = loaded.stacks[-1].hook("resid_final")
    before, after = (
        run(loaded.model, rows_of(traced), {stream}, edits)[stream].double()
        for edits in (NO_EDITS, BY_ID["model_scale"].plant(loaded.model, rows_of(traced)))
    )
    found = walked(symptom(loaded, traced, BY_ID["model_scale"]))
    assert found.moved == pytest.approx(float((after - before).norm() / before.norm()))
    assert found.changed
    assert not walked(symptom(loaded, traced, BY_ID["small_fill"])).changed


def test_the_second_mask_replaces_the_first():
    bug = BY_ID["mask_replaced"]
    tokens = torch.tensor([[0, 0, 7, 5], [7, 5, 9, 0]])
    wrong, right = bug.variant(tokens, 0), bug.plain(tokens, 0)
    assert wrong.shape == right.shape == (2, 1, 4, 4)
    assert wrong[0, 0].int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1] * 4]
    assert right[0, 0].int().tolist() == [[0] * 4, [0] * 4, [0, 0, 1, 0], [0, 0, 1, 1]]
    torch.testing.assert_close(wrong[1, 0, :3], right[1, 0, :3])  # the words of a row padded right
    assert figure("mask_replaced", "pads_seen_left") == (8, 0)  # 4 words, 2 PADs
    assert figure("mask_replaced", "pads_seen_right") == (0, 0)


def test_rows_get_their_padding_on_the_left():
    given = Rows(torch.tensor([[3, 4]]), None, torch.tensor([[5]]), torch.tensor([[True]]))
    rows = padded_on_the_left(given, 2, 9)
    assert (rows.tgt.tolist(), rows.valid("tgt").int().tolist()) == ([[9, 9, 3, 4]], [[0, 0, 1, 1]])
    assert (rows.tokens("src").tolist(), rows.valid("src").int().tolist()) == (
        [[9, 9, 5]],
        [[0, 0, 1]],
    )


def test_what_is_written_for_shifted_positions_depends_on_what_they_act_on(loaded):
    traced = trace(loaded, "The cat sat.", "猫坐在垫子上。" if loaded.name == "tiny" else "")
    found = walked(symptom(loaded, traced, BY_ID["left_positions"]))
    assert found.left == min(8, room(loaded, traced)) > 0
    unpadded = walked(symptom(loaded, traced, BY_ID["small_fill"]))
    assert found.loss_before == pytest.approx(unpadded.loss_before, abs=1e-4)
    assert found.changed == (loaded.config.positions in ("sinusoidal", "learned"))


def test_a_full_or_padded_row_has_no_room_left(tiny):
    loaded = tiny("full", family="decoder-only", n_ctx=12)
    traced = trace(loaded, "The cat sat on the", "")
    spare = room(loaded, traced)
    found = walked(symptom(loaded, traced, BY_ID["left_positions"]))
    assert found.left == min(spare, 8)
    assert np.isfinite(found.logprobs_after).all()
    np.testing.assert_array_equal(found.logprobs_before.shape, found.logprobs_after.shape)
    loaded = tiny("padded", family="decoder-only", positions="learned", n_ctx=12)
    traced = trace(loaded, "The cat sat on the", "", pads=8)
    assert len(traced.tgt_tokens) > limit(loaded)
    assert room(loaded, traced) == 0
    assert walked(symptom(loaded, traced, BY_ID["left_positions"])).left == 0


def test_the_scale_of_the_model_flattens_every_row():
    spread, entropy, equal = (
        figure("model_scale", name) for name in ("score_spread", "entropy", "equal_entropy")
    )
    assert spread.right == pytest.approx(0.99, abs=0.02)
    assert spread.wrong == pytest.approx(spread.right / math.sqrt(8))  # 512 / 64
    assert entropy.right == pytest.approx(2.37, abs=0.03)
    assert entropy.wrong == pytest.approx(2.72, abs=0.01)
    assert entropy.wrong < equal.wrong == equal.right == pytest.approx(math.log(16))
