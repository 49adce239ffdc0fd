"""What a user takes away: code that gives the same numbers, and the Trace as one file."""

import csv
import io
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from explorer import library
from explorer.analysis.heads.flow import attention_flow
from explorer.analysis.heads.rollout import cross_rollout, rollout
from explorer.exports.archive import to_csv
from explorer.exports.snippet import View, snippet
from explorer.library import LoadedModel, open_model
from explorer.runs.edits import CellEdit, HeadOff, MaskSwitch
from explorer.runs.trace import trace
from models.training.saving import save_checkpoint

ENCODER, SELF, CROSS = (
    "encoder.blocks.1.attn",
    "decoder.blocks.0.attn",
    "decoder.blocks.1.cross_attn",
)
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
    """What `result` is after the code has run."""
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
def test_the_code_of_a_view_gives_its_numbers(site, text, target, edits, pads, folder) -> None:
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


def test_the_code_of_flow_gives_its_numbers(folder: Path) -> None:
    traced = trace(open_model(folder), "The cat ran", "我爱你猫")
    flow = ran(snippet(traced, ENCODER, 0, view="flow", target="我爱你猫"))
    np.testing.assert_array_equal(flow, attention_flow(traced, "encoder"))


def test_the_code_of_a_shipped_model(translator: LoadedModel) -> None:
    traced = trace(translator, "The cat ran")
    assert snippet(traced, CROSS, 0).splitlines() == [
        "from explorer.library import open_model",
        "from explorer.runs.trace import trace",
        "",
        "loaded = open_model('tiny')",
        "traced = trace(loaded, 'The cat ran')",
        f"result = traced.pattern('{CROSS}')[0]  # [query, key], layer 2, head 1",
    ]


def test_the_code_of_a_model_of_ones_own_has_its_folder_and_runs(folder: Path) -> None:
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
def test_views_that_are_not_there(view: View, translator: LoadedModel, writer: LoadedModel) -> None:
    traced = trace(translator, "The cat ran", "猫")
    for site, head, problem in ((ENCODER, 4, IndexError), ("nowhere", 0, KeyError)):
        with pytest.raises(problem):
            snippet(traced, site, head, view=view)
    if view == "flow":
        with pytest.raises(ValueError, match="self-attention"):
            snippet(traced, CROSS, 0, view=view)
    code = snippet(trace(writer, "cat"), "blocks.0.attn", 0, view=view)
    compile(code, "view.py", "exec")


def test_a_table_has_keys_across_queries_down_and_gaps_where_blocked() -> None:
    pattern = np.array([[0.25, 0.75], [1.0, 0.0]])
    mask = np.array([[True, True], [True, False]])
    text = to_csv(pattern, mask, ("a", 'say "b"'), ("x,y", "=1+1"))
    rows = list(csv.reader(io.StringIO(text)))
    assert rows == [["", "x,y", "'=1+1"], ["a", "0.25", "0.75"], ['say "b"', "1", ""]]


def test_no_token_becomes_a_formula() -> None:
    tokens = ("+1", "-1", "@x", "\t=1", "=", "a=b")
    rows = list(
        csv.reader(io.StringIO(to_csv(np.zeros((6, 0)), np.ones((6, 0), bool), tokens, ())))
    )
    assert [row[0] for row in rows[1:]] == ["'+1", "'-1", "'@x", "'\t=1", "'=", "a=b"]
