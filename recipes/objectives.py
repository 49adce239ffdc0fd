"""Objectives of the shipped models' recipes, in addition to the library's."""

from dataclasses import dataclass, replace
from typing import ClassVar, get_args, no_type_check

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from models.rows import Rows, padded
from models.training.data import Batch
from models.training.faults import Masks, masked_as
from models.training.loss import sequence_loss, teacher_forced
from models.training.objectives import Likelihood, Loss, Objective, Training
from models.training.repetition import CONTINUATION, continued, repeated
from models.transformer import Model


def check_weight(name: str, weight: float) -> None:
    """Raise ValueError, naming the objective, if the weight is negative."""
    if weight < 0:
        raise ValueError(f"{name} is {weight}: it must be at least 0")


@dataclass(kw_only=True)
class OfOwnText(Objective):
    """An objective on a language model's own generated text, added with a weight.

    Raises ValueError for a negative weight.
    """

    weight: float = 1.0

    def __post_init__(self) -> None:
        check_weight(self.name, self.weight)

    def prepare(self, training: Training) -> None:
        """Raises ValueError unless the model is decoder-only."""
        config = training.model.config
        if config.reads_source or not config.is_causal:
            raise ValueError(
                f"{self.name} is {self.weight}: it is for decoder-only models, which continue a "
                "text"
            )


@dataclass(kw_only=True)
class RDrop(Likelihood):
    """Run the batch twice in one pass, with different dropout, and penalise disagreement.

    Liang et al. 2021, R-Drop: Regularized Dropout for Neural Networks, arXiv 2106.14448.
    The loss is the mean of both cross-entropies + weight / 2 * their disagreement: half of eq. 3 of
    the paper, so that learning rates are comparable to training without R-Drop. Raises ValueError
    for a negative weight.
    """

    weight: float = 5.0

    name: ClassVar[str] = "r_drop"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_weight(self.name, self.weight)

    def loss(self, batch: Batch, training: Training) -> Loss:
        """The R-Drop loss; the curve shows the mean cross-entropy of the two passes."""
        both = twice(batch)
        logits = training.logits(both.rows)
        total = sequence_loss(logits, both.labels, both.loss_mask, self.label_smoothing)
        one, other = logits.chunk(2)
        apart = disagreement(one, other, batch.loss_mask)
        return Loss(total / 2 + self.weight / 2 * apart, shown=total / 2)


def twice(batch: Batch) -> Batch:
    """The batch with all rows repeated after themselves; `n_labels` is unchanged."""
    return replace(
        batch,
        rows=batch.rows.select([*range(len(batch.rows))] * 2),
        labels=batch.labels.repeat(2, 1),
        loss_mask=batch.loss_mask.repeat(2, 1),
    )


def disagreement(
    one: Float[Tensor, "batch tgt vocab"],
    other: Float[Tensor, "batch tgt vocab"],
    loss_mask: Bool[Tensor, "batch tgt"],
) -> Float[Tensor, ""]:
    """(KL(p||q) + KL(q||p)) / 2 of two passes' predictions, summed where `loss_mask` is True.

    Eq. 2 of the paper; both directions together are sum (p - q) (log p - log q).
    """
    log_p, log_q = one[loss_mask].log_softmax(-1), other[loss_mask].log_softmax(-1)
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum() / 2


@dataclass(kw_only=True)
class Smudged(Likelihood):
    """`Likelihood` on pictures as a scanner may show them; `noise` in grey levels, at most."""

    label_smoothing: float = 0.0
    noise: float = 24.0

    name: ClassVar[str] = "smudged"

    def loss(self, batch: Batch, training: Training) -> Loss:
        """The cross-entropy of all labels, given each picture with its own contrast and noise."""
        src = smudged(batch.rows.tokens("src"), self.noise)
        return super().loss(replace(batch, rows=replace(batch.rows, src=src)), training)


def smudged(patches: Tensor, noise: float) -> Tensor:
    """Grey levels [batch, patch, pixel] times 0.5 to 1.1, plus a tint of 0 to 30 and noise."""
    each = torch.rand(3, len(patches), 1, 1, device=patches.device)
    changed = patches * (0.5 + 0.6 * each[0]) + 30 * each[1] * (each[1] - 0.5).relu()
    changed += torch.randn(patches.shape, device=patches.device) * (noise * each[2] ** 2)
    return changed.clamp(0, 255).to(patches.dtype)


@no_type_check  # the run-time type checker would report before __post_init__ can say why
@dataclass(kw_only=True)
class WrongMasks(Likelihood):
    """Likelihood with every pass under `masks`, for the twins that show what a mask is for.

    Raises ValueError for unknown masks.
    """

    masks: Masks = "inverted"

    name: ClassVar[str] = "wrong_masks"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.masks not in get_args(Masks):
            options = ", ".join(get_args(Masks))
            raise ValueError(f"masks is {self.masks!r}: it must be one of {options}")

    def prepare(self, training: Training) -> None:
        """Raises ValueError as `Likelihood` does, and if another objective generates text."""
        super().prepare(training)
        for other in training.objectives:
            if isinstance(other, OfOwnText):
                raise ValueError(
                    f"{other.name} is {other.weight}: a text is continued under the right masks, "
                    f"not {self.masks!r} ones"
                )

    def loss(self, batch: Batch, training: Training) -> Loss:
        """As `Likelihood`, under these masks."""
        with masked_as(self.masks, training.model, batch.rows.tgt_valid):
            return super().loss(batch, training)

    def metrics(self, training: Training) -> dict[str, float]:
        """`valid_loss` under these masks too."""
        valid = training.material.valid
        if not valid:
            return {}
        forced = teacher_forced(training.model, valid, training.config.max_tokens, self.masks)
        return {"valid_loss": round(forced.loss, 4)}


@dataclass(kw_only=True)
class Unlikelihood(OfOwnText):
    """Continue the beginnings of the batch's texts greedily and penalise repeated tokens.

    Welleck et al. 2020, Neural Text Generation with Unlikelihood Training, arXiv 1908.04319, §5.2.
    Trained by likelihood alone, a model assigns too much probability to repetitions, and greedy
    continuations fall into loops (measured by `models/training/repetition.py`).
    """

    name: ClassVar[str] = "unlikelihood"

    def loss(self, batch: Batch, training: Training) -> Loss:
        """The number of given tokens varies with the step and is equal in all processes."""
        n_given = 8 + training.step % 41  # 8 to 48, including the start token
        own = own_words(training.model, batch, n_given)
        logits = training.logits(own.rows)
        return Loss(self.weight * unlikelihood(logits, own.labels, own.loss_mask))


def own_words(model: Model, batch: Batch, n_given: int) -> Batch:
    """The beginnings of a batch's texts with the model's own continuations.

    `n_given` tokens of each text are given, or all of a shorter one, but at most half of n_ctx.
    `labels` are the model's own tokens, and `loss_mask` is True at repetitions. `n_labels` is that
    of `batch`, so that a sum over processes divided by it equals the result of a single process.
    """
    n_given = min(n_given, model.config.n_ctx // 2)
    beginnings = [
        tokens[valid][:n_given].tolist()
        for tokens, valid in zip(batch.rows.tgt, batch.rows.valid("tgt"), strict=True)
    ]
    rows = continued(model, beginnings, min(CONTINUATION, model.config.n_ctx - n_given))
    tokens, valid = padded(rows, model.marks.pad)
    flags = [repeated(row, len(given)) for row, given in zip(rows, beginnings, strict=True)]
    repeats: Bool[Tensor, "batch pos"] = padded(flags)[0].bool()
    counts = batch.loss_mask.any(dim=1, keepdim=True)  # False: a filler row of a process
    device = batch.rows.tgt.device
    labels: Int[Tensor, "batch pos"] = tokens[:, 1:]
    return Batch(
        Rows(tokens[:, :-1], valid[:, :-1]).to(device),
        labels.to(device),
        repeats[:, 1:].to(device) & counts,
        batch.n_labels,
    )


def unlikelihood(
    logits: Float[Tensor, "batch tgt vocab"],
    labels: Int[Tensor, "batch tgt"],
    loss_mask: Bool[Tensor, "batch tgt"],
) -> Float[Tensor, ""]:
    """Sum of -log(1 - p(label)) where `loss_mask` is True: eq. 4 of the paper.

    Probabilities are clamped to 1 - 1e-4, since the loss of 1 would be infinite.
    """
    log_p = logits[loss_mask].log_softmax(-1).gather(-1, labels[loss_mask][:, None])
    return -torch.log1p(-log_p.exp().clamp(max=1 - 1e-4)).sum()
