"""The film: converts a Generation into the component's arguments."""

from typing import cast

from explorer.components import Frame, Scene, film, sent_choice, sent_scene
from explorer.exhibits.view import View
from explorer.exports import film as exported
from explorer.exports.film import How, stacked, whole_row
from explorer.pages.decoding.choices import DecodingChoices
from explorer.pages.decoding.strategy import name_of
from explorer.runs.generation import Generation
from explorer.ui import session
from explorer.ui.current import latest
from models.hooks import AttentionSite, Role

KEY = "decoding.film"


def take_moves(view: View, generation: Generation) -> View:
    """The view updated by the film: the step at which it stopped, or the chosen candidate."""
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
    row, places = whole_row(generation, view.trace.config.predicts)
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


def frames_of(view: View, generation: Generation) -> list[Frame]:
    """The candidates and explanation of each step."""
    how = cast(How, name_of(view.choices(DecodingChoices).strategy))
    return exported.frames_of(generation, how, view.t)
