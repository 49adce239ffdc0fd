"""What the linked view of heads sends, what it takes back, and what it refuses."""

from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import pytest
from payloads import unpack
from streamlit.testing.v1 import AppTest

from explorer.components import heads_payload as heads, heads_view as module
from explorer.components.heads_payload import HeadAddresses, HeadsSelection
from explorer.components.heads_view import pack_heads_view
from explorer.components.payload import BLOCKED, encode_weights
from explorer.figures.matrix import Axis
from explorer.figures.theme import show
from explorer.text import family

QUERIES = ("<s>", "<script>alert(1)</script>")
KEYS = ("the", '"><img src=x onerror=alert(1)>', "</s>")
MASK = np.array([[True, True, False], [True, True, True]])
PATTERNS = np.array(
    [[[[0.75, 0.25, 0.0], [0.2, 0.3, 0.5]], [[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]]]], np.float32
)  # one layer, two heads
WORDS = family("components.heads_view", lang="en")
TOKENS: dict[str, Any] = {"axes": (Axis(QUERIES, "query"), Axis(KEYS, "key")), "words": WORDS}


def packed(patterns: np.ndarray = PATTERNS, **more: Any) -> tuple[dict[str, Any], Any]:
    """The head and the arrays that are sent of these patterns."""
    alone = more.get("alone", False)
    thumbnails, cells_of = heads.whole_grid(patterns, more.pop("mask", np.True_), whole=alone)
    return unpack(pack_heads_view(thumbnails, cells_of=cells_of, **TOKENS | more))


def weights_of(arrays: dict[str, np.ndarray], place: int) -> np.ndarray:
    """The cells of the shown head at `place`, as the browser reads them."""
    return np.frombuffer(arrays["exact"][place].tobytes(), "<f2").reshape(2, 3)


def pictures(arrays: dict[str, np.ndarray], rows: int, columns: int) -> np.ndarray:
    """All thumbnails [head, row, column], as the browser reads them; the rest is blocked."""
    sent = np.unpackbits(arrays["open"], count=rows * columns, bitorder="little").astype(bool)
    found = np.full((len(arrays["cells"]), rows * columns), BLOCKED, np.uint8)
    found[:, sent] = arrays["cells"]
    return found.reshape(-1, rows, columns)


def written(weight: float) -> str:
    """A weight as `percent` of numbers.js writes it; toFixed rounds the exact double, half up."""
    if 0 < weight < 0.0005:
        return "< 0.1 %"
    digits = Decimal("0.1") if weight < 0.0995 else Decimal(1)
    return str(Decimal(100 * weight).quantize(digits, ROUND_HALF_UP))


def test_all_heads_go_small_and_only_the_shown_ones_exactly():
    chosen = HeadsSelection(opened=(0, 1))
    head, arrays = packed(mask=MASK, selection=chosen)
    np.testing.assert_array_equal(pictures(arrays, 2, 3), encode_weights(PATTERNS[0], MASK))
    assert arrays["cells"].shape == (2, 5)  # the cell that is blocked in both heads stays here
    assert arrays["exact"].shape == (1, 2, 3, 2)
    np.testing.assert_array_equal(weights_of(arrays, 0), PATTERNS[0, 1])
    np.testing.assert_allclose(arrays["sums"][0].view("<f8"), [[1], [1]], rtol=1e-6)
    np.testing.assert_array_equal(arrays["blocked"], [[[0, 0, 1], [0, 0, 0]]])
    assert (head["chosen"]["opened"], head["chosen"]["shown"]) == (1, [1])
    assert (head["labels"], head["columns"], head["step"]) == (["L1·H1", "L1·H2"], 2, 1)
    assert head["top"] == 1.0


def test_what_stands_alone_says_how_far_it_is_rounded_and_blocked_cells_count_nothing():
    weights = np.random.default_rng(0).dirichlet(np.full(200, 0.1), (1, 8, 200)).astype(np.float32)
    tokens = Axis([str(n) for n in range(200)])
    chosen = HeadsSelection(opened=(0, 1))
    head, arrays = packed(weights, axes=(tokens, tokens), selection=chosen, alone=True)
    assert "0.4 percentage points" in head["words"]["rounded"]
    assert np.abs((pictures(arrays, 200, 200) / 254) ** 2 - weights[0]).max() < 0.004
    np.testing.assert_allclose(head["sums"], 1, atol=1e-4)
    noisy = PATTERNS * 0.5
    noisy[0, :, 0, 2] = 0.9  # under the mask
    chosen = HeadsSelection(opened=(0, 0))
    head, arrays = packed(noisy, mask=MASK, selection=chosen)
    assert head["top"] == 0.5
    assert pictures(arrays, 2, 3)[0, 0, 2] == BLOCKED
    assert weights_of(arrays, 0)[0, 2] == 0
    np.testing.assert_allclose(arrays["sums"][0].view("<f8"), [[0.5], [0.5]], rtol=1e-6)
    assert head["chosen"]["summaries"] == ["<s> → the 38 %; <script>alert(1)</script> → </s> 25 %"]


def test_blocked_cells_have_reasons_which_share_one_list():
    asked = []

    def why(layer: int, head: int) -> list[list[str]]:
        asked.append((layer, head))
        return [["", "", "causal mask"], ["", "", ""]]

    chosen = HeadsSelection(opened=(0, 1))
    head, arrays = packed(mask=MASK, blocked_by=why, selection=chosen)
    assert asked == [(0, 1)]
    assert head["chosen"]["reasons"] == ["causal mask"]
    np.testing.assert_array_equal(arrays["blocked"], [[[0, 0, 2], [0, 0, 0]]])
    known = ["padding"]
    codes = heads.reasons(np.array([[True, True, True, False]]), [["", "b", "padding", "c"]], known)
    np.testing.assert_array_equal(codes, [[1, 3, 2, 0]])
    assert known == ["padding", "b"]


def test_pinned_heads_come_first_and_a_measure_sorts_all() -> None:
    chosen = HeadsSelection((0, 0), ((0, 1), (0, 0)), 1, 2, "log", shared=False, by_measure=True)
    assert chosen.shown == ((0, 1), (0, 0))
    head, arrays = packed(selection=chosen, turn=7, about_to_write=("the", ""))
    assert (head["chosen"]["shown"], head["chosen"]["turn"]) == ([1, 0], 7)
    assert head["queries"]["labels"] == ["<s> ⟶ the", QUERIES[1]]
    np.testing.assert_array_equal(weights_of(arrays, 0), PATTERNS[0, 1])
    sent = {"opened": [1, 0], "pinned": [[1, 1]], "query": None}  # of an average
    assert heads.read_selection(sent, HeadAddresses(1, 2, 1), 2, 3) == HeadsSelection((1, 0))
    sent = heads.measure_head(heads.Measure("mass", np.array([[0.5, np.nan, 1.0]]), percent=True))
    assert sent["texts"] == ["50 %", "–", "100 %"]
    assert sent["order"] == [2, 0, 1]
    assert sent["shares"] == [0.5, None, 1.0]
    negative = heads.measure_head(heads.Measure("change", np.array([[-1.0, 3.0]])))
    assert negative["shares"] == [0, 1]
    flat = heads.measure_head(heads.Measure("none", np.array([[np.nan, 0.0]])))
    assert (flat["shares"], flat["order"]) == ([None, 0], [1, 0])
    pattern, blocked = PATTERNS[0, 0], np.array([[False, False, True], [True, True, True]])
    assert (
        heads.summary(pattern, blocked, ("狗", show("\u202e")), KEYS)
        == "狗 → the 75 %; [U+202E] → –"
    )


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (None, None),
        ({"opened": [0, 1], "pinned": [], "query": 1}, HeadsSelection((0, 1), (), 1)),
        ({"pinned": [[0, 0], [0, 0]], "query": None}, HeadsSelection(None, ((0, 0),))),
        ({"opened": [1, 0], "pinned": [[5, 5], [0, 1]]}, HeadsSelection(None, ((0, 1),))),
        ({"opened": [0, -1], "pinned": [[0]], "query": -1}, HeadsSelection()),
        (
            {"scale": "rank", "shared": False, "by_measure": True},
            HeadsSelection(scale="rank", shared=False, by_measure=True),
        ),
        ({"scale": "cubic"}, HeadsSelection()),
        ({"query": 1, "key": 2}, HeadsSelection(query=1, key=2)),
        ({"query": 1, "key": 3}, HeadsSelection(query=1)),
        ({"query": None, "key": 2}, HeadsSelection()),
    ],
)
def test_only_what_exists_is_taken_back(sent, expected):
    assert heads.read_selection(sent, HeadAddresses(1, 2, 0), 2, 3) == expected


def clicked_page() -> None:
    import numpy as np
    import streamlit as st

    from explorer.components.heads_payload import whole_grid
    from explorer.components.heads_view import heads_view
    from explorer.components.mount import newest_turn
    from explorer.figures.matrix import Axis
    from explorer.text import family

    # What a click leaves behind, as the browser sends it: its choice, its count, what it holds.
    held = st.query_params.get("held", "")
    for turn, known in ((None, None), (3, 3), (None, 3), (4, 4)):
        assert newest_turn(f"other {held}", turn) == known
    locked = int(st.query_params["locked"]) if "locked" in st.query_params else None
    picked = {"opened": [0, 0], "pinned": [], "query": locked, "turn": 5, "held": held}
    st.session_state["heads"] = {"picked": picked}
    heads_view.__globals__["view"] = lambda name: lambda **sent: st.session_state.update(out=sent)
    thumbnails, cells_of = whole_grid(np.eye(2, dtype=np.float32)[None, None], np.True_)
    heads_view(
        thumbnails,
        (Axis(("a", "b")), Axis(("a", "b"))),
        key="heads",
        cells_of=cells_of,
        words=family("components.heads_view", lang="en"),
    )


def test_held_thumbnails_are_not_sent_again_and_another_pictures_row_is_not_locked(monkeypatch):
    monkeypatch.setattr(module, "view", module.view)
    app = AppTest.from_function(clicked_page).run()
    assert not app.exception
    first = app.session_state["out"]
    head, arrays = unpack(first["data"])
    assert arrays["cells"].shape == (1, 4)
    assert head["chosen"]["turn"] == 5
    app.query_params["held"] = head["small"]
    again = app.run().session_state["out"]
    assert not app.exception
    light, left = unpack(again["data"])
    assert left["cells"].size == 0
    np.testing.assert_array_equal(left["exact"], arrays["exact"])
    assert {**light, "arrays": None} == {**head, "arrays": None}
    app = AppTest.from_function(clicked_page)
    app.query_params["locked"] = "1"
    head, _ = unpack(app.run().session_state["out"]["data"])
    assert (head["chosen"]["opened"], head["chosen"]["query"]) == (0, None)
    app.query_params["held"] = head["small"]
    head, _ = unpack(app.run().session_state["out"]["data"])
    assert head["chosen"]["query"] == 1


def test_many_heads_fit_into_a_megabyte():
    codes = np.zeros((32 * 32, 64, 64), np.uint8)
    codes[:, 63, 0] = 200
    step = heads.further_step(codes)
    cells = heads.pool(codes, step)
    assert cells.nbytes <= heads.MAX_BYTES
    assert (step, cells.shape) == (3, (1024, 22, 22))  # 31 x 31 of step 2 are 1,048,576 bytes
    assert (cells[:, 21, 0] == 200).all()  # the largest weight of a square is not lost
    causal = np.tri(64, dtype=bool)
    mask, layer = (
        np.broadcast_to(causal, (9, 64, 64)),
        np.eye(64, dtype=np.float32)[None].repeat(9, 0),
    )
    made = heads.grid((30, 9, 64, 64), [(layer, mask)] * 30)
    assert made.step == 1
    np.testing.assert_array_equal(made.open, causal)
    tokens: dict[str, Any] = {**TOKENS, "axes": (Axis(["a"] * 64),) * 2}
    data = pack_heads_view(made, cells_of=lambda at: (layer[0], causal), **tokens)
    assert len(data) < heads.MAX_BYTES
    _, arrays = unpack(data)
    np.testing.assert_array_equal(pictures(arrays, 64, 64), made.codes)
    masks = np.stack([np.tri(3, dtype=bool), np.eye(3, dtype=bool)[::-1]])
    made = heads.grid((1, 2, 3, 3), [(np.full((2, 3, 3), 0.25, np.float32), masks)])
    assert made.open.tolist() == (np.tri(3, dtype=bool) | np.eye(3, dtype=bool)[::-1]).tolist()
    shut = heads.grid((1, 1, 3, 3), [(np.zeros((1, 3, 3), np.float32), np.zeros((1, 3, 3), bool))])
    assert shut.open.all()  # something has to travel: no thumbnails at all mean "those you have"


def test_sixteen_bits_are_written_as_the_weights_themselves():
    random = np.random.default_rng(0).random(20_000, np.float32)
    ends = np.array([0, 0.0005, *np.arange(5, 1000, 10) / 1e4, *np.arange(105, 1000, 10) / 1e3, 1])
    near = [np.nextafter(ends.astype(np.float32), np.float32(to)) for to in (0, 1)]
    weights = np.concatenate([random, random**8, ends.astype(np.float32), *near])
    sent = np.frombuffer(heads.halves(weights[None]).tobytes(), "<f2")
    found = [written(float(each)) for each in sent]
    assert found == [written(float(each)) for each in weights]
    plain = [written(float(each)) for each in weights.astype(np.float16)]
    assert plain != found  # rounding alone would change some
    np.testing.assert_allclose(sent, weights, rtol=2**-10, atol=2**-24)
