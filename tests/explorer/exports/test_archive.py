"""A Trace as one file: read by numpy alone, read back here, and refused where it is none."""

import io
import json
import zipfile
from typing import Any

import numpy as np
import pytest

from explorer.exports import archive
from explorer.exports.archive import META, from_npz, to_npz
from explorer.library import LoadedModel
from explorer.runs.edits import CellEdit, HeadOff, MaskSwitch, parse_edits
from explorer.runs.trace import Trace, trace
from models.config import ModelConfig
from models.hooks import StackSite

SELF, CROSS = "decoder.blocks.0.attn", "decoder.blocks.1.cross_attn"
NASTY = """I'm "cat" \\ ''' \"\"\" {text} %s \\n'); raise SystemExit(1) # 猫\u2028\u200d🏳️‍🌈"""
EDITS = (MaskSwitch("causal", False), HeadOff(SELF, 1), CellEdit(CROSS, None, 1, 0, False))


def test_an_archive_is_the_trace(translator: LoadedModel, writer: LoadedModel) -> None:
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
        assert ModelConfig.from_json(json.dumps(meta["config"])) == traced.config
        assert meta["sites"] == [vars(site) for site in traced.sites]
        stacks = [
            StackSite(**{**stack, "reads_too": tuple(stack["reads_too"])})
            for stack in meta["stacks"]
        ]
        assert tuple(stacks) == traced.stacks
        marks = meta["marks"] | {"further_ends": tuple(meta["marks"]["further_ends"])}
        assert marks == vars(traced.marks)
        named = (*expected, "activations", "config", "sites", "stacks", "marks")
        for name, value in vars(traced).items():
            if name in ("edits", "ignored_edits"):
                assert parse_edits(meta[name]) == value
            elif name not in named:
                assert (tuple(meta[name]) if isinstance(value, tuple) else meta[name]) == value


def test_an_archive_is_read_without_us(translator: LoadedModel) -> None:
    traced = trace(translator, "The cat ran", "我爱你猫", EDITS)
    data = to_npz(traced)
    with np.load(io.BytesIO(data), allow_pickle=False) as stored:
        hook = f"{CROSS}.hook_pattern"
        np.testing.assert_array_equal(stored[hook], traced.activations[hook])
        meta = json.loads(str(stored[META]))
        assert meta["src_str_tokens"] == ["The", "cat", "ran", "</s>"]
        assert meta["sites"][-1]["name"] == CROSS
        assert "hook_logits" not in stored.files  # they are under `logits`


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


@pytest.mark.parametrize("family", ["translator", "writer"])
def test_an_archive_is_read_back_as_it_was(family: str, request: pytest.FixtureRequest) -> None:
    loaded: LoadedModel = request.getfixturevalue(family)
    translates = family == "translator"
    for traced in (
        trace(loaded, NASTY, NASTY, (*EDITS, HeadOff("nowhere", 1)) if translates else (), pads=2),
        trace(loaded, "The cat ran"),
    ):
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
def test_what_is_no_archive_is_refused(broken, why, translator) -> None:
    data = to_npz(trace(translator, "The cat ran", "猫"))
    with pytest.raises(ValueError, match=f"this is not the archive of a trace: .*{why}"):
        from_npz(broken(data))


def test_an_archive_that_unpacks_to_too_much_is_refused(translator, monkeypatch) -> None:
    data = to_npz(trace(translator, "The cat ran", "猫"))
    monkeypatch.setattr(archive, "MOST_BYTES", 10_000)
    with pytest.raises(ValueError, match=r"it unpacks to [\d,]+ bytes; the limit is 10,000"):
        from_npz(data)
