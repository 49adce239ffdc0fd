"""`headlight certify FILE.py:FUNCTION`, its exit status and its refusals."""

import json
from pathlib import Path

import pytest

from explorer.cli import main

RIGHT = """
import torch
from helper import table
def forward(ids):
    return (table(ids) * (ids != 0)[..., None]).cumsum(1)
def build():
    return forward, None, [3, 4, 5]
def keyed():
    return {"forward": forward, "src": None, "tgt": [3, 4, 5], "pad_id": 0, "capture": False}
def leaking():
    return lambda ids: forward(ids).flip(1), None, [3, 4, 5]
def other():
    return forward
value = 3
def failing():
    return {}["weights"]
def misspelt():
    return keyed() | {"padding": 0}
"""
HELPER = """
import torch
def table(ids):
    return torch.eye(8)[ids]
"""


@pytest.fixture
def code(tmp_path: Path) -> str:
    (tmp_path / "helper.py").write_text(HELPER, encoding="utf-8")
    path = tmp_path / "my_model.py"
    path.write_text(RIGHT, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(("function", "status"), [("build", 0), ("keyed", 0), ("leaking", 1)])
def test_the_exit_status_is_the_verdict(code, function, status, capsys) -> None:
    assert main(["certify", f"{code}:{function}", "--json"]) == status
    assert json.loads(capsys.readouterr().out)["passed"] is (status == 0)


@pytest.mark.parametrize(("lang", "words"), [("en", "VIOLATED"), ("zh", "违反")])
def test_the_report_has_both_languages(code, lang, words, capsys) -> None:
    assert main(["certify", f"{code}:leaking", "--lang", lang]) == 1
    assert words in capsys.readouterr().out


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("{code}:nothing", "has no function nothing"),
        ("{code}:value", "has no function value"),
        ("{code}:other", "other returned function, expected (forward, src, tgt)"),
        ("{code}", "expected FILE.py:FUNCTION"),
        ("nowhere.py:build", "there is no file nowhere.py"),
        ("{code}:failing", "my_model.py, line 16: KeyError: 'weights'"),
        ("{code}:misspelt", "unexpected keyword argument 'padding'"),
    ],
)
def test_refusals(code: str, spec: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certify", spec.format(code=code)]) == 2
    assert message in capsys.readouterr().err


def test_without_a_model_or_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["certify"])
    assert ended.value.code == 2
    assert "model --model is required" in capsys.readouterr().err
