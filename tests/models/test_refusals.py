"""Every refusal of a folder, file or config goes by a key, and is said in every language."""

import ast
import pickle
import string
from pathlib import Path

import pytest

import models
from explorer.text import refusal
from models.checkpoint import CheckpointError
from models.foreign.system import SYSTEM
from models.refusals import REFUSALS, Refusal

HOME = Path(models.__file__).parent
FILES = [
    *sorted((HOME / "foreign").glob("*.py")),
    *sorted((HOME / "pictures").glob("*.py")),
    *(HOME / name for name in ("checkpoint.py", "config.py", "tokenizer.py")),
]
KINDS = {"Refusal", "CheckpointError"}


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def refusals_in(tree: ast.AST) -> list[ast.Call]:
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return [call for call in calls if isinstance(call.func, ast.Name) and call.func.id in KINDS]


def test_nothing_is_refused_but_by_a_key_with_its_values() -> None:
    used = set()
    for path in FILES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        used |= {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Raise) and node.exc is not None:
                assert isinstance(node.exc, ast.Call), (path.name, node.lineno)
                assert isinstance(node.exc.func, ast.Name), (path.name, node.lineno)
                assert node.exc.func.id in KINDS, f"{path.name}:{node.lineno}"
        for call in refusals_in(tree):
            (key,) = call.args
            if isinstance(key, ast.Constant):  # of a config's fields the caller says the key
                said = {keyword.arg for keyword in call.keywords}
                assert said == placeholders(REFUSALS[key.value]), f"{path.name}:{call.lineno}"
    elsewhere = {"tokenizer_heavy", "json_syntax", "unreadable", "no_such_folder", *SYSTEM.values()}
    assert used >= set(REFUSALS) - elsewhere


@pytest.mark.parametrize("key", REFUSALS)
def test_every_refusal_has_words_in_both_languages_with_the_same_values(key: str) -> None:
    values = {name: f"<{name}>" for name in placeholders(REFUSALS[key])}
    english, chinese = (refusal(Refusal(key, **values), lang=lang) for lang in ("en", "zh"))
    assert english == str(Refusal(key, **values))
    for value in values.values():
        assert value in chinese
    assert chinese != english or key == "gguf_block"  # names alone


def test_a_reason_within_a_reason_is_said_in_the_language_too() -> None:
    inner = Refusal("lacks_key", name="n_head")
    outer = CheckpointError("within", file="tiny", reason=Refusal("within", file="c", reason=inner))
    assert str(outer) == "tiny: c: n_head is missing"
    assert refusal(outer, lang="zh") == "tiny：c：缺少 n_head"
    again = pickle.loads(pickle.dumps(outer))
    assert type(again) is CheckpointError
    assert refusal(again, lang="zh") == refusal(outer, lang="zh")


def test_another_librarys_error_keeps_its_words_and_long_values_are_cut() -> None:
    refused = Refusal("no_index", file="x" * 9999, reason=KeyError("weight_map"))
    assert "'weight_map'" in refusal(refused, lang="zh")
    assert len(refusal(refused, lang="zh")) < 400
