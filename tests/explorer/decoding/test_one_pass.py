"""A decoding and one pass over its row: equal under the causal mask, and only there."""

import numpy as np
import pytest
import torch

from explorer.engine.jobs import walked
from explorer.exhibits.decoding.labels import MOST_LINES, labelled_batch
from explorer.exhibits.decoding.one_pass import one_pass
from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.runs.edits import HeadOff, MaskSwitch
from explorer.runs.trace import generate
from models.rows import Rows
from models.strategies import Beam, Greedy, Sample

TEXT = "The cat ran."


@pytest.fixture(params=["translator", "writer"])
def loaded(request: pytest.FixtureRequest) -> LoadedModel:
    model: LoadedModel = request.getfixturevalue(request.param)
    return model


@pytest.mark.parametrize("strategy", [Greedy(), Beam(3), Sample(temperature=2.0, seed=1)])
def test_steps_and_one_pass_agree_with_the_causal_mask_and_not_without(loaded, strategy) -> None:
    made = generate(loaded, TEXT, strategy, 6)
    found = walked(one_pass(loaded, made))
    assert len(found.gaps) == len(made.steps)
    assert found.largest < 1e-4
    assert (found.gaps_open[:-1] > 0.01).all()
    assert found.gaps_open[-1] < 1e-4  # nothing stands after the last row
    assert found.logprobs.sum() == pytest.approx(made.logprob, abs=1e-3)
    for step, logprob in zip(made.steps, found.logprobs, strict=True):
        assert np.log(step.chosen_prob) == pytest.approx(logprob, abs=1e-4)


def test_the_rows_of_the_film_are_those_of_the_one_pass(loaded: LoadedModel) -> None:
    made = generate(loaded, TEXT, Greedy(), 6)
    found = walked(one_pass(loaded, made))
    for site, pattern in found.patterns.items():
        for step in made.steps:
            row = step.rows[site]
            np.testing.assert_allclose(pattern[:, step.index, : row.shape[1]], row, atol=1e-5)
            assert not found.masks[site][:, step.index, row.shape[1] :].any()
    own = next(site for site in found.patterns if "cross" not in site)
    assert found.patterns_open[own][:, 0, -1].max() > 0
    assert (found.queries[-1], found.keys[-1]) == (made.steps[-1].input_tokens[-1],) * 2


def test_other_edits_stay_and_the_causal_one_is_what_is_compared(translator: LoadedModel) -> None:
    off = HeadOff("decoder.blocks.0.cross_attn", 1)
    made = generate(translator, TEXT, Greedy(), 5, [off, MaskSwitch("causal", False)])
    found = walked(one_pass(translator, made))
    assert found.largest < 1e-4
    plain = walked(
        one_pass(translator, generate(translator, TEXT, Greedy(), 5, forced=made.tokens))
    )
    assert np.abs(plain.logprobs - found.logprobs).max() > 1e-3


def test_a_decoding_of_another_model_is_refused(translator, writer) -> None:
    with pytest.raises(ValueError, match="'tiny', not by 'writer'"):
        walked(one_pass(writer, generate(translator, TEXT, Greedy(), 2)))


# The batch


def test_a_batch_shifts_pads_and_ignores(translator: LoadedModel) -> None:
    found = walked(labelled_batch(translator, ["I love you.\t我爱你。", "", "The cat.\t猫"]))
    assert [len(row) for row in found.inputs] == [len(found.inputs[0])] * 2
    for inputs, labels, counts in zip(found.inputs, found.labels, found.counts, strict=True):
        n = int(counts.sum())
        assert inputs[0] == "<s>"
        assert inputs[1:n] == labels[: n - 1]
        assert labels[n - 1] == "</s>"
        assert set(inputs[n:]) | set(labels[n:]) <= {"<pad>"}
    assert not found.counts[1].all()
    assert (found.losses[~found.counts] == 0).all()
    assert found.loss == pytest.approx(found.losses.sum() / found.counts.sum(), rel=1e-5)
    assert found.loss_with_padding != pytest.approx(found.loss, rel=1e-3)


def test_each_loss_is_that_of_the_sentence_alone(translator: LoadedModel) -> None:
    lines = ["I love you.\t我爱你。", "The cat.\t猫"]
    together = walked(labelled_batch(translator, lines))
    for row, line in enumerate(lines):
        alone = walked(labelled_batch(translator, [line]))
        n = alone.losses.shape[1]
        np.testing.assert_allclose(together.losses[row, :n], alone.losses[0], atol=1e-4)
    row = translator.tokenizer.encode("我爱你。")
    src = [*translator.tokenizer.encode("I love you."), translator.marks.end]
    with torch.no_grad():
        logits = translator.model.read(Rows.of([[1, *row]], [src]))[0]
    own = -logits.log_softmax(-1)[range(len(row) + 1), [*row, translator.marks.end]]
    np.testing.assert_allclose(together.losses[0, : len(own)], own.numpy(), atol=1e-4)


def test_without_a_translation_the_models_own_is_the_label(translator: LoadedModel) -> None:
    made = generate(translator, TEXT, Greedy(), 28)
    own = walked(labelled_batch(translator, [TEXT])).labels[0]
    given = [step.chosen_str for step in made.steps]
    n = min(len(given), len(own)) - 1
    assert n > 2
    assert list(own[:n]) == given[:n]


def test_a_writers_line_is_its_own_text(writer: LoadedModel) -> None:
    found = walked(labelled_batch(writer, ["The cat ran.", "I love"]))
    assert found.sources == ()
    assert found.labels[1][-1] == "<pad>"


def test_what_makes_no_batch_is_refused(translator: LoadedModel) -> None:
    for lines, key in (
        ([], "no_lines"),
        (["  ", "\t"], "no_lines"),
        (["I."] * (MOST_LINES + 1), "too_many_lines"),
        (["\x07"], "nothing_left"),
        (["I love you.\t" + "，" * 200], "target_too_long"),
        (["，" * 200], "too_many_tokens"),
    ):
        with pytest.raises(InputProblem) as caught:
            walked(labelled_batch(translator, lines))
        assert caught.value.key == key
