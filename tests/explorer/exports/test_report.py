import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from explorer.__main__ import main
from explorer.exports.page import trace_page
from explorer.exports.picture import Axes, difference_svg, site_svg
from explorer.figures.theme import LIGHT
from explorer.library import LoadedModel, open_model
from explorer.runs.edits import parse_edits
from explorer.runs.trace import trace
from explorer.text import LANGUAGES, family, t
from models.training.saving import save_checkpoint

TEXT, TARGET = '<script>猫</script> & "cat"', "猫</dd>跑"
SVG = "{http://www.w3.org/2000/svg}"
WORDS = family("export", lang="en")


@pytest.fixture
def folder(translator: LoadedModel, tmp_path: Path) -> Path:
    save_checkpoint(tmp_path / "tiny", translator.model, translator.tokenizer)
    return tmp_path / "tiny"


@pytest.mark.parametrize("lang", LANGUAGES)
def test_an_export_is_the_trace(lang, folder, tmp_path, capsys) -> None:
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


@pytest.mark.parametrize("lang", LANGUAGES)
def test_an_export_of_one_text_has_no_target(lang, writer, tmp_path) -> None:
    save_checkpoint(tmp_path / "writer", writer.model, writer.tokenizer)
    arguments = ["export", "--model", str(tmp_path / "writer"), "--text", TEXT, "--lang", lang]
    assert main([*arguments, "--out", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "heads.html").read_text(encoding="utf-8")
    for role in ("query", "key"):
        assert f"{t(f'export.{role}', lang=lang)} ({t('streams.text', lang=lang)})" in page


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


def test_heads_are_named_or_counted() -> None:
    def texts(**more: object) -> list[str]:
        svg = site_svg(
            np.zeros((2, 1, 1)),
            np.ones((2, 1, 1), bool),
            Axes.of(["a"], ["b"], ("src", "src"), WORDS),
            title="T",
            words=WORDS,
            **more,  # type: ignore[arg-type]
        )
        return ["".join(t.itertext()) for t in ElementTree.fromstring(svg).iter(f"{SVG}text")]

    assert {"head 1", "head 2"} <= set(texts())
    assert {"L2·H5", "<b>"} <= set(texts(names=["L2·H5", "<b>"]))
    with pytest.raises(ValueError, match="names has 1 entries, but there are 2 heads"):
        texts(names=["one"])


def test_cells_of_a_picture() -> None:
    patterns = np.array([[[1, 0, 0], [0.5, 0.5, 0]], [[0, 0, 1], [0, 1, 0]]], dtype=np.float32)
    mask = np.array([[[1, 0, 0], [1, 1, 0]], [[1, 1, 1], [1, 1, 1]]], dtype=bool)
    svg = site_svg(
        patterns,
        mask,
        Axes.of(["a<b", "</s>"], ["x&y", "猫", "</s>"], ("tgt", "src"), {**WORDS, "query": "Q&A"}),
        title="T<1>",
        words=WORDS,
    )
    first, second = cells(svg, 0), cells(svg, 1)
    assert first["url(#h)"] == {(0, 1), (0, 2), (1, 2)}
    assert first[LIGHT.attention[-1]] == {(0, 0)}
    (half,) = set(first) - {"url(#h)", LIGHT.attention[-1]}
    assert first[half] == {(1, 0), (1, 1)}
    assert second == {LIGHT.attention[-1]: {(0, 2), (1, 1)}}
    texts = ["".join(t.itertext()) for t in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    for label in ("T<1>", "a<b", "x&y", "猫", "Q&A (target)", "key (source)", "head 2"):
        assert label in texts
    tokens = ["a", "b"], ["x", "y", "z"]
    axes = Axes.of(*tokens, ("tgt", "src"), WORDS)
    with pytest.raises(ValueError, match="mask"):
        site_svg(patterns, mask[:1], axes, title="", words=WORDS)
    with pytest.raises(KeyError, match="query"):
        Axes.of(*tokens, ("tgt", "src"), {"qeury": "x", "head": "y", "weight": "z"})


def test_the_difference_of_two_heads_is_drawn_around_its_middle() -> None:
    before = np.array([[0.5, 0.5, 0.0], [0.2, 0.8, 0.0]])
    after = np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0]])
    mask = np.array([[True, True, False], [True, True, True]])

    def drawn(after: np.ndarray) -> str:
        return difference_svg(
            before,
            after,
            mask,
            Axes.of(["a", "b"], ["x", "y", "z"], ("tgt", "src"), WORDS),
            title="two − one",
            name="L1·H2 − L1·H2",
            words=WORDS,
        )

    svg = drawn(after)
    low, middle, high = (LIGHT.diverging[i] for i in (0, 2, -1))
    assert cells(svg, 0) == {high: {(0, 0)}, low: {(0, 1)}, "url(#h)": {(0, 2)}}
    root = ElementTree.fromstring(svg)
    assert middle in {each.get("fill") for each in root.iter(f"{SVG}rect")}, "nothing has changed"
    texts = ["".join(t.itertext()) for t in root.iter(f"{SVG}text")]
    assert {"two − one", "L1·H2 − L1·H2", "−40.0 … +40.0 points", "query (target)"} <= set(texts)
    assert "−1.0 … +1.0" in drawn(before + 1e-6), "noise does not fill the scale"
    with pytest.raises(ValueError, match="after"):
        drawn(after[:1])


def test_a_page_escapes_what_it_is_given(translator) -> None:
    traced = replace(trace(translator, "<i></dl>\"'", "<u>"), model="<b>")
    page = trace_page(traced, [], "en").split("</style>")[1]
    assert not re.search(r"<b>|<i>|<u>|</dl>(\"|&quot;)", page)
    assert "&lt;i&gt;" in page


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"--text": "  "}, "white space"),
        ({"--model": "no-such"}, "no-such"),
        ({"--edits": "casual-off"}, "casual-off"),
        ({"--pads": "17"}, "16"),
        ({"--text": "a" * 6001}, "6001"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_line(changes, said, folder, tmp_path, capsys) -> None:
    given = {"--model": str(folder), "--text": "I", "--out": str(tmp_path / "out")} | changes
    assert main(["export", *(word for pair in given.items() for word in pair)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written(folder, tmp_path, capsys) -> None:
    (tmp_path / "file").write_text("")
    out = str(tmp_path / "file" / "out")
    assert main(["export", "--model", str(folder), "--text", "I", "--out", out]) == 2
    assert "file" in capsys.readouterr().err
