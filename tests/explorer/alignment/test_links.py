"""Links out of weights, both directions made one, and their error rate: by hand."""

import csv
import io
import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from explorer import library
from explorer.__main__ import main
from explorer.analysis.alignment import links as linking
from explorer.analysis.alignment.words import WordRow, shares, token_spans, words_in
from explorer.figures.alignment import lines
from explorer.problems import InputProblem
from explorer.runs.sentences import header_in, pairs_in
from explorer.text import family
from models.marks import Marks
from models.tokenizer import Tokenizer

open_model = cache(library.open_model)  # opened once, and only read
PICTURE = family("figures.alignment", lang="en")
SRC, TGT = ("She", "reads", "<b>"), ("她", "看书")
LINKS = np.array([[True, False, False], [False, True, True]])
BY = np.array([["both", "", ""], ["", "forward", "reverse"]], dtype=object)
WEIGHTS = np.array([[0.9, 0.1, 0.0], [0.0, 0.6, 0.25]])


def grid(text: str) -> np.ndarray:
    """Rows of target words, `x` at a link."""
    return np.array([[cell == "x" for cell in row] for row in text.split()])


def test_each_target_word_has_its_strongest_source_word_written_from_zero():
    weights = np.array([[0.2, 0.5], [0.4, 0.4], [0.0, 0.0]])
    np.testing.assert_array_equal(linking.strongest(weights), grid(".x x. .."))
    np.testing.assert_array_equal(linking.strongest(weights, -2), grid(".x x. .."))
    np.testing.assert_array_equal(linking.strongest(np.array([[0.2], [0.5]]), -2), grid(". x"))
    assert linking.strongest(np.zeros((0, 3))).shape == (0, 3)
    assert linking.moses(grid("x.. ..x .x.")) == "0-0 1-2 2-1"
    assert linking.moses(grid("... ...")) == ""


FORWARD, REVERSE = grid("x... ..x. .x.. ...."), grid("x... .... .x.. .xxx")


def test_methods_lie_between_intersection_and_union_and_grow_by_neighbours():
    both = [linking.symmetrised(FORWARD, REVERSE, method) for method in ("intersection", "union")]
    np.testing.assert_array_equal(both[0], grid("x... .... .x.. ...."))
    np.testing.assert_array_equal(both[1], grid("x... ..x. .x.. .xxx"))
    np.testing.assert_array_equal(linking.symmetrised(FORWARD, REVERSE, "forward"), FORWARD)
    np.testing.assert_array_equal(linking.symmetrised(FORWARD, REVERSE, "reverse"), REVERSE)
    # In order, the neighbours of (2, 1): (3, 1) links word 3, and (1, 2), at a corner, word 1. Then
    # (3, 2) links nobody new, so that (3, 3), which would, has no neighbour.
    np.testing.assert_array_equal(linking.grow_diag(FORWARD, REVERSE), grid("x... ..x. .x.. .x.."))
    far = grid("x... .... .... ....")
    np.testing.assert_array_equal(linking.grow_diag(far, far | grid(".... .... .... ...x")), far)
    links, lone = grid("x.. ... ..."), grid(".x. ... ..x")
    np.testing.assert_array_equal(linking.final_and(links, lone, links), grid("x.. ... ..x"))


def test_agreement_and_error_rate():
    found = [grid("x.. .x.")]
    assert linking.f1(found, [grid("x.. ..x")]) == pytest.approx(2 * 1 / 4)
    known = linking.Known(sure=grid("x.. ..."), possible=grid("x.. .x."))
    scored = linking.score(found, [known])
    assert (scored.precision, scored.recall) == (1.0, 1.0)
    assert scored.error == pytest.approx(1 - (1 + 2) / (2 + 1))
    assert linking.score([grid("..x x..")], [known]).error == 1.0
    drawn = linking.Known(sure=grid("... ..."), possible=grid("x.. .x."))  # as the boxes of letters
    assert np.isnan(linking.score(found, [drawn]).recall)
    np.testing.assert_array_equal(linking.diagonal(2, 4), grid(".x.. ...x"))


def labels_of(model: str, text: str) -> tuple[str, ...]:
    loaded = open_model(model)
    return words_in(loaded, loaded.model.with_marks("tgt", loaded.tokenizer.encode(text))).labels


def test_words_are_letters_between_blanks_and_tokens_of_one_character():
    assert labels_of("en-zh", "She reads a book.") == ("She", "reads", "a", "book", ".")
    assert labels_of("en-zh", "I don't know, Tom's dog is 12.") == (
        *("I", "don't", "know", ",", "Tom's", "dog", "is", "12", "."),
    )
    assert "".join(labels_of("en-zh", "她每天早上看书。")) == "她每天早上看书。"
    assert len(labels_of("en-zh", "她每天早上看书。")) > 1
    assert labels_of("en-zh", "a 龘.") == ("a", "<unk>", ".")  # an unknown character
    loaded = replace(open_model("copy"), tokenizer=Bytes())
    assert words_in(loaded, list("Tom's 龘书 5点 50".encode())).labels == (
        *("Tom's", "龘", "书", "5", "点", "50"),
    )


class Bytes(Tokenizer):
    """Each token is one byte."""

    def __init__(self) -> None:
        self.marks = Marks()

    def is_special(self, token: int) -> bool:
        return False

    def bytes_of(self, token: int) -> bytes:
        return bytes([token])


def test_a_token_belongs_to_the_words_of_its_bytes_in_any_vocabulary():
    row = WordRow(("AB", "CD"), ((0, 2), (2, 4)), b"ABCD")
    found = shares(row, ((0, 0), (0, 3), (3, 4)), b"ABCD")
    np.testing.assert_allclose(found, [[0, 2 / 3, 0], [0, 1 / 3, 1]])
    # A tokenizer that changed the text is matched by what stayed.
    found = shares(row, ((0, 2), (2, 3), (3, 5)), b"abxcd")
    np.testing.assert_allclose(found, [[1, 0, 0], [0, 0, 1]])
    one, other = open_model("en-zh"), open_model("twin-right")
    row = words_in(one, one.tokenizer.encode("She likes dogs."))
    spans, letters = token_spans(other, other.tokenizer.encode("She likes dogs."))
    assert len(spans) != len(one.tokenizer.encode("She likes dogs."))
    np.testing.assert_allclose(shares(row, spans, letters).sum(0), 1)


def test_pairs_of_a_file():
    text = b"I ate  an apple. ||| \xe6\x88\x91\xe5\x90\x83\xe4\xba\x86\n\nRun!\nHi\tHallo\n"
    expected = (("I ate  an apple.", "我吃了"), ("Run!", ""), ("Hi", "Hallo"))
    assert pairs_in("a.txt", text) == expected
    swapped = b"target ||| source\nHallo\tHi\n"
    assert pairs_in("a.txt", swapped) == (("Hi", "Hallo"),)
    assert header_in("a.txt", swapped, paired=True) == ["target", "source"]
    assert header_in("a.txt", swapped) == []
    assert pairs_in("a.txt", b"Text\nHi ||| Hallo\n") == (("Text", ""), ("Hi", "Hallo"))
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


def test_the_command_writes_moses_lines_or_refuses_a_model_of_one_text(data, tmp_path, capsys):
    out = tmp_path / "rows.align"
    assert main(["align", "--model", "copy", "--data", str(data), "--out", str(out)]) == 1
    said = capsys.readouterr()
    assert "pair 2 has no links: The text has 41 tokens" in said.err
    assert said.out.split() == [str(out), f"{out}.src", f"{out}.tgt"]
    assert out.read_text() == "0-0 1-1 2-2\n\n0-0 1-1 2-2\n"
    assert Path(f"{out}.src").read_text() == "c a b\n\nd o g\n"
    assert Path(f"{out}.tgt").read_text() == "c a b\n\nd o g\n"
    command = ["align", "stories", "--data", str(data), "--out", str(tmp_path / "x")]
    assert main(command) == 2
    assert "no cross-attention" in capsys.readouterr().err


def test_json_and_csv_name_the_words(data, tmp_path, capsys):
    data = data.with_suffix(".csv")
    data.write_text("id,source\n1,c a b\n", encoding="utf-8")
    out = tmp_path / "rows.json"
    options = ["--data", str(data), "--links", "intersection", "--from", "best"]
    assert main(["align", "copy", *options, "--out", str(out)]) == 0
    assert "first row skipped, a header: id, source" in capsys.readouterr().err
    (record,) = json.loads(out.read_text(encoding="utf-8"))
    assert record["source_words"] == record["target_words"] == ["c", "a", "b"]
    assert record["links"] == [[0, 0], [1, 1], [2, 2]]
    assert record["method"] == "intersection"
    out = tmp_path / "rows.csv"
    assert main(["align", "copy", *options, "--back", "none", "--out", str(out)]) == 0
    rows = list(csv.DictReader(io.StringIO(out.read_text(encoding="utf-8-sig"))))
    assert [row["target_word"] for row in rows] == ["c", "a", "b"]
    assert {row["found_by"] for row in rows} == {"forward"}


def test_each_link_is_a_line_between_its_words():
    figure = lines(SRC, TGT, LINKS, BY, WEIGHTS, titles=("source", "target"), words=PICTURE)
    drawn = {trace["name"]: trace for trace in figure["data"] if "name" in trace}
    assert list(drawn) == [PICTURE[name] for name in ("both", "forward", "reverse")]
    assert drawn["both models"]["y"] == [0.0, 0.0, None]
    assert drawn["this model"]["y"] == [1.0, 2.0, None]  # two words over three rows: 0 and 2
    assert drawn["reverse model"]["y"] == [2.0, 2.0, None]
    assert len({trace["line"]["dash"] for trace in drawn.values()}) == 3
    middles = figure["data"][-1]
    assert "She – 她" in middles["customdata"][0]
    assert "&lt;b&gt; – 看书" in middles["customdata"][2]
    assert "25.0 %" in middles["customdata"][2]
    with pytest.raises(ValueError, match=r"weights has shape \(1, 3\)"):
        lines(SRC, TGT, LINKS, BY, WEIGHTS[:1], titles=("", ""), words=PICTURE)
