"""The shipped model that reads pictures: it reads the drawn words and looks at their letters."""

import string

import numpy as np
import pytest

from explorer import text
from explorer.library import open_model
from explorer.runs.trace import Trace, trace
from models.pictures import letter_patches, picture_of, split_face, written
from models.pictures.faces import FACES, LONGEST, drawn_word

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
