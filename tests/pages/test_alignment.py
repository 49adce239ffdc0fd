"""The Alignment page: what its sentence says, its choices, its link, and bad input."""

from shown import everything, figure, link, reading

from explorer.text import t


def test_the_copier_links_each_letter_with_itself(open_page, shipped):
    at = open_page("alignment", model="copy", text="d o g")
    said = reading(at, "are aligned")
    assert "3 of 3 words of the translation are aligned (3 links" in said
    assert "3 of them are found by both models" in said
    assert "No two links cross" in said
    assert figure(at)["data"][0]["name"] == "both models"
    at.segmented_control(key="alignment.aligner").set_value("head").run()
    at.selectbox(key="alignment.head").set_value(3).run()
    assert link(at)["aligner"] == "head"
    assert (link(at)["layer"], link(at)["head"]) == ("1", "4")
    at.segmented_control(key="alignment.row").set_value("write").run()
    assert "layer 1 · head 4 (row that predicts the token)" in reading(at, "are aligned")
    at.selectbox(key="alignment.back").set_value("none").run()
    assert link(at)["back"] == "none"
    assert t("alignment.one_way", lang="en") in everything(at)
    assert not [box for box in at.selectbox if box.key == "alignment.symmetrise"]


def test_one_link_shows_no_order(open_page, shipped):
    said = reading(open_page("alignment", model="copy", text="d"), "is aligned")
    assert "(1 link" in said
    assert "cross" not in said


def test_the_reverser_crosses_every_pair_of_links(open_page, shipped):
    at = open_page("alignment", model="reverse", text="d o g", symmetrise="intersection")
    assert "3 pairs of links cross" in reading(at, "are aligned")
    at = open_page("alignment", model="reverse", text="d o g", part="matrices")
    assert "Of 8 cross-attention matrices" in reading(at, "matrices")
    assert "known answer of the task" in everything(at)


def test_heads_that_align_equally_well_are_all_named(open_page, shipped):
    at = open_page("alignment", model="reader", text="hello", part="matrices")
    said = reading(at, "matrices")
    assert "3 are closest to the known answer: 1.00" in said
    tied = said.partition("They tie: ")[2].partition(". ")[0]
    assert tied.count("layer ") == 3
    fewest = said.partition("come from ")[2]
    assert fewest.count("layer ") == 3


def test_without_a_model_of_the_other_direction_the_page_says_so(open_page):
    at = open_page("alignment", part="matrices")  # the test's own en-zh has no zh-en beside it
    assert t("alignment.score_sharpness", lang="en") in everything(at)
    assert "does not say whether a head points to the right word" in everything(at)


def test_a_model_of_one_text_shows_what_there_is_instead(open_page):
    at = open_page("alignment", model="writer", part="matrices")
    assert [each.value for each in at.info] == [t("alignment.no_cross", lang="en")]
    assert at.get("plotly_chart")
    assert "of its attention" in reading(at, "In layer")
