"""table(): every result as pandas, with the numbers of the result itself."""

import numpy as np
import pytest
import torch

import explorer as hl
from explorer.library import LoadedModel
from explorer.runs.trace import Trace


@pytest.fixture(scope="module")
def copier() -> LoadedModel:
    return hl.open_model("copy")


@pytest.fixture(scope="module")
def traced(copier: LoadedModel) -> Trace:
    return hl.trace(copier, "b a")


def test_patterns_and_logits_of_a_trace(traced: Trace) -> None:
    table = hl.table(traced)
    site = traced.sites_of("cross")[0]
    here = table[(table["view"] == "Cross-attention") & (table.layer == 1) & (table["head"] == 2)]
    assert np.array_equal(here.weight, traced.pattern(site.name)[1].ravel())
    assert np.array_equal(here.allowed, traced.mask(site.name)[1].ravel())
    logits = hl.table(traced, "logits")
    second = logits[(logits["position"] == 2) & (logits["id"] == 3)]
    assert second.logit.item() == traced.logits[1, 3]
    assert second.token.item() == traced.tgt_str_tokens[1]


def test_ablation_and_attribution(copier: LoadedModel, traced: Trace) -> None:
    ablation = hl.ablate(copier, traced)
    table = hl.table(ablation)
    for site in ablation.sites:
        here = table[(table.site == site.name) & (table["head"] == 1)]
        assert np.array_equal(here.delta, ablation.token_deltas[site.name][0])
        assert list(here.token_id) == list(ablation.tokens)
    found = hl.attribute(copier, traced, 0, ablation)
    table = hl.table(found)
    site = found.sites[-1]
    last = table[(table.site == site.name) & (table["head"] == site.n_heads)]
    assert np.array_equal(last.gradient, found.gradient[site.name][-1].ravel())
    assert set(last.layer) == {site.layer + 1}


def test_captures_certificates_and_pictures() -> None:
    attention = torch.nn.MultiheadAttention(4, 2).eval()
    with hl.capture() as seen:
        attention(*[torch.randn(3, 1, 4)] * 3)
    assert np.array_equal(hl.table(seen).weight, seen.patterns[0].numpy().ravel())
    result = hl.certify(lambda ids: torch.eye(9)[ids].cumsum(1), None, [1, 2, 3], pad_id=None)
    table = hl.table(result)
    assert list(table["name"]) == [finding.name for finding in result.findings]
    assert len(hl.table(hl.mask(np.tri(3, dtype=bool)))) == 9
    with pytest.raises(TypeError, match="no table of int"):
        hl.table(3)
