"""The Exercises page: a program is graded, drawn, put into the model, and sent to a teacher."""

import base64
import zlib
from threading import Event
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from hostile import BODIES, VALUES, answers
from shown import code_on, copied, everything, has_picture, link, messages, reading
from streamlit.testing.v1 import AppTest

from explorer import sandbox
from explorer.analysis.exercises.tasks import KINDS, task_of, tasks
from explorer.analysis.mask_tests.certify import Examination, Finding
from explorer.engine.turns import TURNS
from explorer.exhibits.choices import RefusedError
from explorer.exhibits.exercises.choices import (
    MOST_CARRIED,
    MOST_UNPACKED,
    read_ids,
    read_programs,
    write_programs,
)
from explorer.text import LANGUAGES, t
from explorer.ui import running


def typed(at: AppTest, code: str, task: str = "causal") -> AppTest:
    return at.text_area(key=f"exercises.code.{task}").set_value(code).run()


def test_a_right_program_passes_and_stands_in_the_link_and_a_shared_one_opens(open_page):
    at = typed(open_page("exercises"), tasks()[0].reference)
    assert reading(at, "Correct: all 436 values in 6 cases")
    assert t("exercises.as_expected", lang="en", kept=16, count=16) in everything(at)
    assert t("exercises.same", lang="en") in everything(at)
    assert link(at)["solved"] == "causal"
    assert "programs" not in link(at)
    packed = write_programs((("causal", "def may_attend(q, k):\n    return k < q"),))
    at = open_page("exercises", programs=packed)
    assert "return k < q" in at.text_area(key="exercises.code.causal").value
    assert reading(at, "Query 0 does not see key 0, but must.")


def ran(at: AppTest) -> AppTest:
    return at.button(key="exercises.run").click().run()


def test_there_is_no_verdict_before_the_program_is_edited_or_run(open_page):
    verdict = "Query 0 sees key 1, but must not."
    at = open_page("exercises")
    assert verdict not in everything(at)
    assert not [each for each in at.button if each.key == "exercises.restart"]
    assert verdict in everything(ran(at))
    assert verdict not in everything(at.button(key="exercises.restart").click().run())
    packed = write_programs((("causal", "def may_attend(q, k): return True"),))
    at = open_page("exercises", programs=packed)
    assert verdict in everything(at)
    assert verdict not in everything(at.button(key="exercises.restart").click().run())
    assert "return True" in at.text_area(key="exercises.code.causal").value


def test_a_wrong_mask_is_put_into_the_model_when_asked_for(open_page):
    at = ran(open_page("exercises"))
    assert t("certify.future_leak.title", lang="en") not in everything(at)
    at.button(key="exercises.plant").click().run()
    for broken in ("future_leak", "future_mass", "cache", "prefix"):
        assert t(f"certify.{broken}.title", lang="en") in everything(at)
    assert reading(at, t("exercises.writes", lang="en"))
    typed(at, "def may_attend(q, k): return k >= q")
    assert at.button(key="exercises.plant")
    assert tasks()[0].suspects[0].words["en"] in everything(at)


def test_a_stopped_check_says_so_and_runs_again_when_asked(open_page, monkeypatch):
    held, examine = Event(), Examination.finding

    def finding(self: Examination, name: str) -> Finding:
        with TURNS.away():
            held.wait(60)
        return examine(self, name)

    monkeypatch.setattr(Examination, "finding", finding)
    monkeypatch.setattr(running, "PATIENCE", 0.1)
    at = ran(open_page("exercises"))
    at.button(key="exercises.plant").click().run()
    stopped, job = t("running.stopped", lang="en"), "exercises.planted.job"
    at.button(key=f"{job}.stop").click().run()
    assert t("running.stopping", lang="en") in everything(at)
    assert stopped not in everything(at)
    monkeypatch.setattr(running, "PATIENCE", 60)
    held.set()
    assert stopped in everything(at.run())
    assert t("certify.future_leak.title", lang="en") not in everything(at)
    at.button(key=f"{job}.again").click().run()
    assert stopped not in everything(at)
    assert t("certify.future_leak.title", lang="en") in everything(at)


def test_a_window_breaks_what_the_right_window_breaks_and_no_more(open_page):
    at = typed(open_page("exercises", task="window"), task_of("window").reference, "window")
    assert t("exercises.as_expected", lang="en", kept=14, count=16) in everything(at)
    open_cells = t("certify.open_cells.title", lang="en")
    assert t("exercises.expected", lang="en", promise=open_cells) in everything(at)
    typed(at, "def may_attend(q, k, width):\n    return q - k < width", "window")
    at.button(key="exercises.plant").click().run()
    assert t("exercises.breaks", lang="en", count=4, of=14) in everything(at)
    crosses = ran(open_page("exercises", task="cross", model="writer"))
    assert t("exercises.no_place", lang="en") in everything(crosses)


BAD = [
    ("def may_attend(q, k) return k", "Line 1, column 22: This is not Python: Expected"),
    ("def may_attend(q): return True", "takes 1 positional argument but 2 were given"),
    ("def may_attend(q, k): return 1", "Found the number 1; expected `True`"),
    ("raise ValueError('<b>*x*</b>')", "ValueError: &#60;b&#62;&#42;x&#42;"),
    (" ", t("exercises.faults.empty", lang="en", signature="may_attend(q, k)")),
]


def test_bad_programs_are_told_what_is_wrong(open_page):
    at = open_page("exercises")
    for code, said in BAD:
        typed(at, code)
        assert said in everything(at), code
        assert "solved" not in link(at), code


def test_a_check_is_told_what_it_lets_through_and_hints_come_one_after_another(open_page):
    at = ran(open_page("exercises", task="check_causal"))
    assert reading(
        at, "Your check rejects 3 of 9 wrong functions, but not this one: No row sees itself."
    )
    typed(at, "def check(may_attend): return False", "check_causal")
    assert reading(at, "Your check rejects a correct function. A correct mask")
    at = open_page("exercises")
    task = tasks()[0]
    for number in range(3):
        assert task.hints["en"][number] not in everything(at)
        assert r"k \le q" not in everything(at)  # the formula is the answer
        at.button(key="exercises.more_help").click().run()
        assert task.hints["en"][number] in everything(at)
    assert r"k \le q" in everything(at)
    assert r"e^{s_i - c}" in everything(open_page("exercises", task="softmax"))
    assert task.reference not in code_on(at)
    at.button(key="exercises.more_help").click().run()
    assert task.reference in code_on(at)
    assert task.solution["en"] in everything(at)


def test_without_the_package_all_but_running_is_there(open_page, monkeypatch):
    monkeypatch.setattr(sandbox, "available", lambda: False)
    for kind in KINDS:
        task = next(each for each in tasks() if each.kind == kind)
        at = open_page("exercises", task=task.id)
        assert t("exercises.absent", lang="en") in everything(at)
        assert task.text["en"] in everything(at)
        assert at.text_area(key=f"exercises.code.{task.id}").disabled
        assert has_picture(at) or task.is_check
    for part in ("overview", "sheets"):
        open_page("exercises", part=part)


def test_links_of_results_are_run_again_for_the_class_and_hostile_ones_end_no_table(open_page):
    at = typed(open_page("exercises", solved="softmax", solver="Ada *L*"), tasks()[0].reference)
    at.segmented_control(key="exercises.part").set_value("overview").run()
    sent = [each.value for each in at.code if "programs=" in each.value]
    (address,) = (each for each in sent if "part=overview" in each)
    made_up = write_programs((("padding", "def may_attend(q, k, valid): return True"),))
    sheet = open_page("exercises", part="sheets")
    pasted = [address, f"http://x/workshop?solved=padding&programs={made_up}&solver=Eve"]
    pasted += ["no link", "http://[no address]/?solved=padding"]
    sheet.text_area(key="tour.class").set_value("\n".join(pasted)).run()
    (table,) = (str(each.value) for each in sheet.markdown if "| Ada" in str(each.value))
    head, _, ada, eve, total = table.splitlines()
    assert head.endswith(" | 6.1 | 6.2 | 7.1 |")  # the causal mask, the padding mask, a softmax
    assert ada == "| Ada &#42;L&#42; | 1 of 3 | ✓ | – | ? |"
    assert eve == "| Eve | 0 of 3 | – | ? | – |"
    assert total.endswith(" | 1 of 2 | 0 of 2 | 0 of 2 |")
    assert t("tour.class_bad", lang="en", lines="3, 4") in messages(sheet)
    at = open_page("exercises", part="sheets")
    links = []
    for deed in ("workshop_values.clear()", "workshop_values.append(1)"):
        code = f"def may_attend(q, k):\n    {deed}\n    return True"
        said = {"solver": "a", "solved": "causal", "programs": write_programs((("causal", code),))}
        links.append(f"http://x/?{urlencode(said)}")
    at.text_area(key="tour.class").set_value("\n".join(links)).run()
    assert everything(at).count("| a | 0 of 1 | ? |") == 2


def test_programs_go_through_a_link_and_back_and_others_are_refused():
    programs = (("causal", "def f():\n\treturn '中文'"), ("softmax", ""))
    assert read_programs(write_programs(programs)) == programs
    half = zlib.compress(b'{"causal": "\\ud800"}', wbits=-15)  # of a character: no link holds it
    odd = base64.urlsafe_b64encode(half).decode(), write_programs((("Causal!", "x"),))
    bomb = write_programs((("causal", "x" * 20 * MOST_UNPACKED),))
    assert len(bomb) < MOST_CARRIED
    for packed in ("???", "AAAA", "x" * (MOST_CARRIED + 1), "eJw", "é", *odd, bomb):
        with pytest.raises(RefusedError):
            read_programs(packed)
    assert read_ids("causal~softmax~causal") == ("causal", "softmax")
    for bad in ("Causal", "a b", "~", "x" * 50, "~".join(f"t{i}" for i in range(500))):
        with pytest.raises(RefusedError):
            read_ids(bad)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_made_up_answers_are_harmless(open_page, lang):
    made_up = {"solved": "no_such_task", "task": "<b>x</b>", "lang": lang}
    at = open_page("exercises", part="overview", **made_up)
    assert t("exercises.progress", lang=lang, done=0, count=len(tasks())) in everything(at)
    at = open_page("exercises", **made_up)
    assert "&#60;b&#62;" in messages(at)
    assert tasks()[0].text[lang] in everything(at)


def test_what_was_written_prints_is_offered_as_a_link_and_stays_under_the_back_button(open_page):
    at = open_page("exercises")
    assert not [each for each in at.code if "programs=" in each.value]
    code = "print('<b>seen</b>')\ndef may_attend(q, k): return k == q"
    typed(at, code)
    assert "<b>seen</b>" in [each.value.strip() for each in at.code]
    address = copied(at, "programs=")
    (packed,) = parse_qs(urlsplit(address).query)["programs"]
    assert read_programs(packed) == (("causal", code),)
    for task, kept in (("softmax", ""), ("causal", "k == q")):
        at.query_params["task"] = task
        at.run()
        assert kept in at.text_area(key=f"exercises.code.{task}").value


FORMS = ("causal", "alibi", "softmax", "mend_after", "check_causal")
"""A mask, a matrix of numbers, a row of them, a repair, a check."""


@pytest.mark.parametrize(
    ("task", "first", "step"),
    [(task, at, len(FORMS)) for at, task in enumerate(FORMS)]
    + [pytest.param(task, 0, 1, marks=pytest.mark.sweep) for task in FORMS],
)
def test_no_answer_raises_on_the_page(open_page, task, first, step):
    (function,) = (each.function for each in tasks() if each.id == task)
    at = open_page("exercises", task=task)
    for code in list(answers(function))[first : len(VALUES) + len(BODIES) : step]:
        at.text_area(key=f"exercises.code.{task}").set_value(code).run()
