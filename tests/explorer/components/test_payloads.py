"""What the film and the batch send to the browser, what they take back, and what they refuse."""

import re
from functools import partial
from typing import Any

import numpy as np
import pytest
import streamlit as st
from hypothesis import given, strategies as some
from payloads import unpack

from explorer.components import heads_payload as heads
from explorer.components.batch_rows import pack_batch_rows
from explorer.components.film import Scene, fine, pack_film, read_scene, read_taken
from explorer.components.heads_payload import HeadAddresses, HeadsSelection
from explorer.components.heads_view import pack_heads_view
from explorer.components.matrices import Stroke, stroke_of
from explorer.components.mount import index_of, inside, whole
from explorer.components.payload import BLOCKED, encode_weights, pack
from explorer.components.start import Picked, pick_of, signed
from explorer.components.token_strip import pack_token_strip
from explorer.figures.matrix import Axis
from explorer.labels import SpecialToken
from explorer.scripts import FOLDER
from explorer.text import family
from explorer.ui import controls

WORDS, BATCH, VIEW_WORDS, STRIP = (
    family(f"components.{name}", lang="en")
    for name in ("film", "batch_rows", "heads_view", "token_strip")
)

OWN = np.zeros((2, 3, 2, 2), np.float32)  # two layers, three heads, two steps
OWN[..., 0, 0] = 1
OWN[..., 1, :] = (0.25, 0.75)
CROSS = np.full((2, 3, 2, 4), 0.25, np.float32)
ROW = (SpecialToken("<s>"), "<script>", SpecialToken("</s>"))
SOURCE = ("a", "b", "c", "</s>")
KEYS = ("the", "<script>", SpecialToken("</s>"))
FRAMES: list[dict[str, Any]] = [
    {"tokens": ["x", "<script>"], "left": [0, 1], "kept": [False, True], "chosen": 1},
    {"tokens": ["</s>"], "left": [0.9], "kept": [True], "chosen": 0, "forced": True},
]

COUNTS = (((1,),), ((2, 3),))

numbers = some.integers() | some.integers(-2, 4) | some.floats() | some.sampled_from([1e300, 2.0])
anything = some.recursive(
    some.none() | some.booleans() | numbers | some.text(max_size=5),
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(max_size=5), inner),
    max_leaves=12,
)
THREE = ({"tokens": ["a", "b"]},) * 3


def weights(codes: np.ndarray) -> np.ndarray:
    """What the browser reads out of the two bytes of each weight."""
    return codes.reshape(-1, 2).copy().view("<u2").reshape(codes.shape[:-1]) / 65535


def test_all_steps_go_at_once():
    head, arrays = unpack(
        pack_film(FRAMES, ROW, OWN, CROSS, SOURCE, scene=Scene(1, 1, 2), turn=4, words=WORDS)
    )
    np.testing.assert_allclose(weights(arrays["own"]), OWN, atol=1e-5)
    np.testing.assert_allclose(weights(arrays["cross"]), CROSS, atol=1e-5)
    assert head["scene"] == {"step": 1, "layer": 1, "head": 2, "turn": 4}
    assert (head["layers"], head["heads"]) == (2, 3)
    assert head["row"]["tokens"] == list(ROW)
    assert head["row"]["special"] == [True, False, True]
    assert head["source"]["stream"] == "src"
    assert head["frames"] == FRAMES
    given = np.linspace(0, 1, 999, dtype=np.float32)
    assert np.abs(weights(fine(given)) - given).max() < 1e-5


def test_a_batch_says_which_labels_count():
    inputs = [["<s>", "<b>"], ["<s>", "<pad>"]]
    labels = [["<b>", "</s>"], ["</s>", "<pad>"]]
    counts = np.array([[True, True], [True, False]])
    losses = np.array([[0.5, 1.25], [2.0, 0.0]])
    batch = partial(pack_batch_rows, inputs, labels, counts, losses, padding="<pad>", words=BATCH)
    first, second = unpack(batch([["a"], ["b", "c"]]))[0]["rows"]
    assert (first["losses"], second["counts"]) == ([0.5, 1.25], [True, False])
    assert first["input"]["tokens"] == ["<s>", "<b>"]
    assert second["source"]["tokens"] == ["b", "c"]
    assert unpack(batch())[0]["rows"][0]["source"] is None


def test_what_comes_late_is_read_as_far_as_it_exists_and_filled_in_texts_have_places():
    sent = {"step": 1, "layer": 1, "head": None, "turn": 3}
    assert read_scene(sent, 2, 2, 3) == Scene(1, 1, None)
    assert read_scene(sent, 1, 1, 3) == Scene(0, None, None)
    assert read_scene(None, 2, 2, 3) is None
    assert read_taken([0, 1], FRAMES) == (0, 1)
    assert read_taken([1, 1], FRAMES) is None
    assert read_taken([2, 0], FRAMES) is None
    assert read_taken(None, FRAMES) is None
    found = stroke_of({"cells": [0, 0] * 1_000_000, "open": True}, (2, 3))
    assert found == Stroke(((0, 0),) * 6, True)
    whole, mask = ("the", "cat"), SpecialToken("<mask>")
    data = pack_film(FRAMES, (*whole, mask), OWN, places=[1, 0], words=WORDS)
    head, _ = unpack(data)
    assert head["places"] == [1, 0]
    assert head["row"]["tokens"] == ["the", "cat", "<mask>"]
    assert unpack(pack_film(FRAMES, ROW, OWN, words=WORDS))[0]["places"] is None


def test_weights_vectors_and_sums_travel_in_bytes():
    # 254 sqrt(1), blocked; 254 sqrt(.25), 254 sqrt(.75) = 219.97
    codes = encode_weights(np.array([[1.0, 0.0], [0.25, 0.75]]), np.array([[1, 0], [1, 1]], bool))
    assert codes.tolist() == [[254, 255], [127, 220]]
    assert signed(np.array([[-2.0, 0.0, 1.0, 2.0]])).tolist() == [[0, 127, 191, 254]]
    assert signed(np.zeros((1, 2))).tolist() == [[127, 127]]
    assert signed(np.array([[np.nan, np.inf, 1.0]])).tolist() == [[127, 127, 254]]
    data = pack({"word": "狗"}, cells=np.array([[1, 2], [3, 255]], np.uint8))
    length = int.from_bytes(data[:4], "little")
    assert data[4 : 4 + length].decode() == (
        '{"word":"狗","glosses":{"狗":"dog"},"arrays":{"cells":{"offset":0,"shape":[2,2]}}}'
    )
    assert data[4 + length :] == bytes([1, 2, 3, 255])
    weights = np.linspace(0, 1, 10_001, dtype=np.float32)
    codes = encode_weights(weights)
    assert codes.max() < BLOCKED
    back = (codes / 254) ** 2
    assert np.abs(back - weights).max() < 0.004
    assert encode_weights(np.array([0.001]))[0] != encode_weights(np.array([0.002]))[0]
    weights = np.full((2, 1000), 0.001, np.float32)
    np.testing.assert_allclose(heads.row_sums(weights).view("<f8"), 1, atol=1e-6)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (partial(fine, np.array([0.0, 1.5])), r"weights run from 0 to 1\.5, expected 0 to 1"),
        (partial(encode_weights, np.array([0.0, 1.5])), "weights run from 0 to 1.5, expected 0 to"),
        (partial(encode_weights, np.array([np.nan])), "expected 0 to 1"),
    ],
)
def test_what_cannot_be_or_disagrees_is_refused(made, message):
    with pytest.raises(ValueError, match=message):
        made()


@pytest.mark.parametrize(
    ("sent", "picked"),
    [
        ({"door": "waves"}, Picked(door="waves")),
        ({"door": ""}, Picked(door="")),
        ({"door": "cellar"}, Picked()),
        ({"mask": "causal"}, Picked(mask="causal")),
        ({"mask": "none of these"}, Picked()),
        ({"head": [1, 0, 1, 2]}, Picked(head=(1, 0, 1, 2))),
        ({"head": [1, 0, 1, 3]}, Picked()),  # of a model with more heads
        ({"head": [2, 0, 0, 0]}, Picked()),
        ({"head": [1, 0, True, 0]}, Picked()),
        ({"head": "1010"}, Picked()),
        ({"link": "heads?text=a"}, Picked(link="heads?text=a")),
        ({"link": 3}, Picked()),
        (["door", "waves"], Picked()),
        (None, Picked()),
    ],
)
def test_what_the_browser_sent_is_checked(sent, picked):
    assert pick_of(sent, COUNTS, ("trained", "causal")) == picked


SENT = (
    *("cells", "open", "step", "layer", "head", "turn", "opened", "pinned", "query", "key"),
    *("scale", "shared", "by_measure", "point_index", "customdata"),
)
"""All names that views send."""
records = some.fixed_dictionaries({}, optional=dict.fromkeys(SENT, anything))


def clicked(points: Any) -> int | None:
    """What a click that sends these points chooses, of three."""
    st.session_state["chart"] = type("State", (), {"selection": type("", (), {"points": points})})
    return controls.clicked_point("chart", 3)


@given(records | anything | some.lists(records, min_size=1, max_size=2))
def test_whatever_is_sent_only_what_exists_is_read(sent):
    assert inside(sent, 3) in (None, 0, 1, 2)
    assert index_of(sent, (2, 3)) in (None, *np.ndindex(2, 3))
    stroke = stroke_of(sent, (2, 3))
    assert stroke is None or set(stroke.cells) <= set(np.ndindex(2, 3))
    scene = read_scene(sent, 3, 2, 4)
    assert scene is None or scene.step in range(3)
    assert scene is None or scene.layer in (None, *range(2))
    assert scene is None or scene.head in (None, *range(4))
    assert read_taken(sent, THREE) in (None, *np.ndindex(3, 2))
    addresses = HeadAddresses(2, 4, 1)
    selection = heads.read_selection(sent, addresses, 2, 3) or HeadsSelection()
    assert all(addresses.index(address) is not None for address in selection.shown)
    assert selection.query in (None, 0, 1)
    assert selection.key in (None, 0, 1, 2)
    assert clicked(sent) in (None, 0, 1, 2)


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
def test_a_point_of_several_traces_is_told_by_its_own_number(point, index):
    assert clicked([point]) == index


def test_long_patterns_are_pooled_to_their_maxima_and_short_ones_are_not() -> None:
    codes = np.array([[[10, 255, 255], [3, 200, 255], [0, 255, 7]]], np.uint8)
    np.testing.assert_array_equal(heads.pool(codes, 2), [[[200, 255], [0, 7]]])
    tokens = Axis(tuple(map(str, range(130))))
    causal = np.tril(np.ones((130, 130), bool))
    patterns = np.broadcast_to(np.eye(130, dtype=np.float32), (1, 1, 130, 130))
    thumbnails, cells_of = heads.whole_grid(patterns, causal, whole=False)
    head, arrays = unpack(
        pack_heads_view(thumbnails, (tokens, tokens), cells_of=cells_of, words=VIEW_WORDS)
    )
    assert head["step"] == 3
    lower = np.tril_indices(44)
    assert arrays["cells"].shape == (1, len(lower[0]))  # those above are blocked
    sent = np.unpackbits(arrays["open"], count=44 * 44, bitorder="little").reshape(44, 44)
    np.testing.assert_array_equal(sent, np.tri(44))
    diagonal = lower[0] == lower[1]
    assert (arrays["cells"][0, diagonal] == 254).all()
    assert (arrays["cells"][0, ~diagonal] == 0).all()
    assert heads.step_of(64, 64) == 1
    assert heads.step_of(128, 128) == 2  # by the screen, not by the budget
    assert heads.further_step(np.zeros((24, 64, 64), np.uint8)) == 1


def test_token_strip_sends_the_one_chosen_and_only_whole_numbers_are_numbers() -> None:
    head, arrays = unpack(pack_token_strip(KEYS, stream="src", selected=0, words=STRIP))
    assert not arrays
    assert (head["stream"], head["selected"]) == ("src", 0)
    assert head["special"] == [False, False, True]
    assert whole(3) == whole(3.0) == 3
    assert index_of(2, (3,)) == index_of([2], (3,)) == (2,)
    others = (3.5, True, "3", None, [3], float("nan"), float("inf"))
    assert [each for each in others if whole(each) is not None] == []


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.js")), ids=lambda file: file.name)
def test_scripts_never_make_html_of_text_and_fetch_nothing(file):
    text = file.read_text(encoding="utf-8")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text)
    assert not re.search(r"https?:|fetch\(|XMLHttpRequest|import\(", text)
    assert len(text.splitlines()) <= 250
