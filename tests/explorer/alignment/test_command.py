"""Files of pairs, and what is written of them."""

import csv
import io
import json
from pathlib import Path

import pytest

from explorer.__main__ import main
from explorer.problems import InputProblem
from explorer.runs.sentences import pairs_in


def test_pairs_of_a_file() -> None:
    text = b"I ate an apple. ||| \xe6\x88\x91\xe5\x90\x83\xe4\xba\x86\n\nRun!\nHi\tHallo\n"
    expected = (("I ate an apple.", "我吃了"), ("Run!", ""), ("Hi", "Hallo"))
    assert pairs_in("a.txt", text) == expected
    assert pairs_in("a.csv", b"Hi,Hallo\nRun!,\n") == (("Hi", "Hallo"), ("Run!", ""))
    named = b"id,target,source\n1,Hallo,Hi\n2,,Run!\n"
    assert pairs_in("a.csv", named) == (("Hi", "Hallo"), ("Run!", ""))
    assert pairs_in("a.tsv", b"source\nHi\n") == (("Hi", ""),)
    for name, data, key in (("a.pdf", b"x", "file_type"), ("a.txt", b" \n", "file_empty")):
        with pytest.raises(InputProblem) as refused:
            pairs_in(name, data)
        assert refused.value.key == key


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "rows.txt"
    path.write_text(f"c a b ||| c a b\n{'a ' * 40}\nd o g\n", encoding="utf-8")
    return path


def test_the_command_writes_moses_lines_with_their_texts(data, tmp_path, capsys) -> None:
    out = tmp_path / "rows.align"
    assert main(["align", "--model", "copy", "--data", str(data), "--out", str(out)]) == 1
    said = capsys.readouterr()
    assert "pair 2 has no links: The text has 41 tokens" in said.err
    assert said.out.split() == [str(out), f"{out}.src", f"{out}.tgt"]
    assert out.read_text() == "0-0 1-1 2-2\n\n0-0 1-1 2-2\n"
    assert Path(f"{out}.src").read_text() == "c a b\n\nd o g\n"
    assert Path(f"{out}.tgt").read_text() == "c a b\n\nd o g\n"


def test_json_and_csv_name_the_words(data: Path, tmp_path: Path) -> None:
    data.write_text("c a b\n", encoding="utf-8")
    out = tmp_path / "rows.json"
    options = ["--data", str(data), "--links", "intersection", "--from", "best"]
    assert main(["align", "copy", *options, "--out", str(out)]) == 0
    (record,) = json.loads(out.read_text(encoding="utf-8"))
    assert record["source_words"] == record["target_words"] == ["c", "a", "b"]
    assert record["links"] == [[0, 0], [1, 1], [2, 2]]
    assert record["method"] == "intersection"
    out = tmp_path / "rows.csv"
    assert main(["align", "copy", *options, "--back", "none", "--out", str(out)]) == 0
    rows = list(csv.DictReader(io.StringIO(out.read_text(encoding="utf-8-sig"))))
    assert [row["target_word"] for row in rows] == ["c", "a", "b"]
    assert {row["found_by"] for row in rows} == {"forward"}


def test_a_model_of_one_text_is_refused(data, tmp_path, capsys) -> None:
    command = ["align", "stories", "--data", str(data), "--out", str(tmp_path / "x")]
    assert main(command) == 2
    assert "no cross-attention" in capsys.readouterr().err
