"""The code of a view: the few lines of Python that give the numbers on the screen once more.

They use the names that everybody may use and need nothing but the project itself. What a user
typed stands in them as a Python literal, never as code.
"""

from pathlib import Path
from typing import Literal, get_args

from explorer.runs.edits import format_edits
from explorer.runs.trace import Trace

View = Literal["pattern", "scores", "reading", "ablation", "causes", "rollout", "flow"]
VIEWS: tuple[View, ...] = get_args(View)


def snippet(
    traced: Trace,
    site: str,
    head: int,
    query: int = 0,
    *,
    view: View = "pattern",
    target: str | None = None,
    token: int | None = None,
    model: Path | None = None,
) -> str:
    """Python that reproduces the selected head's numbers; `result` is what the view shows.

    pattern, scores   the head's matrix [query, key]
    reading           what `query` looks at: a Reading
    ablation          every head switched off: an Ablation
    causes            the four measures of the token after position `query`: a Causes
    rollout, flow     the layers below and up to the site together, [query, key]

    `target` is what was given to `trace`, not what came out: None where the model translated.
    `token` is the output token for "causes" (None: the one that was written). `model` is the
    folder of a model that is not among the shipped ones.
    Raises KeyError for a site, IndexError for a head that is not there, ValueError for the flow of
    cross-attention, which has none.
    """
    of_site = traced.site(site)
    if view == "flow" and of_site.kind == "cross":
        raise ValueError(f"{site} is cross-attention: flow is defined for self-attention")
    if not 0 <= head < of_site.n_heads:
        raise IndexError(f"{site} has {of_site.n_heads} of head, no {head}")
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
    opened = repr(traced.model)
    if model is not None:
        imports.append("from pathlib import Path")
        opened = f"Path({str(model)!r})"
    where = f"layer {of_site.layer + 1}, head {head + 1}"
    match view:
        case "pattern":
            result = [f"result = traced.pattern({site!r})[{head}]  # [query, key], {where}"]
        case "scores":
            hook = of_site.hook("scores")
            result = [f"result = traced.activations[{hook!r}][{head}]  # [query, key], {where}"]
        case "reading":
            imports.append("from explorer.analysis.heads.reading import reading")
            result = [
                f"result = reading(traced, {site!r}, head={head}, query={query})",
                "print(result.top)  # the keys that this row looks at most",
            ]
        case "ablation":
            imports.append("from explorer.analysis.heads.ablation import ablate")
            result = [
                "result = ablate(loaded, traced)",
                f"print(result.token_deltas[{site!r}][{head}].sum())  # nats, {where} off",
            ]
        case "causes":
            imports.append("from explorer.analysis.heads.attribution import causes")
            chosen = "" if token is None else f", token={token}"
            result = [
                f"result = causes(loaded, traced, position={query}{chosen})",
                f"print(result.per_key({site!r}, {head}))  # {where}",
            ]
        case "rollout" if of_site.kind == "cross":
            imports.append("from explorer.analysis.heads.rollout import cross_rollout")
            result = [f"result = cross_rollout(traced).aligned[{of_site.layer}]  # [query, key]"]
        case "rollout":
            imports.append("from explorer.analysis.heads.rollout import rollout")
            kind = of_site.role
            result = [f"result = rollout(traced, {kind!r})[{of_site.layer}]  # [query, key]"]
        case "flow":
            imports.append("from explorer.analysis.heads.flow import attention_flow")
            result = [f"result = attention_flow(traced, {of_site.role!r})  # [query, key]"]
    return "\n".join(
        [
            *sorted(imports),
            "",
            f"loaded = open_model({opened})",
            f"traced = trace(loaded, {', '.join(arguments)})",
            *result,
            "",
        ]
    )
