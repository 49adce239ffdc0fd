"""All heads of one kind of attention, some of them large, and one query of the open one."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from explorer.analysis.heads.ablation import ablating
from explorer.analysis.heads.aggregates import MAX_ROWS
from explorer.analysis.heads.measures import (
    HEAD_MEASURES,
    LANDMARKS,
    HeadMeasure,
    KeyWeight,
    head_measures,
    measures_of,
    top_keys,
)
from explorer.analysis.heads.rollout import cross_rollout, mean_head, rollout
from explorer.analysis.heads.sinks import CLASSES, renormalised, sinks_of
from explorer.analysis.heads.versus import mean_divergence
from explorer.analysis.heads.words import by_word
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.choices import PartChoices
from explorer.exhibits.exhibit import WORDS
from explorer.exhibits.heads import exports
from explorer.exhibits.heads.choices import HeadsChoices
from explorer.exhibits.heads.opened import Opened
from explorer.exhibits.heads.picture import Values, pictures, predictions, values_of
from explorer.exhibits.heads.sides import compare_with, sides_of
from explorer.exhibits.links import State
from explorer.exhibits.picking import pick_one, pick_sinks, toggle
from explorer.exhibits.saying import in_a_row, left_out_words, quoted, quoted_at, site_axes
from explorer.figures.matrix import change
from explorer.numbers import fixed, percent
from explorer.runs.edits import HeadOff
from explorer.runs.passes import Steps
from models.attention import attend
from models.hooks import Role

Asked = tuple[Run, Role, bool, str]
"""Of a side its run and kind of attention, whether it is by word, and the measure to compute."""

AGGREGATES = {
    "mean": r"\bar A_\ell = \frac1H \sum_h A_{\ell h}",
    "rollout": r"R_\ell = \tfrac12(\bar A_\ell + I)\,R_{\ell - 1}, \qquad R_0 = I",
}
"""The formulas of the aggregates: Abnar & Zuidema 2020."""


def measured(asked: tuple[Asked, ...]) -> Steps[tuple[Values, ...]]:
    """The chosen measure of each side's heads. The thumbnails of a long text are computed before,
    layer by layer, and cached. Raises InputProblem."""
    values = []
    for run, kind, by_words, name in asked:
        if not cache.trace(run).patterns_kept:
            yield from cache.thumbnails.steps(run, kind, by_words)
        values.append((yield from values_of(run, kind, name)) if name else None)
    return tuple(values)


def _asked(view: View) -> tuple[Asked, ...]:
    asked = []
    for side in sides_of(view).shown:
        name = "" if side.measure in (None, "differs") else side.measure
        asked.append((side.view.run, side.view.kind, side.words is not None, name))
    return tuple(asked)


def _takes_long(view: View) -> bool:
    """Whether a head must be ablated, or the layers of a long text computed again."""
    for run, kind, by_words, name in _asked(view):
        if name == "needed" and not cache.ablation.is_kept(run):
            return True
        is_measured = name in ("", "needed") or cache.measures.is_kept(run, kind)
        known = is_measured and cache.thumbnails.is_kept(run, kind, by_words)
        if not (known or cache.trace(run).patterns_kept):
            return True
    return False


def show(values: tuple[Values, ...] | None, view: View) -> b.Blocks:
    """The reading, the controls, the picture, a switch that ablates the open head, and the
    difference of two. While `values` are computed, the picture has no measure."""
    sides = sides_of(view)
    choice = sides.shown[0]
    yield b.Hero((b.Sentence("heads", _reading(choice)),))
    yield _controls(choice)
    left_out = _sinks(choice) if view.choices(PartChoices).without_sinks else ()
    yield b.Hero((pictures(sides, values), *left_out))
    if values is not None and choice.measure in HEAD_MEASURES:
        yield from _even(choice, choice.measure)
    yield b.Note(_aggregates(choice))
    yield from _switch_off(choice)
    if len(choice.selection.shown) == 2:
        yield from _difference(choice)
    yield b.Formula(_formula(choice), view.t("heads.formula"))
    yield b.Code(_code(choice))
    yield b.Numbers(lambda: _numbers(choice))
    yield b.Export(lambda is_local: exports.files(choice, is_local))


# One query in words.


def _reading(choice: Opened) -> str:
    """The current query in one sentence with its numbers; by word if the picture is by word."""
    view, shown = choice.view, choice.current
    if shown is None:
        return view.t("heads.closed")
    queries: Sequence[str] = view.trace.query_tokens(view.site.name)
    keys: Sequence[str] = view.trace.key_tokens(view.site.name)
    row = last = view.row
    if choice.words is not None:
        of_queries, of_keys = choice.words
        row = of_queries.of(view.row)
        last = (*of_queries.starts[1:], len(queries))[row] - 1
        queries, keys = of_queries.labels, of_keys.labels
    top = top_keys(choice.cells(shown)[0][row], keys)
    values = {
        "name": shown.name,
        "query": quoted_at(view, queries, row),
        "looks": _looks(view, keys, top),
    }
    after = predictions(choice)
    predicted = after[row] if after else ""
    if not top:
        return view.t("heads.nothing", **values)
    if shown.site is None or not predicted:
        return view.t("heads.reading", **values)
    values["next"], given = quoted(view, predicted), _given(view, last)
    if given is not None and given != predicted:
        return view.t("heads.reading_given", given=quoted(view, given), **values)
    return view.t("heads.reading_next", **values)


def _looks(view: View, keys: Sequence[str], top: Sequence[KeyWeight]) -> str:
    return view.t("heads.and").join(
        view.t("heads.look", weight=percent(key.weight), key=quoted_at(view, keys, key.key))
        for key in top
        if key is top[0] or key.weight >= 0.01
    )


def _given(view: View, row: int) -> str | None:
    """The next token of a given text, which may differ from the predicted one."""
    if not view.trace.config.generates or row + 1 >= int(view.trace.tgt_valid.sum()):
        return None
    return view.trace.tgt_str_tokens[row + 1]


# The controls.


def _controls(choice: Opened) -> b.Row:
    view = choice.view
    choices = view.choices(HeadsChoices)
    offered, texts = ("", *choice.measure_names), view.words("heads.measures")
    names = texts | {"": texts["none"]}
    more = b.More(said=names.__getitem__, form="menu", width=250)
    measure = pick_one(view, "heads.measure", offered, choice.measure or "", **more)
    words = toggle(view, "heads.words", choices.words, help=view.t("heads.words_help"))
    other = b.PickModel(
        "heads.with",
        view.t("heads.versus.with"),
        choices.with_,
        lambda name: b.Change(lambda state: compare_with(state, name)),
        view.t("heads.versus.with_help"),
        250,
    )
    by_words = (words,) if WORDS.met(view.loaded) else ()
    left_out = view.choices(PartChoices).without_sinks
    if not (left_out or cache.have_sinks(view.run, view.kind)):
        return b.Row((measure, *by_words, other))
    return b.Row((measure, *by_words, other, pick_sinks(view)))


def _sinks(choice: Opened) -> Iterator[b.Note]:
    """What is left out of the picture as sinks, with the evidence of the open head."""
    view, shown = choice.view, choice.current
    layers = cache.sinks(view.run, view.kind)
    said = [left_out_words(view, np.array([layer.weight for layer in layers]))]
    if layers and shown is not None and shown.site is not None:
        of_site = layers[shown.site.layer]
        for at in np.flatnonzero(of_site.is_sink[:, shown.head]):
            evidence = {
                name: percent(float(getattr(of_site, name)[at, shown.head]))
                for name in ("share", "chance", "length")
            }
            keys = view.t("sinks.classes", CLASSES[at])
            said.append(view.t("sinks.sink", name=shown.name, keys=keys, **evidence))
    yield b.Note(in_a_row(said))


def _even(choice: Opened, name: HeadMeasure) -> Iterator[b.Note]:
    """A measure of the open head if it attended uniformly."""
    view, shown = choice.view, choice.current
    if shown is None or shown.site is None or shown.head is None:
        return
    even = float(head_measures(view.trace, shown.site.name, even=True)[name][shown.head])
    if not math.isnan(even):
        value = percent(even) if name in LANDMARKS else fixed(even)
        measure = view.t("heads.measures", name)
        yield b.Note(view.t("heads.even", measure=measure, value=value, name=shown.name))


def _aggregates(choice: Opened) -> str:
    """An explanation of the aggregates."""
    if not choice.aggregates:
        return choice.view.t("heads.no_aggregates", limit=MAX_ROWS)
    return f"{choice.view.t('heads.mean_note')} {choice.view.t('heads.rollout_note')}"


def _switch_off(choice: Opened) -> Iterator[b.Toggle]:
    """The switch that ablates the open head, if one is open."""
    view, shown = choice.view, choice.current
    if shown is None or shown.site is None or shown.head is None:
        return
    edit = HeadOff(shown.site.name, shown.head)

    def change(off: bool) -> b.Change:
        def switched(state: State) -> dict[str, Any]:
            others = tuple(other for other in state.edits if other != edit)
            edits = (*others, edit) if off else others
            return {"edits": edits, "layer": view.layer, "head": view.head}

        return b.Change(switched)

    label, off = view.t("heads.off", name=shown.name), edit in view.edits
    yield b.Toggle("heads.off", label, off, change, view.t("heads.off_help"))


def _difference(choice: Opened) -> b.Blocks:
    """The weights of the second of two heads minus the weights of the first."""
    view, (one, other) = choice.view, choice.shown
    changed = change(
        one.pattern,
        other.pattern,
        site_axes(view),
        masks=(one.mask, other.mask),
        selected=view.row,
        words={**view.words("figures.heatmap"), "before": one.name, "after": other.name},
    )
    title = view.t("heads.difference", one=one.name, other=other.name)
    yield b.Matrices("heads.difference", ((title, changed),))


# Formula, code and numbers.


def _formula(choice: Opened) -> tuple[str, ...]:
    """The formula of multi-head attention at this site, after the open aggregate's, if any."""
    view, shown = choice.view, choice.current
    source = "M" if view.site.kind == "cross" else "X"
    bias = " + b_{}" if view.loaded.config.bias else ""
    biased = " + B" if view.site.hook("bias") in view.trace.activations else ""
    formula = (
        rf"Q = X W_Q{bias.format('Q')}, \qquad K = {source} W_K{bias.format('K')}, \qquad "
        rf"V = {source} W_V{bias.format('V')}",
        r"\text{pattern} = \mathrm{softmax}_{\,m = 1}\!\left("
        + view.scaled(r"QK^\top")
        + rf"{biased}\right), \qquad "
        r"z = \text{pattern}\cdot V",
        rf"\text{{output}} = \mathrm{{Concat}}(z_1, \dots, z_{{{view.site.n_heads}}})\,W_O"
        + bias.format("O"),
    )
    aggregate = shown.aggregate if shown else None
    if aggregate is None or (aggregate.layer is None and view.kind == "cross"):
        return formula  # rollout of cross-attention goes through the encoder too
    return (AGGREGATES["rollout" if aggregate.layer is None else "mean"], *formula)


def _code(choice: Opened) -> list[object]:
    """The code of the open aggregate, of the heads, and of the measure."""
    view, shown = choice.view, choice.current
    code: list[object] = [view.loaded.model.get_submodule(view.site.name), attend]
    aggregate = shown.aggregate if shown else None
    if aggregate is not None:
        rolled = cross_rollout if view.kind == "cross" else rollout
        code.insert(0, rolled if aggregate.name == "rollout" else mean_head)
    if choice.measure is not None:
        known: dict[str, list[object]] = {"needed": [ablating], "differs": [mean_divergence]}
        code += known.get(choice.measure, [head_measures, measures_of])
    if choice.words is not None:
        code.append(by_word)
    return [*code, sinks_of, renormalised] if view.trace.without_sinks else code


def _numbers(choice: Opened) -> dict[str, list[object]]:
    view = choice.view
    shown = choice.current or choice.at((view.layer, view.head))
    columns: dict[str, list[object]] = {
        view.t("place.query"): [
            f"{row} {token}" for row, token in enumerate(view.trace.query_tokens(view.site.name))
        ]
    }
    for key, token in enumerate(view.trace.key_tokens(view.site.name)):
        columns[f"{key} {token}"] = [round(float(weight), 4) for weight in shown.pattern[:, key]]
    return columns


EXHIBIT = Exhibit(
    measured,
    show,
    inputs={"asked": _asked},
    wait=Wait("heads.working", long=_takes_long, blocks=lambda view: show(None, view)),
)
