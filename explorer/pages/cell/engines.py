"""A switch of implementations: explicit attention, torch's fused function, torch's module."""

import math

import streamlit as st

from explorer.analysis.cell.engines import (
    ENGINES,
    Engine,
    EngineRun,
    Engines,
    engines,
    fused,
    module_like,
)
from explorer.analysis.cell.layouts import possible_groups
from explorer.analysis.cell.scaling import Scaling, divisor_of
from explorer.analysis.cell.steps import Cell
from explorer.exhibits.shared import PartChoices
from explorer.exhibits.view import View
from explorer.numbers import fixed, number, percent
from explorer.pages.cell.choices import CellChoices
from explorer.pages.cell.shown import pick_dropout, weights
from explorer.ui import controls, session
from explorer.ui.parts import pick_one
from explorer.ui.tables import table
from models.attention import attend

CODE = (attend, fused, module_like)
SAME = 1e-4
"""Largest output difference at which implementations agree (float32 sums in different order)."""
NAMES: dict[Engine, str] = {
    "fused": "F.sdpa",
    "module": "nn.MHA",
}
"""Short names of torch's engines, as in the text above."""


def engine(view: View, cell: Cell) -> None:
    """The switch, dropout and mode, the three runs, the returned weights, and the options."""
    st.markdown(view.t("cell.engines_lead"))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = pick_one(
            view,
            "engine",
            view.t("cell.engine"),
            ENGINES,
            "cell.engine",
            lambda name: _name(view, name),
        )
        _mode(view)
    choices = view.choices(CellChoices)
    few = _shared(view, cell)
    found = engines(
        view.loaded,
        view.trace,
        cell.site,
        cell.head,
        p=choices.drop / 100,
        training=choices.training,
        scaling=_other_scale(view),
        n_kv_heads=few,
    )
    _runs(view, found, chosen)
    controls.reading("aside", _reading(view, found))
    _weights(view, cell, found, chosen)
    _options(view, found, few)


def _name(view: View, name: Engine) -> str:
    return NAMES.get(name) or view.t("cell.engine_explicit")


def _mode(view: View) -> None:
    st.session_state["cell.training"] = view.choices(CellChoices).training
    pick_dropout(view, "cell.engine_drop", width=220)
    st.toggle(
        view.t("cell.training"),
        key="cell.training",
        on_change=lambda: session.change(training=st.session_state["cell.training"]),
    )


def _other_scale(view: View) -> Scaling:
    """The scaling tried with `scale`: the one chosen for the aside on scaling, else the first one
    that is not the model's own.
    """
    config, chosen = view.loaded.config, view.choices(CellChoices).scaling
    tried: tuple[Scaling, ...] = (chosen, "model", "none")
    own = config.divisor
    return next(e for e in tried if divisor_of(e, config.d_head, config.d_model) != own)


def _shared(view: View, cell: Cell) -> int:
    """The number of key/value heads tried with `enable_gqa`: two, or the number chosen
    elsewhere."""
    offered = possible_groups(cell.site)
    own = view.loaded.config.kv_heads
    chosen = view.choices(PartChoices).kv_heads
    if chosen in offered and chosen <= own:
        return chosen
    return min(own, 2) if 2 in offered else own


def _runs(view: View, found: Engines, chosen: Engine) -> None:
    choices = view.choices(CellChoices)
    mode = view.t("cell.mode_train" if choices.training else "cell.mode_eval")
    head = [
        "",
        view.t("cell.engine_difference"),
        view.t("cell.engine_twice", p=fixed(choices.drop / 100), mode=mode),
        view.t("cell.engine_sums"),
    ]
    rows = []
    for run in found.runs:
        name = _name(view, run.engine)
        sums = view.t("cell.engine_none") if run.fits else "–"
        if run.row_sums is not None:
            sums = " … ".join(fixed(each) for each in run.row_sums)
        difference = number(run.difference) if run.fits else view.t("cell.engine_unfit")
        if run.nan_rows:
            difference += " · " + view.t("cell.engine_nan", count=run.nan_rows)
        cells = [f"**{name}**" if run.engine == chosen else name, difference]
        rows.append([*cells, number(run.twice) if run.fits else "–", sums])
    table(head, rows)


def _reading(view: View, found: Engines) -> str:
    """Whether the implementations agree, and which dropout is active in which mode."""
    choices = view.choices(CellChoices)
    explicit, by_torch, module = found.runs
    differences = [run.difference for run in found.runs if not math.isnan(run.difference)]
    worst = max(differences, default=0.0)
    words = " ".join(_unlike(view, run) for run in (by_torch, module) if _tells(run))
    if words:
        words += " " + view.t("cell.engines_rest", worst=number(explicit.difference))
    else:
        key = "agree" if worst < SAME else "differ"
        said = number(worst) if worst < SAME else fixed(worst)
        words = view.t(f"cell.engines_{key}", worst=said)
    if choices.drop and not choices.training:
        acts = "on" if by_torch.twice > SAME else "off"
        words += " " + view.t(f"cell.engines_{acts}", twice=fixed(by_torch.twice))
    return words


def _tells(run: EngineRun) -> bool:
    """Whether an engine visibly deviates from the layer for this sentence."""
    return not run.fits or bool(run.lacks and run.difference >= SAME)


def _unlike(view: View, run: EngineRun) -> str:
    """The reason why an engine's output differs."""
    if not run.fits:
        config = view.loaded.config
        usual = config.d_model / config.n_heads
        return view.t("cell.engines_unfit", usual=f"{usual:g}", d_head=config.d_head)
    why = view.t("heads.and").join(view.t(f"cell.engines_lack_{name}") for name in run.lacks)
    return view.t(f"cell.engines_{run.engine}", why=why, worst=fixed(run.difference))


def _weights(view: View, cell: Cell, found: Engines, chosen: Engine) -> None:
    """The weights that an engine returns: this head's, none, or the mean of all heads."""
    if chosen == "fused":
        st.info(view.t("cell.engine_no_weights"), icon=":material/visibility_off:")
        return
    shown = [(view.t("cell.engine_own", head=cell.head + 1), found.own)]
    if chosen == "module" and found.mean is not None:
        title = view.t("cell.engine_mean", heads=cell.site.n_heads)
        shown.append((title, found.mean))
    weights(view, cell, "engine_weights", shown)
    if chosen == "module" and found.mean is not None:
        st.markdown(view.t("cell.engine_averages", apart=percent(found.apart)))


def _options(view: View, found: Engines, few: int) -> None:
    """The effect of the fused function's options, compared with explicit attention."""
    st.markdown(f"**{view.t('cell.options')}**")
    scale = view.t(f"cell.scalings.{_other_scale(view)}")
    p = fixed(view.choices(CellChoices).drop / 100)
    values = {"scale": scale, "p": p, "kv": few, "own": view.divisor}
    table(
        ["", *(view.t(f"cell.option_{name}") for name in ("same", "other", "meaning"))],
        [
            [
                f"`{each.option}`",
                "–" if math.isnan(each.same) else number(each.same),
                number(each.other),
                view.t(f"cell.option_{each.option}", **values),
            ]
            for each in found.options
        ],
        "lrrl",
    )
    if view.loaded.config.score_cap is not None:
        st.caption(view.t("cell.options_uncapped"))
