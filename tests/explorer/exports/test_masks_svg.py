"""The matrices of a mask as one SVG: every cell as its rule says, and only rules that block."""

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import explorer
from explorer.exports.picture import HATCHES, Axes, masks_svg
from explorer.figures.theme import LIGHT

RULES = ["a PAD", "a PAD query", "later <than> the query"]
CAUSAL = np.array([[0, 3, 3], [0, 0, 3]])


Drawn = tuple[str, np.ndarray, Axes]


def picture(blocked_by: np.ndarray, tokens: tuple[str, ...] = ("<b>", "猫")) -> Drawn:
    axes = Axes(tokens, ("a", "b", "c"), "query", "key", "tgt", "src")
    return "decoder & co", blocked_by, axes


def svg(*pictures: Drawn) -> str:
    return masks_svg(pictures, title="Masks", rules=RULES, visible="visible")


def test_cells_have_the_hatching_of_their_rule_and_the_legend_says_which() -> None:
    drawn = svg(picture(CAUSAL), picture(np.zeros((2, 3), int)))
    root = ElementTree.fromstring(drawn)  # well-formed, with tokens as text
    fills = [each.get("fill") for each in root.iter() if each.get("width") == "16"]
    by_rule = ["url(#rule-3)" if rule else LIGHT.paper for rule in CAUSAL.ravel()]
    assert fills == [*by_rule, *[LIGHT.paper] * 6, LIGHT.paper, "url(#rule-3)"]
    texts = ["".join(each.itertext()) for each in root.iter() if each.tag.endswith("text")]
    assert texts[-2:] == ["visible", "later <than> the query"]
    assert "a PAD" not in texts
    assert texts.count("decoder & co") == 2
    assert drawn.count("<pattern ") == 1


def test_each_rule_is_hatched_as_in_the_app() -> None:
    script = Path(explorer.__file__).parent / "components" / "canvas.js"
    moves = script.read_text(encoding="utf-8").split("const HATCHES = [")[1].split("];")[0]
    strokes = [len(re.findall("moveTo", line)) for line in moves.splitlines() if "moveTo" in line]
    assert strokes == [path.count("M") for at, path in enumerate(HATCHES) if at not in (3, 5)]
    assert len(HATCHES) == len(LIGHT.rules)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="blocked_by"):
        svg(picture(CAUSAL, ("only one",)))
    with pytest.raises(ValueError, match="from 0 to 4, of 3 rules"):
        svg(picture(np.full((2, 3), [0, 0, 4])))
