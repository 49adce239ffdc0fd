"""The shipped checkpoints: small, described by cards, right on the sentences that are offered."""

import re
import string
import tomllib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from cores import core
from typecheck import unchecked

from benchmarks.telling import leads
from explorer import library, text
from explorer.analysis.atlas.make import find_atlas
from explorer.analysis.atlas.store import BEST, to_json
from explorer.analysis.mask_tests.certify import FINDINGS, examine_text
from explorer.analysis.positions.order import four_texts
from explorer.exhibits.card.facts import MOST_CHARS
from explorer.exhibits.decoding.choices import DecodingChoices
from explorer.exhibits.links import State
from explorer.exhibits.masks.twins import CHEAT, LONGEST as LONGEST_READ, RIGHT, twins
from explorer.exhibits.positions.choices import PositionsChoices
from explorer.exhibits.saying import reading_notes
from explorer.exhibits.view import build, first_sentence
from explorer.library import open_model
from explorer.runs.generation import generate
from explorer.runs.passes import walked
from explorer.runs.trace import trace
from explorer.text import examples, telling
from models import load_checkpoint
from models.checkpoint import CARD, CONFIG, TOKENIZER, WEIGHTS
from models.pictures import split_face
from models.pictures.faces import FACES, LONGEST, drawn_word
from models.strategies import Beam, Greedy
from models.training.corpus import Task, solve
from models.training.evaluate import translate
from models.training.home import asset
from models.training.recipe import read_recipe
from models.training.repetition import CONTINUATION, continued, repetition
from models.training.saving import SNAPSHOTS, snapshot_name, snapshots

ASSETS = Path(__file__).parents[2] / "assets"
FOLDERS = sorted(path.parent for path in (ASSETS / "checkpoints").glob(f"*/{CONFIG}"))
MEGABYTE = 1_000_000


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


ATLAS = "atlas"
"""The folder of what each head does over a corpus, which some have."""


def test_all_of_them_stay_small_and_every_lesson_is_tested() -> None:
    assert "en-zh" in [folder.name for folder in FOLDERS]  # the default model
    assert all(size(folder) <= 25 * MEGABYTE for folder in FOLDERS)
    assert sum(map(size, FOLDERS)) <= 64 * MEGABYTE
    assert set(TELLING) == {"shuffle", "beam", "twins"}
    assert telling("beam", "somebody-elses") is None


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_each_loads_and_its_card_gives_its_size(folder: Path) -> None:
    files = {CARD, "CARD.zh.md", CONFIG, TOKENIZER, WEIGHTS}
    assert {path.name for path in folder.iterdir()} - {SNAPSHOTS, ATLAS} == files
    for step in snapshots(folder):
        load_checkpoint(folder, f"{SNAPSHOTS}/{snapshot_name(step)}")
    checkpoint = load_checkpoint(folder)
    n_parameters = sum(p.numel() for p in checkpoint.model.parameters())
    card = (folder / CARD).read_text(encoding="utf-8")
    (stated, *_) = re.findall(r"([\d,]+)\s+parameters", card)
    assert int(stated.replace(",", "")) == n_parameters
    (stated, *_) = re.findall(r"([\d.]+)\s+MB", card)
    model = size(folder) - size(folder / ATLAS)
    assert float(stated) == round(model / MEGABYTE, 1)
    sentences = [s for group in text.examples(folder.name).values() for s in group]
    unknown = {sentence: checkpoint.tokenizer.unknown(sentence) for sentence in sentences}
    assert not any(unknown.values()), unknown


def numbers(text: str) -> list[str]:
    return re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?", text)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_both_cards_say_the_same_and_are_not_cut(folder: Path) -> None:
    english, chinese = (
        (folder / name).read_text(encoding="utf-8") for name in (CARD, "CARD.zh.md")
    )
    assert max(len(english), len(chinese)) < MOST_CHARS
    assert Counter(numbers(chinese)) == Counter(numbers(english))
    assert chinese.startswith(f"# {folder.name}：")
    headings = [re.findall(r"(?m)^(#+|-) ", card) for card in (english, chinese)]
    assert headings[0] == headings[1]


def test_the_deep_twin_has_learned() -> None:
    """It is shown beside the other placements; with their schedule it repeats one word."""
    loaded = open_model("twin-deep-post")
    assert trace(loaded, "Tom is not here.").output == "汤姆不在这里。"
    assert trace(loaded, "I love you.").output != trace(loaded, "She likes dogs.").output


def test_a_story_goes_on_and_not_round_in_circles() -> None:
    """Trained by likelihood alone it repeated 46 % of its 4-grams here."""
    checkpoint = load_checkpoint(ASSETS / "checkpoints" / "stories")
    groups = tomllib.loads((ASSETS / "sentences" / "stories.toml").read_text(encoding="utf-8"))
    given = [
        checkpoint.model.with_marks("tgt", checkpoint.tokenizer.encode(beginning))
        for beginnings in groups.values()
        for beginning in beginnings
    ]
    rows = continued(checkpoint.model, given, CONTINUATION)
    assert repetition([row[len(some) :] for row, some in zip(rows, given, strict=True)]) < 0.15


CORE = {"copy", "masked-en", "stories", "twin-learned"}
"""One of each design; `make sweep` examines all."""


@pytest.mark.parametrize("name", core((folder.name for folder in FOLDERS), CORE))
def test_the_masks_of_each_hold_every_promise(name: str) -> None:
    loaded = open_model(name)
    sentence = next(iter(text.examples(name).values()))[0]
    with unchecked():  # shapes are checked on small models
        certificate = examine_text(loaded, sentence).certificate()
    assert [(each.name, each.where) for each in certificate.broken] == []
    # A model of one text has no cross-attention, and an encoder no future to hide, nor a cache.
    left_out = 0 if loaded.config.reads_source else 1 if loaded.config.is_causal else 5
    left_out += loaded.config.positions == "none"
    assert len(certificate.findings) == len(FINDINGS) - left_out


NAMES = ("en-zh", "zh-en", "stories")


@pytest.mark.parametrize("name", NAMES)
def test_each_is_small_of_the_shipped_weights_and_credits_its_sentences(name: str) -> None:
    paths = sorted(library.CHECKPOINTS.glob("*/atlas/*"))
    assert [path.parts[-3:] for path in paths] == [
        (n, "atlas", "atlas.json") for n in sorted(NAMES)
    ]
    assert sum(path.stat().st_size for path in paths) <= MEGABYTE
    found = find_atlas(open_model(name))
    atlas = found.atlas
    assert to_json(atlas) == found.path.read_text(encoding="utf-8")
    assert all(len(best) == BEST for best in atlas.best)
    assert "CC BY 2.0 FR" in atlas.about.credit or "CDLA-Sharing-1.0" in atlas.about.credit
    if name != "stories":
        assert all("tatoeba.org" in text.credit for text in atlas.texts)
    assert atlas.counts["sentences"] > 20_000
    assert atlas.cost_sentences == 96


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


# No letter twice, so that each row has one right place to look at.
@pytest.mark.parametrize("task", TASKS)
def test_a_toy_model_is_right(task: Task) -> None:
    model = open_model(task)
    for row in ("c a b", "h e a d l i g", "t s r q p o n m", "k b f a r j c", *offered(task)):
        assert trace(model, row).output == " ".join(solve(task, tuple(row.split())))


WORDS = ("Brown", "attention", "juMP5", "2026", "Lkz")
CHINESE = ("朋友", "我们喜欢读书", "3月5日")


def test_each_example_and_most_words_in_faces_never_trained_on_are_read() -> None:
    loaded = open_model("reader")
    for word in offered("reader"):
        assert trace(loaded, word).output == split_face(word)[0]
    # Half of the words in each face, by turns.
    words = [(w, face) for at, face in enumerate(FACES) for w in (WORDS + CHINESE)[at % 2 :: 2]]
    right = [trace(loaded, f"{word} @{face}").output == word for word, face in words]
    assert np.mean(right) >= 0.9


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


TELLING = tomllib.loads(asset("lessons", "telling.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("model", "sentence"), TELLING["shuffle"].items())
def test_shuffled_it_is_written_otherwise(model: str, sentence: str) -> None:
    shuffle = PositionsChoices().shuffle or 1
    texts = walked(four_texts(open_model(model), sentence, shuffle))
    assert texts.in_order != texts.shuffled


@pytest.mark.parametrize(("model", "sentence"), TELLING["beam"].items())
def test_a_beam_ends_elsewhere_than_greedy_decoding(model: str, sentence: str) -> None:
    made, loaded = DecodingChoices(), open_model(model)
    beam, greedy = (
        generate(loaded, sentence, strategy, made.limit).text for strategy in (made.beam, Greedy())
    )
    assert beam != greedy


@pytest.mark.parametrize(("model", "sentence"), TELLING["twins"].items())
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


@pytest.mark.parametrize("model", ["en-zh", "zh-en", "stories"])
def test_the_sentence_of_a_first_visit_shows_the_lead_of_each_page(model: str) -> None:
    """Found by `python -m benchmarks.telling`."""
    told = dict(leads(open_model(model), first_sentence(model)))
    untrue = {"sure"} if model == "stories" else set()  # a story can go on in many ways
    assert {lead for lead, holds in told.items() if not holds} == untrue


@pytest.mark.parametrize("text", ["The cat sat on the mat because it was tired.", "Un café, s'il."])
def test_a_translator_that_guesses_says_so(text: str) -> None:
    view = build(State(lang="en", model="en-zh", text=text), dark=False)
    assert "The model is guessing at" in reading_notes(view, text, ())
    sure = build(State(lang="en", model="en-zh"), dark=False)
    assert reading_notes(sure, sure.text, ()) == ""
