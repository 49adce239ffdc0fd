"""Links out of weights, both directions made one, and their error rate: by hand."""

import numpy as np
import pytest

from explorer.analysis.alignment.links import (
    Known,
    diagonal,
    f1,
    final_and,
    grow_diag,
    moses,
    score,
    strongest,
    symmetrised,
)


def grid(text: str) -> np.ndarray:
    """Rows of target words, `x` at a link."""
    return np.array([[cell == "x" for cell in row] for row in text.split()])


def test_each_target_word_has_its_strongest_source_word() -> None:
    weights = np.array([[0.2, 0.5], [0.4, 0.4], [0.0, 0.0]])
    np.testing.assert_array_equal(strongest(weights), grid(".x x. .."))
    np.testing.assert_array_equal(strongest(weights, -2), grid(".x x. .."))
    np.testing.assert_array_equal(strongest(np.array([[0.2], [0.5]]), -2), grid(". x"))
    assert strongest(np.zeros((0, 3))).shape == (0, 3)


FORWARD, REVERSE = grid("x... ..x. .x.. ...."), grid("x... .... .x.. .xxx")


def test_methods_lie_between_intersection_and_union() -> None:
    both = [symmetrised(FORWARD, REVERSE, method) for method in ("intersection", "union")]
    np.testing.assert_array_equal(both[0], grid("x... .... .x.. ...."))
    np.testing.assert_array_equal(both[1], grid("x... ..x. .x.. .xxx"))
    np.testing.assert_array_equal(symmetrised(FORWARD, REVERSE, "forward"), FORWARD)
    np.testing.assert_array_equal(symmetrised(FORWARD, REVERSE, "reverse"), REVERSE)


def test_grow_diag_adds_neighbours_of_words_without_a_link() -> None:
    # In order, the neighbours of (2, 1): (3, 1) links word 3, and (1, 2), at a corner, word 1. Then
    # (3, 2) links nobody new, so that (3, 3), which would, has no neighbour.
    np.testing.assert_array_equal(grow_diag(FORWARD, REVERSE), grid("x... ..x. .x.. .x.."))
    far = grid("x... .... .... ....")
    np.testing.assert_array_equal(grow_diag(far, far | grid(".... .... .... ...x")), far)


def test_final_and_links_words_that_both_have_none() -> None:
    links, lone = grid("x.. ... ..."), grid(".x. ... ..x")
    np.testing.assert_array_equal(final_and(links, lone, links), grid("x.. ... ..x"))


def test_moses_counts_from_zero_with_the_source_first() -> None:
    assert moses(grid("x.. ..x .x.")) == "0-0 1-2 2-1"
    assert moses(grid("... ...")) == ""


def test_agreement_and_error_rate() -> None:
    found = [grid("x.. .x.")]
    assert f1(found, [grid("x.. ..x")]) == pytest.approx(2 * 1 / 4)
    known = Known(sure=grid("x.. ..."), possible=grid("x.. .x."))
    scored = score(found, [known])
    assert (scored.precision, scored.recall) == (1.0, 1.0)
    assert scored.error == pytest.approx(1 - (1 + 2) / (2 + 1))
    assert score([grid("..x x..")], [known]).error == 1.0
    drawn = Known(sure=grid("... ..."), possible=grid("x.. .x."))  # as the boxes of letters
    assert np.isnan(score(found, [drawn]).recall)
    np.testing.assert_array_equal(diagonal(2, 4), grid(".x.. ...x"))
