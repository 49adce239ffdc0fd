"""What the shipped models make of the sentences that the app offers; and the toy models, whose
attention shows how, since the right answer is known.
"""

import string
import tomllib
from pathlib import Path

import numpy as np
import pytest

from explorer import text
from explorer.analysis.positions.order import four_texts
from explorer.engine.jobs import walked
from explorer.exhibits.decoding.choices import DecodingChoices
from explorer.exhibits.masks.twins import CHEAT, LONGEST as LONGEST_READ, RIGHT, twins
from explorer.exhibits.positions.choices import PositionsChoices
from explorer.library import open_model
from explorer.runs.generation import generate
from explorer.runs.trace import Trace, trace
from explorer.text import examples, telling
from models.pictures import letter_patches, picture_of, split_face, written
from models.pictures.faces import FACES, LONGEST, drawn_word
from models.strategies import Beam, Greedy
from models.training.evaluate import translate
from models.training.home import asset
from models.training.recipe import read_recipe
from models.training.tasks import Task, solve

GOOD: dict[str, dict[str, list[str]]] = tomllib.loads(
    (Path(__file__).parent / "translations.toml").read_text(encoding="utf-8")
)
TASKS: tuple[Task, ...] = ("copy", "reverse", "sort")


def offered(model: str) -> list[str]:
    return [sentence for group in examples(model).values() for sentence in group]


@pytest.mark.parametrize("model", GOOD)
def test_each_example_is_translated_or_filled_in_well(model: str) -> None:
    assert set(GOOD[model]) == set(offered(model)), "an example without a list, or a list without"
    loaded = open_model(model)
    if loaded.config.reads_source:
        written = translate(loaded.model, loaded.tokenizer, list(GOOD[model]), Beam(width=1))
    else:
        written = [generate(loaded, sentence, Greedy()).text for sentence in GOOD[model]]
    wrong = {
        sentence: text
        for (sentence, good), text in zip(GOOD[model].items(), written, strict=True)
        if text not in good
    }
    assert not wrong


def test_in_the_shell_a_beam_of_one_decodes_as_the_app_does() -> None:
    loaded, sentences = open_model("en-zh"), offered("en-zh")[::6]
    shell = translate(loaded.model, loaded.tokenizer, sentences, Beam(width=1))
    assert list(shell) == [trace(loaded, sentence).output for sentence in sentences]


# No letter twice, so that each row has one right place to look at.
ROWS = ("c a b", "h e a d l i g", "t s r q p o n m", "k b f a r j c", "d o g")
SHARE = {"copy": 0.85, "reverse": 0.65, "sort": 0.7}  # on the right cell; evenly spread: 0.2


def right_cell(task: Task, letters: list[str], row: int) -> int:
    """Where the row that writes the row-th letter should look."""
    places = {
        "copy": row,
        "reverse": len(letters) - 1 - row,
        "sort": letters.index(solve("sort", tuple(letters))[row]),
    }
    return places[task]


def best_head(task: Task, traces: list[Trace]) -> tuple[float, str]:
    """The largest mean weight on the right cells, of all cross-attention heads."""
    found = []
    for site in (site for site in traces[0].sites if site.kind == "cross"):
        for head in range(site.n_heads):
            weights = [
                traced.pattern(site.name)[head, row, right_cell(task, letters, row)]
                for traced in traces
                for letters in [traced.text.split()]
                for row in range(len(letters))
            ]
            found.append((float(np.mean(weights)), f"{site.name} head {head}"))
    return max(found)


@pytest.mark.parametrize("task", TASKS)
def test_a_toy_model_is_right_and_a_head_looks_where_it_must(task: Task) -> None:
    model = open_model(task)
    traces = [trace(model, row) for row in ROWS]
    for traced in (*traces, *(trace(model, row) for row in offered(task))):
        assert traced.output == " ".join(solve(task, tuple(traced.text.split())))
    share, name = best_head(task, traces)
    assert share > SHARE[task], name
    wrong: Task = "reverse" if task == "copy" else "copy"
    assert best_head(wrong, traces)[0] < share - 0.2


# The shipped model that reads pictures: it reads the drawn words and looks at their letters.


WORDS = ("Brown", "attention", "juMP5", "2026", "Lkz")
CHINESE = ("朋友", "我们喜欢读书", "3月5日")


@pytest.fixture(scope="module")
def read() -> dict[str, Trace]:
    loaded = open_model("reader")
    texts = [f"{word} @{face}" for face in FACES for word in WORDS + CHINESE]
    return {each: trace(loaded, each) for each in texts}


def test_most_words_in_faces_never_trained_on_are_read(read: dict[str, Trace]) -> None:
    right = [found.output == split_face(word)[0] for word, found in read.items()]
    assert np.mean(right) >= 0.9


def test_each_example_is_read() -> None:
    loaded = open_model("reader")
    for group in text.examples("reader").values():
        assert [trace(loaded, word).output for word in group] == [split_face(w)[0] for w in group]


def test_the_row_that_writes_a_letter_looks_at_where_it_is_drawn(read: dict[str, Trace]) -> None:
    loaded = open_model("reader")
    shares, even = [], []
    for word, found in read.items():
        drawn = letter_patches(word, loaded.config.picture)
        if len(found.tgt_tokens) == len(drawn) + 1:
            patterns = np.stack([found.pattern(site.name) for site in found.sites_of("cross")])
            shares.append((patterns[:, :, : len(drawn)] * drawn).sum(-1).mean(-1))
            even.append(drawn.mean())
    best = np.mean(shares, axis=0)  # [layer, head]
    assert best.max() >= 0.9
    assert np.mean(even) < 0.21


def test_every_face_has_ascii_and_the_characters_of_the_vocabulary() -> None:
    writer = open_model("reader").tokenizer.of("tgt")
    pieces = [writer.piece(token) for token in range(writer.vocab_size)]
    characters = "".join(each for each in pieces if len(each) == 1 and not each.isascii())
    plain, n = string.printable[:94], LONGEST - 1
    words = [plain[at : at + n] for at in range(0, len(plain), n)]
    both = plain + characters  # with a Chinese character, another font draws the whole word
    words += ["我" + both[at : at + n] for at in range(0, len(both), n)]
    for face in FACES:
        for word in words:
            drawn_word(f"{word} @{face}", 24, 96)


def test_a_picture_written_as_text_is_read_as_the_picture() -> None:
    loaded = open_model("reader")
    code = written(picture_of("Brown @serif", loaded.config.picture))
    assert len(code) < 1500
    assert trace(loaded, code).output == "Brown"


# What a page offers for its lesson, by shipped models: there the lesson shows. The twins: what
# training without the causal mask gains, and what it costs.


TELLING = tomllib.loads(asset("lessons", "telling.toml").read_text(encoding="utf-8"))


def told_by(lesson: str) -> list[tuple[str, str]]:
    return list(TELLING[lesson].items())


def test_every_lesson_here_is_tested_and_others_have_none() -> None:
    assert set(TELLING) == {"shuffle", "beam", "twins"}
    assert telling("beam", "somebody-elses") is None


@pytest.mark.parametrize(("model", "sentence"), told_by("shuffle"))
def test_shuffled_it_is_written_otherwise(model: str, sentence: str) -> None:
    shuffle = PositionsChoices().shuffle or 1
    texts = walked(four_texts(open_model(model), sentence, shuffle))
    assert texts.in_order != texts.shuffled


@pytest.mark.parametrize(("model", "sentence"), told_by("beam"))
def test_a_beam_ends_elsewhere_than_greedy_decoding(model: str, sentence: str) -> None:
    made, loaded = DecodingChoices(), open_model(model)
    beam, greedy = (
        generate(loaded, sentence, strategy, made.limit).text for strategy in (made.beam, Greedy())
    )
    assert beam != greedy


@pytest.mark.parametrize(("model", "sentence"), told_by("twins"))
def test_the_right_twin_translates_it_and_the_other_does_not(model: str, sentence: str) -> None:
    assert len(sentence) <= LONGEST_READ == read_recipe("twin-right", []).data.longest
    assert trace(open_model("twin-right"), sentence).output == "汤姆不在这里。"
    assert model.startswith(("en-", "twin-"))


@pytest.mark.parametrize("text", ["I like dogs.", "He is a teacher."])
def test_the_cheat_reads_better_and_writes_worse(text: str) -> None:
    right, cheat = twins(open_model(RIGHT), open_model(CHEAT), text)
    assert cheat.loss < 0.1 < right.loss
    assert len(right.writes) > 2
    assert len(cheat.writes) < len(right.writes)


def test_the_deep_twin_with_post_norm_has_learned() -> None:
    """It is shown beside the other placements; with their schedule it repeats one word."""
    loaded = open_model("twin-deep-post")
    assert trace(loaded, "Tom is not here.").output == "汤姆不在这里。"
    assert trace(loaded, "I love you.").output != trace(loaded, "She likes dogs.").output
