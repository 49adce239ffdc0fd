"""The film: converts a Generation into the component's arguments."""

from typing import cast

from explorer.components import Scene, film, sent_choice, sent_scene
from explorer.exhibits.view import View
from explorer.exports.film import How, film_of, frames_of
from explorer.pages.decoding.choices import DecodingChoices
from explorer.pages.decoding.strategy import strategy_name
from explorer.runs.generation import Generation
from explorer.ui import session
from explorer.ui.current import latest

KEY = "decoding.film"


def take_moves(view: View, generation: Generation) -> View:
    """The view updated by the film: the step at which it stopped, or the chosen candidate."""
    frames = frames_of(generation, _how(view), view.t)
    rows = generation.steps[0].rows
    sites = [site for site in view.sites_of(view.own_role) if site.name in rows]
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
    sites = *view.sites_of(view.own_role), *view.sites_of("cross")
    shown = film_of(generation, sites, view.trace.config.predicts, _how(view), view.t)
    n_layers, n_heads = shown["own"].shape[:2]
    layer, head = view.state.layer, view.state.head
    film(
        **shown,
        key=KEY,
        scene=Scene(
            min(view.step, len(generation.steps) - 1),
            None if layer is None else min(layer, n_layers - 1),
            None if layer is None or head is None or head >= n_heads else head,
        ),
        words=view.words("components.film") | {"tgt": view.stream("tgt")},
    )


def _how(view: View) -> How:
    return cast(How, strategy_name(view.choices(DecodingChoices).strategy))
