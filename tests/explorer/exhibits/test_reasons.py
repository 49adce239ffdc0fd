from dataclasses import replace

import numpy as np
import pytest
import torch

from explorer.exhibits.reasons import BLOCKERS, RULES, blocked_by, empty_rows, reasons, rule_numbers
from explorer.exhibits.saying import marked_words
from explorer.runs.edits import CellEdit, Edit, MaskSize, MaskSwitch
from explorer.runs.interventions import mask_of, rules_in_force
from explorer.runs.trace import trace

TEXT, TARGET = "The cat ran.", "猫跑"
SELF, CROSS = "decoder.blocks.0.attn", "decoder.blocks.1.cross_attn"
ENCODER = "encoder.blocks.0.attn"
EDITS: list[tuple[Edit, ...]] = [
    (),
    (MaskSwitch("causal", False),),
    (MaskSwitch("pad_keys", False), MaskSwitch("pad_queries", True)),
    (MaskSwitch("cross_pad", False), MaskSwitch("causal", False)),
    (CellEdit(SELF, 2, 0, 1, True), CellEdit(CROSS, None, 1, 1, False)),
    (MaskSwitch("pad_queries", True), CellEdit(SELF, None, 1, 0, False)),
    (MaskSize("window", 2), CellEdit("decoder", None, 1, 1, False)),
    (MaskSize("block", 2), MaskSwitch("causal", False)),
    (MaskSize("prefix", 2), MaskSize("window", 3), CellEdit("cross", 1, 0, 0, False)),
]


def letters(names):
    """The first letter of what blocks each cell, row by row."""
    return ["".join(name[:1] or "·" for name in row) for row in names.tolist()]


@pytest.mark.parametrize("edits", EDITS)
def test_blocked_is_just_what_the_model_blocked(translator, edits):
    traced = trace(translator, TEXT, TARGET, edits, pads=2)
    for site in traced.sites:
        why, names = reasons(traced, site.name), blocked_by(traced, site.name)
        np.testing.assert_array_equal(why.blocked, ~traced.mask(site.name))
        np.testing.assert_array_equal(names != "", ~traced.mask(site.name))
        assert set(np.unique(names)) <= set(BLOCKERS) - {"other"}
        numbers = rule_numbers(traced, site.name)
        np.testing.assert_array_equal(np.array(["", *RULES])[numbers], names)
        assert not (traced.pattern(site.name) > 0)[why.blocked].any()


def test_the_rules_rebuild_the_models_own_masks(translator, writer):
    for loaded in (translator, writer):
        traced = trace(loaded, TEXT, pads=2)
        valid = {
            "src": torch.tensor(traced.src_valid)[None],
            "tgt": torch.tensor(traced.tgt_valid)[None],
        }
        for site in traced.sites:
            rules = rules_in_force(())
            mask = mask_of(site, rules, valid[site.query_stream], valid[site.key_stream])[0]
            applied = traced.mask(site.name)
            np.testing.assert_array_equal(np.broadcast_to(mask.numpy(), applied.shape), applied)


def test_by_hand(translator):
    target = translator.tokenizer.decode(translator.tokenizer.encode(TARGET)[:1])
    edits = (CellEdit(SELF, 1, 1, 0, False), CellEdit(SELF, 1, 0, 1, True))
    traced = trace(translator, TEXT, target, edits, pads=1)
    assert traced.tgt_valid.tolist() == [True, True, False]
    assert letters(blocked_by(traced, SELF)[0]) == ["·cp", "··p", "··p"]
    assert letters(blocked_by(traced, SELF)[1]) == ["··p", "e·p", "··p"]
    why = reasons(traced, SELF)
    assert why.causal[0].tolist() == [[False, True, True], [False, False, True], [False] * 3]
    assert np.argwhere(why.opened).tolist() == [[1, 0, 1]]
    assert np.unique(blocked_by(traced, CROSS)[:, :, :-1]).tolist() == [""]
    assert np.unique(blocked_by(traced, CROSS)[:, :, -1]).tolist() == ["pad_key"]

    queries = trace(translator, TEXT, target, (MaskSwitch("pad_queries", True),), pads=1)
    assert letters(blocked_by(queries, SELF)[0]) == ["·cp", "··p", "ppp"]
    for names in (blocked_by(queries, SELF)[0, 2, :2], blocked_by(queries, CROSS)[:, -1, :-1]):
        assert np.unique(names).tolist() == ["pad_query"]


def test_a_mask_that_no_rule_explains_is_not_explained_away(translator):
    traced = trace(translator, TEXT, TARGET)
    name = f"{ENCODER}.hook_mask"
    strange = traced.activations[name].copy()
    strange[0, 0, 1] = False
    other = replace(traced, activations=traced.activations | {name: strange})
    assert blocked_by(other, ENCODER)[0, 0].tolist()[:3] == ["", "other", ""]
    # And a missing causal mask shows as open cells, wherever they lie.
    name = f"{SELF}.hook_mask"
    leaking = replace(
        traced, activations=traced.activations | {name: np.ones_like(traced.mask(SELF))}
    )
    assert (blocked_by(leaking, SELF) == "").all()


def test_windows_prefixes_and_blocks_by_hand(translator, tiny):
    for edits, site, rows in (
        ((MaskSize("window", 2),), SELF, "·ccc ··cc w··c ww··"),
        ((MaskSize("prefix", 2),), SELF, "··cc ··cc ···c ····"),
        ((MaskSize("block", 2),), SELF, "·ccc ··cc bb·c bb··"),
        ((MaskSize("window", 1),), ENCODER, "·www w·ww ww·w www·"),
        ((MaskSize("window", 1), MaskSize("block", 1)), CROSS, "···· ···· ···· ····"),
    ):
        traced = trace(translator, "I love you.", "猫坐在", edits)
        assert letters(blocked_by(traced, site)[0, :4, :4]) == rows.split(), (edits, site)
    loaded = tiny("near", family="decoder-only", near_layers=(1,), window=2)
    w, c = "window", "causal"
    for edits, n in (((), 2), ((MaskSize("window", 3),), 2), ((MaskSize("window", 1),), 1)):
        traced = trace(loaded, "I love you.", edits=edits)
        whole, short = (blocked_by(traced, site.name)[0] for site in traced.sites)
        assert (whole[3, 0] == w) == bool(edits), "layer 1 has no window but the user's"
        assert short[3, :5].tolist() == [w] * (4 - n) + [""] * n + [c]
        for site in traced.sites:
            np.testing.assert_array_equal(
                blocked_by(traced, site.name) != "", ~traced.mask(site.name)
            )


def test_a_kind_paints_all_its_layers_and_a_name_one(translator):
    everywhere = trace(translator, TEXT, TARGET, (CellEdit("decoder", None, 1, 0, False),))
    one = trace(translator, TEXT, TARGET, (CellEdit(SELF, 1, 1, 0, False),))
    for traced, heads in ((everywhere, {"all"}), (one, {1})):
        for site in traced.sites:
            shut = blocked_by(traced, site.name)[:, 1, 0] == "edit"
            if site.kind == "cross" or site.stack == "encoder":
                assert not shut.any()
            elif heads == {"all"}:
                assert shut.all()
            else:
                assert np.flatnonzero(shut).tolist() == ([1] if site.name == SELF else [])
    lost = trace(translator, TEXT, TARGET, (CellEdit("nowhere", None, 1, 0, False),))
    assert len(lost.ignored_edits) == 1


def test_rows_painted_empty_are_found_and_are_zero(translator):
    edits = tuple(CellEdit(SELF, 2, 1, key, False) for key in range(2))
    traced = trace(translator, TEXT, TARGET, edits, pads=2)
    assert np.argwhere(empty_rows(traced, SELF)).tolist() == [[2, 1]]
    assert not traced.pattern(SELF)[2, 1].any()
    # PAD queries that are hidden on purpose are not what a visitor emptied.
    hidden = trace(translator, TEXT, TARGET, (MaskSwitch("pad_queries", True),), pads=2)
    assert not empty_rows(hidden, SELF).any()


def test_changed_tokens_are_marked_and_pieces_of_a_word_stay_together():
    words = [("a", "same"), ("·bc", "new"), ("de", "gone")]
    assert "a:orange-background[**bc**] :gray[~~de~~]" in marked_words(words)
