"""The induction circuit step by step: the copying head, the induction head, and ablations."""

from functools import partial

import numpy as np

from explorer.analysis.circuits.behaviour import looked, places_of
from explorer.analysis.circuits.by_hand import NAME, by_hand
from explorer.analysis.circuits.chance import by_chance
from explorer.analysis.circuits.induction import Circuit, circuit, copied, silenced
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.circuits import measured
from explorer.exhibits.circuits.choices import BY_HAND, MADE_OF, OWN, CircuitsChoices
from explorer.exhibits.circuits.measured import scope, tokens_matrix
from explorer.exhibits.picking import pick_one, titled
from explorer.exhibits.saying import head_columns, head_name, in_a_row
from explorer.figures.curves import lines
from explorer.figures.maps import head_maps
from explorer.numbers import percent
from explorer.runs.passes import Steps


def _model(view: View) -> str:
    return NAME if view.choices(CircuitsChoices).made_of == BY_HAND else view.loaded.name


def _own_text(view: View) -> str | None:
    return view.text if view.choices(CircuitsChoices).made_of == OWN else None


def compute(model: str, own_text: str | None) -> Steps[Circuit | None]:
    """The circuit on synthetic sequences, or on a repeated text; None if that is one token.

    Raises InputProblem.
    """
    loaded = measured.opened(model)
    if own_text is None:
        chance = yield from measured.chance.steps(model)
        return (yield from circuit(loaded, measured.behaviour(model), chance=chance))
    sequences = measured.said_twice(model, own_text)[0]
    if sequences.n < 2:
        return None
    return (yield from circuit(loaded, measured.on_text(model, own_text), sequences))


def show(induction: Circuit | None, view: View) -> b.Blocks:
    """The patterns of both heads, and what is left of them without others."""
    made_of = view.choices(CircuitsChoices).made_of
    if made_of != BY_HAND:
        yield from scope(view)
    yield pick_one(view, "circuits.made_of", MADE_OF, made_of, said="circuits.made.")
    if induction is None:
        yield b.Hint(view.t("circuits.one_token"))
        return
    yield b.Hero((b.Sentence("circuit", _reading(view, induction)), *_steps(view, induction)))
    if made_of == BY_HAND:
        yield b.Note(view.t("circuits.by_hand_note"))
    if induction.counts:
        yield from _removed(view, induction)
        yield from _alone(view, induction)
    yield b.Formula.of(
        view.t("circuits.circuit_formula"),
        r"z_{\text{first}}(j) \approx v(x_{j-1}), \qquad \text{pattern}_{\text{second}}(i, j) "
        r"\propto \exp\big(q(x_i)\cdot k(z_{\text{first}}(j))\big), \qquad x_{j-1} = x_i",
    )
    yield b.Code(_code(made_of, induction))
    yield b.Numbers(lambda: _numbers(view, induction))


def _reading(view: View, induction: Circuit) -> str:
    """The induction head, its score, and whether the experiment confirms the circuit."""
    sentences = [
        view.t(
            "circuits.second",
            second=head_name(view, induction.second),
            score=percent(induction.intact),
            even=percent(induction.even),
            chance=percent(induction.chance.most("induction")),
        )
    ]
    if not induction.stands_out:
        return in_a_row([view.t("circuits.second_lacks"), *sentences])
    if not induction.counts:
        return in_a_row([*sentences, view.t("circuits.no_first")])
    left = {
        "left": percent(float(induction.together[induction.chosen])),
        "others": percent(float(induction.others[:, induction.chosen].mean())),
    }
    sentences.append(view.t("circuits.off_many", count=induction.n_off, **left))
    if not induction.depends:
        return in_a_row([*sentences, view.t("circuits.verdict_alone")])
    depends = view.t("circuits.verdict_depends", sets=len(induction.rivals))
    return in_a_row([*sentences, depends])


def _steps(view: View, induction: Circuit) -> b.Blocks:
    """Patterns on one sequence: the first head, the second head, and the second with the first
    ablated."""
    places = places_of(induction.given)
    back, onwards = places["previous"], places["induction"]
    second = head_name(view, induction.second)
    finds = view.t(
        "circuits.step_finds",
        second=second,
        share=percent(induction.intact),
        even=percent(induction.even),
    )
    shown = [("finds", finds, induction.before, onwards)]
    if induction.carried is not None and induction.after is not None:
        first = induction.order[0]
        copies = view.t(
            "circuits.step_copies",
            first=head_name(view, first),
            share=percent(float(induction.previous[first])),
            even=percent(induction.even_back),
            chance=percent(induction.chance.most("previous")),
        )
        fails = view.t(
            "circuits.step_fails",
            count=induction.n_off,
            share=percent(float(induction.together[induction.chosen])),
        )
        shown.insert(0, ("copies", copies, induction.carried, back))
        shown.append(("fails", fails, induction.after, onwards))
    labels = _labels(view, induction)
    columns: list[list[b.Block]] = []
    for name, title, pattern, rings in shown:
        drawn = tokens_matrix(view, pattern, pattern > 0, labels, rings)
        panel = (view.t(f"circuits.alt_{name}"), drawn)
        picture = b.Matrices(f"circuits.{name}", (panel,), captioned=False)
        columns.append([picture, b.Prose(title)])
    yield b.Columns([*columns, *[[]] * (3 - len(shown))], gap="medium")
    if np.isfinite(induction.wrote):
        shares = {"share": percent(induction.wrote), "guess": percent(induction.guess)}
        yield b.Prose(view.t("circuits.step_writes", second=second, **shares))


def _labels(view: View, induction: Circuit) -> list[str]:
    """The tokens of a single sequence; for several, position labels, with a prime in the second
    half."""
    sequences = induction.given
    tokens = measured.opened(_model(view)).str_tokens(sequences.tokens[0].tolist())
    if len(sequences.tokens) == 1:
        return tokens
    for at in range(sequences.n):
        tokens[sequences.start + at] = str(at + 1)
        tokens[sequences.start + sequences.n + at] = f"{at + 1}′"
    return tokens


def _removed(view: View, induction: Circuit) -> b.Blocks:
    """The induction head's score by the number of ablated heads: previous-token heads, or
    others."""
    counts = np.array([0, *induction.counts])
    curves = np.array(
        [
            [induction.intact, *induction.together],
            [induction.intact, *induction.others.mean(0)],
            np.full(len(counts), induction.even),
        ]
    )
    draw = partial(
        lines,
        counts,
        100 * curves,
        [view.t(f"circuits.curve_{name}") for name in ("first", "others", "even")],
        **view.axes("circuits.heads_off", "circuits.percent_left"),
        height=280,
        points=True,
    )
    title = view.t("circuits.removed_title")
    yield from titled(view, "circuits.removed", draw, title)


def _alone(view: View, induction: Circuit) -> b.Blocks:
    """The loss of the induction head's score for each single ablated head; blank if untested."""
    layers = int(np.flatnonzero(np.isfinite(induction.alone).any(1)).max()) + 1
    lost = induction.intact - induction.alone[:layers]
    shown = head_maps(
        [lost],
        [view.t("circuits.alone_name", second=head_name(view, induction.second))],
        top=max(0.01, round(induction.intact, 2)),
        selected=(0, *induction.order[0]),
        words=view.words("figures.maps") | {"value": view.t("circuits.lost")},
    )
    yield b.Title(view.t("circuits.alone_title"))
    yield b.Matrices("circuits.alone", shown)


def _code(made_of: str, induction: Circuit) -> list[object]:
    code: list[object] = [circuit, looked, places_of, by_chance, silenced]
    code += [copied] if np.isfinite(induction.wrote) else []
    return [*code, by_hand] if made_of == BY_HAND else code


def _numbers(view: View, induction: Circuit) -> dict[str, list[object]]:
    places = [(int(layer), int(head)) for layer, head in np.argwhere(np.isfinite(induction.alone))]
    if not places:
        return {view.t("circuits.score"): [f"{induction.intact:.3f}"]}
    return {
        **head_columns(view, places),
        view.t("roles.previous"): [f"{induction.previous[at]:.3f}" for at in places],
        view.t("circuits.left"): [f"{induction.alone[at]:.3f}" for at in places],
        view.t("circuits.change"): [f"{induction.lost[at]:+.3f}" for at in places],
    }


EXHIBIT = Exhibit(
    compute,
    show,
    inputs={"model": _model, "own_text": _own_text},
    wait=Wait("circuits.circuit_working", blocks=scope),
)
