"""Flow: shares that add up, parts that close, gradients by autograd and by their sum, the test."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from foreign import Golden

from explorer.analysis.heads.flow import attention_flow
from explorer.analysis.heads.rollout import cross_rollout, rollout
from explorer.analysis.patching.deletion import N_RANDOM, Deletion, DeletionCurve, delete
from explorer.analysis.patching.gradients import gradients
from explorer.analysis.patching.network import (
    Network,
    contribution_network,
    nearness,
    parts_of,
    rollout_network,
)
from explorer.analysis.patching.rankings import RANKINGS, rank
from explorer.analysis.patching.words import explained, no_word
from explorer.library import LoadedModel, open_model
from explorer.runs.edits import HeadOff
from explorer.runs.rerun import rows_of, token_logprobs
from explorer.runs.run import run
from explorer.runs.trace import Trace, trace
from models.hooks import LOGITS, AttentionSite, Edits
from models.transformer import build_model

Tiny = Callable[..., LoadedModel]
TEXT = "A cat ran."


@pytest.fixture(scope="module")
def filler(tiny: Tiny) -> LoadedModel:
    return tiny("filler", family="encoder-only", norm_placement="sublayer", norm="rmsnorm")


@pytest.fixture(params=["translator", "writer", "filler"])
def traced(request: pytest.FixtureRequest) -> tuple[LoadedModel, Trace]:
    """A Trace of each family, and so of each placement of the norm; of a translation the start."""
    loaded = request.getfixturevalue(request.param)
    target = "我爱你。" if "src" in loaded.model.reads else None
    return loaded, trace(loaded, TEXT, target)


def test_parts_add_up_to_the_stream(traced: tuple[LoadedModel, Trace]) -> None:
    loaded, found = traced
    for site in found.sites:
        parts = parts_of(loaded, found, site)
        total = parts.keys.sum(1) + parts.residual + parts.constant
        assert total == pytest.approx(parts.whole, abs=1e-5)
        assert np.abs(parts.keys.sum(1)).max() > 0.1
        assert np.abs(parts.residual).max() > 0.1


@pytest.mark.parametrize("kind", ["gemma2", "gpt_neox", "t5-gated"])
def test_models_of_other_libraries_close_too(kind: str, tmp_path: Path) -> None:
    """Norms behind a sublayer, shared values, parallel blocks, a steep norm at the baseline."""
    Golden.load(kind).write(tmp_path / kind, "own")
    loaded = open_model(tmp_path / kind)
    found = trace(loaded, "the cat sat")
    for site in found.sites:
        parts = parts_of(loaded, found, site)
        total = parts.keys.sum(1) + parts.residual + parts.constant
        assert total == pytest.approx(parts.whole, abs=1e-5 * np.abs(parts.whole).max())
    shown = gradients(loaded, found, explained(loaded, found, 0 if found.src_tokens else 2))
    assert abs(shown.gap) < 0.01


def test_a_share_is_how_near_the_whole_comes_to_a_part(traced: tuple[LoadedModel, Trace]) -> None:
    loaded, found = traced
    for site in found.sites:
        parts = parts_of(loaded, found, site)
        near, own = nearness(loaded, found, site)
        whole, kept = parts.whole[1], parts.residual[1]
        if site.kind == "self":
            kept = kept + parts.keys[1, 1]
        by_hand = [
            max(0.0, np.abs(whole).sum() - np.abs(whole - part).sum())
            for part in (parts.keys[1, 0], kept)
        ]
        assert near[1, 0] == pytest.approx(by_hand[0], abs=1e-6)
        assert own[1] == pytest.approx(by_hand[1], abs=1e-6)
        assert by_hand[1] > 0


def test_every_vector_comes_from_somewhere_and_nothing_is_lost(
    traced: tuple[LoadedModel, Trace],
) -> None:
    loaded, found = traced
    for network in (contribution_network(loaded, found), rollout_network(found)):
        assert network.mixes.sum(-1) == pytest.approx(1)
        assert network.mixes.min() >= 0
        node = network.node("tgt", 2)
        reached = network.reached(node)
        assert reached.sum(1) == pytest.approx(1)
        assert reached[-1, node] == 1
        into = {}
        for edge in network.edges(node):
            key = edge.sublayer + 1, edge.upper
            into[key] = into.get(key, 0.0) + edge.share
        for (level, upper), share in into.items():  # all that a vector was came in by its edges
            assert share == pytest.approx(reached[level, upper])
        strong = network.edges(node, 0.1)
        assert 0 < len(strong) < len(network.edges(node))
        assert min(edge.share for edge in strong) >= 0.1


def test_the_assumed_shares_are_rollout_and_attention_flow(
    translator: LoadedModel, writer: LoadedModel
) -> None:
    found = trace(writer, TEXT)
    network = rollout_network(found)
    assert network.reached(3)[0] == pytest.approx(rollout(found, "decoder")[-1][3])
    assert network.flow(3) == pytest.approx(attention_flow(found, "decoder")[3])
    found = trace(translator, TEXT, "我爱你。")
    network = rollout_network(found)
    reached, crossed = network.reached(network.node("tgt", 2))[0], cross_rollout(found)
    assert reached[: network.n_src] == pytest.approx(crossed.source[-1][2])
    assert reached[network.n_src :] == pytest.approx(crossed.target[-1][2])


def test_attention_flow_across_two_streams_by_hand() -> None:
    """One source word, two of the target; pipes of one encoder layer, self- and cross-attention."""
    sites = tuple(
        AttentionSite(name, name, stack, 0, kind, query, key, 1)  # type: ignore[arg-type]
        for name, stack, kind, query, key in (
            ("e", "encoder", "self", "src", "src"),
            ("d", "decoder", "self", "tgt", "tgt"),
            ("c", "decoder", "cross", "tgt", "src"),
        )
    )
    mixes = np.tile(np.eye(3), (3, 1, 1))
    mixes[1, 2] = [0, 0.3, 0.7]
    mixes[2, 2] = [0.4, 0, 0.6]
    network = Network(sites, mixes, 1)
    assert network.reached(2)[0] == pytest.approx([0.4, 0.18, 0.42])
    # To the word itself 0.6 of the pipe above, and 0.7 fit below; to the other target word 0.3.
    assert network.flow(2) == pytest.approx([0.4, 0.3, 0.6])


def test_a_head_that_is_off_carries_nothing(writer: LoadedModel) -> None:
    off = trace(writer, TEXT, edits=[HeadOff("blocks.0.attn", head) for head in range(4)])
    mix = contribution_network(writer, off).mixes[0]
    assert mix == pytest.approx(np.eye(len(mix)))


def test_the_words_explained_are_those_read(traced: tuple[LoadedModel, Trace]) -> None:
    loaded, found = traced
    asked = explained(loaded, found, 2)
    row = found.src_tokens or found.tgt_tokens
    words = [at for at, token in enumerate(row) if token not in found.marks]
    assert asked.stream == ("src" if found.src_tokens else "tgt")
    assert list(asked.words) == ([1, 2] if loaded.name == "writer" else words)
    with pytest.raises(IndexError, match="position 40"):
        explained(loaded, found, 40)


def test_gradients_are_those_of_autograd_and_their_sum_closes(
    traced: tuple[LoadedModel, Trace],
) -> None:
    loaded, found = traced
    asked = explained(loaded, found, 2)
    shown = gradients(loaded, found, asked)
    hook = "encoder.hook_embed" if found.src_tokens else "hook_embed"
    rows = rows_of(found)

    def logprob(embedded: torch.Tensor) -> float:
        given = Edits({hook: lambda tensor: embedded[None].to(tensor.dtype)})
        logits = run(loaded.model, rows, {LOGITS}, given)[LOGITS][0, asked.position].numpy()
        return float(token_logprobs(logits[None], (asked.token,))[0])

    own = torch.tensor(found.activations[hook])
    bare = own.clone()
    bare[list(asked.words)] = no_word(loaded, asked.stream)
    assert shown.logprob == pytest.approx(logprob(own), abs=1e-4)
    assert shown.baseline == pytest.approx(logprob(bare), abs=1e-4)
    assert abs(shown.logprob - shown.baseline) > 0.01
    assert shown.integrated.sum() == pytest.approx(shown.logprob - shown.baseline, abs=0.01)
    assert shown.gap == pytest.approx(
        shown.integrated.sum() - (shown.logprob - shown.baseline), abs=1e-9
    )
    word, small = asked.words[0], 1e-2  # a slope by a small step along the word's own vector
    nudged = [own.clone(), own.clone()]
    for sign, each in zip((1, -1), nudged, strict=True):
        each[word] *= 1 + sign * small
    slope = (logprob(nudged[0]) - logprob(nudged[1])) / (2 * small)
    assert shown.times_input[0] == pytest.approx(slope, rel=0.02, abs=1e-3)


def test_the_area_over_a_curve_by_hand(traced: tuple[LoadedModel, Trace]) -> None:
    loaded, found = traced
    asked = explained(loaded, found, 2)
    n_words = len(asked.words)
    scores = np.arange(n_words, dtype=float)
    for how in ("hide", "replace"):
        tested = delete(loaded, found, asked, {"last first": scores}, how)  # type: ignore[arg-type]
        curve = tested.curves["last first"]
        assert curve.order == tuple(reversed(range(n_words)))
        assert tested.steps == tuple(range(n_words + 1))
        assert len(tested.random) == N_RANDOM
        before = np.exp(token_logprobs(found.logits, [asked.token] * 3))[2]
        assert curve.probs[0] == pytest.approx(before, abs=1e-5)
        ends = {round(each.probs[-1], 6) for each in (curve, *tested.random)}
        assert len(ends) == 1  # without all words the order is of no matter
        assert curve.area == pytest.approx(curve.probs[0] - curve.probs[1:].mean())
        areas = [each.area for each in tested.random]
        assert tested.chance == pytest.approx((np.mean(areas), np.std(areas)))
        assert tested.beaten("last first") == sum(area < curve.area for area in areas)


def test_a_hidden_word_is_one_that_no_query_attends_to(writer: LoadedModel) -> None:
    """The same as a run whose masks are closed there by hand."""
    found = trace(writer, TEXT)
    asked = explained(writer, found, 3)
    tested = delete(writer, found, asked, {"first": np.array([1.0, 0.0, 0.0])}, "hide")

    def closed(mask: torch.Tensor) -> torch.Tensor:
        mask = mask.clone()
        mask[..., asked.words[0]] = False
        return mask

    edits = Edits({site.hook("mask"): closed for site in writer.sites})
    logits = run(writer.model, rows_of(found), {LOGITS}, edits)[LOGITS][0, 3]
    assert tested.curves["first"].probs[1] == pytest.approx(
        float(logits.softmax(-1)[asked.token]), abs=1e-5
    )


def test_all_rankings_stand_side_by_side(translator: LoadedModel) -> None:
    found = trace(translator, TEXT, "我爱你。")
    ranked = rank(translator, found, 0)
    assert tuple(ranked.scores) == RANKINGS
    assert {len(scores) for scores in ranked.scores.values()} == {len(ranked.asked.words)}


def test_a_ranking_is_better_than_chance_only_if_it_beats_every_random_order() -> None:
    """Areas by hand: one, two and all of the random orders are beaten."""

    def curve(area: float, n_words: int = 6) -> DeletionCurve:
        return DeletionCurve(tuple(range(n_words)), np.array([1.0, 1.0 - area]))

    random = tuple(curve(area) for area in np.linspace(0, 0.5, N_RANDOM))
    curves = {"all": curve(0.6), "nearly": curve(0.53), "ties": curve(0.5), "most": curve(0.49)}
    found = Deletion((0, 6), curves, random)
    assert found.better == ("all",)
    assert found.rate == pytest.approx(0.04)
    assert found.n_orders == 720 > N_RANDOM
    few = replace(found, random=tuple(curve(0.1, 4) for _ in random))
    assert few.n_orders == 24 < N_RANDOM


@pytest.mark.sweep
def test_five_random_rankings_are_called_better_in_five_of_a_hundred_models(tiny: Tiny) -> None:
    """On twelve words, which have orders enough for any rank."""
    loaded = tiny("untrained", family="decoder-only", n_ctx=40)
    alarms = 0
    for seed in range(100):
        torch.manual_seed(seed)
        model = build_model(loaded.config).requires_grad_(False).eval()
        model.marks = loaded.model.marks
        other = replace(loaded, model=model)
        found = trace(other, "the cat ran and the dog sat on the mat.")
        asked = explained(other, found, int(found.tgt_valid.sum()) - 1)
        draw = np.random.default_rng(seed)
        rankings = {name: draw.normal(size=len(asked.words)) for name in RANKINGS}
        tested = delete(other, found, asked, rankings, "hide")
        assert tested.n_orders > N_RANDOM
        assert tested.rate <= 0.05
        alarms += bool(tested.better)
    print("alarms", alarms)
    assert alarms <= 5
