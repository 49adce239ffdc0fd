"""The film: what a Generation holds, step by step, as the component takes it."""

from collections.abc import Sequence

import numpy as np

from explorer.components import Frame, Scene, film, sent_choice, sent_scene
from explorer.numbers import percent
from explorer.pages.decoding.choices import DecodingChoices, Strategy
from explorer.pages.decoding.strategy import name_of
from explorer.runs.generation import Generation, GenerationStep
from explorer.ui import session
from explorer.ui.current import latest
from explorer.ui.view import View
from models.hooks import AttentionSite, Role

KEY = "decoding.film"


def take_moves(view: View, generation: Generation) -> View:
    """The view with where the film has come to rest, or with the candidate that was taken."""
    frames = frames_of(view, generation)
    sites = _sites(view, generation, view.own_role)
    rested = sent_scene(KEY, len(frames), len(sites), sites[0].n_heads)
    taken = sent_choice(KEY, frames)
    if taken is not None:
        step, place = taken
        token = generation.steps[step].candidates[place].token
        session.change(fork=(*generation.tokens[:step], token), part="branches", step=step)
    elif rested is not None:
        session.change(step=rested.step, layer=rested.layer, head=rested.head)
    else:
        return view
    return latest(view)


def show_film(view: View, generation: Generation) -> None:
    """The film of a Generation at the view's step."""
    own = stacked(generation, _sites(view, generation, view.own_role))
    across = _sites(view, generation, "cross")
    last = generation.steps[-1]
    row, places = (*last.input_tokens, last.chosen_str), None
    if view.trace.predicts == "same":
        places = [step.position for step in generation.steps]
        whole = list(last.input_tokens)
        mask = whole[last.position]
        whole[last.position] = last.chosen_str
        row = (*whole, mask)
    n_layers, n_heads = own.shape[:2]
    layer, head = view.state.layer, view.state.head
    film(
        frames_of(view, generation),
        row,
        own,
        stacked(generation, across) if across else None,
        generation.src_str_tokens,
        key=KEY,
        scene=Scene(
            min(view.step, len(generation.steps) - 1),
            None if layer is None else min(layer, n_layers - 1),
            None if layer is None or head is None or head >= n_heads else head,
        ),
        places=places,
        words=view.words("components.film") | {"tgt": view.stream("tgt")},
    )


def _sites(view: View, generation: Generation, kind: Role) -> list[AttentionSite]:
    return [site for site in view.sites_of(kind) if site.name in generation.steps[0].rows]


def stacked(generation: Generation, sites: Sequence[AttentionSite]) -> np.ndarray:
    """The rows of all steps at some sites: [layer, head, step, key], 0 behind a row's end."""
    n_key = max(generation.steps[-1].rows[site.name].shape[-1] for site in sites)
    rows = np.zeros((len(sites), sites[0].n_heads, len(generation.steps), n_key), np.float32)
    for layer, site in enumerate(sites):
        for step in generation.steps:
            row = step.rows[site.name]
            rows[layer, :, step.index, : row.shape[-1]] = row
    return rows


def frames_of(view: View, generation: Generation) -> list[Frame]:
    """What each step shows beside its attention."""
    return [_frame(view, step, view.choices(DecodingChoices).strategy) for step in generation.steps]


def _frame(view: View, step: GenerationStep, strategy: Strategy) -> Frame:
    candidates = step.candidates
    own = tuple(float(np.exp(each.logprob)) for each in candidates)
    # A beam and greedy cut nothing off: they rank by the model's own probabilities.
    cuts = name_of(strategy) == "sample" and not step.forced
    chosen = next(i for i, each in enumerate(candidates) if each.token == step.chosen)
    return Frame(
        tokens=tuple(each.str_token for each in candidates),
        own=own,
        left=tuple(each.prob for each in candidates) if cuts else own,
        kept=tuple(each.kept for each in candidates) if cuts else (True,) * len(own),
        chosen=chosen,
        forced=step.forced,
        why=_why(view, step, own, chosen, strategy),
    )


def _why(
    view: View, step: GenerationStep, own: Sequence[float], chosen: int, strategy: Strategy
) -> str:
    """Which token was chosen, how probable it was, and why it was taken, as plain text."""
    rank = 1 + sum(p > own[chosen] for p in own)
    best = step.candidates[int(np.argmax(own))]
    name = name_of(strategy)
    if step.forced:
        name = "forced"
    elif name == "beam":
        name = "beam_first" if rank == 1 else "beam_other"
    return view.t(
        f"decoding.why_{name}",
        step=step.index + 1,
        token=view.t("place.quoted", token=step.chosen_str),
        probability=percent(own[chosen]),
        rank=rank,
        drawn=percent(step.candidates[chosen].prob),
        best=view.t("place.quoted", token=best.str_token),
    )
