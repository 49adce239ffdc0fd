"""All heads in a few passes against one head at a time through `trace`."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from explorer.analysis.heads import ablation
from explorer.analysis.heads.ablation import Ablation, ablate, ablating
from explorer.library import LoadedModel
from explorer.runs.edits import CellEdit, Edit, HeadOff, MaskSwitch
from explorer.runs.rerun import token_logprobs, written_tokens
from explorer.runs.trace import Trace, trace
from models.hooks import VISITOR

TEXT, TARGET = "The cat sat on the mat.", "猫坐在垫子上。"
EDITS: tuple[Edit, ...] = (
    MaskSwitch("causal", False),
    HeadOff("decoder.blocks.1.attn", 2),
    CellEdit("decoder.blocks.0.cross_attn", None, 1, 0, False),
    HeadOff("blocks.1.attn", 2),
)


def one_by_one(
    loaded: LoadedModel, traced: Trace, target: str | None, edits: tuple[Edit, ...], pads: int
) -> dict[str, np.ndarray]:
    """log p(head off) - log p of every written token, a whole trace for every head."""
    tokens = written_tokens(traced)
    before = token_logprobs(traced.logits, tokens)
    return {
        site.name: np.stack(
            [
                token_logprobs(
                    trace(loaded, TEXT, target, (*edits, HeadOff(site.name, head)), pads).logits,
                    tokens,
                )
                - before
                for head in range(site.n_heads)
            ]
        )
        for site in traced.sites
    }


@pytest.mark.parametrize("family", ["translator", "writer"])
@pytest.mark.parametrize(("edits", "pads"), [((), 0), (EDITS, 2)])
def test_the_same_as_one_head_at_a_time(family, edits, pads, request) -> None:
    loaded: LoadedModel = request.getfixturevalue(family)
    traced = trace(loaded, TEXT, TARGET, edits, pads)
    found = ablate(loaded, traced)
    expected = one_by_one(loaded, traced, TARGET, edits, pads)
    assert set(found.token_deltas) == set(expected)
    assert set(found.delta_logprob) == {site.role for site in traced.sites}
    assert max(np.abs(deltas).max() for deltas in expected.values()) > 0.1
    for name, deltas in expected.items():
        np.testing.assert_allclose(found.token_deltas[name], deltas, atol=1e-5, err_msg=name)
    for kind, heads in found.delta_logprob.items():
        sites = traced.sites_of(kind)
        np.testing.assert_allclose(heads, [expected[site.name].sum(1) for site in sites], atol=1e-4)
    assert found.logprob == pytest.approx(found.logprobs.sum())
    assert found.logprobs.max() < 0


def test_what_is_scored(translator, writer) -> None:
    end = translator.marks.end
    traced = trace(translator, TEXT, TARGET, pads=2)
    assert written_tokens(traced) == (*traced.tgt_tokens[1:-2], end)
    assert written_tokens(replace(traced, finished=False)) == traced.tgt_tokens[1:-2]
    text = trace(writer, TEXT, pads=2)
    assert written_tokens(text) == text.tgt_tokens[1:-2]
    log_softmax = torch.tensor(traced.logits).double().log_softmax(-1)
    tokens = written_tokens(traced)
    expected = log_softmax[range(len(tokens)), list(tokens)]
    np.testing.assert_allclose(token_logprobs(traced.logits, tokens), expected, rtol=1e-12)


def test_other_tokens_can_be_scored(translator) -> None:
    traced = trace(translator, TEXT, TARGET)
    written = written_tokens(traced)
    other = (*written[:2], 7)
    found, usual = ablate(translator, traced, other), ablate(translator, traced)
    assert found.tokens == other
    for name, deltas in found.token_deltas.items():
        np.testing.assert_allclose(deltas[:, :2], usual.token_deltas[name][:, :2], atol=1e-6)
        assert np.abs(deltas[:, 2] - usual.token_deltas[name][:, 2]).max() > 1e-3
    for tokens in ((), (*written, 7)):
        with pytest.raises(ValueError, match="do not follow"):
            ablate(translator, traced, tokens)


@pytest.mark.parametrize(
    ("at_once", "limits", "done"),
    [
        (1, {"MAX_ROWS": 5}, (4, 8, 12, 17, 20, 25, 28)),
        (2, {"MAX_ROWS": 5}, (8, 17, 25, 28)),
        (1, {"MAX_LOGITS": 1}, tuple(range(1, 29))),  # long rows take smaller batches
    ],
)
def test_progress_and_nothing_in_force_between_steps(
    at_once, limits, done, translator, monkeypatch
) -> None:
    traced = trace(translator, TEXT, TARGET)
    usual = ablate(translator, traced)
    for name, limit in {"AT_ONCE": at_once, **limits}.items():
        monkeypatch.setattr(ablation, name, limit)
    steps = ablating(translator, traced)
    seen = []
    while True:
        try:
            seen.append(next(steps))
        except StopIteration as stop:
            found: Ablation = stop.value
            break
        assert VISITOR.get() is None
        assert torch.is_grad_enabled()
        assert not torch.is_inference_mode_enabled()
    assert seen == [(heads, 28) for heads in done]
    for name, deltas in usual.token_deltas.items():
        np.testing.assert_allclose(found.token_deltas[name], deltas, atol=1e-5)


def test_the_head_that_is_needed_most(translator) -> None:
    found = ablate(translator, trace(translator, TEXT, TARGET))
    name, head = found.most_needed()
    lowest = min(deltas.sum(1).min() for deltas in found.token_deltas.values())
    assert found.token_deltas[name][head].sum() == lowest


def test_the_trace_of_another_model_is_refused(tiny, translator) -> None:
    with pytest.raises(ValueError, match="'tiny'"):
        ablate(tiny("other"), trace(translator, TEXT, TARGET))
