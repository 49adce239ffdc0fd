import pickle

import pytest
import torch
from hypothesis import given, strategies as st

from explorer.problems import PROBLEMS, InputProblem
from explorer.runs.edits import (
    MOST_EDITS,
    SIZE_PARTS,
    USUAL_MASKS,
    CellEdit,
    HeadOff,
    KeyHidden,
    MaskSize,
    MaskSwitch,
    format_edits,
    paint,
    parse_edits,
)
from explorer.runs.masks import block_mask, prefix_mask
from models.masks import causal_mask, window_mask

sites = st.from_regex(r"(encoder\.|decoder\.)?blocks\.[0-9]{1,2}\.(cross_)?attn", fullmatch=True)
small = st.integers(0, 9999)
edits = st.lists(
    st.one_of(
        st.builds(MaskSwitch, st.sampled_from(sorted(USUAL_MASKS)), st.booleans()),
        st.builds(MaskSize, st.sampled_from(SIZE_PARTS), st.integers(1, 9999)),
        st.builds(HeadOff, sites, small),
        st.builds(KeyHidden, st.sampled_from(["src", "tgt"]), small),
        st.builds(CellEdit, sites, st.none() | small, small, small, st.booleans()),
    ),
    max_size=6,
).map(tuple)


@given(edits)
def test_edits_come_back_from_a_link(these) -> None:
    written = format_edits(these)
    assert parse_edits(written) == these
    assert all(char.isascii() and (char.isalnum() or char in "-._~") for char in written)


@given(st.text(max_size=40))
def test_any_text_is_edits_or_a_problem(text) -> None:
    problem = None
    try:
        parsed = parse_edits(text)
    except InputProblem as caught:
        problem = caught.key
    assert problem == "bad_edit" or parse_edits(format_edits(parsed)) == parsed


@pytest.mark.parametrize(
    "text",
    [
        "causal",
        "causal-of",
        "casual-off",
        "head-decoder.blocks.0.attn",
        "head-decoder.blocks.0.attn--1",
        "head-x-١",  # a digit, but not one of a link
        "cell-x-all-1-2",
        "cell-x-all-1-2-ajar",
        "cell-x-all-1-12345-open",
        "causal-off~",
        "window-0",
        "window-on",
        "prefix--1",
        "cells-decoder-all-open",
        "cells-decoder-all-open-1.2.3",
        "cells-decoder-all-open-1.2-",
        "cells-decoder-all-ajar-1.2",
    ],
)
def test_a_bad_edit_is_named(text) -> None:
    with pytest.raises(InputProblem) as caught:
        parse_edits(text)
    assert caught.value.key == "bad_edit"
    assert caught.value.values["edit"] in text


def test_the_link_text_is_short_and_readable() -> None:
    these = (MaskSwitch("causal", False), CellEdit("decoder.blocks.0.attn", None, 2, 3, True))
    assert format_edits(these) == "causal-off~cells-decoder.blocks.0.attn-all-open-2.3"
    assert format_edits(()) == ""
    assert parse_edits("") == ()


def test_a_problem_says_just_its_values_and_survives_pickling() -> None:
    problem = pickle.loads(pickle.dumps(InputProblem("too_long_chars", limit=3, length=5)))
    assert (problem.key, problem.values) == ("too_long_chars", {"limit": 3, "length": 5})
    with pytest.raises(KeyError, match="too_long_chars"):
        InputProblem("too_long_chars", limit=3)
    with pytest.raises(KeyError):
        InputProblem("no such key")
    assert "empty" in PROBLEMS


def test_cells_painted_alike_share_an_entry() -> None:
    painted = [CellEdit("decoder", None, 1, key, False) for key in (0, 1)]
    painted += [CellEdit("decoder", 2, 1, 0, True)]
    text = "causal-off~cells-decoder-all-shut-1.0-1.1~cells-decoder-2-open-1.0"
    assert format_edits((MaskSwitch("causal", False), *painted)) == text
    assert parse_edits("cell-decoder-all-1-0-shut") == (painted[0],)  # as old links say it


def test_a_link_cannot_hold_endless_cells() -> None:
    many = "cells-decoder-all-open" + "-1.2" * (MOST_EDITS + 1)
    with pytest.raises(InputProblem):
        parse_edits(many)


def test_a_stroke_and_its_opposite_leave_nothing_behind() -> None:
    before = (MaskSwitch("causal", False),)
    shut = paint(before, "decoder", None, [(1, 0), (1, 1)], open=False)
    assert shut == (*before, *(CellEdit("decoder", None, 1, key, False) for key in (0, 1)))
    assert paint(shut, "decoder", None, [(1, 1), (1, 0)], open=True) == before
    # Another scope is painted over, not taken back.
    assert len(paint(shut, "decoder", 2, [(1, 0)], open=True)) == 4


def drawn(*rows):
    """A mask from a drawing: x = may attend."""
    return torch.tensor([[cell == "x" for cell in row] for row in rows])


def same(mask, expected):
    assert mask.dtype == torch.bool
    assert mask.shape == expected.shape
    assert torch.equal(mask, expected)


def test_prefix_mask():
    same(prefix_mask(4, 2), drawn("xx..", "xx..", "xxx.", "xxxx"))
    same(prefix_mask(3, 0), causal_mask(3))


def test_block_mask_keeps_packed_texts_apart():
    mask = block_mask(torch.tensor([[0, 0, 1, 1, 1], [7, 7, 7, 7, 3]]))
    assert mask.shape == (2, 1, 5, 5)
    same(mask[0, 0], drawn("xx...", "xx...", "..xxx", "..xxx", "..xxx"))
    same(mask[1, 0], drawn("xxxx.", "xxxx.", "xxxx.", "xxxx.", "....x"))


def test_window_mask_looks_both_ways():
    same(window_mask(4, window=2), drawn("xx..", "xxx.", ".xxx", "..xx"))
    same(window_mask(2, 5, offset=3, window=2), drawn("..xxx", "...xx"))
    same(window_mask(3, window=1), torch.eye(3, dtype=torch.bool))
    with pytest.raises(ValueError, match="window must be at least 1, not 0"):
        window_mask(3, window=0)
