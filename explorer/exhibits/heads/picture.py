"""All heads of each side, and what a click in them does."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from explorer.analysis.heads.measures import LANDMARKS, HeadMeasure
from explorer.components.heads_payload import HeadsSelection, Measure
from explorer.components.mount import Index
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.exhibits import View, block as b
from explorer.exhibits.block import escape
from explorer.exhibits.heads.opened import Opened
from explorer.exhibits.heads.sides import Sides, ViewPair
from explorer.exhibits.pictured import picture_axis
from explorer.exhibits.reasons import blocked_by
from explorer.exhibits.saying import blocker_words, model_title, site_axes, trained
from explorer.exports.picture import site_svg
from explorer.numbers import percent
from explorer.runs.passes import Steps
from explorer.runs.sentences import one_per_line
from models.hooks import Role

KEYS = "heads.view", "heads.beside"
Values = NDArray[np.float64] | None
"""A measure of each head, [layer, head]; None if there is none."""


def values_of(run: Run, kind: Role, name: str) -> Steps[Values]:
    """A measure of the heads of a run; None if it cannot be computed for one run. Raises
    InputProblem."""
    if name == "needed":
        return -(yield from cache.ablation.steps(run)).delta_logprob[kind] + 0.0  # no -0.0
    measures = yield from cache.measures.steps(run, kind)
    return measures.get(cast(HeadMeasure, name))


def pictures(sides: Sides, values: Sequence[Values] | None) -> b.Columns:
    """All heads of each side, below its sentence if there are two; in print, the shown heads.

    `values` are the chosen measure of each side's heads; None while they, and the thumbnails of a
    long text, are computed.
    """
    choice = sides.shown[0]
    still = partial(shown_svg, choice) if choice.selection.shown else None
    words = sides.view.t("take.picture")
    columns = [[*_column(sides, at, values)] for at in range(len(sides.shown))]
    return b.Columns(columns, still=still, words=words)


def _column(sides: Sides, at: int, values: Sequence[Values] | None) -> b.Blocks:
    key, choice = KEYS[at], sides.shown[at]
    view = choice.view
    if sides.pair is not None:
        yield b.Prose(_titled(view))
        view = _writing(sides.pair, view)
    if len(sides.shown) > 1:
        yield b.SentenceLine(f"sentence-{key}", view)
    if sides.pair is not None and at and (words := trained(view)):
        yield b.Note(words)
    place = choice.view.run, choice.view.kind, choice.words is not None
    if values is not None or choice.view.trace.patterns_kept or cache.thumbnails.is_kept(*place):
        name = choice.measure
        known = None if values is None else values[at]
        if name == "differs":
            known = choice.differs
        measure = None if name is None else measure_of(choice.view, name, known)
        shown = options(choice, measure) | {"bar": _bar(choice, is_first=at == 0)}
        yield b.AllHeads(key, cache.thumbnails(*place), shown, **_clicks(sides, at, choice))


# What the picture shows.


def _bar(choice: Opened, is_first: bool) -> dict[str, Any]:
    """What is offered above the heads; the buttons of the `is_first` picture are for both."""
    view = choice.view
    offered: dict[str, Any] = {"roles": _roles(choice)}
    if is_first:
        offered |= {"kinds": view.kinds, "kind": view.kind, "names": view.words("kinds.short")}
        if "needed" in choice.measure_names and choice.measure != "needed":
            offered["matter"] = view.t("heads.matter.run")
    return offered


def _roles(choice: Opened) -> list[tuple[str, int]]:
    """For each role its name with the highest value of a head, and the index of that head; none for
    a long text, whose patterns would be computed again."""
    view = choice.view
    if not (view.trace.patterns_kept or cache.measures.is_kept(view.run, view.kind)):
        return []
    roles, measures = [], cache.measures(view.run, view.kind)
    for name in LANDMARKS:
        if name in measures:
            best = int(np.nanargmax(measures[name]))
            value = percent(float(measures[name].flat[best]))
            roles.append((f"{view.t('heads.roles', name)} {value}", best))
    return roles


def options(choice: Opened, measure: Measure | None) -> dict[str, Any]:
    """The arguments of `heads_view` besides the thumbnails, its key and the name of its file."""
    view, trace = choice.view, choice.view.trace
    tokens = picture = None
    if choice.words is None and trace.config.picture is not None:
        picture = picture_axis(trace, view.site)
    starts: tuple[Any, ...] = (slice(None), slice(None))
    if choice.words is not None:
        queries, keys = choice.words
        tokens = (queries.labels, keys.labels)
        starts = np.ix_(queries.starts, keys.starts)

    def why(layer: int, head: int) -> list[list[str]]:
        names = blocked_by(trace, choice.sites[layer].name)[head]
        return blocker_words(view, names[starts])

    return {
        "cells_of": lambda address: choice.cells(choice.at(address)),
        "axes": site_axes(view, tokens=tokens),
        "about_to_write": predictions(choice),
        "blocked_by": why,
        "aggregates": [*map(choice.aggregate_name, choice.aggregates)],
        "measure": measure,
        "picture": picture,
        "selection": _by_word(choice),
        "words": view.words("components.heads_view"),
    }


def measure_of(view: View, name: str, values: Values) -> Measure | None:
    """A measure of all heads with its title; None without values."""
    title = view.t("heads.measures", name)
    return None if values is None else Measure(title, values, percent=name in LANDMARKS)


def _by_word(choice: Opened) -> HeadsSelection:
    """The selection in the picture's units: by word if the picture is by word."""
    selection = choice.selection
    if choice.words is None:
        return selection
    queries, keys = choice.words
    return replace(
        selection,
        query=None if selection.query is None else queries.of(selection.query),
        key=None if selection.key is None else keys.of(selection.key),
    )


def predictions(choice: Opened) -> list[str] | None:
    """The prediction at each query of the open kind of attention, by word if the picture is; "" for
    padding.

    The next token's is at a word's last token; a word of several tokens to fill in has none. None
    if there are no predictions: in the encoder of an encoder-decoder, or without an LM head.
    """
    view, trace = choice.view, choice.view.trace
    if view.site.query_stream != "tgt" or not trace.config.lm_head:
        return None
    pairs = zip(trace.predicted_str_tokens, trace.tgt_valid, strict=True)
    tokens = [token if real else "" for token, real in pairs]
    if choice.words is None:
        return tokens
    starts = choice.words[0].starts
    ends = (*starts[1:], len(tokens))
    return [
        "" if trace.config.fills and end - start > 1 else tokens[end - 1]
        for start, end in zip(starts, ends, strict=True)
    ]


def _titled(view: View) -> str:
    """A model's name and the sizes of its attention."""
    shape = view.t(
        "heads.versus.shape",
        kind=view.t("kinds", view.kind),
        layers=len(view.sites_of(view.kind)),
        heads=view.site.n_heads,
        d_model=view.loaded.config.d_model,
    )
    return f"**{escape(model_title(view, view.loaded.name))}**  \n{shape}"


def _writing(pair: ViewPair, view: View) -> View:
    """The view for the line with a model's output: the other model reads this one's output."""
    if view is pair.view or view.target in (None, pair.view.target):
        return view
    written = cache.trace(replace(view.run, target=None))
    return replace(view, state=replace(view.state, target=None), trace=written)


def shown_svg(choice: Opened) -> str:
    """The shown heads as an SVG."""
    view, shown = choice.view, choice.shown
    return site_svg(
        np.stack([head.pattern for head in shown]),
        np.stack([head.mask for head in shown]),
        site_axes(view),
        title=view.t("kinds", choice.view.kind),
        names=[pattern.name for pattern in shown],
        words=view.words("export"),
    )


# What a click does.


def _clicks(sides: Sides, at: int, choice: Opened) -> dict[str, Any]:
    """What a selection and the link of a cell do in one side's picture.

    All other pages show the left side: a link on the right one swaps them.
    """
    if at and sides.pair is not None:
        down = partial(_down, choice, elsewhere=True, **swapped(sides.pair))
        return {"change": partial(_picked_there, sides.pair), "down": down}
    texts: dict[str, Any] = {}
    if at:
        further = sides.view.text, *sides.view.others[1:]
        texts = {"text": choice.view.text, "target": None, "beside": one_per_line(further)}
    picked, down = partial(_picked, choice), partial(_down, choice, **texts)
    return {"change": picked, "down": down, "asked": partial(_asked, choice.view)}


def _asked(view: View, name: str) -> b.Change | None:
    """Another kind of attention, or the ablation of all heads."""
    if name in view.kinds:
        return b.choose(elsewhere=True, site=name)
    return b.choose(measure=name) if name == "needed" else None


def _picked(choice: Opened, chosen: HeadsSelection) -> b.Change:
    return b.choose(**choice.chosen(_by_token(choice, chosen)))


def _down(choice: Opened, place: Index, **more: Any) -> b.Change:
    """Open a cell on its own page."""
    layer, head, row, key = place
    if choice.words is not None:  # the first token of each word
        row, key = choice.words[0].starts[row], choice.words[1].starts[key]
    cell = {"layer": layer, "head": head, "row": row, "key": key, "goal": None}
    return b.choose(visit="score", **{**more, **cell})


def _picked_there(pair: ViewPair, chosen: HeadsSelection) -> b.Change:
    """A selection in the other model's picture: by number, it is made in both."""
    choice, own = Opened(pair.other), Opened(pair.view)
    chosen = _here(pair, _by_token(choice, chosen))
    if pair.compared is not None and pair.compared.by_number:
        return b.choose(**own.chosen(chosen))
    taken = replace(own.selection, query=chosen.query, key=chosen.key, scale=chosen.scale)
    choices = own.chosen(taken)
    if chosen.opened is not None and chosen.opened[0] < len(choice.sites):
        choices["with_head"] = chosen.opened
    return b.choose(**choices)


def _here(pair: ViewPair, chosen: HeadsSelection) -> HeadsSelection:
    """A selection in the other picture, converted to this model's tokens."""
    compared = pair.compared
    if chosen.query is None or compared is None:
        return replace(chosen, query=None, key=None)
    query = compared.queries.across(chosen.query, back=True)
    key = None if chosen.key is None else compared.keys.across(chosen.key, back=True)
    return replace(chosen, query=query, key=None if query is None else key)


def _by_token(choice: Opened, chosen: HeadsSelection) -> HeadsSelection:
    """A selection converted from words to tokens: the first token of each word."""
    if choice.words is None:
        return chosen
    queries, keys = choice.words
    return replace(
        chosen,
        query=None if chosen.query is None else queries.starts[chosen.query],
        key=None if chosen.key is None else keys.starts[chosen.key],
    )


def swapped(pair: ViewPair) -> dict[str, Any]:
    """The choices that swap the two models; the place in the kind of attention is dropped first."""
    other = pair.other
    models = {"model": other.loaded.name, "with_": pair.view.loaded.name, "site": other.kind}
    return {**models, "layer": other.layer, "head": other.head, "target": pair.view.target}
