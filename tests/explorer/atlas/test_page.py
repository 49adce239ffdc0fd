"""The atlas of a model: its map, the open head, its sentences."""

import shutil
from pathlib import Path

import pytest
from shown import charts, everything, link, panels

from explorer.analysis.atlas.make import home_of, over_file
from explorer.analysis.atlas.reading import scan
from explorer.analysis.atlas.store import Text, to_json
from explorer.engine import models as engine
from explorer.exhibits.atlas.sentences import beginning
from explorer.library import open_model
from explorer.runs.passes import walked
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
    atlas = walked(over_file(loaded, scan(path), credit="A corpus, CC BY"))
    home_of(loaded).mkdir()
    (home_of(loaded) / "atlas.json").write_text(to_json(atlas), encoding="utf-8")
    return folder


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_map_has_a_point_for_every_head_and_the_link_opens_one(open_page, lang):
    at = open_page("atlas", lang=lang, site="encoder", layer="2", head="3", across="first")
    traces = [trace for chart in charts(at, "atlas.map") for trace in chart["data"]]
    points = [p for trace in traces for p in trace.get("customdata", ()) if not isinstance(p, str)]
    assert sorted(point[0] for point in points) == list(range(28))
    place = t("atlas.place", lang=lang, kind=t("kinds.encoder", lang=lang), layer=2, head=3)
    assert place in everything(at)
    assert "A corpus" in everything(at)
    assert at.selectbox(key="atlas.across").value == "first"
    at.selectbox(key="atlas.up").set_value("depth").run()
    assert link(at)["up"] == "depth"


def test_a_sentence_is_chosen(open_page):
    at = open_page("atlas", site="cross", layer="1", head="1")
    sentences = at.radio(key="atlas.sentence")
    assert len(sentences.options) == 3
    sentences.set_value(2).run()
    assert link(at)["sentence"] == "3"
    assert panels(at, "atlas.pattern")
    shown = next(line for line in LINES if line.split("\t")[1] in sentences.options[2])
    assert f"{shown[-3:]} · A corpus" in everything(at)


def test_a_list_holds_beginnings_of_long_sentences():
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
    monkeypatch.setattr(engine, "texts_for", lambda _: texts)
    at = open_page("atlas", model="writer")
    at.segmented_control(key="circuits.more").set_value("more").run()
    said = everything(at)
    assert t("atlas.no_file", lang="en", model="writer", count=2) in said
    assert t("atlas.here_left", lang="en", count=1) in said
    assert t("atlas.about_rows", lang="en") in said
