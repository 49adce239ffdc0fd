"""The output token by token as a film: candidates and attention of every step."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from explorer.components.film import Scene, pack_film, read_scene, read_taken
from explorer.components.mount import whole
from explorer.engine import cache
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.decoding.choices import DecodingChoices
from explorer.exhibits.decoding.strategy import strategy_name
from explorer.exhibits.saying import guess_note, head_name
from explorer.figures.theme import show as shown
from explorer.numbers import fixed, percent
from explorer.runs.generation import Generation, GenerationStep, generate
from models import decoding
from models.foreign.elsewhere import RefillingBeam
from models.hooks import AttentionSite
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
    key = "decoding.result" if generation.finished else "decoding.result_unfinished"
    if generation.stopped:
        key = "decoding.result_stopped"
    count = len(generation.steps)
    result = view.t(key, logprob=fixed(generation.logprob), count=count)
    chosen = [(step.chosen_str, step.chosen_prob) for step in generation.steps if not step.forced]
    is_drawn = isinstance(view.choices(DecodingChoices).strategy, Sample)
    return " · ".join(filter(None, [result, "" if is_drawn else guess_note(view, chosen)]))


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
    ran = generation.steps[0].rows
    own = [site for site in view.sites_of(view.own_role) if site.name in ran]
    across = [site for site in view.sites_of("cross") if site.name in ran]
    row, places = whole_row(generation, view.trace.config.fills)
    at = min(view.step, len(generation.steps) - 1)
    return {
        "frames": [_frame(step, view) for step in generation.steps],
        "row": row,
        "own": stacked(generation, own),
        "cross": stacked(generation, across) if across else None,
        "source": generation.src_str_tokens,
        "places": places,
        "scene": Scene(at, *place_of(view, len(own), own[0].n_heads)),
        "words": view.words("components.film") | {"tgt": view.stream("tgt")},
    }


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


def _frame(step: GenerationStep, view: View) -> dict[str, Any]:
    """What a step shows in addition to its attention, for `pack_film`."""
    candidates = step.candidates
    how = strategy_name(view.choices(DecodingChoices).strategy)
    own = [float(np.exp(candidate.logprob)) for candidate in candidates]
    # Beam search and greedy decoding rank by the model's probabilities and truncate nothing.
    cuts = how == "sample" and not step.forced
    left = [candidate.prob for candidate in candidates] if cuts else own
    chosen = next(at for at, candidate in enumerate(candidates) if candidate.token == step.chosen)
    return {
        "tokens": [shown(candidate.str_token) for candidate in candidates],
        "own": [round(probability, 6) for probability in own],
        "left": [round(float(probability), 6) for probability in left],
        "kept": [candidate.kept or not cuts for candidate in candidates],
        "chosen": chosen,
        "forced": step.forced,
        "why": view.t(
            "decoding.why",
            "forced" if step.forced else how,
            step=step.index + 1,
            token=view.t("place.quoted", token=step.chosen_str),
            probability=percent(own[chosen]).replace(" ", "\u00a0"),
            rank=step.rank,
            drawn=percent(candidates[chosen].prob),
        ),
    }


def place_of(view: View, n_layers: int, n_heads: int) -> tuple[int | None, int | None]:
    """The film's layer and head; None for the mean over all of them."""
    layer, head = view.state.layer, view.state.head
    if layer is None:
        return None, None
    return min(layer, n_layers - 1), None if head is None or head >= n_heads else head


def name_place(view: View, layer: int | None, head: int | None) -> str:
    """A layer and head of the film in words."""
    if layer is None:
        return view.t("decoding.branches.everywhere")
    if head is None:
        return view.t("decoding.pass.mean", layer=layer + 1)
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
