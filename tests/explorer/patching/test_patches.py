"""Pairs of texts and patches: none gives the second run, all the first."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from explorer.analysis.patching import maps
from explorer.analysis.patching.maps import Map, MapPart, patches_of
from explorer.analysis.patching.pair import Pair, align, checked, exchanged, other_text, pair
from explorer.analysis.patching.patched import patched_run, run_cell
from explorer.analysis.patching.patches import Patch, gaps, patched_logits
from explorer.library import LoadedModel, open_model
from explorer.problems import InputProblem
from explorer.runs.passes import walked
from explorer.runs.run import run
from explorer.runs.trace import trace
from explorer.text import exchanges as groups
from models.hooks import LOGITS, Edits
from models.transformer import build_model

GROUPS = {"en": (("she", "he"), ("cat", "dog", "bird")), "zh": (("她", "他"),)}


@pytest.fixture(scope="module")
def filler(tiny) -> LoadedModel:
    return tiny("filler", family="encoder-only", norm_placement="pre", final_norm=True)


def both(loaded: LoadedModel, first: str, second: str, **asked: object) -> Pair:
    return pair(loaded, trace(loaded, first), second, **asked)


@pytest.fixture(params=["translator", "writer", "filler"])
def read(request) -> tuple[LoadedModel, Pair]:
    """A model of each family, and two texts that it answers differently."""
    loaded = request.getfixturevalue(request.param)
    found = both(loaded, "A cat ran.", "A dog ran.")
    assert found.same_length
    assert not found.alike
    return loaded, found


def test_no_patch_is_the_second_run_and_all_patches_are_the_first(read):
    loaded, found = read
    for what in (*maps.BY_PLACE, *maps.BY_HEAD):
        if what == "cross_attn_out" and "src" not in loaded.model.reads:
            continue
        everything = list(maps.patches_of(loaded, found, what)[0].values())
        nothing, everywhere = walked(gaps(loaded, found, [[], everything]))
        assert nothing == pytest.approx(found.gaps[1], abs=1e-4)
        if what == "resid":
            assert everywhere == pytest.approx(found.gaps[0], abs=1e-4)
    embedded = [
        patch
        for (_, row, _), patch in maps.patches_of(loaded, found, "resid")[0].items()
        if row == 0
    ]
    assert walked(gaps(loaded, found, [embedded]))[0] == pytest.approx(found.gaps[0], abs=1e-4)


def test_a_patch_is_what_hands_do_and_the_last_one_the_whole_answer_both_ways(read):
    loaded, found = read
    place, stack = found.question.places[1], loaded.stacks[-1]
    hook = stack.block_hook(1, "resid_pre")
    vector = run(loaded.model, found.rows[0], {hook})[hook][0, 0]

    def by_hand(stream: torch.Tensor) -> torch.Tensor:
        stream = stream.clone()
        stream[:, 0] = vector
        return stream

    logits = run(loaded.model, found.rows[1], {LOGITS}, Edits({hook: by_hand}))[LOGITS][0, place]
    wanted, other = found.answers
    share = (float(logits[wanted] - logits[other]) - found.gaps[1]) / (
        found.gaps[0] - found.gaps[1]
    )
    mapped = walked(maps.patch_map(loaded, found, "resid"))
    parts = {part.name: part for part in mapped.parts}
    assert parts["tgt"].effects[1, 0] == pytest.approx(share, abs=1e-4)
    last = mapped.parts[-1].effects[-1]
    assert mapped.together == pytest.approx(1, abs=1e-4)
    assert last[place] == pytest.approx(1, abs=1e-4)
    assert np.delete(last, place) == pytest.approx(0, abs=1e-4)
    back = found.swapped()
    assert back.gaps == pytest.approx(tuple(-gap for gap in found.gaps[::-1]))
    assert back.answers == found.answers[::-1]
    last = walked(maps.patch_map(loaded, back, "resid")).parts[-1].effects[-1]
    assert last[back.question.places[1]] == pytest.approx(1, abs=1e-4)
    assert back.swapped().places == found.places


def test_a_batch_of_patches_is_each_alone_and_all_write_the_first_translation(translator):
    found = both(translator, "I love you.", "The cat sat.")
    cells = list(maps.patches_of(translator, found, "z")[0].values())
    together = walked(gaps(translator, found, [[cell] for cell in cells]))
    alone = [walked(gaps(translator, found, [[cell]]))[0] for cell in cells[:: len(cells) // 5]]
    assert together[:: len(cells) // 5] == pytest.approx(alone, abs=1e-4)
    memory = [
        patch
        for (name, row, _), patch in maps.patches_of(translator, found, "resid")[0].items()
        if (name, row) == ("src", 3)
    ]
    shown = patched_run(translator, found, memory)
    first, second, patched = (text.removesuffix("…") for text in shown.texts)
    assert patched == first == trace(translator, "I love you.").output
    assert second == trace(translator, "The cat sat.").output
    assert first != second


def test_shared_keys_and_values_are_patched_as_one(tiny):
    grouped = tiny("grouped", family="decoder-only", n_kv_heads=2)
    found = both(grouped, "The cat sat on the mat.", "The dog ran after the cat.")
    assert not found.alike
    effects = walked(maps.patch_map(grouped, found, "v")).parts[0].effects
    assert effects.shape == (2, 4)
    assert effects[:, 0] == pytest.approx(effects[:, 1])
    assert effects[:, 0] != pytest.approx(effects[:, 2])


def test_a_patched_run_writes_on_and_shows_what_is_probable(read):
    loaded, found = read
    place = found.question.places[1]
    last = ("tgt", len(walked(maps.patch_map(loaded, found, "resid")).parts[-1].effects) - 1, place)
    shown = run_cell(loaded, found, "resid", last)
    none = patched_run(loaded, found, [])
    assert shown.effect == pytest.approx(1, abs=1e-4)
    assert none.effect == pytest.approx(0, abs=1e-4)
    for first, _, patched in (each.probs for each in shown.answers):
        assert patched == pytest.approx(first, abs=1e-4)
    for _, second, patched in (each.probs for each in none.answers):
        assert patched == pytest.approx(second, abs=1e-4)
    assert none.texts[2] == none.texts[1]
    assert {each.token for each in shown.answers} >= set(found.answers)


@pytest.mark.parametrize("what", ["pattern", "z", "v"])
def test_a_patch_of_a_head_stays_in_place_while_the_run_writes_on(writer, what):
    found = both(writer, "A cat ran.", "A dog ran.")
    shown = run_cell(writer, found, what, ("decoder", 1, 2))
    whole = walked(maps.patch_map(writer, found, what)).cells["decoder", 1, 2]
    assert shown.effect == pytest.approx(whole, abs=1e-4)
    assert shown.texts[2].endswith("…")


def test_texts_of_different_length_correspond_by_what_they_share(translator):
    assert align("abc", "xyz") == ((0, 0), (1, 1), (2, 2))
    assert align("abXYcd", "abZcd") == ((0, 0), (1, 1), (3, 2), (4, 3), (5, 4))
    assert align("abc", "abbc") in (((0, 0), (1, 1), (2, 3)), ((0, 0), (1, 2), (2, 3)))
    assert checked([(0, 0), (0, 1), (5, 2), (2, 2), (1, 2)], 3, 3) == ((0, 0), (2, 2))
    found = both(translator, "The cat sat on the mat.", "The cat ran on the mat, and ran.")
    assert not found.same_length
    mapped = walked(maps.patch_map(translator, found, "resid"))
    there = {b for _, b in found.places["src"]}
    for column in range(mapped.parts[0].effects.shape[1]):
        assert np.isnan(mapped.parts[0].effects[:, column]).all() == (column not in there)
    with pytest.raises(ValueError, match="a different length"):
        walked(maps.patch_map(translator, found, "pattern"))
    walked(maps.patch_map(translator, found, "z"))


def test_runs_alike_bring_nothing_back_and_silent_models_are_refused(writer, tiny):
    found = both(writer, "I love you.", "I love you.")
    assert found.alike
    assert not found.question.differs
    mapped = walked(maps.patch_map(writer, found, "resid"))
    assert all(np.isnan(part.effects).all() for part in mapped.parts)
    assert mapped.best() == ("tgt", 0, 0)
    headless = tiny("headless", family="encoder-only", lm_head=False)
    with pytest.raises(InputProblem, match="no_logits"):
        both(headless, "I love you.", "The cat sat.")


def test_the_answer_asked_for_is_compared_and_an_offer_differs(translator, writer):
    found = both(translator, "The cat sat on the mat.", "The dog sat on the mat.", place=2)
    assert found.question.places == (2, 2)
    assert found.rows[1].tgt.shape[1] == 3
    logits = patched_logits(translator, found, [])
    assert logits == pytest.approx(found.logits[1], abs=1e-4)
    first = trace(writer, "The cat sat on the mat.")
    second = walked(other_text(writer, first, groups()))
    found = pair(writer, first, second)
    assert found.same_length
    assert found.question.differs
    assert walked(other_text(writer, trace(writer, "!"), groups())) is None


def test_the_best_cell_must_beat_the_best_of_every_misplaced_map():
    """By hand: the best of each draw is 0.1 to 0.3, their standard deviation 0.061."""
    most = np.linspace(0.1, 0.3, maps.DRAWS)
    control = np.stack([most, most - 0.05, np.full(maps.DRAWS, np.nan)], 1)[:, None]
    mapped = Map("z", (MapPart("decoder", np.array([[0.2, 0.4, np.nan]]), control),), 1.0)
    assert mapped.chance == pytest.approx((0.175, np.std([most, most - 0.05]), 0.3))
    assert most.std() == pytest.approx(0.061, abs=1e-3)
    assert not mapped.beats_chance(0.39)
    assert mapped.beats_chance(0.392)


@pytest.mark.parametrize("what", ["resid", "z", "pattern"])
def test_equal_misplaced_patches_run_once(writer, what, monkeypatch):
    """Four tokens have three other places, four heads three other heads."""
    found = both(writer, "A cat ran.", "A dog ran.")
    assert len(found.str_tokens["tgt"][1]) == 4 == writer.config.n_heads
    ran: list[int] = []

    def counted(loaded: LoadedModel, pair: Pair, rows: list[list[Patch]]) -> object:
        ran.append(len(rows) - 1)  # all at once is the other one
        return gaps(loaded, pair, rows)

    monkeypatch.setattr(maps, "gaps", counted)
    walked(maps.patch_map(writer, found, what))
    n_cells, n_runs = maps.n_patches(writer, found, what)
    assert n_runs == 4 * n_cells
    assert ran == [n_runs]


def test_exchanges_offer_groups_first_then_letters_and_other_words():
    found = list(exchanged("She sheared the cat.", GROUPS))
    assert found[:3] == ["He sheared the cat.", "She sheared the dog.", "She sheared the bird."]
    assert len(found) == len(set(found))
    assert next(exchanged("她爱猫。", GROUPS)) == "他爱猫。"
    assert next(exchanged("I think I am.", {"en": (("I", "we"),)})) == "We think I am."
    assert list(exchanged("c a z", {}))[:3] == ["c a a", "c b z", "d a z"]
    assert "dogs like dogs" in list(exchanged("we like dogs", {}))
    assert list(exchanged("!", {})) == []


@pytest.mark.parametrize("word", ["Brown", "今天"])
def test_a_drawn_word_is_paired_with_one_that_differs_in_one_letter(word):
    loaded = open_model("reader")
    first = f"{word} @serif"
    second = walked(other_text(loaded, trace(loaded, first), {}))
    assert second.endswith(" @serif")
    assert sum(a != b for a, b in zip(first, second, strict=True)) == 1
    assert trace(loaded, second).output != word


N_SEEDS, MOST_ALARMS = 100, 5


@pytest.mark.sweep
@pytest.mark.parametrize("what", ["resid", "z", "v", "pattern"])
def test_a_misplaced_map_is_told_that_its_place_matters_in_five_of_a_hundred_cases(
    tiny, what, monkeypatch
):
    """The true activations are replaced by one more misplaced draw, so the place cannot matter."""
    loaded = tiny("untrained", family="decoder-only", n_ctx=40)
    alarms, true = 0, 0
    for seed in range(N_SEEDS):
        torch.manual_seed(seed)
        model = build_model(loaded.config).requires_grad_(False).eval()
        model.marks = loaded.model.marks
        other = replace(loaded, model=model)
        found = both(other, "the cat ran on the mat and sat.", "the dog ran on the mat and sat.")
        if found.alike:
            continue

        def drawn(*asked: Any, own: int = maps.DRAWS + seed) -> object:
            if len(asked) < 4:
                return patches_of(*asked)
            return patches_of(*asked[:3], (own, *asked[3][1:]))

        def best(other: LoadedModel = other, found: Pair = found) -> bool:
            mapped = walked(maps.patch_map(other, found, what))
            return mapped.beats_chance(mapped.cells[mapped.best()])

        true += best()
        with monkeypatch.context() as patched:
            patched.setattr(maps, "patches_of", drawn)
            alarms += best()
    print(what, "alarms", alarms, "of true maps", true)
    assert alarms <= MOST_ALARMS
