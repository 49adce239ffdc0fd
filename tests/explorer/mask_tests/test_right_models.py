"""Right models of every family keep every promise, and are left as they were."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from certifying import SRC, TGT, broken, certify, found_by

from explorer.analysis.mask_tests.certify import FINDINGS, MAX_PROBED
from explorer.analysis.mask_tests.examiner import N_PADS
from explorer.analysis.mask_tests.probe import Probe
from models.hooks import Edits
from models.norms import NORMS
from models.positions import POSITIONS
from models.transformer import FAMILIES


@pytest.mark.parametrize("placement", ["post", "pre", "sublayer"])
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_right_model_keeps_every_promise(family, positions, placement, tiny_model):
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


def test_a_window_of_the_models_own_is_no_fault(tiny_model):
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
def test_rounding_is_no_fault(dtype, norm, tiny_model):
    model = tiny_model(dtype, norm=norm)
    assert certify(model, model.config, SRC, TGT).passed


def test_the_model_is_left_as_it_was_with_short_and_long_rows(tiny_model):
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


def test_a_weight_that_underflows_is_not_taken_for_a_mask(tiny_model):
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


def test_masks_are_recovered_from_behaviour(tiny_model):
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


def test_weights_from_outside_are_the_weights_inside(tiny_model, record):
    model = tiny_model(n_kv_heads=2)
    probe = Probe(model, model.config)
    rows = probe.batch_of([(SRC, TGT), (SRC[:3], TGT[:2])], left=1)
    inside = record(lambda: model.read(rows), lambda name: name.endswith("pattern"))
    assert max(len(SRC) + 1, len(TGT) + 1) > model.config.d_head  # so more than one run a site
    for site in model.attention_sites():
        torch.testing.assert_close(probe.weights(site, rows), inside[site.hook("pattern")])
