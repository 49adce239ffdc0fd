"""Use of a trained model: open it on the other pages, or download it as a checkpoint."""

import io
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.training.room import run_of
from explorer.library import LoadedModel, open_model
from explorer.training.rooms import checkpoint_of
from explorer.training.runs import TrainingRun


def show(answer: None, view: View) -> b.Blocks:
    """The two buttons; nothing while there is no checkpoint."""
    run = run_of(view)
    folder = None if run is None else checkpoint_of(run)
    if run is None or folder is None or run.is_live:
        return
    chosen = {"text": run.about["shown"][0], "target": None, "step": None}
    opens = b.choose(visit="heads", elsewhere=True, **chosen)
    yield b.Row(
        (
            b.Button(
                "training.open",
                view.t("training.open"),
                replace(opens, model=partial(_opened, run, folder)),
                "grid_view",
                help=view.t("training.open_help"),
            ),
            b.Download(
                "training.zip",
                view.t("training.zip"),
                partial(zipped, folder),
                "zip",
                name=trained_name(run),
                help=view.t("training.zip_help"),
            ),
        ),
        "center",
    )


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


EXHIBIT = Exhibit(None, show)
