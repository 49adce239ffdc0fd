"""Heads by behaviour, the induction circuit and maps: on weights placed by hand."""

import inspect
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from explorer.analysis.circuits import rows as prompts
from explorer.analysis.circuits.behaviour import (
    HeadScores,
    behaviour,
    best_by_chance,
    looked,
    places_of,
)
from explorer.analysis.circuits.by_hand import LETTERS, by_hand
from explorer.analysis.circuits.chance import COPIES, RATE, by_chance, shuffle
from explorer.engine import models as engine
from explorer.exhibits.circuits.induction import circuit, copied
from explorer.exhibits.circuits.vocabulary import vocabulary_map
from explorer.library import LoadedModel, list_models
from explorer.runs.passes import walked
from explorer.runs.run import run
from models.rows import Rows
from models.transformer import build_model

FIRST, SECOND, EMPTY = (0, 0), (1, 0), (0, 1)


@pytest.fixture(scope="module")
def built() -> LoadedModel:
    return by_hand()


@pytest.fixture(scope="module")
def found(built: LoadedModel) -> HeadScores:
    return behaviour(built)


def test_each_behaviour_is_found_at_the_head_that_has_it(built, found) -> None:
    assert found.best("previous") == FIRST
    assert found.best("induction") == SECOND
    assert found.scores["previous"][FIRST] > 0.95
    assert found.scores["induction"][SECOND] > 0.95
    drawn = walked(best_by_chance(built))
    assert found.strength("induction", drawn) == found.strength("previous", drawn) == "clear"
    for name in ("duplicate", "first"):
        assert found.strength(name, drawn) == "none"
    assert found.strength("induction", None) == "untested"
    # In a short text the uniform baseline is high: twice as much may be more than everything.
    for score, even, expected in ((0.99, 0.6, "slight"), (0.5, 0.2, "clear"), (0.3, 0.1, "slight")):
        scored = replace(found, scores={"previous": np.array([[score]])}, even={"previous": even})
        assert scored.strength("previous", drawn) == expected
    assert found.clearest(drawn) == found.clearest(None) == "induction"
    higher = replace(drawn, best={**drawn.best, "induction": np.array([1.0])})
    assert found.clearest(higher) == "previous"
    assert found.scores["induction"][EMPTY] == pytest.approx(found.even["induction"], abs=1e-5)
    assert found.copied == 1.0
    assert found.second_half > -0.1 > found.first_half
    assert found.n == len(LETTERS)


def test_places_and_uniform_attention_of_a_row_said_twice() -> None:
    given = prompts.Twice(Rows.of([[1, 7, 8, 9, 7, 8, 9]]), 3, 1)
    places = {name: (q.tolist(), k.tolist()) for name, (q, k) in places_of(given).items()}
    assert places["induction"] == ([4, 5], [2, 3])
    assert places["duplicate"] == ([4, 5, 6], [1, 2, 3])
    assert places["previous"] == ([1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4, 5])
    assert places["first"][1] == [0] * 6
    model = by_hand()
    empty = looked(model, prompts.twice(model, [model.tokenizer.encode("a b c")]))
    # The second half stands at 4, 5 and 6, and each sees itself and all before, from 0 on.
    assert empty.even["duplicate"] == pytest.approx((1 / 5 + 1 / 6 + 1 / 7) / 3)
    assert empty.even["induction"] == pytest.approx((1 / 5 + 1 / 6) / 2)


def test_without_the_first_head_the_second_fails_and_controls_do_not(built, found) -> None:
    told: list[tuple[int, int]] = []
    shown = walked(circuit(built, found), lambda done, total: told.append((done, total)))
    assert (shown.order, shown.second) == ((FIRST, EMPTY), SECOND)
    assert shown.intact > 0.95
    assert (shown.counts, shown.n_off) == ((1,), 1)
    assert shown.together[0] == pytest.approx(shown.even, abs=1e-5)
    assert shown.stands_out
    assert shown.depends
    assert shown.rivals == pytest.approx([shown.intact], abs=1e-5)  # the one other head
    assert shown.alone[FIRST] == shown.together[0]
    assert shown.alone[EMPTY] == pytest.approx(shown.intact, abs=1e-5)
    assert np.isnan(shown.alone[1]).all()
    assert shown.lost[FIRST] < -1
    assert shown.lost[EMPTY] == pytest.approx(0, abs=1e-5)
    assert (shown.wrote, told[COPIES - 1], told[-2:]) == (1.0, (19, 19), [(3, 3), (1, 1)])
    assert shown.guess == pytest.approx(1 / len(LETTERS))
    queries, keys = places_of(shown.given)["induction"]
    assert shown.before[queries, keys].min() > 0.9 > 0.2 > shown.after[queries, keys].max()
    assert np.diag(shown.carried, -1).min() > 0.9


def test_what_does_not_fall_or_falls_with_any_head_does_not_depend(built, found) -> None:
    shown = walked(circuit(built, found))
    intact, even = shown.intact, shown.even
    for together, other, depends in (
        (intact, intact, False),
        (even, even, False),  # a single set that does as much is enough
        (even, intact, True),
    ):
        rivals = np.array([intact, other, intact])
        shown_so = replace(shown, together=np.array([together]), rivals=rivals)
        assert shown_so.depends == depends
    chance = replace(shown.chance, best={**shown.chance.best, "induction": np.ones(1)})
    assert not replace(shown, chance=chance).depends
    assert not replace(shown, chance=chance).stands_out
    # The fewest heads that halve the score are chosen.
    for left, n_off in (((0.6, 0.4, 0.1), 2), ((0.9, 0.8, 0.7), 4)):
        part = even + np.array(left) * (intact - even)
        assert replace(shown, counts=(1, 2, 4), together=part).n_off == n_off
    # A head of the first layer has none before it.
    first = {**found.scores, "induction": found.scores["induction"][::-1].copy()}
    shown = walked(circuit(built, replace(found, scores=first)))
    assert shown.second == (0, 0)
    assert (shown.order, shown.counts, shown.n_off, shown.after) == ((), (), 0, None)
    assert not shown.depends
    with pytest.raises(ValueError, match="precedes the second"):
        _ = shown.chosen


def test_the_second_heads_ov_copies_and_chunks_change_nothing(built, tiny, monkeypatch) -> None:
    site = prompts.own_sites(built)[1]
    shown = walked(vocabulary_map(built, site, 0, "ov"))
    assert (shown.own, shown.copying) == (1.0, pytest.approx(1.0))
    assert {row == column for row, column, _ in shown.pairs[: len(LETTERS)]} == {True}
    assert shown.n_tokens == len(LETTERS)
    assert copied(built, prompts.random_twice(built), SECOND)[0] == 1.0
    loaded = tiny("maps", family="decoder-only", positions="none")
    site = prompts.own_sites(loaded)[1]
    whole = walked(vocabulary_map(loaded, site, 1, "ov"))
    monkeypatch.setattr("explorer.exhibits.circuits.vocabulary.CHUNK", 300)
    told: list[tuple[int, int]] = []
    parts = walked(vocabulary_map(loaded, site, 1, "ov"), lambda *step: told.append(step))
    assert [pair[:2] for pair in parts.pairs] == [pair[:2] for pair in whole.pairs]
    assert (parts.own, len(told) > 5) == (whole.own, True)


@pytest.mark.parametrize(
    "changes",
    [
        {"norm_placement": "pre", "final_norm": True},
        {"norm": "rmsnorm", "norm_placement": "pre", "final_norm": True, "n_kv_heads": 2},
        {},
    ],
)
def test_maps_are_the_models_own_scores_and_logits(tiny, changes) -> None:
    """A head of the first layer, on a token that stands alone, where positions do nothing."""
    loaded = tiny("maps", family="decoder-only", positions="none", bias=False, **changes)
    site, head = prompts.own_sites(loaded)[0], 3
    shown = walked(vocabulary_map(loaded, site, head, "qk"))
    query, key, value = shown.pairs[0]
    rows = Rows(torch.tensor([[key, query]]))
    scores = run(loaded.model, rows, {site.hook("scores")})[site.hook("scores")]
    assert scores[0, head, 1, 0].item() == pytest.approx(value, rel=1e-4)
    values = [value for *_, value in shown.pairs]
    assert values == sorted(values, reverse=True)
    source, target, logit = walked(vocabulary_map(loaded, site, head, "ov")).pairs[0]
    v = run(loaded.model, Rows(torch.tensor([[source]])), {site.hook("v")})[site.hook("v")]
    group = head // (loaded.config.n_heads // loaded.config.kv_heads)
    written = prompts.output_of(loaded, site, head) @ v[0, group, 0].double().numpy()
    assert prompts.unembedding(loaded)[target] @ written == pytest.approx(logit, rel=1e-4)


def test_rows_are_made_for_every_family(translator, tiny) -> None:
    given = prompts.random_twice(translator)
    again = given.start + given.n
    halves = given.tokens[:, given.start : again]
    assert torch.equal(halves, given.tokens[:, again : again + given.n])
    assert given.rows.src is not None
    assert set(halves.flatten().tolist()) <= set(prompts.ordinary(translator))
    assert prompts.half_for(tiny("short", family="decoder-only", n_ctx=9)) == 3
    assert np.isnan(behaviour(tiny("reader", family="encoder-only", n_ctx=40)).second_half)
    with pytest.raises(ValueError, match="equal, non-zero length"):
        prompts.twice(translator, [[4, 5], [6]])


def test_shuffled_copies_share_no_weights_and_keep_their_numbers(tiny) -> None:
    loaded = tiny("copied", family="decoder-only", positions="learned")
    before = {name: each.clone() for name, each in loaded.model.named_parameters()}
    seen = []

    def measure(copy: LoadedModel) -> dict[str, np.ndarray]:
        for name, each in copy.model.named_parameters():
            if each.ndim == 2:
                assert not torch.equal(each, before[name]), name
            assert torch.equal(each.flatten().sort().values, before[name].flatten().sort().values)
        seen.append(copy.model.get_parameter("embed.weight").clone())
        return {"first": np.array([[0.1, float(len(seen))]])}

    found = walked(by_chance(loaded, measure))
    assert found.best["first"].tolist() == list(range(1, COPIES + 1))
    margin = 1.5 * np.arange(1, 20).std()
    assert not found.beaten("first", 18.9 + margin)
    assert found.beaten("first", 19.1 + margin)
    assert not any(torch.equal(seen[0], each) for each in seen[1:])
    for name, each in loaded.model.named_parameters():
        assert torch.equal(each, before[name])
    # The same draw shuffles alike.
    models = [tiny("drawn", family="decoder-only").model for _ in range(2)]
    for model in models:
        shuffle(model, torch.Generator().manual_seed(3))
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        assert torch.equal(one, other)


UNTRAINED = {
    "pre-norm": {"family": "decoder-only", "norm_placement": "pre", "final_norm": True},
    "post-norm": {"family": "decoder-only"},
    "rotary": {"family": "decoder-only", "positions": "rotary", "n_kv_heads": 2},
    "alibi": {"family": "decoder-only", "positions": "alibi"},
    "translator": {},
    "encoder": {"family": "encoder-only", "positions": "learned"},
}
N_SEEDS, MOST = 100, 5


@pytest.mark.sweep
@pytest.mark.parametrize("kind", UNTRAINED)
def test_of_a_hundred_untrained_models_five_at_most_are_told_of_a_kind(tiny, kind) -> None:
    """False alarms of each verdict of the page, at the level that it states."""
    sizes = {"d_model": 24, "n_layers": 2, "n_encoder_layers": 1, "n_heads": 4, "n_ctx": 32}
    loaded = tiny("untrained", **{**sizes, **UNTRAINED[kind]})
    alarms = Counter[str]()
    for seed in range(N_SEEDS):
        torch.manual_seed(seed)
        model = build_model(loaded.config).requires_grad_(False).eval()
        model.marks = loaded.model.marks
        other = replace(loaded, model=model)
        found = behaviour(other)
        chance = walked(best_by_chance(other))
        alarms.update(name for name in found.scores if found.strength(name, chance) != "none")
        alarms["opens on a clear one"] += found.strength(found.clearest(chance), chance) == "clear"
        alarms["depends"] += walked(circuit(other, found, chance=chance)).depends
    print(kind, dict(alarms))
    assert MOST == RATE * N_SEEDS
    assert max(alarms.values()) <= MOST, alarms


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "sort" else pytest.mark.sweep)
        for name in list_models()
    ],
)
def test_a_shipped_chance_level_is_that_of_a_fresh_run(name, monkeypatch, tmp_path) -> None:
    asked = inspect.unwrap(engine.chance_level)
    assert [*asked(name)] == []  # no copy is measured
    shipped, fresh = walked(asked(name)).best, walked(best_by_chance(engine.opened(name))).best
    assert shipped.keys() == fresh.keys()
    for kind, scores in fresh.items():
        np.testing.assert_allclose(shipped[kind], scores, atol=1e-5)
    stale = tmp_path / "chances.json"
    stale.write_text(engine.CHANCES.read_text("utf-8").replace('"weights": "', '"weights": "0'))
    monkeypatch.setattr(engine, "CHANCES", stale)
    assert next(asked(name)) == (1, COPIES)
