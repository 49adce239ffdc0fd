"""The Masks page (notations, fills, padding, rules, painted cells) and the tests of masks."""

import re

import pytest
from shown import copied, everything, filled, link, panels, reading

from explorer.components.matrices import BLANK
from explorer.exhibits.masks.choices import READERS, RENDERINGS, WAYS
from explorer.text import t


def test_a_keep_mask_given_to_torchs_module_is_inverted_on_this_sentence(open_page):
    at = open_page("masks", part="conventions", site="decoder", layer="1", head="1")
    said = {name: int(value) for name, value in filled(at, "cases.notation.reading").items()}
    right, loud = said["right"], said["loud"]
    assert said["count"] == len(RENDERINGS) * len(READERS) == right + loud + said["silent"]
    (grid,) = panels(at, "cases.notation.grids")
    assert grid["words"].shape == (len(RENDERINGS), len(READERS))
    assert sum("right" in text for text in grid["words"].flat) == right
    assert sum("error" in text or text == "NaN" for text in grid["words"].flat) == loud
    assert "**inverted**" in reading(at, "” passed to “")
    assert "100 %" in reading(at, "” passed to “")
    at.segmented_control(key="masks.reader").set_value("sdpa").run()
    assert at.query_params["reader"] == "sdpa"
    assert "**right**" in reading(at, "” passed to “")
    at.segmented_control(key="masks.rendering").set_value("ones").run()
    assert "**wrong weights**" in reading(at, "” passed to “")
    at.segmented_control(key="masks.reader").set_value("true_hides").run()
    assert "**error**" in reading(at, "” passed to “")
    assert copied(at, "masked_fill")


def test_a_mask_that_blocks_nothing_says_so_and_lowered_scores_make_a_small_fill_leak(open_page):
    for part, words in (("conventions", "notation"), ("fills", "fill")):
        at = open_page("masks", part=part, site="encoder", layer="1", head="1", pads="0")
        assert t(f"cases.{words}.all_open", lang="en") in everything(at)
        at = open_page("masks", part=part, site="encoder", layer="1", head="1", pads="2")
        assert t(f"cases.{words}.all_open", lang="en") not in everything(at)
    at = open_page("masks", part="fills", site="decoder", layer="1", head="1", row="1")
    assert "visible keys, 0 leak weight" in reading(at, "torch rejects")
    at.slider(key="masks.lowered").set_value(12_000).run()
    assert at.query_params["lowered"] == "12000"
    assert "visible keys, 4 leak weight" in reading(at, "torch rejects")  # -1e4, in all four types
    assert t("cases.fill.own", lang="en") in reading(at, "torch rejects")


@pytest.mark.parametrize("way", WAYS)
def test_a_fill_that_is_added_twice_overflows(open_page, way):
    at = open_page("masks", part="fills", site="decoder", layer="1", head="1", way=way)
    found = filled(at, "cases.fill.reading")["nan"]
    assert found == ("8" if way == "twice" else "4")  # -inf alone, or the lowest number too


NOTHING = t("masks.nothing_changed", lang="en", exact="").removesuffix(".")
SAME = t("masks.batch_same", lang="en", exact="").removesuffix(".")


def test_weights_that_move_by_rounding_are_said_to_whatever_was_done(open_page):
    at = open_page("masks", pads="0")
    assert NOTHING in everything(at)
    for pads in (1, 8):
        at.slider(key="masks.pads").set_value(pads).run()
        assert NOTHING in everything(at)
        assert at.query_params["pads"] == str(pads)
    at = open_page("masks", pads="3", edits="pad_queries-on", beside="She reads.")
    assert NOTHING in everything(at)
    assert SAME in everything(at)


def test_seen_padding_changes_weights_and_no_causal_mask_the_translation(open_page):
    at = open_page("masks", pads="5")
    at.toggle(key="masks.pad_keys").set_value(False).run()
    assert NOTHING not in everything(at)
    assert 0.005 < float(filled(at, "masks.largest")["points"]) <= 100
    assert at.query_params["edits"] == "pad_keys-off"
    at = open_page("masks", pads="0", text="I like you because you are kind.")
    before = reading(at, "→")
    at.toggle(key="masks.causal").set_value(False).run()
    assert reading(at, "→") != before
    assert "-background[" in everything(at)
    at.toggle(key="masks.causal").set_value(True).run()
    assert reading(at, "→") == before
    assert "edits" not in at.query_params


def test_masks_can_be_seen_as_a_difference(open_page):
    at = open_page("masks", edits="cross_pad-off", pads="3")
    sides = [t(f"masks.{name}", lang="en") for name in ("before", "after")]
    assert [each["title"] for each in panels(at, "masks.sides")] == sides
    at.segmented_control(key="masks.picture").set_value("difference").run()
    (changed,) = panels(at, "masks.difference")
    assert changed["scale"]["palette"] == "diverging"
    assert all("before" in text and "points" in text for text in changed["cells"].ravel())
    at.segmented_control(key="masks.picture").set_value("scores").run()
    assert at.query_params["picture"] == "scores"
    whole, masked = panels(open_page("masks", **link(at)), "masks.scores")
    assert whole["scale"] == masked["scale"]
    assert (whole["codes"] < BLANK).all()


def test_further_rules_stand_in_the_link(open_page):
    at = open_page("masks", pads="0")
    at.slider(key="masks.window").set_value(1).run()
    assert at.query_params["edits"] == "window-1"
    assert "Sliding window: 1" in everything(at)
    at.toggle(key="masks.causal").set_value(False).run()
    assert at.slider(key="masks.prefix").disabled
    assert at.query_params["edits"] == "window-1~causal-off"
    at.slider(key="masks.window").set_value(0).run()
    assert at.query_params["edits"] == "causal-off"


def test_undo_and_redo_walk_through_the_changes(open_page):
    at = open_page("masks")
    assert "masks.undo" not in [each.key for each in at.button]
    at.toggle(key="masks.causal").set_value(False).run()
    at.slider(key="masks.block").set_value(2).run()
    at.button(key="masks.undo").click().run()
    assert at.query_params["edits"] == "causal-off"
    at.button(key="masks.undo").click().run()
    assert "edits" not in at.query_params
    assert "masks.undo" not in [each.key for each in at.button]
    at.button(key="masks.redo").click().run()
    assert at.query_params["edits"] == "causal-off"
    at.button(key="masks.reset").click().run()
    at.button(key="masks.undo").click().run()
    assert at.query_params["edits"] == "causal-off"
    assert at.button(key="masks.redo")


def test_painted_cells_are_counted_and_an_empty_row_is_explained(open_page):
    cells = "-".join(f"1.{key}" for key in range(2))
    at = open_page("masks", edits=f"cells-decoder-all-shut-{cells}", site="decoder")
    assert "cell (1, 0) blocked" in everything(at)
    assert "has nothing left to attend to" in everything(at)
    many = "-".join(f"{query}.0" for query in range(1, 5))
    edits = f"cells-decoder-all-shut-{many}~cells-encoder-all-shut-60.1"
    at = open_page("masks", edits=edits)
    assert t("edits.cells", lang="en", count=4) in everything(at)
    assert "&#45;60&#46;1" in everything(at)  # it does not fit, is named and kept
    assert at.query_params["edits"] == edits


def test_changed_masks_are_judged_under_teacher_forcing(open_page):
    assert t("masks.forced", lang="en") not in everything(open_page("masks"))
    assert t("masks.forced", lang="en") not in everything(open_page("masks", edits="causal-off"))
    at = open_page("masks", edits="causal-off", effect="forced")
    loss = filled(at, "masks.loss")
    assert loss["before"] != loss["after"]
    step = next(box for box in at.selectbox if box.key.startswith("masks.next."))
    rows = reading(at, t("masks.your_masks", lang="en") + " |")
    step.select(0).run()
    assert reading(at, t("masks.your_masks", lang="en") + " |") != rows


def test_the_beginning_of_a_prediction_is_what_the_model_read(open_page, add_own):
    at = open_page("masks", model="my-gpt2", edits="causal-off", effect="forced")
    (box,) = (box for box in at.selectbox if box.key.startswith("masks.next."))
    assert not any(option.startswith("<s>") for option in box.options)
    assert len(box.options[0].split()) == 1


def test_sentences_in_one_batch_notice_each_other_only_through_padding(open_page):
    others = "She reads a book every morning and every day."
    right = open_page("masks", beside=others)
    assert SAME in everything(right)
    wrong = open_page("masks", beside=others, edits="pad_keys-off")
    assert SAME not in everything(wrong)
    assert reading(wrong, "In the batch, a weight in")
    assert t("masks.batch", lang="en") not in everything(open_page("masks"))


def test_a_head_is_no_mask(open_page):
    words = everything(open_page("masks", edits="head-decoder.blocks.1.attn-0", effect="forced"))
    assert "without your changes, **" in words
    assert not re.search("correct masks|your masks", words)


def test_a_model_of_one_text_has_no_target(open_page):
    for model, head, named in (
        ("writer", "text_pads", {"text"}),
        ("translator", "pads", {"src", "tgt"}),
    ):
        words = everything(open_page("masks", model=model, text="a b", beside="a b c"))
        assert t(f"masks.columns.{head}", lang="en") + " |" in words
        at = open_page("mask_tests", model=model, tested="1", text="a b c")
        titles = {each[side]["title"] for each in panels(at) for side in ("rows", "columns")}
        streams = {name: t(f"streams.{name}", lang="en") for name in ("text", "src", "tgt")}
        assert {name for name in streams if any(streams[name] in each for each in titles)} == named
