"""Implementation differences: each variant of a design choice, applied to the loaded model."""

from collections.abc import Generator

from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.model.choices import ModelChoices
from explorer.exhibits.model.swaps import P, Swapped, swapped
from explorer.library import SMALL, LoadedModel
from explorer.numbers import fixed, number, percent, signed
from explorer.runs.run import run
from explorer.runs.trace import Trace
from models.config import CHOICES

CHANGES = (
    r"\Delta = \max_{t,\,w} |\ell'_{t,w} - \ell_{t,w}|, \qquad "
    r"\Delta\mathcal{L} = \frac{1}{T} \sum_t \ln p(y_t) - \ln p'(y_t)"
)
NORMS = (
    r"\frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} \qquad "
    r"\frac{x - \mu}{\sigma + \varepsilon} \qquad "
    r"\sigma^2 = \frac{1}{d}\sum_i (x_i - \mu)^2 \;\text{or}\; "
    r"\frac{1}{d - 1}\sum_i (x_i - \mu)^2"
)

FIELDS = {"positions": "positions", "activation": "ffn"}
"""Choices among the registered kinds of a config's field."""


def compute(
    loaded: LoadedModel, trace: Trace
) -> Generator[tuple[int, int], bool | None, tuple[Swapped, ...]]:
    """Every option that applies; none in a model with more than SMALL parameters."""
    return (yield from swapped(loaded, trace)) if loaded.n_parameters <= SMALL else ()


def show(found: tuple[Swapped, ...], view: View) -> b.Blocks:
    """What each option changes, choice by choice."""
    yield b.Prose(view.t("swaps.lead"))
    if not view.trace.config.lm_head:
        yield b.Hint(view.t("swaps.no_logits"))
        return
    if view.loaded.n_parameters > SMALL:
        yield b.Hint(view.t("swaps.too_large", limit=f"{SMALL:,}"))
        return
    heads = ("choice", "option", "change", "loss", "kept", "parameters")
    yield b.Table([view.t(f"swaps.{name}") for name in heads], _rows(view, found), "llrrrr")
    fresh = "" if view.loaded.config.final_norm else view.t("swaps.norm_note")
    yield b.Note(f"{view.t('swaps.dropout_note', p=percent(P))} {fresh}")
    yield b.Sentence("swaps", _reading(view, found))
    if view.loaded.config.norm == "layernorm":  # which has variants
        yield b.Formula((CHANGES, NORMS), view.t("swaps.formula_norms"))
    else:
        yield b.Formula((CHANGES,), view.t("swaps.formula"))
    yield b.Code((swapped, run), first=True)
    yield b.Numbers(lambda: _numbers(view, found))


def _name(view: View, each: Swapped) -> str:
    field = FIELDS.get(each.choice, "")
    if each.option in CHOICES.get(field, ()):
        return view.t(f"designs.{field}.{each.option}")
    return view.t(f"swaps.options.{each.choice}_{each.option}")


def _rows(view: View, found: tuple[Swapped, ...]) -> list[tuple[str, ...]]:
    """The table rows: a choice is named in its first row; the model's own variant is bold, without
    numbers."""
    rows: list[tuple[str, ...]] = []
    before = ""
    for each in found:
        choice = "" if each.choice == before else view.t(f"swaps.choices.{each.choice}")
        before = each.choice
        if each.own:
            rows.append((choice, f"**{_name(view, each)}**", view.t("swaps.own"), "", "", ""))
            continue
        kept = percent(each.kept)
        rows.append(
            (
                choice,
                _name(view, each),
                number(each.change) if each.change < 0.01 else fixed(each.change),
                "0" if each.harmless else signed(each.loss, 3),
                kept if each.kept == 1 else f":orange[**{kept}**]",
                f"{each.parameters:+,}".replace("-", "−") if each.parameters else "",
            )
        )
    return rows


def _reading(view: View, found: tuple[Swapped, ...]) -> str:
    others = [each for each in found if not each.own]
    worst = max(others, key=lambda each: each.loss)
    telling = [each for each in others if not each.harmless]
    words = view.t(
        "swaps.reading",
        count=len(others),
        harmless=len(others) - len(telling),
        same=sum(each.kept == 1 for each in telling),
        changed=sum(each.kept < 1 for each in telling),
    )
    if worst.loss > 0 and not worst.harmless:
        named = {"choice": view.t(f"swaps.choices.{worst.choice}"), "option": _name(view, worst)}
        words += " " + view.t("swaps.costliest", loss=fixed(worst.loss), **named)
    return words


def _numbers(view: View, found: tuple[Swapped, ...]) -> dict[str, list[object]]:
    columns: dict[str, list[object]] = {
        view.t("swaps.choice"): [view.t(f"swaps.choices.{each.choice}") for each in found],
        view.t("swaps.option"): [_name(view, each) for each in found],
    }
    numbers = ("change", "loss", "kept", "parameters")
    more = {view.t(f"swaps.{name}"): [getattr(e, name) for e in found] for name in numbers}
    return columns | more


def _is_open(view: View) -> bool:
    return view.choices(ModelChoices).further == "differences"


EXHIBIT = Exhibit(compute, show, open=_is_open, wait=Wait("swaps.working"))
