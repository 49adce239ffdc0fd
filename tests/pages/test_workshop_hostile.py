"""Programs that want to end the page, or a class's table, with what they say: none may."""

from urllib.parse import urlencode

import pytest
from hostile import BODIES, VALUES, answers
from shown import Open, everything

from explorer.analysis.workshop.tasks import tasks
from explorer.exhibits.workshop.choices import write_programs
from explorer.text import t

FORMS = ("causal", "alibi", "softmax", "mend_after", "check_causal")
"""A mask, a matrix of numbers, a row of them, a repair, a check."""


def check(open_page: Open, task: str, first: int, step: int) -> None:
    (function,) = (each.function for each in tasks() if each.id == task)
    at = open_page("workshop", task=task)
    for code in list(answers(function))[first : len(VALUES) + len(BODIES) : step]:
        at.text_area(key=f"workshop.code.{task}").set_value(code).run()
        assert not at.exception, code


@pytest.mark.parametrize("form", range(len(FORMS)), ids=FORMS)
def test_no_answer_raises_on_the_page(open_page: Open, form: int) -> None:
    check(open_page, FORMS[form], form, len(FORMS))


@pytest.mark.sweep
@pytest.mark.parametrize("task", FORMS)
def test_no_answer_raises_on_any_form_of_page(open_page: Open, task: str) -> None:
    check(open_page, task, 0, 1)


def test_a_hostile_link_ends_no_teachers_table(open_page: Open) -> None:
    at = open_page("workshop", part="sheets")
    links = []
    for deed in ("workshop_values.clear()", "workshop_values.append(1)"):
        code = f"def may_attend(q, k):\n    {deed}\n    return True"
        said = {"solver": "a", "solved": "causal", "programs": write_programs((("causal", code),))}
        links.append(f"http://x/?{urlencode(said)}")
    at.text_area(key="workshop.pasted").set_value("\n".join(links)).run()
    assert not at.exception
    assert t("workshop.claimed", lang="en") in everything(at)
