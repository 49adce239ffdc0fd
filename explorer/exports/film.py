"""A Generation as the film takes it: its frames, the row that is written, and all steps' attention.

The page draws it in the app, `explorer.film` in a notebook.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from explorer.components.film import Frame
from explorer.numbers import percent
from explorer.runs.generation import Generation, GenerationStep
from models.hooks import AttentionSite

How = Literal["greedy", "beam", "sample"]
Say = Callable[..., str]
"""Words by their key and values, in the reader's language."""


def stacked(generation: Generation, sites: Sequence[AttentionSite]) -> np.ndarray:
    """The rows of all steps at some sites: [layer, head, step, key], 0 behind a row's end."""
    n_key = max(generation.steps[-1].rows[site.name].shape[-1] for site in sites)
    rows = np.zeros((len(sites), sites[0].n_heads, len(generation.steps), n_key), np.float32)
    for layer, site in enumerate(sites):
        for step in generation.steps:
            row = step.rows[site.name]
            rows[layer, :, step.index, : row.shape[-1]] = row
    return rows


def whole_row(
    generation: Generation, predicts: str | None
) -> tuple[tuple[str, ...], list[int] | None]:
    """The row after the last step, and which place each step is about (None: the next one).

    Of a model that fills in (`predicts` "same"): the text when it is whole, and the mask.
    """
    last = generation.steps[-1]
    if predicts != "same":
        return (*last.input_tokens, last.chosen_str), None
    whole = list(last.input_tokens)
    mask = whole[last.position]
    whole[last.position] = last.chosen_str
    return (*whole, mask), [step.position for step in generation.steps]


def frames_of(generation: Generation, how: How, say: Say) -> list[Frame]:
    """What each step shows beside its attention."""
    return [_frame(step, how, say) for step in generation.steps]


def _frame(step: GenerationStep, how: How, say: Say) -> Frame:
    candidates = step.candidates
    own = tuple(float(np.exp(each.logprob)) for each in candidates)
    # A beam and greedy cut nothing off: they rank by the model's own probabilities.
    cuts = how == "sample" and not step.forced
    chosen = next(i for i, each in enumerate(candidates) if each.token == step.chosen)
    return Frame(
        tokens=tuple(each.str_token for each in candidates),
        own=own,
        left=tuple(each.prob for each in candidates) if cuts else own,
        kept=tuple(each.kept for each in candidates) if cuts else (True,) * len(own),
        chosen=chosen,
        forced=step.forced,
        why=_why(step, own, chosen, how, say),
    )


def _why(step: GenerationStep, own: Sequence[float], chosen: int, how: How, say: Say) -> str:
    """Which token was chosen, how probable it was, and why it was taken, as plain text."""
    rank = 1 + sum(p > own[chosen] for p in own)
    best = step.candidates[int(np.argmax(own))]
    name: str = how
    if step.forced:
        name = "forced"
    elif how == "beam":
        name = "beam_first" if rank == 1 else "beam_other"
    return say(
        f"decoding.why_{name}",
        step=step.index + 1,
        token=say("place.quoted", token=step.chosen_str),
        probability=percent(own[chosen]),
        rank=rank,
        drawn=percent(step.candidates[chosen].prob),
        best=say("place.quoted", token=best.str_token),
    )
