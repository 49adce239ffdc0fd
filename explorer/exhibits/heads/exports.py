"""What can be saved from Heads besides its pictures: the run, and code."""

from functools import partial
from pathlib import Path

from explorer import library
from explorer.exhibits import block as b
from explorer.exhibits.heads.opened import Opened
from explorer.exports.archive import to_npz
from explorer.library import LoadedModel
from explorer.runs.edits import format_edits
from explorer.runs.trace import Trace
from explorer.text import TRAINED


def files(choice: Opened, is_local: bool) -> b.Blocks:
    """The run as a file, and the code for the open head."""
    view = choice.view
    yield b.Note(view.t("take.trace"))
    yield b.Download("heads.take.npz", view.t("take.npz"), lambda: to_npz(view.trace), "npz")
    code = _code(choice, is_local)
    if code:
        yield b.Note(view.t("take.code"))
        yield b.Verbatim(code, "python")


def _code(choice: Opened, is_local: bool) -> str | None:
    """Python code that computes the open head or aggregate; None if no single function does."""
    view, shown = choice.view, choice.current
    folder = folder_of(view.loaded, is_local)
    lines = partial(snippet, view.trace, target=view.target, folder=folder)
    if shown is None:
        return None
    if shown.site is not None and shown.head is not None:
        return lines(shown.site.name, shown.head)
    if shown.aggregate is None or shown.aggregate.layer is not None:
        return None
    return lines(choice.sites[-1].name, 0, rolled=True)


def folder_of(loaded: LoadedModel, is_local: bool) -> Path | None:
    """The model folder for the exported code; None for a shipped model, which is found by name.

    For trained models, whose folder no longer exists, and for models of a server that is not local,
    whose paths are private, only the folder's name is given.
    """
    folder = loaded.folder.absolute()
    if folder.is_relative_to(library.CHECKPOINTS.absolute()):
        return None
    is_there = is_local and loaded.was_stored is None
    return folder if is_there else Path(TRAINED.sub("", loaded.folder.name))


def snippet(
    traced: Trace,
    site: str,
    head: int,
    *,
    rolled: bool = False,
    target: str | None = None,
    folder: Path | None = None,
) -> str:
    """Python that reproduces the selected head's numbers; `result` is what the view shows.

    That are the head's weights [query, key], or if `rolled` the rollout through all layers up to
    the site's.

    `target` is the argument of `trace`, not the output: None if the model generated its own.
    `folder` is the folder of a model that is not shipped; a relative path must be completed by
    hand. The code uses public names only; user input is in it as a Python literal, never as code.
    Raises KeyError for an unknown site.
    """
    of_site = traced.site(site)
    imports = ["from explorer.library import open_model", "from explorer.runs.trace import trace"]
    arguments = [repr(traced.text)]
    if target is not None:
        arguments.append(f"target={target!r}")
    if traced.edits:
        imports.append("from explorer.runs.edits import parse_edits")
        arguments.append(f"edits=parse_edits({format_edits(traced.edits)!r})")
    n_pads = int((~traced.tgt_valid).sum())
    if n_pads:
        arguments.append(f"pads={n_pads}")
    reading = f"traced = trace(loaded, {', '.join(arguments)})"
    if traced.without_sinks:
        imports.append("from explorer.analysis.heads.sinks import without_sinks")
        reading += "\ntraced = without_sinks(loaded, traced)"
    if not rolled:
        where = f"layer {of_site.layer + 1}, head {head + 1}"
        result = f"traced.pattern({site!r})[{head}]  # [query, key], {where}"
    elif of_site.kind == "cross":
        imports.append("from explorer.analysis.heads.rollout import cross_rollout")
        result = f"cross_rollout(traced).aligned[{of_site.layer}]  # [query, key]"
    else:
        imports.append("from explorer.analysis.heads.rollout import rollout")
        result = f"rollout(traced, {of_site.role!r})[{of_site.layer}]  # [query, key]"
    opening = f"loaded = open_model({traced.model!r})"
    if folder is not None:
        imports.append("from pathlib import Path")
        opening = f"loaded = open_model(Path({str(folder)!r}))"
        if not folder.is_absolute():
            opening += "  # write the whole path of your model's folder"
    return "\n".join([*sorted(imports), "", opening, reading, f"result = {result}", ""])
