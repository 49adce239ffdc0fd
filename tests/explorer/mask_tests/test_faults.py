"""Each planted fault breaks the promises that it should, and no other; also what no mask shows."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from certifying import MASK_FAULTS, SRC, TGT, broken, certify, found_by, planted
from new_kinds import FAULTS, KINDS, Kerple, KerpleRestarted, registered
from tiny import WRITERS, tiny_model
from torch import Tensor, nn

from explorer.analysis.cases import BY_ID
from explorer.analysis.cases.planting import plant_pattern
from explorer.analysis.mask_tests.certify import examine, self_check
from explorer.analysis.mask_tests.hooked import has_formula
from explorer.exports.report import report_lines
from explorer.library import LoadedModel
from models.fast import patterned, speed_up
from models.hooks import Edits
from models.masks import causal_mask, window_mask
from models.positions import alibi_slopes, rotate, sinusoidal_table, t5_buckets
from models.rows import Rows
from models.transformer import FAMILIES, DecoderOnly, EncoderDecoder

BREAKS = {
    "inverted_causal": {"future_leak", "future_mass", "open_cells", "cache", "prefix"},
    "inverted_padding": {"pad_mass", "cross_mask", "padding_right", "open_cells"},
    "after_softmax": {"row_sums", "future_leak"},
    "diagonal_open": {"future_leak", "future_mass", "cache", "prefix"},
    "no_mask": {"future_leak", "future_mass", "pad_mass", "cache", "prefix"},
    "first_item": {"padding_batch", "future_leak"},
    "pad_confused": {"pad_mass", "cross_mask", "open_cells"},
    "empty_row_nan": {"padding_left"},
    "empty_row_uniform": {"pad_mass", "future_mass"},
}
"""Promises that a fault breaks in a translator."""


@pytest.mark.parametrize("family", WRITERS)
@pytest.mark.parametrize("bug", MASK_FAULTS, ids=lambda bug: bug.id)
def test_every_planted_mask_fault_breaks_the_promises_that_it_should(bug, family):
    model = tiny_model(family=family, n_ctx=40)
    if bug.id == "inverted_padding" and family == "decoder-only":
        assert planted(model, bug).passed  # it lives where padding is all that is hidden
        return
    certificate = planted(model, bug)
    assert not certificate.passed
    if family == "encoder-decoder":
        assert BREAKS.get(bug.id, set()) <= broken(certificate)
    worst = max(f.deviation for f in certificate.findings if not f.passed)
    assert worst > 1e-3  # and by far, not by rounding


def test_encoders_and_reversed_batches_that_see_padding_fail():
    """It has no future to hide: what is left to break is its padding mask."""
    model = tiny_model(family="encoder-only", n_ctx=40)
    found = broken(planted(model, BY_ID["inverted_padding"]))
    assert {"pad_mass", "padding_right", "open_cells"} <= found
    # The middle row of three keeps its own.
    model = tiny_model(n_ctx=40)
    flipped = {site.hook("mask"): lambda mask: mask.flip(0) for site in model.attention_sites()}
    found = certify(model, model.config, SRC, TGT, lambda rows: Edits(flipped))
    assert "padding_batch" in broken(found)


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


def test_faults_of_one_kind_break_nothing_else():
    model = tiny_model(n_ctx=40)
    assert broken(planted(model, BY_ID["is_causal_cache"])) == {"cache"}
    assert broken(planted(model, BY_ID["left_positions"])) == {"padding_left"}
    assert broken(planted(model, BY_ID["diagonal_closed"])) == {"row_sums", "open_cells"}
    assert planted(model, BY_ID["model_scale"]).passed  # a fault, but of no property here
    assert broken(planted(model, BY_ID["batch_positions"])) == {"positions"}
    rotary = tiny_model(positions="rotary", n_ctx=40)  # knows distances only
    assert planted(rotary, BY_ID["left_positions"]).passed


def test_the_place_of_a_deviation_is_the_place_of_the_fault():
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


def test_a_fault_in_the_fused_path_only_fails(monkeypatch):
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


def test_subclasses_and_wrappers_are_certified_too():
    right = tiny_model()
    wrong = WithoutSourcePadding(right.config).double().eval()
    assert {"pad_mass", "padding_right", "pad_content"} <= broken(
        certify(wrong, right.config, SRC, TGT)
    )
    writer = tiny_model(family="decoder-only")
    wrong_writer = PadIsEnd(writer.config).double().eval()
    assert "padding_left" in broken(certify(wrong_writer, writer.config, (), TGT))
    certificate = certify(Wrapped(tiny_model(torch.float32)), right.config, SRC, TGT)
    assert certificate.passed
    assert {finding.tolerance for finding in certificate.findings} == {1e-4}


def test_what_a_model_raises_becomes_a_finding():
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


# Faults that no mask shows: wrong positions, patterns that did not run, longer cached steps.


def found_in_both(loaded: LoadedModel) -> set[str]:
    """What breaks in the full examination, and in the self-check as well."""
    model = loaded.model
    src = SRC if "src" in model.reads else ()
    full = broken(certify(model, loaded.config, src, TGT))
    quick = set(self_check(loaded).broken)
    assert full == quick
    return full


def halves(x: Tensor, rotation: Any) -> Tensor:
    """Pairs feature i with i + d / 2, as weights of another layout want it."""
    order = torch.arange(x.shape[-1]).view(2, -1).t().flatten()
    return rotate(x[..., order], rotation)[..., order.argsort()]


def shown_as(change: Callable[[Tensor], Tensor]) -> Callable[..., tuple[Tensor, Tensor]]:
    """`patterned`, whose pattern is shown unlike it ran."""

    def wrong(*given: Any) -> tuple[Tensor, Tensor]:
        z, pattern = patterned(*given)
        shown = change(pattern)
        return z, shown / shown.sum(-1, keepdim=True).clamp(min=1e-30)

    return wrong


def wider(more: int) -> Callable[..., Tensor]:
    return lambda n, n_key, past, window, device: window_mask(n, n_key, past, window + more, device)


def missing(n_query: int, n_key: int, offset: int, device: Any) -> Tensor:
    """The causal mask, which a cached step of several tokens lacks."""
    right = causal_mask(n_query, n_key, offset, device)
    return torch.ones_like(right) if offset else right


SINES = "models.positions.sinusoidal_table", "models.fast.sinusoidal_table"
ROTATIONS = "models.attention.Attention.rotate", "models.fast.FastAttention.rotate"
ROTARY = {"family": "decoder-only", "positions": "rotary"}
NEAR = {"family": "decoder-only", "near_layers": (0, 1), "window": 3}
WRONG: list[tuple[tuple[str, ...], Any, dict[str, Any], set[str]]] = [
    *(
        (SINES, wrong, {"family": family}, {"positions"})
        for family in FAMILIES
        for wrong in (
            lambda n, *of: sinusoidal_table(n + 1, *of)[1:],  # one place later
            lambda n, *of: sinusoidal_table(n, *of).unflatten(-1, (-1, 2)).flip(-1).flatten(-2),
            lambda n, *of: torch.cat([sinusoidal_table(n, *of)[:, at::2] for at in (0, 1)], -1),
            lambda n, width, base: sinusoidal_table(n, width, 1.01 * base),
        )
    ),
    *(
        (ROTATIONS, staticmethod(wrong), ROTARY, {"positions"})
        for wrong in (
            halves,
            lambda x, rotation: rotate(x, (rotation[0], -rotation[1])),  # the other way round
            lambda x, rotation: x,
        )
    ),
    (
        ("models.positions.alibi_slopes",),
        lambda n: alibi_slopes(n).flip(0),
        {"positions": "alibi"},
        {"positions"},
    ),
    (
        ("models.positions.t5_buckets",),
        lambda offsets, *more: t5_buckets(offsets + 1, *more),
        {"positions": "t5"},
        {"positions"},
    ),
    (
        ("models.positions.Learned.added",),
        lambda self, positions: self.weight[positions + 1],
        {"positions": "learned"},
        {"positions"},
    ),
    *(
        (("models.fast.patterned",), shown_as(change), {}, {"mixing"})
        for change in (
            lambda pattern: pattern.pow(0.5),
            lambda pattern: pattern.pow(1.1),
            lambda pattern: pattern.roll(1, -2),  # the labels of the rows are off by one
        )
    ),
    *(
        (("models.transformer.causal_mask",), missing, {"family": family}, {"cache"})
        for family in WRITERS
    ),
    (("models.transformer.window_mask",), wider(1), NEAR, {"needle"}),
    (("models.transformer.window_mask",), wider(-1), NEAR, {"open_cells", "cache", "prefix"}),
]
"""What is replaced, by what, in which design, and what breaks."""


@pytest.mark.parametrize(("places", "wrong", "design", "breaks"), WRONG)
def test_what_no_mask_shows_is_seen(places, wrong, design, breaks, tiny, monkeypatch):
    for place in places:
        monkeypatch.setattr(place, wrong)
    assert found_in_both(tiny(**design)) == breaks


def test_an_output_that_its_pattern_does_not_give_is_found_in_its_place():
    model = tiny_model()
    (site,) = (s for s in model.attention_sites() if s.name == "decoder.blocks.1.cross_attn")

    def other(z: Tensor) -> Tensor:
        z = z.clone()
        z[:, 1, 2] += 1
        return z

    found = certify(model, model.config, SRC, TGT, lambda rows: Edits({site.hook("z"): other}))
    where = found_by(found, "mixing").where
    assert (where.name, where.head, where.query) == (site.name, 1, 2)


def test_a_hook_point_that_never_fires_is_named(tiny):
    loaded = tiny()
    silent = loaded.model.encoder.blocks[1].hook_ffn_out
    silent.forward = lambda tensor: tensor
    assert found_in_both(loaded) == {"hooks"}
    where = found_by(certify(loaded.model, loaded.config, SRC, TGT), "hooks").where
    assert where.name == silent.name


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_new_kind_is_judged_by_its_own_formula(family, kind, tiny):
    field, registry, _ = KINDS[kind]
    with registered(kind):
        loaded = tiny(family=family, **{field: kind})
        assert found_in_both(loaded) == set()
        assert "positions" in examine(loaded.model, loaded.config, SRC, TGT).names
        for fault, breaks in FAULTS.get(kind, ()) if loaded.config.is_causal else ():
            registry[kind] = fault
            wrong = tiny(family=family, **{field: kind})
            assert breaks <= found_in_both(wrong)
            assert not has_formula(wrong.model)  # the formula is that of the class it overrides


def test_a_new_kind_with_a_wrong_formula_is_seen(tiny, monkeypatch):
    with registered("kerple", "ramp", "spiral"):
        for kind, method in (
            ("kerple", "expected_bias"),
            ("ramp", "expected_vector"),
            ("spiral", "expected_angles"),
        ):
            right = getattr(KINDS[kind][2], method)

            def off(*given: Any, right: Any = right) -> Any:
                return (1.01 * np.array(right(*given))).tolist()

            monkeypatch.setattr(KINDS[kind][2], method, off)
            assert found_in_both(tiny(positions=kind)) == {"positions"}


@pytest.mark.parametrize("named", ["sinusoidal", "alibi", "t5", "none"])
def test_a_users_positions_are_not_judged_by_the_formula_of_another_kind(named, tiny):
    loaded = tiny(family="decoder-only", positions=named)
    for kind, judged in ((Kerple, True), (KerpleRestarted, False)):
        loaded.model.positions = kind(loaded.config, True)
        assert has_formula(loaded.model) is judged
    loaded.model.positions = Kerple(loaded.config, True)
    assert found_in_both(loaded) == set()
