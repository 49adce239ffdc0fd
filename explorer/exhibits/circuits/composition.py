"""Which heads read the output of earlier ones: composition scores compared with random matrices."""

import numpy as np

from explorer.analysis.circuits.chance import by_chance, shuffle
from explorer.analysis.circuits.composition import (
    MOST_HEADS,
    WAYS,
    Composition,
    Way,
    composed,
    composition,
    random_scores,
)
from explorer.analysis.circuits.rows import own_sites
from explorer.analysis.circuits.weights import head_weights
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.circuits.choices import CircuitsChoices
from explorer.exhibits.circuits.measured import scope
from explorer.exhibits.picking import pick_one
from explorer.exhibits.saying import head_name, in_a_row
from explorer.figures.maps import composed as composed_matrix
from explorer.library import LoadedModel
from explorer.numbers import fixed
from explorer.runs.passes import Steps

FIRST = 8


def compute(loaded: LoadedModel) -> Steps[Composition | None]:
    """Composition scores of all heads; None for a model with too many heads."""
    if sum(site.n_heads for site in own_sites(loaded)) > MOST_HEADS:
        return None
    return (yield from composition(loaded))


def show(result: Composition | None, view: View) -> b.Blocks:
    """The scores of all pairs in one way of composing, and the highest ones."""
    yield from scope(view)
    if result is None:
        yield b.Hint(view.t("circuits.too_many_heads", limit=MOST_HEADS), "info")
        return
    way = view.choices(CircuitsChoices).composed
    strongest = result.strongest(way)
    if strongest is None:
        yield b.Hint(view.t("circuits.one_layer"), "info")
        return
    drawn = composed_matrix(
        result.scores[way],
        result.heads,
        baseline=result.baseline,
        words=view.words("figures.composed"),
    )
    yield b.Hero(
        (
            b.Sentence("composition", _reading(view, result, way, strongest)),
            b.Matrices(
                "circuits.composed", ((view.t("circuits.composed_alt"), drawn),), captioned=False
            ),
        )
    )
    yield pick_one(view, "circuits.way", WAYS, way, "composed", "circuits.ways.")
    yield b.Note(view.t(f"circuits.way_{way}"))
    yield _first(view, result, way)
    config = view.loaded.config
    if config.norm_placement != "pre" or config.out_norms:
        yield b.Note(view.t("circuits.norms_behind"))
    yield b.Formula.of(
        view.t("circuits.composition_formula"),
        r"K: \frac{\|W_{QK}\,W_{OV}'\|}{\|W_{QK}\|\,\|W_{OV}'\|}, \qquad "
        r"Q: \frac{\|W_{QK}^\top W_{OV}'\|}{\|W_{QK}\|\,\|W_{OV}'\|}, \qquad "
        r"V: \frac{\|W_{OV}\,W_{OV}'\|}{\|W_{OV}\|\,\|W_{OV}'\|}",
    )
    tested = [] if result.chance is None else [by_chance, shuffle]
    yield b.Code((composition, composed, head_weights, random_scores, *tested))
    yield b.Numbers(lambda: _numbers(view, result))


def _reading(
    view: View, result: Composition, way: Way, strongest: tuple[tuple[int, int], tuple[int, int]]
) -> str:
    score = float(np.nanmax(result.scores[way]))
    state = {True: "above", False: "even", None: "untested"}[result.stands_out(way)]
    verdict = view.t(
        f"circuits.composed_{state}",
        way=view.t(f"circuits.ways.{way}"),
        later=head_name(view, strongest[0]),
        earlier=head_name(view, strongest[1]),
        score=fixed(score, 3),
        chance="" if result.chance is None else fixed(result.chance.most(way), 3),
    )
    random = {"random": fixed(result.baseline, 3), "spread": fixed(result.spread, 3)}
    return in_a_row([verdict, view.t("circuits.composed_random", **random)])


def _ranked(result: Composition, way: Way) -> list[tuple[int, int]]:
    """Pairs (later, earlier) of head indices, the highest score first."""
    scores = result.scores[way]
    order = np.argsort(-np.nan_to_num(scores, nan=-1), axis=None, kind="stable")
    pairs = [divmod(int(at), len(scores)) for at in order[: int(np.isfinite(scores).sum())]]
    return pairs


def _first(view: View, result: Composition, way: Way) -> b.Table:
    rows = [
        [
            head_name(view, result.heads[later]),
            head_name(view, result.heads[earlier]),
            fixed(score, 3),
        ]
        for later, earlier in _ranked(result, way)[:FIRST]
        for score in [float(result.scores[way][later, earlier])]
    ]
    head = [view.t(f"circuits.{name}") for name in ("later", "earlier", "composed_score")]
    return b.Table(head, rows, "llr")


def _numbers(view: View, result: Composition) -> dict[str, list[object]]:
    ranked = _ranked(result, "k")[:200]
    columns: dict[str, list[object]] = {
        view.t(f"circuits.{end}"): [head_name(view, result.heads[pair[at]]) for pair in ranked]
        for at, end in enumerate(("later", "earlier"))
    }
    for way in WAYS:
        columns[view.t(f"circuits.ways.{way}")] = [f"{result.scores[way][at]:.4f}" for at in ranked]
    return columns


EXHIBIT = Exhibit(compute, show, wait=Wait("circuits.composition_working", blocks=scope))
