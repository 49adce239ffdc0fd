"""Matrices by their data: what is blocked, what each cell says, and what the browser is sent."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from payloads import unpack, unpack_matrices

from explorer.components.matrices import BLANK, Panel, Stroke, pack_matrices
from explorer.exhibits import block as b
from explorer.figures import maps
from explorer.figures.attribution import depths
from explorer.figures.bars import measured
from explorer.figures.blocks import by_feature, by_token, units
from explorer.figures.matrix import Axis, Matrix, Scale, change, scores, signed, weights
from explorer.figures.outcomes import outcomes, suspect, written_mask
from explorer.figures.positions.sums import strips
from explorer.figures.training import small_heads, token_losses
from explorer.labels import SpecialToken
from explorer.text import family

WORDS = {"words": family("figures.heatmap", lang="en")}
SENT = family("components.matrices", lang="en")
MAPS = {"words": family("figures.maps", lang="en")}
ROWS = Axis((SpecialToken("<s>"), "<b>狗</b>"), "query · target", "tgt")
AXES = ROWS, Axis(("a", "a", None), "key")
UNITS: dict[str, Any] = {"title": "t", "x_title": "x", "y_title": "y", "stream": "src"}
TWO_MASKS = [
    (name, Matrix((Axis("ab"), Axis("cd")), blocked=np.zeros((2, 2), bool), rules=("open",)))
    for name in ("one", "two")
]
PATTERN = np.array([[0.75, 0.25, 0.0], [0.0002, 0.0998, 0.9]], np.float32)
MASK = np.array([[True, True, False], [True, True, True]])
TWO, ONE = (Axis(("a", "b")), Axis(("c", "d"))), (Axis(("q",)), Axis(("a", "b", "c")))


def sent(*shown: Matrix) -> list[dict[str, Any]]:
    panels = [Panel(f"Layer {number}", each) for number, each in enumerate(shown, 1)]
    return unpack_matrices(pack_matrices(panels, words=SENT))


def said(matrix: Matrix) -> list[list[str]]:
    return sent(matrix)[0]["cells"].tolist()


def test_a_cell_says_its_weight_or_which_mask_blocks_it_and_is_no_small_weight():
    matrix = weights(PATTERN, MASK, AXES, why=[["", "", "the <future>"], ["", "", ""]], **WORDS)
    (panel,) = sent(matrix)
    assert panel["cells"].tolist() == [
        ["75.0 %", "25.0 %", "blocked: the <future>"],
        ["< 0.1 %", "10.0 %", "90.0 %"],
    ]
    # 248 steps from 0 to 1: 0.75 · 248 = 186.
    assert panel["codes"].tolist() == [[186, 62, BLANK + 1], [0, 25, 223]]
    assert panel["scale"]["ticks"] == [[0, "0 %"], [0.5, "50 %"], [1, "100 %"]]
    (cut,) = sent(weights(PATTERN, MASK, AXES, top=0.5, **WORDS))
    assert cut["scale"]["ticks"][-1] == [1, "≥ 50 %"]
    assert panel["rows"]["special"] == [True, False]
    assert (panel["rows"]["title"], panel["rows"]["stream"]) == ("query · target", "tgt")
    assert panel["columns"]["tokens"] == ["a", "a", ""]


def test_a_change_is_after_minus_before_and_scores_diverge_around_zero():
    before, after = np.array([[0.5, 0.5, 0.0]]), np.array([[0.2, 0.7, 0.1]])
    masks = np.array([[True, True, False]]), np.ones((1, 3), bool)
    names: dict[str, Any] = {"words": WORDS["words"] | {"before": "one", "after": "two"}}
    (panel,) = sent(change(before, after, ONE, masks=masks, **names))
    assert panel["cells"][0, 0] == "one 50.0 % → two 20.0 %\n−30.0 points"
    assert panel["cells"][0, 2] == "one blocked → two 10.0 %\n+10.0 points"
    assert panel["codes"].tolist() == [[0, 207, 165]]
    assert panel["scale"]["ticks"] == [[0, "−30"], [0.5, "0"], [1, "+30"]]
    shut = np.array([[True, False, False]])
    noise = change(after, after + 0.001, ONE, masks=(shut, shut), **WORDS)
    assert noise.codes.tolist() == [[0, 1, 1]]
    assert noise.scale.high == 1.0  # rounding is not stretched over the scale
    values = np.array([[-3.0, np.inf], [1.0, 2.0]])
    mask = np.array([[True, False], [True, True]])
    matrix = scores(values, mask, TWO, title="scores", **WORDS)
    assert (matrix.scale.low, matrix.scale.high) == (-3.0, 3.0)
    assert said(matrix) == [["−3.00", "blocked"], ["1.00", "2.00"]]
    assert scores(values, mask, TWO, title="scores", top=7.5, **WORDS).scale.high == 7.5
    matrix = signed(np.array([[1.0, -4.0]]), (Axis(("q",)), Axis(("k", "k"))), "t", selected=(0, 1))
    (panel,) = sent(matrix)
    assert panel["cells"].tolist() == [[1.0, -4.0]]
    assert (matrix.scale.low, matrix.scale.high, panel["selected"]) == (-4.0, 4.0, [0, 1])
    blank = signed(np.array([[np.nan, -1.0]]), matrix.axes, "t", limit=2.0)
    assert sent(blank)[0]["codes"].tolist() == [[BLANK, 62]]


def test_a_mask_is_one_byte_per_cell_and_texts_may_be_many():
    matrix = Matrix(AXES, blocked=np.array([[0, 0, 2], [0, 0, 0]]), rules=("seen", "PAD", "causal"))
    data = pack_matrices([Panel("mask", matrix)], words=SENT, picks=True)
    head, arrays = unpack(data)
    assert list(arrays) == ["cells0"]
    assert arrays["cells0"].tolist() == [[0, 0, BLANK + 2], [0, 0, 0]]
    assert (head["picks"], head["brush"], head["panels"][0]["scale"]) == (True, False, None)
    assert said(matrix)[0] == ["seen", "seen", "blocked: causal"]
    shares = np.linspace(0, 1, 1024, dtype=np.float32).reshape(32, 32)
    tokens = Axis([str(place) for place in range(32)])
    (panel,) = sent(weights(shares, None, (tokens, tokens), **WORDS))
    assert len(panel["texts"]) > 256
    assert panel["cells"][31, 30] == "99.9 %"


FILLED = partial(Matrix, AXES, PATTERN, Scale("attention", 0, 1))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (partial(weights, PATTERN.T, None, AXES, **WORDS), r"\(3, 2\), expected \(2, 3\)"),
        (partial(weights, PATTERN, MASK.T, AXES, **WORDS), r"mask has shape \(3, 2\)"),
        (partial(weights, PATTERN, PATTERN, AXES, **WORDS), "mask is float32, expected bool"),
        (partial(weights, PATTERN, None, AXES, why=[[""]], **WORDS), r"why has shape \(1, 1\)"),
        (partial(weights, PATTERN, None, AXES, selected=2, **WORDS), r"\(2, None\).*\(2, 3\)"),
        (partial(change, PATTERN, PATTERN[:1], AXES, **WORDS), r"after has shape \(1, 3\)"),
        (partial(FILLED, blocked=MASK[:1]), r"blocked has shape \(1, 3\)"),
        (partial(FILLED, blocked=MASK), "blocked runs from 0 to 1, but there are 0 rules"),
        (partial(FILLED, rules=tuple("abcdefgh")), "7 rules, at most 6"),
        (partial(units, np.zeros((2, 2)), [4, 90], ["a"], **UNITS), "values"),
        (partial(strips, np.ones((2, 2)), ["a"], words={"dimension": "d", "value": "v"}), "values"),
        (partial(measured, ["a"], np.array([1.0, 2.0]), title="t"), "values"),
        (partial(token_losses, [["a"]], [[0.1, 0.2]], title="", x_title=""), "differ"),
        (partial(maps.head_maps, [np.zeros((1, 1))] * 2, ["one"], top=1.0, **MAPS), "zip"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_its_sizes(made, message):
    with pytest.raises(ValueError, match=message):
        made()


@pytest.mark.parametrize(
    ("picked", "place"),
    [([1, 0, 1], (1, 0, 1)), ([2, 0, 1], None), ([0, 2, 1], None), ([0], None), (None, None)],
)
def test_a_click_keeps_to_the_cells_that_are_there(picked, place):
    block = b.Matrices("m", TWO_MASKS, picked=lambda cell: b.choose(cell=cell))
    found = block._pick(picked)
    assert (None if found is None else found.choices(None)["cell"]) == place
    assert b.Matrices("m", TWO_MASKS)._pick(picked) is None


@pytest.mark.parametrize(
    ("painted", "cells"),
    [
        ({"matrix": 1, "cells": [0, 1, 5, 5], "open": True}, ((0, 1),)),
        ({"matrix": 2, "cells": [0, 0]}, None),
        ({"cells": [0, 0]}, None),
        ({"matrix": 0, "cells": [7, 7]}, None),
        ([], None),
    ],
)
def test_a_stroke_keeps_to_the_cells_that_are_there(painted, cells):
    block = b.Matrices("m", TWO_MASKS, painted=lambda at, stroke: b.choose(at=at, by=stroke))
    found = block._paint(painted)
    if cells is None:
        assert found is None
    else:
        assert found.choices(None) == {"at": 1, "by": Stroke(cells, True)}


def test_hidden_cells_are_hatched_while_empty_and_values_written_while_there_is_room():
    pattern = np.array([[0.7, 0.3, 0.0], [np.nan] * 3, [0.2, 0.3, 0.5]], np.float32)
    hidden = np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]], bool)
    axes = Axis(("a", "b", "a")), Axis(("a", "b", "a"))
    (panel,) = sent(suspect(pattern, hidden, axes, hidden_word="keep <out>", **WORDS))
    assert panel["cells"][0].tolist() == ["70.0 %", "30.0 % · keep <out>", "blocked: keep <out>"]
    assert panel["cells"][1].tolist() == panel["words"][1].tolist() == ["NaN"] * 3
    assert (panel["codes"] > BLANK).tolist() == [[False, False, True], [False] * 3, [False] * 3]
    assert (panel["codes"][1] == BLANK).all()
    levels: Any = [["good", "loud"], ["silent", "good"]]
    texts = [["right", "NaN"], ["leaks\n<10 %", "0"]]
    (panel,) = sent(outcomes(levels, texts, ["a", "b"], ["x", "y"], selected=(1, 0)))
    assert panel["words"].tolist() == texts
    good, loud, silent = panel["codes"][0, 0], panel["codes"][0, 1], panel["codes"][1, 0]
    assert silent < loud == (BLANK - 1) // 2 < good
    with pytest.raises(ValueError, match=r"texts has shape \(1, 1\), expected \(1, 2\)"):
        outcomes([["good", "good"]], [["a"]], ["r"], ["x", "y"])
    keep = np.tri(4, dtype=bool)
    assert written_mask(keep, np.full((4, 4), "−1e9")).written is not None
    keep = np.tri(9, dtype=bool)
    assert written_mask(keep, np.full((9, 9), "−1e9")).written is None
    (panel,) = sent(written_mask(keep, np.full((9, 9), "T")))
    np.testing.assert_array_equal(panel["codes"] == 0, keep)


def test_heads_of_each_kind_share_one_scale_and_patches_say_their_share():
    changes = [np.array([[-2.0, 0.5], [0.0, 0.1]]), np.array([[1.0, -0.5]])]
    drawn = maps.head_maps(changes, ["up", "down"], off=[(0, 1, 0)], selected=(1, 0, 1), **MAPS)
    assert [name for name, _ in drawn] == ["up", "down"]
    one, other = sent(*(matrix for _, matrix in drawn))
    assert one["scale"] == other["scale"]
    assert one["cells"].tolist() == [["−2.00", "+0.50"], ["ablated", "+0.10"]]
    assert one["words"].tolist() == [["", ""], ["✕", ""]]
    assert (one["selected"], other["selected"]) == (None, [0, 1])
    assert (one["rows"]["tokens"], one["rows"]["name"]) == (["1", "2"], "layer")
    ((_, scored),) = maps.head_maps([np.array([[0.1, 0.2]])], ["one"], top=0.4, **MAPS)
    assert sent(scored)[0]["codes"].tolist() == [[62, 124]]
    assert said(scored) == [["0.10", "0.20"]]
    upper = np.array([[0.5, np.nan, 1.5], [-2.0, 0.0, 0.004]])
    blocks = [
        maps.EffectBlock("up", upper, ["0", "1"], ["<a>", "b", "b"], "src"),
        maps.EffectBlock("heads", np.zeros((1, 17)), ["1"]),
    ]
    up, heads = sent(*(each for _, each in maps.effects(blocks, selected=(0, 1, 2), **MAPS)))
    assert up["words"].tolist() == [["50", "", "150"], ["−200", "", ""]]
    assert up["cells"][0].tolist() == ["50 %", MAPS["words"]["nothing"], "150 %"]
    assert up["codes"][0].tolist() == [186, BLANK, 248]  # the scale ends at all of it
    assert (up["selected"], heads["selected"], heads["words"]) == ([1, 2], None, None)
    assert heads["columns"]["tokens"][-1] == "17"


@pytest.mark.parametrize(
    ("kind", "values", "nearest"),
    [("chance", [[0.1, 0.9]], 1), ("ranked", [[1.0, 500.0]], 0), ("distance", [[4.0, 0.0]], 1)],
)
def test_near_the_answer_is_dark(kind, values, nearest):
    axes = Axis(["d"]), Axis(["a", "b"])
    draw = partial(depths, [["x", "y"]], np.array(values), axes, kind=kind, title="t")
    (panel,) = sent(draw(selected=1))
    assert int(panel["codes"][0].argmax()) == nearest
    assert (panel["codes"] < BLANK).all()
    assert panel["selected"] == [None, 1]


def test_tokens_stand_in_coloured_cells_and_small_heads_apart():
    values = np.array([[1.0, 2.0], [3.0, 0.5]])
    tokens = (("<i>", SpecialToken("<pad>")), ("a", " "))
    (panel,) = sent(by_token(values, tokens, ["1", "2"], title="size", top=3.0))
    assert panel["words"].tolist() == [["<i>", "<pad>"], ["a", "␣"]]
    assert panel["cells"][1].tolist() == ["a · 3", "␣ · 0.5"]
    assert panel["scale"]["palette"] == "attention"
    negative = by_feature(np.array([-1.0, 2.0]), title="s", x_title="x", top=3.0)
    assert (negative.scale.low, negative.shape) == (-3, (1, 2))
    losses = token_losses([["a", "b"], ["c"]], [[0.5, 1.0], [2.0]], title="nats", x_title="x")
    (panel,) = sent(losses)
    assert panel["codes"].tolist() == [[62, 124], [248, BLANK]]
    assert panel["cells"][1].tolist() == ["c: 2", ""]
    layers = [np.full((2, 1, 2), share, np.float32) for share in (0.25, 0.5)]
    words = {"layer": "layer", "head": "head", "query": "q", "key": "k"}
    (panel,) = sent(small_heads(layers, ["a"], ["b", "c"], words=words))
    assert panel["rows"]["tokens"] == ["", "a", "", "a"]
    assert panel["columns"]["tokens"] == ["b", "c", ""] * 2
    assert panel["cells"][3, 4] == "layer 2, head 2 · 50.0 %"
    assert panel["words"][2].tolist() == ["L2·H1", "", "", "L2·H2", "", ""]
    assert panel["codes"][1].tolist() == [62, 62, BLANK] * 2
