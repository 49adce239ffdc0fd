"""Each planted bug fails, where it should, and no other promise does."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from certifying import MASK_FAULTS, SRC, TGT, broken, certify, found_by, planted
from families import WRITERS
from torch import Tensor, nn

from explorer.analysis.cases import BY_ID
from explorer.analysis.cases.planting import plant_pattern
from explorer.analysis.mask_tests.quick import self_check
from explorer.exports.report import report_lines
from models.fast import speed_up
from models.hooks import Edits
from models.rows import Rows
from models.transformer import DecoderOnly, EncoderDecoder


@pytest.mark.parametrize("family", WRITERS)
@pytest.mark.parametrize("bug", MASK_FAULTS, ids=lambda bug: bug.id)
def test_every_planted_mask_fault_fails(bug, family, tiny_model):
    model = tiny_model(family=family, n_ctx=40)
    if bug.id == "inverted_padding" and family == "decoder-only":
        assert planted(model, bug).passed  # it lives where padding is all that is hidden
        return
    certificate = planted(model, bug)
    assert not certificate.passed
    worst = max(f.deviation for f in certificate.findings if not f.passed)
    assert worst > 1e-3  # and by far, not by rounding


def test_encoders_and_reversed_batches_that_see_padding_fail(tiny_model):
    """It has no future to hide: what is left to break is its padding mask."""
    model = tiny_model(family="encoder-only", n_ctx=40)
    found = broken(planted(model, BY_ID["inverted_padding"]))
    assert {"pad_mass", "padding_right", "open_cells"} <= found
    # The middle row of three keeps its own.
    model = tiny_model(n_ctx=40)
    flipped = {site.hook("mask"): lambda mask: mask.flip(0) for site in model.attention_sites()}
    found = certify(model, model.config, SRC, TGT, lambda rows: Edits(flipped))
    assert "padding_batch" in broken(found)


@pytest.mark.parametrize(
    ("fault", "expected"),
    {
        "inverted_causal": {"future_leak", "future_mass", "open_cells", "cache", "prefix"},
        "inverted_padding": {"pad_mass", "cross_mask", "padding_right", "open_cells"},
        "after_softmax": {"row_sums", "future_leak"},
        "diagonal_open": {"future_leak", "future_mass", "cache", "prefix"},
        "no_mask": {"future_leak", "future_mass", "pad_mass", "cache", "prefix"},
        "first_item": {"padding_batch", "future_leak"},
        "pad_confused": {"pad_mass", "cross_mask", "open_cells"},
        "empty_row_nan": {"padding_left"},
        "empty_row_uniform": {"pad_mass", "future_mass"},
    }.items(),
)
def test_a_fault_breaks_the_promises_that_it_should(fault, expected, tiny_model):
    assert expected <= broken(planted(tiny_model(n_ctx=40), BY_ID[fault]))


@pytest.mark.parametrize("is_added", [False, True])
@pytest.mark.parametrize("fill", [-19.0, -100.0, -700.0, -1e4, -1e9])
def test_a_finite_fill_is_seen_whatever_the_scores(fill, is_added, tiny):
    def filled(scores: Tensor, keep: Tensor) -> Tensor:
        kept = scores if is_added else torch.zeros_like(scores)
        return torch.where(keep, scores, kept + fill).softmax(-1)

    loaded, plant = tiny(), plant_pattern(filled)
    model = loaded.model
    found = certify(model, model.config, SRC, TGT, lambda rows: plant(model, rows))
    quick = self_check(loaded, lambda rows: plant(model, rows))
    assert {"future_mass", "pad_mass", "cross_mask"} <= broken(found) & set(quick.broken)


def test_faults_of_one_kind_break_nothing_else(tiny_model):
    model = tiny_model(n_ctx=40)
    assert broken(planted(model, BY_ID["is_causal_cache"])) == {"cache"}
    assert broken(planted(model, BY_ID["left_positions"])) == {"padding_left"}
    assert broken(planted(model, BY_ID["diagonal_closed"])) == {"row_sums", "open_cells"}
    assert planted(model, BY_ID["model_scale"]).passed  # a fault, but of no property here
    assert broken(planted(model, BY_ID["batch_positions"])) == {"positions"}
    rotary = tiny_model(positions="rotary", n_ctx=40)  # knows distances only
    assert planted(rotary, BY_ID["left_positions"]).passed


def test_the_place_of_a_deviation_is_the_place_of_the_fault(tiny_model):
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
    assert (where.name, where.layer, where.head) == (site.name, 1, 2)
    assert (where.query, where.key) == (1, 3)
    leak = found_by(found, "future_leak").where
    assert (leak.query, leak.key) == (1, 3)
    assert leak.layer in (1, None)  # the block itself, or the logits after it


def test_a_fault_in_the_fused_path_only_fails(tiny_model, monkeypatch):
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


def test_subclasses_and_wrappers_are_certified_too(tiny_model):
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


def test_what_a_model_raises_becomes_a_finding(tiny_model):
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
    assert found_by(certificate, "prefix").passed
    lines = list(report_lines(certificate, "en"))
    assert any("one sentence only" in line for line in lines)
