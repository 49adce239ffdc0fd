"""Direct preference optimization: make the preferred one of two continuations more likely.

Rafailov et al. 2023, arXiv 2305.18290, eq. 7; the reference is the model before this training. The
likelihood of the better continuation is maximised as well (Pang et al. 2024, Iterative Reasoning
Preference Optimization, arXiv 2404.19733, eq. 1).
"""

import copy
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from models.rows import Rows, padded
from models.training.data import Batch
from models.training.objectives import Loss, Training
from models.transformer import Model
from recipes.judging import Preference
from recipes.objectives import OfOwnText

LIKELIHOOD = 0.2  # weight of the better text's mean loss, relative to the preference loss
BETA = 0.1  # how strongly the model is tied to the reference
PAIRS = 16  # pairs per step, over all processes


@dataclass(kw_only=True)
class DirectPreference(OfOwnText):
    """Learn from preference pairs; `weight` weighs a pair relative to a label."""

    _pairs: Sequence[Preference] = field(default=(), init=False, repr=False, compare=False)
    _before: Model | None = field(default=None, init=False, repr=False, compare=False)

    name: ClassVar[str] = "preference"

    def learn_from(self, pairs: Sequence[Preference]) -> "DirectPreference":
        """This objective, with its pairs."""
        self._pairs = pairs
        return self

    def prepare(self, training: Training) -> None:
        """Copy the model as the reference.

        Raises ValueError if the model is not decoder-only, or if there are no preference pairs.
        """
        super().prepare(training)
        if not self._pairs:
            raise ValueError(
                f"preference is {self.weight}, with 0 pairs to prefer in: it must be above 0 where "
                "there are judged continuations (data.judged), else 0"
            )
        self._before = copy.deepcopy(training.model).eval()

    def loss(self, batch: Batch, training: Training) -> Loss:
        """The preference loss of this process's share of the step's pairs.

        Computed in eval mode, since dropout only adds noise to the likelihoods.
        """
        assert self._before is not None
        pairs = pairs_of_step(self._pairs, training.step, training.config.seed, training.share)
        if not pairs:  # more processes than pairs
            return Loss(torch.zeros((), device=batch.rows.tgt.device))
        both = batch_of(pairs, training.model).to(batch.rows.tgt.device)
        training.model.eval()
        with torch.no_grad():
            before = log_likelihoods(training.logits(both.rows, self._before), both)
        now = log_likelihoods(training.logits(both.rows), both)
        training.model.train()
        n_written = both.loss_mask.sum(1)
        objective = preference_objective(now, before, n_written)
        return Loss(self.weight * batch.n_labels / PAIRS * objective)


def pairs_of_step(
    pairs: Sequence[Preference], step: int, seed: int, share: tuple[int, int] = (0, 1)
) -> list[Preference]:
    """The `PAIRS` pairs of a step; over many steps all pairs occur equally often.

    They depend on step and seed only, so a resumed run uses the same ones. With `share` (i, n), the
    i-th of n processes gets its part.
    """
    part, n_parts = share
    places = range(step * PAIRS + part, (step + 1) * PAIRS, n_parts)
    orders: dict[int, list[int]] = {}
    for turn in {place // len(pairs) for place in places}:
        orders[turn] = list(range(len(pairs)))
        random.Random(f"{seed}/{turn}").shuffle(orders[turn])
    return [pairs[orders[place // len(pairs)][place % len(pairs)]] for place in places]


def batch_of(pairs: Sequence[Preference], model: Model) -> Batch:
    """The better texts of all pairs, then the worse ones, cut to the model's n_ctx.

    `loss_mask` is True at the tokens of the continuation.
    """
    texts = [(*pair.given, *pair.better) for pair in pairs]
    texts += [(*pair.given, *pair.worse) for pair in pairs]
    rows = [model.with_marks("tgt", text)[: model.config.n_ctx + 1] for text in texts]
    tokens, valid = padded(rows, model.marks.pad)
    n_given = torch.tensor([len(model.with_marks("tgt", pair.given)) for pair in pairs] * 2)
    written = valid[:, 1:] & (torch.arange(1, valid.shape[1]) >= n_given[:, None])
    return Batch(Rows(tokens[:, :-1], valid[:, :-1]), tokens[:, 1:], written, int(written.sum()))


def log_likelihoods(
    logits: Float[Tensor, "batch tgt vocab"], batch: Batch
) -> Float[Tensor, " batch"]:
    """Per row, the log-probability of the labels that count, in nats."""
    log_p = logits.float().log_softmax(-1)
    return (log_p.gather(-1, batch.labels[..., None])[..., 0] * batch.loss_mask).sum(1)


def preference_objective(
    now: Float[Tensor, " batch"], before: Float[Tensor, " batch"], n_written: Int[Tensor, " batch"]
) -> Float[Tensor, ""]:
    """The preference loss plus `LIKELIHOOD` times the better texts' mean loss, summed over pairs.

    Per row (the better texts, then the worse ones), `now` and `before` are the log-likelihoods
    under the trained and the reference model; `n_written` is the number of tokens summed over.
    """
    better, worse = (now - before).chunk(2)
    of_better = slice(0, len(better))
    mean_loss = -now[of_better] / n_written[of_better]
    return preference_loss(better, worse) + LIKELIHOOD * mean_loss.sum()


def preference_loss(
    better: Float[Tensor, " pair"], worse: Float[Tensor, " pair"]
) -> Float[Tensor, ""]:
    """Sum of -log sigmoid(BETA (better - worse)), where each is log p(text) - log p_before(text).

    Rafailov et al. 2023, eq. 7.
    """
    return -nn.functional.logsigmoid(BETA * (better - worse)).sum()
