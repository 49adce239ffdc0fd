"""The self-check: right models keep every promise, and each fault that masks can have shows."""

from typing import Any

import pytest
from certifying import MASK_FAULTS
from foreign import NAMES, Golden

import models.transformer
from explorer.analysis.mask_tests.quick import QuickProbe, self_check
from explorer.library import open_model
from models.masks import causal_mask
from models.rows import Rows


def test_right_models_keep_every_promise(translator, writer):
    found = self_check(translator)
    assert (found.kept, found.tested, found.broken) == (16, 16, ())
    assert self_check(writer).tested == 15  # without cross-attention


@pytest.mark.parametrize("name", NAMES)
def test_models_of_other_libraries_keep_every_promise(name, tmp_path):
    found = self_check(open_model(Golden.load(name).write(tmp_path / name, "own")))
    assert found.broken == ()
    assert found.tested >= 7


@pytest.mark.parametrize("bug", MASK_FAULTS, ids=lambda bug: bug.id)
def test_every_planted_mask_fault_is_seen(bug, translator):
    plant = bug.plant
    assert self_check(translator, lambda rows: plant(translator.model, rows)).broken


def test_a_wrong_mask_of_the_model_itself_is_seen(tiny, monkeypatch):
    """Nothing is planted from outside: the model makes a mask that lets it see one token ahead."""

    def one_ahead(n_query: int, n_key: int, offset: int, device: Any) -> Any:
        return causal_mask(n_query, n_key, offset + 1, device)

    monkeypatch.setattr(models.transformer, "causal_mask", one_ahead)
    found = self_check(tiny(family="decoder-only"))
    assert {"future_leak", "future_mass", "prefix"} <= set(found.broken)


def test_weights_of_all_sites_come_from_one_stream(tiny):
    """More keys than a head has features take several runs, whose rows must fit together."""
    loaded = tiny(n_heads=12)  # two features a head
    probe = QuickProbe(loaded.model, loaded.config)
    rows = Rows.of([(1, 8, 9, 10, 11)], [(8, 9, 10, 2)], loaded.marks)
    for site in probe.sites:
        weights = probe.weights(site, rows)
        assert weights.sum(-1).allclose(weights.new_ones(()), atol=1e-5)
