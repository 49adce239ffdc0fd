"""The path: answering, what a link may say, a teacher's sheet, a class."""

from urllib.parse import parse_qs, urlsplit

import pytest
from foreign import OWN
from shown import code_on, everything, link, messages, with_titles
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Radio

from explorer import library
from explorer.exhibits.choices import RefusedError
from explorer.exhibits.links import State
from explorer.exhibits.tour.choices import (
    CHAPTER_OF,
    CHAPTERS,
    StepAnswer,
    read_answers,
    write_answers,
)
from explorer.exhibits.tour.course import ENTRIES, STEPS, number_of
from explorer.exhibits.tour.learners import MOST_LINKS, read_results
from explorer.exhibits.tour.posed import Missing, found_by
from explorer.exhibits.tour.sheet import LESSONS
from explorer.exhibits.view import build
from explorer.pages import PAGES
from explorer.text import LANGUAGES, t

LONG = {"target": "我喜欢你，因为你很善良。"}
"""A translation with enough tokens for the steps about masks."""
TITLES = {name: t(f"tour.steps.{name}.title", lang="en") for name in STEPS}


def words(key: str, **values: object) -> str:
    return t(f"tour.{key}", lang="en", **values)


def question(at: AppTest) -> "Radio[str]":
    return next(each for each in at.radio if str(each.key).startswith("tour.ask."))


def answer(at: AppTest, option: int) -> AppTest:
    return question(at).set_value(option).run()


def answers_of(at: AppTest) -> str:
    return link(at)["answers"]


def keys(at: AppTest, begun: str) -> list[str]:
    """What is left of the keys of buttons that begin so."""
    return [e.key.removeprefix(begun) for e in at.button if str(e.key).startswith(begun)]


def title(at: AppTest) -> str:
    return next(each.value for each in at.subheader if " · " in each.value).partition(" · ")[2]


def test_the_answer_comes_after_the_question_and_comes_back_from_its_link(open_page):
    at = open_page("tour", lesson="blocked", **LONG)
    assert "÷ 2" not in everything(at)
    assert len(question(at).options) == 4
    at = answer(at, 1)
    assert not at.radio
    said = everything(at)
    assert "÷ 2" in said
    misread = [
        t(f"tour.misread.{name}", lang="en")
        for name in CHAPTERS["masks"]["steps"]["blocked"]["wrong"]
    ]
    (misreading,) = (words for words in misread if words in said)  # the second option is wrong
    assert said.index("÷ 2") < said.index(f": {misreading}")
    assert "radio_button" not in said
    step, option, right, _ = answers_of(at).split(".")
    assert (step, option) == ("blocked", "2")
    assert (words("right", answer="")[:6] in said) == (right == "1")
    assert not open_page("tour", **link(at)).radio
    answers = (StepAnswer("look", 2, True, "k3f"), StepAnswer("sees", 0, False, "9ab1"))
    assert write_answers(answers) == "look.3.1.k3f~sees.1.0.9ab1"
    assert read_answers(write_answers(answers)) == answers
    with pytest.raises(RefusedError):
        read_answers("look.0.1.abc")
    with pytest.raises(RefusedError):
        read_answers("~".join(f"look{at}.1.1.abc" for at in range(201)))


def test_the_first_answer_counts_and_the_same_question_is_not_asked_again(open_page):
    at = answer(open_page("tour", lesson="sees", **LONG), 1)
    given = answers_of(at)
    at.button(key="tour.next").click().run()
    assert title(at) == TITLES["blocked"]
    at.button(key="tour.back").click().run()
    assert not at.radio
    assert answers_of(at) == given


def test_a_link_that_claims_a_right_answer_is_put_right_and_another_sentence_asks_anew(open_page):
    tried = (answer(open_page("tour", lesson="sees", **LONG), option) for option in range(2))
    honest = next(given for given in map(answers_of, tried) if given.split(".")[2] == "0")
    claimed = ".".join((*honest.split(".")[:2], "1", honest.split(".")[3]))
    at = open_page("tour", lesson="sees", answers=claimed, **LONG)
    assert words("right", answer="")[:6] not in everything(at)
    assert answers_of(at) == honest
    given = answers_of(answer(open_page("tour", lesson="rest"), 0))
    at = open_page("tour", lesson="rest", answers=given, text="We went to the park yesterday.")
    assert at.radio
    assert words("asked_before") in everything(at)


def test_a_lesson_that_does_not_show_leads_to_where_it_does_and_pages_to_their_chapter(open_page):
    at = open_page("tour", lesson="cross", model="writer")
    assert words("missing.no_cross") in everything(at)
    assert not at.radio
    at.button(key="tour.there.cross").click().run()
    assert link(at)["lesson"] == "cross"
    assert link(at).get("model", "en-zh") == "en-zh"
    assert set(CHAPTER_OF.values()) == set(CHAPTERS)
    assert CHAPTER_OF.keys() <= {page.name for page in PAGES}
    assert all(f"task_{chapter['task']}" in ENTRIES for chapter in CHAPTERS.values())
    at = open_page("masks", text="I love you.")
    assert words("groups.masks") in at.button(key="tour.way").label
    assert not [each for each in open_page("card").button if each.key == "tour.way"]


def test_an_unknown_step_of_a_sheet_is_named_and_the_rest_holds(open_page):
    at = open_page("tour", sheet="nosuch~rest", learner="Li")
    assert "sheet = " in messages(at)
    assert title(at) == TITLES["rest"]
    assert link(at)["learner"] == "Li"


def test_the_summary_names_what_to_look_at_again(open_page):
    given = "look.1.1.aaaa~sees.1.0.bbbb~kept.2.0.cccc~nosuchstep.1.1.abcd"
    at = open_page("tour", part="results", answers=given)
    counted = {"right": 1, "count": 3, "all": len(STEPS)}  # not what is not there
    assert words("score_of", **counted) in with_titles(at)
    assert keys(at, "tour.again.") == ["sees", "kept"]
    at.button(key="tour.again.sees").click().run()
    assert title(at) == TITLES["sees"]
    at = open_page("tour", part="results", answers=given)
    at.button(key="tour.start_over").click().run()
    assert "answers" not in at.query_params
    assert words("no_answer", all=len(STEPS)) in with_titles(at)


def test_a_sheet_has_exactly_its_steps_in_its_order_under_its_title(open_page):
    asked = {"sheet": "kept~look~sees", "sheet_title": "Monday <b>x</b>\u202e"}
    at = open_page("tour", **asked)
    assert title(at) == TITLES["kept"]
    shown = at.segmented_control(key="tour.step").options
    assert shown == [number_of(name) for name in ("kept", "look", "sees")]
    escaped = "Monday &#60;b&#62;x&#60;&#47;b&#62;&#91;U&#43;202E&#93;"
    assert escaped in with_titles(at)
    at.button(key="tour.next").click().run()
    assert title(at) == TITLES["look"]
    at = open_page("tour", part="contents", **asked)
    assert keys(at, "tour.contents.") == ["kept", "look", "sees"]
    at.button(key="tour.whole").click().run()
    assert link(at).keys().isdisjoint(asked)


def test_a_sheet_has_no_answers_in_its_link_and_on_paper_only_when_asked(open_page):
    at = open_page("tour", part="sheet", answers="look.1.1.aaaa", learner="Li")
    at.multiselect(key="tour.sheet").set_value(["sees", "look"]).run()
    at.text_input(key="tour.sheet_title").set_value("For  Monday").run()
    links = [parse_qs(urlsplit(each.value).query) for each in at.code]
    made = next(parts for parts in links if "answers" not in parts)  # else the page's own
    assert made["sheet"] == ["sees~look"]
    assert made["sheet_title"] == ["For Monday"]
    assert made.keys().isdisjoint({"learner", "part", "lesson"})
    assert made["text"]
    at = open_page("tour", part="printed", sheet="sees~blocked~look", **LONG)
    said = everything(at)
    assert said.count("☐") == 12
    assert words("solved") not in said
    assert "÷ 2" not in said
    at.toggle(key="tour.solutions").set_value(True).run()
    assert words("solved") in everything(at)


def test_a_sheet_may_have_exercises(open_page):
    """Of each kind one, in the contents, on paper and in the results."""
    asked = {"sheet": "sees~task_causal~look", **LONG}
    at = open_page("tour", part="contents", **asked)
    listed = [at.button(key=f"tour.contents.{name}") for name in keys(at, "tour.contents.")]
    assert [each.label.partition(" · ")[0] for each in listed] == ["2.2", "6.1", "1.1"]
    listed[1].click().run()
    assert link(at)["task"] == "causal"
    at = open_page("tour", part="printed", **asked)
    assert everything(at).count("☐") == 4 + 4
    assert "def may_attend(q, k):" in code_on(at)
    given = {"answers": "look.1.0.aaaa~train_heads.1.1.0", "solved": "causal"}
    at = open_page("tour", part="results", **given, **asked)
    assert words("score_of", right=1, count=2, all=3) in with_titles(at)
    assert at.button(key="tour.again.look")  # of a removed question there is no result


def test_links_of_a_class_make_a_table_of_a_bounded_number(open_page):
    at = open_page("tour", part="class")
    good = "http://localhost/path?answers=look.1.1.aaaa~sees.1.0.bbbb&learner=Li+Ming"
    hostile = "https://x/path?learner=%3Cimg%20src%3Dx%3E%7C&answers=sees.2.1.cccc"
    links = (good, hostile, "no link at all", "http://x/path?answers=look.1.1", "http://[broken")
    at.text_area(key="tour.class").set_value("\n".join(links)).run()
    assert words("class_bad", lines="3, 4, 5") in messages(at)
    table = next(each.value for each in at.markdown if "Li Ming" in each.value)
    assert "| Li Ming | 1 of 2 | ✓ | ✗ |" in table
    assert "| 1 of 2 | – | ✓ |" in table
    assert "<img" not in table
    assert "tour.class" not in at.query_params
    at.text_area(key="tour.class").set_value("x?answers=look.1.1.a\n" * (MOST_LINKS + 5)).run()
    many = words("class_many", most=MOST_LINKS, count=MOST_LINKS + 5)
    assert any(many in str(each.value) for each in at.warning)
    assert read_results("x?answers=nosuch.1.1.a") is None
    assert read_results("x?solved=nosuch&learner=a") is None
    many = "&".join(f"a{at}=b" for at in range(64))
    assert read_results("x?solved=causal") is not None
    assert read_results(f"x?solved=causal&{many}") is None


def test_a_class_table_has_each_entry_of_the_sheet(open_page):
    pasted = "x?learner=Mo&answers=look.1.1.aaaa&sheet=rest~look~cross~nosuch"
    for sheet, row in (("", "| 1 of 3 | – | ✓ | – |"), ("sees~look", "| 1 of 2 | – | ✓ |")):
        at = open_page("tour", part="class", sheet=sheet)
        at.text_area(key="tour.class").set_value(pasted).run()
        assert f"| Mo {row}" in everything(at)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_ready_lesson_is_a_sheet_with_a_plan_of_45_minutes(open_page, lang):
    at = open_page("tour", lang=lang)
    at.segmented_control(key="tour.group").set_value("teacher").run()
    assert at.segmented_control(key="tour.part").value == "sheet"
    for lesson, parts in LESSONS.items():
        at.button(key=f"tour.ready.{lesson}").click().run()
        assert link(at)["sheet"].split("~") == [part for part in parts if part in ENTRIES]
        plan = next(each.value for each in at.markdown if "–45 |" in str(each.value))
        assert all(t(f"tour.lessons.{lesson}.{part}", lang=lang) in plan for part in parts)
    assert set(parts) - {*ENTRIES} == {"opening", "closing"}


def opens(model: str) -> int:
    """How many steps show with this model; the others say why not, and none raises."""
    view = build(State(model=model, pads=0), dark=False)
    posed = [found_by(view.run, view.lang, step) for step in STEPS.values()]
    missing = [step for step in posed if isinstance(step, Missing)]
    assert all(t(f"tour.missing.{step.why}", lang="en") for step in missing)
    return len(posed) - len(missing)


def test_a_model_without_logits_or_masks_has_the_steps_that_it_can_show(app):
    assert 10 <= opens("headless") < len(STEPS) - 8


@pytest.mark.sweep
@pytest.mark.parametrize("kind", OWN)
def test_every_step_opens_or_says_why_not_in_models_of_other_libraries(app, own, kind, monkeypatch):
    monkeypatch.setattr(library, "CHECKPOINTS", own)
    assert opens(f"my-{kind}") >= 8
