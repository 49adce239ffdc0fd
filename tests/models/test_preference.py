"""Training on which of its own continuations a reader prefers."""

import dataclasses
import json
import math
from collections import Counter
from pathlib import Path

import pytest
import torch

from models.tokenizer import Tokenizer
from models.training.data import Example
from models.training.loop import Trainer
from models.training.loss import preference_loss
from models.training.preference import (
    JUDGED,
    LEAD,
    LIKELIHOOD,
    PAIRS,
    Judged,
    Preference,
    pairs_of_step,
    preference_objective,
    preferences_of,
    read_judged,
)
from models.training.settings import TrainingConfig
from models.transformer import DecoderOnly, build_model
from tests.models.test_repetition import BOS
from tests.models.test_repetition import CONFIG as PLAIN

CONFIG = dataclasses.replace(PLAIN, dropout=0.3)
TEXTS = ["one red cat sat there", "two dogs ran home and slept"]


def built(seed: int) -> DecoderOnly:
    torch.manual_seed(seed)
    model = build_model(CONFIG)
    assert isinstance(model, DecoderOnly)
    return model.eval()


@torch.no_grad()
def log_p(model: DecoderOnly, given: tuple[int, ...], written: tuple[int, ...]) -> float:
    """Of what is written after what is given, token by token."""
    total = 0.0
    for i, token in enumerate(written):
        before = torch.tensor([[BOS, *given, *written[:i]]])
        total += float(model(before, torch.ones_like(before).bool())[0, -1].log_softmax(-1)[token])
    return total


def test_the_loss_is_that_of_the_paper() -> None:
    better, worse = torch.tensor([3.0, -1.0]), torch.tensor([1.0, 4.0])
    expected = sum(math.log(1 + math.exp(-0.1 * d)) for d in (2.0, -5.0))
    assert preference_loss(better, worse) == pytest.approx(expected)
    assert preference_loss(better, worse, beta=0.0) == pytest.approx(2 * math.log(2))


def test_the_objective_is_counted_from_where_the_model_stood() -> None:
    model, before = built(0), built(1)
    pairs = [
        Preference((3, 4), (5, 6, 7), (8,)),
        Preference((9,), (10, 11), (12, 13, 14, 15, 3)),
    ]
    expected = 0.0
    for pair in pairs:
        moved = [
            log_p(model, pair.given, text) - log_p(before, pair.given, text)
            for text in (pair.better, pair.worse)
        ]
        expected += math.log(1 + math.exp(-0.1 * (moved[0] - moved[1])))
        expected -= LIKELIHOOD * log_p(model, pair.given, pair.better) / len(pair.better)
    objective = preference_objective(model, before, pairs)
    assert float(objective.detach()) == pytest.approx(expected, rel=1e-4)
    objective.backward()
    assert all(parameter.grad is None for parameter in before.parameters())
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_what_is_longer_than_the_model_reads_is_cut() -> None:
    long = Preference((3,) * 40, (5,) * 60, (6,) * 10)
    cut = Preference((3,) * 40, (5,) * 24, (6,) * 10)
    model, before = built(0), built(1)
    ours, theirs = (preference_objective(model, before, [pair]) for pair in (long, cut))
    assert float(ours.detach()) == pytest.approx(float(theirs.detach()))


@pytest.fixture(scope="module")
def letters() -> Tokenizer:
    """Pieces of one letter: a text of n letters is n tokens or some more."""
    return Tokenizer.train(TEXTS * 20, 26)


def test_the_text_that_keeps_sense_longer_is_the_better_one(letters: Tokenizer) -> None:
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


def test_a_text_that_goes_on_in_other_pieces_is_left_out() -> None:
    whole = Tokenizer.train(["cat cat cat cats"], 19)  # "cat" is one piece, and "ca" another
    assert len(whole.encode("cat")) < len(whole.encode("ca")) + len(whole.encode("t"))
    judged = [
        Judged(0, len(whole.encode("ca")), "t" + " cat" * LEAD, " a"),
        Judged(0, len(whole.encode("ca")), " cat" * (2 * LEAD), " a"),
        Judged(0, len(whole.encode("ca")), "", " a"),
    ]
    found = preferences_of(judged, ["ca"], whole)
    assert [whole.decode(pair.better) for pair in found] == ["cat " * (2 * LEAD - 1) + "cat"]


def test_the_story_itself_goes_on_to_the_end_of_a_sentence() -> None:
    text = "a cat. a dog! a fox and a cat? a"
    one = Tokenizer.train([text] * 20, 30)
    given, ids = len(one.encode("a cat.")), one.encode(text)

    def better(worse: str) -> str:
        (pair,) = preferences_of([Judged(0, given, "", worse)], [text], one)
        assert [*pair.given] == ids[:given]
        return one.decode(pair.better)

    assert better(" a") == "a dog!"
    assert better(" a dog! a dog!") == "a dog! a fox and a cat?"
    assert better(" a dog!" * 9) == "a dog! a fox and a cat? a"  # it has no more
    whole = Judged(0, len(ids), "", " a dog!")
    assert preferences_of([whole], [text], one) == []  # and here nothing at all


@pytest.mark.parametrize("one", [Judged(2, 3, " so", ""), Judged(0, 99, " so", "")])
def test_judgements_of_another_text_are_refused(letters: Tokenizer, one: Judged) -> None:
    with pytest.raises(ValueError, match="it must be the text that was judged"):
        preferences_of([one], TEXTS, letters)


def test_every_pair_has_its_turn_and_processes_share_a_step() -> None:
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
SETTINGS = TrainingConfig(
    epochs=2,
    max_tokens=200,
    warmup=5,
    learning_rate=3e-3,
    average=1,
    preference=2.0,
    precision="float32",
    save_seconds=1e-9,
)


def leaning(model: DecoderOnly) -> float:
    """By how many nats the better texts are likelier than the worse."""
    of = [
        log_p(model.eval(), p.given, p.better) - log_p(model, p.given, p.worse) for p in LIKED[::7]
    ]
    return sum(of) / len(of)


def test_training_makes_the_preferred_text_the_likelier_one(tmp_path: Path) -> None:
    model = built(0)
    before = leaning(model)
    Trainer(model, ROWS, [], SETTINGS, tmp_path, preferences=LIKED).run()
    assert leaning(model) > before + 3
    plain = built(0)
    settings = dataclasses.replace(SETTINGS, preference=0.0)
    Trainer(plain, ROWS, [], settings, tmp_path / "plain").run()
    assert abs(leaning(plain) - before) < 1


def test_a_resumed_run_prefers_from_the_same_beginning(tmp_path: Path) -> None:
    whole = built(0)
    Trainer(whole, ROWS, [], SETTINGS, tmp_path / "whole", preferences=LIKED).run()
    for stop_at in (4, 9, 10_000):
        model = built(0)
        trainer = Trainer(model, ROWS, [], SETTINGS, tmp_path / "parts", preferences=LIKED)
        trainer.run(stop=lambda at=stop_at, one=trainer: one.progress.step >= at)
    for name, parameter in whole.named_parameters():
        torch.testing.assert_close(dict(model.named_parameters())[name], parameter)


def test_what_was_before_stays_and_dropout_has_no_say(tmp_path: Path) -> None:
    for at_step in (5, 12):  # the second one resumes what the first one stopped
        trainer = Trainer(built(0), ROWS, [], SETTINGS, tmp_path, preferences=LIKED)
        trainer.run(stop=lambda one=trainer, at=at_step: one.progress.step >= at)
        before = trainer._before
        assert isinstance(before, DecoderOnly)
        for name, parameter in built(0).named_parameters():
            assert torch.equal(before.get_parameter(name), parameter)
    trainer.model.train()
    pairs = pairs_of_step(LIKED, trainer.progress.step, SETTINGS.seed)
    said = trainer._preferred().detach()
    assert trainer.model.training  # as the rest of a step wants it
    assert isinstance(trainer.model, DecoderOnly)
    expected = preference_objective(trainer.model.eval(), before, pairs).detach()
    torch.testing.assert_close(said, expected)


def test_a_process_without_pairs_adds_nothing(tmp_path: Path) -> None:
    trainer = Trainer(built(0), ROWS, [], SETTINGS, tmp_path, preferences=LIKED)
    trainer.rank, trainer.n_processes = PAIRS, PAIRS + 1
    assert float(trainer._preferred()) == 0


def test_it_is_refused_where_it_cannot_be(tmp_path: Path) -> None:
    pairs = build_model(dataclasses.replace(CONFIG, family="encoder-decoder"))
    with pytest.raises(ValueError, match=r"preference is 2\.0: it is for decoder-only"):
        Trainer(pairs, [], [], SETTINGS, tmp_path, preferences=LIKED)
    with pytest.raises(ValueError, match=r"preference is 2\.0, with 0 pairs"):
        Trainer(built(0), ROWS, [], SETTINGS, tmp_path)
    without = dataclasses.replace(SETTINGS, preference=0.0)
    with pytest.raises(ValueError, match=r"preference is 0\.0, with 65 pairs"):
        Trainer(built(0), ROWS, [], without, tmp_path, preferences=LIKED)
    with pytest.raises(ValueError, match="preference is -1: it must be at least 0"):
        TrainingConfig(preference=-1)
    with pytest.raises(ValueError, match="under the right masks, not 'inverted' ones"):
        TrainingConfig(preference=1, masks="inverted")


def test_judgements_are_read_by_name_or_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    one = Judged(3, 8, " It was a dög.", ' "No."')
    file.write_text(json.dumps(dataclasses.asdict(one)) + "\n", encoding="utf-8")
    assert read_judged(str(file)) == [one]
    names = [path.stem for path in JUDGED.glob("*.jsonl")]
    assert names
    for name in names:
        judged = read_judged(name)
        assert all(one.kept or one.broken for one in judged)
        assert all(one.given >= 5 for one in judged)
    with pytest.raises(ValueError, match="no judgements 'none': it must be a file, or one of"):
        read_judged("none")
