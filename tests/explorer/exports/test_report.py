import json
import re
from collections.abc import Sequence
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from explorer.__main__ import main
from explorer.exports.picture import axes_of, matrices_svg, site_svg
from explorer.figures.matrix import Axes, Axis, Mark, Matrix, Scale, change
from explorer.figures.theme import LIGHT
from explorer.library import LoadedModel, open_model
from explorer.runs.edits import parse_edits
from explorer.runs.trace import trace
from explorer.text import LANGUAGES, family
from models.training.saving import save_checkpoint

TEXT, TARGET = '<script>猫</script> & "cat"', "猫</dd>跑"
SVG = "{http://www.w3.org/2000/svg}"
WORDS = family("export", lang="en")


@pytest.fixture
def folder(translator: LoadedModel, tmp_path: Path) -> Path:
    save_checkpoint(tmp_path / "tiny", translator.model, translator.tokenizer)
    return tmp_path / "tiny"


@pytest.mark.parametrize("lang", LANGUAGES)
def test_an_export_is_the_trace(lang, folder, tmp_path, capsys):
    out = tmp_path / "new" / "out"
    edits = "causal-off~head-nowhere-1"
    arguments = ["export", "--model", str(folder), "--text", TEXT, "--out", str(out)]
    arguments += ["--target", TARGET] if lang == "en" else []
    assert main([*arguments, "--edits", edits, "--pads", "1", "--lang", lang]) == 0
    target = TARGET if lang == "en" else None
    traced = trace(open_model(folder), TEXT, target, parse_edits(edits), pads=1)
    assert traced.output in capsys.readouterr().out
    assert (out / "patterns.csv").read_text("utf-8-sig").startswith("view,layer,head,query,key,")
    with np.load(out / "patterns.npz") as stored:
        assert set(stored) == {site.name for site in traced.sites}
        for site in traced.sites:
            assert stored[site.name].dtype == np.float32
            np.testing.assert_array_equal(stored[site.name], traced.pattern(site.name))
    tokens = json.loads((out / "tokens.json").read_text(encoding="utf-8"))
    assert tokens["text"] == traced.text
    assert tokens["src"]["tokens"] == list(traced.src_str_tokens)
    assert tokens["tgt"]["valid"] == traced.tgt_valid.tolist()
    assert (tokens["edits"], tokens["ignored_edits"]) == ("causal-off", "head-nowhere-1")
    for site in traced.sites:
        ElementTree.fromstring((out / f"{site.name}.svg").read_text(encoding="utf-8"))
    page = (out / "heads.html").read_text(encoding="utf-8")
    assert page.count("<svg ") == len(traced.sites)
    tags = set()
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: tags.add(tag)  # type: ignore[method-assign]
    parser.feed(page)
    assert not tags & {"script", "link", "img", "iframe"}
    assert not re.search(r"(src|href)=|url\((?!#)|@import", page)
    assert "&lt;script&gt;猫" in page


def cells(svg: str, head: int) -> dict[str, set[tuple[int, int]]]:
    """Fill -> the (query, key) cells painted so, read back from one head's paths."""
    root = ElementTree.fromstring(svg)
    group = [g for g in root.findall(f"{SVG}g") if g.find(f"{SVG}g/{SVG}path") is not None][head]
    painted: dict[str, set[tuple[int, int]]] = {}
    for path in group.iter(f"{SVG}path"):
        for key, query, n in re.findall(r"M(\d+) (\d+)h(\d+)v1", path.get("d", "")):
            run = {(int(query), k) for k in range(int(key), int(key) + int(n))}
            painted.setdefault(path.get("fill", ""), set()).update(run)
    return painted


def axes(rows: Sequence[str], columns: Sequence[str]) -> Axes:
    return axes_of((rows, columns), ("tgt", "src"), "en")


def texts(svg: str) -> list[str]:
    return ["".join(t.itertext()) for t in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_cells_of_a_picture_whose_heads_are_named_or_counted():
    mask, words = np.ones((2, 1, 1), bool), {"title": "T", "words": WORDS}
    draw = partial(site_svg, np.zeros((2, 1, 1)), mask, axes("a", "b"), **words)
    assert {"head 1", "head 2"} <= set(texts(draw()))
    assert {"L2·H5", "<b>"} <= set(texts(draw(names=["L2·H5", "<b>"])))
    with pytest.raises(ValueError, match="names has 1 entries, but there are 2 heads"):
        draw(names=["one"])
    patterns = np.array([[[1, 0, 0], [0.5, 0.5, 0]], [[0, 0, 1], [0, 1, 0]]], dtype=np.float32)
    mask = np.array([[[1, 0, 0], [1, 1, 0]], [[1, 1, 1], [1, 1, 1]]], dtype=bool)
    named = axes(["a<b", "</s>"], ["x&y", "猫", "</s>"])
    svg = site_svg(patterns, mask, named, title="T<1>", words=WORDS)
    first, second = cells(svg, 0), cells(svg, 1)
    assert first["url(#h)"] == {(0, 1), (0, 2), (1, 2)}
    assert first[LIGHT.attention[-1]] == {(0, 0)}
    (half,) = set(first) - {"url(#h)", LIGHT.attention[-1]}
    assert first[half] == {(1, 0), (1, 1)}
    assert second == {LIGHT.attention[-1]: {(0, 2), (1, 1)}}
    named_so = {"T<1>", "a<b", "x&y", "猫", "query · target", "key · source", "head 2"}
    assert named_so | {"0 … 100 % weight", WORDS["blocked"]} <= set(texts(svg))
    with pytest.raises(ValueError, match="mask"):
        site_svg(patterns, mask[:1], named, title="", words=WORDS)


def test_differences_masks_words_and_marks_are_drawn_with_their_legends():
    before = np.array([[0.5, 0.5, 0.0], [0.2, 0.8, 0.0]])
    after = np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0]])
    mask = np.array([[True, True, False], [True, True, True]])
    words = family("figures.heatmap", lang="en")
    drawn = change(before, after, axes("ab", "xyz"), masks=(mask, mask), words=words)
    svg = matrices_svg([("L1·H2 − L1·H2", drawn)], title="two − one")
    low, middle, high = (LIGHT.diverging[i] for i in (0, 2, -1))
    assert cells(svg, 0) == {high: {(0, 0)}, low: {(0, 1)}, "url(#h)": {(0, 2)}}
    root = ElementTree.fromstring(svg)
    assert middle in {each.get("fill") for each in root.iter(f"{SVG}rect")}, "nothing has changed"
    assert {"two − one", "L1·H2 − L1·H2", "−40 … +40 points", "query · target"} <= set(texts(svg))
    rules, causal = ("open", "a PAD", "later <than> it"), np.array([[0, 2, 2], [0, 0, 2]])
    masks = [
        Matrix(axes(["<b>", "猫"], "abc"), blocked=codes, rules=rules)
        for codes in (causal, causal * 0)
    ]
    svg = matrices_svg([("decoder & co", each) for each in masks], title="Masks")
    assert cells(svg, 0)["url(#rule-2)"] == {(0, 1), (0, 2), (1, 2)}
    assert "url(#rule-2)" not in cells(svg, 1)
    assert svg.count("<pattern ") == 1
    assert texts(svg)[-2:] == ["open", "later <than> it"]
    assert texts(svg).count("decoder & co") == 2
    scale = Scale("attention", 0, 1, "share", ((0, "0"), (1, "1")))
    drawn = Matrix(
        (Axis(["a", None]), Axis.numbers(2, "head", 1)),
        np.array([[1.0, np.nan], [0.0, 0.5]]),
        scale,
        written=[["<yes>", ""], ["one\ntwo", ""]],
        marks=(Mark("circle", [(1, 0)], "link"),),
        selected=(None, 1),
        least=(60, 30),
    )
    svg = matrices_svg([("", drawn)], title="T")
    assert cells(svg, 0)[LIGHT.paper] == {(0, 1)}
    assert {"<yes>", "one", "two", "link", "1", "2", "head", "0 … 1 share"} <= set(texts(svg))
    root = ElementTree.fromstring(svg)
    inks = {"".join(t.itertext()): t.get("fill") for t in root.iter(f"{SVG}text")}
    assert (inks["<yes>"], inks["one"]) == (LIGHT.paper, LIGHT.ink)  # readable on its cell
    outlines = [each for each in root.iter(f"{SVG}rect") if each.get("stroke") == LIGHT.accent]
    assert [(each.get("x"), each.get("width"), each.get("height")) for each in outlines] == [
        ("1", "1", "2")
    ]
    assert sum(each.get("stroke") == LIGHT.target for each in root.iter(f"{SVG}path")) == 2
