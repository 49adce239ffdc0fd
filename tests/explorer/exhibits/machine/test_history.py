"""The log of a training, read from a card, and the learning rate of its recipe."""

import numpy as np
import pytest

from explorer.analysis.card.words import card_words
from explorer.engine.jobs import walked
from explorer.exhibits.machine.history import Log, logs, moments, rates
from explorer.library import CHECKPOINTS, open_model
from explorer.runs.rerun import token_logprobs, written_tokens
from explorer.runs.trace import trace

CARD = """
    python -m models train --recipe twin-right --data x
| epoch | steps | loss | validation loss | BLEU, greedy |
| --: | --: | --: | --: | --: |
| 1 | 791 | 6.63 | 5.225 | 0.9 |
| 2 | 1,582 | 5.72 | 4.450 | 7.5 |

    python -m models train --recipe en-zh-long
| epoch | steps | loss | validation loss |
| --: | --: | --: | --: |
| 1 | 10 | 3.0 | 2.5 |
| 2 | 20 | 2.0 | 1.5 |
| 3 | 30 | 1.0 | 0.5 |

| epoch | steps | loss | validation loss |
| --: | --: | --: | --: |
| 1 | 10 | 3.0 | 2.5 |
| against its loops | 20 | 2.0 | 1.5 |
"""


def words_of(model: str) -> str:
    """The card of a shipped model, in English."""
    return card_words(CHECKPOINTS / model, "en").markdown


def test_tables_of_epochs_are_read_and_given_to_the_recipe_of_as_many() -> None:
    assert logs(CARD) == (
        Log(None, (791, 1582), (6.63, 5.72), (5.225, 4.45)),  # twin-right has 10 epochs
        Log("en-zh-long", (10, 20, 30), (3.0, 2.0, 1.0), (2.5, 1.5, 0.5)),
    )
    assert logs("no table") == ()
    assert logs(CARD.replace("5.225", "good").replace("| 3 | 30", "| 3 | many")) == ()


def test_the_shipped_logs_are_those_of_their_recipes() -> None:
    assert [(log.recipe, log.steps[-1]) for log in logs(words_of("en-zh"))] == [
        ("en-zh-short", 15_029),
        ("en-zh-long", 3_393),
        ("en-zh-numbers", 7_266),
    ]
    names = [log.recipe for log in logs(words_of("stories"))]
    assert names == [f"stories-{name}" for name in ("base", "words", "names", "again", "loops")]
    assert logs(words_of("zh-en"))[0].recipe == "zh-en-short"
    assert logs(words_of("twin-right")) == ()


def test_the_learning_rate_by_hand() -> None:
    """en-zh-short rises to 7e-4 over 1,200 steps and then falls with the inverse square root."""
    log = logs(words_of("en-zh"))[0]
    by_step = dict(zip(*rates(log), strict=True))
    assert by_step[0] == pytest.approx(7e-4 / 1200)
    assert by_step[1199] == pytest.approx(7e-4) == pytest.approx(max(by_step.values()))
    assert by_step[15_028] == pytest.approx(7e-4 * (1200 / 15_029) ** 0.5)
    assert rates(Log(None, (5,), (1.0,), (1.0,))) == ((), ())


def test_the_loss_at_kept_moments_falls_and_ends_near_the_model_s_own() -> None:
    loaded = open_model("twin-right")
    traced = trace(loaded, "I love you.")
    found = walked(moments(loaded, traced, open_model))
    assert found is not None
    assert found.steps[:3] == (0, 40, 100)
    assert found.losses[0] == pytest.approx(np.log(2000), abs=1.5)  # guessing among 2,000 words
    own = -float(token_logprobs(traced.logits, written_tokens(traced)).mean())
    assert found.losses[0] > found.losses[4] > found.losses[-1]
    assert found.losses[-1] == pytest.approx(own, abs=0.3)
    copied = open_model("copy")
    assert walked(moments(copied, trace(copied, "a b c"), open_model)) is None
