"""The second test: the user's mask in a trained model, its certificate and its output.

A mask is right if it breaks the same properties as the reference, and no others: a correct window
hides real tokens, which is one of the properties.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal

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
from explorer.engine.cache import Run, open_model, trace
from explorer.engine.caching import cached
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.cases.planted import loss_of, output_of
from explorer.exhibits.exercises.choices import ExercisesChoices
from explorer.exhibits.exercises.said import fault_words
from explorer.exhibits.exercises.subject import graded, opened, program, task_named, written
from explorer.exhibits.saying import in_a_row
from explorer.library import LoadedModel
from explorer.runs.passes import Steps, walked
from explorer.runs.trace import Trace
from explorer.sandbox import Fault, Grid
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


Program = tuple[str, str]
"""A task and a program for it."""
Status = Literal["", "no_place", "plant"]
"""Why no program is put into the model: there is no mask, no place for it, or no request yet."""


@dataclass(frozen=True, eq=False)
class Trial:
    """The properties under the user's mask and under the right one, and the changed output."""

    own: tuple[Finding, ...]
    right: tuple[Finding, ...]
    symptom: Symptom


@cached
def examined(run: Run, program: Program) -> tuple[Finding, ...]:
    """The properties of a run's model with a program's mask. Cached because every program is
    compared with the reference, which takes ten seconds.

    Raises PlantedError if the program fails, and InputProblem.
    """
    loaded, traced = open_model(run.model), trace(run)
    return walked(findings_under(task_named(program[0]), program[1], loaded, traced))


@cached(worth=lambda trial: not isinstance(trial, Fault))
def tried(plain: Run, wanted: Program | Status) -> Steps[Trial | Fault | Status]:
    """A program's mask in the model without edits. Cached except its fault if it fails there, which
    may be a timeout of a busy machine. Raises InputProblem."""
    if isinstance(wanted, str):
        return wanted
    task = task_named(wanted[0])
    try:
        yield 0, 3
        own = examined(plain, wanted)
        yield 1, 3
        right = examined(plain, (task.id, task.reference))
        yield 2, 3
        changed = output_under(task, wanted[1], open_model(plain.model), trace(plain))
        return Trial(own, right, walked(changed))
    except PlantedError as problem:
        fault: Fault = problem.args[0]
        return fault


def _wanted(view: View) -> Program | Status:
    """A right program, or one that the user or another session has put into this model."""
    task, code = opened(view), written(view)
    if not task.planted or code is None:
        return ""
    grade = graded(task.id, code)
    if grade is None or grade.fault is not None or (grade.wrong and grade.wrong.shape):
        return ""
    if not fits(task, view.loaded):
        return "no_place"
    mine = view.choices(ExercisesChoices).planted == (task.id, code)
    is_due = grade.passed or mine or tried.is_kept(view.run.plain, (task.id, code))
    return (task.id, code) if is_due else "plant"


def show(found: Trial | Fault | Status, view: View) -> b.Blocks:
    """The model with this mask: at once if it is right, else on request."""
    if found == "":
        return
    task = opened(view)
    yield b.Title(view.t("exercises.in_model"))
    if found == "no_place":
        yield b.Note(view.t("exercises.no_place"))
    elif found == "plant":
        change = b.choose(planted=(task.id, program(view)))
        yield b.Button("exercises.plant", view.t("exercises.plant"), change, "science")
    elif isinstance(found, Fault):
        yield b.Hint(in_a_row(fault_words(view, task, found)), "warning", warns=True)
    elif isinstance(found, Trial):
        yield from _certificate(view, found)
        yield from _written(view, found.symptom)


def _certificate(view: View, trial: Trial) -> b.Blocks:
    """Properties violated by the mask but not by the reference mask."""
    expected = {test.name for test in trial.right if not test.passed}
    broken = [test for test in trial.own if not test.passed]
    surprising = [test for test in broken if test.name not in expected]
    missing = [test for test in trial.own if test.passed and test.name in expected]
    kept, count = len(trial.own) - len(broken), len(trial.own)
    if not surprising and not missing:
        verdict = view.t("exercises.as_expected", kept=kept, count=count)
        yield b.Prose(f":green[:material/verified:] {verdict}")
    elif surprising:
        verdict = view.t("exercises.breaks", count=len(surprising), of=count - len(expected))
        yield b.Prose(f":red[:material/cancel:] {verdict}")
    else:
        yield b.Prose(view.t("exercises.unlike"))
    for finding in surprising:
        yield b.Prose(f"- **{view.t(finding.title_key)}** {view.t(finding.meaning_key)}")
    for finding in broken:
        if finding.name in expected:
            words = view.t("exercises.expected", promise=view.t(finding.title_key))
            yield b.Prose(f"- :gray[{words}]")


def _written(view: View, symptom: Symptom) -> b.Blocks:
    """The model's output with and without the mask."""
    if view.trace.config.generates:
        yield b.Prose(f"{view.t('exercises.writes')} {output_of(view, symptom)}")
    yield b.Prose(loss_of(view, symptom)) if symptom.changed else b.Note(view.t("exercises.same"))


EXHIBIT = Exhibit(
    tried,
    show,
    inputs={"plain": lambda view: view.run.plain, "wanted": _wanted},
    wait=Wait("exercises.planting"),
)
