"""What a user takes away: code that gives the same numbers, and the Trace as one file."""

import csv
import io
import json
import re
import zipfile
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from new_kinds import registered

import explorer
from explorer import library
from explorer.analysis.heads.flow import attention_flow
from explorer.analysis.heads.rollout import cross_rollout, rollout
from explorer.exports import archive
from explorer.exports.archive import META, from_npz, to_csv, to_npz
from explorer.exports.picture import HATCHES
from explorer.exports.snippet import View, snippet
from explorer.figures.theme import LIGHT
from explorer.library import LoadedModel, open_model
from explorer.live.weights import described
from explorer.problems import InputProblem
from explorer.runs.edits import CellEdit, HeadOff, MaskSwitch
from explorer.runs.trace import Trace, trace
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
    rolled = ran(snippet(traced, site, 1, view="rollout", target=target))
    if site == CROSS:
        np.testing.assert_array_equal(rolled, cross_rollout(traced).aligned[1])
    else:
        kind, layer = ("encoder", 1) if site == ENCODER else ("decoder", 0)
        np.testing.assert_array_equal(rolled, rollout(traced, kind)[layer])


def test_the_code_of_flow_and_of_ones_own_model_runs(folder):
    traced = trace(open_model(folder), "The cat ran", "我爱你猫")
    flow = ran(snippet(traced, ENCODER, 0, view="flow", target="我爱你猫"))
    np.testing.assert_array_equal(flow, attention_flow(traced, "encoder"))
    loaded = open_model(folder)
    traced = trace(loaded, "The cat ran", "我爱你猫")
    code = snippet(traced, CROSS, 1, target="我爱你猫", folder=folder.absolute())
    assert f"loaded = open_model(Path({str(folder.absolute())!r}))" in code.splitlines()
    known: dict[str, object] = {}
    exec(code, known)  # as it is copied, with no name put in place of another
    np.testing.assert_array_equal(known["result"], traced.pattern(CROSS)[1])
    unknown = snippet(traced, CROSS, 1, folder=Path("mine"))
    assert "open_model(Path('mine'))  # write the whole path" in unknown


@pytest.mark.parametrize("view", get_args(View))
def test_views_that_are_not_there(view, translator, writer):
    traced = trace(translator, "The cat ran", "猫")
    for site, head, problem in ((ENCODER, 4, IndexError), ("nowhere", 0, KeyError)):
        with pytest.raises(problem):
            snippet(traced, site, head, view=view)
    if view == "flow":
        with pytest.raises(ValueError, match="self-attention"):
            snippet(traced, CROSS, 0, view=view)
    code = snippet(trace(writer, "cat"), "blocks.0.attn", 0, view=view)
    compile(code, "view.py", "exec")


def test_a_table_has_gaps_where_blocked_and_a_picture_the_hatching_of_the_app():
    pattern = np.array([[0.25, 0.75], [1.0, 0.0]])
    mask = np.array([[True, True], [True, False]])
    text = to_csv(pattern, mask, ("a", 'say "b"'), ("x,y", "=1+1"))
    rows = list(csv.reader(io.StringIO(text)))
    assert rows == [["", "x,y", "'=1+1"], ["a", "0.25", "0.75"], ['say "b"', "1", ""]]
    tokens = ("+1", "-1", "@x", "\t=1", "=", "a=b")
    rows = list(
        csv.reader(io.StringIO(to_csv(np.zeros((6, 0)), np.ones((6, 0), bool), tokens, ())))
    )
    assert [row[0] for row in rows[1:]] == ["'+1", "'-1", "'@x", "'\t=1", "'=", "a=b"]
    script = Path(explorer.__file__).parent / "components" / "canvas.js"
    moves = script.read_text(encoding="utf-8").split("const HATCHES = [")[1].split("];")[0]
    strokes = [len(re.findall("moveTo", line)) for line in moves.splitlines() if "moveTo" in line]
    assert strokes == [path.count("M") for at, path in enumerate(HATCHES) if at not in (3, 5)]
    assert len(HATCHES) == len(LIGHT.rules)


def test_an_archive_that_unpacks_to_too_much_is_refused(translator, monkeypatch):
    data = to_npz(trace(translator, "The cat ran", "猫"))
    monkeypatch.setattr(archive, "MOST_BYTES", 10_000)
    with pytest.raises(ValueError, match=r"it unpacks to [\d,]+ bytes; the limit is 10,000"):
        from_npz(data)


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


def same(one: Trace, other: Trace) -> None:
    for name, value in vars(one).items():
        again = getattr(other, name)
        if isinstance(value, np.ndarray):
            assert value.dtype == again.dtype
            np.testing.assert_array_equal(value, again)
        elif name == "activations":
            assert set(value) == set(again)
            for hook, array in value.items():
                assert array.dtype == again[hook].dtype
                np.testing.assert_array_equal(array, again[hook], err_msg=hook)
        else:
            assert value == again, name


def test_an_archive_is_read_back_as_it_was(loaded):
    edits = (*EDITS, HeadOff("nowhere", 1)) if "src" in loaded.model.reads else ()
    for traced in (trace(loaded, NASTY, NASTY, edits, pads=2), trace(loaded, "The cat ran")):
        again = from_npz(to_npz(traced))
        same(traced, again)
        assert again.activations["hook_logits"] is again.logits
        with pytest.raises(ValueError, match="read-only"):
            again.logits[0, 0] = 1


def _npz(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _changed(data: bytes, **meta: object) -> bytes:
    """The archive with other entries on its page of JSON."""
    arrays, said = read(data)
    return _npz(**arrays, **{META: np.array(json.dumps(said | meta))})


def _shortened(data: bytes) -> bytes:
    """An archive in which an array of 8 numbers says that it has 8 billion."""
    file = io.BytesIO()
    np.save(file, np.zeros(8))
    many = file.getvalue().replace(b"(8,), }          ", b"(8000000000,), } ")
    assert many != file.getvalue()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as made:
        made.writestr("logits.npy", many)
    return packed.getvalue()


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (lambda data: b"", "zip"),
        (lambda data: b"no zip at all", "zip"),
        (lambda data: data[: len(data) // 2], "zip"),
        (lambda data: _npz(nothing=np.zeros(1)), "trace.json"),
        (lambda data: _npz(**{META: np.array("[]")}), ""),
        (lambda data: _npz(**{META: np.array("{")}), ""),
        (lambda data: _npz(**{META: np.array(["a", None])}), "allow_pickle"),
        (lambda data: _changed(data, tgt_tokens=[1]), "tgt has 1, "),
        (lambda data: _changed(data, marks={"begin": 1}), "begin"),
        (_shortened, "logits.npy is shorter than it says"),
    ],
)
def test_what_is_no_archive_is_refused(broken, why, translator):
    data = to_npz(trace(translator, "The cat ran", "猫"))
    with pytest.raises(ValueError, match=f"this is not the archive of a trace: .*{why}"):
        from_npz(broken(data))
