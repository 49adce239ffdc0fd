"""The training loop: resumable after a kill at any moment, and the same run again from its seed.

All that a run needs to go on stands in one file, `state.safetensors` (weights, the optimizers'
state and, as its metadata, step, epoch and scores), which is replaced as a whole. Batches depend on
seed and epoch only, dropout on seed, step and process, so nothing else has to be remembered. The
state's neighbours are the snapshots that are averaged at the end.

Under `torchrun` each process takes its share of every batch (torch's own DDP adds the gradients
up); the batches, and so the loss curve, are those of one process.
"""

import copy
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors import safe_open
from torch import Tensor, nn
from tqdm import tqdm

from models.checkpoint import MOMENTS, moment_name, save_tensors
from models.fast import speed_up
from models.training.averaging import best_epochs
from models.training.data import Batch, Example, batches, plan_batches
from models.training.faults import masked_as
from models.training.forcing import forward, teacher_forced
from models.training.loss import disagreement, sequence_loss, unlikelihood
from models.training.muon import Muon
from models.training.preference import PAIRS, Preference, pairs_of_step, preference_objective
from models.training.repetition import own_words
from models.training.settings import TrainingConfig, learning_rate
from models.transformer import DecoderOnly, Model

STATE, SNAPSHOTS = "state.safetensors", "snapshots"


@dataclass
class Progress:
    """Where a run stands, and its curve: one row per epoch."""

    step: int = 0
    epoch: int = 0
    batch: int = 0  # batches of this epoch already trained on
    seconds: float = 0.0
    loss_sum: float = 0.0  # of this epoch so far
    n_labels: int = 0
    curve: list[dict[str, float | int]] = field(default_factory=list)


def has_bfloat16(device: torch.device) -> bool:
    """True where this machine computes in bfloat16 natively, so that autocast is a gain."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported()
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def make_optimizers(model: Model, config: TrainingConfig) -> list[torch.optim.Optimizer]:
    """AdamW for all parameters; or, with `muon`, Muon for the blocks' matrices, AdamW for the rest.

    All state is there from the start, so that a state file always has the same tensors.
    """
    by_muon = [
        parameter
        for name, parameter in model.named_parameters()
        if config.optimizer == "muon" and "blocks." in name and parameter.dim() == 2
    ]
    ids = {id(parameter) for parameter in by_muon}
    rest = [parameter for parameter in model.parameters() if id(parameter) not in ids]
    adam = torch.optim.AdamW(
        rest,
        lr=config.learning_rate,
        betas=config.betas,
        eps=1e-9,
        weight_decay=config.weight_decay,
        fused=True,
    )
    for parameter in rest:
        adam.state[parameter] = {
            "step": torch.tensor(0.0),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }
    if not by_muon:
        return [adam]
    return [adam, Muon(by_muon, config.learning_rate, config.weight_decay)]


class Trainer:
    """One training run in one folder; making a `Trainer` on a used folder resumes it."""

    def __init__(
        self,
        model: Model,
        examples: list[Example],
        valid: list[Example],
        config: TrainingConfig,
        folder: Path,
        device: torch.device | None = None,
        score: Callable[[Model], dict[str, float]] | None = None,
        preferences: Sequence[Preference] = (),
    ) -> None:
        """`score` gives figures of the model after each epoch; "bleu", if there, picks snapshots.

        `preferences` are measured from where `model` stands now, also in a resumed run. Raises
        ValueError when the folder holds a run with other settings, for `unlikelihood` or
        `preference` with a model that continues no text, and for `preference` without any.
        """
        for name in ("unlikelihood", "preference"):
            if getattr(config, name) and not isinstance(model, DecoderOnly):
                raise ValueError(
                    f"{name} is {getattr(config, name)}: it is for decoder-only models, "
                    "which continue a text"
                )
        if bool(config.preference) != bool(preferences):
            raise ValueError(
                f"preference is {config.preference}, with {len(preferences)} pairs to prefer in: "
                "it must be above 0 where there are judged continuations (data.judged), else 0"
            )
        self.device = device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = model.to(self.device)
        speed_up(self.model)
        self.examples, self.valid = examples, valid
        self.preferences = preferences
        self._before = copy.deepcopy(self.model).eval() if preferences else None
        self.config, self.folder, self.score = config, folder, score
        self.progress = Progress()
        self.optimizers = make_optimizers(self.model, config)
        n_batches = [
            len(plan_batches(examples, config.max_tokens, config.seed, epoch))
            for epoch in range(config.epochs)
        ]
        self.total_steps = sum(n_batches)
        self.rank, self.n_processes = 0, 1
        self._wrapped: nn.Module = self.model
        if dist.is_initialized():
            self.rank, self.n_processes = dist.get_rank(), dist.get_world_size()
            self._wrapped = nn.parallel.DistributedDataParallel(self.model)
        (folder / SNAPSHOTS).mkdir(parents=True, exist_ok=True)
        if (folder / STATE).is_file():
            self._resume()
        self._wait_for_all()

    def run(self, stop: Callable[[], bool] = lambda: False) -> Progress:
        """Train to the end, or until `stop()`; save at the end of each epoch and now and then."""
        started = saved = time.monotonic()
        before = self.progress.seconds
        progress = self.progress
        self._keep_moment()
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
                    loss = self._step(batch)
                    self._keep_moment()
                    progress.seconds = before + time.monotonic() - started
                    bar.update()
                    bar.set_postfix(
                        epoch=progress.epoch + 1,
                        loss=f"{loss:.3f}",
                        tokens_per_s=f"{progress.n_labels / self._epoch_seconds():.0f}",
                        refresh=False,
                    )
                    if time.monotonic() - saved > self.config.save_seconds:
                        self._save()
                        saved = time.monotonic()
                self._finish_epoch()
                if self.rank == 0:
                    tqdm.write(json.dumps(progress.curve[-1]))
        return progress

    def _epoch_seconds(self) -> float:
        past = sum(row["seconds"] for row in self.progress.curve)
        return max(1e-9, self.progress.seconds - past)

    def _rest_of_epoch(self) -> Iterator[Batch]:
        return batches(
            self.examples,
            self.model.config,
            self.config.max_tokens,
            self.config.seed,
            self.progress.epoch,
            skip=self.progress.batch,
            share=(self.rank, self.n_processes),
        )

    def _wait_for_all(self) -> None:
        if self.n_processes > 1:
            dist.barrier()

    def _autocast(self) -> AbstractContextManager[Any]:
        wanted = self.config.precision
        if wanted == "bfloat16" or (wanted == "auto" and has_bfloat16(self.device)):
            return torch.autocast(self.device.type, dtype=torch.bfloat16)
        return nullcontext()

    def _step(self, batch: Batch) -> float:
        """One update; returns the mean loss per label."""
        self.model.train()
        rate = learning_rate(self.progress.step, self.total_steps, self.config)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
        moved = batch.to(self.device)
        torch.manual_seed(hash((self.config.seed, self.progress.step, self.rank)))  # for dropout
        self.model.zero_grad(set_to_none=True)
        total, objective = self._losses(moved)
        if self.config.unlikelihood:
            objective = objective + self.config.unlikelihood * self._against_repeating(moved)
        if self.config.preference:
            weight = self.config.preference * batch.n_labels / PAIRS
            objective = objective + weight * self._preferred()
        # DDP takes the mean of the processes' gradients; this makes it their sum.
        loss = objective * (self.n_processes / batch.n_labels)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
        for optimizer in self.optimizers:
            optimizer.step()
        everybody = total.detach()
        if self.n_processes > 1:
            dist.all_reduce(everybody)
        progress = self.progress
        progress.step += 1
        progress.batch += 1
        progress.loss_sum += everybody.item()
        progress.n_labels += batch.n_labels
        return everybody.item() / batch.n_labels

    def _losses(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The batch's summed cross-entropy, and what is minimised: with R-Drop more than that.

        R-Drop reads the batch twice at once and minimises, per label, the mean of both
        cross-entropies + r_drop / 2 * their disagreement: half of eq. 3 of Liang et al. 2021, so
        that a learning rate means the same as without it.
        """
        weight = self.config.r_drop
        twice = batch.twice() if weight else batch
        with self._autocast(), masked_as(self.config.masks, self.model, twice.tgt_valid):
            logits = forward(self._wrapped, twice)
        logits = logits.float()
        total = sequence_loss(logits, twice.labels, twice.loss_mask, self.config.label_smoothing)
        if not weight:
            return total, total
        one, other = logits.chunk(2)
        return total / 2, total / 2 + weight / 2 * disagreement(one, other, batch.loss_mask)

    def _against_repeating(self, batch: Batch) -> Tensor:
        """Unlikelihood of what the model repeats when it continues the batch's texts, summed.

        How much of each text is given changes from step to step, and is the same in all processes.
        """
        assert isinstance(self.model, DecoderOnly)
        n_given = 8 + self.progress.step % 41  # 8 to 48, bos included
        own = own_words(self.model, batch, n_given)
        with self._autocast():
            logits = forward(self._wrapped, own)
        return unlikelihood(logits.float(), own.labels, own.loss_mask)

    def _preferred(self) -> Tensor:
        """The objective of this process's share of the step's pairs, summed."""
        assert isinstance(self._before, DecoderOnly)
        share = (self.rank, self.n_processes)
        pairs = pairs_of_step(self.preferences, self.progress.step, self.config.seed, share)
        if not pairs:  # more processes than pairs
            return torch.zeros((), device=self.device)
        self.model.eval()
        with self._autocast():
            objective = preference_objective(self._wrapped, self._before, pairs)
        self.model.train()
        return objective

    def _finish_epoch(self) -> None:
        progress = self.progress
        row: dict[str, float | int] = {
            "epoch": progress.epoch + 1,
            "step": progress.step,
            "loss": round(progress.loss_sum / max(1, progress.n_labels), 4),
            "seconds": round(self._epoch_seconds(), 1),
        }
        if self.valid and self.rank == 0:
            forced = teacher_forced(
                self.model, self.valid, self.config.max_tokens, self.config.masks
            )
            row["valid_loss"] = round(forced.loss, 4)
        if self.score is not None and self.rank == 0:
            self.model.eval()
            row.update(self.score(self.model))
        progress.curve.append(row)
        progress.epoch += 1
        progress.batch, progress.loss_sum, progress.n_labels = 0, 0.0, 0
        if self.rank > 0:
            self._wait_for_all()
            return
        save_tensors(self._snapshot(progress.epoch), self._weights())
        self._save()
        # Only now: the snapshots that the saved state still names are all there.
        keep = {self._snapshot(epoch) for epoch in best_epochs(progress.curve, self.config.average)}
        for path in (self.folder / SNAPSHOTS).glob("*.safetensors"):
            if path not in keep:
                path.unlink()
        self._wait_for_all()

    def _snapshot(self, epoch: int) -> Path:
        return self.folder / SNAPSHOTS / f"epoch-{epoch:03d}.safetensors"

    def _keep_moment(self) -> None:
        step = self.progress.step
        if step in self.config.moments and self.rank == 0:
            (self.folder / MOMENTS).mkdir(exist_ok=True)
            kept = {name: tensor.half() for name, tensor in self._weights().items()}
            save_tensors(self.folder / MOMENTS / moment_name(step), kept)

    def _weights(self) -> dict[str, Tensor]:
        return {name: p.detach() for name, p in self.model.named_parameters()}

    def _optimizer_state(self) -> dict[str, Tensor]:
        """Every tensor that the optimizers go on from, by its name in the state file."""
        return {
            f"optimizer/{key}/{name}": value
            for name, parameter in self.model.named_parameters()
            for optimizer in self.optimizers
            for key, value in optimizer.state.get(parameter, {}).items()
        }

    def _about(self) -> dict[str, Any]:
        return {"model": asdict(self.model.config), "training": asdict(self.config)}

    def _save(self) -> None:
        if self.rank > 0:
            return
        tensors = {f"weights/{name}": tensor for name, tensor in self._weights().items()}
        tensors |= self._optimizer_state()
        about = {
            "run": json.dumps(self._about(), sort_keys=True),
            "progress": json.dumps(asdict(self.progress)),
        }
        save_tensors(self.folder / STATE, tensors, about)

    def _resume(self) -> None:
        with safe_open(self.folder / STATE, framework="pt") as file:
            about = file.metadata()
            stored = json.loads(about["run"])
            ours = json.loads(json.dumps(self._about()))
            for section, values in ours.items():
                for name, value in values.items():
                    # What does not touch the steps already taken may change.
                    if (
                        name not in ("epochs", "save_seconds", "average")
                        and stored[section].get(name) != value
                    ):
                        raise ValueError(
                            f"{self.folder} holds a run with {name} = "
                            f"{stored[section].get(name)!r}, not {value!r}: use another folder"
                        )
            self.progress = Progress(**json.loads(about["progress"]))
            with torch.no_grad():
                for name, parameter in self.model.named_parameters():
                    parameter.copy_(file.get_tensor(f"weights/{name}"))
                for name, value in self._optimizer_state().items():
                    value.copy_(file.get_tensor(name))
