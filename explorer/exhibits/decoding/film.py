"""The output token by token as a film: candidates and attention of every step."""

from functools import partial
from typing import Any, cast

import numpy as np

from explorer.components.film import Scene, pack_film, read_scene, read_taken
from explorer.components.mount import whole
from explorer.engine import cache
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.decoding.choices import DecodingChoices
from explorer.exhibits.decoding.strategy import strategy_name
from explorer.exhibits.saying import head_name
from explorer.exports.film import How, film_of
from explorer.numbers import fixed
from explorer.runs.generation import Generation, generate
from models import decoding
from models.foreign.elsewhere import RefillingBeam
from models.strategies import Beam, Greedy, Sample

KEY = "decoding.film"
BEAM = r"\text{score}(y) = \frac{\log p(y\mid x)}{|y|^{\alpha}}"
STRATEGIES: dict[type, str] = {
    Greedy: r"y_t = \arg\max_v \ell_{t,v}",
    Beam: BEAM,
    RefillingBeam: BEAM,
    Sample: r"y_t \sim p_T, \qquad p_T = \mathrm{softmax}(\ell_t / T)",
}


def show(generation: Generation, view: View) -> b.Blocks:
    """The output with its log-probability, and the film."""
    yield b.Hero(
        (
            b.SentenceLine(output=generation.text, note=_result(view, generation)),
            _film(view, generation),
        )
    )
    product = (
        r"p(y\mid x) = \prod_t p(y_t \mid y_{<t},\, x), \qquad "
        r"p(y_t \mid y_{<t},\, x) = \mathrm{softmax}(\ell_t)"
    )
    strategy = STRATEGIES[type(view.choices(DecodingChoices).strategy)]
    yield b.Formula((product, strategy), view.t("decoding.formula"))
    yield b.Code(_code(view))
    candidates = generation.steps[min(view.step, len(generation.steps) - 1)].candidates
    yield b.Numbers(
        lambda: {
            view.t("decoding.token"): [candidate.str_token for candidate in candidates],
            view.t("decoding.own"): [
                f"{np.exp(candidate.logprob):.4f}" for candidate in candidates
            ],
            view.t("decoding.logprob"): [f"{candidate.logprob:.3f}" for candidate in candidates],
            view.t("decoding.cut"): [f"{candidate.prob:.4f}" for candidate in candidates],
        }
    )


def _result(view: View, generation: Generation) -> str:
    key = (
        "result_stopped"
        if generation.stopped
        else "result"
        if generation.finished
        else "result_unfinished"
    )
    return view.t(f"decoding.{key}", logprob=fixed(generation.logprob), count=len(generation.steps))


def _film(view: View, generation: Generation) -> b.Canvas:
    film = arguments(view, generation)
    turn = view.choices(DecodingChoices).film_turn
    n_layers, n_heads, n_steps, _ = film["own"].shape

    def rested(sent: Any) -> b.Change | None:
        scene = read_scene(sent, n_steps, n_layers, n_heads)
        if scene is None:
            return None
        return b.choose(**vars(scene), film_turn=whole(sent.get("turn")))

    def taken(sent: Any) -> b.Change | None:
        place_taken = read_taken(sent, film["frames"])
        if place_taken is None:
            return None
        step, place = place_taken
        token = generation.steps[step].candidates[place].token
        return b.choose(fork=(*generation.tokens[:step], token), part="branches", step=step)

    pack = partial(pack_film, **film, turn=turn)
    return b.Canvas(KEY, "film", lambda file: pack(file=file), {"rested": rested, "taken": taken})


def arguments(view: View, generation: Generation) -> dict[str, Any]:
    """The film of a Generation at the view's step, as arguments of `components.film`."""
    sites = *view.sites_of(view.own_role), *view.sites_of("cross")
    how = cast(How, strategy_name(view.choices(DecodingChoices).strategy))
    shown = film_of(generation, sites, view.trace.config.fills, how, view.t)
    n_layers, n_heads = shown["own"].shape[:2]
    scene = Scene(min(view.step, len(generation.steps) - 1), *place_of(view, n_layers, n_heads))
    words = view.words("components.film") | {"tgt": view.stream("tgt")}
    return {**shown, "scene": scene, "words": words}


def place_of(view: View, n_layers: int, n_heads: int) -> tuple[int | None, int | None]:
    """The film's layer and head; None for the mean over all of them."""
    layer, head = view.state.layer, view.state.head
    if layer is None:
        return None, None
    return min(layer, n_layers - 1), None if head is None or head >= n_heads else head


def name_place(view: View, layer: int | None, head: int | None) -> str:
    """A layer and head of the film in words."""
    if layer is None:
        return view.t("branches.everywhere")
    if head is None:
        return view.t("onepass.mean", layer=layer + 1)
    return head_name(view, (layer, head))


def _code(view: View) -> tuple[object, ...]:
    """The code of the decoding loop, the strategy, and the forward pass."""
    model, choices = view.loaded.model, view.choices(DecodingChoices)
    fills, rules = model.config.fills, view.loaded.asked.rules
    writer = decoding._Filler if fills else decoding._Writer
    reads = (model.read,) if fills else (model.last_stack.run, model.logits_of)
    ruled = (rules.applied,) if rules and choices.ruled and not fills else ()
    return decoding._steps, writer, choices.strategy, *ruled, *reads, decoding.decode, generate


INPUTS = {
    "model": lambda view: view.loaded.name,
    "forced": lambda view: view.choices(DecodingChoices).fork,
}
EXHIBIT = Exhibit(
    cache.generate, show, inputs=INPUTS, wait=Wait("decoding.working", stop="decoding.stop")
)
