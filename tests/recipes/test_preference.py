"""Training on its own continuations: judged, preferred, and against repetition."""

import dataclasses
import gzip
import json
import math
from collections import Counter
from pathlib import Path

import pytest
import torch
from tables import chain

from models.config import ModelConfig
from models.rows import Rows
from models.tokenizer import Tokenizer
from models.training.data import Example, Material, collate
from models.training.loop import Trainer
from models.training.objectives import Likelihood, Objective
from models.training.repetition import CONTINUATION
from models.training.settings import TrainingConfig
from models.training.vocabulary import train_tokenizer
from models.transformer import DecoderOnly, build_model
from recipes.judging import LEAD, Judged, Preference, judged_names, preferences_of, read_judged
from recipes.objectives import Unlikelihood, WrongMasks, own_words, unlikelihood
from recipes.preference import (
    LIKELIHOOD,
    PAIRS,
    DirectPreference,
    batch_of,
    log_likelihoods,
    pairs_of_step,
    preference_loss,
    preference_objective,
)

BOS, EOS, A, B, C, D = 1, 2, 3, 4, 5, 6
SIZES = {"vocab_size": 16, "d_model": 24, "n_layers": 1, "n_heads": 4, "d_ff": 40, "n_ctx": 64}
CONFIG = ModelConfig(family="decoder-only", positions="rotary", dropout=0.0, **SIZES)


def test_own_words_are_marked_where_they_repeat_and_half_are_given_at_most():
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
    model = chain(8)  # ends at once, whatever it reads
    model.config = dataclasses.replace(model.config, n_ctx=40)
    own = own_words(model, collate([Example((), (D,) * 35)], model), n_given=48)
    assert own.rows.tgt.tolist() == [[BOS] + [D] * 19]
    assert own.labels[0, -1] == EOS


def test_unlikelihood_and_preference_are_those_of_their_papers():
    logits = torch.tensor([[[0.0, 0.0, 0.0, 0.0], [9.0, 0.0, 0.0, 0.0], [1.0, 2.0, 3.0, 4.0]]])
    labels = torch.tensor([[1, 0, 2]])
    mask = torch.tensor([[True, False, True]])
    p = logits.softmax(-1)
    expected = -(1 - p[0, 0, 1]).log() - (1 - p[0, 2, 2]).log()
    assert unlikelihood(logits, labels, mask) == pytest.approx(float(expected))
    assert unlikelihood(logits, labels, mask & False) == 0
    certain = torch.tensor([[[100.0, 0.0]]])
    assert 5 < float(unlikelihood(certain, torch.tensor([[0]]), torch.tensor([[True]]))) < 20
    better, worse = torch.tensor([3.0, -1.0]), torch.tensor([1.0, 4.0])
    expected = sum(math.log(1 + math.exp(-0.1 * d)) for d in (2.0, -5.0))
    assert preference_loss(better, worse) == pytest.approx(expected)
    assert preference_loss(worse, worse) == pytest.approx(2 * math.log(2))


DROPPING = dataclasses.replace(CONFIG, dropout=0.3)


def built(seed: int) -> DecoderOnly:
    torch.manual_seed(seed)
    model = build_model(DROPPING)
    return model.eval()


def objective_of(model: DecoderOnly, before: DecoderOnly, pairs: list[Preference]) -> torch.Tensor:
    """The objective of these pairs, whose rows the two models read."""
    batch = batch_of(pairs, model)
    now, then = (log_likelihoods(one.read(batch.rows), batch) for one in (model, before))
    return preference_objective(now, then.detach(), batch.loss_mask.sum(1))


@torch.no_grad()
def log_p(model: DecoderOnly, given: tuple[int, ...], written: tuple[int, ...]) -> float:
    """Of what is written after what is given, token by token."""
    total = 0.0
    for i, token in enumerate(written):
        before = torch.tensor([[BOS, *given, *written[:i]]])
        total += float(model.read(Rows(before))[0, -1].log_softmax(-1)[token])
    return total


def test_the_objective_is_counted_from_where_the_model_stood_on_texts_cut_to_fit():
    model, before = built(0), built(1)
    pairs = [Preference((3, 4), (5, 6, 7), (8,)), Preference((9,), (10, 11), (12, 13, 14, 15, 3))]
    expected = 0.0
    for pair in pairs:
        moved = [
            log_p(model, pair.given, text) - log_p(before, pair.given, text)
            for text in (pair.better, pair.worse)
        ]
        expected += math.log(1 + math.exp(-0.1 * (moved[0] - moved[1])))
        expected -= LIKELIHOOD * log_p(model, pair.given, pair.better) / len(pair.better)
    objective = objective_of(model, before, pairs)
    assert float(objective.detach()) == pytest.approx(expected, rel=1e-4)
    long = Preference((3,) * 40, (5,) * 60, (6,) * 10)
    cut = Preference((3,) * 40, (5,) * 24, (6,) * 10)
    model, before = built(0), built(1)
    ours, theirs = (objective_of(model, before, [pair]) for pair in (long, cut))
    assert float(ours.detach()) == pytest.approx(float(theirs.detach()))


def test_every_pair_has_its_turn_and_processes_share_a_step():
    pairs = [Preference((3,), (i,), (i, i)) for i in range(40)]
    drawn = [pair for step in range(5) for pair in pairs_of_step(pairs, step, seed=1)]
    assert len(drawn) == 5 * PAIRS == 80
    assert set(Counter(drawn).values()) == {2}
    assert len(set(drawn[:40])) == len(set(drawn[40:])) == 40
    assert drawn[:40] != drawn[40:] != pairs
    assert pairs_of_step(pairs, 3, seed=1) == drawn[48:64]
    assert pairs_of_step(pairs, 3, seed=2) != drawn[48:64]
    shares = [pairs_of_step(pairs, 3, seed=1, share=(i, 3)) for i in range(3)]
    together = [pair for share in shares for pair in share]
    assert sorted(together, key=drawn[48:64].index) == drawn[48:64]
    assert [len(share) for share in shares] == [6, 5, 5]


ROWS = [Example((), (a, b, a, b, a, b)) for a in range(3, 16) for b in range(3, 16)]
LIKED = [Preference((a, b), (3, 4, 5), (6, 7, 8)) for a in range(3, 16) for b in range(3, 8)]
PACE = {"epochs": 2, "max_tokens": 200, "warmup": 5, "learning_rate": 3e-3}
SETTINGS = TrainingConfig(**PACE, average=1, precision="float32", save_seconds=1e-9)


def run(model: DecoderOnly, folder: Path, weight: float) -> Trainer:
    """A training of `ROWS`, not begun yet, that prefers as `LIKED` does."""
    objectives: list[Objective] = [Likelihood()]
    if weight:
        objectives.append(DirectPreference(weight=weight).learn_from(LIKED))
    return Trainer(model, Material(ROWS), SETTINGS, folder, objectives)


def leaning(model: DecoderOnly) -> float:
    """By how many nats the better texts are likelier than the worse."""
    of = [
        log_p(model.eval(), p.given, p.better) - log_p(model, p.given, p.worse) for p in LIKED[::7]
    ]
    return sum(of) / len(of)


def test_training_makes_the_preferred_text_likelier_also_when_resumed(tmp_path):
    model = built(0)
    before = leaning(model)
    run(model, tmp_path, 2.0).run()
    assert leaning(model) > before + 3
    plain = built(0)
    run(plain, tmp_path / "plain", 0.0).run()
    assert abs(leaning(plain) - before) < 1
    whole = built(0)
    run(whole, tmp_path / "whole", 2.0).run()
    for stop_at in (4, 9, 10_000):
        model = built(0)
        trainer = run(model, tmp_path / "parts", 2.0)
        trainer.run(stop=lambda at=stop_at, one=trainer: one.progress.step >= at)
    for name, parameter in whole.named_parameters():
        torch.testing.assert_close(dict(model.named_parameters())[name], parameter)


@pytest.mark.parametrize(
    ("objective", "named"),
    [
        (Unlikelihood(weight=1.0), r"unlikelihood is 1\.0"),
        (DirectPreference(weight=2.0).learn_from(LIKED), r"preference is 2\.0"),
    ],
)
def test_it_is_refused_where_it_cannot_be(tmp_path, objective, named):
    pairs = build_model(dataclasses.replace(CONFIG, family="encoder-decoder"))
    both = [Likelihood(), objective]
    with pytest.raises(ValueError, match=f"{named}: it is for decoder-only"):
        Trainer(pairs, Material([]), SETTINGS, tmp_path, both)
    both[0] = WrongMasks(masks="inverted")
    with pytest.raises(ValueError, match=f"{named}: .* right masks, not 'inv"):
        Trainer(built(0), Material(ROWS), SETTINGS, tmp_path, both)
    none = [Likelihood(), DirectPreference(weight=2.0)]
    with pytest.raises(ValueError, match=r"preference is 2\.0, with 0 pairs"):
        Trainer(built(0), Material(ROWS), SETTINGS, tmp_path, none)


TEXTS = ["one red cat sat there", "two dogs ran home and slept"]


@pytest.fixture(scope="module")
def letters() -> Tokenizer:
    """Pieces of one letter: a text of n letters is n tokens or some more."""
    return train_tokenizer(TEXTS * 20, 26)


def test_the_text_that_keeps_sense_longer_is_the_better_one(letters):
    begin = "two dogs"
    given = len(letters.encode(begin))
    assert letters.encode(TEXTS[1])[:given] == letters.encode(begin)

    def ids(text: str) -> tuple[int, ...]:
        whole = letters.encode(begin + text)
        assert whole[:given] == letters.encode(begin)
        return tuple(whole[given:])

    long, short, shorter = " ran home and there sat one cat", " ran there and", " ran"
    assert len(ids(long)) >= len(ids(short)) + LEAD
    assert len(ids(shorter)) < len(ids(short)) < len(ids(shorter)) + LEAD
    judged = [
        Judged(1, given, short, " dogs"),
        Judged(1, given, long, " red"),
        Judged(1, given, long[:-1], ""),  # keeps sense to its end: the worse one of nothing
        Judged(1, given, " sat", ""),  # short, but nothing breaks it: the worse one of nothing
        Judged(1, given, shorter, " ran"),  # not clearly longer or shorter than the first
        Judged(0, len(letters.encode("one red")), "", " dogs"),  # another story
    ]
    found = preferences_of(judged, TEXTS, letters)
    start = tuple(letters.encode(begin))
    red = tuple(letters.encode("one red"))
    assert (
        set(found)
        == {
            Preference(start, ids(better), ids(worse))
            for better in (long, long[:-1])
            for worse in (short + " dogs", shorter + " ran")
        }
        | {  # and the stories themselves
            Preference(start, ids(" ran home and slept"), ids(shorter + " ran")),
            Preference(
                red,
                tuple(letters.encode(TEXTS[0])[len(red) :]),
                tuple(letters.encode("one red dogs")[len(red) :]),
            ),
        }
    )
    assert len(found) == 6


@pytest.mark.parametrize("one", [Judged(2, 3, " so", ""), Judged(0, 99, " so", "")])
def test_judgements_of_another_text_are_refused(letters, one):
    with pytest.raises(ValueError, match="it must be the text that was judged"):
        preferences_of([one], TEXTS, letters)


def test_judgements_are_read_by_name_or_from_a_file(tmp_path):
    file = tmp_path / "mine.jsonl"
    one = Judged(3, 8, " It was a dög.", ' "No."')
    file.write_text(json.dumps(dataclasses.asdict(one)) + "\n", encoding="utf-8")
    assert read_judged(str(file)) == [one]
    compressed = tmp_path / "mine.jsonl.gz"
    compressed.write_bytes(gzip.compress(file.read_bytes()))
    assert read_judged(str(compressed)) == [one]
    assert "stories" in judged_names()
    for name in judged_names():
        judged = read_judged(name)
        assert all(one.kept or one.broken for one in judged)
        assert all(one.given >= 5 for one in judged)
    with pytest.raises(ValueError, match=r"no judgements 'none': .* or one of .*stories"):
        read_judged("none")
