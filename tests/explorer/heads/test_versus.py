"""Two models on one sentence: differences worked by hand, and what is not comparable."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from explorer.analysis.heads.versus import (
    closest,
    counterpart,
    divergence,
    expectations,
    incomparable,
    mean_divergence,
    versus,
)
from explorer.components import HeadsSelection
from explorer.exhibits.block import AllHeads, Change, Columns, Hero
from explorer.exhibits.heads.heads import EXHIBIT
from explorer.exhibits.links import State
from explorer.exhibits.view import build
from explorer.runs.trace import Trace, trace
from explorer.shell import LINKS
from models.hooks import LOGITS, Role

SITE = "decoder.blocks.1.attn"


def with_pattern(traced: Trace, head: int, rows: list[list[float]]) -> Trace:
    """The same run, but one head of SITE attends like this."""
    name = f"{SITE}.hook_pattern"
    pattern = traced.activations[name].copy()
    pattern[head] = rows
    return replace(traced, activations=traced.activations | {name: pattern})


def test_divergence_by_hand() -> None:
    rows = np.array([[1.0, 0.0], [1.0, 0.0], [0.5, 0.5], [0.0, 0.0]])
    others = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    # The third: H(3/4, 1/4) - 1/2 bits, of which H(3/4, 1/4) = 2 - 3/4 log2(3).
    third = 1.5 - 0.75 * np.log2(3)
    np.testing.assert_allclose(divergence(rows, others), [0, 1, third, np.nan], atol=1e-12)
    np.testing.assert_allclose(mean_divergence(rows, others), (1 + third) / 3)
    assert np.isnan(mean_divergence(rows[3:], others[3:]))


def test_the_changed_head_comes_first_and_the_most_similar_is_found(traced, translator) -> None:
    changed = with_pattern(traced, 2, [[1, 0, 0], [1, 0, 0], [0, 0, 1]])
    other = with_pattern(traced, 2, [[1, 0, 0], [0, 1, 0], [0, 0, 1]])
    found = versus(changed, other, "decoder")
    assert found.ranked()[0] == (1, 2)
    assert found.difference[1, 2] == pytest.approx(1 / 3)  # one of three rows, by one bit
    assert np.delete(found.difference.ravel(), 6).max() < 1e-6
    assert found.by_number
    assert found.comparable
    assert found.queries.whole
    rows = traced.pattern(SITE)[3].tolist()
    moved = with_pattern(with_pattern(traced, 3, [[1, 0, 0]] * 3), 0, rows)
    found = versus(traced, moved, "decoder")
    assert found is not None
    assert closest(traced, moved, found, 1, 3) == ((1, 0), pytest.approx(0, abs=1e-6))
    padded = trace(translator, "The cat ran", "我爱你猫", pads=2)
    rows = padded.pattern(SITE)[2].tolist()
    rows[-2:] = [[0, 0, 0, 0, 1], [1, 0, 0, 0, 0]]  # those of PAD
    for one, other in ((traced, padded), (padded, with_pattern(padded, 2, rows))):
        found = versus(one, other, "decoder")
        assert found.difference.max() < 1e-6


def test_kinds_are_paired_by_what_they_read_and_other_shapes_not_by_number(traced, writer) -> None:
    written = trace(writer, "The cat ran")
    assert counterpart(traced, written, "encoder") == "decoder"
    assert counterpart(written, traced, "decoder") == "encoder"
    assert counterpart(traced, written, "cross") is None
    assert counterpart(traced, written, "decoder") is None  # it reads a translation
    assert versus(traced, written, "cross") is None
    with pytest.raises(ValueError, match="no attention of the kind 'cross'"):
        versus(written, traced, "cross")
    found = versus(traced, written, "encoder")
    assert found.shapes[0] != found.shapes[1]
    assert found.difference is None
    assert found.ranked() == ()
    assert found.comparable
    nearest = closest(traced, written, found, 0, 0)
    assert 0 < nearest[1] < 1


def test_predictions_are_compared_if_they_answer_one_question(traced, translator, writer) -> None:
    shown = translator.str_tokens
    logits = traced.logits.copy()
    logits[1] = -logits[1]  # what was least expected after the second token is most expected now
    other = replace(traced, activations=traced.activations | {LOGITS: logits})
    found = expectations(traced, other, shown, shown)
    assert [each.piece for each in found] == list(traced.tgt_str_tokens)
    assert [each.same for each in found] == [True, False, True]
    chances = np.exp(traced.logits[0] - np.logaddexp.reduce(traced.logits[0]))
    assert [chance for _, chance in found[0].one] == pytest.approx(sorted(chances)[:-4:-1])
    assert found[0].one[0][0].removeprefix("·") == traced.predicted_str_tokens[0].removeprefix("·")
    written = trace(writer, "The cat ran")
    for other, why in (
        (written, "other_task"),
        (
            replace(traced, config=replace(traced.config, family="encoder-only")),
            "other_predictions",
        ),
        (replace(traced, config=replace(traced.config, lm_head=False)), "no_predictions"),
    ):
        assert incomparable(traced, other) == why
        assert expectations(traced, other, shown, shown) == ()
    assert incomparable(traced, traced) is None


# What clicks in the pictures of all heads choose.
FIRST, SECOND = "I like a book.", "She reads a book."


def drawn(**chosen: Any) -> tuple[State, list[AllHeads]]:
    state = LINKS.change(State(text=FIRST), **chosen)
    view = build(state, dark=False)
    blocks = EXHIBIT.show(EXHIBIT.answer(view), view)
    inside = [block for hero in blocks if isinstance(hero, Hero) for block in hero.blocks]
    (picture,) = [block for block in inside if isinstance(block, Columns)]
    drawn = [block for column in picture.columns for block in column]
    return state, [block for block in drawn if isinstance(block, AllHeads)]


def down(block: AllHeads, place: tuple[int, ...]) -> Change:
    assert block.down is not None
    return block.down(place)


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
    change = down(block, (0, 1, last, 0))
    assert change.visit == "score"
    made = change.choices(state)
    assert (made["layer"], made["head"], made["key"]) == (0, 1, 0)
    assert made["row"] == by_token.grid.shape[2] - 1


def test_a_cell_of_the_second_sentence_or_model_swaps_the_two() -> None:
    place = {"layer": 1, "head": 2, "row": 1, "key": 0}
    state, (left, right) = drawn(beside=f"{SECOND}\nWe went.")
    assert down(left, (1, 2, 1, 0)).choices(state) == place | {"goal": None}
    swapped = {"text": SECOND, "target": None, "beside": f"{FIRST}\nWe went.", "goal": None}
    assert down(right, (1, 2, 1, 0)).choices(state) == place | swapped
    state, (_, right) = drawn(with_="reverse", site="decoder", model="copy", text="a b c")
    change = down(right, (1, 2, 1, 0))
    assert (change.visit, change.elsewhere) == ("score", True)
    swapped = {"model": "reverse", "with_": "copy"}
    assert change.choices(state).items() >= (place | swapped).items()


@pytest.mark.parametrize(("site", "row"), [("encoder", 0), ("decoder", 1), ("cross", 1)])
def test_the_first_query_is_a_word_and_no_start_token(site: Role, row: int) -> None:
    view = build(State(text=FIRST, site=site), dark=False)
    assert view.row == row
    assert view.trace.query_tokens(view.site.name)[0] == ("I" if site == "encoder" else "<s>")
