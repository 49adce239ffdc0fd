"""The Heads page: what its link opens, what it sends the picture, what it reads out."""

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import pytest
from shown import code_on, copied, everything, filled, panels, payload, reading, with_titles
from streamlit.testing.v1 import AppTest

from explorer import library
from explorer.analysis.heads.words import by_word, words_of
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.exhibits.block import escape, plain
from explorer.exhibits.heads.exports import folder_of
from explorer.exhibits.heads.opened import Opened
from explorer.exhibits.heads.picture import KEYS, shown_svg
from explorer.exhibits.links import State
from explorer.exhibits.view import build
from explorer.figures.theme import show
from explorer.guard import EMBEDDING
from explorer.library import StoredWeights, open_model
from explorer.numbers import percent
from explorer.render import drawing
from explorer.runs import activations
from explorer.runs.trace import trace
from explorer.shell import LINKS
from explorer.text import t
from models.hooks import ROLES


def sent(at: AppTest) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What the picture of all heads was sent: head and arrays."""
    return payload(at, "heads.view")


def chosen(at: AppTest) -> dict[str, Any]:
    return dict(sent(at)[0]["chosen"])


def titles(at: AppTest) -> tuple[str, str]:
    head, _ = sent(at)
    return head["queries"]["title"], head["keys"]["title"]


def test_all_heads_are_sent_and_the_opened_one_exactly_with_what_blocks_its_cells(open_page):
    at = open_page("heads", site="decoder", layer="2", head="4")
    head, arrays = sent(at)
    assert head["labels"][:8] == [f"L{layer}·H{h}" for layer in (1, 2) for h in (1, 2, 3, 4)]
    assert head["labels"][8:] == ["L1 avg", "L2 avg", "Rollout"]
    assert (chosen(at)["opened"], chosen(at)["shown"]) == (7, [7])
    assert arrays["exact"].shape[0] == 1
    assert "L2·H4" in reading(at, "attends to")
    assert chosen(at)["reasons"] == [t("blockers.causal", lang="en")]
    blocked = arrays["blocked"][0]
    np.testing.assert_array_equal(blocked > 0, np.triu(np.ones_like(blocked), 1) > 0)


TEXT = "She reads a book every morning."  # on which the small model writes several tokens
HERE = {"text": TEXT, "layer": "1", "head": "1"}


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (
            {"pins": "2.3_mean-1", "scale": "log", "own_range": "1", "row": "2", "key": "3"},
            {"opened": 0, "pinned": [6, 8], "scale": "log", "shared": False, "query": 2, "key": 3},
        ),
        ({"row": "2", "key": "900"}, {"query": 2, "key": None}),
        ({"row": "free", "key": "3"}, {"query": None, "key": None}),
        ({"key": "3"}, {"key": None}),
        ({"pins": "9.9_mean-7"}, {"pinned": []}),
    ],
)
def test_what_is_open_pinned_and_chosen_comes_from_the_link(open_page, params, expected):
    at = open_page("heads", **HERE, **params)
    assert chosen(at).items() >= expected.items()
    assert "attends to “" in reading(at, "attends to")
    assert params.get("row") in (None, at.query_params.get("row"))


@pytest.mark.parametrize(("site", "name"), [("decoder", "mean-2"), ("encoder", "rollout")])
def test_extras_open_like_heads_and_are_read_by_their_name(open_page, site, name):
    closed = open_page("heads", text=TEXT, site=site, instead="none")
    assert chosen(closed)["opened"] is None
    assert t("heads.closed", lang="en") in everything(closed)
    at = open_page("heads", text=TEXT, site=site, instead=name, row="2")
    label = {"mean-2": "L2 avg", "rollout": "Rollout"}[name]
    head, _ = sent(at)
    assert head["labels"][chosen(at)["opened"]] == label
    assert reading(at, "attends to").startswith(f"{label}: ")
    assert "heads.off" not in {toggle.key for toggle in at.toggle}


def test_a_measure_is_written_under_each_head_and_can_sort_them(open_page):
    at = open_page("heads", site="encoder")
    assert sent(at)[0]["measure"] is None
    at.selectbox(key="heads.measure").select("previous").run()
    measure = sent(at)[0]["measure"]
    assert measure["name"] == t("heads.measures.previous", lang="en")
    assert all(text.endswith(" %") for text in measure["texts"])
    n = len(sent(at)[0]["keys"]["tokens"])  # each row attends to all tokens
    assert f"under uniform attention: {percent(1 / n)}" in everything(at)
    assert at.query_params["measure"] == "previous"
    sorted_too = open_page("heads", site="encoder", measure="previous", by_measure="1")
    assert chosen(sorted_too)["by_measure"]
    other = open_page("heads", site="cross", measure="diagonal")  # of self-attention only
    assert other.selectbox(key="heads.measure").value == ""
    assert sent(other)[0]["measure"] is None


def test_the_language_switch_changes_every_word_and_keeps_the_picture(open_page):
    at = open_page("heads", lang="en", layer="2", head="3")
    before = sent(at)[1]["exact"]
    at.segmented_control(key="sidebar.lang").set_value("zh").run()
    assert t("heads.lead", lang="zh") in everything(at)
    assert t("heads.lead", lang="en") not in everything(at)
    np.testing.assert_array_equal(sent(at)[1]["exact"], before)
    assert at.query_params["lang"] == "zh"
    assert titles(at) == ("查询 · 目标序列", "键 · 源序列")


def press(at: AppTest, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Press a button above the heads that Python answers."""
    with monkeypatch.context() as patched:
        patched.setattr(drawing, "heads_view", lambda *_, on_asked, **__: on_asked())
        patched.setattr(drawing, "sent", lambda key, event: {"asked": name}[event])
        at.run()
    at.run()


def test_another_kind_or_model_has_its_own_axes_and_forgets_the_place(open_page, monkeypatch):
    at = open_page("heads", pins="2.1")
    assert titles(at) == ("query · target", "key · source")
    press(at, monkeypatch, "another")  # not one of its buttons
    assert titles(at) == ("query · target", "key · source")
    bar = sent(at)[0]["bar"]
    assert (bar["kind"], bar["kinds"]) == ("cross", [*ROLES])
    press(at, monkeypatch, "encoder")
    assert titles(at) == ("query · source", "key · source")
    assert at.query_params["site"] == "encoder"
    assert "pins" not in at.query_params
    at = open_page("heads", layer="2", head="3", pins="1.1")
    at.selectbox(key="sidebar.model").select("writer").run()
    assert not at.warning
    assert titles(at) == ("query · text", "key · text")
    assert at.query_params["model"] == "writer"
    assert "layer" not in at.query_params
    assert "pins" not in at.query_params


def test_switching_a_head_off_says_what_became_of_the_translation(open_page):
    at = open_page("heads", site="cross", layer="1", head="2")
    at.toggle(key="heads.off").set_value(True).run()
    assert "Cross-attention, L1·H2: ablated" in everything(at)
    assert at.query_params["edits"] == "head-decoder.blocks.0.cross_attn-1"
    said = t("edits.same", lang="en"), t("edits.changed", lang="en", words="")
    assert any(words in everything(at) for words in said)
    at.button(key="heads.reset").click().run()
    assert "edits" not in at.query_params
    assert not at.toggle(key="heads.off").value


def test_two_heads_side_by_side_are_subtracted_and_the_encoder_asks_for_a_token(open_page):
    place = {"site": "encoder", "layer": "1", "head": "2"}
    at = open_page("heads", text=TEXT, **place, measure="needed")
    first = reading(at, "How much does L1·H2")
    at.selectbox(key="heads.token").select(2).run()
    assert reading(at, "How much does L1·H2") != first
    assert at.query_params["step"] == "3"
    at = open_page("heads", layer="1", head="1", pins="2.2")
    words = t("heads.difference", lang="en", one="L2·H2", other="L1·H1")
    assert words in everything(at)
    (drawn,) = panels(at, "heads.difference")
    (_, low), (_, middle), (_, high) = drawn["scale"]["ticks"]
    assert (low[1:], middle) == (high[1:], "0")
    alone = open_page("heads", layer="1", head="1")
    assert words not in everything(alone)


def test_the_code_of_a_model_of_ones_own_has_its_folder(tmp_path):
    """Only its name where an upload's is gone, and where others would read a server's paths."""
    shipped = replace(open_model("copy"), folder=library.CHECKPOINTS / "copy")
    own = replace(shipped, folder=tmp_path / "own")
    uploaded = replace(own, was_stored=StoredWeights(0, ()))
    folders = [folder_of(each, is_local=True) for each in (shipped, own, uploaded)]
    assert folders == [None, tmp_path / "own", Path("own")]
    assert folder_of(own, is_local=False) == Path("own")


def test_the_link_and_the_code_of_the_view_can_be_taken_away(open_page, monkeypatch):
    params = {"site": "encoder", "layer": "2", "head": "3", "pins": "1.1", "text": "I like <you>."}
    at = open_page("heads", **params)
    assert copied(at, plain(reading(at, "attends to")))
    assert dict(parse_qsl(copied(at, "site=").split("?")[1])) == {**params, "lang": "en"}
    assert "traced.pattern('encoder.blocks.1.attn')[2]" in code_on(at)
    assert "I like <you>." in code_on(at)
    kinds = {button.proto.label for button in at.get("download_button")}
    assert {t(f"take.{kind}", lang="en") for kind in ("svg", "html", "npz")} <= kinds
    rolled = open_page("heads", site="encoder", instead="rollout")
    assert "rollout(traced, 'encoder')" in code_on(rolled)
    assert not code_on(open_page("heads", instead="mean-1"))
    monkeypatch.setenv(EMBEDDING, "https://example.org")
    line = copied(open_page("heads", **params), "<iframe")
    assert "&amp;embed=1" in line
    assert "<you>" not in line


def test_what_is_downloaded_is_what_is_shown(app):
    place = {"layer": 0, "head": 0, "pins": ((1, 1),)}
    chosen = LINKS.change(State(), **place, text='I like <you>."><img src=x>')
    shown, of_one_text = (
        Opened(build(state, dark=False)) for state in (chosen, State(model="writer", text="I am."))
    )
    svg = shown_svg(shown)
    assert all(head in svg for head in ("L1·H1", "L2·H2"))
    assert "&lt;" in svg
    assert not re.search("<you|<img src", svg)
    assert "query · text" in shown_svg(of_one_text)  # it has no target


def test_a_second_sentence_stands_beside_with_the_same_head_open(open_page):
    second = "She reads a book."
    at = open_page("heads", beside=f"{second}\nWe went.", layer="2", head="3", site="encoder")
    left, right = (payload(at, name)[0] for name in KEYS)
    assert left["chosen"]["opened"] == right["chosen"]["opened"] == 6
    assert left["queries"]["tokens"] != right["queries"]["tokens"]
    unnamed = open_page("heads", beside=second)
    left, right = (payload(unnamed, name)[0]["chosen"] for name in KEYS)
    assert left["opened"] == right["opened"]
    assert second in everything(at).replace("&#46;", ".")
    unread = open_page("heads", beside="a " * 600)
    assert [each.key for each in unread.main.get("bidi_component")] == ["heads.view"]
    assert unread.error or unread.warning


def test_a_row_says_what_it_is_about_to_write_and_a_given_translation_both(open_page):
    own = trace(open_model("en-zh", library.CHECKPOINTS), "We went to the park yesterday.")
    rows = zip(own.tgt_str_tokens, own.predicted_str_tokens, strict=True)
    labels = [f"{show(token)} ⟶ {show(after)}" for token, after in rows]
    for site, expected in (("cross", labels), ("decoder", labels), ("encoder", None)):
        head, _ = sent(open_page("heads", text=own.text, site=site))
        assert head["queries"].get("labels") == expected
    text, target = "We went to the park yesterday.", "我喜欢你，因为你很善良。"
    own = trace(open_model("en-zh", library.CHECKPOINTS), text, target)
    row = next(
        row
        for row, given in enumerate(own.tgt_str_tokens[1:])
        if given != own.predicted_str_tokens[row]
    )
    said = reading(open_page("heads", text=text, target=target, row=str(row)), "the text continues")
    for token in (own.predicted_str_tokens[row], own.tgt_str_tokens[row + 1]):
        assert escape(token) in said


def test_the_tokens_of_a_word_are_one_where_the_link_says_so(open_page):
    link = {"text": "unbelievable dogs.", "site": "encoder", "layer": "1", "head": "1"}
    traced = trace(open_model("en-zh", library.CHECKPOINTS), link["text"])
    words = words_of(traced.src_str_tokens)
    assert len(words.labels) < len(traced.src_str_tokens)  # some word has several tokens
    last = len(traced.src_str_tokens) - 1
    at = open_page("heads", **link, words="1", row=str(last + 1))
    assert sent(at)[0]["queries"]["tokens"] == [show(label) for label in words.labels]
    pattern = by_word(traced.pattern("encoder.blocks.0.attn")[:1], words, words)[0]
    row = words.of(last)
    assert chosen(at)["query"] == row
    top = int(pattern[row].argmax())
    said = reading(at, "attends to")
    assert f"“{escape(words.labels[row])}”" in said
    assert f"“{escape(words.labels[top])}” ({percent(float(pattern[row, top]))})" in said


def test_a_word_of_several_tokens_to_fill_in_has_no_prediction(open_page, shelf):
    link = {"model": "reader", "text": "unbelievable dogs.", "layer": "1", "head": "1"}
    starts = words_of(trace(open_model("reader", shelf), link["text"]).tgt_str_tokens).starts
    for word, (first, end) in enumerate(pairwise(starts)):
        at = open_page("heads", **link, words="1", row=str(first))
        is_one = end - first == 1
        assert ("⟶" in sent(at)[0]["queries"]["labels"][word]) is is_one
        assert ("predicts" in reading(at, "attends to")) is is_one
    assert {end - first == 1 for first, end in pairwise(starts)} == {True, False}


def test_the_mean_of_ablated_heads_is_not_called_blocked(open_page):
    off = "~".join(f"head-encoder.blocks.0.attn-{head}" for head in range(4))
    at = open_page("heads", site="encoder", edits=off, instead="mean-1")
    assert reading(at, "is empty").startswith("L1 avg")


def test_the_heads_of_a_long_text_come_layer_by_layer_and_measures_when_chosen(
    open_page, monkeypatch
):
    monkeypatch.setattr(activations, "WHOLE_BYTES", 0)  # as if this text were long
    monkeypatch.setattr(activations, "PATTERN_BYTES", 0)
    asked = []
    maps = cache.measure_maps
    monkeypatch.setattr(cache, "measure_maps", lambda *of: asked.append(of) or maps(*of))
    at = open_page("heads", text="We went to the dogs.", site="encoder")
    head, arrays = sent(at)
    assert (head["chosen"]["opened"], head["measure"], asked) == (0, None, [])
    assert len(arrays["cells"]) == len(head["labels"]) > 0
    head, _ = sent(open_page("heads", text="We went to the dogs.", measure="entropy"))
    assert head["measure"]["name"] == t("heads.measures.entropy", lang="en")
    assert len(asked) == 1


def test_the_map_of_heads_marks_what_is_off_and_names_the_most_needed(open_page):
    at = open_page("heads", edits="head-decoder.blocks.0.cross_attn-1", measure="needed")
    for shown in panels(at, "heads.map"):
        off = np.argwhere(shown["words"] == "✕").tolist()
        assert off == [[0, 1]] * (shown["title"] == t("kinds.cross", lang="en"))
    assert t("edits.reset", lang="en") in {button.label for button in at.button}
    needed = filled(at, "heads.matter.reading")["name"]
    at.button(key="heads.open_needed").click().run()
    assert needed == f"L{at.query_params['layer']}·H{at.query_params['head']}"


def test_heads_are_ablated_only_when_asked_for_and_the_link_asks_too(open_page, monkeypatch):
    at = open_page("heads", text="We went to the park.")
    title = t("heads.matter.title", lang="en")
    assert sent(at)[0]["bar"]["matter"] == t("heads.matter.run", lang="en")
    assert title not in with_titles(at)
    assert not cache.ablation.is_kept(Run("en-zh", "We went to the park."))
    press(at, monkeypatch, "needed")
    assert sent(at)[0]["measure"]["name"] == t("heads.measures.needed", lang="en")
    assert "matter" not in sent(at)[0]["bar"]
    assert title in with_titles(at)
    assert at.query_params["measure"] == "needed"
    at.selectbox(key="heads.measure").select("").run()
    assert title not in with_titles(at)


def test_one_click_finds_the_head_of_each_role(open_page):
    for site, names in (("cross", {"first", "end_mark", "alignment"}), ("encoder", {"previous"})):
        at = open_page("heads", site=site)
        roles = dict(sent(at)[0]["bar"]["roles"])
        measures = cache.measures(Run("en-zh", at.text_area(key="sidebar.text").value), site)
        for name in names:
            best = measures[name].argmax()
            label = f"{t(f'heads.roles.{name}', lang='en')} {percent(measures[name].max())}"
            assert roles[label] == best
