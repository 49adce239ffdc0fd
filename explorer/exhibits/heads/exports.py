"""What can be saved from Heads: the shown heads, the run, the differences of two models, code."""

from functools import partial
from pathlib import Path
from typing import Literal

from explorer import library
from explorer.exhibits import block as b
from explorer.exhibits.heads.opened import Opened
from explorer.exhibits.heads.sides import Sides, ViewPair
from explorer.exhibits.heads.versus import OpenHeads, changed, open_heads
from explorer.exhibits.saying import model_title
from explorer.exports.archive import to_csv, to_npz, to_rows
from explorer.exports.picture import matrices_svg
from explorer.library import LoadedModel
from explorer.runs.edits import format_edits
from explorer.runs.trace import Trace
from explorer.text import UPLOADED


def files(sides: Sides, is_local: bool) -> b.Blocks:
    """The files, each below what it contains, and the code for the open head; the shown heads as a
    picture are offered with the picture itself."""
    view, choice = sides.view, sides.shown[0]
    if choice.shown:
        yield _weights(choice)
    if sides.pair is not None:
        yield from _of_both(sides.pair)
    yield b.Note(view.t("take.trace"))
    yield b.Download("heads.take.npz", view.t("take.npz"), lambda: to_npz(view.trace), "npz")
    code = _code(choice, is_local)
    if code:
        yield b.Note(view.t("take.code"))
        yield b.Verbatim(code, "python")


def _weights(choice: Opened) -> b.Download:
    """The weights of the current head."""
    view, site = choice.view, choice.view.site.name
    current = choice.current or choice.shown[-1]

    def make() -> bytes:
        tokens = view.trace.query_tokens(site), view.trace.key_tokens(site)
        return to_csv(current.pattern, current.mask, *tokens).encode("utf-8-sig")

    return b.Download("heads.take.csv", f"{view.t('take.csv')} · {current.name}", make, "csv")


def _of_both(pair: ViewPair) -> b.Blocks:
    """Exports for two models: the difference of the open heads, and of all heads."""
    view, opened, key = pair.view, open_heads(pair), "heads-versus.take"
    if opened is not None:
        picture = partial(difference, pair, opened)
        yield b.Note(view.t("take.difference"))
        yield b.Download(f"{key}.svg", view.t("take.svg"), picture, "svg", "versus")
    if pair.compared is not None and pair.compared.by_number:
        yield b.Note(view.t("take.versus"))
        table = partial(differences, pair)
        yield b.Download(f"{key}.csv", view.t("take.csv"), table, "csv", "versus")


def difference(pair: ViewPair, opened: OpenHeads) -> str:
    """The difference of the two open heads, as an SVG."""
    view = pair.view
    assert pair.compared is not None
    names = opened.names(view)
    one, other = (model_title(view, side.loaded.name) for side in (view, pair.other))
    title = view.t("versus.difference", one=one, other=other, **names)
    drawn = changed(pair, pair.compared, opened)
    return matrices_svg([(f"{names['theirs']} − {names['mine']}", drawn)], title=title)


def differences(pair: ViewPair) -> bytes:
    """The differences of heads with the same index, in bits, the largest first, as a CSV."""
    view, comparison = pair.view, pair.compared
    assert comparison is not None
    assert comparison.difference is not None
    names = (view.t("place.layer"), view.t("place.head"), view.t("heads.measures.differs"))
    rows = [
        (at[0] + 1, at[1] + 1, f"{comparison.difference[at]:.6g}") for at in comparison.ranked()
    ]
    return to_rows(names, rows).encode("utf-8-sig")


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
    rolled = shown.aggregate.name == "rollout"
    return lines(choice.sites[-1].name, 0, view="rollout" if rolled else "flow")


def folder_of(loaded: LoadedModel, is_local: bool) -> Path | None:
    """The model folder for the exported code; None for a shipped model, which is found by name.

    For uploads, whose folder no longer exists, and for models of a server that is not local, whose
    paths are private, only the folder's name is given.
    """
    folder = loaded.folder.absolute()
    if folder.is_relative_to(library.CHECKPOINTS.absolute()):
        return None
    is_there = is_local and loaded.was_stored is None
    return folder if is_there else Path(UPLOADED.sub("", loaded.folder.name))


def snippet(
    traced: Trace,
    site: str,
    head: int,
    *,
    view: Literal["pattern", "rollout", "flow"] = "pattern",
    target: str | None = None,
    folder: Path | None = None,
) -> str:
    """Python that reproduces the selected head's numbers; `result` is what the view shows.

    pattern           the head's weights [query, key]
    rollout, flow     all layers up to and including the site, combined, [query, key]

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
    match view:
        case "pattern":
            where = f"layer {of_site.layer + 1}, head {head + 1}"
            result = f"traced.pattern({site!r})[{head}]  # [query, key], {where}"
        case "rollout" if of_site.kind == "cross":
            imports.append("from explorer.analysis.heads.rollout import cross_rollout")
            result = f"cross_rollout(traced).aligned[{of_site.layer}]  # [query, key]"
        case "rollout":
            imports.append("from explorer.analysis.heads.rollout import rollout")
            result = f"rollout(traced, {of_site.role!r})[{of_site.layer}]  # [query, key]"
        case "flow":
            imports.append("from explorer.analysis.heads.flow import attention_flow")
            result = f"attention_flow(traced, {of_site.role!r})  # [query, key]"
    opening = f"loaded = open_model({traced.model!r})"
    if folder is not None:
        imports.append("from pathlib import Path")
        opening = f"loaded = open_model(Path({str(folder)!r}))"
        if not folder.is_absolute():
            opening += "  # write the whole path of your model's folder"
    return "\n".join(
        [
            *sorted(imports),
            "",
            opening,
            f"traced = trace(loaded, {', '.join(arguments)})",
            f"result = {result}",
            "",
        ]
    )
