"""Which head aligns: found by agreement, and confirmed by answers that are known."""

from functools import cache

import numpy as np
import pytest

from explorer import library
from explorer.analysis.alignment import agreement as agreeing, known as answers
from explorer.analysis.alignment.aligned import align, align_pairs, completed
from explorer.analysis.alignment.links import moses
from explorer.analysis.alignment.reading import Reading, heads_of, read, read_back, translated
from explorer.analysis.alignment.study import other_direction, sharpness, study
from explorer.analysis.alignment.words import WordRow
from explorer.engine.jobs import walked
from explorer.library import LoadedModel, list_models
from explorer.problems import InputProblem
from explorer.runs.trace import trace

open_model = cache(library.open_model)  # opened once, and only read


def made(weights: np.ndarray) -> Reading:
    """A reading with these weights [shift, head, tgt, src], of words that are letters."""
    n_tgt, n_src = weights.shape[2:]
    src, tgt = (
        WordRow(tuple("abcdefgh"[:n]), tuple((at, at + 1) for at in range(n)), b"abcdefgh"[:n])
        for n in (n_src, n_tgt)
    )
    return Reading(("", ""), src, tgt, weights)


def test_rows_and_keys_of_words_are_those_of_their_tokens():
    loaded = open_model("reverse")
    reading = next(read(loaded, [("a b c", "c b a")]))
    traced = trace(loaded, "a b c", "c b a")
    site = traced.sites_of("cross")[1]
    at = heads_of(loaded).index((1, 2))
    pattern = traced.pattern(site.name)[2]
    letters = slice(0, 3)  # the end mark of the source is left out; row 0 is the start mark
    np.testing.assert_allclose(reading.weights[0, at], pattern[0:3, letters], atol=1e-6)
    np.testing.assert_allclose(reading.weights[1, at], pattern[1:4, letters], atol=1e-6)
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


def test_the_best_head_is_compared_with_the_diagonal():
    """Words that are only sometimes translated in order, and a head that follows the order."""
    orders = ([0, 1, 2], [2, 1, 0], [1, 0, 2])
    backs = [made(np.eye(3)[each].T[None, None].repeat(2, 0)) for each in orders]
    readings = [made(each.weights.mT) for each in backs]
    along = agreeing.agreement([agreeing.along_diagonal(each) for each in readings], backs)
    assert along.max() == pytest.approx(5 / 9)
    found = walked(study(open_model("reverse"), open_model("reverse"), ()))
    assert found.diagonal < found.scores.max() - 0.3
    assert walked(study(open_model("sort"), None, ())).diagonal is None


def test_means_are_weighted_crossings_counted_and_sharp_rows_found():
    reading = made(np.arange(8.0).reshape(2, 1, 2, 2))
    heads = np.array([[0.25], [0.75]])
    np.testing.assert_allclose(agreeing.matrix(reading, heads), [[3, 4], [5, 6]])
    turned = made(np.eye(3)[[2, 1, 0]][None, None].repeat(2, 0))
    assert (
        align(turned, None, agreeing.Aligner(agreeing.one_head((2, 1), 0, 0)), "forward").crossings
        == 3
    )
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


@pytest.fixture(scope="module")
def translators() -> tuple[LoadedModel, LoadedModel]:
    return open_model("en-zh"), open_model("zh-en")


def test_a_file_is_aligned_in_its_order_and_read_back(translators):
    own, back = translators
    pairs = completed(own, [("Run!", "跑！"), ("I ate an apple.", "")])
    assert pairs[1] == next(translated(own, ["I ate an apple."]))
    shape = (2, len(heads_of(own)))
    aligner = agreeing.Aligner(agreeing.one_head(shape, 1, 0), agreeing.one_head(shape, 1, 0))
    found = align_pairs(own, back, [*pairs, ("I", "")], aligner, "union")
    assert [each.pair for each in found] == [*pairs, ("I", "")]
    assert found[0].moses == "0-0 1-1"
    assert found[2].moses == ""
    forward = found[1]
    assert forward.method == "union"
    assert forward.back is not None
    alone = align_pairs(own, None, pairs, agreeing.Aligner(aligner.forward), "union")[1]
    assert alone.method == "forward"
    np.testing.assert_array_equal(alone.links, forward.forward)
    reading = next(read(own, [("She reads a book.", "她看书。")]))
    turned = next(read_back(back, [reading]))
    assert turned.weights.shape == reading.weights.shape
    assert turned.weights.sum(2).max() <= 1 + 1e-5  # each source word's row, turned


def test_what_cannot_be_aligned_is_refused(writer):
    with pytest.raises(ValueError, match="no cross-attention"):
        next(read(writer, [("I love you.", "a")]))
    with pytest.raises(InputProblem):
        next(read(open_model("copy"), [("a " * 40, "a")]))
    with pytest.raises(InputProblem, match="too_few_pairs"):
        walked(study(open_model("en-zh"), None, ["Run!"]))


def test_a_model_goes_with_the_one_of_the_other_direction():
    shelf = ("en-zh", "zh-en", "copy", "opus-mt-de-en")
    assert other_direction("en-zh", shelf) == "zh-en"
    assert other_direction("en-zh@40", shelf) == "zh-en"
    assert other_direction("opus-mt-en-de", shelf) == "opus-mt-de-en"
    assert other_direction("twin-right", shelf) == "zh-en"
    assert other_direction("en-fr", shelf) is None
