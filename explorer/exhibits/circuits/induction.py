"""The induction circuit step by step, and the experiment that could refute it.

Two heads of different layers form it (Elhage et al. 2021). The **first** copies into every token's
stream the identity of the previous token. The **second** compares its own token with those copies,
finds the position that was preceded by the same token, and writes the token there. If so, the
second must fail without the first. A trained model may have several first heads, so the heads that
attend most to the previous token are ablated cumulatively, and as many that halve its score are
compared with other sets of as many heads; and every earlier head is ablated alone. Neither means
anything if the second head's score is no higher than the best one in a model with shuffled weights
(`chance`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb

import numpy as np
import torch
from jaxtyping import Float

from explorer.analysis.circuits import behaviour
from explorer.analysis.circuits.behaviour import looked, places_of
from explorer.analysis.circuits.by_hand import NAME, by_hand
from explorer.analysis.circuits.chance import Chance, by_chance
from explorer.analysis.circuits.rows import (
    Twice,
    output_of,
    own_sites,
    random_twice,
    said_twice,
    unembedding,
)
from explorer.engine.models import chance_level, head_behaviour, opened
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.circuits.choices import BY_HAND, MADE_OF, OWN, CircuitsChoices
from explorer.exhibits.circuits.place import scope, tokens_matrix
from explorer.exhibits.picking import pick_one
from explorer.exhibits.saying import head_columns, head_name, in_a_row
from explorer.figures.maps import head_maps
from explorer.library import LoadedModel
from explorer.numbers import percent
from explorer.runs.edits import HeadOff
from explorer.runs.interventions import edit_functions
from explorer.runs.passes import Steps
from explorer.runs.run import run
from models.hooks import Edits

Place = tuple[int, int]
COUNTS, SEED = (1, 2, 3, 4, 6), 3
RIVALS = 19
"""Other sets of earlier heads, of the size that removed half of the score; each must leave more.
If previous-token heads were not special, this would happen at most 1 time in 20."""
MOST_ALONE = 48
"""Earlier heads ablated alone: all in a small model; in a larger one, those that attend most to the
previous token, and as many others drawn at random."""


@dataclass(frozen=True, eq=False)
class Circuit:
    """The second head, the heads that copy for it, and its score without them.

    A place is (layer, head). `second` has the highest induction score; `intact` is this score and
    `even` the uniform baseline. `order` lists the earlier heads, highest previous-token score
    first; it is empty if the second is in the first layer. `together[i]` is the second's score with
    the first `counts[i]` of them ablated. `rivals` are its scores with other sets of `n_off`
    earlier heads ablated, drawn from all. `alone` [layer, head] is its score without that single
    head, and `lost` the change of ln p of the second half's tokens, in nats; NaN if not tested.

    `carried` is the pattern of the first of `order`, `before` the second's, and `after` the
    second's without the `n_off` first heads, each a mean over all rows. `wrote` is how often the
    second's output in the second half ranks the next token highest among the row's tokens, and
    `guess` the rate by chance; NaN without logits. `chance` is the best head's score on the same
    rows in copies with shuffled weights, `even_back` the uniform baseline for attending to the
    previous token.
    """

    given: Twice
    second: Place
    intact: float
    even: float
    even_back: float
    chance: Chance
    previous: Float[np.ndarray, "layer head"]
    order: tuple[Place, ...]
    counts: tuple[int, ...]
    together: Float[np.ndarray, " count"]
    rivals: Float[np.ndarray, " set"]
    alone: Float[np.ndarray, "layer head"]
    lost: Float[np.ndarray, "layer head"]
    before: Float[np.ndarray, "query key"]
    carried: Float[np.ndarray, "query key"] | None
    after: Float[np.ndarray, "query key"] | None
    wrote: float
    guess: float

    @property
    def chosen(self) -> int:
        """The index of the smallest count that removes half of the second's score above the uniform
        baseline; the last index if none does. Raises ValueError without an earlier head."""
        if not self.counts:
            raise ValueError("no head precedes the second one")
        half = (self.intact + self.even) / 2
        return next((at for at, left in enumerate(self.together) if left <= half), -1) % len(
            self.counts
        )

    @property
    def n_off(self) -> int:
        """The number of heads at `chosen`; 0 without an earlier head."""
        return self.counts[self.chosen] if self.counts else 0

    @property
    def stands_out(self) -> bool:
        """Whether the second's induction score is above chance."""
        return self.intact > self.even and self.chance.beaten("induction", self.intact)

    @property
    def depends(self) -> bool:
        """Whether the second loses half of its score above the uniform baseline without these
        heads, and less than half without any other set of as many."""
        if not self.counts or not self.stands_out:
            return False
        half = (self.intact + self.even) / 2
        return bool(self.together[self.chosen] <= half < self.rivals.min())


def circuit(
    loaded: LoadedModel,
    head_scores: behaviour.HeadScores,
    twice: Twice | None = None,
    chance: Chance | None = None,
) -> Steps[Circuit]:
    """Find the second head and ablate earlier ones, one step per pass.

    `head_scores` are the unmodified model's, `twice` the rows to measure on, and `chance` the best
    head's score there by chance, if known. Raises ValueError as `rows` does.
    """
    twice = rows = random_twice(loaded) if twice is None else twice
    if chance is None:
        chance = yield from by_chance(loaded, lambda copy: behaviour.attention_scores(copy, rows))
    intact = looked(loaded, twice)
    second, previous = head_scores.best("induction"), intact.scores["previous"]
    n_heads = previous.shape[1]
    earlier = [(layer, head) for layer in range(second[0]) for head in range(n_heads)]
    order = sorted(earlier, key=lambda at: -float(previous[at]))
    counts = tuple(count for count in COUNTS if 2 * count <= len(order))
    first = len(order) if len(order) <= MOST_ALONE else MOST_ALONE // 2
    drawn = _drawn(order[first:], first, np.random.default_rng(0))
    single = sorted([*order[:first], *drawn])  # ablated alone
    sets = [[at] for at in single] + [order[:count] for count in counts]
    scores, lost = [], []

    def left(off: Sequence[Place]) -> tuple[float, float]:
        without = looked(loaded, rows, silenced(loaded, off))
        return float(without.scores["induction"][second]), without.second_half - intact.second_half

    for done, off in enumerate(sets):
        score, change = left(off)
        scores.append(score)
        lost.append(change)
        yield done + 1, len(sets)
    alone, lost_alone = np.full((2, *previous.shape), np.nan)
    for at, score, change in zip(single, scores, lost, strict=False):
        alone[at], lost_alone[at] = score, change
    wrote, guess = copied(loaded, twice, second)
    shown = Circuit(
        given=twice,
        second=second,
        intact=float(intact.scores["induction"][second]),
        even=intact.even["induction"],
        even_back=intact.even["previous"],
        chance=chance,
        previous=previous,
        order=tuple(order),
        counts=counts,
        together=np.array(scores[len(single) :]),
        rivals=np.array([]),
        alone=alone,
        lost=lost_alone,
        before=_pattern(loaded, twice, second),
        carried=_pattern(loaded, twice, order[0]) if order else None,
        after=None,
        wrote=wrote,
        guess=guess,
    )
    if not counts:
        return shown
    after = _pattern(loaded, twice, second, order[: shown.n_off])
    rivals = []
    others = _rivals(order, shown.n_off) if shown.stands_out else ()
    for done, heads in enumerate(others):
        rivals.append(left(heads)[0])
        yield done + 1, len(others)
    return replace(shown, after=after, rivals=np.array(rivals))


def _rivals(order: Sequence[Place], count: int) -> tuple[tuple[Place, ...], ...]:
    """Up to RIVALS other sets of as many heads as the first `count`."""
    own = frozenset(order[:count])
    if comb(len(order), count) <= RIVALS + 1:
        others = combinations(order, count)
        return tuple(heads for heads in others if frozenset(heads) != own)
    draw = np.random.default_rng(SEED)
    rivals: dict[frozenset[Place], tuple[Place, ...]] = {}
    while len(rivals) < RIVALS:
        drawn = tuple(_drawn(order, count, draw))
        if frozenset(drawn) != own:
            rivals[frozenset(drawn)] = drawn
    return tuple(rivals.values())


def silenced(loaded: LoadedModel, heads: Sequence[Place]) -> Edits:
    """An edit that ablates these self-attention heads."""
    sites = own_sites(loaded)
    off = [HeadOff(sites[layer].name, head) for layer, head in heads]
    return edit_functions(loaded.sites, off)


def _drawn(places: Sequence[Place], count: int, draw: np.random.Generator) -> list[Place]:
    return [places[at] for at in draw.permutation(len(places))[:count].tolist()]


def _pattern(
    loaded: LoadedModel, twice: Twice, at: Place, off: Sequence[Place] = ()
) -> Float[np.ndarray, "query key"]:
    """One head's pattern, averaged over all rows, with the heads in `off` ablated."""
    hook = own_sites(loaded)[at[0]].hook("pattern")
    kept = run(loaded.model, twice.rows, {hook}, silenced(loaded, off))[hook]
    pattern: np.ndarray = kept[:, at[1]].mean(0).numpy()
    return pattern


def copied(loaded: LoadedModel, twice: Twice, at: Place) -> tuple[float, float]:
    """How often a head's output, read by the unembedding, ranks the next token highest among the
    distinct tokens of the row; and the rate by chance. NaN without logits."""
    if not loaded.config.generates:
        return float("nan"), float("nan")
    site = own_sites(loaded)[at[0]]
    z = run(loaded.model, twice.rows, {site.hook("z")})[site.hook("z")][:, at[1]]
    written = torch.from_numpy(output_of(loaded, site, at[1])) @ z.double().transpose(1, 2)
    out = torch.from_numpy(unembedding(loaded))
    queries = torch.from_numpy(places_of(twice)["induction"][0])
    hits, guess, count = 0, 0.0, 0
    for row, tokens in zip(written, twice.tokens, strict=True):
        kinds = tokens[twice.start : twice.start + twice.n].unique()
        best = kinds[(out[kinds] @ row[:, queries]).argmax(0)]
        hits += int((best == tokens[queries + 1]).sum())
        guess += len(queries) / len(kinds)
        count += len(queries)
    return hits / count, guess / count


def _model(view: View) -> str:
    return NAME if view.choices(CircuitsChoices).made_of == BY_HAND else view.loaded.name


def _own_text(view: View) -> str | None:
    return view.text if view.choices(CircuitsChoices).made_of == OWN else None


def compute(model: str, own_text: str | None) -> Steps[Circuit | None]:
    """The circuit on synthetic sequences, or on a repeated text; None if that is one token.

    Raises InputProblem.
    """
    loaded = opened(model)
    if own_text is None:
        chance = yield from chance_level.steps(model)
        return (yield from circuit(loaded, head_behaviour(model), chance=chance))
    sequences = said_twice(loaded, own_text)[0]
    if sequences.n < 2:
        return None
    return (yield from circuit(loaded, head_behaviour(model, own_text), sequences))


def show(induction: Circuit | None, view: View) -> b.Blocks:
    """The patterns of both heads, and what is left of them without others."""
    made_of = view.choices(CircuitsChoices).made_of
    if made_of != BY_HAND:
        yield from scope(view)
    yield pick_one(
        view, "circuits.made_of", MADE_OF, made_of, said="circuits.made", form="menu", width=280
    )
    if induction is None:
        yield b.Hint(view.t("circuits.one_token"))
        return
    yield b.Hero((b.Sentence("circuit", _reading(view, induction)), *_steps(view, induction)))
    if made_of == BY_HAND:
        yield b.Note(view.t("circuits.by_hand_note"))
    if induction.counts:
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
    off = {
        "count": induction.n_off,
        "left": percent(float(induction.together[induction.chosen])),
        "sets": len(induction.rivals),
        "others": percent(float(induction.rivals.min())),
    }
    verdict = "circuits.verdict_depends" if induction.depends else "circuits.verdict_alone"
    return in_a_row([*sentences, view.t("circuits.off_many", **off), view.t(verdict)])


def _steps(view: View, induction: Circuit) -> b.Blocks:
    """Patterns on one sequence: the first head, the second head, and the second with the first
    ablated."""
    places = places_of(induction.given)
    back, onwards = places["previous"], places["induction"]
    second = head_name(view, induction.second)
    finds = view.t("circuits.step_finds", second=second, share=percent(induction.intact))
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
        panel = (view.t("circuits.alts", name), drawn)
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
    tokens = opened(_model(view)).str_tokens(sequences.tokens[0].tolist())
    if len(sequences.tokens) == 1:
        return tokens
    for at in range(sequences.n):
        tokens[sequences.start + at] = str(at + 1)
        tokens[sequences.start + sequences.n + at] = f"{at + 1}′"
    return tokens


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
