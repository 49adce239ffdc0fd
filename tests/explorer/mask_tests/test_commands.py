"""Certificates of a text: the user's edits, what the command reports, and how it exits."""

import json
import math
from xml.etree import ElementTree

import pytest
import torch
from certifying import broken, certified, found_by, planted
from torch import Tensor

import models.transformer
from explorer.__main__ import main
from explorer.analysis.cases import BY_ID
from explorer.analysis.mask_tests.certify import FINDINGS, Certificate, Finding, examine_text
from explorer.analysis.mask_tests.sites import Location
from explorer.exports import report as reports
from explorer.exports.report import place_words, report_record
from explorer.problems import InputProblem
from explorer.runs.edits import CellEdit, MaskSwitch
from explorer.runs.passes import letting
from explorer.text import LANGUAGES, t
from models.training.saving import save_checkpoint


def test_a_user_edit_is_certified_as_the_model_would_run(translator):
    assert certified(translator, "I love you.", "我爱你。").passed
    off = certified(translator, "I love you.", "我爱你。", (MaskSwitch("causal", False),))
    assert broken(off) == {"future_leak", "future_mass", "prefix"}
    assert "cache" not in {finding.name for finding in off.findings}
    off = certified(translator, "I love you.", "我爱你。", (MaskSwitch("cross_pad", False),))
    assert {"cross_mask", "padding_right"} <= broken(off)
    assert certified(translator, "I love you.", "我爱你。").passed  # nothing is left in force
    assert not translator.model.hook_logits.wanted
    shut = CellEdit("encoder.blocks.0.attn", None, 0, 0, open=False)
    assert "open_cells" in broken(certified(translator, "I love you.", "我", (shut,)))
    with pytest.raises(InputProblem):
        certified(translator, "  ")


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_command_reports_and_exits_0_or_1_or_2(loaded, lang, tmp_path, capsys, monkeypatch):
    save_checkpoint(tmp_path / "tiny", loaded.model, loaded.tokenizer)
    command = ["certify", "--model", str(tmp_path / "tiny"), "--lang", lang]
    command += ["--target", "我爱你。"]
    assert main([*command, "--text", "I love you."]) == 0
    report = capsys.readouterr().out
    assert t("certify.title", lang=lang, model="tiny") in report
    assert t("certify.future_leak.title", lang=lang) in report
    assert "I love you." in report
    assert "■·" in report
    count = len(FINDINGS) - (loaded.name == "writer")
    assert t("certify.verdict_kept", lang=lang, count=count) in report

    monkeypatch.setattr(models.transformer, "causal_mask", lambda n, m, **_: torch.ones(n, m) > 0)
    assert main(command) == 1  # without --text: an example
    report = capsys.readouterr().out
    assert t("certify.future_leak.broken", lang=lang) in report
    assert t("certify.broken", lang=lang) in report

    assert main([*command, "--text", " "]) == 2
    assert main(["certify", "--model", "no such model", "--lang", lang]) == 2
    assert t("problems.whitespace_only", lang=lang) in capsys.readouterr().err


def test_the_report_for_programs_is_json_and_exits_alike(translator, tmp_path, capsys, monkeypatch):
    folder, (xml, comment) = tmp_path / "a<b>|@c", (tmp_path / "c.xml", tmp_path / "c.md")
    save_checkpoint(folder, translator.model, translator.tokenizer)
    command = ["certify", "--model", str(folder), "--text", "I love you.", "--json"]
    command += ["--junit", str(xml), "--markdown", str(comment)]
    assert main(command) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["model"], report["text"], report["passed"]) == (folder.name, "I love you.", True)
    (suite,) = ElementTree.parse(xml).getroot()
    assert (suite.get("name"), suite.get("failures")) == (f"Mask tests of {folder.name}", "0")
    assert [case.get("classname") for case in suite.iter("testcase")] == list(FINDINGS)
    title, *_ = comment.read_text(encoding="utf-8").splitlines()
    assert title == "### Mask tests of a&#60;b&#62;&#124;&#64;c"
    assert [finding["name"] for finding in report["findings"]] == list(FINDINGS)
    assert len(report["reach"]["decoder"]) == len(report["reach"]["decoder"][0])

    def sees_all(n: int, m: int, **_: object) -> Tensor:
        return torch.ones(n, m) > 0

    monkeypatch.setattr(models.transformer, "causal_mask", sees_all)
    assert main(command) == 1
    report = json.loads(capsys.readouterr().out)
    leak = report["findings"][0]
    assert (report["passed"], leak["passed"]) == (False, False)
    assert leak["deviation"] > 1e-3
    assert leak["where"]["key"] > leak["where"]["query"]
    (suite,) = ElementTree.parse(xml).getroot()
    wrong = [finding["name"] for finding in report["findings"] if not finding["passed"]]
    failures = suite.findall("testcase[failure]")
    assert suite.get("failures") == str(len(wrong))
    assert [case.get("classname") for case in failures] == wrong
    assert failures[0].find("failure").get("message") == t("certify.future_leak.broken", lang="en")
    assert comment.read_text(encoding="utf-8").count("| **VIOLATED** |") == len(wrong)
    assert main([*command[:-1], str(tmp_path / "no" / "c.md")]) == 2


def test_a_number_that_is_none_stays_out_of_json(tiny_model):
    model = tiny_model(n_ctx=40)
    found = planted(model, BY_ID["empty_row_nan"])
    assert any(math.isinf(finding.deviation) for finding in found.findings)
    text = json.dumps(report_record(found), allow_nan=False)
    assert None in [finding["deviation"] for finding in json.loads(text)["findings"]]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_reports_hold_errors_untested_properties_and_any_character(lang):
    failed = Finding("prefix", math.inf, 0.0, error="RuntimeError: <b>\x00")
    certificate = Certificate((failed,), {"cross_mask": "no_cross"}, {})
    tested = reports.Tested("a\x00\n|b", "<b>\x1b")
    (suite,) = ElementTree.fromstring(reports.junit(certificate, lang, tested, ["why\x0c"]))
    assert (suite.get("tests"), suite.get("errors"), suite.get("failures")) == ("2", "1", "0")
    assert "RuntimeError: <b>�" in suite.findtext("testcase/error")
    skipped = [case.get("classname") for case in suite.findall("testcase[skipped]")]
    assert skipped == list(certificate.left_out)
    text = reports.markdown(certificate, lang, tested, ["</pre> <b>"])
    assert "<b>" not in text
    assert t("certify.left_out.no_cross", lang=lang) in text


def test_an_examination_tests_each_promise_once_and_lets_others_go_first(translator):
    examination = examine_text(translator, "I love you.", "我爱你。")
    assert examination.names == FINDINGS
    first = examination.finding("prefix")
    certificate = examination.certificate()
    assert found_by(certificate, "prefix") is first
    assert examination.certificate() is certificate
    assert examination.finding("prefix") is first
    with pytest.raises(KeyError, match="nothing"):
        examination.finding("nothing")
    rests: list[str] = []
    with letting(lambda: rests.append("rest")):
        examine_text(translator, "I love you.", "我爱你。").finding("prefix")
    assert len(rests) > 1


def test_places_are_words_and_silent_models_tested_by_their_stream(tiny):
    place = Location("x.attn", 0, 0, 1, 3, left=2)
    assert place_words(place, "en") == "x.attn, head 1, row 2, key 4, 2 PADs on the left"
    assert place_words(place, "zh") == "x.attn, 第 1 个头, 第 2 行, 第 4 个键, 左侧有 2 个 PAD"
    headless = tiny("headless", family="encoder-only", lm_head=False)
    certificate = examine_text(headless, "The cat sat.").certificate()
    assert [finding.name for finding in certificate.findings if not finding.passed] == []
