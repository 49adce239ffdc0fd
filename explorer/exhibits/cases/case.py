"""The open case: a common bug and its symptom, a claim and the user's guess, or a choice."""

import inspect
import tomllib
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from explorer.analysis.cases import BUGS, BY_ID, CHOICES, CLAIMS, GROUPS, Case
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.cases.choices import GUESSES, CasesChoices
from explorer.exhibits.picking import pick_one, pick_place
from explorer.figures.curves import unmeasured
from models.training.home import asset

CASES = {"bugs": BUGS, "claims": CLAIMS, "choices": CHOICES}
"""The cases of each part of the page."""
FIELDS = {"bugs": "case", "claims": "claim", "choices": "option"}
"""The field of CasesChoices with the open case of each part."""
PLACES: dict[str, dict[str, Any]] = {
    "notation": {"visit": "masks", "part": "conventions"},
    "fill": {"visit": "masks", "part": "fills"},
}
"""Where a choice is measured that has controls of its own."""


@cache
def stored(name: str) -> dict[str, list[str]]:
    """What a file of `assets/cases` has of each case, by its id."""
    with asset("cases", f"{name}.toml").open("rb") as file:
        return tomllib.load(file)


def formulas() -> dict[str, list[str]]:
    """The LaTeX of what each claim says, or the wrong and the right lines of a bug compute."""
    return stored("formulas")


def opened(view: View) -> Case:
    """The open case of the open part."""
    part = view.one_of("part", tuple(GROUPS))  # the first in a notebook
    return BY_ID.get(getattr(view.choices(CasesChoices), FIELDS[part]), CASES[part][0])


def _open(id: str) -> b.Change:
    part = BY_ID[id].part
    chosen: dict[str, Any] = {FIELDS[part]: id}
    return b.choose(**chosen | ({"guess": ""} if part == "claims" else {}))


def compute(opened: str) -> Case:
    """The open case."""
    return BY_ID[opened]


def show(case: Case, view: View) -> b.Blocks:
    """The choice of a case, what it is about, its formula, and its code."""
    if view.edits:
        yield b.Note(view.t("shell.unedited"))
    claims = case.part == "claims"
    groups: dict[str, list[str]] = {name: [] for name in GROUPS[case.part]}
    for entry in CASES[case.part]:
        groups[entry.group].append(entry.id)
    more = b.More(change=lambda group: _open(groups[group][0]))
    yield pick_one(view, "cases.group", tuple(groups), case.group, **more)
    titles = {entry: view.t("cases", entry, "title") for entry in groups[case.group]}
    more = b.More(said=titles.__getitem__, change=_open, form="menu" if claims else "buttons")
    key = "cases.claim" if claims else "cases.case"
    yield pick_one(view, key, tuple(titles), case.id, label="cases.case", quiet=True, **more)
    title = b.Title(titles[case.id], large=True)
    if claims:
        guessed = view.choices(CasesChoices).guess or None
        guess = pick_one(view, "cases.guess", GUESSES, guessed, said="cases.verdicts")
        still: list[b.Block] = [b.Prose(f"${view.formula(line)}$") for line in formulas()[case.id]]
        if not guess.now:
            axes = [view.t("cases.columns", name) for name in stored("axes")[case.id]]
            draw = partial(unmeasured, view.t("cases.waiting"), *axes)
            still.append(b.Chart("cases.still", draw, view.t("cases.waiting")))
        yield b.Hero((title, guess, *(() if guess.now else still)))
        ids = [id for inside in groups.values() for id in inside]
        following = ids[(ids.index(case.id) + 1) % len(ids)]
        yield b.Button("cases.next", view.t("cases.next"), _open(following), "arrow_forward")
        yield b.Formula(formulas()[case.id], view.t("cases.formula"))
        yield b.Code((case.measure, *_filled_in(case.measure)))
        return
    if case.part == "choices":
        yield b.Hero((title, b.Prose(view.t("cases", case.id, "lead"))))
        if case.id in PLACES:
            yield b.Button("cases.open", view.t("cases.open"), b.choose(**PLACES[case.id]))
        elif case.group == "backend":
            yield b.Row(pick_place(view, "cases"))
        yield b.Formula(formulas()[case.id], view.t("cases", case.id, "formula"))
        yield b.Code((case.measure,))
        return
    yield b.Hero((title, b.Sentence("cases", view.t("cases", case.id, "symptom"))))
    lines = zip(("wrong", "right"), formulas()[case.id], strict=True)
    named = [rf"\text{{{name}}}:\quad {line}" for name, line in lines]
    symbols = case.group if case.group in ("model", "training") else "masks"
    yield b.Formula(named, view.t("cases.formulas", symbols))
    yield b.Code((case.measure, case.variant, case.plain))


def _filled_in(test: Callable[..., object]) -> list[object]:
    """The default arguments of an experiment that tests may replace: how a small model is trained,
    how time is measured, what entries are sampled from."""
    defaults = [parameter.default for parameter in inspect.signature(test).parameters.values()]
    return [
        default
        for default in defaults
        if inspect.isfunction(default) and default.__module__.startswith(("explorer.", "models."))
    ]


EXHIBIT = Exhibit(compute, show, inputs={"opened": lambda view: opened(view).id})
