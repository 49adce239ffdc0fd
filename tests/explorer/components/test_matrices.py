"""Heatmaps on canvas: what the browser is sent of each cell."""

import numpy as np
import pytest
from payloads import unpack
from streamlit.testing.v1 import AppTest

from explorer.components.matrices import Panel, pack_matrices
from explorer.figures.heatmap import change, weights
from explorer.labels import SpecialToken
from explorer.text import family

WORDS = family("components.matrices", lang="en")
HEATMAP = family("figures.heatmap", lang="en")
QUERIES, KEYS = ("a", "<b>"), ("the", "the", SpecialToken("</s>"))
PATTERN = np.array([[0.75, 0.25, 0.0], [0.0002, 0.0998, 0.9]], np.float32)
MASK = np.array([[True, True, False], [True, True, True]])
TITLES = {"query_title": "query · target", "key_title": "key · source", "query_stream": "tgt"}


def test_each_cell_has_its_colour_and_its_text() -> None:
    matrix = weights(PATTERN, MASK, QUERIES, KEYS, words=HEATMAP, selected=1, **TITLES)  # type: ignore[arg-type]
    head, arrays = unpack(pack_matrices([Panel("Layer 1", matrix, "file")], words=WORDS))
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
    assert head["words"] == WORDS


def test_a_change_is_coloured_around_its_middle_and_panels_keep_apart() -> None:
    one = weights(PATTERN, MASK, QUERIES, KEYS, words=HEATMAP, **TITLES)  # type: ignore[arg-type]
    more = PATTERN + np.array([[-0.5, 0.5, 0.0], [0.0, 0.0, 0.0]], np.float32)
    two = change(PATTERN, more, QUERIES, KEYS, mask_before=MASK, words=HEATMAP, **TITLES)  # type: ignore[arg-type]
    head, arrays = unpack(pack_matrices([Panel("a", one), Panel("b", two)], words=WORDS))
    assert [panel["palette"] for panel in head["panels"]] == ["attention", "diverging"]
    assert arrays["colours1"].tolist() == [[0, 254, 127], [127, 127, 127]]
    assert head["panels"][1]["ticks"] == [[0, "−50"], [0.5, "0"], [1, "+50"]]
    said = np.array(head["panels"][1]["texts"])[arrays["said1"].view("<u2")[..., 0]]
    assert said[0, 0] == "before 75.0 % → after 25.0 %\n−50.0 points"
    assert said[0, 2] == "before blocked → after 0.0 %\n+0.0 points"


def test_more_texts_than_a_byte_can_count_arrive() -> None:
    shares = np.linspace(0, 1, 1024, dtype=np.float32).reshape(32, 32)
    tokens = [str(place) for place in range(32)]
    matrix = weights(shares, None, tokens, tokens, words=HEATMAP, **TITLES)  # type: ignore[arg-type]
    head, arrays = unpack(pack_matrices([Panel("", matrix)], words=WORDS))
    said = arrays["said0"].view("<u2")[..., 0]
    assert len(head["panels"][0]["texts"]) > 256
    assert head["panels"][0]["texts"][said[31, 30]] == "99.9 %"


def test_words_that_are_missing_are_named() -> None:
    with pytest.raises(ValueError, match="words lack \\['hint'"):
        pack_matrices([], words={"query": "", "key": "", "blocked": ""})


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


def test_each_of_several_heatmaps_has_a_file_name_of_its_own() -> None:
    app = AppTest.from_function(drawn).run()
    assert not app.exception
    (shown,) = app.get("bidi_component")
    head, _ = unpack(shown.proto.bytes)
    assert [panel["file"] for panel in head["panels"]] == ["file-sides-1", "file-sides-2"]
