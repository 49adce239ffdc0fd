"""Use of a trained model: open it on the other pages, or download it as a checkpoint."""

import io
import zipfile
from dataclasses import replace
from pathlib import Path

import streamlit as st

from explorer.exhibits.view import View
from explorer.library import open_model
from explorer.training.rooms import checkpoint_of
from explorer.training.runs import TrainingRun
from explorer.ui import session, uploads


def keep(view: View, run: TrainingRun) -> None:
    """The two buttons; nothing while there is no checkpoint."""
    folder = checkpoint_of(run)
    if folder is None or run.is_live:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            view.t("training.open"),
            key="training.open",
            icon=":material/grid_view:",
            help=view.t("training.open_help"),
            on_click=_open,
            args=(run, folder),
        )
        st.download_button(
            view.t("training.zip"),
            lambda: zipped(folder),
            f"{trained_name(run)}.zip",
            "application/zip",
            key="training.zip",
            icon=":material/download:",
            help=view.t("training.zip_help"),
            on_click="ignore",
        )
    if st.session_state.pop(_GO, False):
        session.visit("heads")


_GO = "training.visit"


def _open(run: TrainingRun, folder: Path) -> None:
    """A widget's callback: open the model in this session, with the observed sequence."""
    loaded = open_model(folder)
    name = uploads.keep(replace(loaded, name=trained_name(run), was_stored=loaded.stored))
    source, _ = run.about["shown"]
    session.change_site(model=name, text=source, target=None, step=None)
    st.session_state[_GO] = True


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
