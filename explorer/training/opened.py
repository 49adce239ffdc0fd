"""One training step in detail: the batch, the loss of each token, the update of one weight.

The gradient of the chosen weight is computed twice: by autograd through the whole model, and
by the formula of its layer, from the layer's input and the gradient at its output. The optimiser's
step is given by AdamW's formula and by torch's result.
"""

import math
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from explorer.labels import str_tokens
from explorer.problems import InputProblem
from explorer.runs.passes import seeded
from explorer.sandbox.apart import Away, prefix
from explorer.training.faults import labels_of, outputs_of
from explorer.training.learning import SetupTrainer
from explorer.training.runs import TrainingRun
from explorer.training.setup import Setup, check
from explorer.training.tasks import corpus
from models.config import ModelConfig
from models.norms import Norm
from models.tokenizer import Tokenizer
from models.training.data import Batch
from models.transformer import build_model

MOST_ROWS = 6
"""Examples of the batch that are shown."""
EPS = 1e-9
"""The eps that AdamW adds to the root of the second moment (`models.training.optimizers`)."""


def untrained(
    setup: Setup, name: str, at: tuple[int, ...], away: Away | None = None
) -> TrainingRun:
    """The start of a training run: a fresh model on its task, and its first step, taken on a copy
    and opened at index `at` of parameter `name`.

    `away` is as for `corpus`. Raises InputProblem as `corpus` and `check`, and
    `training_no_room` without a temporary folder.
    """
    examples = corpus(setup, away)
    check(setup, *examples.sizes)
    try:
        folder = tempfile.TemporaryDirectory(prefix=prefix())
    except OSError as error:
        raise InputProblem("training_no_room") from error
    run = TrainingRun(0, setup, Path(folder.name))
    with folder, seeded(setup.seed), torch.inference_mode(False), torch.enable_grad():
        learner = SetupTrainer(setup, examples, run.folder)
        run.frames, run.scores, run.about = [learner.frame()], [learner.measure()], learner.about()
        fault: Any = setup.fault
        if fault and not setup.planted_from:
            learner.faults.add(fault)
        run.opened = opened(learner, name or learner.usual_weight, at)
    return run


def opened(learner: SetupTrainer, name: str, at: tuple[int, ...]) -> dict[str, Any]:
    """Take the next step of a training run; returns its details, for JSON.

    `at` is an index into the parameter `name`, clipped to its shape. Raises DivergedError as
    `SetupTrainer.take`.
    """
    parameters = dict(learner.model.named_parameters())
    name = name if name in parameters else next(iter(parameters))
    parameter = parameters[name]
    place = tuple(
        min(max(0, i), size - 1)
        for i, size in zip((*at, 0, 0)[: parameter.dim()], parameter.shape, strict=True)
    )
    batch = learner.next_batch()
    before = float(parameter.detach()[place])
    state = _moments(learner, parameter, place)
    grad_formula, losses = _by_formula(learner, batch, name, place)
    rate = learner.rate()
    kept = 0.0  # of earlier gradients, to which backward() adds
    if parameter.grad is not None and "no_zero_grad" in learner.faults:
        kept = float(parameter.grad[place])
    shown = float(learner.backward(batch))
    assert parameter.grad is not None
    grad = float(parameter.grad[place])
    norm = float(learner.descend())
    clipped = float(parameter.grad[place])
    learner.count(batch, shown)
    after = float(parameter.detach()[place])
    moments = _moments(learner, parameter, place)
    tokenizer, rows, labels = learner.corpus.tokenizer, batch.rows, labels_of(batch, learner.faults)
    n = min(MOST_ROWS, len(rows))
    return {
        "step": learner.step,
        "name": name,
        "at": list(place),
        "n_in_batch": len(rows),
        "n_labels": batch.n_labels,
        "source": _tokens(tokenizer.of("src"), rows.tokens("src")[:n], rows.valid("src")[:n]),
        "read": _tokens(tokenizer, rows.tgt[:n], rows.valid("tgt")[:n]),
        "labels": _tokens(tokenizer, labels[:n], batch.loss_mask[:n]),
        "losses": [
            row[mask].tolist() for row, mask in zip(losses[:n], batch.loss_mask[:n], strict=True)
        ],
        "loss": shown / batch.n_labels,
        "grad": grad,
        "formula": None if grad_formula is None else grad_formula + kept,
        "norm": norm,
        "clip": learner.config.clip,
        "clipped": clipped,
        "rate": rate,
        "moments_before": state,
        "moments_after": moments,
        "before": before,
        "after": after,
        "adamw": None if state is None else adamw(before, clipped, state, rate, learner),
    }


def adamw(
    weight: float,
    grad: float,
    moments: tuple[float, float, float],
    rate: float,
    learner: SetupTrainer,
) -> dict[str, float]:
    """AdamW by its formulas (Kingma & Ba 2015, algorithm 1; Loshchilov & Hutter 2019, 2)."""
    (first, second), (b1, b2) = moments[:2], learner.config.betas
    n = moments[2] + 1
    m, v = b1 * first + (1 - b1) * grad, b2 * second + (1 - b2) * grad**2
    m_hat, v_hat = m / (1 - b1**n), v / (1 - b2**n)
    kept = weight * (1 - rate * learner.config.weight_decay)
    step = rate * m_hat / (math.sqrt(v_hat) + EPS)
    return {"m": m, "v": v, "m_hat": m_hat, "v_hat": v_hat, "step": step, "after": kept - step}


def _moments(
    learner: SetupTrainer, parameter: nn.Parameter, place: tuple[int, ...]
) -> tuple[float, float, float] | None:
    """First and second moment of AdamW at one weight, and the steps so far; None under Muon."""
    for optimizer in learner.state.optimizers:
        state = optimizer.state.get(parameter, {})
        if "exp_avg_sq" in state:
            return (
                float(state["exp_avg"][place]),
                float(state["exp_avg_sq"][place]),
                float(state["step"]),
            )
    return None


def _tokens(tokenizer: Tokenizer, ids: Tensor, valid: Tensor) -> list[list[str]]:
    return [str_tokens(tokenizer, row[mask].tolist()) for row, mask in zip(ids, valid, strict=True)]


def _by_formula(
    learner: SetupTrainer, batch: Batch, name: str, place: tuple[int, ...]
) -> tuple[float | None, Tensor]:
    """The gradient of one weight by the formula of its layer; the loss of each token, in nats
    [batch, tgt].

    None if the layer has no formula here (learned positions, biases of T5).
    """
    config: ModelConfig = learner.model.config
    plain = build_model(config)
    plain.load_state_dict(learner.model.state_dict(), strict=False)
    plain.marks = learner.model.marks
    plain.train()
    uses: list[tuple[nn.Module, Tensor, Tensor]] = []
    target = plain.get_parameter(name)
    owners = [
        (module, which)
        for module in plain.modules()
        for which, own in module.named_parameters(recurse=False)
        if own is target
    ]

    def note(module: nn.Module, inputs: tuple[Tensor, ...], out: Tensor) -> None:
        out.retain_grad()
        uses.append((module, inputs[0].detach(), out))

    handles = [module.register_forward_hook(note) for module, _ in owners]
    torch.manual_seed(hash((learner.config.seed, learner.step, learner.rank)))
    logits = outputs_of(plain, batch.rows, learner.faults)
    for handle in handles:
        handle.remove()
    labels = labels_of(batch, learner.faults)
    e = learner.setup.smoothing
    logs = logits.log_softmax(-1)
    losses = -(1 - e) * logs.gather(-1, labels[..., None])[..., 0] - e * logs.mean(-1)
    ((losses * batch.loss_mask).sum() / batch.n_labels).backward()  # type: ignore[no-untyped-call]
    gradient = 0.0
    which = owners[0][1]
    for module, x, out in uses:
        if out.grad is None:
            continue
        part = _one_use(module, which, x, out.grad, place)
        if part is None:
            return None, losses.detach()
        gradient += part
    return (gradient if uses else None), losses.detach()


def _one_use(
    module: nn.Module, which: str, x: Tensor, delta: Tensor, place: tuple[int, ...]
) -> float | None:
    """The gradient of one use of a layer, from its input and the gradient at its output.

    A linear map W x + b: sum of delta_i x_j, and of delta_i. A norm with a gain g: sum of
    delta_i x̂_i. An embedding: sum of delta_j over the positions with token i.
    """
    if isinstance(module, nn.Embedding):
        return float(delta[x == place[0]][:, place[1]].sum())
    if which == "bias":
        return float(delta[..., place[0]].sum())
    if isinstance(module, nn.Linear):
        return float((delta[..., place[0]] * x[..., place[1]]).sum())
    if isinstance(module, Norm):
        x = module.centred(x)
        return float((delta[..., place[0]] * (x / module.scale(x))[..., place[0]]).sum())
    return None
