"""Greedy decoding read from a Trace: the same steps as when they are taken one by one."""

import numpy as np
import pytest

from explorer.library import LoadedModel
from explorer.runs.edits import MaskSwitch
from explorer.runs.retold import greedy_steps
from explorer.runs.trace import generate, trace
from models.strategies import Greedy

TEXT = "The cat ran."


@pytest.mark.parametrize("most", [2, 4])
def test_the_steps_of_a_trace_are_those_of_the_decoding(translator: LoadedModel, most: int) -> None:
    made = generate(translator, TEXT, Greedy(), most)
    known = greedy_steps(translator, trace(translator, TEXT), most)
    assert len(known) == most
    again = generate(translator, TEXT, Greedy(), most, known=known)
    assert (again.tokens, again.text, again.finished) == (made.tokens, made.text, made.finished)
    assert again.logprob == pytest.approx(made.logprob, abs=1e-4)
    for own, read in zip(made.steps, again.steps, strict=True):
        assert (own.input_tokens, own.chosen_str) == (read.input_tokens, read.chosen_str)
        assert [each.token for each in own.candidates] == [each.token for each in read.candidates]
        assert own.rows.keys() == read.rows.keys()
        for name, row in own.rows.items():
            np.testing.assert_allclose(read.rows[name], row, atol=1e-5)


def test_what_no_trace_of_the_translation_holds_is_not_read(
    translator: LoadedModel, writer: LoadedModel
) -> None:
    off = (MaskSwitch("causal", False),)
    assert not greedy_steps(translator, trace(translator, TEXT, edits=off), 2)
    assert not greedy_steps(translator, trace(translator, TEXT, pads=2), 2)
    assert not greedy_steps(translator, trace(translator, TEXT, "猫"), 2)  # not the model's own
    assert not greedy_steps(translator, trace(translator, TEXT), 99)  # cut off before its end
    assert not greedy_steps(writer, trace(writer, TEXT), 2)
