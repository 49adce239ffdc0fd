"""The sidebar's sentence and its target, and the line in which every page shows them."""

from shown import Open, reading

from explorer.text import t


def test_an_example_is_translated_at_once_and_goes_into_the_link(open_page: Open) -> None:
    at = open_page("heads")
    at.pills(key="sidebar.example.first").select("We went to the park yesterday.").run()
    assert "We went to the park yesterday" in reading(at, "→")
    assert at.text_area(key="sidebar.text").value == "We went to the park yesterday."
    assert at.query_params["text"] == "We went to the park yesterday."


def test_an_own_translation_is_read_instead(open_page: Open) -> None:
    at = open_page("heads")
    at.text_area(key="sidebar.target").set_value("我喜欢你").run()
    assert ":orange[我喜欢你]" in reading(at, "→")
    assert "(given translation, teacher forcing)" in reading(at, "→")
    assert at.query_params["target"] == "我喜欢你"


def test_a_story_teller_is_given_a_continuation_and_a_translator_a_translation(
    open_page: Open,
) -> None:
    for model, words in (("translator", "target"), ("writer", "continuation")):
        area = open_page("heads", model=model).text_area(key="sidebar.target")
        assert area.label == t(f"sidebar.{words}", lang="en")
        assert area.placeholder == t(f"sidebar.{words}_hint", lang="en")
        assert area.help == t(f"sidebar.{words}_help", lang="en")


def test_an_own_continuation_stands_behind_the_text_with_its_marks_escaped(open_page: Open) -> None:
    at = open_page("heads", model="writer", text="the fox", target="likes *the* dog")
    line = reading(at, ":green[the fox]")
    assert line.startswith(":green[the fox] **:orange[likes &#42;the&#42; dog]** (")
    assert ":orange" not in reading(open_page("heads", model="writer", text="the fox"), "the fox")
