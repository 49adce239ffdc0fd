"""Links of words: out of weights by hand, by both directions, and which head has them."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from explorer import library
from explorer.__main__ import main
from explorer.analysis.alignment import (
    agreement as agreeing,
    links as linking,
    stored,
    study as answers,
)
from explorer.analysis.alignment.aligned import align_all
from explorer.analysis.alignment.links import moses
from explorer.analysis.alignment.reading import Reading, heads_of, read, read_back, translated
from explorer.analysis.alignment.study import other_direction, sharpness, study
from explorer.analysis.alignment.words import WordRow, shares, token_spans, words_in
from explorer.engine import models as engine
from explorer.figures.alignment import lines
from explorer.library import list_models
from explorer.problems import InputProblem
from explorer.runs.passes import walked
from explorer.runs.sentences import header_in, pairs_in
from explorer.runs.trace import trace
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


def test_links_of_both_directions_grow_by_neighbours():
    grown = linking.symmetrised(FORWARD, REVERSE)
    np.testing.assert_array_equal(grown, grid("x... ..x. .x.. .x.."))
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
    named = b"id,target,source\n1,Hallo,Hi\n2,,Run!\n"
    assert pairs_in("a.csv", named) == (("Hi", "Hallo"), ("Run!", ""))
    assert pairs_in("a.tsv", b"source\nHi\n") == (("Hi", ""),)
    for name, data, key in (("a.pdf", b"x", "file_type"), ("a.txt", b" \n", "file_empty")):
        with pytest.raises(InputProblem, match=key):
            pairs_in(name, data)


def test_the_command_writes_moses_lines_or_refuses_a_model_of_one_text(tmp_path, capsys):
    data = tmp_path / "rows.txt"
    data.write_text(f"c a b ||| c a b\n{'a ' * 40}\nd o g\n", encoding="utf-8")
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


# Which head aligns: found by agreement, and confirmed by answers that are known.
def made(weights: np.ndarray) -> Reading:
    """A reading with these weights [shift, head, tgt, src], of words that are letters."""
    n_tgt, n_src = weights.shape[2:]
    src, tgt = (
        WordRow(tuple("abcdefgh"[:n]), tuple((at, at + 1) for at in range(n)), b"abcdefgh"[:n])
        for n in (n_src, n_tgt)
    )
    return Reading(("", ""), src, tgt, weights)


def test_rows_and_keys_of_words_are_those_of_their_tokens():
    loaded = open_model("en-zh")
    pair = ("She reads a book.", "她看书。")
    reading = next(read(loaded, [pair]))
    traced = trace(loaded, *pair)
    keys = traced.src_str_tokens
    first = keys.index("read")
    assert keys[first + 1] == "·s"
    pattern = traced.pattern(traced.sites_of("cross")[0].name)[0]
    expected = pattern[1, first] + pattern[1, first + 1]
    assert reading.weights[1, 0, 0, reading.src.labels.index("reads")] == pytest.approx(
        expected, abs=1e-6
    )


def test_the_heads_that_link_alike_are_found_and_learned():
    rng = np.random.default_rng(0)
    readings, backs = [], []
    for n in (4, 5, 6, 7):
        order = np.eye(n)[rng.permutation(n)]
        noise = rng.random((2, 3, n, n))
        own, back = noise.copy(), rng.random((2, 2, n, n))
        own[1, 2], back[0, 1] = order + 0.01 * noise[0, 0], order + 0.01 * noise[0, 1]
        readings.append(made(own))
        backs.append(made(back))
    table = agreeing.agreement(readings, backs)
    assert table.shape == (2, 3, 2, 2)
    assert table[1, 2, 0, 1] == 1.0 == table.max()
    best = agreeing.best_pair(table)
    assert best.forward[1, 2] == 1 == best.forward.sum()
    mean = agreeing.learn(readings, backs, best)
    assert mean.forward.sum() == pytest.approx(1)
    assert mean.forward[1, 2] > 0.9
    assert mean.forward.min() == 0
    assert mean.reverse[0, 1] > 0.9
    forward, reverse = agreeing.links_of(readings[0], backs[0], best)
    np.testing.assert_array_equal(forward, reverse)


def test_a_diagonal_is_right_where_words_are_translated_in_order():
    orders = ([0, 1, 2], [2, 1, 0], [1, 0, 2])
    backs = [made(np.eye(3)[each].T[None, None].repeat(2, 0)) for each in orders]
    readings = [made(each.weights.mT) for each in backs]
    along = agreeing.agreement([agreeing.along_diagonal(each) for each in readings], backs)
    assert along.max() == pytest.approx(5 / 9)


def test_means_are_weighted_and_sharp_rows_found():
    reading = made(np.arange(8.0).reshape(2, 1, 2, 2))
    heads = np.array([[0.25], [0.75]])
    np.testing.assert_allclose(agreeing.matrix(reading, heads), [[3, 4], [5, 6]])
    weights = np.stack([np.eye(4), np.eye(4)[[0, 0, 0, 0]], np.full((4, 4), 0.25)])[None]
    np.testing.assert_allclose(sharpness(made(weights)), [[1, 0, 0]], atol=1e-9)


@pytest.mark.parametrize(("task", "least"), [("copy", 0.95), ("reverse", 0.75), ("sort", 0.85)])
def test_a_toys_head_agrees_with_its_known_answer(task, least):
    loaded = open_model(task)
    back = other_direction(task, list_models())
    assert back == (None if task == "sort" else task)
    found = walked(study(loaded, loaded if back else None, ()))
    assert found.basis == ("agreement" if back else "known")
    assert (found.n_learned, found.n_held) == (20, 20)
    assert (found.diagonal is None) == (back is None)
    if task == "reverse":
        assert found.diagonal < found.scores.max() - 0.3
    checked = found.checked
    assert checked.source == "task"
    shift, head = found.ranked()[0]
    assert 1 - checked.errors[shift, head] > least
    assert checked.errors[shift, head] < checked.errors.mean() - 0.2


def test_the_best_head_of_the_reader_looks_where_the_letter_was_drawn():
    # One is misread.
    words = ["Brown", "attention", "minimum @antique", "hello @comic", "2026 @typewriter"]
    found = walked(study(open_model("reader"), None, words))
    assert found.basis == "known"
    assert (found.checked.source, found.checked.n_pairs) == ("drawn", 2)
    assert found.checked.n_links == len("Brown" + "2026")
    assert found.checked.errors.min() == 0
    assert found.checked.diagonal.error > 0


def test_the_task_of_a_toy_comes_from_its_recipe_with_its_known_links():
    assert answers.toy_of("reverse") == answers.toy_of("reverse@40") == "reverse"
    assert answers.toy_of("en-zh") is None
    assert answers.toy_of("nobody") is None
    loaded = open_model("sort")
    reading = next(read(loaded, [("b a b", "a b b")]))
    known = answers.known_of_task("sort", reading)
    assert moses(known.sure) == "1-0"
    assert moses(known.possible) == "0-1 0-2 1-0 2-1 2-2"
    back = answers.known_of_task("reverse", next(read(open_model("reverse"), [("a b c", "c b a")])))
    assert moses(back.sure) == "0-2 1-1 2-0"
    assert answers.known_of_task("copy", reading) is None


def test_links_by_hand_are_of_words_and_turn_with_the_direction():
    drawn_links = answers.drawn_by_hand("en-zh")
    assert {each.pair for each in answers.drawn_by_hand("zh-en")} == {
        each.pair[::-1] for each in drawn_links
    }
    assert answers.drawn_by_hand("stories") == ()
    readings = [*read(open_model("en-zh"), [each.pair for each in drawn_links])]
    known_links = [answers.known_by_hand(*both) for both in zip(drawn_links, readings, strict=True)]
    assert all(each is not None and each.sure.any() for each in known_links)
    pairs = [each.pair[0] for each in drawn_links]
    at = pairs.index("She said that she loved him.")
    one, reading, known = drawn_links[at], readings[at], known_links[at]
    assert answers.known_by_hand(one, next(read(open_model("twin-right"), [("I", "我")]))) is None
    she = [at for at, word in enumerate(reading.tgt.labels) if "她" in word]
    src = reading.src.labels.index("she")
    assert known.sure[she[-1], src]
    assert not known.sure[she[0], src]
    assert (known.possible >= known.sure).all()


def test_a_file_is_aligned_in_its_order_and_read_back():
    own, back = open_model("en-zh"), open_model("zh-en")
    pairs = [("Run!", "跑！"), ("I ate an apple.", "")]
    shape = (2, len(heads_of(own)))
    aligner = agreeing.Aligner(agreeing.one_head(shape, 1, 0), agreeing.one_head(shape, 1, 0))
    found, refused = walked(align_all(own, back, [*pairs, ("a " * 900, "")], aligner))
    assert list(refused) == [2]
    assert found[2] is None
    assert found[0].moses == "0-0 1-1"
    assert found[1].pair == next(translated(own, ["I ate an apple."]))
    assert found[1].back is not None
    (alone,), _ = walked(align_all(own, None, pairs[1:], agreeing.Aligner(aligner.forward)))
    assert alone.back is None
    np.testing.assert_array_equal(alone.links, found[1].forward)
    reading = next(read(own, [("She reads a book.", "她看书。")]))
    turned = next(read_back(back, [reading]))
    assert turned.weights.shape == reading.weights.shape
    assert turned.weights.sum(2).max() <= 1 + 1e-5  # each source word's row, turned


def test_a_model_of_one_text_and_a_single_pair_are_refused(writer):
    with pytest.raises(ValueError, match="no cross-attention"):
        next(read(writer, [("I love you.", "a")]))
    with pytest.raises(InputProblem, match="too_few_pairs"):
        walked(study(open_model("en-zh"), None, ["Run!"]))


def test_a_model_goes_with_the_one_of_the_other_direction():
    shelf = ("en-zh", "zh-en", "copy", "opus-mt-de-en")
    assert other_direction("en-zh", shelf) == "zh-en"
    assert other_direction("en-zh@40", shelf) == "zh-en"
    assert other_direction("opus-mt-en-de", shelf) == "opus-mt-de-en"
    assert other_direction("twin-right", shelf) == "zh-en"
    assert other_direction("en-fr", shelf) is None


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "reverse" else pytest.mark.sweep)
        for name in library.translators(list_models())
    ],
)
def test_a_shipped_ranking_is_that_of_a_fresh_run(name):
    path, back = (
        engine.ranking_file(name),
        other_direction(name, library.translators(list_models())),
    )
    models, texts = engine.ranking_inputs(name, back)
    digest = stored.digest_of(models, texts)
    shipped, fresh = stored.read(path, digest), walked(engine.ranked(models, texts))
    assert stored.to_json(shipped, digest) + "\n" == path.read_text("utf-8")
    np.testing.assert_allclose(shipped.scores, fresh.scores, atol=1e-6)
    np.testing.assert_allclose(shipped.aligner("").forward, fresh.aligner("").forward, atol=1e-4)
    assert stored.read(path, "") is None
