"""The Word alignment page: links, heads and both directions."""

from shown import charts, everything, link, reading

from explorer.text import t


def test_the_copier_links_each_letter_with_itself(open_page, shipped):
    at = open_page("alignment", model="copy", text="d o g")
    said = reading(at, "are aligned")
    assert "3 of 3 target words are aligned (3 links" in said
    assert "both models" in str(charts(at, "alignment.lines"))
    at.segmented_control(key="alignment.aligner").set_value("head").run()
    at.selectbox(key="alignment.head").set_value(3).run()
    assert link(at)["aligner"] == "head"
    assert (link(at)["layer"], link(at)["head"]) == ("1", "4")
    at.segmented_control(key="alignment.row").set_value("write").run()
    assert "L1·H4 (row that predicts the token)" in reading(at, "are aligned")
    at.selectbox(key="alignment.back").set_value("none").run()
    assert link(at)["back"] == "none"


def test_one_link_is_counted_and_equal_heads_are_all_named(open_page, shipped):
    alone = reading(open_page("alignment", model="copy", text="d"), "is aligned")
    assert "(1 link)" in alone
    at = open_page("alignment", model="reverse", text="d o g", part="matrices")
    assert "Of 8 cross-attention heads" in reading(at, "at two rows")
    assert "held-out sequences of the task" in everything(at)
    at = open_page("alignment", model="reader", text="hello", part="matrices")
    assert reading(at, "the best scores 1.00 (1 − error rate").count("·H") == 3
    assert reading(at, "The lowest error rate of one head").count("·H") == 3


def test_without_the_other_direction_or_a_source_the_page_says_so(open_page):
    at = open_page("alignment", part="matrices")  # the test's own en-zh has no zh-en beside it
    assert t("alignment.scores.sharpness", lang="en") in everything(at)
    assert "no evidence of alignment" in everything(at)
    at = open_page("alignment", model="writer", part="matrices")
    assert t("needs.translation", lang="en") in [each.value for each in at.info]
