"""A page of views and charts: nothing of the data can become markup, and each script runs alone."""

import base64
import json
import re
import zlib

import numpy as np
import pytest

from explorer.components.mount import FOLDER
from explorer.components.payload import pack
from explorer.components.standalone import MOST_PACKED, Component, Paragraph, Plot, page
from explorer.figures.frame import layout
from explorer.figures.theme import DARK, LIGHT, Palette

NASTY = '</script><script>alert(1)</script><!-- "><img src=x onerror=alert(2)>'


def test_words_and_figures_stay_data() -> None:
    figure = {"data": [{"type": "bar", "x": [NASTY], "y": [1]}], "layout": {"title": NASTY}}
    drawn = {**figure, "data": [{**figure["data"][0], "y": np.array([1])}]}  # type: ignore[dict-item]
    made = page(
        NASTY, [Paragraph(NASTY), Plot(drawn, NASTY), Component("token_strip", pack({}))], "en"
    )
    body = made[made.index("<body>") :]
    assert NASTY not in made
    assert "</script><script>alert" not in made
    assert "<!--" not in body
    sent = re.search(r'headlightChart\("b1", (\[.*?\]), \{"format"', made)
    assert sent is not None
    assert json.loads(sent[1]) == [figure, None]


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_a_chart_keeps_the_ground_of_its_theme_or_has_a_figure_for_each(colours: Palette) -> None:
    figure = {"data": [], "layout": layout(colours, 100)}
    assert f'<div id="b0" role="img" aria-label="a" style="background: {colours.paper}">' in page(
        "", [Plot(figure, "a")], "en"
    )
    assert 'aria-label="a"></div>' in page("", [Plot(figure, "a", dark=figure)], "en")


def test_a_views_payload_arrives_as_it_was() -> None:
    payload = pack({"tokens": [NASTY]})
    made = page("", [Component("token_strip", payload)], "zh")
    sent = re.search(r'headlight\("token_strip", "b0", "([^"]*)", true\)', made)
    assert sent is not None
    assert zlib.decompress(base64.b64decode(sent[1])) == payload
    assert '<html lang="zh">' in made


def test_a_large_payload_travels_as_it_is() -> None:
    payload = bytes(MOST_PACKED + 1)
    made = page("", [Component("token_strip", payload)], "en")
    assert f'"{base64.b64encode(payload).decode()}", false)' in made


def test_the_rules_of_a_view_stay_inside_it() -> None:
    made = page("", [Component("film", pack({})), Component("heads_view", pack({}))], "en")
    for name in ("film", "heads_view"):
        sheet = (FOLDER / f"{name}.css").read_text(encoding="utf-8")
        assert f":where(.in-{name}) {{\n{sheet}\n}}" in made
        assert f'class="in-{name}"' in made
        assert "@keyframes" not in sheet  # may not stand inside another rule


@pytest.mark.parametrize("script", sorted(path.stem for path in FOLDER.glob("*_view.js")))
def test_every_view_can_stand_alone(script: str) -> None:
    made = page("", [Component(script, pack({}))], "en")
    assert f'views["{script}"] = (() =>' in made
    assert "export default" not in made
