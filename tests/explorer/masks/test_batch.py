"""Sentences in one padded batch: right masks keep them apart, wrong ones do not."""

from collections.abc import Callable

import pytest

from explorer.exhibits.masks.batch import batch
from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.runs.edits import MaskSwitch
from explorer.runs.trace import trace

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
