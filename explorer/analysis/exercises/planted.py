"""A program as the mask of a trained model."""

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from explorer import sandbox
from explorer.analysis.cases import Case
from explorer.analysis.cases.planting import decoder_self, plant_mask
from explorer.analysis.cases.symptom import Symptom, symptom
from explorer.analysis.exercises.tasks import Task
from explorer.analysis.mask_tests.certify import Finding, QuickProbe, examine
from explorer.analysis.mask_tests.probe import Subject
from explorer.library import LoadedModel
from explorer.runs.passes import Steps
from explorer.runs.trace import Trace
from explorer.sandbox import Grid
from models.hooks import AttentionSite, Edits
from models.masks import causal_mask, padding_mask
from models.rows import Rows

N_PROBED = 8
"""Tokens per sequence that are tested: enough for a window, and for a past of several tokens. Masks
depend on positions, not on words."""


class PlantedError(Exception):
    """A program failed on a size that only the model requests; `args[0]` is its Fault."""


def fits(task: Task, loaded: LoadedModel) -> bool:
    """Whether a model has the sites that this task's mask applies to."""
    return bool(task.planted) and any(_is_place(task, site) for site in loaded.sites)


def findings_under(
    task: Task, code: str, loaded: LoadedModel, traced: Trace
) -> Steps[tuple[Finding, ...]]:
    """Put a program's mask into a model's own sites, and test every property.

    N_PROBED tokens of the Trace's sentence are read; its edits are ignored. Yields the number of
    tested properties and their total. Raises PlantedError if the program fails, and ValueError for
    a task whose mask applies nowhere in this model.
    """
    mask = _Mask(task, code, loaded)
    examination = examine(
        loaded.model,
        loaded.config,
        _probed(traced.src_tokens, loaded),
        _probed(traced.tgt_tokens, loaded),
        lambda rows: mask.plant(loaded.model, rows),
        probe=QuickProbe,
    )
    for done, name in enumerate(examination.names):
        yield done, len(examination.names)
        examination.finding(name)
        mask.check()
    return examination.certificate().findings


def _probed(tokens: Sequence[int], loaded: LoadedModel) -> list[int]:
    """N_PROBED tokens: the first of a sentence, repeated if it is shorter."""
    real = [token for token in tokens if token != loaded.marks.pad]
    return (real * N_PROBED)[:N_PROBED]


def output_under(task: Task, code: str, loaded: LoadedModel, traced: Trace) -> Steps[Symptom]:
    """The model's output under a program's mask, and without it; yields as `symptom`.

    Raises as `findings_under`.
    """
    mask = _Mask(task, code, loaded)
    changed = yield from symptom(
        loaded, traced, Case(task.id, "masks", mask.plant, plant=mask.plant)
    )
    mask.check()
    return changed


def _is_place(task: Task, site: AttentionSite) -> bool:
    """Whether a task's mask applies to this site."""
    if task.planted == "cross":
        return site.kind == "cross"
    return task.planted == "everywhere" or decoder_self(site)


class _Mask:
    """A program as the mask of a model's sites; each size is requested once.

    After the program has failed nothing is masked, and `check` raises its error.
    """

    def __init__(self, task: Task, code: str, loaded: LoadedModel) -> None:
        if not fits(task, loaded):
            raise ValueError(f"{task.id} has no place in {loaded.name}")
        self.task, self.code = task, code
        self._fault: sandbox.Fault | None = None
        self._matrix = lru_cache(maxsize=512)(self._asked)

    def check(self) -> None:
        """Raise PlantedError if the program failed."""
        if self._fault is not None:
            raise PlantedError(self._fault)

    def plant(self, model: Subject, rows: Rows) -> Edits:
        """The mask of every site that it applies to, in a run over these rows."""
        return plant_mask(self._keep, partial(_is_place, self.task))(model, rows)

    def _keep(
        self, site: AttentionSite, rows: Rows, shape: Sequence[int]
    ) -> Bool[Tensor, "batch 1 query key"]:
        """The cells that the program allows, combined with the model's own rules that remain."""
        n_query, n_key = shape[2:]
        valid = rows.valid(site.key_stream)[:, :n_key]
        queries = rows.valid(site.query_stream)[:, -n_query:]
        past = n_key - n_query if site.kind == "self" else 0
        keep = torch.stack(
            [
                self._matrix(n_query, n_key, past, tuple(own), tuple(asked))
                for own, asked in zip(valid.tolist(), queries.tolist(), strict=True)
            ]
        )[:, None]
        arguments = self.task.cases[0].given
        if not {"valid", "src_valid"} & set(arguments):
            keep = keep & padding_mask(valid)
        if self.task.planted == "everywhere" and decoder_self(site):
            keep = keep & causal_mask(n_query, n_key, offset=past)
        return keep.repeat_interleave(shape[0] // len(keep), 0)

    def _asked(
        self,
        n_query: int,
        n_key: int,
        past: int,
        valid: tuple[bool, ...],
        queries: tuple[bool, ...],
    ) -> Bool[Tensor, "query key"]:
        known: dict[str, Any] = {
            "past": past,
            "valid": list(valid),
            "src_valid": list(valid),
            "tgt_valid": list(queries),
            "doc": [1] * n_key,
        }
        arguments = self.task.cases[0].given
        first = 0 if "past" in arguments else past
        values = tuple(known.get(name, value) for name, value in arguments.items())
        answer = sandbox.run(
            self.code, self.task.function, grids=[Grid(n_query, n_key, values, first)]
        )
        if answer.fault is not None:
            self._fault = self._fault or answer.fault
            return torch.ones(n_query, n_key, dtype=torch.bool)
        cells = [cell is True for cell in answer.values]
        return torch.tensor(cells, dtype=torch.bool).reshape(n_query, n_key)
