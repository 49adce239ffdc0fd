"""Implementation differences: each variant of a design choice, applied to the loaded model."""

import numpy as np
import streamlit as st

from explorer.analysis.machine.losses import loss_forms
from explorer.analysis.machine.swaps import P, Swapped, options, swapped
from explorer.exhibits.view import View
from explorer.library import SMALL
from explorer.numbers import fixed, number, percent, signed
from explorer.pages.machine import cached
from explorer.runs.run import run
from explorer.ui import controls
from explorer.ui.tables import table

NORMS = (
    r"\frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} \qquad "
    r"\frac{x - \mu}{\sigma + \varepsilon} \qquad "
    r"\sigma^2 = \frac{1}{d}\sum_i (x_i - \mu)^2 \;\text{or}\; "
    r"\frac{1}{d - 1}\sum_i (x_i - \mu)^2",
)


def differences(view: View) -> None:
    """Draw the aside."""
    st.markdown(view.t("swaps.lead"))
    if view.trace.predicts is None:
        st.info(view.t("swaps.no_logits"), icon=":material/lightbulb:")
        return
    if view.loaded.n_parameters > SMALL:
        st.info(view.t("swaps.too_large", limit=f"{SMALL:,}"), icon=":material/lightbulb:")
        return
    with st.spinner(view.t("swaps.working", count=len(options(view.loaded.config)))):
        found = cached.swapped(view.run)
    heads = ("choice", "option", "change", "loss", "kept", "parameters")
    table([view.t(f"swaps.{name}") for name in heads], _rows(view, found), "llrrrr")
    fresh = "" if view.loaded.config.final_norm else view.t("swaps.norm_note")
    st.caption(f"{view.t('swaps.dropout_note', p=percent(P))} {fresh}")
    _reading(view, found)
    _losses(view)
    controls.small_print(
        view,
        "swaps",
        explained="swaps.formula_norms" if _has_layernorm(view) else "swaps.formula",
        formula=(
            r"\Delta = \max_{t,\,w} |\ell'_{t,w} - \ell_{t,w}|, \qquad "
            r"\Delta\mathcal{L} = \frac{1}{T} \sum_t \ln p(y_t) - \ln p'(y_t)",
            *(NORMS if _has_layernorm(view) else ()),
        ),
        code=(swapped, run, loss_forms),
        numbers=lambda: {
            view.t("swaps.choice"): [view.t(f"swaps.choices.{e.choice}") for e in found],
            view.t("swaps.option"): [_name(view, e) for e in found],
            view.t("swaps.change"): [e.change for e in found],
            view.t("swaps.loss"): [e.loss for e in found],
            view.t("swaps.kept"): [e.kept for e in found],
            view.t("swaps.parameters"): [e.parameters for e in found],
        },
    )


def _has_layernorm(view: View) -> bool:
    """Whether the norm has variants."""
    return view.loaded.config.norm == "layernorm"


def _name(view: View, each: Swapped) -> str:
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


def _reading(view: View, found: tuple[Swapped, ...]) -> None:
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
    controls.reading("swaps", words)


def _losses(view: View) -> None:
    """Variants of the loss on the model's own logits; nothing for a model that fills in masks."""
    forms = loss_forms(view.trace)
    if not forms:
        return
    st.markdown(f"**{view.t('swaps.losses')}**")
    names = {
        "plain": view.t("swaps.plain"),
        "smoothed": view.t("swaps.smoothed"),
        "others": view.t("swaps.others"),
        "softmax": view.t("swaps.softmax"),
        "unshifted": view.t("swaps.unshifted"),
    }
    rows = [(names[f.name], fixed(f.loss, 4), fixed(f.floor, 4)) for f in forms]
    table((view.t("swaps.form"), view.t("swaps.value"), view.t("swaps.floor")), rows)
    by_name = {each.name: each for each in forms}
    controls.reading(
        "losses",
        view.t(
            "swaps.losses_reading",
            apart=fixed(abs(by_name["others"].loss - by_name["smoothed"].loss), 4),
            floor=fixed(by_name["softmax"].floor),
            chance=fixed(float(np.log(view.loaded.config.vocab_size))),
        ),
    )
