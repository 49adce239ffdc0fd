"""Training objectives, combined by recipes.

A recipe names its objectives as tables such as `[objectives.likelihood]`, whose fields are those of
the class (`OBJECTIVES`). Exactly one is the `main` objective: it learns from the batch itself, and
the training curve shows its loss. Others are added to it, each with its own weight.

Masked language modelling predicts masked words from the words on both sides. Devlin et al. 2018,
BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding, arXiv 1810.04805,
§3.1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool
from torch import Tensor

from models.marks import Marks
from models.rows import Rows
from models.training.data import Batch, Example, Material, batches
from models.training.loss import sequence_loss, teacher_forced
from models.training.settings import TrainingConfig
from models.transformer import Model

CHOSEN = 0.15  # share of a text's words to predict, at least one
MASKED, RANDOM = 0.8, 0.1  # shares of the chosen words replaced by [MASK] or a random token


@dataclass(frozen=True)
class MaskedScore:
    """Means over the chosen words: loss in nats and top-1 accuracy."""

    loss: float
    accuracy: float
    n_words: int


@torch.no_grad()
def fill_in(model: Model, examples: Sequence[Example], max_tokens: int) -> MaskedScore:
    """Loss and accuracy on masked words of `examples`, masked as in training with a fixed seed."""
    was_training = model.training
    model.eval()
    device = next(model.parameters()).device
    draw = torch.Generator().manual_seed(0)
    total, n_right, n_chosen = 0.0, 0, 0
    for batch in batches(examples, model, max_tokens, seed=0, epoch=0):
        rows, chosen = with_words_masked(
            batch.rows, batch.loss_mask, model.marks, model.config.vocab_size, draw
        )
        logits = model.read(rows.to(device))
        labels, chosen = batch.labels.to(device), chosen.to(device)
        total += float(sequence_loss(logits, labels, chosen))
        n_right += int(((logits.argmax(-1) == labels) & chosen).sum())
        n_chosen += int(chosen.sum())
    model.train(was_training)
    return MaskedScore(total / max(1, n_chosen), n_right / max(1, n_chosen), n_chosen)


def with_words_masked(
    rows: Rows,
    words: Bool[Tensor, "batch tgt"],
    marks: Marks,
    vocab_size: int,
    draw: torch.Generator | None = None,
) -> tuple[Rows, Bool[Tensor, "batch tgt"]]:
    """The model's input with words masked, and the positions to predict.

    In each row, 15 % of the positions at which `words` is True are chosen, at least one. 80 % of
    these become the mask token, 10 % a random ordinary token, and 10 % are unchanged. Random
    numbers are drawn on the CPU, from torch's global generator unless `draw` is given.
    """
    device = words.device
    n_chosen = (CHOSEN * words.sum(1)).round().clamp(min=1)
    order = torch.rand(words.shape, generator=draw).to(device).masked_fill(~words, 2.0)
    chosen = (order.argsort(dim=1).argsort(dim=1) < n_chosen[:, None]) & words
    kind = torch.rand(words.shape, generator=draw).to(device)
    plain = torch.tensor([token for token in range(vocab_size) if token not in marks])
    drawn = plain[torch.randint(len(plain), words.shape, generator=draw)].to(device)
    assert marks.mask is not None
    tokens = rows.tgt.masked_fill(chosen & (kind < MASKED), marks.mask)
    tokens = torch.where(chosen & (kind >= MASKED) & (kind < MASKED + RANDOM), drawn, tokens)
    return Rows(tokens, rows.tgt_valid), chosen


class Loss(NamedTuple):
    """An objective's loss in one step, summed over the labels of this process's part of the batch.

    The loop divides by the number of labels in the whole batch, so that the parts of several
    processes add up to the loss of a single process.
    """

    minimised: Tensor  # scalar, with a gradient
    shown: Tensor | None = None  # scalar for the training curve; None: not shown


@runtime_checkable
class Training(Protocol):
    """The part of a training run that objectives may use."""

    model: Model
    config: TrainingConfig
    material: Material
    objectives: "Sequence[Objective]"

    @property
    def step(self) -> int:
        """The number of completed steps."""
        ...

    @property
    def share(self) -> tuple[int, int]:
        """(i, n): this is the i-th of n processes."""
        ...

    def logits(self, rows: Rows, model: Model | None = None) -> Tensor:
        """Float32 logits [batch, tgt, vocab] of the trained model, or of another `model`.

        Computed in the precision of the training and through DDP, so that the gradients of all
        processes are summed.
        """
        ...


@runtime_checkable
class Objective(Protocol):
    """A term of the minimised loss. Its public fields are its settings in a recipe.

    An objective may store prepared state, so use one instance for one training run at a time.
    """

    name: ClassVar[str]  # of its table in a recipe
    main: ClassVar[bool] = False  # whether it learns from the batch: exactly one per training run

    def prepare(self, training: Training) -> None:
        """Called once, before the first step and before a stopped run is restored.

        `training.model` has the initial weights of the run. Raises ValueError if this objective is
        not valid for this training run.
        """
        return

    def loss(self, batch: Batch, training: Training) -> Loss:
        """The loss on one batch. The model is in training mode, and must be left in it.

        torch is seeded by (seed, step, process) before each step: if an objective takes randomness
        only from torch or from `training.step`, a resumed run is reproduced bit for bit.
        """
        ...

    def metrics(self, training: Training) -> dict[str, float]:
        """Metrics for the curve after an epoch, measured on `training.material.valid`."""
        return {}


def settings_of(objectives: Sequence[Objective]) -> dict[str, dict[str, Any]]:
    """These objectives as tables of a recipe: {"likelihood": {"label_smoothing": 0}}."""
    return {
        objective.name: {k: v for k, v in vars(objective).items() if not k.startswith("_")}
        for objective in objectives
    }


def check_objectives(objectives: Sequence[Objective]) -> None:
    """Raise ValueError unless exactly one objective is a main one."""
    mains = [objective.name for objective in objectives if objective.main]
    if len(mains) != 1:
        raise ValueError(
            f"{', '.join(mains) or 'no objective'} would learn from the batch: it must be exactly "
            "one (likelihood, unless another is named)"
        )


@dataclass(kw_only=True)
class Likelihood(Objective):
    """Maximum likelihood: cross-entropy with the label, smoothed (Szegedy et al. 2016, §7).

    Raises ValueError for a `label_smoothing` outside [0, 1).
    """

    label_smoothing: float = 0.1

    name: ClassVar[str] = "likelihood"
    main: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing is {self.label_smoothing}: it must be in [0, 1)")

    def prepare(self, training: Training) -> None:
        """Raises ValueError if the model does not predict the next token."""
        if not training.model.config.generates:
            raise ValueError(
                f"{self.name} is for models that predict the next token, not for "
                f"{training.model.config.family} ones: masked_words is"
            )

    def loss(self, batch: Batch, training: Training) -> Loss:
        """The cross-entropy of all labels that count, summed."""
        logits = training.logits(batch.rows)
        total = sequence_loss(logits, batch.labels, batch.loss_mask, self.label_smoothing)
        return Loss(total, shown=total)

    def metrics(self, training: Training) -> dict[str, float]:
        """`valid_loss` in nats per label, without smoothing; empty without a validation set."""
        valid = training.material.valid
        if not valid:
            return {}
        forced = teacher_forced(training.model, valid, training.config.max_tokens)
        return {"valid_loss": round(forced.loss, 4)}


@dataclass(kw_only=True)
class MaskedWords(Objective):
    """Choose 15 % of the words, mask most of them, and predict the originals.

    Each process samples for its own rows, so the curve depends on the number of processes.
    """

    name: ClassVar[str] = "masked_words"
    main: ClassVar[bool] = True

    def prepare(self, training: Training) -> None:
        """Raises ValueError if the model is not an encoder with an LM head and a mask token."""
        if not training.model.config.fills:
            raise ValueError(
                "masked_words is for encoder-only models, whose logits are about the token at the "
                "same position"
            )
        if training.model.marks.mask is None:
            raise ValueError("masked_words needs a tokenizer with a mask token")

    def loss(self, batch: Batch, training: Training) -> Loss:
        """The mean cross-entropy of the chosen words, times the words of this part of the batch.

        Divided by the number of words in the whole batch, it is a mean over the chosen words.
        """
        model = training.model
        rows, chosen = with_words_masked(
            batch.rows, batch.loss_mask, model.marks, model.config.vocab_size
        )
        total = sequence_loss(training.logits(rows), batch.labels, chosen)
        total = total * (batch.loss_mask.sum() / chosen.sum().clamp(min=1))
        return Loss(total, shown=total)

    def metrics(self, training: Training) -> dict[str, float]:
        """`valid_loss` in nats and `valid_accuracy` in percent, on masked validation words."""
        if not training.material.valid:
            return {}
        filled = fill_in(training.model, training.material.valid, training.config.max_tokens)
        return {
            "valid_loss": round(filled.loss, 4),
            "valid_accuracy": round(100 * filled.accuracy, 2),
        }


OBJECTIVES: dict[str, type[Objective]] = {cls.name: cls for cls in (Likelihood, MaskedWords)}
"""The objectives that a recipe can name; the folder `recipes/` of a clone adds its own."""


def make_objectives(tables: Mapping[str, Mapping[str, Any]]) -> tuple[Objective, ...]:
    """Build the objectives that these tables name, in order; `weight = 0` omits one.

    Without a main objective, `likelihood` is added. Raises ValueError for an unknown objective, an
    unknown field or an invalid value.
    """
    objectives: list[Objective] = []
    for name, values in tables.items():
        if name not in OBJECTIVES:
            known = ", ".join(OBJECTIVES)
            raise ValueError(f"no objective {name!r}: it must be one of {known}")
        if values.get("weight") == 0:
            continue
        cls: Any = OBJECTIVES[name]
        unknown = sorted(set(values) - {field.name for field in fields(cls) if field.init})
        if unknown:
            raise ValueError(f"[objectives.{name}] has unknown fields {', '.join(unknown)}")
        objectives.append(cls(**values))
    return tuple(
        objectives
        if any(objective.main for objective in objectives)
        else [Likelihood(), *objectives]
    )
