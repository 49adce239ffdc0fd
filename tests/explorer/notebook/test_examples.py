"""The notebooks in examples/ run from top to bottom, and what ends a cell shows itself."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from foreign import Golden

EXAMPLES = Path(__file__).parents[3] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def _cells(path: Path) -> Iterator[str]:
    notebook = json.loads(path.read_text("utf-8"))
    assert notebook["nbformat"] == 4
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], "kept without outputs"
            yield "".join(cell["source"])


def _run(source: str, names: dict[str, Any]) -> Any:
    """Run a cell as a notebook does: the value of a last expression is returned."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    if last is None:
        return None
    assert isinstance(last, ast.Expr)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def test_there_are_three() -> None:
    assert len(NOTEBOOKS) == 3


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Golden.load("gpt2").write(tmp_path, kind="byte_level")
    monkeypatch.setenv("MY_MODEL", str(folder))
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = [_run(source, names) for source in _cells(path)]
    pictures = [each for each in shown if hasattr(each, "_repr_html_")]
    assert pictures
    assert all(each._repr_html_() for each in pictures)
