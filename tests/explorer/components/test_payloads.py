"""What components send to the browser, byte by byte, and what they refuse."""

import re

import numpy as np
import pytest
from payloads import unpack
from streamlit.testing.v1 import AppTest

from explorer.components.heads_payload import further_step, pool, row_sums, step_of
from explorer.components.heads_view import pack_heads_view
from explorer.components.mask_matrix import Stroke, pack_mask_matrix, stroke_of
from explorer.components.matrices import Panel, pack_matrices
from explorer.components.mount import FOLDER, index_of
from explorer.components.payload import BLOCKED, encode_weights, pack
from explorer.components.token_strip import pack_token_strip
from explorer.figures.heatmap import change, weights
from explorer.labels import SpecialToken
from explorer.text import family

HEADS, MASKS, STRIP = (
    family(f"components.{name}", lang="en") for name in ("heads_view", "mask_matrix", "token_strip")
)
TITLES = {"query_title": "query", "key_title": "key"}

QUERIES = ("<s>", "狗")
KEYS = ("the", "<script>", SpecialToken("</s>"))
PATTERN = np.array([[1.0, 0.0, 0.0], [0.25, 0.75, 0.0]], np.float32)
MASK = np.array([[True, True, False], [True, True, True]])


MATRICES = family("components.matrices", lang="en")
HEATMAP = family("figures.heatmap", lang="en")
ROWS_OF, COLUMNS_OF = ("a", "<b>"), ("the", "the", SpecialToken("</s>"))
TWO_ROWS = np.array([[0.75, 0.25, 0.0], [0.0002, 0.0998, 0.9]], np.float32)
OPEN = np.array([[True, True, False], [True, True, True]])
SIDES = {"query_title": "query · target", "key_title": "key · source", "query_stream": "tgt"}


def test_payload_is_length_head_and_raw_bytes():
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
    tokens = tuple(map(str, range(130)))
    causal = np.tril(np.ones((130, 130), bool))
    patterns = np.broadcast_to(np.eye(130, dtype=np.float32), (1, 1, 130, 130))
    head, arrays = unpack(
        pack_heads_view(
            patterns, query_tokens=tokens, key_tokens=tokens, mask=causal, words=HEADS, **TITLES
        )
    )
    assert head["step"] == 3
    lower = np.tril_indices(44)
    assert arrays["cells"].shape == (1, len(lower[0]))  # those above are blocked
    sent = np.unpackbits(arrays["open"], count=44 * 44, bitorder="little").reshape(44, 44)
    np.testing.assert_array_equal(sent, np.tri(44))
    diagonal = lower[0] == lower[1]
    assert (arrays["cells"][0, diagonal] == 254).all()
    assert (arrays["cells"][0, ~diagonal] == 0).all()


def test_mask_matrix_sends_the_rule_of_each_cell():
    head, arrays = unpack(
        pack_mask_matrix(
            MASK,
            np.array([[0, 0, 2], [0, 0, 0]]),
            title="Decoder, layer 1",
            rules=("causal", "padding"),
            query_tokens=QUERIES,
            key_tokens=KEYS,
            query_title="target · query",
            key_title="key",
            words=MASKS,
            query_stream="tgt",
            selected=(0, 2),
        )
    )
    np.testing.assert_array_equal(arrays["cells"], [[0, 0, 2], [0, 0, 0]])
    assert head["title"] == "Decoder, layer 1"
    assert head["rules"] == ["causal", "padding"]
    assert head["selected"] == [0, 2]
    assert (head["queries"]["title"], head["queries"]["stream"]) == ("target · query", "tgt")


@pytest.mark.parametrize(
    ("codes", "rules", "message"),
    [
        (
            [[0, 0, 0], [0, 0, 0]],
            ("a",),
            "1 cells contradict the mask, the first is query 0, key 2",
        ),
        ([[0, 0, 2], [0, 0, 0]], ("a",), "runs from 0 to 2, but there are 1 rules"),
        ([[0, 0, 1], [0, 0, 0]], tuple("abcdefg"), "7 rules, at most 6"),
        ([[0, 0, 1]], ("a",), r"blocked_by has shape \(1, 3\), mask has \(2, 3\)"),
    ],
)
def test_mask_matrix_refuses_contradictions(codes, rules, message):
    with pytest.raises(ValueError, match=message):
        pack_mask_matrix(
            MASK,
            np.array(codes),
            title="mask",
            rules=rules,
            query_tokens=QUERIES,
            key_tokens=KEYS,
            words=MASKS,
            **TITLES,
        )


def test_token_strip_sends_tokens_and_the_one_chosen():
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


def test_a_stroke_keeps_to_the_matrix():
    painted = {"cells": [0, 1, 2, 2, 9, 0, -1, 0], "open": True}
    assert stroke_of(painted, (3, 3)) == Stroke(((0, 1), (2, 2)), True)
    assert stroke_of({"cells": [9, 9], "open": False}, (3, 3)) is None
    assert stroke_of(None, (3, 3)) is None


def test_few_heads_keep_every_cell_of_a_short_text():
    assert step_of(64, 64) == 1
    assert step_of(128, 128) == 2  # by the screen, not by the budget
    assert further_step(np.zeros((24, 64, 64), np.uint8)) == 1


def test_the_sums_of_long_rows_are_those_of_the_weights():
    weights = np.full((2, 1000), 0.001, np.float32)
    np.testing.assert_allclose(row_sums(weights).view("<f8"), 1, atol=1e-6)


def test_each_cell_has_its_colour_and_its_text():
    matrix = weights(TWO_ROWS, OPEN, ROWS_OF, COLUMNS_OF, words=HEATMAP, selected=1, **SIDES)  # type: ignore[arg-type]
    head, arrays = unpack(pack_matrices([Panel("Layer 1", matrix, "file")], words=MATRICES))
    (panel,) = head["panels"]
    # 254 steps from 0 to 1: 0.75 · 254 = 190.5; what is blocked is no small weight.
    assert arrays["colours0"].tolist() == [[191, 64, 255], [0, 25, 229]]
    texts = np.array(panel["texts"])[arrays["said0"].view("<u2")[..., 0]]
    assert texts.tolist() == [["75.0 %", "25.0 %", "blocked"], ["< 0.1 %", "10.0 %", "90.0 %"]]
    assert panel["ticks"] == [[0, "0 %"], [0.5, "50 %"], [1, "100 %"]]
    assert (panel["title"], panel["file"], panel["selected"]) == ("Layer 1", "file", 1)
    assert panel["queries"] == {
        "tokens": ["a", "<b>"],
        "special": [False, False],
        "title": "query · target",
        "stream": "tgt",
    }
    assert panel["keys"]["special"] == [False, False, True]
    assert head["words"] == MATRICES


def test_a_change_is_coloured_around_its_middle_and_panels_keep_apart():
    one = weights(TWO_ROWS, OPEN, ROWS_OF, COLUMNS_OF, words=HEATMAP, **SIDES)  # type: ignore[arg-type]
    more = TWO_ROWS + np.array([[-0.5, 0.5, 0.0], [0.0, 0.0, 0.0]], np.float32)
    two = change(TWO_ROWS, more, ROWS_OF, COLUMNS_OF, mask_before=OPEN, words=HEATMAP, **SIDES)  # type: ignore[arg-type]
    head, arrays = unpack(pack_matrices([Panel("a", one), Panel("b", two)], words=MATRICES))
    assert [panel["palette"] for panel in head["panels"]] == ["attention", "diverging"]
    assert arrays["colours1"].tolist() == [[0, 254, 127], [127, 127, 127]]
    assert head["panels"][1]["ticks"] == [[0, "−50"], [0.5, "0"], [1, "+50"]]
    said = np.array(head["panels"][1]["texts"])[arrays["said1"].view("<u2")[..., 0]]
    assert said[0, 0] == "before 75.0 % → after 25.0 %\n−50.0 points"
    assert said[0, 2] == "before blocked → after 0.0 %\n+0.0 points"


def test_more_texts_than_a_byte_can_count_arrive():
    shares = np.linspace(0, 1, 1024, dtype=np.float32).reshape(32, 32)
    tokens = [str(place) for place in range(32)]
    matrix = weights(shares, None, tokens, tokens, words=HEATMAP, **SIDES)  # type: ignore[arg-type]
    head, arrays = unpack(pack_matrices([Panel("", matrix)], words=MATRICES))
    said = arrays["said0"].view("<u2")[..., 0]
    assert len(head["panels"][0]["texts"]) > 256
    assert head["panels"][0]["texts"][said[31, 30]] == "99.9 %"


def drawn() -> None:
    from types import SimpleNamespace

    import numpy as np

    from explorer.figures.heatmap import weights
    from explorer.text import family
    from explorer.ui import controls

    titles = {"query_title": "q", "key_title": "k"}
    words = {"words": family("figures.heatmap", lang="en")}
    matrix = weights(np.eye(2), None, "ab", "ab", **words, **titles)  # type: ignore[arg-type]
    view = SimpleNamespace(dark=False, words=lambda prefix: family(prefix, lang="en"))
    controls.heatmaps(view, [("one", matrix), ("two", matrix)], "page.sides", "file-sides")  # type: ignore[arg-type]


def test_each_of_several_heatmaps_has_a_file_name_of_its_own():
    app = AppTest.from_function(drawn).run()
    assert not app.exception
    (shown,) = app.get("bidi_component")
    head, _ = unpack(shown.proto.bytes)
    assert [panel["file"] for panel in head["panels"]] == ["file-sides-1", "file-sides-2"]
