"""The start of a training, the state of the selected one, its buttons, and the use of its model."""

import io
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.picking import pick_one
from explorer.exhibits.saying import message
from explorer.exhibits.training.choices import TrainingChoices
from explorer.exhibits.training.room import ASKED, begin, order, refusal, resume, run_of
from explorer.library import LoadedModel, open_model
from explorer.problems import InputProblem
from explorer.training.runs import ENDED, TrainingRun
from explorer.training.setup import AT_START, FAULTS

INTERVAL = 1.0
"""Seconds between two draws of a running training."""


def show(problem: InputProblem | None, view: View) -> b.Blocks:
    """The start button, and why a training did not start or cannot; then the selected training. The
    page is drawn again every INTERVAL while what it shows runs: this training, or in a comparison
    any."""
    choices, run = view.choices(TrainingChoices), run_of(view)
    change = begin(view, choices.full_setup)
    words, disabled = view.t("training.start"), problem is not None
    start = b.Button("training.start", words, change, "play_arrow", "primary", disabled)
    for reason in filter(None, (choices.refused, problem)):
        yield b.Hint(message(reason, view.lang), "info", warns=True)
    if choices.refused is not None:  # said once
        yield b.Remember(b.choose(refused=None))
    if run is None:
        yield start
        return
    values = {"step": run.step, "total": run.setup.steps, "ahead": choices.queued}
    state = ("training.stopping",) if run.is_stopping else ("training.state", run.state)
    picked = (_pick_run(view, run),) if len(choices.runs) > 1 else ()
    yield b.Row((start, *picked, b.Prose(view.t(*state, **values)), *_buttons(view, run)), "center")
    yield from _use(view, run)
    if run.diverged:
        yield b.Hint(view.t("training.diverged", step=run.step), "trending_up", fails=True)
    shown = choices.runs if view.chosen("part") == "compared" else (run,)
    if any(training.is_live for training in shown):
        yield b.Live("training.pulse", INTERVAL)


def _pick_run(view: View, run: TrainingRun) -> b.Pick:
    """The control for the user's training to show."""
    numbers = [choice.number for choice in view.choices(TrainingChoices).runs]
    more = b.More(
        said=lambda number: view.t("training.compare.run", number=number),
        change=lambda number: b.choose(shown=number, moment=None),
    )
    more |= {"form": "menu", "width": 150, "quiet": True}
    return pick_one(view, "training.which", numbers, run.number, **more)


def _buttons(view: View, run: TrainingRun) -> b.Blocks:
    """What can be ordered in this state."""
    if run.is_stopping:
        return
    if run.state == "running":
        yield _button(view, "training.pause", "pause", order(view, run, "pause"))
    if run.state == "paused" and not run.diverged:
        yield _button(view, "training.go", "play_arrow", order(view, run, "go"))
        yield _button(view, "training.step", "skip_next", order(view, run, "step"))
    if run.state in ("running", "paused", "starting", "waiting"):
        yield _button(view, "training.stop", "stop", order(view, run, "stop"))
    if run.state in ENDED and run.state != "done" and run.step in run.kept:
        yield _button(view, "training.go", "play_arrow", resume(view, run, run.step, paused=False))
    steps = sorted(step for step in run.kept if step < run.step or run.diverged)
    if steps and run.state in (*ENDED, "paused"):
        yield _rewind(view, run, steps)
    if run.state in ("running", "paused") and not run.diverged:
        faults = tuple(_fault(view, run, name) for name in FAULTS if name not in AT_START)
        yield b.Fold(view.t("training.fault_now"), faults, icon="bug_report")


def _button(view: View, key: str, icon: str, change: b.Change) -> b.Button:
    return b.Button(key, view.t(key), change, icon)


def _rewind(view: View, run: TrainingRun, steps: list[int]) -> b.Fold:
    """The control to rewind to a saved step; a new process continues if the old one has ended."""
    chosen = view.choices(TrainingChoices).back_to
    at = chosen if chosen in steps else steps[-1]
    back = order(view, run, "back", step=at, faults=list(run.planted(at)))
    if run.state in ENDED:
        back = resume(view, run, at, paused=True)
    words = view.t("training.back_to")
    slider = b.Slider("training.back_at", words, steps, at, lambda step: b.choose(back_to=step))
    do = b.Button("training.back_do", view.t("training.back_do"), back)
    return b.Fold(view.t("training.back"), (slider, do), icon="fast_rewind")


def _fault(view: View, run: TrainingRun, name: str) -> b.Button:
    """A button that injects a fault, or removes it."""
    on = name in run.planted()
    return b.Button(
        f"training.fault.{name}",
        view.t("training.faults", name, "title"),
        order(view, run, "fault", name=name, on=not on),
        "check" if on else "add",
        "primary" if on else "secondary",
    )


def _use(view: View, run: TrainingRun) -> b.Blocks:
    """Buttons that open the trained model on other pages, or download it."""
    folder = run.checkpoint
    if folder is None or run.is_live:
        return
    chosen = {"text": run.about["shown"][0], "target": None, "step": None}
    opens = b.choose(visit="heads", elsewhere=True, **chosen)
    opens = replace(opens, model=partial(_opened, run, folder))
    label, help = view.t("training.open"), view.t("training.open_help")
    button = b.Button("training.open", label, opens, "grid_view", help=help)
    label, more = view.t("training.zip"), b.More(help=view.t("training.zip_help"))
    zip_of = partial(zipped, folder)
    load = b.Download("training.zip", label, zip_of, "zip", name=trained_name(run), **more)
    yield b.Row((button, load), "center")


def _opened(run: TrainingRun, folder: Path) -> LoadedModel:
    loaded = open_model(folder)
    return replace(loaded, name=trained_name(run), was_stored=loaded.stored)


def trained_name(run: TrainingRun) -> str:
    """The model's name: its task, training steps, and number among the user's trainings."""
    return f"{run.setup.task}-{run.step}-steps-{run.number}"


def zipped(folder: Path) -> bytes:
    """A checkpoint's folder as a zip, which this app and `python -m models` open again."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.iterdir()):
            archive.write(path, path.name)
    return out.getvalue()


EXHIBIT = Exhibit(refusal, show, inputs=ASKED)
