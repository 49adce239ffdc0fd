"""The code of a view: a few lines of Python that reproduce the numbers on the screen.

They use public names only and require only this project. User input is inserted as a Python
literal, never as code.
"""

from pathlib import Path
from typing import Literal

from explorer.runs.edits import format_edits
from explorer.runs.trace import Trace

View = Literal["pattern", "rollout", "flow"]


def snippet(
    traced: Trace,
    site: str,
    head: int,
    *,
    view: View = "pattern",
    target: str | None = None,
    folder: Path | None = None,
) -> str:
    """Python that reproduces the selected head's numbers; `result` is what the view shows.

    pattern           the head's weights [query, key]
    rollout, flow     all layers up to and including the site, combined, [query, key]

    `target` is the argument of `trace`, not the output: None if the model generated its own.
    `folder` is the folder of a model that is not shipped; a relative path must be completed by
    hand. Raises KeyError for an unknown site, IndexError for a head out of range, and ValueError
    for the flow of cross-attention, which is not defined.
    """
    of_site = traced.site(site)
    if view == "flow" and of_site.kind == "cross":
        raise ValueError(f"{site} is cross-attention: flow is defined for self-attention")
    if not 0 <= head < of_site.n_heads:
        raise IndexError(f"{site} has {of_site.n_heads} heads, and none with index {head}")
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
