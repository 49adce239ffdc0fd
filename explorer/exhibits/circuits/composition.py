"""Composition scores: how much of a head's input comes from an earlier head, from weights alone.

Elhage et al. 2021: with W_QK and W_OV as in `rows`, the later head's matrix M is multiplied by
the earlier head's W_OV, and the score is ||M W_OV|| / (||M|| ||W_OV||), Frobenius norms:

Q   M = W_QK'   the earlier head's output is in the query
K   M = W_QK    in the key: what an induction head needs of a previous-token head
V   M = W_OV    in the value

Unrelated matrices do not give 0: random ones of the same shapes are the baseline, and the strongest
of all pairs must beat the strongest one in copies of the model with shuffled weights (`chance`).
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from explorer.analysis.circuits.chance import Chance, by_chance, shuffle
from explorer.analysis.circuits.rows import HeadWeights, head_weights, own_sites
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.circuits.choices import WAYS, CircuitsChoices, Way
from explorer.exhibits.circuits.measured import scope
from explorer.exhibits.picking import pick_one
from explorer.exhibits.saying import head_name, in_a_row
from explorer.figures.maps import composed as composed_matrix
from explorer.library import LoadedModel
from explorer.numbers import fixed
from explorer.runs.passes import Steps, at_once

Scores = dict[Way, Float[np.ndarray, "later earlier"]]
RANDOM_PAIRS, SEED = 64, 27
MOST_HEADS = 512
MOST_TESTED = 96
"""Maximum number of heads for which copies with shuffled weights are compared too."""


@dataclass(frozen=True, eq=False)
class Composition:
    """`scores[way]` [later, earlier], with heads ordered by (layer, head); NaN if the second head
    is not in an earlier layer.

    `baseline` is the mean of random matrices of the same shapes, `spread` their standard deviation.
    `chance` holds the strongest pair of each copy with shuffled weights, None above MOST_TESTED
    heads.
    """

    heads: tuple[tuple[int, int], ...]
    scores: Scores
    baseline: float
    spread: float
    chance: Chance | None = None

    def strongest(self, way: Way) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """The (later, earlier) heads with the highest score; None for a model of one layer."""
        scores = self.scores[way]
        if not np.isfinite(scores).any():
            return None
        later, earlier = np.unravel_index(np.nan_to_num(scores, nan=-1).argmax(), scores.shape)
        return self.heads[int(later)], self.heads[int(earlier)]

    def stands_out(self, way: Way) -> bool | None:
        """Whether the strongest pair is above chance; None if untested, or if there is no pair."""
        if self.chance is None or way not in self.chance.best:
            return None
        return self.chance.beaten(way, float(np.nanmax(self.scores[way])))


def composition(loaded: LoadedModel) -> Steps[Composition]:
    """Score every pair of a head and an earlier-layer head, one step per head.

    Raises ValueError for a model with more than MOST_HEADS heads.
    """
    heads = _heads(loaded)
    if len(heads) > MOST_HEADS:
        raise ValueError(f"{len(heads)} heads are too many to compare; the limit is {MOST_HEADS}")
    scores = yield from _scored(loaded)
    chance = None
    if len(heads) <= MOST_TESTED and np.isfinite(scores["k"]).any():
        chance = yield from by_chance(loaded, at_once(_scored))
    drawn = random_scores(loaded.config.d_model, loaded.config.d_head)
    return Composition(heads, scores, float(drawn.mean()), float(drawn.std()), chance)


def _heads(loaded: LoadedModel) -> tuple[tuple[int, int], ...]:
    return tuple((site.layer, head) for site in own_sites(loaded) for head in range(site.n_heads))


def _scored(loaded: LoadedModel) -> Steps[Scores]:
    """The scores of one later head after the other."""
    sites, heads = own_sites(loaded), _heads(loaded)
    scores: Scores = {way: np.full((len(heads), len(heads)), np.nan) for way in WAYS}
    weights = [head_weights(loaded, sites[layer], head) for layer, head in heads]
    for later, (layer, _) in enumerate(heads):
        earlier = [at for at, (before, _) in enumerate(heads) if before < layer]
        for way in WAYS if earlier else ():
            scores[way][later, earlier] = composed(
                weights[later], [weights[at] for at in earlier], way
            )
        yield later + 1, len(heads)
    return scores


def composed(
    later: HeadWeights, earlier: list[HeadWeights], way: Way
) -> Float[np.ndarray, " earlier"]:
    """The scores of one head with several earlier ones.

    No d_model x d_model product is formed: for A = a' b, with a and b of d_head rows, the norm is
    the square root of tr(a a' b b').
    """
    if way == "v":
        outer, inner = later.o.T, later.v  # W_OV = outer' inner
    else:
        outer, inner = (later.q, later.k) if way == "k" else (later.k, later.q)
    own = outer @ outer.T
    norm = _norm(own, inner @ inner.T)
    scores = []
    for head in earlier:
        middle = inner @ head.o  # [d_head, d_head]
        read = head.v @ head.v.T
        product = _norm(own, middle @ read @ middle.T)
        scores.append(product / max(norm * _norm(head.o.T @ head.o, read), 1e-300))
    return np.array(scores)


def _norm(
    left: Float[np.ndarray, "d_head d_head"], right: Float[np.ndarray, "d_head d_head"]
) -> float:
    return float(np.sqrt(max(0.0, float((left * right.T).sum()))))


def random_scores(d_model: int, d_head: int) -> Float[np.ndarray, " pair"]:
    """The scores of heads with random (normal) matrices of these widths."""
    draw = np.random.default_rng(SEED)

    def head() -> HeadWeights:
        q, k, v = draw.normal(size=(3, d_head, d_model))
        return HeadWeights(q, k, v, draw.normal(size=(d_model, d_head)))

    return np.array([composed(head(), [head()], "k")[0] for _ in range(RANDOM_PAIRS)])


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
