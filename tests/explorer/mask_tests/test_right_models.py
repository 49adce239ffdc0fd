"""Right models keep every promise and are left as they were; the self-check, the command."""

import copy
import json
import math
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from certifying import MASK_FAULTS, SRC, TGT, broken, certified, certify, found_by, planted
from foreign import NAMES, Golden
from tiny import record, tiny_model
from torch import Tensor

import models.transformer
from explorer.__main__ import main
from explorer.analysis.cases import BY_ID
from explorer.analysis.mask_tests.certify import (
    FINDINGS,
    MAX_PROBED,
    Certificate,
    Finding,
    QuickProbe,
    examine_text,
    self_check,
)
from explorer.analysis.mask_tests.examiner import N_PADS
from explorer.analysis.mask_tests.probe import Probe
from explorer.exports import report as reports
from explorer.exports.report import report_record
from explorer.library import open_model
from explorer.problems import InputProblem
from explorer.runs.edits import CellEdit, MaskSwitch
from explorer.runs.passes import letting
from explorer.text import LANGUAGES, t
from models.hooks import Edits
from models.norms import NORMS
from models.positions import POSITIONS
from models.rows import Rows
from models.training.saving import save_checkpoint
from models.transformer import FAMILIES


@pytest.mark.parametrize("placement", ["post", "pre", "sublayer"])
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_right_model_keeps_every_promise(family, positions, placement):
    model = tiny_model(
        family=family, positions=positions, norm_placement=placement, n_kv_heads=2, n_ctx=40
    )
    certificate = certify(model, model.config, SRC, TGT)
    assert certificate.passed, [f for f in certificate.findings if not f.passed]
    names = [finding.name for finding in certificate.findings]
    of_writers = {"future_leak", "future_mass", "cache", "prefix"}
    left_out = {
        "encoder-decoder": set(),
        "decoder-only": {"cross_mask"},
        "encoder-only": {"cross_mask", *of_writers},
    }[family]
    if positions == "none":
        left_out = {*left_out, "positions"}
    assert names == [name for name in FINDINGS if name not in left_out]


def test_a_window_of_the_models_own_is_no_fault():
    near: dict[str, Any] = {"near_layers": (1,), "window": 2, "n_ctx": 40, "still_layers": (0,)}
    model = tiny_model(family="decoder-only", positions="rotary", **near)
    certificate = certify(model, model.config, SRC, TGT)
    assert certificate.passed, certificate.broken
    whole, short = (certificate.masks[site.name][0] for site in model.attention_sites())
    assert whole[5, 2]
    assert not short[5, 2]
    assert short[5, 4]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounding_is_no_fault(dtype, norm):
    model = tiny_model(dtype, norm=norm)
    assert certify(model, model.config, SRC, TGT).passed


def test_the_model_is_left_as_it_was_with_short_and_long_rows():
    model = tiny_model(torch.float32)
    before = copy.deepcopy(model.state_dict())
    certify(model, model.config, SRC, TGT)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert {tensor.dtype for tensor in model.parameters()} == {torch.float32}
    assert not model.training
    model = tiny_model(n_ctx=40, positions="learned")
    assert certify(model, model.config, (2,), (1,)).passed
    long = tuple(4 + i % 19 for i in range(60))
    certificate = certify(model, model.config, long, long)
    assert certificate.passed
    assert len(certificate.tokens["tgt"]) == MAX_PROBED + N_PADS
    model = tiny_model(n_ctx=6, positions="learned")  # no room for a longer neighbour
    assert certify(model, model.config, SRC, TGT).passed
    with pytest.raises(ValueError, match="at least one token"):
        certify(model, model.config, (), TGT)


def test_a_weight_that_underflows_is_not_taken_for_a_mask():
    """Scores thousands apart: what they leave open has a weight of exactly 0 nearly everywhere."""
    model = tiny_model()
    with torch.no_grad():
        for site in model.attention_sites():
            model.get_submodule(site.name).w_q.weight.mul_(1e5)
    probe = Probe(model, model.config)
    rows = probe.batch_of([(SRC, TGT)])
    shares = [(probe.weights(site, rows) == 0).double().mean() for site in probe.sites]
    assert min(shares) > 0.5
    certificate = certify(model, model.config, SRC, TGT)
    assert certificate.passed, broken(certificate)
    expected = certify(tiny_model(), model.config, SRC, TGT).masks
    for name, mask in certificate.masks.items():
        np.testing.assert_array_equal(mask, expected[name])
    # A missing mask is found all the same, though the scores leave hardly a weight anywhere.
    open_mask = {"decoder.blocks.0.attn.hook_mask": torch.ones_like}
    found = certify(model, model.config, SRC, TGT, lambda rows: Edits(open_mask))
    assert found_by(found, "future_mass").deviation > 0.5


def test_masks_are_recovered_from_behaviour():
    model = tiny_model()
    found = certify(model, model.config, SRC, TGT)
    n_src, n_tgt = len(SRC), len(TGT)
    src_keys = np.arange(n_src + N_PADS) < n_src
    tgt_keys = np.arange(n_tgt + N_PADS) < n_tgt
    triangle = np.tril(np.ones((n_tgt + N_PADS,) * 2, dtype=bool))
    for site in model.attention_sites():
        expected = src_keys[None] if site.key_stream == "src" else tgt_keys[None] & triangle
        mask = found.masks[site.name]
        np.testing.assert_array_equal(mask, np.broadcast_to(expected, mask.shape))
    own = np.eye(n_tgt + N_PADS, dtype=bool)  # a changed token always shows at its own place
    np.testing.assert_array_equal(found.reach["decoder"], (triangle & tgt_keys) | own)
    own = np.eye(n_src + N_PADS, dtype=bool)
    np.testing.assert_array_equal(
        found.reach["encoder"], np.broadcast_to(src_keys, own.shape) | own
    )
    assert found.reach["cross"].shape == (n_tgt + N_PADS, n_src + N_PADS)
    assert (found.reach["cross"] == src_keys).all()


def test_weights_from_outside_are_the_weights_inside():
    model = tiny_model(n_kv_heads=2)
    probe = Probe(model, model.config)
    rows = probe.batch_of([(SRC, TGT), (SRC[:3], TGT[:2])], left=1)
    inside = record(lambda: model.read(rows), lambda name: name.endswith("pattern"))
    assert max(len(SRC) + 1, len(TGT) + 1) > model.config.d_head  # so more than one run a site
    for site in model.attention_sites():
        torch.testing.assert_close(probe.weights(site, rows), inside[site.hook("pattern")])


@pytest.mark.parametrize("name", NAMES)
def test_models_of_other_libraries_keep_every_promise(name, tmp_path):
    found = self_check(open_model(Golden.load(name).write(tmp_path / name, "own")))
    assert found.broken == ()
    assert found.tested >= 7


@pytest.mark.parametrize("bug", MASK_FAULTS, ids=lambda bug: bug.id)
def test_every_planted_mask_fault_is_seen(bug, translator):
    plant = bug.plant
    assert self_check(translator, lambda rows: plant(translator.model, rows)).broken


def test_weights_of_all_sites_come_from_one_stream(tiny):
    """More keys than a head has features take several runs, whose rows must fit together."""
    loaded = tiny(n_heads=12)  # two features a head
    probe = QuickProbe(loaded.model, loaded.config)
    rows = Rows.of([(1, 8, 9, 10, 11)], [(8, 9, 10, 2)], loaded.marks)
    for site in probe.sites:
        weights = probe.weights(site, rows)
        assert weights.sum(-1).allclose(weights.new_ones(()), atol=1e-5)


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


def test_a_number_that_is_none_stays_out_of_json():
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


def test_silent_models_are_tested_by_their_stream(tiny):
    headless = tiny("headless", family="encoder-only", lm_head=False)
    certificate = examine_text(headless, "The cat sat.").certificate()
    assert [finding.name for finding in certificate.findings if not finding.passed] == []
