"""Faults that no mask shows: wrong positions, patterns that did not run, longer cached steps."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from certifying import SRC, TGT, broken, certify, found_by
from new_kinds import FAULTS, KINDS, Kerple, KerpleRestarted, registered
from torch import Tensor

import models.fast
import models.positions
import models.transformer
from explorer.analysis.mask_tests.certify import examine
from explorer.analysis.mask_tests.placing import has_formula
from explorer.analysis.mask_tests.quick import self_check
from explorer.library import LoadedModel
from models.attention import Attention
from models.fast import FastAttention
from models.hooks import Edits
from models.masks import causal_mask, window_mask
from models.positions import alibi_slopes, rotate, sinusoidal_table, t5_buckets

Tiny = Callable[..., LoadedModel]


def found_in_both(loaded: LoadedModel) -> set[str]:
    """What breaks in the full examination, and in the self-check as well."""
    model = loaded.model
    src = SRC if "src" in model.reads else ()
    full = broken(certify(model, loaded.config, src, TGT))
    quick = set(self_check(loaded).broken)
    assert full == quick
    return full


@pytest.mark.parametrize("family", ["encoder-decoder", "decoder-only", "encoder-only"])
@pytest.mark.parametrize("fault", ["later", "exchanged", "halves", "base"])
def test_wrong_sines_are_seen(fault, family, tiny, monkeypatch):
    def wrong(n: int, width: int, base: float = 10000.0) -> Tensor:
        right = sinusoidal_table(n + 1, width, base)
        return {
            "later": right[1:],
            "exchanged": right[:n].unflatten(-1, (-1, 2)).flip(-1).flatten(-2),
            "halves": torch.cat((right[:n, 0::2], right[:n, 1::2]), dim=-1),
            "base": sinusoidal_table(n, width, base * 1.01),
        }[fault]

    loaded = tiny(family=family)
    assert found_in_both(loaded) == set()
    monkeypatch.setattr(models.positions, "sinusoidal_table", wrong)
    monkeypatch.setattr(models.fast, "sinusoidal_table", wrong)
    assert found_in_both(tiny(family=family)) == {"positions"}


def _halves(x: Tensor, rotation: Any) -> Tensor:
    """Pairs feature i with i + d / 2, as weights of another layout want it."""
    order = torch.arange(x.shape[-1]).view(2, -1).t().flatten()
    return rotate(x[..., order], rotation)[..., order.argsort()]


@pytest.mark.parametrize(
    "wrong",
    [
        _halves,
        lambda x, rotation: rotate(x, (rotation[0], -rotation[1])),  # the other way round
        lambda x, rotation: x,
    ],
)
def test_a_wrong_rotation_is_seen(wrong, tiny, monkeypatch):
    loaded = tiny(family="decoder-only", positions="rotary")
    for kind in (Attention, FastAttention):
        monkeypatch.setattr(kind, "rotate", staticmethod(wrong))
    assert found_in_both(loaded) == {"positions"}


@pytest.mark.parametrize("positions", ["alibi", "t5"])
def test_a_wrong_bias_is_seen(positions, tiny, monkeypatch):
    loaded = tiny(family="decoder-only", positions=positions)
    if positions == "t5":
        torch.nn.init.normal_(loaded.model.positions.weight)
    assert found_in_both(loaded) == set()
    monkeypatch.setattr(models.positions, "alibi_slopes", lambda n: alibi_slopes(n).flip(0))
    monkeypatch.setattr(models.positions, "t5_buckets", lambda o, *rest: t5_buckets(o + 1, *rest))
    assert found_in_both(loaded) == {"positions"}


def test_a_learned_table_that_is_read_one_place_later_is_seen(tiny, monkeypatch):
    loaded = tiny(positions="learned")
    monkeypatch.setattr(
        models.positions.Learned, "added", lambda self, positions: self.weight[positions + 1]
    )
    assert found_in_both(loaded) == {"positions"}


@pytest.mark.parametrize(
    "change",
    [
        lambda pattern: pattern.pow(0.5),
        lambda pattern: pattern.pow(1.1),
        lambda pattern: pattern.roll(1, -2),  # the labels of the rows are off by one
    ],
)
def test_a_pattern_that_is_shown_unlike_it_ran_is_seen(change, tiny, monkeypatch):
    right = models.fast.patterned

    def wrong(*given: Any) -> tuple[Tensor, Tensor]:
        z, pattern = right(*given)
        shown = change(pattern)
        return z, shown / shown.sum(-1, keepdim=True).clamp(min=1e-30)

    loaded = tiny()
    monkeypatch.setattr(models.fast, "patterned", wrong)
    assert found_in_both(loaded) == {"mixing"}


def test_an_output_that_its_pattern_does_not_give_is_found_in_its_place(tiny_model):
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
    assert where is not None
    assert where.name == silent.name


@pytest.mark.parametrize(("more", "breaks"), [(1, "needle"), (-1, "open_cells")])
def test_a_window_of_another_size_than_the_configs_is_seen(more, breaks, tiny, monkeypatch):
    loaded = tiny(family="decoder-only", near_layers=(0, 1), window=3)
    assert len(loaded.sites) == 2
    assert found_in_both(loaded) == set()
    monkeypatch.setattr(
        models.transformer,
        "window_mask",
        lambda n, n_key, past, window, device: window_mask(n, n_key, past, window + more, device),
    )
    assert breaks in found_in_both(loaded)


@pytest.mark.parametrize("family", ["encoder-decoder", "decoder-only"])
def test_a_causal_mask_that_is_missing_in_steps_of_several_tokens_is_seen(
    family, tiny, monkeypatch
):
    def missing(n_query: int, n_key: int, offset: int, device: Any) -> Tensor:
        right = causal_mask(n_query, n_key, offset, device)
        return torch.ones_like(right) if offset else right

    loaded = tiny(family=family)
    monkeypatch.setattr(models.transformer, "causal_mask", missing)
    assert found_in_both(loaded) == {"cache"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", ["encoder-decoder", "decoder-only", "encoder-only"])
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
