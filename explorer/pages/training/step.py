"""One training step in detail: the batch, the loss of each token, and the update of one weight."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from explorer.exhibits.escape import escape
from explorer.exhibits.view import View
from explorer.figures.training.losses import token_losses
from explorer.numbers import digits
from explorer.pages.training.choices import TrainingChoices
from explorer.pages.training.setting import before
from explorer.training.rooms import ROOMS, Room
from explorer.training.runs import TrainingRun
from explorer.training.setup import Setup
from explorer.ui import controls, session
from explorer.ui.stage import staged
from explorer.ui.tables import table

MOST_ROWS = 4
"""Most sequences with source and input shown."""


def open_step(view: View, room: Room | None, run: TrainingRun | None, setup: Setup) -> None:
    """Draw this part of the page: the latest recorded step, else the first step of the setup."""
    whole = setup if run is None else run.setup
    begun = before(whole)
    above = st.container()
    name, at = _weight(view, begun.about["weights"], begun.first["name"])
    paused = run is not None and run.state == "paused" and not run.diverged
    if room is not None and run is not None and paused:
        st.button(
            view.t("training.opened.next"),
            key="training.open_next",
            type="primary",
            icon=":material/skip_next:",
            on_click=lambda: ROOMS.order(room, run, "open", name=name, at=list(at)),
        )
    if run is not None and run.opened is not None:
        told = run.opened
    else:
        told = before(whole, name, at).first
        key = "fresh" if run is None else "pause"
        st.caption(view.t(f"training.opened.{key}"))
    with staged(above):
        _told(view, told)


def _weight(
    view: View, weights: Mapping[str, list[int]], usual: str
) -> tuple[str, tuple[int, ...]]:
    """Controls for a parameter and an index into it; the link has both, as `NAME.3.4`."""
    name, at = parse(view.choices(TrainingChoices).weight)
    name = name if name in weights else usual
    shape = weights[name]
    at = tuple(
        min(index, size - 1) for index, size in zip((*at, 0, 0)[: len(shape)], shape, strict=True)
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        with st.container(width=340):
            controls.pick(
                view.t("training.opened.weight"),
                list(weights),
                name,
                "training.weight",
                lambda picked: session.change(weight=_write(picked, (0,) * len(weights[picked]))),
            )
        for axis, (index, size) in enumerate(zip(at, shape, strict=True)):
            with st.container(width=110):
                _index(view, name, at, axis, index, size)
    return name, at


def _index(view: View, name: str, at: tuple[int, ...], axis: int, index: int, size: int) -> None:
    key = f"training.weight.{axis}"
    st.session_state[key] = index
    st.number_input(
        view.t("training.opened.row" if axis == 0 else "training.opened.column"),
        0,
        size - 1,
        key=key,
        on_change=lambda: session.change(
            weight=_write(name, (*at[:axis], st.session_state[key], *at[axis + 1 :]))
        ),
    )


def parse(text: str) -> tuple[str, tuple[int, ...]]:
    """Parse a parameter's name and an index into it from a link."""
    name, _, place = text.partition("~")
    numbers = [each for each in place.split(".") if each.isascii() and each.isdecimal()]
    return name, tuple(int(each[:6]) for each in numbers)


def _write(name: str, at: tuple[int, ...]) -> str:
    return f"{name}~{'.'.join(map(str, at))}"


def _told(view: View, told: Mapping[str, Any]) -> None:
    place = f"`{told['name']}[{', '.join(map(str, told['at']))}]`"
    formula = told["formula"]
    with controls.reading_first():
        controls.reading(
            "training-opened",
            view.t(
                "training.opened.reading" if formula is not None else "training.opened.no_formula",
                step=told["step"],
                place=place,
                grad=digits(told["grad"]),
                formula="" if formula is None else digits(formula),
                before=digits(told["before"]),
                after=digits(told["after"]),
            ),
        )
        left, right = st.columns([1, 1], gap="medium")
        with left:
            st.markdown(f"**{view.t('training.opened.batch')}**")
            _batch(view, told)
        with right:
            st.markdown(f"**{view.t('training.opened.way')}**")
            _way(view, told)


def _batch(view: View, told: Mapping[str, Any]) -> None:
    """The model's input, and the loss of every label."""
    st.caption(
        view.t(
            "training.opened.counts",
            rows=told["n_in_batch"],
            labels=told["n_labels"],
            shown=len(told["labels"]),
        )
    )
    figure = token_losses(
        told["labels"],
        told["losses"],
        title=view.t("training.curve.nats"),
        x_title=view.t("training.opened.position"),
        dark=view.dark,
    )
    controls.chart(figure, "training.token_losses", alt=view.t("training.opened.losses_alt"))
    rows = [
        tuple(" ".join(map(escape, told[name][at])) for name in ("source", "read", "labels"))
        for at in range(min(MOST_ROWS, len(told["labels"])))
    ]
    table([view.t(f"training.opened.{name}") for name in ("source", "read", "labels")], rows, "lll")


def _way(view: View, told: Mapping[str, Any]) -> None:
    """One weight: its gradient, moments and update, by torch and by the formulas."""

    def line(name: str, torch: float | None, formula: float | None = None) -> tuple[str, str, str]:
        shown = ["" if each is None else digits(each) for each in (torch, formula)]
        return view.t(f"training.opened.{name}"), *shown  # type: ignore[return-value]

    rows = [line("grad", told["grad"], told["formula"])]
    clip = told["clip"] / max(told["norm"], told["clip"])
    rows.append(line("norm", told["norm"]))
    rows.append(line("clipped", told["clipped"], told["grad"] * clip))
    rows.append(line("rate", told["rate"]))
    formulas, was, now = told["adamw"], told["moments_before"], told["moments_after"]
    if formulas is not None:
        rows.append(line("m_before", was[0]))
        rows.append(line("v_before", was[1]))
        rows.append(line("m_after", now[0], formulas["m"]))
        rows.append(line("v_after", now[1], formulas["v"]))
        rows.append(line("m_hat", None, formulas["m_hat"]))
        rows.append(line("v_hat", None, formulas["v_hat"]))
    rows.append(line("before", told["before"]))
    rows.append(line("after", told["after"], None if formulas is None else formulas["after"]))
    table(("", "PyTorch", view.t("training.opened.by_formula")), rows)
    if formulas is None:
        st.caption(view.t("training.opened.muon"))
    st.caption(view.t("training.opened.note", n=told["arriving"]))
