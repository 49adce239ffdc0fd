"""Convert a Generation for the decoding animation: frames, final tokens, attention of all steps."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import numpy as np

from explorer.components.film import Frame
from explorer.numbers import percent
from explorer.runs.generation import Generation, GenerationStep
from models.hooks import AttentionSite

How = Literal["greedy", "beam", "sample"]
Say = Callable[..., str]
"""Text by its key and values, in the user's language."""


def stacked(generation: Generation, sites: Sequence[AttentionSite]) -> np.ndarray:
    """Attention of all steps at `sites`: [layer, head, step, key], padded with 0."""
    n_key = max(generation.steps[-1].rows[site.name].shape[-1] for site in sites)
    rows = np.zeros((len(sites), sites[0].n_heads, len(generation.steps), n_key), np.float32)
    for layer, site in enumerate(sites):
        for step in generation.steps:
            row = step.rows[site.name]
            rows[layer, :, step.index, : row.shape[-1]] = row
    return rows


def whole_row(generation: Generation, fills: bool) -> tuple[tuple[str, ...], list[int] | None]:
    """The tokens after the last step, and the position that each step predicts (None: the next).

    For a masked language model (`fills`): the completed text, and then the mask token.
    """
    last = generation.steps[-1]
    if not fills:
        return (*last.input_tokens, last.chosen_str), None
    whole = list(last.input_tokens)
    mask = whole[last.position]
    whole[last.position] = last.chosen_str
    return (*whole, mask), [step.position for step in generation.steps]


def film_of(
    generation: Generation, sites: Iterable[AttentionSite], fills: bool, how: How, say: Say
) -> dict[str, Any]:
    """A Generation as arguments of `pack_film`, with those of the `sites` that every step ran."""
    ran = [site for site in sites if site.name in generation.steps[0].rows]
    own, across = ([site for site in ran if site.kind == kind] for kind in ("self", "cross"))
    row, places = whole_row(generation, fills)
    return {
        "frames": frames_of(generation, how, say),
        "row": row,
        "own": stacked(generation, own),
        "cross": stacked(generation, across) if across else None,
        "source": generation.src_str_tokens,
        "places": places,
    }


def frames_of(generation: Generation, how: How, say: Say) -> list[Frame]:
    """What each step shows in addition to its attention."""
    return [_frame(step, how, say) for step in generation.steps]


def _frame(step: GenerationStep, how: How, say: Say) -> Frame:
    candidates = step.candidates
    own = tuple(float(np.exp(candidate.logprob)) for candidate in candidates)
    # Beam search and greedy decoding rank by the model's probabilities and truncate nothing.
    cuts = how == "sample" and not step.forced
    chosen = next(i for i, candidate in enumerate(candidates) if candidate.token == step.chosen)
    return Frame(
        tokens=tuple(candidate.str_token for candidate in candidates),
        own=own,
        left=tuple(candidate.prob for candidate in candidates) if cuts else own,
        kept=tuple(candidate.kept for candidate in candidates) if cuts else (True,) * len(own),
        chosen=chosen,
        forced=step.forced,
        why=_why(step, own, chosen, how, say),
    )


def _why(step: GenerationStep, own: Sequence[float], chosen: int, how: How, say: Say) -> str:
    """Which token was chosen and its probability, as plain text."""
    return say(
        f"decoding.why_{'forced' if step.forced else how}",
        step=step.index + 1,
        token=say("place.quoted", token=step.chosen_str),
        probability=percent(own[chosen]).replace(" ", "\u00a0"),
        rank=step.rank,
        drawn=percent(step.candidates[chosen].prob),
    )
