"""Notations of masks: the same mask, five ways, and what each does in code that expects another."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from explorer.analysis.cases import Result, ResultRow
from explorer.analysis.cases.fills import DTYPES, FILLS, filled
from explorer.analysis.cases.notation import READ_BY, WRITTEN, notation, pairs
from explorer.exhibits.masks.batch import batch
from explorer.exhibits.masks.causal import ahead
from explorer.exhibits.masks.choices import READERS, RENDERINGS, WAYS
from explorer.exhibits.masks.forced import forced
from explorer.exhibits.reasons import BLOCKERS, blocked_by, empty_rows, reasons
from explorer.library import LoadedModel, open_model
from explorer.problems import InputProblem
from explorer.runs.edits import CellEdit, MaskSize, MaskSwitch
from explorer.runs.trace import trace
from models.masks import causal_mask

SCORES = torch.tensor([[0.0, 1.0, 2.0], [1.0, 0.0, -1.0], [2.0, 0.5, 1.0]])
CAUSAL, OPEN = causal_mask(3), torch.ones(3, 3, dtype=torch.bool)


def by_pair(found: Result, firsts, seconds) -> dict[tuple[str, str], ResultRow]:
    return dict(zip(product(firsts, seconds), found.rows, strict=True))


def outcomes(keep: torch.Tensor) -> dict[str, tuple[str, ...]]:
    rows = by_pair(pairs(SCORES, keep), WRITTEN, READ_BY)
    return {name: tuple(rows[name, read].outcomes[0][0] for read in READERS) for name in WRITTEN}


def test_each_pair_does_what_its_conventions_say() -> None:
    """The table worked out by hand: who reads what, and who reads it the other way round."""
    assert (tuple(WRITTEN), tuple(READ_BY)) == (RENDERINGS, READERS)
    assert outcomes(CAUSAL) == {
        "ones": ("right", "refused", "wrong", "wrong", "wrong"),
        "keep": ("right", "inverted", "wrong", "right", "inverted"),
        "blocked": ("inverted", "right", "wrong", "inverted", "right"),
        "infinite": ("inverted", "refused", "right", "right", "right"),
        "billion": ("inverted", "refused", "right", "right", "right"),
    }
    found = pairs(SCORES, CAUSAL)
    counts = [found.numbers[name] for name in ("count", "right", "silent", "loud")]
    assert counts == [25, 11, 11, 3]
    seen = outcomes(OPEN)
    assert seen["infinite"][READERS.index("added")] == "right"
    assert seen["ones"][READERS.index("added")] == "right"  # one is added to every score alike
    assert seen["blocked"][READERS.index("equals_zero")] == "wrong"  # all hidden: uniform
    assert seen["keep"][READERS.index("mha")] == "nan"
    # Row 0 puts all its weight on a blocked key, because of its score; row 1 does not.
    scores = torch.tensor([[0.0, 100.0, 0.0], [0.0] * 3, [0.0] * 3])
    assert (
        by_pair(pairs(scores, CAUSAL), WRITTEN, READ_BY)["ones", "added"].outcomes[0][0] == "wrong"
    )


def test_the_open_pair_has_the_weights_that_follow_from_its_code() -> None:
    found = pairs(SCORES, CAUSAL, "ones", "added")
    first = np.exp([0.0 + 1, 1, 2])  # row 0 may see key 0 alone
    np.testing.assert_allclose(found.ways[0].picture[0], first / first.sum(), rtol=1e-6)
    assert found.rows[2].values[0] == pytest.approx(1 - first[0] / first.sum(), rel=1e-5)
    # The last row of a causal mask blocks nothing, so inverted it blocks everything.
    with_infinity = pairs(SCORES, CAUSAL, "keep", "true_hides")
    assert with_infinity.opened == ("open", "weights")
    assert with_infinity.numbers["outcome"] == "cases.outcomes.inverted"
    assert with_infinity.numbers["lost"] == 1
    assert with_infinity.ways[0].picture[2].isnan().all()
    with_a_billion = pairs(SCORES, CAUSAL, "blocked", "equals_zero").ways[0].picture
    np.testing.assert_allclose(with_a_billion[2], 1 / 3)
    refused = pairs(SCORES, CAUSAL, "ones", "true_hides")
    assert refused.ways[0].picture is None
    assert refused.opened == ("open",)
    assert "bool" in refused.ways[0].error == refused.rows[1].error


def test_scores_of_any_head_go_through_torchs_own_functions(translator: LoadedModel, tiny) -> None:
    for loaded in (translator, tiny("biased", positions="alibi"), tiny("few", n_kv_heads=2)):
        traced = trace(loaded, "The cat sat on the mat.", pads=2)
        for site in traced.sites:
            own = traced.pattern(site.name)[1]
            for pair in (("keep", "sdpa"), ("blocked", "mha"), ("infinite", "mha")):
                found = notation(traced, site, 1, *pair)
                assert found.numbers["outcome"] == "cases.outcomes.right"
                np.testing.assert_allclose(found.pair.right, own, atol=1e-6)
                np.testing.assert_allclose(found.pair.wrong, own, atol=1e-5)
                np.testing.assert_array_equal(found.pair.hidden, ~traced.mask(site.name)[1])
            mixed_up = notation(traced, site, 1, "keep", "mha")
            assert mixed_up.numbers["outcome"] == "cases.outcomes.inverted"


# Fill values: which hide, leak, overflow or turn to NaN, in four types of number.
LOW_SCORES = np.array([[1.0, -1.0, 0.0], [0.5, 2.0, -0.5], [0.0, 1.0, 2.0]], np.float32)
KEEP = np.tril(np.ones((3, 3), bool))


def of_fills(*args, keep=KEEP, scores=LOW_SCORES) -> dict[tuple[str, str], ResultRow]:
    return by_pair(filled(scores, keep, *args), FILLS, DTYPES)


def kinds(found: dict[tuple[str, str], ResultRow], fill: str, at: int) -> set[str]:
    """The outcomes of a fill in all types: 0 in rows with open keys, 1 in a fully masked one."""
    return {found[fill, dtype].outcomes[at][0] for dtype in DTYPES}


@pytest.mark.parametrize(
    ("way", "lowered", "fill", "is_open", "empty"),
    [
        ("filled", 0.0, "infinity", {"blocks"}, {"nan"}),
        ("filled", 0.0, "lowest", {"blocks"}, {"uniform"}),
        ("filled", 0.0, "ten_thousand", {"blocks"}, {"uniform"}),
        # Scores of about -12000 against -1e4: e^2000 to 1 for the blocked keys.
        ("filled", 12_000.0, "ten_thousand", {"leaks"}, {"uniform"}),
        # Between 8192 and 16384, float16 has steps of 8: scores that differ by 2 become equal.
        ("filled", 12_000.0, "lowest", {"blocks", "imprecise"}, {"uniform"}),
        # Twice the lowest number is minus infinity.
        ("twice", 0.0, "lowest", {"blocks"}, {"nan"}),
    ],
)
def test_what_a_fill_does(way, lowered, fill, is_open, empty) -> None:
    found = of_fills(0, way, lowered)
    assert kinds(found, fill, 0) == is_open
    assert kinds(found, fill, 1) == empty


def test_fills_are_stored_as_the_types_can_and_leak_by_the_formula() -> None:
    """One visible score equal to the fill, and b blocked keys: they get b / (b + 1)."""
    keep, scores = np.array([[True, False, False]]), np.zeros((1, 3), np.float32)
    row = of_fills(0, "filled", 10_000, keep=keep, scores=scores)["ten_thousand", "float32"]
    assert row.outcomes[0] == ("leaks", pytest.approx(2 / 3))
    found = of_fills(0, "filled", 12_000.0)
    assert found["infinity", "float64"].values[2] == 0
    assert found["infinity", "float16"].values[2] > 0.2
    # Scores below the lowest float16 are minus infinity, like the fill.
    nans = filled(LOW_SCORES - 7000, KEEP, 0, "filled", 60_000.0)
    opens = [row.outcomes[0][0] for row in nans.rows[: -len(DTYPES)]]
    assert opens.count("nan") > 0
    assert nans.numbers["leaks"] == opens.count("nan") + opens.count("leaks")
    # Added to an empty row, a fill cancels.
    found = of_fills(0, "added")
    weights = np.exp(LOW_SCORES[0].astype(np.float64))
    exact = found["ten_thousand", "float64"].outcomes[1]
    assert exact == ("unmasked", pytest.approx((weights / weights.sum()).max(), abs=1e-6))
    assert found["lowest", "float32"].outcomes[1][0] == "uniform"  # the scores are lost in it
    with pytest.raises(IndexError):
        filled(LOW_SCORES, KEEP, 3)
    found = {pair: row.values[0] for pair, row in of_fills(0).items()}
    assert found["ten_thousand", "bfloat16"] == -9984  # 8 bits: steps of 64
    assert found["billion", "bfloat16"] == -998244352
    assert found["lowest", "float16"] == -65504
    assert found["infinity", "float16"] == -math.inf
    assert [pair for pair, value in found.items() if math.isnan(value)] == [("billion", "float16")]
    assert of_fills(0)["billion", "float16"].outcomes[1][0] == "refused"  # float16 ends at 65504


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("lowered", [0.0, 1e3, 6e4])
def test_the_rule_of_this_library_is_right_everywhere(way: str, lowered: float) -> None:
    found = of_fills(2, way, lowered)
    assert kinds(found, "zeroed", 0) <= {"blocks", "imprecise"}
    assert kinds(found, "zeroed", 1) == {"zero"}
    assert {found["zeroed", dtype].values[1] for dtype in DTYPES} == {0}


# Sentences in one padded batch: right masks keep them apart, wrong ones do not.
TEXTS = ("I love you.", "A dog ran after the cat, and the cat ran away.", "The cat sat.")
SPLIT = (TEXTS[0], TEXTS[1:])


def test_under_right_masks_nobody_notices_the_others(translator, writer, tiny) -> None:
    headless = tiny("headless", family="encoder-only", lm_head=False)
    for loaded in (translator, writer, headless):
        found = batch(loaded, *SPLIT)
        assert [member.text for member in found] == list(TEXTS)
        assert max(member.weight_moved for member in found) < 1e-5
        if loaded is not translator:
            assert all(member.src_str_tokens == () and member.alone == "" for member in found)
            assert found[1].tgt_pads == 0
            continue
        assert len({(len(each.src_str_tokens), len(each.tgt_str_tokens)) for each in found}) == 1
        assert found[1].src_pads == 0
        assert min(found[0].src_pads, found[2].src_pads) > 0
        for member in found:
            assert member.alone == member.together == trace(loaded, member.text).output
    with pytest.raises(InputProblem):
        batch(writer, "I love you.", ["   "])


def test_visible_padding_moves_the_short_ones_and_spares_the_longest(translator) -> None:
    edits = (MaskSwitch("pad_keys", False),)
    first, longest, last = batch(translator, *SPLIT, edits)
    # The longest source is seen to have no padding: only its target may have some, which the
    # causal mask hides.
    assert longest.weight_moved < 1e-5
    assert min(first.weight_moved, last.weight_moved) > 1e-2
    # A trace with as many PADs reads the same source row, so it shows the same change there.
    alone = trace(translator, first.text, edits=edits)
    padded = trace(translator, first.text, edits=edits, pads=first.src_pads)
    moved = []
    for site in alone.sites_of("encoder"):
        n = alone.pattern(site.name).shape[-1]
        change = alone.pattern(site.name) - padded.pattern(site.name)[:, :n, :n]
        moved.append(float(abs(change).max()))
    assert first.weight_moved >= max(moved) - 1e-5 > 1e-2


OFF = (MaskSwitch("causal", False),)


def test_which_share_of_weight_is_ahead() -> None:
    twin = open_model("twin-right")
    run = trace(twin, "I love you.", pads=2)
    found = ahead(run, "decoder")
    assert found.share == found.most == 0
    alone = replace(run, tgt_valid=np.arange(len(run.tgt_valid)) < 1)
    assert ahead(alone, "decoder") is None
    run = trace(twin, "I love you.", edits=OFF, pads=2)
    found = ahead(run, "decoder")
    real = int(run.tgt_valid.sum())
    by_hand = {}
    for site in run.sites_of("decoder"):
        for head, pattern in enumerate(run.pattern(site.name)):
            rows = [pattern[i, i + 1 : real].sum() for i in range(real - 1)]
            by_hand[site.layer, head] = float(np.mean(rows))
    assert found.share == pytest.approx(np.mean(list(by_hand.values())), abs=1e-6)
    assert found.most == pytest.approx(max(by_hand.values()), abs=1e-6)
    assert (found.layer, found.head) == max(by_hand, key=by_hand.__getitem__)


TEXT, TARGET = "The cat ran.", "猫跑开了。"


@pytest.mark.parametrize("kind", ["translator", "writer"])
@pytest.mark.parametrize("edits", [(), OFF])
def test_the_losses_are_those_of_a_trace_with_the_edits(kind, edits, request) -> None:
    loaded: LoadedModel = request.getfixturevalue(kind)
    traced, edited = (trace(loaded, TEXT, TARGET, some, pads=2) for some in ((), edits))
    found = forced(loaded, traced, edits)
    wide = edited.logits.astype(np.float64)
    logprobs = wide - np.log(np.exp(wide).sum(-1, keepdims=True))
    ids = traced.tgt_tokens[1 : int(traced.tgt_valid.sum())]
    ids += (loaded.marks.end,) * (kind == "translator")
    expected = [logprobs[row, token] for row, token in enumerate(ids)]
    np.testing.assert_allclose(found.logprobs_after, expected, atol=1e-5)
    assert len(found.tokens) == len(found.logprobs_after) == len(found.after)
    assert found.loss_before == pytest.approx(-found.logprobs_before.mean())
    assert np.allclose(found.logprobs_after, found.logprobs_before, atol=1e-3) == (not edits)


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


SHORT, GIVEN = "The cat ran.", "猫跑"
SELF, CROSS = "decoder.blocks.0.attn", "decoder.blocks.1.cross_attn"
ENCODER, LATER = "encoder.blocks.0.attn", "decoder.blocks.1.attn"


def letters(names: np.ndarray) -> str:
    """One letter for what blocks each cell, "q" for a hidden PAD query; rows apart."""
    of = {"": "·", "pad_query": "q"}
    return " ".join("".join(of.get(name, name[:1]) for name in row) for row in names.tolist())


PAINTED = CellEdit(SELF, 1, 1, 0, False), CellEdit(SELF, 1, 0, 1, True)
EVERYWHERE = (CellEdit("decoder", None, 1, 0, False),)
OPEN_CAUSAL = MaskSwitch("causal", False)
SEEN = MaskSwitch("pad_keys", False), MaskSwitch("pad_queries", True)
USUAL, PADS = "·cccp ··ccp ···cp ····p ····p", "·····p ·····p ·····p ·····p ·····p"


@pytest.mark.parametrize(
    ("edits", "site", "head", "rows"),
    [
        ((), SELF, 0, USUAL),
        ((), CROSS, 0, PADS),
        (PAINTED, SELF, 0, USUAL),
        (PAINTED, SELF, 1, "··ccp e·ccp ···cp ····p ····p"),
        (PAINTED, LATER, 1, USUAL),
        (EVERYWHERE, SELF, 0, "·cccp e·ccp ···cp ····p ····p"),
        (EVERYWHERE, LATER, 1, "·cccp e·ccp ···cp ····p ····p"),
        (EVERYWHERE, CROSS, 0, PADS),
        ((OPEN_CAUSAL,), SELF, 0, "····p ····p ····p ····p ····p"),
        ((OPEN_CAUSAL, MaskSize("block", 2)), SELF, 0, "··bbp ··bbp bb··p bb··p bbbbp"),
        ((MaskSwitch("cross_pad", False),), CROSS, 0, "······ ······ ······ ······ ······"),
        (SEEN, ENCODER, 0, "······ ······ ······ ······ ······ qqqqqq"),
        ((MaskSwitch("pad_queries", True),), SELF, 0, "·cccp ··ccp ···cp ····p qqqqp"),
        ((MaskSwitch("pad_queries", True),), CROSS, 0, "·····p ·····p ·····p ·····p qqqqqp"),
        ((MaskSize("window", 2),), SELF, 0, "·cccp ··ccp w··cp ww··p www·p"),
        ((MaskSize("prefix", 2),), SELF, 0, "··ccp ··ccp ···cp ····p ····p"),
        ((MaskSize("block", 2),), SELF, 0, "·cccp ··ccp bb·cp bb··p bbbbp"),
        ((MaskSize("window", 1),), ENCODER, 0, "·wwwwp w·wwwp ww·wwp www·wp wwww·p wwwwwp"),
        ((MaskSize("window", 1), MaskSize("block", 1)), CROSS, 0, PADS),
    ],
)
def test_what_blocks_each_cell_by_hand(translator, edits, site, head, rows):
    """The start mark and three tokens of the target, five of the source, and a PAD in each."""
    traced = trace(translator, "I love you.", "猫坐在", edits, pads=1)
    assert letters(blocked_by(traced, site)[head]) == rows
    for each in traced.sites:
        why, names = reasons(traced, each.name), blocked_by(traced, each.name)
        np.testing.assert_array_equal(why.blocked, ~traced.mask(each.name))
        np.testing.assert_array_equal(names != "", why.blocked)
        assert set(np.unique(names)) <= set(BLOCKERS) - {"other"}
        assert not traced.pattern(each.name)[why.blocked].any()


def test_a_window_of_the_models_own_and_one_of_the_users(tiny):
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


def test_a_mask_that_no_rule_explains_is_not_explained_away(translator):
    traced = trace(translator, SHORT, GIVEN)
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


def test_cells_painted_open_and_rows_painted_empty_are_found(translator):
    edits = tuple(CellEdit(SELF, 2, 1, key, False) for key in range(2))
    traced = trace(translator, SHORT, GIVEN, (*edits, CellEdit(SELF, 1, 0, 1, True)), pads=2)
    assert np.argwhere(reasons(traced, SELF).opened).tolist() == [[1, 0, 1]]
    assert np.argwhere(empty_rows(traced, SELF)).tolist() == [[2, 1]]
    assert not traced.pattern(SELF)[2, 1].any()
    # PAD queries that are hidden on purpose are not what a visitor emptied.
    hidden = trace(translator, SHORT, GIVEN, (MaskSwitch("pad_queries", True),), pads=2)
    assert not empty_rows(hidden, SELF).any()
