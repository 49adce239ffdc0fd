"""A decoding compared with one teacher-forced pass: equal logits under the causal mask.

Step by step, the logits of position t are computed before token t + 1 exists. In one pass over the
whole sequence every token is present, and only the causal mask hides the later ones. So with the
mask both give the same logits, up to rounding; without it, every position but the last has seen its
own answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.attribution.place import in_half_precision
from explorer.exhibits.decoding.film import name_place, place_of
from explorer.exhibits.saying import in_a_row, site_axes
from explorer.figures.curves import lines
from explorer.figures.matrix import weights
from explorer.library import LoadedModel
from explorer.numbers import number
from explorer.numerics import log_softmax
from explorer.runs.edits import Edit, MaskSwitch
from explorer.runs.generation import Generation
from explorer.runs.interventions import edit_functions
from explorer.runs.passes import Steps
from explorer.runs.run import run
from models.cache import KVCache
from models.hooks import LOGITS, visiting
from models.masks import causal_mask
from models.rows import Rows, as_tensor

FLOOR = 1e-8
"""Position of an exact 0 on the log axis."""
ROUNDING = 1e-3
"""Largest logit difference that counts as rounding."""
CAUSAL_OFF = MaskSwitch("causal", False)


@dataclass(frozen=True, eq=False)
class OnePass:
    """The positions of a decoding, each computed twice: step by step, and in one pass.

    `queries` are the tokens read last in each step, `tokens` the tokens generated after them. The
    `gaps` [step] are the largest differences of any logit of a position: with the causal mask, and
    without it in both. `logprobs` [step] are ln p of each generated token in the one pass.
    `patterns[site]` and `masks[site]` [head, query, key] are from the one pass, restricted to the
    queries of the steps; `patterns_open` is the same without the mask.
    """

    queries: tuple[str, ...]
    keys: tuple[str, ...]
    tokens: tuple[str, ...]
    gaps: Float[np.ndarray, " step"]
    gaps_open: Float[np.ndarray, " step"]
    logprobs: Float[np.ndarray, " step"]
    patterns: dict[str, np.ndarray]
    masks: dict[str, np.ndarray]
    patterns_open: dict[str, np.ndarray]

    @property
    def largest(self) -> float:
        """The largest difference of any logit, with the causal mask."""
        return float(self.gaps.max())

    @property
    def largest_open(self) -> float:
        """The largest difference of any logit, without it."""
        return float(self.gaps_open.max())


def one_pass(loaded: LoadedModel, film: Generation) -> Steps[OnePass]:
    """Compute the positions of a Generation in one pass, and step by step.

    Edits of the Generation stay in force, except edits of the causal mask. Raises ValueError for a
    Generation of another model, or without steps.
    """
    if film.model != loaded.name:
        raise ValueError(f"the decoding was made by {film.model!r}, not by {loaded.name!r}")
    if not film.steps:
        raise ValueError("the decoding has no steps")
    kept = [
        edit for edit in film.edits if not (isinstance(edit, MaskSwitch) and edit.part == "causal")
    ]
    n, first = len(film.steps), loaded.model.begin(as_tensor([film.given]))
    row = torch.cat((first.tgt, torch.tensor([film.tokens[:-1]], dtype=torch.long)), dim=1)
    rows = replace(first, tgt=row)
    sites = [site for site in loaded.sites if site.query_stream == "tgt"]
    wanted = {LOGITS, *(site.hook(what) for site in sites for what in ("pattern", "mask"))}
    gaps: list[np.ndarray] = []
    passes: list[dict[str, Tensor]] = []
    for edits in (kept, [*kept, CAUSAL_OFF]):
        stepped = yield from _stepwise(loaded, rows, n, edits, len(passes) * n)
        passes.append(run(loaded.model, rows, wanted, edit_functions(loaded.sites, edits)))
        whole = passes[-1][LOGITS][0, -n:].double().numpy()
        gaps.append(np.abs(stepped.double().numpy() - whole).max(1))
    masked, unmasked = passes

    def of_steps(tensors: dict[str, Tensor], what: str) -> dict[str, np.ndarray]:
        return {site.name: tensors[site.hook(what)][0, :, -n:].numpy() for site in sites}

    logprobs = log_softmax(masked[LOGITS][0, -n:].double().numpy())
    return OnePass(
        queries=tuple(step.input_tokens[-1] for step in film.steps),
        keys=film.steps[-1].input_tokens,
        tokens=tuple(step.chosen_str for step in film.steps),
        gaps=gaps[0],
        gaps_open=gaps[1],
        logprobs=logprobs[np.arange(n), list(film.tokens)],
        patterns=of_steps(masked, "pattern"),
        masks=of_steps(masked, "mask"),
        patterns_open=of_steps(unmasked, "pattern"),
    )


@torch.inference_mode()
def _stepwise(
    loaded: LoadedModel, rows: Rows, n: int, edits: Sequence[Edit], before: int
) -> Steps[Tensor]:
    """Logits [step, vocab] of the last `n` positions, each before the tokens after it exist.

    `before` steps of 2n are done already.
    """
    model, functions = loaded.model, edit_functions(loaded.sites, edits)
    rows = rows.to(next(model.parameters()).device)
    # Not under edits: without the mask, for example, keys and values of earlier tokens change.
    cache = None if edits else KVCache(model.config.n_layers)
    begun = rows.tgt.shape[1] - n
    logits: list[Tensor] = []
    with visiting(functions):
        memory = model.memory_of(rows)
    for end in range(begun + 1, begun + n + 1):
        yield before + len(logits), 2 * n
        cache = cache if end <= model.config.cacheable else None
        new = rows.tgt[:, cache.length if cache else 0 : end]
        with visiting(functions):
            x = model.last_stack.run(replace(rows, tgt=new), memory, cache)
            logits.append(model.logits_of(x[:, -1:])[0, -1])
    return torch.stack(logits).cpu()


def show(result: OnePass | None, view: View) -> b.Blocks:
    """The differences of each step, and the attention of one pass with and without the mask."""
    if result is None:
        return
    ahead = _looks_ahead(view, result)
    # In half precision, rounding alone can exceed any fixed limit.
    differs = result.largest > ROUNDING and (ahead or not in_half_precision(view))
    key = "decoding.pass.reading_apart" if differs else "decoding.pass.reading"
    words = [view.t(key, count=len(result.tokens), largest=number(result.largest))]
    if differs and ahead:
        words.append(view.t("decoding.pass.ahead"))
    if not differs and result.largest_open > ROUNDING:  # a single step has no later token
        words.append(view.t("decoding.pass.reading_open", open=f"{result.largest_open:.2g}"))
    yield b.Sentence("onepass", in_a_row(words))
    title = view.t("decoding.pass.gaps")
    yield b.Note(title)
    yield b.Chart("decoding.pass.gaps", partial(_gaps, view, result), title)
    yield _patterns(view, result)
    yield b.Formula.of(
        view.t("decoding.pass.formula"),
        r"f(y_0, \dots, y_n)_t = f(y_0, \dots, y_t)_t \quad\Leftarrow\quad "
        r"m_{ij} = [\,j \le i\,]",
    )
    model = view.loaded.model
    yield b.Code((one_pass, model.read, model.last_stack.run, causal_mask))
    yield b.Numbers(
        lambda: {
            view.t("decoding.pass.step"): list(range(1, len(result.tokens) + 1)),
            view.t("decoding.token"): list(result.tokens),
            view.t("decoding.pass.with"): [f"{gap:.2g}" for gap in result.gaps],
            view.t("decoding.pass.without"): [f"{gap:.2g}" for gap in result.gaps_open],
        }
    )


def _looks_ahead(view: View, result: OnePass) -> bool:
    """Whether a row of the one pass may attend to tokens after its step."""
    later = len(result.keys) - len(result.tokens) + 1
    sites = (site for site in view.trace.sites_of(view.own_role) if site.query_stream == "tgt")
    return any(np.triu(result.masks[site.name], later).any() for site in sites)


def _gaps(view: View, result: OnePass, *, dark: bool) -> b.Figure:
    figure = lines(
        np.arange(1, len(result.tokens) + 1),
        np.maximum(np.stack([result.gaps, result.gaps_open]), FLOOR),
        [view.t("decoding.pass.with"), view.t("decoding.pass.without")],
        **view.axes("decoding.pass.step", "decoding.pass.gap"),
        log_y=True,
        marked_x=float(min(view.step, len(result.tokens) - 1) + 1),
        height=220,
        points=True,
        dark=dark,
    )
    figure["layout"]["yaxis"] |= {"dtick": 2, "exponentformat": "power"}
    return figure


def _patterns(view: View, result: OnePass) -> b.Matrices:
    """The attention of the film's place in one pass, with and without the causal mask."""
    sites = view.sites_of(view.own_role)
    layer, head = place_of(view, len(sites), sites[0].n_heads)
    site = sites[-1 if layer is None else layer]
    named = name_place(view, site.layer, head)
    axes = site_axes(view, site, tokens=(result.queries, result.keys))
    passes = (
        ("decoding.pass.with", result.patterns, result.masks[site.name][0]),
        ("decoding.pass.without", result.patterns_open, None),
    )
    panels = []
    for key, patterns, mask in passes:
        pattern = patterns[site.name]
        pattern = pattern.mean(0) if head is None else pattern[head]
        selected, words = min(view.step, len(result.tokens) - 1), view.words("figures.heatmap")
        drawn = weights(pattern, mask, axes, selected=selected, words=words)
        panels.append((f"{view.t(key)} · {named}", drawn))
    return b.Matrices("decoding.pass.patterns", panels)


def is_open(view: View) -> bool:
    """Whether the sequence grows: masks that are filled in are all there from the beginning."""
    return view.trace.config.generates


EXHIBIT = Exhibit(
    one_pass, show, open=is_open, wait=Wait("decoding.pass.working", after="decoding.film")
)
