"""Paths: one sender by hand, all of them together, and none where no way leads."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from explorer.analysis.patching import paths
from explorer.analysis.patching.maps import Cell, patches_of
from explorer.analysis.patching.pair import Pair, pair
from explorer.analysis.patching.patches import Patch, gaps
from explorer.analysis.patching.paths import Into, Paths
from explorer.engine.jobs import walked
from explorer.library import LoadedModel
from explorer.runs.run import run
from explorer.runs.trace import trace
from models.hooks import LOGITS, Edits


def both(loaded: LoadedModel) -> Pair:
    return pair(loaded, trace(loaded, "A cat ran."), "A dog ran.")


def mapped(loaded: LoadedModel, pair: Pair, receiver: Cell, into: Into) -> Paths:
    return walked(paths.path_map(loaded, pair, receiver, into))


def put(value: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda tensor: value.expand_as(tensor)


def test_a_path_by_hand(tiny):
    """Head 3 of the first layer into the value of head 1 of the third, in two plain runs; what the
    heads of the second layer would have made of it must not arrive."""
    deep = tiny("deep", family="decoder-only", n_layers=3)
    found = both(deep)
    hooks = {site.hook("z") for site in deep.sites}
    first, second = (run(deep.model, rows, hooks) for rows in found.rows)
    sent, value = "blocks.0.attn.hook_z", "blocks.2.attn.hook_v"
    held = {**second, sent: second[sent].clone()}
    held[sent][:, 3] = first[sent][:, 3]
    edits = Edits({hook: put(z) for hook, z in held.items()})
    arrived = run(deep.model, found.rows[1], {value}, edits)[value]

    def received(v: Tensor) -> Tensor:
        v = v.clone()
        v[:, 1] = arrived[:, 1]
        return v

    logits = run(deep.model, found.rows[1], {LOGITS}, Edits({value: received}))[LOGITS]
    by_hand = found.gap(logits[0, found.question.places[1]].numpy())
    shown = mapped(deep, found, ("decoder", 2, 1), "v")
    effect = shown.heads.cells["decoder", 0, 3]
    assert effect == pytest.approx(found.recovered(np.array([by_hand]))[0], abs=1e-5)
    assert abs(effect) > 1e-4
    alone = paths.run_path(deep, found, ("decoder", 2, 1), "v", ("decoder", 0, 3))
    assert alone.effect == pytest.approx(effect, abs=1e-5)
    assert not np.isnan(shown.heads.parts[0].effects[1]).any()
    assert np.isnan(shown.heads.parts[0].effects[2]).all()


@pytest.mark.parametrize("into", ["q", "k", "v"])
def test_all_paths_together_are_the_first_run_s_own(translator, into):
    """All senders and the words at once bring the receiver exactly what it had in the first run."""
    found = both(translator)
    site = paths.site_of(translator, ("cross", 1, 2))
    leading = {(each.role, each.layer) for each in paths.senders(translator, site, into)}
    patches = [
        patch
        for cell, patch in patches_of(translator, found, "z")[0].items()
        if cell[:2] in leading
    ]
    first = run(translator.model, found.rows[0], {"encoder.hook_embed", site.hook(into)})
    patches.append(Patch("encoder.hook_embed", (), first["encoder.hook_embed"][0]))
    (arrived,) = paths.arriving(translator, found, site, 2, into, [patches])
    own = run(translator.model, found.rows[1], {site.hook(into)})[site.hook(into)][0, 2]
    assert torch.allclose(arrived.value, first[site.hook(into)][0, 2], atol=1e-5)
    assert not torch.allclose(own, first[site.hook(into)][0, 2], atol=1e-3)
    shown = mapped(translator, found, ("cross", 1, 2), into)
    whole = walked(
        gaps(translator, found, [[Patch(site.hook(into), (2,), first[site.hook(into)][0, 2])]])
    )
    assert shown.everything == pytest.approx(found.recovered(whole)[0], abs=1e-4)


def test_no_way_leads_back_or_across(translator):
    found = both(translator)
    queries = {
        part.name: part for part in mapped(translator, found, ("cross", 0, 1), "q").heads.parts
    }
    assert np.isnan(queries["encoder"].effects).all()
    assert not np.isnan(queries["decoder"].effects[0]).any()
    assert np.isnan(queries["decoder"].effects[1]).all()
    assert np.isnan(queries["cross"].effects).all()
    keys = {part.name: part for part in mapped(translator, found, ("cross", 0, 1), "k").heads.parts}
    assert not np.isnan(keys["encoder"].effects).any()
    assert np.isnan(keys["decoder"].effects).all()
    own = {
        part.name: part for part in mapped(translator, found, ("encoder", 1, 0), "v").heads.parts
    }
    assert not np.isnan(own["encoder"].effects[0]).any()
    assert np.isnan(own["encoder"].effects[1:]).all()


def test_the_first_layer_receives_words_alone(writer):
    assert [site.layer for site in paths.receivers(writer, "q")] == [1]
    found = both(writer)
    shown = mapped(writer, found, ("decoder", 0, 2), "v")
    assert all(np.isnan(part.effects).all() for part in shown.heads.parts)
    assert shown.words == pytest.approx(shown.everything, abs=1e-4)
    assert abs(shown.everything) > 1e-5
    with pytest.raises(KeyError, match="no head"):
        mapped(writer, found, ("decoder", 7, 0), "v")
