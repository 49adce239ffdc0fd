"""The ranks of a head among the others, worked by hand, and in agreement with what they sum up."""

from dataclasses import replace

import numpy as np
import pytest

from explorer.analysis.heads.ablation import Ablation, ablate
from explorer.analysis.heads.attribution import MEASURES, Attribution, attribute
from explorer.analysis.heads.ranks import head_ranks, need, need_map
from explorer.library import LoadedModel
from explorer.runs.trace import trace

CROSS = "decoder.blocks.1.cross_attn"


@pytest.fixture(scope="module")
def ablated(translator: LoadedModel) -> tuple[Attribution, Ablation]:
    traced = trace(translator, "The cat ran", "我爱你猫")
    ablation = ablate(translator, traced)
    return attribute(translator, traced, 1, ablation=ablation), ablation


def test_values_and_ranks_are_those_of_all_heads_of_the_kind(
    ablated: tuple[Attribution, Ablation],
) -> None:
    found, _ = ablated
    ranked = head_ranks(found, CROSS, 2)
    sites = [site.name for site in found.sites if site.role == "cross"]
    assert ranked.n_heads == 8
    for name in MEASURES:
        sizes = np.abs(np.concatenate([found.over_heads(site)[name] for site in sites]))
        own = found.over_heads(CROSS)[name][2]
        assert ranked.values[name] == pytest.approx(float(own))
        assert ranked.ranks[name] == 1 + sum(size > abs(own) for size in sizes)
    assert ranked.key == int(found.weight[CROSS][2, 1].argmax())


def test_agreement_is_with_switching_off(ablated: tuple[Attribution, Ablation]) -> None:
    found, _ = ablated
    ranked = head_ranks(found, CROSS, 0)
    assert ranked.agreement["off"] == pytest.approx(1)
    assert ranked.agreement["weight"] == pytest.approx(found.agreement("cross")[0, 3])


def test_the_largest_by_size_is_number_one_whatever_its_sign(
    ablated: tuple[Attribution, Ablation],
) -> None:
    found, _ = ablated
    off = {**found.off, CROSS: np.array([0.1, -5.0, 0.2, 0.0])}
    made = replace(found, off=off)
    assert head_ranks(made, CROSS, 1).ranks["off"] == 1
    assert head_ranks(made, CROSS, 1).values["off"] == -5


def test_a_site_or_head_that_is_not_there_is_refused(ablated: tuple[Attribution, Ablation]) -> None:
    found, _ = ablated
    with pytest.raises(KeyError, match="nowhere"):
        head_ranks(found, "nowhere", 0)
    with pytest.raises(IndexError):
        head_ranks(found, CROSS, 9)


def test_need_names_the_costliest_head_and_counts_those_that_hardly_count(
    ablated: tuple[Attribution, Ablation],
) -> None:
    _, ablation = ablated
    deltas = {name: np.zeros_like(each) for name, each in ablation.token_deltas.items()}
    deltas[CROSS][3] = [-1.0, -2.0, 0.5, -0.5][: deltas[CROSS].shape[1]]
    deltas[CROSS][1, 0] = 4.0
    deltas["encoder.blocks.0.attn"][0, 0] = 0.05
    made = replace(ablation, token_deltas=deltas)
    said = need(made)
    assert (said.site, said.head) == (CROSS, 3)
    assert said.loss == pytest.approx(-deltas[CROSS][3].sum())
    assert said.n_heads == sum(len(each) for each in deltas.values())
    assert said.little == said.n_heads - 2
    np.testing.assert_allclose(need_map(made, "cross")[1], -deltas[CROSS].sum(1))
    assert not np.signbit(need_map(made, "decoder")).any()
