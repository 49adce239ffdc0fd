"""The compared model: its choice, its input, and the selection in its picture."""

from dataclasses import dataclass, replace

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from explorer.analysis.heads.versus import Versus, input_role
from explorer.components import HeadsSelection, sent_cell, sent_selection
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.exhibits.escape import escape
from explorer.exhibits.heads.choices import HeadsChoices
from explorer.exhibits.heads.opened import Opened
from explorer.exhibits.links import FREE, State
from explorer.exhibits.saying import model_title
from explorer.exhibits.view import View, build
from explorer.pages.heads import cached
from explorer.pages.heads.picture import (
    BESIDE,
    KEY,
    by_token,
    draw_heads,
    shape_of,
    tokens_at,
)
from explorer.problems import InputProblem
from explorer.ui import controls, session
from explorer.ui.hints import trained
from explorer.ui.parts import pick_model
from explorer.ui.problem import show_problem
from models.hooks import Role


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

    def closest(self, layer: int, head: int) -> tuple[tuple[int, int], float] | None:
        """The most similar head of the other model for this sentence, and the difference in
        bits."""
        return cached.closest(self.view.run, self.other.run, self.view.kind, layer, head)


def pick_other(view: View) -> None:
    """The control for the compared model; choosing one sorts the heads by difference."""
    with st.container(width=250):
        label, why = view.t("versus.with"), view.t("versus.with_help")
        pick_model(view, view.choices(HeadsChoices).with_, label, why, compare_with, "heads.with")


def compare_with(name: str) -> None:
    """Compare with a model and sort the heads by difference; "" ends the comparison."""
    if name:
        session.change(with_=name, with_head=None, measure="differs", by_measure=True)
    else:
        measured = session.state().of(HeadsChoices).measure
        session.change(with_="", with_head=None, measure="" if measured == "differs" else measured)


def pair_of(view: View) -> ViewPair | None:
    """The view and the other model's view; None if none was chosen or it cannot be shown.

    An error is shown in its place.
    """
    name = view.choices(HeadsChoices).with_
    if name in ("", view.loaded.name):
        return None
    try:
        if cache.open_model(name).config.picture != view.loaded.config.picture:
            raise InputProblem("other_input", name=name)
        run = Run(name, view.text, _shared_target(view, name), view.edits, view.pads)
        compared = cached.versus(view.run, run, view.kind)
        role = input_role(cache.trace(run)) if compared is None else compared.other_role
        return ViewPair(
            view, build(_state(view, run, compared, role), view.dark, view.pads), compared
        )
    except InputProblem as problem:
        show_problem(problem, view.lang)
        return None


def _shared_target(view: View, name: str) -> str | None:
    """The target text for the other model: this model's output.

    Both models then predict the same positions. None if only one of them reads a source sequence.
    """
    theirs = cache.open_model(name)
    if theirs.config.reads_source != view.loaded.config.reads_source:
        return None
    return view.target or view.trace.output or None


def _state(view: View, run: Run, compared: Versus | None, role: Role) -> State:
    """The state for the other picture: the same selection, if the other model has it."""
    chosen = view.choices(HeadsChoices)
    row = view.row if view.state.row != FREE else FREE
    place: dict[str, object] = {"layer": None, "head": None, "pins": (), "row": None, "key": None}
    if compared is not None:
        at = _open_there(view, run, compared, chosen.with_head)
        if at is not None:
            place |= {"layer": at[0], "head": at[1]}
        if compared.by_number:
            place["pins"] = chosen.pins
        place["row"] = FREE if row == FREE else compared.queries.across(row)
        if place["row"] not in (None, FREE) and view.state.key is not None:
            place["key"] = compared.keys.across(view.state.key)
    place |= {"model": run.model, "text": run.text, "target": run.target, "site": role}
    return session.links().change(view.state, **place)


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
    found = cached.closest(view.run, run, view.kind, view.layer, view.head)
    return None if found is None else found[0]


def take_clicks(pair: ViewPair) -> bool:
    """Store a selection from the other model's picture in the state; return whether there was
    one."""
    choice = Opened(pair.other, pair.differs)
    chosen = sent_selection(BESIDE, shape_of(choice), len(choice.aggregates))
    if chosen is None:
        return False
    chosen = _here(pair, by_token(choice, chosen))
    if pair.compared is not None and pair.compared.by_number:
        session.change(**Opened(pair.view, pair.differs).chosen(chosen))
        return True
    own = Opened(pair.view)
    taken = replace(own.selection, query=chosen.query, key=chosen.key, scale=chosen.scale)
    session.change(**own.chosen(taken))
    if chosen.opened is not None and chosen.opened[0] < len(choice.sites):
        session.change(with_head=chosen.opened)
    return True


def _here(pair: ViewPair, chosen: HeadsSelection) -> HeadsSelection:
    """A selection in the other picture, converted to this model's tokens."""
    compared = pair.compared
    if chosen.query is None or compared is None:
        return replace(chosen, query=None, key=None)
    query = compared.queries.across(chosen.query, back=True)
    key = None if chosen.key is None else compared.keys.across(chosen.key, back=True)
    return replace(chosen, query=query, key=None if query is None else key)


def go_down(pair: ViewPair) -> None:
    """Go to the Cell page of the other model if a cell's link was clicked in its picture.

    The two models then swap places, since all other pages show the first one.
    """
    choice = Opened(pair.other)
    place = sent_cell(BESIDE, shape_of(choice))
    if place is None:
        return
    layer, head, row, column = place
    row, column = tokens_at(choice, row, column)
    swap(pair)
    session.change(layer=layer, head=head, row=row, key=column, goal=None)
    session.visit("cell")


def swap(pair: ViewPair) -> None:
    """Swap the two models."""
    view, other = pair.view, pair.other
    session.change_site(model=other.loaded.name, with_=view.loaded.name, site=other.kind)
    session.change(layer=other.layer, head=other.head, target=view.target)


def linked_pair(pair: ViewPair) -> None:
    """Both models side by side, for the same sentence."""
    sides = (pair.view, KEY), (pair.other, BESIDE)
    for column, (each, key) in zip(st.columns(2, gap="large"), sides, strict=True):
        with column:
            config = each.loaded.config
            st.markdown(
                f"**{escape(model_title(each, each.loaded.name))}**  \n"
                + each.t(
                    "versus.shape",
                    kind=each.t(f"kinds.{each.kind}"),
                    layers=len(each.sites_of(each.kind)),
                    heads=each.site.n_heads,
                    d_model=config.d_model,
                )
            )
            controls.sentence_line(_writing(pair, each), f"sentence-{key}")
            if each is pair.other:
                trained(each)
            draw_heads(Opened(each, pair.differs), key)


def _writing(pair: ViewPair, each: View) -> View:
    """The view for the line with a model's output: the other model reads this one's output."""
    if each is pair.view or each.target in (None, pair.view.target):
        return each
    written = cache.trace(replace(each.run, target=None))
    return replace(each, state=replace(each.state, target=None), trace=written)
