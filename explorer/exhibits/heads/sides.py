"""What is shown next to the heads: a second sentence, or another model on the same sentence."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.analysis.heads.versus import Versus, input_role
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.engine.runs import closest, versus
from explorer.exhibits.block import escape
from explorer.exhibits.choices import PartChoices
from explorer.exhibits.heads.choices import HeadsChoices
from explorer.exhibits.heads.opened import Opened
from explorer.exhibits.links import FREE, Links, State
from explorer.exhibits.saying import model_title
from explorer.exhibits.view import View, build, sinkless
from explorer.once import once
from explorer.problems import InputProblem
from explorer.runs.rerun import written_tokens
from models.hooks import Role

_LINKS = Links(HeadsChoices)


@dataclass(frozen=True, eq=False)
class ViewPair:
    """This model's view and the compared model's view, for the same sentence.

    `compared` is the comparison for the current kind of attention; None if the other model does not
    have this kind, so that its picture shows another kind.
    """

    view: View
    other: View
    compared: Versus | None

    @property
    def differs(self) -> NDArray[np.float64] | None:
        """The difference between heads of the same index, [layer, head] in bits."""
        return None if self.compared is None else self.compared.difference


@dataclass(frozen=True, eq=False)
class Sides:
    """The view, and next to it the view of a second sentence or of another model (`pair`).

    `problems` are the reasons why one that was chosen cannot be shown.
    """

    view: View
    second: View | None = None
    pair: ViewPair | None = None
    problems: list[InputProblem] = field(default_factory=list)

    @once
    def shown(self) -> tuple[Opened, ...]:
        """The heads of each side, from the left."""
        if self.pair is not None:
            pair = self.pair
            return Opened(pair.view, pair.differs), Opened(pair.other, pair.differs)
        views = (self.view,) if self.second is None else (self.view, self.second)
        return tuple(map(Opened, views))


def sides_of(view: View) -> Sides:
    """What this view is shown next to, all without sinks if that is chosen."""
    if view.choices(PartChoices).without_sinks:
        view = sinkless(view)
    problems: list[InputProblem] = []
    for find in (pair_of, second_of):
        try:
            partner = find(view)
        except InputProblem as problem:
            problems.append(problem)
            continue
        if isinstance(partner, ViewPair):
            return Sides(view, pair=partner)
        if partner is not None:
            return Sides(view, partner, problems=problems)
    return Sides(view, problems=problems)


def is_ablated(view: View) -> bool:
    """Whether the ablation of all heads is requested, and has an output to measure."""
    is_requested = view.choices(HeadsChoices).measure == "needed" or not view.asks
    return is_requested and bool(written_tokens(view.trace))


RunPair = tuple[Run, Run, Role]
"""The run, the compared model's run, and the kind of attention."""


def run_pair(view: View) -> RunPair | None:
    """What is compared; None without another model."""
    pair = sides_of(view).pair
    return None if pair is None else (view.run, pair.other.run, view.kind)


def second_of(view: View) -> View | None:
    """The same choices for the first sentence to compare with; None if there is none.

    Raises InputProblem if it cannot be read.
    """
    if not view.others:
        return None
    # Pass the head explicitly: the other sentence's default head may differ.
    state = replace(view.state, layer=view.layer, head=view.head, text=view.others[0], target=None)
    second = build(state, view.dark, view.pads)
    return sinkless(second) if view.choices(PartChoices).without_sinks else second


def pair_of(view: View) -> ViewPair | None:
    """The view and the other model's view; None if none was chosen.

    Raises InputProblem if it cannot be shown.
    """
    name = view.choices(HeadsChoices).with_
    if name in ("", view.loaded.name):
        return None
    if cache.open_model(name).config.picture != view.loaded.config.picture:
        raise InputProblem("other_input", name=name)
    without_sinks = view.choices(PartChoices).without_sinks
    run = Run(name, view.text, _shared_target(view, name), view.edits, view.pads, without_sinks)
    compared = versus(view.run, run, view.kind)
    role = input_role(cache.trace(run)) if compared is None else compared.other_role
    other = build(_state(view, run, compared, role), view.dark, view.pads)
    return ViewPair(view, sinkless(other) if without_sinks else other, compared)


def _shared_target(view: View, name: str) -> str | None:
    """The target text for the other model: this model's output.

    Both models then predict the same positions. None if only one of them reads a source sequence.
    """
    if cache.open_model(name).model.reads != view.loaded.model.reads:
        return None
    return view.target or view.trace.output or None


def _state(view: View, run: Run, compared: Versus | None, role: Role) -> State:
    """The state for the other picture: the same selection, if the other model has it."""
    chosen = view.choices(HeadsChoices)
    row = view.row if view.state.row != FREE else FREE
    place: dict[str, Any] = {"layer": None, "head": None, "row": None, "key": None}
    pins: tuple[Any, ...] = ()
    if compared is not None:
        at = _open_there(view, run, compared, chosen.with_head)
        if at is not None:
            place |= {"layer": at[0], "head": at[1]}
        if compared.by_number:
            pins = chosen.pins
        place["row"] = FREE if row == FREE else compared.queries.across(row)
        if place["row"] not in (None, FREE) and view.state.key is not None:
            place["key"] = compared.keys.across(view.state.key)
    place |= {"model": run.model, "text": run.text, "target": run.target, "site": role}
    return _LINKS.change(view.state, pins=pins, **place)


def _open_there(
    view: View, run: Run, compared: Versus, wanted: tuple[int, int] | None
) -> tuple[int, int] | None:
    """The open head of the other picture: the same index, the chosen one, or the most similar
    one."""
    if compared.by_number:
        return view.layer, view.head
    layers, heads = compared.shapes[1]
    if wanted is not None and wanted[0] < layers and wanted[1] < heads:
        return wanted
    neighbour = closest(view.run, run, view.kind, view.layer, view.head)
    return None if neighbour is None else neighbour[0]


def names_of(pair: ViewPair) -> dict[str, object]:
    """The names of both models, as fields of texts."""
    one, other = (model_title(pair.view, side.loaded.name) for side in (pair.view, pair.other))
    return {"one": escape(one), "other": escape(other)}


def compare_with(state: State, name: str) -> dict[str, Any]:
    """The choices that compare with a model and sort the heads by difference; "" ends the
    comparison."""
    chosen: dict[str, Any] = {"with_": name, "with_head": None}
    if name:
        return chosen | {"measure": "differs", "by_measure": True}
    measured = state.of(HeadsChoices).measure
    return chosen | {"measure": "" if measured == "differs" else measured}
