"""An animation of the whole model on the user's sentence: every token, every head, every step."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast, get_args

import numpy as np

from explorer.analysis.heads.compare import token_diff
from explorer.analysis.start.flow import Flow, Lane, flow
from explorer.components.start import HeadDetails, Heads, Moment, Thread, pack_start, pick_of
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.exhibits import Exhibit, View, Wait, block as b, saying
from explorer.exhibits.choices import PartChoices, ScreenChoices
from explorer.exhibits.links import State
from explorer.exhibits.masks.causal import ahead
from explorer.exhibits.picking import pick_sinks
from explorer.exhibits.saying import left_out_words
from explorer.exhibits.start.choices import (
    CHANGES,
    SHUT,
    MaskName,
    StartChoices,
    in_force,
    with_mask,
)
from explorer.exhibits.view import is_translator
from explorer.library import SMALL, LoadedModel
from explorer.numbers import percent
from explorer.problems import InputProblem
from explorer.runs.edits import Edit
from explorer.runs.generation import MAX_NEW_TOKENS, Generation, generate, longest
from explorer.runs.inputs import given_tokens
from explorer.runs.passes import Steps
from explorer.text import has, in_units
from models.strategies import Greedy

PAGES = {
    "positions": "positions",
    "heads": "heads",
    "masks": "masks",
    "head": "score",
    "steps": "decoding",
}
"""The page that each station of the picture links to."""
UNSAID = ("no_logits", "nothing_to_fill")
"""Reasons for no output that the picture shows by itself."""
MOST_SIDE = 24
"""The maximum number of rows and columns of an open head: the first ones of a longer text."""
VECTORS, CELLS = ("q", "k", "v", "z"), ("scores", "mask", "pattern")
"""What an open head shows: a vector per token, and three matrices."""
MOST_FILLED, MOST_CONTINUED = 64, 24
"""Most masks that are filled in, and most tokens of a continuation; a translation is as long as on
every other page."""


@dataclass(frozen=True, eq=False)
class GreedyOutput:
    """The model's greedy output `made` and its flow; `before` is the output without the edits.

    Without an output, `problem` says why, and the flow shows the text alone.
    """

    flow: Flow
    made: Generation | None = None
    before: Generation | None = None
    problem: InputProblem | None = None


def written(plain: Run) -> Steps[GreedyOutput]:
    """The output of a run without padding, as far as it was generated when it was stopped, and its
    flow. Raises InputProblem."""
    generation = before = problem = None
    try:
        generation = yield from _greedy(plain, plain.edits)
        if plain.edits and not generation.stopped:
            before = yield from _greedy(plain, ())
    except InputProblem as refused:
        problem = refused
    traced = cache.trace(replace(plain, without_sinks=False))
    figure = flow(
        cache.open_model(plain.model), traced, generation, plain.edits, plain.without_sinks
    )
    return GreedyOutput(figure, generation, before, problem)


def _greedy(plain: Run, edits: tuple[Edit, ...]) -> Steps[Generation]:
    loaded = cache.open_model(plain.model)
    limit = MOST_CONTINUED if loaded.continues else MOST_FILLED
    if loaded.config.reads_source:
        limit = min(MAX_NEW_TOKENS, longest(loaded, given_tokens(loaded, plain.text)))
    return (yield from cache.generate.steps(plain.model, plain.text, Greedy(), edits, limit))


def plain_run(view: View) -> Run:
    """The run of the user's text and edits, without padding or a given output."""
    without_sinks = view.choices(PartChoices).without_sinks
    return Run(view.loaded.name, view.text, None, view.edits, 0, without_sinks)


def _read_text(view: View) -> b.Blocks:
    """The picture of the text alone, while a large model continues it."""
    if view.loaded.continues and view.loaded.n_parameters > SMALL:
        plain = replace(plain_run(view), without_sinks=False)
        text_alone = flow(view.loaded, cache.trace(plain), None, plain.edits)
        yield b.Hero((_picture(view, GreedyOutput(text_alone)),))


def show(greedy_output: GreedyOutput, view: View) -> b.Blocks:
    """The picture, what to try in it, and a way to the guided tour."""
    refused = [] if greedy_output.problem is None else [greedy_output.problem]
    why = [saying.message(problem, view.lang) for problem in refused if problem.key not in UNSAID]
    yield b.Hero((*map(b.Note, why), _picture(view, greedy_output)))
    yield from map(b.Prose, saying.labels_said(view))
    yield from map(b.Note, _notes(view, greedy_output.made))
    yield from _without_sinks(view, greedy_output.flow)
    if not view.choices(ScreenChoices).beamer:
        yield b.Note(f"{view.t('start.lead')} {view.t('start.try')}")
        tour = b.choose(visit="tour", lesson="", part="")
        yield b.Button("tour.way", view.t("tour.new_here"), tour, "route", kind="quiet")
    yield b.Formula.of(
        view.t("start.formula"),
        r"x_i = E_{t_i} + P_i",
        r"x \leftarrow x + \mathrm{softmax}\!\left(" + view.scaled(r"QK^\top") + r"\right)V",
        r"p = \mathrm{softmax}(W x_i)",
    )
    yield b.Code(
        (view.loaded.model.read, flow, *([generate] if greedy_output.made is not None else []))
    )
    yield b.Numbers(lambda: _numbers(view, greedy_output.flow))


def _without_sinks(view: View, journey: Flow) -> b.Blocks:
    """The switch that leaves sinks out, if a head has one, and how much it left out."""
    left_out = view.choices(PartChoices).without_sinks
    if left_out:
        yield b.Note(left_out_words(view, np.concatenate([site.weight for site in journey.sinks])))
    if left_out or any(cache.have_sinks(view.run, kind) for kind in view.kinds):
        yield pick_sinks(view)


def _notes(view: View, generation: Generation | None) -> list[str]:
    """What was not read as typed, and whether a translation is cut off."""
    notes = [saying.reading_notes(view, view.text, view.trace.unknown)]
    if (
        generation is not None
        and view.loaded.config.reads_source
        and not (generation.finished or generation.stopped)
    ):
        notes.append(view.t("place.unfinished"))
    return [note for note in notes if note]


def _numbers(view: View, journey: Flow) -> dict[str, list[object]]:
    """Each step's query position, and its most probable tokens with their probabilities."""
    tokens = journey.lanes[-1].tokens
    return {
        view.t("place.query"): [f"{step.token} {tokens[step.token]}" for step in journey.steps],
        view.t("decoding.token"): [
            " ".join(f"{token} {percent(chance)}" for token, chance in pairs)
            for pairs in (zip(step.tokens, step.chances, strict=True) for step in journey.steps)
        ],
    }


def _picture(view: View, greedy_output: GreedyOutput) -> b.Canvas:
    door = view.choices(StartChoices).door
    pack = partial(
        pack_start,
        threads(view, greedy_output.flow),
        moments(greedy_output.flow),
        masks=[(name, view.t("start.masks", name)) for name in _offered(view)],
        mask=in_force(view.edits),
        diff=_diff(view.loaded, greedy_output.before, greedy_output.made),
        door="" if door == SHUT else door,
        opened=_opened(view, greedy_output.flow) if door == "head" else None,
        about=_about(view),
        effect=_effect(view),
        prompt=_prompt(view, greedy_output.made),
        said=greedy_output.flow.steps[-1].text if greedy_output.made is not None else view.text,
        words=view.words("components.start"),
    )

    def packed(file: str, hrefs: Sequence[str] = ()) -> bytes:
        links = zip(PAGES, hrefs, strict=False)
        return pack(links={station: href for station, href in links if href})

    pages = [b.choose(visit=page) for page in PAGES.values()]
    on = {"picked": partial(_picked, view)}
    return b.Canvas("start.picture", "start", packed, on, pages)


def _about(view: View) -> str:
    """What the model is, in one line."""
    loaded, config = view.loaded, view.loaded.config
    alone = "decoder-only" if config.is_causal else "encoder-only"
    kind = "encoder-decoder" if config.reads_source else alone
    return view.t(
        "start.about",
        kind=view.t("start.models", "translator" if is_translator(loaded) else kind),
        weights=in_units(loaded.n_parameters, lang=view.lang),
        made=view.t("start.made") if has("models", loaded.name, lang=view.lang) else "",
    )


def _effect(view: View) -> str:
    """What the changed mask does to self-attention, in one line; "" for the trained one."""
    mask = in_force(view.edits)
    if mask == "alone":
        return view.t("start.effects.alone")
    lookahead = ahead(view.trace, view.own_role) if mask == "causal" else None
    if lookahead is None:
        return ""
    return view.t("start.effects.causal", share=percent(lookahead.share))


def _offered(view: View) -> tuple[MaskName, ...]:
    """The masks available for this model; only a decoder has a causal mask to disable."""
    causal = view.loaded.model.last_stack.causal
    return tuple(name for name in CHANGES if name != "causal" or causal)


def _picked(view: View, sent: Any) -> b.Change | None:
    """What the user opened and chose in the picture, or the page whose link was followed."""
    sites = [view.trace.blocks(stack) for stack in view.trace.stacks]
    heads = [[[site.n_heads for site in block] for block in lane] for lane in sites]
    pick = pick_of(sent, heads, get_args(MaskName))
    page = (pick.link or "").partition("?")[0]
    visit = page if page in PAGES.values() else ""
    opened: dict[str, Any] = {}
    if pick.head is not None:
        lane, block, at, head = pick.head
        site = sites[lane][block][at]
        opened = {"site": site.role, "layer": site.layer, "head": head, "door": "head"}
    elif pick.door is not None:
        opened = {"door": pick.door or SHUT}
    if pick.mask is None:
        return b.choose(visit=visit, **opened) if visit or opened else None
    mask = cast(MaskName, pick.mask)

    def choices(state: State) -> dict[str, Any]:
        return {"edits": with_mask(state.edits, mask), "step": None, **opened}

    return b.Change(choices, visit)


def _diff(
    loaded: LoadedModel, before: Generation | None, generation: Generation | None
) -> Sequence[tuple[str, str]]:
    """The tokens removed and added by the edits."""
    if generation is None or before is None:
        return ()
    return token_diff(_said(loaded, before), _said(loaded, generation))


def _prompt(view: View, generation: Generation | None) -> str:
    """The prompt of a text that is continued."""
    if generation is None or not view.loaded.continues:
        return ""
    return view.loaded.tokenizer.decode(generation.given)


def _said(loaded: LoadedModel, generation: Generation) -> list[str]:
    return [step.chosen_str for step in generation.steps if not loaded.marks.ends(step.chosen)]


def threads(view: View, journey: Flow) -> list[Thread]:
    """The sequences of a flow, for the component."""
    return [_thread(view, journey, lane) for lane in journey.lanes]


def _thread(view: View, journey: Flow, lane: Lane) -> Thread:
    last = lane is journey.lanes[-1]
    starts = lane.starts
    ends = (*starts[1:], len(lane.tokens))
    tokens = [
        lane.tokens[start] if end - start == 1 else f"{lane.tokens[start]} …"
        for start, end in zip(starts, ends, strict=True)
    ]
    blocks = [
        (
            view.t("start.block", number=layer + 1),
            [
                Heads(
                    title=view.t("start.kinds", attention.site.role),
                    role=attention.site.role,
                    cells=attention.pattern,
                    allowed=attention.allowed,
                    rows=attention.steps,
                    there=attention.allowed_then,
                )
                for attention in block
            ],
        )
        for layer, block in enumerate(lane.blocks)
    ]
    n_given = sum(start < journey.given for start in starts) if last else len(starts)
    return Thread(
        stream=lane.stack.stream,
        title=view.stream(lane.stack.stream),
        tokens=tokens,
        given=n_given,
        embedded=lane.embedded,
        waves=lane.waves,
        turns=lane.turns,
        blocks=blocks,
    )


def moments(journey: Flow) -> list[Moment]:
    """The steps of a flow, for the component."""
    return [
        Moment(step.thread, step.tokens, step.chances, step.chosen, step.text)
        for step in journey.steps
    ]


def _opened(view: View, journey: Flow) -> HeadDetails:
    """The open head over the displayed tokens; a row of a longer text sums to less than 1."""
    site, head = view.site, view.head
    tokens = {lane.stack.stream: lane.tokens for lane in journey.lanes}
    queries, keys = tokens[site.query_stream], tokens[site.key_stream]
    lane = [lane.stack.role for lane in journey.lanes].index(site.stack)
    names = [part.site.name for part in journey.lanes[lane].blocks[site.layer]]
    seen = {what: journey.activations[site.hook(what)] for what in (*VECTORS, *CELLS)}
    heads = dict.fromkeys(VECTORS, head) | dict.fromkeys(
        "kv", head * len(seen["k"]) // site.n_heads
    )
    shape = seen["pattern"].shape
    scores, allowed, pattern = (
        np.broadcast_to(seen[what], shape)[head, :MOST_SIDE, :MOST_SIDE] for what in CELLS
    )
    return HeadDetails(
        at=(lane, site.layer, names.index(site.name)),
        head=head,
        queries=queries[:MOST_SIDE],
        keys=keys[:MOST_SIDE],
        vectors={what: seen[what][heads[what], :MOST_SIDE] for what in VECTORS},
        scores=scores,
        allowed=allowed,
        pattern=pattern,
        whole=(len(queries), len(keys)),
    )


EXHIBIT = Exhibit(
    written,
    show,
    inputs={"plain": plain_run},
    wait=Wait("decoding.working", stop="decoding.stop", blocks=_read_text),
)
