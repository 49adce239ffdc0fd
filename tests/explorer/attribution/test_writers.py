"""Any point of a stream is the sum of what was written into it; a score that of its products."""

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor

from explorer.analysis.attribution.why import why
from explorer.analysis.attribution.writers import output, points, writers_at
from explorer.analysis.attribution.writes import silent_at
from explorer.library import LoadedModel
from explorer.runs.passes import walked
from explorer.runs.rerun import rows_of
from explorer.runs.run import run
from explorer.runs.trace import Trace
from models.hooks import LOGITS, AttentionSite, Edits, visiting
from models.norms import LayerNorm, RMSNorm

Made = tuple[LoadedModel, Trace]


def cell(traced: Trace, site: AttentionSite) -> tuple[int, int]:
    """An allowed cell off the diagonal, so that query and key are different positions."""
    mask = traced.mask(site.name)[1].copy()
    np.fill_diagonal(mask, False)
    query, key = np.argwhere(mask)[-1].tolist()
    return query, key


def frozen(self: LayerNorm | RMSNorm, x: Tensor) -> Tensor:
    """The norms' forward with a scale that gradients do not see."""
    centred = x - x.mean(-1, keepdim=True) if isinstance(self, LayerNorm) else x
    scale = (centred.pow(2).mean(-1, keepdim=True) + self.eps).sqrt().detach()
    return self.weight * centred / scale + (0.0 if self.bias is None else self.bias)


def held(traced: Trace, sites: Iterable[AttentionSite]) -> dict[str, Callable[[Tensor], Tensor]]:
    """Changes by which these blocks' heads and feed-forward networks write what they wrote."""

    def as_it_was(hook: str, _: Tensor) -> Tensor:
        return torch.tensor(traced.activations[hook])[None]

    hooks = {hook for site in sites for hook in (site.hook("z"), f"{site.block}.hook_ffn_out")}
    return {hook: partial(as_it_was, hook) for hook in hooks}


def direct(made: Made, hook: str, at: tuple[int, ...]) -> dict[str, Tensor]:
    """By autograd: z of each site times the gradient of one number at `hook`, [head, pos, d_head];
    norms frozen, and nothing passed on through any other sublayer.
    """
    loaded, traced = made
    nudges: dict[str, Tensor] = {}

    def nudged(name: str) -> Callable[[Tensor], Tensor]:
        def change(tensor: Tensor) -> Tensor:
            nudges[name] = torch.zeros_like(tensor, requires_grad=True)
            return tensor.detach() + nudges[name]

        return change

    seen: dict[str, Tensor] = {}
    changes = {site.hook("z"): nudged(site.hook("z")) for site in traced.sites}
    changes |= {f"{site.block}.hook_ffn_out": nudged(site.block) for site in traced.sites}
    changes |= {hook: lambda tensor: seen.setdefault(hook, tensor)}
    with torch.enable_grad(), visiting(Edits(changes)):
        loaded.model.read(rows_of(traced))
    names = [site.hook("z") for site in traced.sites if site.hook("z") in nudges]
    wanted = [nudges[name] for name in names]
    gradients = torch.autograd.grad(seen[hook][(0, *at)], wanted, materialize_grads=True)
    return {
        name: gradient[0] * torch.tensor(traced.activations[name])
        for name, gradient in zip(names, gradients, strict=True)
    }


def test_pieces_add_up_to_the_stream_and_to_scores_whose_keys_compare(each):
    loaded, traced = each
    for stack in traced.stacks:
        n = len(traced.src_tokens if stack.stream == "src" else traced.tgt_tokens)
        for hook in points(loaded, stack):
            found = walked(writers_at(loaded, traced, hook, range(n)))
            np.testing.assert_allclose(found.pieces.sum(0), found.whole, atol=1e-12)
            np.testing.assert_allclose(found.whole, traced.activations[hook], atol=1e-10)
            assert len(set(found.writers)) == len(found.writers) == len(found.pieces)
    for site in traced.sites:
        query, key = cell(traced, site)
        found = walked(why(loaded, traced, site, 1, query, key))
        assert found.score == pytest.approx(
            float(traced.activations[site.hook("scores")][1, query, key])
        )
        assert abs(found.rest) < 1e-10
        assert found.by_query.sum() == pytest.approx(found.by_key.sum(), abs=1e-10)
        biased = site.kind == "self" and loaded.config.position_type.acts == "biases"
        assert (found.bias is not None) == biased
        assert (found.cap is not None) == (loaded.config.score_cap is not None)
    site = traced.sites[-1]
    query, key = cell(traced, site)
    one, other = (walked(why(loaded, traced, site, 1, query, at)) for at in (key, 0))
    both = walked(why(loaded, traced, site, 1, query, key, against=0))
    np.testing.assert_allclose(both.matrix, one.matrix - other.matrix, atol=1e-12)
    assert both.score == pytest.approx(one.score - other.score)
    assert abs(both.rest) < 1e-10
    for side in ("query", "key"):
        np.testing.assert_allclose(
            both.without(side), one.without(side) - other.without(side), atol=1e-10
        )


def test_a_head_s_share_of_a_logit_is_its_gradient_on_the_direct_way(each, monkeypatch):
    loaded, traced = each
    if not traced.config.lm_head or loaded.config.logit_cap or loaded.config.head_net:
        return
    monkeypatch.setattr(LayerNorm, "forward", frozen)
    monkeypatch.setattr(RMSNorm, "forward", frozen)
    place, token = 3, 17
    shares = direct(each, LOGITS, (place, token))
    found = walked(output(loaded, traced, [place]))
    logits = found.pieces[:, 0] @ loaded.model.unembed.weight[token].double().numpy()
    pairs = zip(found.writers, logits, strict=True)
    heads = [(writer, share) for writer, share in pairs if writer.site]
    assert len(heads) == sum(site.n_heads for site in traced.sites if site.query_stream == "tgt")
    for writer, share in heads:
        by_autograd = shares[f"{writer.site}.hook_z"][writer.head, place].sum()
        assert share == pytest.approx(float(by_autograd), abs=1e-9), writer


def test_a_head_s_share_of_a_score_is_its_gradient_on_the_direct_way(each, monkeypatch):
    loaded, traced = each
    if loaded.config.score_cap:
        return
    monkeypatch.setattr(LayerNorm, "forward", frozen)
    monkeypatch.setattr(RMSNorm, "forward", frozen)
    site = traced.sites[-1]
    query, key = cell(traced, site)
    shares = direct(each, site.hook("scores"), (2, query, key))
    found = walked(why(loaded, traced, site, 2, query, key))
    for ledger, brought, place in (
        (found.queries, found.by_query, query),
        (found.keys, found.by_key, key),
    ):
        for writer, share in zip(ledger.writers, brought, strict=True):
            if writer.site:
                by_autograd = shares[f"{writer.site}.hook_z"][writer.head, place].sum()
                assert share == pytest.approx(float(by_autograd), abs=1e-9), writer


def test_without_a_writer_norms_take_their_scale_anew(each):
    """Measured by the model: one head's z is 0 at one place, all other sublayers are held."""
    loaded, traced = each
    site, first = traced.sites[-1], traced.sites[0]
    if first.query_stream != site.query_stream:
        first = next(each for each in traced.sites if each.stack == "decoder")
    query, key = cell(traced, site)
    found = walked(why(loaded, traced, site, 1, query, key))
    at = next(
        at
        for at, writer in enumerate(found.queries.writers)
        if (writer.site, writer.head) == (first.name, 3)
    )

    silent = partial(silent_at, at=(3, query))
    changes = held(traced, traced.sites) | {first.hook("z"): silent}
    seen = run(loaded.model, rows_of(traced), {site.hook("q")}, Edits(changes))
    np.testing.assert_allclose(
        found.queries.without[at, 0], seen[site.hook("q")][0, 1, query].numpy(), atol=1e-10
    )


def test_places_that_are_none(design):
    loaded, traced = design("post")
    with pytest.raises(KeyError, match="not a position in the residual stream"):
        walked(writers_at(loaded, traced, "decoder.blocks.0.hook_attn_out", [0]))
    with pytest.raises(IndexError, match="key 99: there are"):
        walked(why(loaded, traced, traced.sites[0], 0, 0, 99))
    other, _ = design("pre")
    with pytest.raises(ValueError, match="the trace was made by"):
        walked(writers_at(other, traced, "decoder.blocks.0.hook_resid_pre", [0]))
