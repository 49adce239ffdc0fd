"""Padding on the left: what it costs where it is seen or counted, on the reader's sentence."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from faults import BY_ID, figure

from explorer.analysis.cases.symptom import LEFT, padded_on_the_left, room, symptom
from explorer.engine.jobs import walked
from explorer.library import LoadedModel, open_model
from explorer.runs.inputs import limit
from explorer.runs.trace import trace
from models.rows import Rows

Tiny = Callable[..., LoadedModel]


def test_the_second_mask_replaces_the_first() -> None:
    bug = BY_ID["mask_replaced"]
    tokens = torch.tensor([[0, 0, 7, 5], [7, 5, 9, 0]])
    wrong, right = bug.variant(tokens, 0), bug.plain(tokens, 0)
    assert wrong.shape == right.shape == (2, 1, 4, 4)
    assert wrong[0, 0].int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1] * 4]
    assert right[0, 0].int().tolist() == [[0] * 4, [0] * 4, [0, 0, 1, 0], [0, 0, 1, 1]]
    torch.testing.assert_close(wrong[1, 0, :3], right[1, 0, :3])  # the words of a row padded right
    assert figure("mask_replaced", "pads_seen_left") == (8, 0)  # 4 words, 2 PADs
    assert figure("mask_replaced", "pads_seen_right") == (0, 0)


def test_rows_get_their_padding_on_the_left() -> None:
    given = Rows(torch.tensor([[3, 4]]), None, torch.tensor([[5]]), torch.tensor([[True]]))
    rows = padded_on_the_left(given, 2, 9)
    assert (rows.tgt.tolist(), rows.valid("tgt").int().tolist()) == ([[9, 9, 3, 4]], [[0, 0, 1, 1]])
    assert (rows.tokens("src").tolist(), rows.valid("src").int().tolist()) == (
        [[9, 9, 5]],
        [[0, 0, 1]],
    )


@pytest.mark.parametrize("kind", ["translator", "writer"])
def test_what_is_written_for_shifted_positions_depends_on_what_they_act_on(
    kind: str, request: pytest.FixtureRequest
) -> None:
    loaded: LoadedModel = request.getfixturevalue(kind)
    traced = trace(loaded, "The cat sat.", "猫坐在垫子上。" if kind == "translator" else "")
    found = walked(symptom(loaded, traced, BY_ID["left_positions"]))
    assert found.left == min(8, room(loaded, traced)) > 0
    assert found.by_left[0].n == 0
    assert found.by_left[0].after == pytest.approx(found.by_left[0].before, abs=1e-5)
    losses = [each.before for each in found.by_left]
    assert losses == pytest.approx([losses[0]] * len(losses), abs=1e-4)  # the library's promise
    assert found.loss_before == pytest.approx(losses[0], abs=1e-4)
    adds = loaded.config.positions in ("sinusoidal", "learned")
    assert found.changed == adds
    at = {each.n: each.after for each in found.by_left}
    if found.left in at:
        assert at[found.left] == pytest.approx(found.loss_after, abs=1e-5)


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "alibi"])
def test_pads_that_are_seen_change_every_kind_of_model(tiny: Tiny, positions: str) -> None:
    loaded = tiny("left", family="decoder-only", positions=positions)
    traced = trace(loaded, "The cat sat.", "")
    found = walked(symptom(loaded, traced, BY_ID["mask_replaced"]))
    assert found.changed
    assert found.moved > 0.01
    plain = walked(symptom(loaded, traced, BY_ID["left_positions"]))
    assert plain.changed == (positions == "sinusoidal")


def test_a_sentence_that_fills_the_model_has_no_room(tiny: Tiny) -> None:
    loaded = tiny("full", family="decoder-only", n_ctx=12)
    traced = trace(loaded, "The cat sat on the", "")
    spare = room(loaded, traced)
    found = walked(symptom(loaded, traced, BY_ID["left_positions"]))
    assert found.left == min(spare, 8)
    assert [each.n for each in found.by_left] == [n for n in LEFT if n <= spare] * (spare > 0)
    assert not any(math.isnan(each.after) for each in found.by_left)
    np.testing.assert_array_equal(found.logprobs_before.shape, found.logprobs_after.shape)


def test_a_row_that_pads_have_made_too_long_has_no_room_left() -> None:
    loaded = open_model("sort")
    letters = " ".join("abcd"[at % 4] for at in range(limit(loaded) - 2))
    traced = trace(loaded, letters, letters, pads=8)
    assert max(len(traced.src_tokens), len(traced.tgt_tokens)) > limit(loaded)
    assert room(loaded, traced) == 0
    assert walked(symptom(loaded, traced, BY_ID["left_positions"])).left == 0
