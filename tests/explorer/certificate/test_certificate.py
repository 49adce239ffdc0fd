"""Right models pass in every shape; each planted fault of the clinic fails, where it should."""

import copy
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from families import WRITERS
from torch import Tensor, nn
from typecheck import unchecked

import models.transformer
from explorer.__main__ import main
from explorer.analysis.certificate.certify import (
    FINDINGS,
    MAX_PROBED,
    Certificate,
    Examination,
    Finding,
    examine_text,
)
from explorer.analysis.certificate.examiner import N_PADS, Location
from explorer.analysis.certificate.probe import Interference, Probe
from explorer.analysis.clinic import PITFALLS, Pitfall
from explorer.exports.report import place_words, report_lines, report_record
from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.runs.edits import CellEdit, Edit, MaskSwitch
from explorer.text import LANGUAGES, t
from models.config import ModelConfig
from models.fast import speed_up
from models.hooks import Edits, visiting
from models.masks import causal_mask
from models.norms import NORMS
from models.positions import POSITIONS
from models.rows import Rows
from models.training.saving import save_checkpoint
from models.transformer import FAMILIES, DecoderOnly, EncoderDecoder

SRC, TGT = (7, 5, 9, 11, 13, 6, 2), (1, 8, 10, 4, 12)
BY_ID = {pitfall.id: pitfall for pitfall in PITFALLS}
MASK_FAULTS = [
    pitfall
    for pitfall in PITFALLS
    if pitfall.plant is not None and pitfall.group in ("masks", "shapes", "fills", "padding")
]


def broken(certificate: Certificate) -> set[str]:
    return {finding.name for finding in certificate.findings if not finding.passed}


def certify(
    model: Any,
    config: ModelConfig,
    src: Sequence[int],
    tgt: Sequence[int],
    interference: Interference | None = None,
) -> Certificate:
    return Examination(model, config, src, tgt, interference).certificate()


def found_by(certificate: Certificate, name: str) -> Finding:
    (finding,) = (each for each in certificate.findings if each.name == name)
    return finding


def certified(
    loaded: LoadedModel, text: str, target: str | None = None, edits: tuple[Edit, ...] = ()
) -> Certificate:
    return examine_text(loaded, text, target, edits).certificate()


def planted(model: Any, pitfall: Pitfall) -> Certificate:
    assert pitfall.plant is not None
    plant = pitfall.plant
    return certify(model, model.config, SRC, TGT, lambda rows: plant(model, rows))


@pytest.fixture(autouse=True)
def _shapes_are_checked_once(request: pytest.FixtureRequest) -> Iterator[None]:
    """Where right models with the norm behind are certified, in every family and with all kinds of
    positions. The other tests make the same calls, thousands of them.
    """
    checked = request.node.name.startswith(test_a_right_model_keeps_every_promise.__name__)
    if checked and request.getfixturevalue("placement") == "post":
        yield
    else:
        with unchecked():
            yield


# Right models.


@pytest.mark.parametrize("placement", ["post", "pre", "sublayer"])
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_right_model_keeps_every_promise(
    family: str, positions: str, placement: str, tiny_model: Callable[..., Any]
) -> None:
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
    assert names == [name for name in FINDINGS if name not in left_out]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounding_is_no_fault(
    dtype: torch.dtype, norm: str, tiny_model: Callable[..., Any]
) -> None:
    model = tiny_model(dtype, norm=norm)
    assert certify(model, model.config, SRC, TGT).passed


def test_the_model_is_left_as_it_was(tiny_model: Callable[..., Any]) -> None:
    model = tiny_model(torch.float32)
    before = copy.deepcopy(model.state_dict())
    certify(model, model.config, SRC, TGT)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert {tensor.dtype for tensor in model.parameters()} == {torch.float32}
    assert not model.training


def test_a_weight_that_underflows_is_not_taken_for_a_mask(tiny_model: Callable[..., Any]) -> None:
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


def test_short_and_long_rows(tiny_model: Callable[..., Any]) -> None:
    model = tiny_model(n_ctx=40, positions="learned")
    assert certify(model, model.config, (2,), (1,)).passed
    long = tuple(4 + i % 19 for i in range(60))
    certificate = certify(model, model.config, long, long)
    assert certificate.passed
    assert len(certificate.tgt_tokens) == MAX_PROBED + N_PADS
    model = tiny_model(n_ctx=6, positions="learned")  # no room for a longer neighbour
    assert certify(model, model.config, SRC, TGT).passed
    with pytest.raises(ValueError, match="at least one token"):
        certify(model, model.config, (), TGT)


def test_masks_are_recovered_from_behaviour(tiny_model: Callable[..., Any]) -> None:
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


def test_weights_from_outside_are_the_weights_inside(
    tiny_model: Callable[..., Any], record: Callable[..., dict[str, Tensor]]
) -> None:
    model = tiny_model(n_kv_heads=2)
    probe = Probe(model, model.config)
    rows = probe.batch_of([(SRC, TGT), (SRC[:3], TGT[:2])], left=1)
    inside = record(
        lambda: model.read(rows),
        lambda name: name.endswith("pattern"),
    )
    assert max(len(SRC) + 1, len(TGT) + 1) > model.config.d_head  # so more than one run a site
    for site in model.attention_sites():
        torch.testing.assert_close(probe.weights(site, rows), inside[site.hook("pattern")])


# Planted faults, through a visitor.


@pytest.mark.parametrize("family", WRITERS)
@pytest.mark.parametrize("pitfall", MASK_FAULTS, ids=lambda pitfall: pitfall.id)
def test_every_planted_mask_fault_fails(
    pitfall: Pitfall, family: str, tiny_model: Callable[..., Any]
) -> None:
    model = tiny_model(family=family, n_ctx=40)
    if pitfall.id == "inverted_padding" and family == "decoder-only":
        assert planted(model, pitfall).passed  # it lives where padding is all that is hidden
        return
    certificate = planted(model, pitfall)
    assert not certificate.passed
    worst = max(f.deviation for f in certificate.findings if not f.passed)
    assert worst > 1e-3  # and by far, not by rounding


def test_an_encoder_that_sees_padding_fails(tiny_model: Callable[..., Any]) -> None:
    """It has no future to hide: what is left to break is its padding mask."""
    model = tiny_model(family="encoder-only", n_ctx=40)
    found = broken(planted(model, BY_ID["inverted_padding"]))
    assert {"pad_mass", "padding_right", "open_cells"} <= found


@pytest.mark.parametrize(
    ("fault", "expected"),
    {
        "inverted_causal": {"future_leak", "future_mass", "open_cells", "cache", "prefix"},
        "inverted_padding": {"pad_mass", "cross_mask", "padding_right", "open_cells"},
        "after_softmax": {"row_sums", "future_leak"},
        "diagonal_open": {"future_leak", "future_mass", "cache", "prefix"},
        "diagonal_closed": {"row_sums", "open_cells"},
        "no_mask": {"future_leak", "future_mass", "pad_mass", "cache", "prefix"},
        "first_item": {"padding_batch", "future_leak"},
        "is_causal_cache": {"cache"},
        "left_positions": {"padding_left"},
        "pad_confused": {"pad_mass", "cross_mask", "open_cells"},
        "empty_row_nan": {"padding_left"},
        "empty_row_uniform": {"pad_mass", "future_mass"},
    }.items(),
)
def test_a_fault_breaks_the_promises_that_it_should(
    fault: str, expected: set[str], tiny_model: Callable[..., Any]
) -> None:
    assert expected <= broken(planted(tiny_model(n_ctx=40), BY_ID[fault]))


def test_faults_of_one_kind_break_nothing_else(tiny_model: Callable[..., Any]) -> None:
    model = tiny_model(n_ctx=40)
    assert broken(planted(model, BY_ID["is_causal_cache"])) == {"cache"}
    assert broken(planted(model, BY_ID["left_positions"])) == {"padding_left"}
    assert broken(planted(model, BY_ID["diagonal_closed"])) == {"row_sums", "open_cells"}
    for other in ("model_scale", "batch_positions"):  # faults, but not of masks
        assert planted(model, BY_ID[other]).passed
    rotary = tiny_model(positions="rotary", n_ctx=40)  # knows distances only
    assert planted(rotary, BY_ID["left_positions"]).passed


def test_the_place_of_a_deviation_is_the_place_of_the_fault(
    tiny_model: Callable[..., Any],
) -> None:
    model = tiny_model()
    (site,) = (s for s in model.attention_sites() if s.name == "decoder.blocks.1.attn")

    def one_cell(mask: Tensor) -> Tensor:
        mask = mask.clone()
        mask[:, 2, 1, 3] = True
        return mask

    found = certify(
        model, model.config, SRC, TGT, lambda rows: Edits({site.hook("mask"): one_cell})
    )
    assert broken(found) >= {"future_leak", "future_mass"}
    where = found_by(found, "future_mass").where
    assert where is not None
    assert (where.name, where.layer, where.head) == (site.name, 1, 2)
    assert (where.query, where.key) == (1, 3)
    leak = found_by(found, "future_leak").where
    assert leak is not None
    assert (leak.query, leak.key) == (1, 3)
    assert leak.layer in (1, None)  # the block itself, or the logits after it


# Faults in the model's own code, and models that are only wrapped.


def test_a_fault_in_the_code_of_the_masks_fails(
    tiny_model: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def off_by_one(n_query: int, n_key: int | None = None, offset: int = 0, **rest: Any) -> Tensor:
        return causal_mask(n_query, n_key, offset + 1, **rest)

    model = tiny_model()
    monkeypatch.setattr(models.transformer, "causal_mask", off_by_one)
    assert broken(certify(model, model.config, SRC, TGT)) >= {"future_leak", "future_mass"}


def test_a_fault_in_the_fused_path_only_fails(
    tiny_model: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What nobody looks at runs through torch's kernel: the certificate runs that too."""
    right = nn.functional.scaled_dot_product_attention

    def fused_is_causal(q: Tensor, k: Tensor, v: Tensor, **rest: Any) -> Tensor:
        return right(q, k, v, is_causal=True) if q.shape[2] == 1 else right(q, k, v, **rest)

    model = tiny_model(family="decoder-only")
    speed_up(model)
    monkeypatch.setattr(nn.functional, "scaled_dot_product_attention", fused_is_causal)
    assert broken(certify(model, model.config, SRC, TGT)) == {"cache"}


class WithoutSourcePadding(EncoderDecoder):
    def memory_of(self, rows: Rows) -> Tensor:
        return super().memory_of(replace(rows, src_valid=None))


class PadIsEnd(DecoderOnly):
    def read(self, rows: Rows, *others: Any) -> Tensor:
        valid = None if rows.tgt_valid is None else rows.tgt_valid | True
        return super().read(replace(rows, tgt_valid=valid), *others)


class Wrapped:
    """Not a module at all: the same interface, and nothing more."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.marks, self.attention_sites = model.marks, model.attention_sites
        self.read, self.memory_of = model.read, model.memory_of


def test_subclasses_and_wrappers_are_certified_too(tiny_model: Callable[..., Any]) -> None:
    right = tiny_model()
    wrong = WithoutSourcePadding(right.config).double().eval()
    assert {"pad_mass", "padding_right", "pad_content"} <= broken(
        certify(wrong, right.config, SRC, TGT)
    )
    writer = tiny_model(family="decoder-only")
    wrong_writer = PadIsEnd(writer.config).double().eval()
    assert "padding_left" in broken(certify(wrong_writer, writer.config, (), TGT))
    single = Wrapped(tiny_model(torch.float32))
    certificate = certify(single, right.config, SRC, TGT)
    assert certificate.passed
    assert {f.tolerance for f in certificate.findings} == {1e-4}


def test_what_a_model_raises_becomes_a_finding(tiny_model: Callable[..., Any]) -> None:
    class NoBatches(EncoderDecoder):
        def memory_of(self, rows: Rows) -> Tensor:
            if len(rows) > 1:
                raise RuntimeError("one sentence only")
            return super().memory_of(rows)

    config = tiny_model().config
    certificate = certify(NoBatches(config).double().eval(), config, SRC, TGT)
    finding = found_by(certificate, "padding_batch")
    assert not finding.passed
    assert finding.error == "RuntimeError: one sentence only"
    assert math.isinf(finding.deviation)
    assert found_by(certificate, "padding_left").passed
    lines = list(report_lines(certificate, "m", "s", "en"))
    assert any("one sentence only" in line for line in lines)


# A text, a user's edits, the command.


def test_a_user_edit_is_certified_as_the_model_would_run(translator: LoadedModel) -> None:
    assert certified(translator, "I love you.", "我爱你。").passed
    off = certified(translator, "I love you.", "我爱你。", (MaskSwitch("causal", False),))
    assert broken(off) == {"future_leak", "future_mass", "prefix"}
    assert "cache" not in {finding.name for finding in off.findings}
    off = certified(translator, "I love you.", "我爱你。", (MaskSwitch("cross_pad", False),))
    assert {"cross_mask", "padding_right"} <= broken(off)
    shut = CellEdit("encoder.blocks.0.attn", None, 0, 0, open=False)
    assert "open_cells" in broken(certified(translator, "I love you.", "我", (shut,)))
    with pytest.raises(InputProblem):
        certified(translator, "  ")


def test_nothing_is_left_in_force(translator: LoadedModel) -> None:
    certified(translator, "I love you.", "我爱你。", (MaskSwitch("causal", False),))
    assert certified(translator, "I love you.", "我爱你。").passed
    point = translator.model.hook_logits
    assert not point.wanted
    with visiting(Edits({})):
        assert not point.wanted


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("kind", ["translator", "writer"])
def test_the_command_reports_and_exits_0_or_1_or_2(
    kind: str,
    lang: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded: LoadedModel = request.getfixturevalue(kind)
    save_checkpoint(tmp_path / "tiny", loaded.model, loaded.tokenizer)
    command = ["certify", "--model", str(tmp_path / "tiny"), "--lang", lang]
    command += ["--target", "我爱你。"]
    assert main([*command, "--text", "I love you."]) == 0
    report = capsys.readouterr().out
    assert t("certify.title", lang=lang, model="tiny") in report
    assert t("certify.future_leak.title", lang=lang) in report
    assert "I love you." in report
    assert "■·" in report
    count = len(FINDINGS) - (kind == "writer")
    assert t("certify.verdict_kept", lang=lang, count=count) in report

    monkeypatch.setattr(models.transformer, "causal_mask", lambda n, m, **_: torch.ones(n, m) > 0)
    assert main(command) == 1  # without --text: an example
    report = capsys.readouterr().out
    assert t("certify.future_leak.broken", lang=lang) in report
    assert t("certify.broken", lang=lang) in report

    assert main([*command, "--text", " "]) == 2
    assert main(["certify", "--model", "no such model", "--lang", lang]) == 2
    assert t("terminal.whitespace_only", lang=lang) in capsys.readouterr().err


def test_the_report_for_programs_is_json_and_exits_alike(
    translator: LoadedModel,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    save_checkpoint(tmp_path / "tiny", translator.model, translator.tokenizer)
    command = ["certify", "--model", str(tmp_path / "tiny"), "--text", "I love you.", "--json"]
    assert main(command) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["model"], report["text"], report["passed"]) == ("tiny", "I love you.", True)
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


def test_a_number_that_is_none_stays_out_of_json(tiny_model: Callable[..., Any]) -> None:
    model = tiny_model(n_ctx=40)
    found = planted(model, BY_ID["empty_row_nan"])
    assert any(math.isinf(finding.deviation) for finding in found.findings)
    text = json.dumps(report_record(found, "m", "s"), allow_nan=False)
    assert None in [finding["deviation"] for finding in json.loads(text)["findings"]]


def test_an_examination_tests_each_promise_once(translator: LoadedModel) -> None:
    examination = examine_text(translator, "I love you.", "我爱你。")
    assert examination.names == FINDINGS
    first = examination.finding("prefix")
    certificate = examination.certificate()
    assert found_by(certificate, "prefix") is first
    assert examination.certificate() is certificate
    assert examination.finding("prefix") is first
    with pytest.raises(KeyError, match="nothing"):
        examination.finding("nothing")


def test_places_are_said_in_words() -> None:
    place = Location("x.attn", 0, 0, 1, 3, left=2)
    assert place_words(place, "en") == "x.attn, head 1, row 2, key 4, 2 PADs on the left"
    assert place_words(place, "zh") == "x.attn, 第 1 头, 第 2 行, 第 4 个键, 左侧有 2 个 PAD"
