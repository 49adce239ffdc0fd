"""What a browser may send: any JSON at all, of which only what a picture holds is a click."""

from typing import Any

import pytest
import streamlit as st
from hypothesis import given, strategies as some

from explorer.components.film import Frame, read_scene, read_taken
from explorer.components.heads_payload import HeadAddresses, HeadsSelection, read_selection
from explorer.components.mask_matrix import Stroke, stroke_of
from explorer.components.mount import index_of, inside, whole
from explorer.ui import controls

numbers = some.integers() | some.integers(-2, 4) | some.floats() | some.sampled_from([1e300, 2.0])
anything = some.recursive(
    some.none() | some.booleans() | numbers | some.text(max_size=5),
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(max_size=5), inner),
    max_leaves=12,
)
FRAMES = tuple(Frame(("a", "b"), (0.5, 0.5), (0.5, 0.5), (0, 1), 0, False, "") for _ in range(3))


def record(*names: str) -> some.SearchStrategy[Any]:
    """A record with some of the names that a view sends, each with anything."""
    return some.fixed_dictionaries({}, optional=dict.fromkeys(names, anything)) | anything


@pytest.mark.parametrize(
    ("given", "number"),
    [
        (3, 3),
        (3.0, 3),
        (3.5, None),
        (True, None),
        ("3", None),
        (None, None),
        ([3], None),
        (float("nan"), None),
        (float("inf"), None),
    ],
)
def test_only_whole_numbers_are_numbers(given: object, number: int | None) -> None:
    assert whole(given) == number


@given(anything)
def test_an_index_is_inside_or_none(sent: Any) -> None:
    assert inside(sent, 3) in (None, 0, 1, 2)
    found = index_of(sent, (2, 3))
    assert found is None or (found[0] in range(2) and found[1] in range(3))


@given(record("cells", "open"))
def test_a_stroke_has_cells_of_the_matrix_only(sent: Any) -> None:
    found = stroke_of(sent, (2, 3))
    assert found is None or all(q in range(2) and k in range(3) for q, k in found.cells)


def test_a_stroke_has_no_more_cells_than_the_matrix() -> None:
    found = stroke_of({"cells": [0, 0] * 1_000_000, "open": True}, (2, 3))
    assert found == Stroke(((0, 0),) * 6, True)


@given(record("step", "layer", "head", "turn"))
def test_a_scene_is_one_of_the_film(sent: Any) -> None:
    found = read_scene(sent, 3, 2, 4)
    assert found is None or (
        found.step in range(3)
        and found.layer in (None, *range(2))
        and found.head in (None, *range(4))
    )


@given(anything)
def test_what_is_taken_is_a_candidate(sent: Any) -> None:
    found = read_taken(sent, FRAMES)
    assert found is None or (found[0] in range(3) and found[1] in range(2))


@given(record("opened", "pinned", "query", "key", "scale", "shared", "by_measure"))
def test_a_selection_is_of_heads_that_exist(sent: Any) -> None:
    heads = HeadAddresses(2, 4, 1)
    found = read_selection(sent, heads, 2, 3) or HeadsSelection()
    assert all(heads.index(address) is not None for address in found.shown)
    assert found.query in (None, 0, 1)
    assert found.key in (None, 0, 1, 2)


@given(anything | some.lists(record("point_index", "customdata"), min_size=1, max_size=2))
def test_a_point_of_a_chart_exists(sent: Any) -> None:
    st.session_state["chart"] = type("State", (), {"selection": type("", (), {"points": sent})})
    assert controls.clicked_point("chart", 3) in (None, 0, 1, 2)


@pytest.mark.parametrize(
    ("point", "index"),
    [
        ({"point_index": 1}, 1),
        ({"point_index": 1, "customdata": "<b>hover</b>"}, 1),
        ({"point_index": 1, "customdata": ["<b>hover</b>"]}, 1),
        ({"point_index": 0, "customdata": [2, "the third of all traces"]}, 2),
        ({"point_index": 0, "customdata": [3, "too many"]}, None),
    ],
)
def test_a_point_of_several_traces_is_told_by_its_own_number(point, index) -> None:
    st.session_state["chart"] = type("State", (), {"selection": type("", (), {"points": [point]})})
    assert controls.clicked_point("chart", 3) == index
