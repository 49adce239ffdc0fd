"""Notations of masks: the same mask, five ways, and what each does in code that expects another."""

import math

import numpy as np
import pytest
import torch

from explorer.exhibits.masks.conventions import (
    READERS,
    RENDERINGS,
    WRITTEN,
    conventions,
    try_readers,
)
from explorer.library import LoadedModel
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
