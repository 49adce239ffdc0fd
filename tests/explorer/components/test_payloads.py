"""What components send to the browser, byte by byte, and what they refuse."""

import re

import numpy as np
import pytest
from payloads import unpack

from explorer.components.heads_payload import further_step, pool, row_sums, step_of
from explorer.components.heads_view import pack_heads_view
from explorer.components.mount import FOLDER, index_of
from explorer.components.payload import BLOCKED, encode_weights, pack
from explorer.components.token_strip import pack_token_strip
from explorer.figures.matrix import Axis
from explorer.labels import SpecialToken
from explorer.text import family

HEADS, STRIP = (family(f"components.{name}", lang="en") for name in ("heads_view", "token_strip"))

QUERIES = ("<s>", "狗")
KEYS = ("the", "<script>", SpecialToken("</s>"))
PATTERN = np.array([[1.0, 0.0, 0.0], [0.25, 0.75, 0.0]], np.float32)
MASK = np.array([[True, True, False], [True, True, True]])


def test_payload_is_length_head_and_raw_bytes() -> None:
    data = pack({"word": "狗"}, cells=np.array([[1, 2], [3, 255]], np.uint8))
    length = int.from_bytes(data[:4], "little")
    assert data[4 : 4 + length].decode() == (
        '{"word": "狗", "arrays": {"cells": {"offset": 0, "shape": [2, 2]}}}'
    )
    assert data[4 + length :] == bytes([1, 2, 3, 255])


def test_weights_come_back_within_four_tenths_of_a_point():
    weights = np.linspace(0, 1, 10_001, dtype=np.float32)
    codes = encode_weights(weights)
    assert codes.max() < BLOCKED
    back = (codes / 254) ** 2
    assert np.abs(back - weights).max() < 0.004
    assert encode_weights(np.array([0.001]))[0] != encode_weights(np.array([0.002]))[0]


@pytest.mark.parametrize(
    ("weights", "mask", "message"),
    [
        (np.array([0.0, 1.5]), None, "weights run from 0 to 1.5, expected 0 to 1"),
        (np.array([np.nan]), None, "expected 0 to 1"),
        (PATTERN, MASK.T, r"mask has shape \(3, 2\), weights have \(2, 3\)"),
    ],
)
def test_weights_that_cannot_be_are_refused(weights, mask, message):
    with pytest.raises(ValueError, match=message):
        encode_weights(weights, mask)


def test_long_patterns_are_pooled_to_their_maxima():
    codes = np.array([[[10, 255, 255], [3, 200, 255], [0, 255, 7]]], np.uint8)
    np.testing.assert_array_equal(pool(codes, 2), [[[200, 255], [0, 7]]])
    tokens = Axis(tuple(map(str, range(130))))
    causal = np.tril(np.ones((130, 130), bool))
    patterns = np.broadcast_to(np.eye(130, dtype=np.float32), (1, 1, 130, 130))
    head, arrays = unpack(pack_heads_view(patterns, (tokens, tokens), mask=causal, words=HEADS))
    assert head["step"] == 3
    lower = np.tril_indices(44)
    assert arrays["cells"].shape == (1, len(lower[0]))  # those above are blocked
    sent = np.unpackbits(arrays["open"], count=44 * 44, bitorder="little").reshape(44, 44)
    np.testing.assert_array_equal(sent, np.tri(44))
    diagonal = lower[0] == lower[1]
    assert (arrays["cells"][0, diagonal] == 254).all()
    assert (arrays["cells"][0, ~diagonal] == 0).all()


def test_token_strip_sends_tokens_and_the_one_chosen() -> None:
    head, arrays = unpack(pack_token_strip(KEYS, stream="src", selected=0, words=STRIP))
    assert not arrays
    assert (head["stream"], head["selected"]) == ("src", 0)
    assert head["special"] == [False, False, True]
    with pytest.raises(ValueError, match="selected is 3, but there are 3 tokens"):
        pack_token_strip(KEYS, selected=3, words=STRIP)


@pytest.mark.parametrize(
    ("picked", "shape", "place"),
    [
        (None, (3,), None),
        (2, (3,), (2,)),
        ([1, 0], (2, 3), (1, 0)),
        ([2, 0], (2, 3), None),  # a click on what is no longer there
        (-1, (3,), None),
        ([1], (2, 3), None),
    ],
)
def test_only_places_that_exist_are_returned(picked, shape, place):
    assert index_of(picked, shape) == place


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.js")), ids=lambda file: file.name)
def test_scripts_never_make_html_of_text_and_fetch_nothing(file):
    text = file.read_text(encoding="utf-8")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text)
    assert not re.search(r"https?:|fetch\(|XMLHttpRequest|import\(", text)
    assert len(text.splitlines()) <= 250


def test_few_heads_keep_every_cell_of_a_short_text() -> None:
    assert step_of(64, 64) == 1
    assert step_of(128, 128) == 2  # by the screen, not by the budget
    assert further_step(np.zeros((24, 64, 64), np.uint8)) == 1


def test_the_sums_of_long_rows_are_those_of_the_weights():
    weights = np.full((2, 1000), 0.001, np.float32)
    np.testing.assert_allclose(row_sums(weights).view("<f8"), 1, atol=1e-6)
