"""The Workshop page: a program is graded, drawn, and put into the model."""

from shown import Open, everything, has_picture, link, reading

from explorer.analysis.workshop.tasks import tasks
from explorer.text import t


def test_the_starter_of_the_first_task_is_told_what_it_sees(open_page: Open) -> None:
    at = open_page("workshop")
    assert not at.exception
    assert not at.warning
    assert reading(at, "Query 0 sees key 1: the future.")
    assert has_picture(at)


def test_a_right_program_passes_and_is_kept_in_the_link(open_page: Open) -> None:
    at = open_page("workshop")
    at.text_area(key="workshop.code.causal").set_value(tasks()[0].reference).run()
    assert not at.exception
    assert "Right: all" in everything(at)
    assert t("workshop.certified", lang="en", count=12) in everything(at)
    assert link(at)["solved"] == "causal"
