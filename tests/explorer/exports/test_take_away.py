"""What a user takes away: code that gives the same numbers, and the Trace as one file."""

import csv
import io
import json
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from new_kinds import registered

from explorer import library
from explorer.__main__ import main
from explorer.analysis.heads.rollout import cross_rollout, rollout
from explorer.exhibits.heads.exports import snippet
from explorer.exports.archive import META, to_npz, to_rows
from explorer.exports.picture import axes_of, matrices_svg, site_svg
from explorer.figures.matrix import Axes, Axis, Mark, Matrix, Scale, change
from explorer.figures.theme import LIGHT
from explorer.library import LoadedModel, open_model
from explorer.live.weights import described
from explorer.problems import InputProblem
from explorer.runs.edits import CellEdit, HeadOff, MaskSwitch, parse_edits
from explorer.runs.trace import trace
from explorer.text import LANGUAGES, family
from models.positions import Scaling
from models.training.saving import save_checkpoint

ENCODER, SELF = "encoder.blocks.1.attn", "decoder.blocks.0.attn"
CROSS = "decoder.blocks.1.cross_attn"
NASTY = """I'm "cat" \\ ''' \"\"\" {text} %s \\n'); raise SystemExit(1) # 猫\u2028\u200d🏳️‍🌈"""
EDITS = (MaskSwitch("causal", False), HeadOff(SELF, 1), CellEdit(CROSS, None, 1, 0, False))


@pytest.fixture
def folder(translator: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tiny translator, in a folder with a name that is not easy either; `open_model` finds it
    by that name."""
    path = tmp_path / 'it\'s a "model" \\'
    save_checkpoint(path, translator.model, translator.tokenizer)
    monkeypatch.setattr(library, "open_model", partial(open_model, folder=tmp_path))
    return path


def ran(code: str) -> Any:
    names: dict[str, Any] = {}
    exec(compile(code, "view.py", "exec"), names)
    return names["result"]


@pytest.mark.parametrize(
    ("site", "text", "target", "edits", "pads"),
    [
        (ENCODER, "The cat ran", None, (), 0),
        (SELF, "The cat ran", "我爱你猫", EDITS, 2),
        (CROSS, "it's 猫", None, EDITS[1:2], 1),
        (CROSS, NASTY, NASTY, (), 0),
        (ENCODER, NASTY, "我", EDITS, 1),
    ],
    ids=["translated", "edited", "translated-edited", "nasty", "nasty-edited"],
)
def test_the_code_of_a_view_gives_its_numbers(site, text, target, edits, pads, folder):
    loaded = open_model(folder)
    traced = trace(loaded, text, target, edits, pads)
    pattern = ran(snippet(traced, site, 2, target=target))
    np.testing.assert_array_equal(pattern, traced.pattern(site)[2])
    rolled = ran(snippet(traced, site, 1, rolled=True, target=target))
    if site == CROSS:
        np.testing.assert_array_equal(rolled, cross_rollout(traced).aligned[1])
    else:
        kind, layer = ("encoder", 1) if site == ENCODER else ("decoder", 0)
        np.testing.assert_array_equal(rolled, rollout(traced, kind)[layer])


def test_the_code_of_ones_own_model_runs(folder):
    loaded = open_model(folder)
    traced = trace(loaded, "The cat ran", "我爱你猫")
    code = snippet(traced, CROSS, 1, target="我爱你猫", folder=folder.absolute())
    assert f"loaded = open_model(Path({str(folder.absolute())!r}))" in code.splitlines()
    known: dict[str, object] = {}
    exec(code, known)  # as it is copied, with no name put in place of another
    np.testing.assert_array_equal(known["result"], traced.pattern(CROSS)[1])
    unknown = snippet(traced, CROSS, 1, folder=Path("mine"))
    assert "open_model(Path('mine'))  # write the whole path" in unknown


def test_a_table_holds_no_formula():
    tokens = ("+1", "-1", "@x", "\t=1", "=", "a=b", 'say "b"')
    rows = list(csv.reader(io.StringIO(to_rows(["x,y"], [[token] for token in tokens]))))
    cells = ["x,y", "'+1", "'-1", "'@x", "'\t=1", "'=", "a=b", 'say "b"']
    assert [row[0] for row in rows] == cells


@pytest.mark.parametrize(
    ("name", "design"),
    [
        ("n_experts", {"n_experts": 2}),
        ("d_embed", {"d_embed": 8, "head_net": True}),
        ("norm", {"norm": "maxnorm"}),
        ("ffn", {"ffn": "relu2"}),
        ("positions", {"positions": "rotary", "rope_scaling": Scaling(n_ctx=8, growth=2.0)}),
    ],
)
def test_a_part_that_the_browser_cannot_compute_is_named(tiny, name, design):
    with registered("maxnorm", "relu2"):
        loaded = tiny("mine", family="decoder-only", **design)
    with pytest.raises(InputProblem, match="live_unsupported") as refused:
        described(loaded)
    assert refused.value.values["part"].startswith(f"{name} = ")
    with pytest.raises(InputProblem, match="live_no_output"):
        described(tiny("headless", family="encoder-only", lm_head=False))
    assert described(tiny("plain", family="decoder-only"))["predicts"] == "next"


def test_an_archive_is_the_trace(translator, writer):
    edits = (*EDITS, HeadOff("nowhere", 1))
    for traced in (
        trace(translator, NASTY, NASTY, edits, pads=2),
        trace(translator, "The cat ran", "我爱你猫"),
        trace(writer, "The cat ran"),
    ):
        arrays, meta = read(to_npz(traced))
        arrays[meta["logits_hook"]] = arrays["logits"]
        expected = {
            **traced.activations,
            **{name: getattr(traced, name) for name in ("src_valid", "tgt_valid", "logits")},
        }
        assert set(arrays) == set(expected)
        for name, array in expected.items():
            assert arrays[name].dtype == array.dtype
            np.testing.assert_array_equal(arrays[name], array, err_msg=name)
        for name in ("model", "text", "src_tokens", "tgt_str_tokens", "output"):
            value = getattr(traced, name)
            assert (tuple(meta[name]) if isinstance(value, tuple) else meta[name]) == value


def read(data: bytes) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the page of JSON of an archive, by numpy alone."""
    with np.load(io.BytesIO(data), allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    return arrays, json.loads(str(arrays.pop(META)))


TEXT, TARGET = '<script>猫</script> & "cat"', "猫</dd>跑"
SVG = "{http://www.w3.org/2000/svg}"
WORDS = family("export", lang="en")


@pytest.mark.parametrize("lang", LANGUAGES)
def test_an_export_is_the_trace(lang, translator, tmp_path, capsys):
    checkpoint, out = tmp_path / "tiny", tmp_path / "new" / "out"
    save_checkpoint(checkpoint, translator.model, translator.tokenizer)
    edits = "causal-off~head-nowhere-1"
    arguments = ["export", "--model", str(checkpoint), "--text", TEXT, "--out", str(out)]
    arguments += ["--target", TARGET] if lang == "en" else []
    assert main([*arguments, "--edits", edits, "--pads", "1", "--lang", lang]) == 0
    target = TARGET if lang == "en" else None
    traced = trace(open_model(checkpoint), TEXT, target, parse_edits(edits), pads=1)
    assert traced.output in capsys.readouterr().out
    assert (out / "patterns.csv").read_text("utf-8-sig").startswith("view,layer,head,query,key,")
    _, meta = read((out / "trace.npz").read_bytes())
    assert (meta["text"], meta["output"]) == (traced.text, traced.output)
    assert (meta["edits"], meta["ignored_edits"]) == ("causal-off", "head-nowhere-1")
    ElementTree.fromstring((out / "heads.svg").read_text(encoding="utf-8"))
    page = (out / "heads.html").read_text(encoding="utf-8")
    assert page.count('<form id="') == len({site.role for site in traced.sites})
    assert "&lt;script&gt;猫" in page
    assert "<script>猫" not in page


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


def test_cells_of_a_picture():
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
    inks = {
        "".join(text.itertext()): text.get("fill")
        for text in ElementTree.fromstring(svg).iter(f"{SVG}text")
    }
    assert (inks["<yes>"], inks["one"]) == (LIGHT.paper, LIGHT.ink)  # readable on its cell
