"""Claims: common statements about Transformers, and the user's guess."""

import inspect
from collections.abc import Callable

from explorer.analysis.claims import BY_ID, CLAIMS, GROUPS, Claim, Result
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.claims.choices import GUESSES, ClaimsChoices
from explorer.exhibits.claims.formulas import FORMULAS
from explorer.exhibits.picking import pick_group, pick_one


def chosen(view: View) -> Claim:
    """The open claim."""
    return BY_ID.get(view.choices(ClaimsChoices).claim, CLAIMS[0])


def _open(claim: str) -> b.Change:
    return b.choose(claim=claim, guess="")


def show(answer: None, view: View) -> b.Blocks:
    """The claim, and the user's own verdict on it."""
    claim = chosen(view)
    groups: dict[str, list[str]] = {
        name: [each.id for each in CLAIMS if each.group == name] for name in GROUPS
    }
    yield pick_group(view, "claims.group", groups, claim.group, _open)
    group = groups[claim.group]
    names = [view.t(f"claims.{name}.claim") for name in group]
    more = b.More(change=lambda at: _open(group[at]), menu=True, quiet=True)
    at, said = group.index(claim.id), names.__getitem__
    yield pick_one(view, "claims.claim", range(len(group)), at, said=said, **more)
    guessed = view.choices(ClaimsChoices).guess or None
    guess = pick_one(view, "claims.guess", GUESSES, guessed, said="claims.verdicts.")
    waiting = () if guess.now else (b.Note(view.t("claims.waiting")),)
    yield b.Hero((b.Title(view.t(f"claims.{claim.id}.claim"), large=True), guess, *waiting))
    ids = [*BY_ID]
    following = ids[(ids.index(claim.id) + 1) % len(ids)]
    yield b.Button("claims.next", view.t("claims.next"), _open(following), "arrow_forward")
    yield b.Formula((FORMULAS[claim.id],), view.t("claims.formula"))
    yield b.Code((claim.test, *_filled_in(claim.test)))


def _filled_in(test: Callable[..., Result]) -> list[object]:
    """The default arguments of an experiment that tests may replace: how a small model is trained,
    how time is measured, what entries are sampled from."""
    defaults = [parameter.default for parameter in inspect.signature(test).parameters.values()]
    return [
        each
        for each in defaults
        if inspect.isfunction(each) and each.__module__.startswith(("explorer.", "models."))
    ]


EXHIBIT = Exhibit(None, show)
