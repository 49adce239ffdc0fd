"""Behaviours: every head on repeated random sequences, and the open head on the text."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from explorer.analysis.circuits.behaviour import (
    BEHAVIOURS,
    Behaviour,
    HeadScores,
    behaviour,
    best_by_chance,
    looked,
    places_of,
)
from explorer.analysis.circuits.chance import COPIES, Chance, by_chance, shuffle
from explorer.analysis.circuits.rows import Twice, random_twice, said_twice, twice
from explorer.components.mount import Index
from explorer.engine.models import chance_level, head_behaviour, work_of_chance
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.circuits.choices import CircuitsChoices
from explorer.exhibits.circuits.place import chosen_head, open_head, scope, tokens_matrix
from explorer.exhibits.picking import pick_one
from explorer.exhibits.saying import head_columns, head_name, in_a_row
from explorer.figures.maps import head_maps
from explorer.library import LoadedModel
from explorer.numbers import fixed, percent
from explorer.runs.passes import Steps
from explorer.runs.run import run

AT_ONCE = 3e11
"""Most tokens times parameters for which `chance` runs without a click: three times the cost for a
translator of 7.6 million parameters."""


@dataclass(frozen=True, eq=False)
class Roles:
    """The behaviour of every head on synthetic sequences, `own` on the text `given` twice (`cut`:
    without its end); chance, if tested. `name` is the open behaviour; `pattern` and `mask` [query,
    key] are of the open head `at`, on the text."""

    found: HeadScores
    own: HeadScores
    chance: Chance | None
    name: Behaviour
    at: tuple[int, int]
    given: Twice
    cut: bool
    pattern: np.ndarray
    mask: np.ndarray


def _asked(view: View) -> bool:
    """Whether to compare with chance: if that is quick, done already, or what the user wants."""
    model = view.loaded.name
    known = chance_level.is_kept(model) or view.choices(CircuitsChoices).by_chance == model
    return known or work_of_chance(view.loaded) <= AT_ONCE


def compute(
    loaded: LoadedModel,
    text: str,
    asked: bool,
    behaviour: Behaviour | None,
    at: tuple[int, int] | None,
) -> Steps[Roles]:
    """With the clearest behaviour and its best head by default. Raises InputProblem."""
    chance = (yield from chance_level.steps(loaded.name)) if asked else None
    behaviours, own = head_behaviour(loaded.name), head_behaviour(loaded.name, text)
    name = behaviour or behaviours.clearest(chance)
    layer, head = at or behaviours.best(name)
    sequences, cut = said_twice(loaded, text)
    hooks = [own.sites[layer].hook(part) for part in ("pattern", "mask")]
    kept = run(loaded.model, sequences.rows, set(hooks))
    pattern, mask = (kept[hook][0, head].numpy() for hook in hooks)
    return Roles(behaviours, own, chance, name, (layer, head), sequences, cut, pattern, mask)


def show(roles: Roles, view: View) -> b.Blocks:
    """The ranking of all heads by one behaviour, and the open head's pattern."""
    yield from scope(view)
    behaviours, chance, name = roles.found, roles.chance, roles.name
    pictures = b.Columns((_map(view, roles), [*_pattern(view, roles)]))
    yield b.Hero((b.Sentence("circuits", _reading(view, roles)), pictures))
    if chance is None:
        test = b.choose(by_chance=view.loaded.name)
        yield b.Button("circuits.test", view.t("circuits.test"), test)
    yield pick_one(view, "circuits.behaviour", BEHAVIOURS, name, said=partial(role_name, view))
    yield b.Note(view.t("circuits.what", name))
    if name == "induction" and not np.isnan(behaviours.copied):
        halves = {"first": fixed(behaviours.first_half), "second": fixed(behaviours.second_half)}
        yield b.Note(view.t("circuits.copied", copied=percent(behaviours.copied), **halves))
    yield _best_of_all(view, behaviours, chance)
    notes = [view.t("circuits.measured_on", rows=behaviours.n_rows, n=behaviours.n)]
    if chance is not None:
        notes.append(view.t("circuits.chance_note", copies=COPIES))
    yield b.Note(" ".join(notes))
    yield b.Formula.of(
        view.t("circuits.formula"),
        r"\text{score}(h) = \frac1{|Q|}\sum_{i \in Q} \text{pattern}_{h,\,i,\,j(i)}",
        r"j(i) = i - 1, \qquad i - n, \qquad i - n + 1, \qquad 0",
    )
    yield b.Code(_code(chance))
    yield b.Numbers(lambda: _numbers(view, behaviours))


def role_name(view: View, name: Behaviour) -> str:
    """The name of a role of heads, as the atlas has it."""
    return view.t("roles", "repeat" if name == "duplicate" else name)


def _reading(view: View, roles: Roles) -> str:
    """The reading: the best head compared with chance, and the open head on the open text."""
    behaviours, own, chance, name = roles.found, roles.own, roles.chance, roles.name
    best, strength = behaviours.best(name), behaviours.strength(name, chance)
    values = {
        "verdict": view.t("circuits.best", strength, place=head_name(view, best)),
        "name": view.t("circuits.names", name),
        "score": percent(float(behaviours.scores[name][best])),
        "even": _uniform(view, roles),
    }
    if chance is None:
        sentences = [view.t("circuits.reading", **values)]
    else:
        most = percent(chance.most(name))
        sentences = [view.t("circuits.reading_tested", chance=most, **values)]
    if own.n > 1:
        sentences.append(
            view.t(
                "circuits.on_text",
                place=head_name(view, roles.at),
                score=percent(float(own.scores[name][roles.at])),
                even=percent(own.even[name]),
            )
        )
    return in_a_row(sentences)


def _uniform(view: View, roles: Roles) -> str:
    """The score of uniform attention."""
    return view.t("circuits.even", even=percent(roles.found.even[roles.name]))


def _map(view: View, roles: Roles) -> list[b.Block]:
    behaviours, name = roles.found, roles.name
    title = view.t("circuits.map_title", name=role_name(view, name))
    values = behaviours.scores[name]
    shown = head_maps(
        [values],
        [_uniform(view, roles)],
        top=round(max(float(values.max()), behaviours.even[name], 0.05), 2),
        selected=(0, *roles.at),
        words=view.words("figures.maps") | {"value": view.t("circuits.score")},
    )

    def opened(place: Index) -> b.Change:
        return open_head(view, (place[1], place[2]))

    return [b.Note(title), b.Matrices("circuits.map", shown, picked=opened)]


def _pattern(view: View, roles: Roles) -> b.Blocks:
    """The open head on the repeated open text, with the cells that define the behaviour."""
    labels = view.loaded.str_tokens(roles.given.tokens[0].tolist())
    rings = places_of(roles.given)[roles.name]
    drawn = tokens_matrix(view, roles.pattern, roles.mask, labels, rings)
    title = view.t("circuits.pattern_title", place=head_name(view, roles.at))
    yield b.Matrices("circuits.pattern", ((title, drawn),))
    yield b.Note(view.t("circuits.rings", name=view.t("circuits.names", roles.name)))
    if roles.cut:
        yield b.Note(view.t("circuits.cut", count=roles.given.n))


def _best_of_all(view: View, head_scores: HeadScores, chance: Chance | None) -> b.Table:
    """The best head of each behaviour, in the model and in copies with shuffled weights."""
    rows = []
    for name in BEHAVIOURS:
        best = head_scores.best(name)
        rows.append(
            [
                role_name(view, name),
                head_name(view, best),
                percent(float(head_scores.scores[name][best])),
                percent(head_scores.even[name]),
                "–" if chance is None else percent(chance.most(name)),
            ]
        )
    columns = ("what", "best", "score", "even", "chance")
    return b.Table([view.t("circuits.columns", name) for name in columns], rows, "llrrr")


def _code(chance: Chance | None) -> list[object]:
    further = [] if chance is None else [best_by_chance, by_chance, shuffle]
    return [behaviour, random_twice, twice, looked, places_of, *further]


def _numbers(view: View, head_scores: HeadScores) -> dict[str, list[object]]:
    places = [*np.ndindex(*head_scores.scores["previous"].shape)]
    columns = head_columns(view, places)
    for name in BEHAVIOURS:
        title = role_name(view, name)
        columns[title] = [f"{head_scores.scores[name][at]:.3f}" for at in places]
    return columns


EXHIBIT = Exhibit(
    compute,
    show,
    inputs={"asked": _asked, "at": chosen_head},
    wait=Wait("circuits.working", blocks=scope),
)
