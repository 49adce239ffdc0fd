"""The Atlas page: its map, the open head, its sentences, two models, the search; bad links."""

import shutil
from pathlib import Path

import pytest
from shown import everything, figure, link

from explorer.analysis.atlas.make import Making
from explorer.analysis.atlas.reading import scan
from explorer.analysis.atlas.store import Text
from explorer.exhibits.atlas import measured
from explorer.exhibits.atlas.choices import AtlasChoices
from explorer.exhibits.atlas.sentences import beginning, passes
from explorer.exhibits.choices import RefusedError, joined, pairs
from explorer.library import open_model
from explorer.text import t

LINES = (
    "I like you.\t我喜欢你。\tann",
    "She reads a book every morning.\t她每天早上看书。\tben",
    "We went to the park.\t我们去了公园。\tcyd",
)


@pytest.fixture(scope="module")
def shelf(shelf, tmp_path_factory) -> Path:
    """The small shelf, its translator with an atlas of three pairs beside it."""
    folder = tmp_path_factory.mktemp("atlas") / "shelf"
    shutil.copytree(shelf, folder)
    path = folder.parent / "pairs.tsv"
    path.write_text("\n".join(LINES), encoding="utf-8")
    loaded = open_model(folder / "en-zh")
    making = Making(loaded, scan(path), folder / "en-zh" / "atlas", credit="A corpus, CC BY")
    making.begin()
    for unit in making.units:
        making.write(unit)
    making.finish()
    return folder


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_map_has_a_point_for_every_head_and_the_link_opens_one(open_page, lang):
    at = open_page("atlas", lang=lang, site="encoder", layer="2", head="3", across="first")
    points = [p for trace in figure(at)["data"] for p in trace.get("customdata", ())]
    assert sorted(point[0] for point in points) == list(range(28))
    place = t("atlas.place", lang=lang, kind=t("kinds.encoder", lang=lang), layer=2, head=3)
    assert place in everything(at)
    assert "A corpus" in everything(at)
    assert at.selectbox(key="atlas.across").value == "first"
    at.selectbox(key="atlas.up").set_value("depth").run()
    assert link(at)["up"] == "depth"


def test_a_sentence_is_chosen_and_filtered(open_page):
    at = open_page("atlas", site="cross", layer="1", head="1")
    sentences = at.radio(key="atlas.sentence")
    assert len(sentences.options) == 3
    sentences.set_value(2).run()
    assert link(at)["sentence"] == "3"
    at.text_input(key="atlas.containing").set_value("PARK").run()
    assert len(at.radio(key="atlas.sentence").options) == 1
    at.text_input(key="atlas.containing").set_value("elephant").run()
    assert t("atlas.filtered_none", lang="en", count=3) in everything(at)


def test_filters_are_by_length_word_and_number_and_lists_hold_beginnings():
    text = Text("She runs fast.", "她跑得快。")
    for choices, kept in (
        (AtlasChoices(), True),
        (AtlasChoices(shortest=5), True),
        (AtlasChoices(shortest=6), False),
        (AtlasChoices(longest=4), False),
        (AtlasChoices(containing="run*"), True),
        (AtlasChoices(containing="ru?"), False),
        (AtlasChoices(containing="跑"), True),
        (AtlasChoices(containing="walk"), False),
        (AtlasChoices(least=70), True),
        (AtlasChoices(least=71), False),
    ):
        assert passes(choices, text, 5, 0.7) == kept, choices
    assert not passes(AtlasChoices(least=1), text, 5, float("nan"))
    assert beginning("a b c") == "a b c"
    assert beginning("字" * 160) == "字" * 160
    assert beginning("word " * 40) == ("word " * 32).rstrip() + " …"


def test_a_model_without_an_atlas_is_measured_over_the_sentences_at_hand_that_can_be(
    open_page, monkeypatch
):
    at = open_page("atlas", model="reader")
    assert "headlight atlas reader" in everything(at)
    assert at.get("plotly_chart")
    texts = Text("She went to the park."), Text("We saw a cat."), Text("the cat " * 700)
    monkeypatch.setattr(measured, "texts_for", lambda _: texts)
    said = everything(open_page("atlas", model="writer"))
    assert t("atlas.no_file", lang="en", model="writer", count=2) in said
    assert t("atlas.here_left", lang="en", count=1) in said
    assert t("atlas.about_rows", lang="en") in said


def test_two_models_are_compared_and_a_missing_one_is_refused(open_page):
    at = open_page("atlas", part="compare", against="writer")
    assert t("atlas.other_family", lang="en", other="writer") in everything(at)
    at = open_page("atlas", part="compare", model="reader", against="headless")
    assert "| headless |" in everything(at)
    at = open_page("atlas", part="compare", against="nowhere")
    assert "nowhere" in everything(at)


def test_pairs_of_a_link_are_read_once_each():
    assert pairs("2-1_3-0_2-1") == ((2, 1), (3, 0))
    assert joined(((2, 1), (3, 0))) == "2-1_3-0"
    for bad in ("2", "1-a", "1-2_", "1-2-3"):
        with pytest.raises(RefusedError):
            pairs(bad)
