"""The training loop: resumable after a kill at any moment, and reproducible from its seed.

The state needed to resume is in one file (`state.py`). Batches depend on seed and epoch only,
dropout on seed, step and process, so nothing else must be saved. The folder also contains one
snapshot per epoch, the best of which are averaged at the end, and the snapshots of chosen steps.

Under `torchrun` each process takes its share of every batch (torch's DDP sums the gradients); the
batches, and so the loss curve, are those of a single process.
"""

import json
import operator
import time
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from tqdm import tqdm

from models.fast import speed_up
from models.rows import Rows
from models.training.data import Batch, Material, batches, plan_batches
from models.training.objectives import Likelihood, Objective, check_objectives
from models.training.optimizers import autocast, make_optimizers
from models.training.saving import SNAPSHOTS, best_epochs, save_tensors, snapshot_name
from models.training.settings import TrainingConfig, learning_rate
from models.training.state import STATE, Progress, TrainingState
from models.transformer import Model

EPOCHS = "snapshots"  # the folder with one snapshot per epoch


class _ForwardPass(nn.Module):
    """`Model.read` as a forward pass, which is what DDP wraps."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, rows: Rows) -> Tensor:
        return self.model.read(rows)


class Trainer:
    """One training run in one folder; creating a `Trainer` on a used folder resumes the run."""

    def __init__(
        self,
        model: Model,
        material: Material,
        config: TrainingConfig,
        folder: Path,
        objectives: Sequence[Objective] = (Likelihood(),),
        score: Callable[[Model], dict[str, float]] | None = None,
        device: torch.device | None = None,
    ) -> None:
        """`score` returns metrics of the model after each epoch; "bleu", if present, selects the
        snapshots to average. `device` None: a GPU if available.

        Raises ValueError for objectives that are incompatible with each other, the model or the
        material, and if the folder contains a run with other settings.
        """
        check_objectives(objectives)
        usual = "cuda" if torch.cuda.is_available() else "cpu"
        self.device = torch.device(usual) if device is None else device
        self.model = model.to(self.device)
        speed_up(self.model)
        # Collecting them from all modules takes a tenth of a small model's step.
        self._parameters = list(self.model.parameters())
        self.material, self.config, self.objectives = material, config, objectives
        self.folder, self.score = folder, score
        self.state = TrainingState(
            self.model, make_optimizers(self.model, config), config, objectives
        )
        self.total_steps = sum(
            len(plan_batches(material.examples, config.max_tokens, config.seed, epoch))
            for epoch in range(config.epochs)
        )
        self.rank, self.n_processes = 0, 1
        if dist.is_initialized():
            self.rank, self.n_processes = dist.get_rank(), dist.get_world_size()
        for objective in objectives:
            objective.prepare(self)
        self._reader: nn.Module = _ForwardPass(self.model)
        if self.n_processes > 1:
            self._reader = nn.parallel.DistributedDataParallel(self._reader)
        (folder / EPOCHS).mkdir(parents=True, exist_ok=True)
        if (folder / STATE).is_file():
            self.state.resume(folder)
        self._wait_for_all()

    @property
    def progress(self) -> Progress:
        """The progress of the run."""
        return self.state.progress

    @property
    def step(self) -> int:
        """The number of completed steps."""
        return self.progress.step

    @property
    def share(self) -> tuple[int, int]:
        """(i, n): this is the i-th of n processes."""
        return self.rank, self.n_processes

    def logits(self, rows: Rows, model: Model | None = None) -> Tensor:
        """Float32 logits [batch, tgt, vocab] of the trained model, or of another `model`."""
        with autocast(self.config.precision, self.device):
            logits: Tensor = model.read(rows) if model else self._reader(rows)
        return logits.float()

    def run(self, stop: Callable[[], bool] = lambda: False) -> Progress:
        """Train to the end or until `stop()`; save after each epoch and every `save_seconds`."""
        progress = self.progress
        started = saved = time.monotonic()
        before = progress.seconds
        self._keep_snapshot()
        with tqdm(
            total=self.total_steps,
            initial=progress.step,
            unit="step",
            dynamic_ncols=True,
            disable=self.rank > 0,
        ) as bar:
            while progress.epoch < self.config.epochs:
                for batch in self._rest_of_epoch():
                    if stop():
                        self._save()
                        return progress
                    loss = self._step(batch.to(self.device))
                    self._keep_snapshot()
                    progress.seconds = before + time.monotonic() - started
                    bar.update()
                    bar.set_postfix(
                        epoch=progress.epoch + 1,
                        loss=f"{loss:.3f}",
                        tokens_per_s=f"{progress.n_labels / progress.epoch_seconds():.0f}",
                        refresh=False,
                    )
                    if time.monotonic() - saved > self.config.save_seconds:
                        self._save()
                        saved = time.monotonic()
                self._finish_epoch()
                if self.rank == 0:
                    tqdm.write(json.dumps(progress.curve[-1]))
        return progress

    def _rest_of_epoch(self) -> Iterator[Batch]:
        return batches(
            self.material.examples,
            self.model,
            self.config.max_tokens,
            self.config.seed,
            self.progress.epoch,
            skip=self.progress.batch,
            share=self.share,
        )

    def _step(self, batch: Batch) -> float:
        """One update; returns the mean loss per label."""
        shown = self.backward(batch)
        self.descend()
        if self.n_processes > 1:
            dist.all_reduce(shown)
        self.count(batch, shown.item())
        return shown.item() / batch.n_labels

    def rate(self) -> float:
        """The learning rate of the next step."""
        return learning_rate(self.step, self.total_steps, self.config)

    def clear_gradients(self) -> None:
        """Clear the previous step's gradients, since backward() accumulates."""
        for parameter in self._parameters:
            parameter.grad = None

    def backward(self, batch: Batch) -> Tensor:
        """Compute the gradients of one batch; return the curve's loss, summed over labels."""
        if not self.model.training:
            self.model.train()
        torch.manual_seed(hash((self.config.seed, self.step, self.rank)))  # for dropout
        self.clear_gradients()
        losses = [objective.loss(batch, self) for objective in self.objectives]
        minimised = reduce(operator.add, (loss.minimised for loss in losses))
        # DDP takes the mean of the processes' gradients; this makes it their sum.
        loss = minimised * (self.n_processes / batch.n_labels)
        loss.backward()  # type: ignore[no-untyped-call]
        return reduce(operator.add, (x.shown.detach() for x in losses if x.shown is not None))

    def descend(self) -> Tensor:
        """Clip the gradients and take one step; return their norm before clipping."""
        rate = self.rate()
        for optimizer in self.state.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
        norm = torch.nn.utils.clip_grad_norm_(self._parameters, self.config.clip)
        for optimizer in self.state.optimizers:
            optimizer.step()
        return norm

    def count(self, batch: Batch, shown: float) -> None:
        """Record a completed step; `shown` is its loss summed over labels."""
        progress = self.progress
        progress.step += 1
        progress.batch += 1
        progress.loss_sum += shown
        progress.n_labels += batch.n_labels

    def _finish_epoch(self) -> None:
        progress = self.progress
        row: dict[str, float | int] = {
            "epoch": progress.epoch + 1,
            "step": progress.step,
            "loss": round(progress.loss_sum / max(1, progress.n_labels), 4),
            "seconds": round(progress.epoch_seconds(), 1),
        }
        if self.rank == 0:
            for objective in self.objectives:
                row.update(objective.metrics(self))
            if self.score is not None:
                self.model.eval()
                row.update(self.score(self.model))
        progress.curve.append(row)
        progress.epoch += 1
        progress.batch, progress.loss_sum, progress.n_labels = 0, 0.0, 0
        if self.rank == 0:
            save_tensors(self._epoch_snapshot(progress.epoch), self.state.weights())
            self._save()
            # After saving, so that the snapshots of the saved state always exist.
            best = best_epochs(progress.curve, self.config.average)
            keep = {self._epoch_snapshot(epoch) for epoch in best}
            for path in (self.folder / EPOCHS).glob("*.safetensors"):
                if path not in keep:
                    path.unlink()
        self._wait_for_all()

    def _epoch_snapshot(self, epoch: int) -> Path:
        return self.folder / EPOCHS / f"epoch-{epoch:03d}.safetensors"

    def _keep_snapshot(self) -> None:
        """Save this step's weights in float16 if it is one of `config.snapshots`."""
        if self.step in self.config.snapshots and self.rank == 0:
            (self.folder / SNAPSHOTS).mkdir(exist_ok=True)
            kept = {name: tensor.half() for name, tensor in self.state.weights().items()}
            save_tensors(self.folder / SNAPSHOTS / snapshot_name(self.step), kept)

    def _save(self) -> None:
        if self.rank == 0:
            self.state.save(self.folder)

    def _wait_for_all(self) -> None:
        if self.n_processes > 1:
            dist.barrier()
