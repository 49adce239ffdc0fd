"""Training a language model against its own repetitions."""

import dataclasses
from pathlib import Path

import pytest
import torch
from tables import chain

from models.config import ModelConfig
from models.training.data import Example, Material, batches, collate
from models.training.loop import Trainer
from models.training.objectives import Likelihood
from models.training.repetition import CONTINUATION
from models.training.settings import TrainingConfig
from models.transformer import DecoderOnly, build_model
from recipes.objectives import Unlikelihood, WrongMasks, own_words, unlikelihood

BOS, EOS, A, B, C, D = 1, 2, 3, 4, 5, 6
CONFIG = ModelConfig(
    family="decoder-only",
    vocab_size=16,
    d_model=24,
    n_layers=1,
    n_heads=4,
    d_ff=40,
    n_ctx=64,
    dropout=0.0,
    positions="rotary",
)


def test_own_words_are_marked_where_they_repeat() -> None:
    """A, B, C, A, B, C ... for ever after A; D ends at once."""
    model = chain(8, _3={4: 1.0}, _4={5: 1.0}, _5={3: 1.0})
    batch = collate([Example((), (A, B, D, D)), Example((), (D, D))], model)
    own = own_words(model, batch, n_given=3)
    assert own.rows.tgt.shape == own.labels.shape
    assert own.n_labels == batch.n_labels
    assert own.rows.src is None
    first = [BOS, A, B, C] + [A, B, C] * CONTINUATION
    assert own.rows.tgt[0].tolist() == first[: own.rows.tgt.shape[1]]
    assert own.labels[0].tolist() == first[1 : own.rows.tgt.shape[1] + 1]
    # Given: <s> A B. Written: C, then A B C A, the first copy of the four from A on, and so on.
    assert own.loss_mask[0].tolist() == [False] * 3 + [True] * (own.rows.tgt.shape[1] - 3)
    assert own.labels[1, 2] == EOS
    assert not own.loss_mask[1].any()
    assert own.rows.tgt_valid[1].tolist() == [True] * 4 + [False] * (own.rows.tgt.shape[1] - 4)


def test_at_most_half_of_what_the_model_reads_is_given() -> None:
    model = chain(8)  # ends at once, whatever it reads
    model.config = dataclasses.replace(model.config, n_ctx=40)
    own = own_words(model, collate([Example((), (D,) * 35)], model), n_given=48)
    assert own.rows.tgt.tolist() == [[BOS] + [D] * 19]
    assert own.labels[0, -1] == EOS


def test_shares_of_a_batch_add_up_to_the_whole() -> None:
    """Two processes' own words are those of one, a row that only fills a share left out."""
    torch.manual_seed(0)
    model = build_model(CONFIG).double()
    assert isinstance(model, DecoderOnly)
    rows = [Example((), tuple(range(3, 3 + n))) for n in (9, 10, 11)]

    def loss(share: tuple[int, int], few: list[Example]) -> float:
        (batch,) = batches(few, model, 100, seed=0, epoch=0, share=share)
        own = own_words(model, batch, n_given=5)
        logits = model.read(own.rows).detach()
        return float(unlikelihood(logits, own.labels, own.loss_mask))

    assert loss((0, 1), rows) > 0
    assert loss((0, 2), rows) + loss((1, 2), rows) == pytest.approx(loss((0, 1), rows))
    assert loss((1, 2), rows[:1]) == 0


def test_unlikelihood_is_that_of_the_paper() -> None:
    logits = torch.tensor([[[0.0, 0.0, 0.0, 0.0], [9.0, 0.0, 0.0, 0.0], [1.0, 2.0, 3.0, 4.0]]])
    labels = torch.tensor([[1, 0, 2]])
    mask = torch.tensor([[True, False, True]])
    p = logits.softmax(-1)
    expected = -(1 - p[0, 0, 1]).log() - (1 - p[0, 2, 2]).log()
    assert unlikelihood(logits, labels, mask) == pytest.approx(float(expected))
    assert unlikelihood(logits, labels, mask & False) == 0
    certain = torch.tensor([[[100.0, 0.0]]])
    assert 5 < float(unlikelihood(certain, torch.tensor([[0]]), torch.tensor([[True]]))) < 20


def test_the_loss_is_that_of_its_own_words_times_the_weight(tmp_path: Path) -> None:
    rows = [Example((), (a, b, a, b, a, b, a, b)) for a in range(3, 7) for b in range(3, 7)]
    torch.manual_seed(1)
    model = build_model(CONFIG)
    objectives = [Likelihood(), Unlikelihood(weight=8.0)]
    settings = TrainingConfig(precision="float32")
    run = Trainer(model, Material(rows), settings, tmp_path, objectives)
    batch = collate(rows[:5], model)
    for step, n_given in ((0, 8), (3, 11), (41, 8)):
        run.progress.step = step
        own = own_words(model, batch, n_given)
        expected = unlikelihood(model.read(own.rows), own.labels, own.loss_mask)
        assert expected > 0
        torch.testing.assert_close(objectives[1].loss(batch, run).minimised, 8 * expected)


def test_it_is_refused_where_no_text_is_continued(tmp_path: Path) -> None:
    pairs = build_model(dataclasses.replace(CONFIG, family="encoder-decoder"))
    with pytest.raises(ValueError, match=r"unlikelihood is 1\.0: it is for decoder-only"):
        Trainer(
            pairs,
            Material([]),
            TrainingConfig(),
            tmp_path,
            [Likelihood(), Unlikelihood(weight=1.0)],
        )
    with pytest.raises(ValueError, match="unlikelihood is -1: it must be at least 0"):
        Unlikelihood(weight=-1)
    both = [WrongMasks(masks="inverted"), Unlikelihood(weight=1.0)]
    with pytest.raises(ValueError, match=r"unlikelihood is 1\.0: .* right masks, not 'inv"):
        Trainer(build_model(CONFIG), Material([]), TrainingConfig(), tmp_path, both)
