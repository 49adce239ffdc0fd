"""Changed positions: told to the tokens, read by the heads, seen in what is written."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from explorer.analysis.positions import changes as changing
from explorer.analysis.positions.changes import MOST_SHIFT, PositionChange, most_shift
from explorer.analysis.positions.order import four_texts, moved, shuffled_order
from explorer.exhibits.positions.head import by_offset, reread, weight_moved, write_under
from explorer.runs.edits import MaskSwitch
from explorer.runs.passes import walked
from explorer.runs.trace import trace
from models.positions import POSITIONS
from tests.explorer.conftest import WRITER

TEXT, TARGET = "The cat sat on the mat", "爱猫你在跑我"


@pytest.mark.parametrize("text", ["remove", "reverse", "shift-20", "swap-1-3"])
def test_a_change_comes_back_from_its_text(text):
    assert changing.format_change(changing.parse_change(text)) == text


@pytest.mark.parametrize(
    "text", ["", "shift", "shift-513", "swap-1", "remove-1", "<b>", "shift--1"]
)
def test_other_text_is_refused(text):
    with pytest.raises(ValueError, match=r"not a change|longest"):
        changing.parse_change(text)


def test_what_tokens_are_told_by_permutations_where_there_are_positions(tiny, writer, translator):
    assert changing.told_positions(changing.REMOVE, 4) is None
    for change, told in (
        (PositionChange("shift", 7), [7, 8, 9, 10]),
        (PositionChange("swap", 0, 2), [2, 1, 0, 3]),
        (PositionChange("swap", 0, 9), [0, 1, 2, 3]),
        (PositionChange("reverse"), [3, 2, 1, 0]),
    ):
        found = changing.told_positions(change, 4)
        assert found.tolist() == told
    assert len(changing.CHANGE_KINDS) == 4
    assert changing.position_functions(tiny(positions="none"), "src", changing.REMOVE) == {}
    assert changing.position_functions(writer, "src", changing.REMOVE) == {}
    with pytest.raises(ValueError, match="not a permutation"):
        moved(translator, trace(translator, TEXT), "src", (0, 0))
    traced = trace(writer, TEXT)
    with pytest.raises(ValueError, match="not a permutation"):
        moved(writer, traced, "src", ())
    with pytest.raises(ValueError, match="trace was made by"):
        moved(translator, traced, "tgt", range(len(traced.tgt_tokens)))


def told_to(wanted: Sequence[int], told: torch.Tensor) -> Callable[..., torch.Tensor]:
    """In place of `positions_of`: what a change would tell the wanted row."""
    return lambda valid, tokens, *more: (
        told if tokens[0].tolist() == [*wanted] else torch.arange(tokens.shape[1])
    )[None]


@pytest.mark.parametrize("positions", sorted(set(POSITIONS) - {"none"}))
@pytest.mark.parametrize("stream", ["src", "tgt"])
def test_a_change_is_the_model_itself_at_other_positions(positions, stream, tiny, monkeypatch):
    """The oracle: the model's own `positions_of`, made to say the told positions."""
    loaded = tiny(positions=positions)
    traced = trace(loaded, TEXT, TARGET)
    wanted = {"src": traced.src_tokens, "tgt": traced.tgt_tokens}[stream]
    for change in (
        PositionChange("shift", 5),
        PositionChange("swap", 1, 3),
        PositionChange("reverse"),
    ):
        got = reread(loaded, traced, stream, change)
        oracle = told_to(wanted, changing.told_positions(change, len(wanted)))
        with monkeypatch.context() as patch:
            patch.setattr("models.transformer.positions_of", oracle)
            expected = reread(loaded, traced, stream, None)
        for site in traced.sites:
            np.testing.assert_allclose(
                got.scores[site.name], expected.scores[site.name], atol=2e-5, rtol=1e-4
            )
        np.testing.assert_allclose(got.losses, expected.losses, atol=1e-4)
        unseen = POSITIONS[positions].acts != "adds" and change.kind == "shift"
        unseen |= positions == "alibi" and change.kind == "reverse"  # both directions alike
        usual = reread(loaded, traced, stream, None).losses
        assert np.allclose(got.losses, usual, atol=1e-4) == unseen


@pytest.mark.parametrize("positions", ["rotary", "alibi", "t5"])
def test_without_positions_a_model_reads_as_one_that_has_none(positions, tiny):
    told, none = (tiny("writer", positions=kind, **WRITER) for kind in (positions, "none"))
    table = dict(told.model.named_parameters()).get("positions.weight")
    with torch.no_grad():  # T5's table is drawn after all else; what a model shares is the same
        for (_, one), (_, other) in zip(
            ((n, p) for n, p in told.model.named_parameters() if p is not table),
            none.model.named_parameters(),
            strict=True,
        ):
            one.copy_(other)
    without = reread(told, trace(told, TEXT), "tgt", changing.REMOVE)
    bare = reread(none, trace(none, TEXT), "tgt", None)
    for site in without.scores:
        np.testing.assert_allclose(without.patterns[site], bare.patterns[site], atol=1e-4)
        if positions != "t5":  # whose distance 0 has a number too, the same for all keys
            np.testing.assert_allclose(without.scores[site], bare.scores[site], atol=1e-4)


def test_words_are_shuffled_whole_and_marks_stay(tiny, translator):
    tokens = ("The", "ele", "·phant", "ran", "</s>", "<pad>")
    for seed in range(30):
        order = shuffled_order(translator, tokens, 5, "src", seed)
        assert sorted(order) == list(range(6))
        assert order[4:] == (4, 5)
        assert order[:4] != (0, 1, 2, 3)
        assert order.index(2) == order.index(1) + 1
    assert shuffled_order(translator, tokens, 5, "src", 3) == shuffled_order(
        translator, tokens, 5, "src", 3
    )
    assert shuffled_order(translator, ("<s>", "a", "b"), 3, "tgt", 0) == (0, 2, 1)
    assert shuffled_order(translator, ("a", "</s>"), 2, "src", 0) == (0, 1)
    encoder = tiny(family="encoder-only")
    assert shuffled_order(encoder, ("<s>", "a", "b", "</s>"), 4, "tgt", 0) == (0, 2, 1, 3)
    assert shuffled_order(encoder, ("<s>", "a", "</s>"), 3, "tgt", 0) == (0, 1, 2)


@pytest.mark.parametrize("positions", sorted(set(POSITIONS) - {"none"}))
def test_only_without_positions_do_the_outputs_move_along(positions, tiny):
    loaded = tiny(positions=positions)
    traced = trace(loaded, TEXT, TARGET)
    order = shuffled_order(loaded, traced.src_str_tokens, len(traced.src_tokens), "src", 1)
    as_is, without = moved(loaded, traced, "src", order)
    assert (as_is.setting, without.setting) == ("as_is", "without")
    assert as_is.mean > 0.02
    assert without.distances.max() < 1e-5
    assert as_is.distances.shape == (4, len(order))
    if POSITIONS[positions].acts == "adds":
        # Before the first block it is the difference of two positions and nothing else.
        states = traced.activations["encoder.blocks.0.hook_resid_pre"]
        added = traced.activations["encoder.hook_pos_embed"]
        change = added - added[list(order)]
        expected = np.linalg.norm(change, axis=1) / np.linalg.norm(states[list(order)], axis=1)
        np.testing.assert_allclose(as_is.distances[0], expected, atol=1e-5)


@pytest.mark.parametrize("family", ["encoder-decoder", "decoder-only"])
def test_a_causal_mask_tells_the_order_by_itself(family, tiny):
    changes: dict[str, Any] = WRITER if family == "decoder-only" else {}
    loaded = tiny(**changes)
    traced = trace(loaded, TEXT, TARGET)
    order = shuffled_order(loaded, traced.tgt_str_tokens, len(traced.tgt_tokens), "tgt", 2)
    as_is, without, unmasked = moved(loaded, traced, "tgt", order)
    assert as_is.mean > 0.02
    assert without.mean > 0.02
    assert unmasked.distances.max() < 1e-5
    none = tiny(positions="none", **changes)
    found = moved(none, trace(none, TEXT, TARGET), "tgt", order)
    assert [each.setting for each in found] == ["without", "unmasked"]
    off = trace(loaded, TEXT, TARGET, (MaskSwitch("causal", False),))
    (_, barest) = moved(loaded, off, "tgt", order)
    assert (barest.setting, barest.mean < 1e-5) == ("without", True)


def test_shuffled_words_are_the_same_without_positions_and_stories_go_on(tiny):
    loaded = tiny()
    found = walked(four_texts(loaded, TEXT, seed=4))
    assert found.in_order == trace(loaded, TEXT).output
    assert found.in_order_without == found.shuffled_without
    assert found.shuffled != found.in_order
    assert found.in_order_without == write_under(loaded, TEXT, "src", changing.REMOVE)
    assert write_under(loaded, TEXT, "src", PositionChange("shift", 0)) == found.in_order
    writer = tiny("writer", n_ctx=12, **WRITER)
    assert walked(four_texts(writer, "The cat ran", seed=1)).in_order != ""


def test_how_much_weight_moved_and_means_by_offset():
    before = np.array([[1.0, 0.0], [0.5, 0.5]])
    after = np.array([[0.25, 0.75], [1.0, 0.0]])
    assert weight_moved(before, after, np.array([True, False])) == pytest.approx(0.75)
    assert weight_moved(before, after, np.array([True, True])) == pytest.approx((0.75 + 0.5) / 2)
    values = np.array([[1.0, 9.0], [3.0, 5.0]])
    offsets, means = by_offset(values, np.tril(np.ones((2, 2), bool)))
    assert offsets.tolist() == [-1, 0]
    assert means.tolist() == [3.0, 3.0]


def test_a_shift_ends_where_learned_positions_end(tiny):
    assert most_shift(tiny(positions="learned", n_ctx=20), 8) == 12
    assert most_shift(tiny(), 8) == MOST_SHIFT
