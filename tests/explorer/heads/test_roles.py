"""Which head to look at first: the means are right, and planted patterns are found."""

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from explorer.__main__ import main
from explorer.analysis.heads.measures import head_measures
from explorer.analysis.heads.roles import head_roles, induction
from explorer.library import LoadedModel
from explorer.runs.trace import Trace, trace

TEXTS = ("The cat ran.", "I love you.")


def planted(traced: Trace, site: str, head: int, pattern: np.ndarray) -> Trace:
    """The same trace, with another pattern in one head."""
    name = traced.site(site).hook("pattern")
    heads = traced.activations[name].copy()
    heads[head] = pattern
    return replace(traced, activations={**traced.activations, name: heads})


def test_a_planted_previous_token_head_is_found_with_its_share(translator: LoadedModel) -> None:
    traces = [trace(translator, text, "猫。") for text in TEXTS]
    site = "encoder.blocks.1.attn"
    shifted = [
        planted(each, site, 2, np.eye(len(each.src_tokens), k=-1, dtype=np.float32))
        for each in traces
    ]
    found = {each.measure: each for each in head_roles(shifted)}
    assert (found["previous"].site, found["previous"].head) == (site, 2)
    assert found["previous"].value == pytest.approx(1)
    assert set(found) == {"previous", "diagonal", "first", "end_mark", "alignment"}
    assert "cross" in found["alignment"].site


def test_the_value_is_the_mean_over_the_sentences(translator: LoadedModel) -> None:
    traces = [trace(translator, text, "猫。") for text in TEXTS]
    found = {each.measure: each for each in head_roles(traces)}["first"]
    each = [head_measures(traced, found.site)[found.head].first for traced in traces]
    assert found.value == pytest.approx(np.mean(each))
    everywhere = [
        np.mean([head_measures(traced, site.name)[head].first for traced in traces])
        for site in traces[0].sites
        for head in range(site.n_heads)
    ]
    assert found.value == pytest.approx(max(everywhere))


def test_a_planted_induction_head_is_found(writer: LoadedModel) -> None:
    traced = trace(writer, "the cat ran the cat ran")
    n, half = len(traced.tgt_tokens), (len(traced.tgt_tokens) - 1) // 2
    pattern = np.zeros((n, n), np.float32)
    for query in range(half + 1, n):
        pattern[query, query - half + 1] = 1
    site = traced.sites[1].name
    found = induction(planted(traced, site, 3, pattern))
    assert (found.site, found.head, found.value) == (site, 3, 1.0)


def test_what_cannot_be_measured_is_refused(
    writer: LoadedModel, tiny: Callable[..., LoadedModel]
) -> None:
    with pytest.raises(ValueError, match="at least one sentence"):
        head_roles([])
    with pytest.raises(ValueError, match="repeated twice"):
        induction(trace(writer, "the cat ran"))


def test_the_command_prints_one_json_object_a_measure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["landmarks", "--model", "copy"]) == 0
    rows = [json.loads(row) for row in capsys.readouterr().out.splitlines()]
    found = {row["measure"]: row for row in rows}
    assert found["alignment"]["site"].endswith("cross_attn")
    assert 0.5 < found["alignment"]["value"] <= 1
