"""Training that can be watched: single steps, measurements in between, and rewinding.

It uses the library's own loop (`models.training.loop`), step by step.
"""

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from safetensors import safe_open
from safetensors.torch import save_file
from torch.nn.utils import get_total_norm

from explorer.analysis.score.initial import fresh_model
from explorer.labels import str_tokens
from explorer.runs.run import run
from explorer.training.faults import HOTTER, FaultyLikelihood, labels_of, masks_of, outputs_of
from explorer.training.runs import MORE_PADS, Validation, WatchedHeads
from explorer.training.setup import Fault, Setup
from explorer.training.tasks import TaskExamples
from models.decoding import best, decode
from models.rows import Rows, padded
from models.strategies import Greedy
from models.training.data import Batch, Example, Material, batches, collate, encode_pairs, labelled
from models.training.faults import edits_of, masked_as
from models.training.loop import Trainer
from models.training.loss import sequence_loss
from models.training.optimizers import optimizer_state
from models.training.state import Progress
from models.transformer import Model

FRAME_EVERY = 10
"""Steps between two frames of the heads."""
MEASURE_EVERY = 50
"""Steps between two measurements on the validation set."""
SOME = 16
"""Examples that are read a second time, with additional PADs."""
MOST_SNAPSHOTS = 16
"""Saved states for rewinding, each with the optimiser's moments."""


class DivergedError(Exception):
    """The loss is not finite, and no step was taken; or the gradient is not, and neither are the
    weights that the step left."""


class SetupTrainer(Trainer):
    """One training run of a setup, in a folder for its saved states."""

    def __init__(self, setup: Setup, corpus: TaskExamples, folder: Path) -> None:
        self.setup, self.corpus = setup, corpus
        model = fresh_model(setup.config(*corpus.sizes), setup.init, setup.seed)
        model.train().requires_grad_(True)
        model.marks = corpus.tokenizer.marks
        self.likelihood = FaultyLikelihood(label_smoothing=setup.smoothing)
        material = Material(corpus.examples, corpus.valid)
        # Always on the CPU: a GPU is slower for such a small model, and would have to be shared.
        cpu = torch.device("cpu")
        super().__init__(model, material, setup.training(), folder, (self.likelihood,), device=cpu)
        self.total_steps = setup.steps
        self.faults: set[Fault] = self.likelihood.planted
        self.watched = encode_pairs([corpus.shown], corpus.tokenizer, model.config.n_ctx)[0]
        self.shown = collate([self.watched], model)
        self._batches: Iterator[Batch] = iter(())
        # Needed for every frame: looking them up takes longer than the frame itself.
        self._patterns = [site.hook("pattern") for site in model.attention_sites()]
        self.blocks = [
            (site.path("blocks", layer), site.role, layer)
            for site in model.stacks()
            for layer in range(site.n_layers)
        ]
        self._of_blocks = [
            list(model.get_submodule(path).parameters()) for path, _, _ in self.blocks
        ]

    @property
    def usual_weight(self) -> str:
        """The parameter that an opened step shows by default."""
        return self.model.attention_sites()[-1].name + ".w_q.weight"

    def about(self) -> dict[str, Any]:
        """Information for those who watch: sizes, the watched example, sites and weights."""
        rows, tokenizer = self.shown.rows, self.corpus.tokenizer
        return {
            "parameters": sum(parameter.numel() for parameter in self.model.parameters()),
            "vocab": self.model.config.vocab_size,
            "n_rows": len(self.corpus.rows),
            "by_heart": self.corpus.by_heart,
            "too_long": self.corpus.too_long,
            "shown": list(self.corpus.shown),
            "tokens": {
                stream: str_tokens(tokenizer.of(stream), rows.tokens(stream)[0].tolist())
                for stream in self.model.reads
            },
            "sites": [
                {
                    "role": site.role,
                    "layer": site.layer,
                    "streams": [site.query_stream, site.key_stream],
                }
                for site in self.model.attention_sites()
            ],
            "blocks": [[role, layer] for _, role, layer in self.blocks],
            "weights": {
                name: list(parameter.shape) for name, parameter in self.model.named_parameters()
            },
        }

    def rate(self) -> float:
        return super().rate() * (HOTTER if "rate_high" in self.faults else 1)

    def clear_gradients(self) -> None:
        if "no_zero_grad" not in self.faults:
            super().clear_gradients()

    def backward(self, batch: Batch) -> torch.Tensor:
        return _finite(super().backward(batch), "loss")

    def descend(self) -> torch.Tensor:
        return _finite(super().descend(), "gradient")

    def next_batch(self) -> Batch:
        """The batch of the next step; starts the next epoch after the last batch."""
        while True:
            for batch in self._batches:
                return batch
            if self.progress.batch:
                self.progress.epoch, self.progress.batch = self.progress.epoch + 1, 0
            self._batches = self._rest_of_epoch()

    def take(self, batch: Batch) -> tuple[float, float]:
        """Take one step; its mean loss per label in nats, and the gradient's norm before clipping.

        Raises DivergedError if the loss or the gradient is not finite.
        """
        shown = float(self.backward(batch))
        norm = float(self.descend())
        self.count(batch, shown)
        return shown / batch.n_labels, norm

    def frame(self) -> WatchedHeads:
        """The heads on the watched example, and the gradient norms of the last step, by block."""
        rows = self.shown.rows
        edits = edits_of(masks_of(self.faults), self.model, rows.tgt_valid)
        if self.setup.dropout:  # without dropout, both modes compute the same
            self.model.eval()
        activations = run(self.model, rows, self._patterns, edits)
        if self.setup.dropout:
            self.model.train()
        patterns = tuple(activations[name][0].numpy() for name in self._patterns)
        gradients = (
            [tensor.grad for tensor in of if tensor.grad is not None] for of in self._of_blocks
        )
        norms = tuple(float(get_total_norm(tensor)) for tensor in gradients)
        return WatchedHeads(self.step, patterns, tuple(map(mean_entropy, patterns)), norms)

    @torch.no_grad()
    def measure(self) -> Validation:
        """Performance on the validation set. Non-finite outputs count as wrong."""
        self.model.eval()
        total, right, count = 0.0, 0, 0
        for batch in batches(self.material.valid, self.model, 2048, seed=0, epoch=0):
            labels = labels_of(batch, self.faults)
            logits = outputs_of(self.model, batch.rows, self.faults)
            total += float(sequence_loss(logits, labels, batch.loss_mask))
            right += int(((logits.argmax(-1) == labels) & batch.loss_mask).sum())
            count += batch.n_labels
        change = self._forced_loss(MORE_PADS) - self._forced_loss(0)
        with masked_as(masks_of(self.faults), self.model):
            shown, *answers = write(self.model, [self.watched, *self.material.valid])
        self.model.train()
        wanted = self._answers(self.material.valid)
        return Validation(
            self.step,
            total / count,
            right / count,
            share_right(answers, wanted),
            float(np.mean([one == other for one, other in zip(answers, wanted, strict=True)])),
            self.corpus.tokenizer.decode(shown),
            change,
        )

    def _answers(self, examples: Sequence[Example]) -> list[list[int]]:
        return [labelled(example, self.model)[1] for example in examples]

    def _forced_loss(self, pads: int) -> float:
        """The teacher-forced loss on the first validation examples, with `pads` PADs added."""
        some = self.material.valid[:SOME]
        marks, room = self.model.marks, self.model.config.n_ctx
        inputs, labels, _ = zip(*(labelled(example, self.model) for example in some), strict=True)
        sources = [self.model.with_marks("src", example.src) for example in some]
        pads = min(pads, room - max(map(len, (*inputs, *sources))))
        rows = Rows.of(inputs, sources, marks, right=pads)
        wanted, real = padded(labels, marks.pad, right=pads)
        logits = outputs_of(self.model, rows, self.faults)
        return float(sequence_loss(logits, wanted, real)) / int(real.sum())

    # Rewinding.

    def snapshot_path(self, step: int) -> Path:
        """The file of a saved step."""
        return self.folder / f"at-{step:06d}.safetensors"

    def snapshot(self) -> Path | None:
        """Save this step, with the optimiser's moments; None if a weight is not finite."""
        weights = self.state.weights()
        if not all(bool(tensor.isfinite().all()) for tensor in weights.values()):
            return None
        tensors = {f"weights/{name}": tensor for name, tensor in weights.items()}
        tensors |= optimizer_state(self.model, self.state.optimizers)
        progress = {name: getattr(self.progress, name) for name in ("step", "epoch", "batch")}
        path = self.snapshot_path(self.step)
        part = path.with_suffix(".part")
        save_file(
            {name: tensor.contiguous() for name, tensor in tensors.items()},
            part,
            metadata={"progress": json.dumps(progress)},
        )
        part.replace(path)
        return path

    def drop_one(self) -> int | None:
        """Delete one saved step if there are more than MOST_SNAPSHOTS; returns it, else None.

        The one whose neighbours are nearest to each other; never the first or the newest.
        """
        steps = sorted(int(path.stem[3:]) for path in self.folder.glob("at-*.safetensors"))
        if len(steps) <= MOST_SNAPSHOTS:
            return None
        inner = [at for at in range(1, len(steps) - 1) if steps[at] != self.step]
        at = min(inner, key=lambda each: steps[each + 1] - steps[each - 1])
        self.snapshot_path(steps[at]).unlink()
        return steps[at]

    def back_to(self, step: int) -> None:
        """Restore weights, moments and the place in the data after `step` steps.

        Raises OSError or SafetensorError if that step was not saved.
        """
        with safe_open(self.snapshot_path(step), framework="pt") as file:
            progress = json.loads(file.metadata()["progress"])
            with torch.no_grad():
                for name, parameter in self.model.named_parameters():
                    parameter.copy_(file.get_tensor(f"weights/{name}"))
                for name, tensor in optimizer_state(self.model, self.state.optimizers).items():
                    tensor.copy_(file.get_tensor(name))
        self.state.progress = Progress(**progress)
        super().clear_gradients()
        self._batches = iter(self._rest_of_epoch())
        for path in self.folder.glob("at-*.safetensors"):
            if path > self.snapshot_path(step):
                path.unlink()


def _finite(value: torch.Tensor, what: str) -> torch.Tensor:
    if not value.isfinite():
        raise DivergedError(what)
    return value


def snapshot_steps(total: int) -> frozenset[int]:
    """The steps that are saved automatically in a run of `total` steps: evenly, ends included."""
    every = max(1, math.ceil(total / (MOST_SNAPSHOTS - 4)))
    return frozenset({*range(0, total, every), total})


def mean_entropy(patterns: Float[np.ndarray, "head query key"]) -> float:
    """The mean entropy of all rows of a site's heads, in bits."""
    bits = -(patterns * np.log2(np.where(patterns > 0, patterns, 1))).sum(-1)
    return float(bits.mean())


def write(model: Model, examples: Sequence[Example]) -> list[list[int]]:
    """The model's greedy free-running output for each example, including an end token if generated.

    At most as many tokens as the longest correct answer has.
    """
    sources = [model.with_marks("src", item.src) for item in examples]
    longest = max(len(labelled(item, model)[1]) for item in examples)
    rows = Rows.of([(0,)] * len(sources), sources, model.marks)
    try:
        steps = decode(model, rows.tokens("src"), Greedy(), longest, src_valid=rows.src_valid)
        return [list(item.tokens) for item in best(steps)]
    except ValueError:  # non-finite probabilities
        return [[] for _ in examples]


def share_right(written: list[list[int]], wanted: list[list[int]]) -> float:
    """The share of expected tokens that occur at their position in the output."""
    right = sum(
        token == other
        for answer, row in zip(written, wanted, strict=True)
        for token, other in zip(answer, row, strict=False)
    )
    return right / sum(map(len, wanted))
