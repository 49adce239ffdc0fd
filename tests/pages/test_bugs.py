"""The Cases page: every fault is shown, planted and written as a formula."""

import base64

import numpy as np
import pytest
from shown import everything, figure, lines, reading, words_of

from explorer.analysis.cases import BUGS, BY_ID
from explorer.analysis.cases.case import source_of
from explorer.exhibits.cases.case import formulas
from explorer.text import t


def test_every_fault_of_the_clinic_is_shown(open_page):
    at = open_page("cases", pads="2")
    for bug in BUGS:
        if at.query_params.get("case", [BUGS[0].id]) != [bug.id]:
            at.segmented_control(key="cases.group").set_value(bug.group).run()
            at.segmented_control(key="cases.case").set_value(bug.id).run()
        assert t(f"cases.{bug.id}.symptom", lang="en") in everything(at)
        assert lines(at)[0] == source_of(bug.variant)
        where = (t(f"cases.{name}", lang="en") for name in ("own", "own_fresh", "fixed"))
        assert sum(words in everything(at) for words in where) == 1


def test_a_planted_fault_shows_in_what_the_model_writes(open_page):
    at = open_page("cases", case="inverted_padding")
    loss = reading(at, "Loss per predicted token")
    before, after = (float(part.split("**")[0]) for part in loss.split("**")[1::2])
    assert after > before
    unchanged = open_page("cases", case="row_per_head")
    assert t("cases.not_planted", lang="en") in everything(unchanged)


def test_every_fault_has_a_formula_of_its_own(open_page):
    assert set(formulas()) == set(BY_ID)
    for bug in BUGS:
        wrong, right = formulas()[bug.id]
        assert wrong != right
    for case, symbol in (("norm_backward", r"\gamma"), ("no_zero_grad", r"\nabla L")):
        at = open_page("cases", case=case)
        at.segmented_control(key="cases.more").set_value("formula").run()
        lines = [str(each.value) for each in at.latex]
        assert all(word in line for word, line in zip(("Wrong", "Right"), lines, strict=True))
        assert all(symbol in line and "m_{ij}" not in line for line in lines)


def test_which_cases_raise_an_error_is_said_from_what_happened(open_page):
    at = open_page("cases", case="unpacked_batch")
    assert reading(at, "raise an error in **3** and run silently in **1**")
    (rows,) = (words_of(e) for e in at.markdown if "ValueError" in words_of(e))
    assert [("ValueError" in line) for line in rows.splitlines()[2:]] == [True, False, True, True]
    assert reading(open_page("cases", case="tiny_epsilon"), "an error in **0** and run silently")


@pytest.mark.parametrize(
    ("case", "model", "lacks"),
    [
        ("left_positions", "en-zh", ""),
        ("left_positions", "writer", ""),
        ("left_positions", "reader", "added"),  # ALiBi: distances only
        ("mask_replaced", "en-zh", ""),
        ("mask_replaced", "writer", ""),
        ("mask_replaced", "reader", "causal"),
    ],
)
def test_padding_on_the_left_harms_whom_it_concerns(open_page, case, model, lacks):
    at = open_page("cases", case=case, model=model, text="I like you.")
    words = everything(at)
    assert t("cases.unchanged", lang="en") not in words
    assert ("PADs on the left**." in words) == (not lacks)
    if lacks:
        assert t(f"cases.absent.{lacks}", lang="en") in words
    else:
        drawn = figure(at, len(at.get("plotly_chart")) - 1)["data"]
        healthy, ill = (
            np.frombuffer(base64.b64decode(each["y"]["bdata"]), each["y"]["dtype"])
            for each in drawn
        )
        assert len(healthy) > 2
        assert abs(ill[0] - healthy[0]) < 1e-4  # without padding they agree
        assert np.abs(ill - healthy).max() > 1e-4
