"""Four measures of a head: against finite differences, whole runs, and numbers worked by hand."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from explorer.analysis.heads import versus as comparing
from explorer.analysis.heads.ablation import ablate
from explorer.analysis.heads.attribution import MEASURES, attribute, likely, rank_agreement
from explorer.components.heads_payload import HeadsSelection
from explorer.exhibits.block import AllHeads, Columns, Hero
from explorer.exhibits.heads.heads import EXHIBIT
from explorer.exhibits.links import State
from explorer.exhibits.view import build
from explorer.library import LoadedModel
from explorer.runs.edits import CellEdit, HeadOff, MaskSwitch
from explorer.runs.rerun import edits_of, rows_of
from explorer.runs.trace import Trace, trace
from explorer.shell import LINKS
from models.hooks import LOGITS, Edits, Role, visiting
from tests.explorer.heads.test_reading import with_pattern

TEXT, TARGET = "The cat ran", "我爱你猫"
CROSS, SELF = "decoder.blocks.1.cross_attn", "decoder.blocks.0.attn"
ENCODER = "encoder.blocks.1.attn"


def logprob_with(
    loaded: LoadedModel,
    traced: Trace,
    position: int,
    token: int,
    hook: str,
    change: Callable[[Tensor], Tensor],
) -> float:
    """log p(token) after `position` with one more change in force, made by the model itself."""
    visitor = edits_of(traced).then(Edits({hook: change}))
    with torch.inference_mode(), visiting(visitor):
        logits = loaded.model.read(rows_of(traced))
    return float(logits[0, position].log_softmax(-1)[token])


def raised(cell: tuple[int, ...], by: float, pattern: Tensor) -> Tensor:
    """Patterns [batch, head, query, key] with one cell of the first sentence changed."""
    pattern = pattern.clone()
    pattern[0][cell] += by
    return pattern


@pytest.mark.parametrize("family", ["translator", "writer"])
@pytest.mark.parametrize("edited", [False, True])
def test_gradients_are_slopes(family, edited, request) -> None:
    loaded = request.getfixturevalue(family)
    loaded = replace(loaded, model=deepcopy(loaded.model).double())
    edits = (MaskSwitch("causal", False), CellEdit(ENCODER, None, 1, 0, False)) if edited else ()
    traced = trace(loaded, TEXT, TARGET, edits, pads=int(edited))
    position = 2
    found = attribute(loaded, traced, position)
    token = found.token
    assert found.logprob == pytest.approx(
        logprob_with(loaded, traced, position, token, traced.sites[0].hook("z"), lambda z: z)
    )
    for site in traced.sites:
        pattern = traced.pattern(site.name)
        for cell in ((0, 2, 1), (3, 1, 1), (1, 2, 2)):
            more, less = (
                logprob_with(
                    loaded, traced, position, token, site.hook("pattern"), partial(raised, cell, by)
                )
                for by in (1e-5, -1e-5)
            )
            expected = (more - less) / 2e-5 * pattern[cell]
            assert found.gradient[site.name][cell] == pytest.approx(expected, abs=1e-8)
    assert max(np.abs(gradient).max() for gradient in found.gradient.values()) > 0.01


def test_over_heads_is_each_heads_row_and_the_encoders_mean_over_rows(translator) -> None:
    traced = trace(translator, TEXT, TARGET, pads=1)
    found = attribute(translator, traced, 1)
    # Other rows have gradients too, which a sum over all of them would bring in.
    gradient = {name: each + 1 for name, each in found.gradient.items()}
    found = replace(found, gradient=gradient)
    for site in (ENCODER, CROSS):
        whole = found.over_heads(site)
        for head in range(4):
            row = found.per_key(site, head)
            assert whole["weight"][head] == pytest.approx(row["weight"].max())
            assert whole["gradient"][head] == pytest.approx(row["gradient"].sum())
            queries = slice(4) if site == ENCODER else slice(1, 2)
            written = found.written[site][head, queries].mean()
            assert whole["contribution"][head] == pytest.approx(written, rel=1e-6)
    found = attribute(translator, trace(translator, TEXT, TARGET, pads=1), 1)
    row = found.per_key(ENCODER, 1)
    np.testing.assert_allclose(row["weight"], found.weight[ENCODER][1, :4].mean(0), rtol=1e-6)
    np.testing.assert_allclose(row["gradient"], found.gradient[ENCODER][1, :4].sum(0), atol=1e-7)
    lengths = found.contribution[ENCODER][1, :4].mean(0)
    np.testing.assert_allclose(row["contribution"], lengths, rtol=1e-6)
    with pytest.raises(KeyError):
        found.over_heads("nowhere")
    with pytest.raises(IndexError):
        found.per_key(ENCODER, 4)


@pytest.mark.parametrize("n_kv_heads", [4, 2])
def test_a_head_contributes_what_it_writes_also_where_values_are_shared(tiny, n_kv_heads) -> None:
    loaded = tiny(n_kv_heads=n_kv_heads)
    traced = trace(loaded, TEXT, TARGET)
    found = attribute(loaded, traced, 1)
    w_o = loaded.model.get_submodule(SELF).get_parameter("w_o.weight").numpy()
    v = traced.activations[f"{SELF}.hook_v"]
    assert len(v) == n_kv_heads
    for head in range(4):
        pattern = traced.pattern(SELF)[head, 1]
        written = (pattern[:, None] * v[head * n_kv_heads // 4]) @ w_o[:, 6 * head : 6 * head + 6].T
        lengths, whole = np.linalg.norm(written, axis=1), np.linalg.norm(written.sum(0))
        row, of_heads = found.per_key(SELF, head), found.over_heads(SELF)
        np.testing.assert_allclose(found.contribution[SELF][head, 1], lengths, rtol=1e-5)
        np.testing.assert_array_equal(row["contribution"], found.contribution[SELF][head, 1])
        np.testing.assert_array_equal(row["weight"], pattern)
        assert found.written[SELF][head, 1] == pytest.approx(whole, rel=1e-5)
        assert of_heads["contribution"][head] == found.written[SELF][head, 1]
        assert of_heads["weight"][head] == pattern.max()


def test_which_token(translator, writer) -> None:
    traced = trace(translator, TEXT, TARGET, pads=1)
    usual = attribute(translator, traced, 0)
    assert (usual.token, usual.str_token) == (traced.tgt_tokens[1], traced.tgt_str_tokens[1])
    end = attribute(translator, traced, 2)
    assert (end.token, end.str_token) == (translator.marks.end, "</s>")
    text = trace(writer, TEXT)
    last = len(text.tgt_tokens) - 1
    assert attribute(writer, text, last).token == text.predicted_tokens[last]
    known = ablate(translator, traced)
    again = attribute(translator, traced, 0, ablation=known)
    np.testing.assert_array_equal(again.off[CROSS], known.token_deltas[CROSS][:, 0])
    second = attribute(translator, traced, 1, ablation=known)
    np.testing.assert_array_equal(second.off[CROSS], known.token_deltas[CROSS][:, 1])
    of_another = ablate(translator, traced, (9,))
    assert np.abs(of_another.token_deltas[CROSS][:, 0] - again.off[CROSS]).max() > 1e-3
    own = attribute(translator, traced, 0, ablation=of_another)
    np.testing.assert_allclose(own.off[CROSS], again.off[CROSS], atol=1e-6)
    for position in (3, -1):
        with pytest.raises(IndexError):
            attribute(translator, traced, position)
    with pytest.raises(ValueError, match="'writer'"):
        attribute(translator, text, 0)


def test_blocked_cells_and_heads_that_are_off(translator) -> None:
    traced = trace(translator, TEXT, TARGET, [HeadOff(CROSS, 2)], pads=2)
    found = attribute(translator, traced, 1)
    for site in traced.sites:
        blocked = ~traced.mask(site.name)
        for cells in (found.weight, found.contribution, found.gradient):
            assert (cells[site.name][blocked] == 0).all()
            assert np.isfinite(cells[site.name]).all()
    assert found.weight[CROSS][2].sum() > 1
    for cells in (found.contribution, found.gradient, found.written):
        assert (cells[CROSS][2] == 0).all()
    assert found.off[CROSS][2] == pytest.approx(0, abs=1e-5)
    # Nothing that comes after the position can speak for its token.
    assert (found.gradient[SELF][:, 2:] == 0).all()


def test_rank_agreement_by_hand_and_of_random_rankings() -> None:
    rows = np.array([[1, 2, 3, 4], [40, 30, 20, 10], [1, 2, 2, 3], [5, 5, 5, 5]], dtype=float)
    rho = rank_agreement(rows)
    # Ranks of the third row: 1, 2.5, 2.5, 4; with 1, 2, 3, 4: 4.5 / sqrt(4.5 * 5).
    tied = 4.5 / np.sqrt(22.5)
    np.testing.assert_allclose(rho[:3, :3], [[1, -1, tied], [-1, 1, -tied], [tied, -tied, 1]])
    assert np.isnan(rho[3]).all()
    assert np.isnan(rho[:, 3]).all()
    far = rank_agreement(np.array([[1, 2, 3], [1, 2, 1e9]]))
    assert far[0, 1] == pytest.approx(1)
    random = np.random.default_rng(27)
    for count in (8, 24):
        rho = rank_agreement(random.random((1000, count)))[0, 1:]
        assert 0.03 < (rho > likely(count)).mean() < 0.07
    assert likely(1) == likely(2) == 1


def test_ranks_and_agreement_are_over_all_heads_of_a_kind(translator) -> None:
    found = attribute(translator, trace(translator, TEXT, TARGET), 1)
    ranked = found.ranks(CROSS, 2)
    of_sites = [found.over_heads(site.name) for site in found.sites if site.role == "cross"]
    rows = [np.abs(np.concatenate([each[name] for each in of_sites])) for name in MEASURES]
    assert ranked.n_heads == len(rows[0]) == 8
    for name, sizes in zip(MEASURES, rows, strict=True):
        own = found.over_heads(CROSS)[name][2]
        assert ranked.values[name] == pytest.approx(float(own))
        assert ranked.ranks[name] == 1 + sum(size > abs(own) for size in sizes)
    agreement = ranked.agreement
    assert ranked.key == int(found.weight[CROSS][2, 1].argmax())
    made = replace(found, off={**found.off, CROSS: np.array([0.1, -5.0, 0.2, 0.0])})
    ranked = made.ranks(CROSS, 1)  # the largest by size, whatever its sign
    assert (ranked.ranks["off"], ranked.values["off"]) == (1, -5)
    assert tuple(agreement) == MEASURES
    orders = np.corrcoef([row.argsort().argsort() for row in rows])
    np.testing.assert_allclose([*agreement.values()], orders[:, 3], atol=1e-12)
    with pytest.raises(KeyError, match="nowhere"):
        found.ranks("nowhere", 0)
    with pytest.raises(IndexError):
        found.ranks(CROSS, 9)


# Two models on one sentence: differences worked by hand, and what is not comparable.
SITE = "decoder.blocks.1.attn"


def test_divergence_by_hand() -> None:
    rows = np.array([[1.0, 0.0], [1.0, 0.0], [0.5, 0.5], [0.0, 0.0]])
    others = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    # The third: H(3/4, 1/4) - 1/2 bits, of which H(3/4, 1/4) = 2 - 3/4 log2(3).
    third = 1.5 - 0.75 * np.log2(3)
    found = comparing.divergence(rows, others)
    np.testing.assert_allclose(found, [0, 1, third, np.nan], atol=1e-12)
    np.testing.assert_allclose(comparing.mean_divergence(rows, others), (1 + third) / 3)
    assert np.isnan(comparing.mean_divergence(rows[3:], others[3:]))


def test_the_changed_head_comes_first_and_the_most_similar_is_found(traced, translator) -> None:
    changed = with_pattern(traced, SITE, 2, [[1, 0, 0], [1, 0, 0], [0, 0, 1]])
    other = with_pattern(traced, SITE, 2, [[1, 0, 0], [0, 1, 0], [0, 0, 1]])
    found = comparing.versus(changed, other, "decoder")
    assert found.ranked()[0] == (1, 2)
    assert found.difference[1, 2] == pytest.approx(1 / 3)  # one of three rows, by one bit
    assert np.delete(found.difference.ravel(), 6).max() < 1e-6
    assert found.by_number
    assert found.comparable
    assert found.queries.whole
    rows = traced.pattern(SITE)[3].tolist()
    moved = with_pattern(with_pattern(traced, SITE, 3, [[1, 0, 0]] * 3), SITE, 0, rows)
    found = comparing.versus(traced, moved, "decoder")
    assert comparing.closest(traced, moved, found, 1, 3) == ((1, 0), pytest.approx(0, abs=1e-6))
    padded = trace(translator, "The cat ran", "我爱你猫", pads=2)
    rows = padded.pattern(SITE)[2].tolist()
    rows[-2:] = [[0, 0, 0, 0, 1], [1, 0, 0, 0, 0]]  # those of PAD
    for one, other in ((traced, padded), (padded, with_pattern(padded, SITE, 2, rows))):
        found = comparing.versus(one, other, "decoder")
        assert found.difference.max() < 1e-6


def test_kinds_are_paired_by_what_they_read_and_other_shapes_not_by_number(traced, writer) -> None:
    written = trace(writer, "The cat ran")
    assert comparing.counterpart(traced, written, "encoder") == "decoder"
    assert comparing.counterpart(written, traced, "decoder") == "encoder"
    assert comparing.counterpart(traced, written, "cross") is None
    assert comparing.counterpart(traced, written, "decoder") is None  # it reads a translation
    assert comparing.versus(traced, written, "cross") is None
    with pytest.raises(ValueError, match="no attention of the kind 'cross'"):
        comparing.versus(written, traced, "cross")
    found = comparing.versus(traced, written, "encoder")
    assert found.shapes[0] != found.shapes[1]
    assert found.difference is None
    assert found.ranked() == ()
    assert found.comparable
    nearest = comparing.closest(traced, written, found, 0, 0)
    assert 0 < nearest[1] < 1


def test_predictions_are_compared_if_they_answer_one_question(traced, translator, writer) -> None:
    shown = translator.str_tokens
    logits = traced.logits.copy()
    logits[1] = -logits[1]  # what was least expected after the second token is most expected now
    other = replace(traced, activations=traced.activations | {LOGITS: logits})
    found = comparing.expectations(traced, other, shown, shown)
    assert [each.piece for each in found] == list(traced.tgt_str_tokens)
    assert [each.same for each in found] == [True, False, True]
    chances = np.exp(traced.logits[0] - np.logaddexp.reduce(traced.logits[0]))
    assert [chance for _, chance in found[0].one] == pytest.approx(sorted(chances)[:-4:-1])
    assert found[0].one[0][0].removeprefix("·") == traced.predicted_str_tokens[0].removeprefix("·")
    assert comparing.expectations(traced, trace(writer, "The cat ran"), shown, shown) == ()


FIRST, SECOND = "I like a book.", "She reads a book."


def drawn(**chosen: Any) -> tuple[State, list[AllHeads]]:
    state = LINKS.change(State(text=FIRST), **chosen)
    view = build(state, dark=False)
    blocks = EXHIBIT.show(EXHIBIT.answer(view), view)
    inside = [block for hero in blocks if isinstance(hero, Hero) for block in hero.blocks]
    (picture,) = [block for block in inside if isinstance(block, Columns)]
    drawn = [block for column in picture.columns for block in column]
    return state, [block for block in drawn if isinstance(block, AllHeads)]


def test_a_selection_is_stored_and_a_cell_of_whole_words_opens_at_their_first_tokens() -> None:
    state, (block,) = drawn()
    layers = block.grid.shape[0]
    chosen = HeadsSelection((layers, 0), ((1, 2),), query=2, key=1, scale="log", shared=False)
    change = block.change(chosen)
    assert change.choices(state) == {
        "instead": "mean-1",
        "pins": ((1, 2),),
        "row": 2,
        "key": 1,
        "scale": "log",
        "own_range": True,
        "by_measure": False,
    }
    state, (block,) = drawn(text="unbelievable dogs.", words=True, site="encoder")
    by_token = drawn(text="unbelievable dogs.", site="encoder")[1][0]
    assert block.grid.shape[2] < by_token.grid.shape[2]
    last = block.grid.shape[2] - 1
    change = block.down((0, 1, last, 0))
    assert change.visit == "score"
    made = change.choices(state)
    assert (made["layer"], made["head"], made["key"]) == (0, 1, 0)
    assert made["row"] == by_token.grid.shape[2] - 1


def test_a_cell_of_the_second_sentence_or_model_swaps_the_two() -> None:
    place = {"layer": 1, "head": 2, "row": 1, "key": 0}
    state, (left, right) = drawn(beside=f"{SECOND}\nWe went.")
    assert left.down((1, 2, 1, 0)).choices(state) == place | {"goal": None}
    swapped = {"text": SECOND, "target": None, "beside": f"{FIRST}\nWe went.", "goal": None}
    assert right.down((1, 2, 1, 0)).choices(state) == place | swapped
    state, (_, right) = drawn(with_="reverse", site="decoder", model="copy", text="a b c")
    change = right.down((1, 2, 1, 0))
    assert (change.visit, change.elsewhere) == ("score", True)
    swapped = {"model": "reverse", "with_": "copy"}
    assert change.choices(state).items() >= (place | swapped).items()


@pytest.mark.parametrize("site", ["encoder", "decoder", "cross"])
def test_the_first_query_is_in_the_middle_of_the_text_also_under_changes(site: Role) -> None:
    view = build(State(text=FIRST, site=site), dark=False)
    assert view.row == len(view.trace.query_tokens(view.site.name)) // 2
    changed = State(text=FIRST, site=site, edits=(MaskSwitch("causal", False),), pads=3, head=1)
    assert build(changed, dark=False).row == view.row


def test_the_first_query_is_no_punctuation() -> None:
    view = build(State(text="I love you, Tom", site="encoder"), dark=False)
    tokens = view.trace.query_tokens(view.site.name)
    assert tokens[len(tokens) // 2] == ","
    assert view.row == len(tokens) // 2 + 1
