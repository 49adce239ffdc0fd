"""Sinks: planted in a model's weights, absent from random ones, and what is left without them."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from explorer.analysis.alignment.reading import read
from explorer.analysis.heads.sinks import CLASSES, renormalised, sinks_of, without_sinks
from explorer.analysis.start.flow import flow
from explorer.exhibits import View, block as b
from explorer.exhibits.block import escape
from explorer.exhibits.heads.exports import snippet
from explorer.exhibits.heads.heads import EXHIBIT
from explorer.exhibits.heads.sides import sides_of
from explorer.exhibits.links import State
from explorer.exhibits.view import build
from explorer.library import LoadedModel
from explorer.numbers import percent
from explorer.runs.trace import generate, trace
from explorer.shell import LINKS
from explorer.text import LANGUAGES, t
from models.strategies import Greedy
from tests.explorer.conftest import DESIGNS

TEXT, SITE = "The cat sat on the mat.", "decoder.blocks.0.cross_attn"
STORY = "Once upon a time there was a little girl named Lily."


def planted(loaded: LoadedModel, key: int, head: int, length: float) -> LoadedModel:
    """The model with a head of the first cross-attention whose queries all prefer one key of TEXT,
    with its value this many times as long: solved for, exactly, in the weights."""
    model = deepcopy(loaded.model)
    memory = torch.tensor(trace(loaded, TEXT).activations["encoder.hook_resid_final"])
    attention, own = model.get_submodule(SITE), slice(6 * head, 6 * head + 6)
    v = memory @ attention.w_v.weight[own].T
    keys = torch.zeros_like(v)
    keys[key], v[key] = 4.0, v[key] * length
    attention.w_q.weight[own], attention.w_q.bias[own], attention.w_k.bias[own] = 0.0, 1.0, 0.0
    attention.w_v.bias[own] = 0.0
    attention.w_k.weight[own] = torch.linalg.lstsq(memory, keys, driver="gelsd").solution.T
    attention.w_v.weight[own] = torch.linalg.lstsq(memory, v, driver="gelsd").solution.T
    return replace(loaded, model=model)


@pytest.mark.parametrize(("place", "name"), [(-1, "end"), (-2, "punctuation"), (0, "first")])
def test_a_planted_sink_is_found_in_its_head_alone(translator, place, name):
    loaded = planted(translator, place, 2, length=0.1)
    traced = trace(loaded, TEXT)
    sinks = sinks_of(loaded, traced, traced.site(SITE))
    assert np.argwhere(sinks.is_sink).tolist() == [[CLASSES.index(name), 2]]
    n_key = len(traced.src_tokens)
    assert np.argwhere(sinks.left_out).tolist() == [[2, place % n_key]]
    share = float(traced.pattern(SITE)[2, :, place].mean())
    evidence = [values[CLASSES.index(name), 2] for values in (sinks.share, sinks.chance)]
    assert [*evidence, sinks.weight[2]] == pytest.approx([share, 1 / n_key, share])
    assert share > 0.9
    assert (sinks.weight > 0).tolist() == [False, False, True, False]
    rest = without_sinks(loaded, traced).pattern(SITE)
    assert rest[2, :, place].max() == 0
    assert rest.sum(-1) == pytest.approx(1)
    assert (rest[[0, 1, 3]] == traced.pattern(SITE)[[0, 1, 3]]).all()


def test_a_full_stop_that_is_read_is_no_sink_nor_is_a_word(translator):
    for place, length in ((-2, 1.0), (2, 0.1)):
        loaded = planted(translator, place, 2, length)
        traced = trace(loaded, TEXT)
        assert not sinks_of(loaded, traced, traced.site(SITE)).left_out.any()


@pytest.mark.parametrize("design", DESIGNS)
def test_random_weights_have_no_sinks(tiny, design):
    for seed in range(3):
        loaded = tiny("random", seed, **DESIGNS[design])
        traced = trace(loaded, TEXT, pads=2 * (design == "post"))
        assert not any(sinks_of(loaded, traced, site).left_out.any() for site in traced.sites)


def test_a_row_is_scaled_to_1_and_one_with_nothing_left_is_0():
    pattern = np.array([[[0.5, 0.25, 0.25], [1.0, 0, 0]]], np.float32)
    rest = renormalised(pattern, np.array([[True, False, False]]))
    assert rest.tolist() == [[[0, 0.5, 0.5], [0, 0, 0]]]


def drawn(model: str, text: str, **chosen: Any) -> tuple[list[str], str, View]:
    """The keys of the controls of Heads, its sentences and notes, and the drawn view."""
    view = build(LINKS.change(State(model=model, text=text), **chosen), dark=False)
    blocks = [*EXHIBIT.show(EXHIBIT.answer(view), view)]
    keys = [block.key for row in blocks if isinstance(row, b.Row) for block in row.blocks]
    inside = [block for hero in blocks if isinstance(hero, b.Hero) for block in hero.blocks]
    said = [block.words for block in inside if isinstance(block, b.Note | b.Sentence)]
    return keys, "\n".join(said), sides_of(view).view


@pytest.mark.parametrize("lang", LANGUAGES)
def test_heads_offers_the_switch_where_there_are_sinks_and_says_what_is_left_out(lang):
    place = {"site": "decoder", "layer": 5, "head": 0, "row": 3, "lang": lang}
    keys, said, view = drawn("stories", STORY, **place)
    assert "sinks.without_sinks" in keys
    assert escape("<s>") in said
    before = view.trace.pattern(view.site.name)[0].astype(float)
    _, said, view = drawn("stories", STORY, **place, without_sinks=True)
    assert escape("<s>") not in said
    had = percent(before[1:, 0].mean())  # of the rows with a choice
    assert had in said
    assert t("sinks.classes.first", lang=lang) in said
    known: dict[str, Any] = {}
    exec(snippet(view.trace, view.site.name, 0), known)
    rest = before[1:, 1:] / before[1:, 1:].sum(-1, keepdims=True)
    assert known["result"][1:, 1:] == pytest.approx(rest, abs=1e-6)
    keys, _, _ = drawn("en-zh", TEXT, lang=lang)
    assert "sinks.without_sinks" not in keys
    keys, said, _ = drawn("en-zh", TEXT, lang=lang, without_sinks=True)
    assert "sinks.without_sinks" in keys  # to switch it off again
    assert t("sinks.none", lang=lang) in said


def test_start_draws_the_steps_without_a_sink(translator):
    loaded = planted(translator, -2, 2, length=0.1)
    made = generate(loaded, TEXT, Greedy(), 6)
    whole, rest = (flow(loaded, trace(loaded, TEXT), made, (), left) for left in (False, True))
    (before, after) = (journey.lanes[-1].blocks[0][1] for journey in (whole, rest))
    assert before.steps[:, 2, -2].min() > 0.8
    for drawn_after, drawn_before in (
        (after.steps.swapaxes(0, 1), before.steps.swapaxes(0, 1)),
        (after.pattern, before.pattern),
    ):
        assert drawn_after[2, :, -2].max() == 0
        assert drawn_after[2].sum(-1) == pytest.approx(1)
        assert (drawn_after[[0, 1, 3]] == drawn_before[[0, 1, 3]]).all()
    assert not whole.sinks
    assert sum(float(site.weight.sum()) for site in rest.sinks) > 0.8


def test_a_pair_is_read_without_the_full_stop_that_is_a_sink(translator):
    loaded = planted(translator, -2, 2, length=0.1)
    own, rest = (next(read(loaded, [(TEXT, "猫坐在垫子上。")], left)) for left in (False, True))
    assert own.weights[1, 2, :, -1].min() > 0.8  # shift 1: the rows that have read the word
    assert rest.weights[1, 2, :, -1].max() == 0
    others = [0, 1, 3]
    assert own.weights[:, others] == pytest.approx(rest.weights[:, others], abs=1e-6)
