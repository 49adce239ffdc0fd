"""Notations of masks: the same mask, five ways, and what each does in code that expects another."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from explorer.exhibits.masks.batch import batch
from explorer.exhibits.masks.causal import ahead
from explorer.exhibits.masks.choices import WAYS
from explorer.exhibits.masks.conventions import (
    READERS,
    RENDERINGS,
    WRITTEN,
    conventions,
    try_readers,
)
from explorer.exhibits.masks.fills import DTYPES, FILLS, FillResult, fills
from explorer.exhibits.masks.forced import forced
from explorer.library import LoadedModel, open_model
from explorer.problems import InputProblem
from explorer.runs.edits import CellEdit, MaskSize, MaskSwitch
from explorer.runs.trace import trace
from models.masks import causal_mask

SCORES = torch.tensor([[0.0, 1.0, 2.0], [1.0, 0.0, -1.0], [2.0, 0.5, 1.0]])
CAUSAL = causal_mask(3)


@pytest.mark.parametrize("name", RENDERINGS)
def test_a_causal_mask_of_a_tutorial_is_ours_in_its_notation(name: str) -> None:
    way = WRITTEN[name]
    for n in (1, 4, 7):
        ours = causal_mask(n)
        assert torch.equal(way.causal(n), way.write(ours))
        assert torch.equal(way.read(way.causal(n)), ours)


def test_each_pair_does_what_its_conventions_say() -> None:
    """The table worked out by hand: who reads what, and who reads it the other way round."""
    found = try_readers(SCORES, CAUSAL)
    outcomes = {
        name: tuple(found.of(name, reader).outcome for reader in READERS) for name in RENDERINGS
    }
    assert outcomes == {
        "ones": ("right", "refused", "wrong", "wrong", "wrong"),
        "keep": ("right", "inverted", "wrong", "right", "inverted"),
        "blocked": ("inverted", "right", "wrong", "inverted", "right"),
        "infinite": ("inverted", "refused", "right", "right", "right"),
        "billion": ("inverted", "refused", "right", "right", "right"),
    }
    assert (found.count("right"), found.count("refused")) == (11, 3)
    assert found.causal
    assert found.alike == found.cells == 5 * 9


def test_ones_that_are_added_shift_the_weights_by_a_factor_of_e() -> None:
    pattern = try_readers(SCORES, CAUSAL).of("ones", "added").pattern
    assert pattern is not None
    row = np.array([math.e ** (0 + 1), math.e**1, math.e**2])  # row 0 may see key 0 alone
    np.testing.assert_allclose(pattern[0], row / row.sum(), rtol=1e-6)
    assert try_readers(SCORES, CAUSAL).of("ones", "added").hidden == pytest.approx(
        1 - row[0] / row.sum(), rel=1e-5
    )


def test_an_inverted_row_with_nothing_left_is_nan_or_uniform() -> None:
    """The last row of a causal mask blocks nothing, so inverted it blocks everything."""
    found = try_readers(SCORES, CAUSAL)
    with_infinity, with_a_billion = (
        found.of("keep", "true_hides"),
        found.of("blocked", "equals_zero"),
    )
    assert with_infinity.nan_rows == 1
    assert with_infinity.pattern is not None
    assert np.isnan(with_infinity.pattern[2]).all()
    assert with_a_billion.pattern is not None
    np.testing.assert_allclose(with_a_billion.pattern[2], 1 / 3)


def test_a_mask_that_blocks_nothing_is_harmless_as_zeros_only() -> None:
    found = try_readers(SCORES, torch.ones(3, 3, dtype=torch.bool))
    assert found.of("infinite", "added").outcome == "right"
    assert found.of("ones", "added").outcome == "right"  # one is added to every score alike
    assert found.of("blocked", "equals_zero").outcome == "wrong"  # everything hidden: uniform
    assert found.of("keep", "mha").outcome == "nan"
    assert not found.causal


def test_scores_of_any_head_go_through_torchs_own_functions(translator: LoadedModel, tiny) -> None:
    for loaded in (translator, tiny("biased", positions="alibi"), tiny("few", n_kv_heads=2)):
        traced = trace(loaded, "The cat sat on the mat.", pads=2)
        for site in traced.sites:
            found = conventions(traced, site, 1)
            own = traced.pattern(site.name)[1]
            np.testing.assert_allclose(found.right, own, atol=1e-6)
            for name, reader in (("keep", "sdpa"), ("blocked", "mha"), ("infinite", "mha")):
                handed = found.of(name, reader)
                assert handed.outcome == "right"
                np.testing.assert_allclose(handed.pattern, own, atol=1e-5)
            assert found.of("keep", "mha").outcome == "inverted"
            assert found.alike == found.cells
            assert found.causal == (site.role == "decoder" and traced.tgt_valid.all())


def test_no_reader_gets_every_notation_of_a_mask_that_blocks_something() -> None:
    scores = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))
    assert try_readers(scores, causal_mask(4)).readers_of_all == 0
    # Where nothing is blocked, what is added changes nothing.
    assert try_readers(scores, torch.ones(4, 4, dtype=torch.bool)).readers_of_all == 1


# Fill values: which hide, leak, overflow or turn to NaN, in four types of number.


LOW_SCORES = np.array([[1.0, -1.0, 0.0], [0.5, 2.0, -0.5], [0.0, 1.0, 2.0]], np.float32)
KEEP = np.tril(np.ones((3, 3), bool))


def case(found: tuple[FillResult, ...], fill: str, dtype: str) -> FillResult:
    return next(each for each in found if (each.fill, each.dtype) == (fill, dtype))


def test_every_fill_is_tried_in_every_type() -> None:
    found = fills(LOW_SCORES, KEEP, 0)
    assert [(each.fill, each.dtype) for each in found] == [
        (fill, dtype) for fill in FILLS for dtype in DTYPES
    ]


def test_values_are_stored_as_the_types_can() -> None:
    found = fills(LOW_SCORES, KEEP, 0)
    assert case(found, "billion", "float16").refused  # float16 ends at 65504
    assert case(found, "ten_thousand", "bfloat16").stored == -9984  # 8 bits: steps of 64
    assert case(found, "billion", "bfloat16").stored == -998244352
    assert case(found, "lowest", "float16").stored == -65504
    assert case(found, "infinity", "float16").stored == -math.inf
    assert sum(each.refused for each in found) == 1


def test_at_usual_scores_all_hide_and_an_empty_row_tells_them_apart() -> None:
    found = fills(LOW_SCORES, KEEP, 0)
    assert all(each.hides and each.hidden == 0 for each in found if not each.refused)
    for dtype in DTYPES:
        assert case(found, "infinity", dtype).empty == "nan"
        assert case(found, "lowest", dtype).empty == "uniform"
        assert case(found, "zeroed", dtype).empty == "zero"
    np.testing.assert_allclose(case(found, "ten_thousand", "float32").row, 1 / 3)


def test_a_score_below_the_fill_lets_all_the_weight_through() -> None:
    """Scores of about -12000 against -1e4: e^2000 to 1 for the blocked keys."""
    found = fills(LOW_SCORES, KEEP, 0, lowered=12_000)
    for dtype in DTYPES:
        assert case(found, "ten_thousand", dtype).hidden == pytest.approx(1, abs=0.01)
        assert case(found, "lowest", dtype).hidden == 0
    assert case(found, "infinity", "float64").rounding == 0
    # Between 8192 and 16384, float16 has steps of 8: scores that differ by 2 become equal.
    assert case(found, "infinity", "float16").rounding > 0.2


def test_halfway_to_the_fill_the_leak_is_that_of_the_formula() -> None:
    """One visible score equal to the fill, and b blocked keys: they get b / (b + 1)."""
    scores = np.zeros((1, 3), np.float32)
    found = fills(scores, np.array([[True, False, False]]), 0, lowered=10_000)
    assert case(found, "ten_thousand", "float32").hidden == pytest.approx(2 / 3)


def test_added_to_an_empty_row_a_fill_cancels() -> None:
    found = fills(LOW_SCORES, KEEP, 0, "added")
    row = np.exp(LOW_SCORES[0].astype(np.float64))
    exact = case(found, "ten_thousand", "float64")
    assert exact.empty == "unmasked"
    np.testing.assert_allclose(exact.row, row / row.sum(), atol=1e-6)
    assert case(found, "lowest", "float32").empty == "uniform"  # the scores are lost in it


def test_twice_the_lowest_number_is_minus_infinity() -> None:
    found = fills(LOW_SCORES, KEEP, 0, "twice")
    assert {case(found, "lowest", dtype).empty for dtype in DTYPES} == {"nan"}
    assert case(found, "billion", "float32").empty != "nan"
    assert case(found, "zeroed", "float16").empty == "zero"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("lowered", [0.0, 1e3, 6e4])
def test_the_rule_of_this_library_is_right_everywhere(way: str, lowered: float) -> None:
    for each in fills(LOW_SCORES, KEEP, 2, way, lowered):
        if each.fill == "zeroed":
            assert each.hides
            assert each.hidden == 0
            assert each.empty == "zero"


def test_a_query_that_is_not_there_raises() -> None:
    with pytest.raises(IndexError):
        fills(LOW_SCORES, KEEP, 3)


# Sentences in one padded batch: right masks keep them apart, wrong ones do not.


TEXTS = ("I love you.", "A dog ran after the cat, and the cat ran away.", "The cat sat.")
SPLIT = (TEXTS[0], TEXTS[1:])


def test_under_right_masks_nobody_notices_the_others(translator: LoadedModel) -> None:
    found = batch(translator, *SPLIT)
    assert [member.text for member in found] == list(TEXTS)
    widths = {(len(member.src_str_tokens), len(member.tgt_str_tokens)) for member in found}
    assert len(widths) == 1
    assert found[1].src_pads == 0
    assert min(found[0].src_pads, found[2].src_pads) > 0
    for member in found:
        assert member.alone == member.together == trace(translator, member.text).output
        assert member.weight_moved < 1e-5


def test_visible_padding_moves_the_short_ones_and_spares_the_longest(
    translator: LoadedModel,
) -> None:
    found = batch(translator, *SPLIT, (MaskSwitch("pad_keys", False),))
    # The longest source is seen to have no padding: only its target may have some, which the
    # causal mask hides.
    assert found[1].weight_moved < 1e-5
    for short in (found[0], found[2]):
        assert short.weight_moved > 1e-2


def test_no_weight_of_the_encoder_moves_more_than_is_reported(translator: LoadedModel) -> None:
    """A trace with as many PADs reads the same source row, so it shows the same change there."""
    edits = (MaskSwitch("pad_keys", False),)
    short, _ = batch(translator, "The cat sat.", ["The cat sat on the mat."], edits)
    alone = trace(translator, short.text, edits=edits)
    padded = trace(translator, short.text, edits=edits, pads=short.src_pads)
    encoder = [site.name for site in translator.sites if site.stack == "encoder"]
    moved = []
    for name in encoder:
        n = alone.pattern(name).shape[-1]
        moved.append(float(abs(alone.pattern(name) - padded.pattern(name)[:, :n, :n]).max()))
    assert max(moved) > 1e-2
    assert short.weight_moved >= max(moved) - 1e-5


def test_a_writer_has_target_rows_only(writer: LoadedModel) -> None:
    found = batch(writer, *SPLIT)
    assert all(member.src_str_tokens == () and member.alone == "" for member in found)
    assert found[1].tgt_pads == 0
    assert max(member.weight_moved for member in found) < 1e-5


def test_an_unreadable_sentence_is_refused(translator: LoadedModel) -> None:
    with pytest.raises(InputProblem):
        batch(translator, "I love you.", ["   "])


def test_a_model_that_says_no_tokens_has_weights_that_move(
    tiny: Callable[..., LoadedModel],
) -> None:
    headless = tiny("headless", family="encoder-only", lm_head=False)
    members = batch(headless, "The cat sat.", ["A dog"])
    assert len(members) == 2
    assert all(member.weight_moved < 1e-5 for member in members)


# Looking ahead: none with the causal mask, and without it the sums that the patterns give.


OFF = (MaskSwitch("causal", False),)


@pytest.fixture(scope="module")
def twin() -> LoadedModel:
    return open_model("twin-right")


def test_with_the_mask_nothing_is_ahead_and_the_last_row_sees_everything(twin: LoadedModel) -> None:
    found = ahead(trace(twin, "I love you.", pads=2), "decoder")
    assert found is not None
    assert found.share == found.most == 0
    assert found.seen == found.real


def test_without_it_shares_are_those_of_the_patterns(twin: LoadedModel) -> None:
    run = trace(twin, "I love you.", edits=OFF, pads=2)
    found = ahead(run, "decoder")
    assert found is not None
    real = found.real
    assert real == int(run.tgt_valid.sum())
    by_hand = {}
    for site in run.sites_of("decoder"):
        for head, pattern in enumerate(run.pattern(site.name)):
            rows = [pattern[i, i + 1 : real].sum() for i in range(real - 1)]
            by_hand[site.layer, head] = float(np.mean(rows))
    assert found.share == pytest.approx(np.mean(list(by_hand.values())), abs=1e-6)
    assert found.most == pytest.approx(max(by_hand.values()), abs=1e-6)
    assert (found.layer, found.head) == max(by_hand, key=by_hand.__getitem__)
    assert found.seen == real  # the newest row is none the wiser


def test_another_rule_may_narrow_the_last_row(twin: LoadedModel) -> None:
    found = ahead(trace(twin, "I love you.", edits=(*OFF, MaskSize("window", 2))), "decoder")
    assert found is not None
    assert found.seen == 2 < found.real


def test_a_rule_in_one_head_narrows_the_last_row(twin: LoadedModel) -> None:
    """The first head of the first layer sees everything; a sentence about all heads asks all."""
    run = trace(twin, "I love you.")
    shut = CellEdit(run.sites_of("decoder")[-1].name, 1, int(run.tgt_valid.sum()) - 1, 0, False)
    found = ahead(trace(twin, "I love you.", edits=(*OFF, shut)), "decoder")
    assert found is not None
    assert found.seen == found.real - 1


def test_one_token_has_none_after_it(twin: LoadedModel) -> None:
    run = trace(twin, "I love you.")
    alone = replace(run, tgt_valid=np.arange(len(run.tgt_valid)) < 1)
    assert ahead(alone, "decoder") is None


# The same words read again under changed masks: losses and the tokens that come next.


TEXT, TARGET = "The cat ran.", "猫跑开了。"


@pytest.mark.parametrize("kind", ["translator", "writer"])
def test_without_edits_nothing_changes(kind: str, request: pytest.FixtureRequest) -> None:
    loaded: LoadedModel = request.getfixturevalue(kind)
    traced = trace(loaded, TEXT, TARGET, pads=2)
    found = forced(loaded, traced, ())
    np.testing.assert_allclose(found.losses_after, found.losses_before, atol=1e-5)
    assert len(found.tokens) == len(found.losses_after) == len(found.after)
    assert found.loss_before == pytest.approx(found.losses_before.mean())


def test_the_losses_are_those_of_a_trace_with_the_edits(translator: LoadedModel) -> None:
    traced = trace(translator, TEXT, TARGET, pads=1)
    edited = trace(translator, TEXT, TARGET, OFF, pads=1)
    found = forced(translator, traced, OFF)
    wide = edited.logits.astype(np.float64)
    logprobs = wide - np.log(np.exp(wide).sum(-1, keepdims=True))
    ids = (*traced.tgt_tokens[1 : int(traced.tgt_valid.sum())], translator.marks.end)
    expected = [-logprobs[row, token] for row, token in enumerate(ids)]
    np.testing.assert_allclose(found.losses_after, expected, atol=1e-5)
    assert found.tokens[-1] == "</s>"
    assert not np.allclose(found.losses_after, found.losses_before, atol=1e-3)


def test_what_comes_next_is_sorted_and_holds_the_best_of_before(translator: LoadedModel) -> None:
    traced = trace(translator, TEXT, TARGET)
    found = forced(translator, traced, (*OFF, CellEdit("cross", None, 0, 0, False)))
    for row, candidates in enumerate(found.after):
        probabilities = [each.after for each in candidates[:6]]
        assert probabilities == sorted(probabilities, reverse=True)
        best = traced.predicted_str_tokens[row]
        assert best.lstrip("·") in [each.token.lstrip("·") for each in candidates]
    with pytest.raises(ValueError, match="made by 'another'"):
        forced(translator, replace(traced, model="another"), ())
