"""The setup of a training: task, architecture, optimisation and fault; the start button."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import streamlit as st

from explorer.engine.caching import cached
from explorer.exhibits.view import View
from explorer.pages.training import watching
from explorer.pages.training.choices import MOST_SEEDS, TrainingChoices
from explorer.problems import InputProblem
from explorer.training import before as beginning, pairs
from explorer.training.before import Before
from explorer.training.setup import (
    ARCHITECTURE,
    AT_START,
    FAULTS,
    OPTIONS,
    RANGES,
    TASKS,
    TRAINING,
    Setup,
)
from explorer.ui import session

_KEPT = "training.pairs.kept"
NAMES = {
    "d_model": "d_model",
    "d_ff": "d_ff",
    "dropout": "Dropout",
    "layernorm": "LayerNorm",
    "rmsnorm": "RMSNorm",
    "alibi": "ALiBi",
    "relu": "ReLU",
    "gelu": "GELU",
    "gelu_tanh": "GELU (tanh)",
    "gelu_quick": "GELU (σ)",
    "silu": "SiLU",
    "swiglu": "SwiGLU",
    "geglu": "GEGLU",
    "geglu_tanh": "GEGLU (tanh)",
    "sqrt": "√d_head",
    "d_head": "d_head",
    "adamw": "AdamW",
    "muon": "Muon",
}
"""Values that are not translated."""
STEPS: dict[str, float] = {"rate": 1e-4, "dropout": 0.05, "smoothing": 0.05, "weight_decay": 0.01}


@cached
def before(setup: Setup, name: str = "", at: tuple[int, ...] = (0, 0)) -> Before:
    """The state before a training; see `training.before`. Raises InputProblem."""
    return beginning.before(setup, name, at)


def change(**values: Any) -> None:
    """Change the setup of the next training."""
    setup = session.state().of(TrainingChoices).setup
    session.change(setup=replace(setup, **values))


def choose(view: View) -> Setup:
    """Draw the controls and return the setup, including the user's own pairs."""
    setup = view.choices(TrainingChoices).setup
    with st.container(horizontal=True, vertical_alignment="bottom"):
        with st.container(width=230):
            _select(view, setup, "task", TASKS)
        with st.popover(view.t("training.architecture"), icon=":material/account_tree:"):
            st.caption(view.t("training.architecture_note"))
            _fields(view, setup, ARCHITECTURE)
        with st.popover(view.t("training.how"), icon=":material/tune:"):
            _fields(view, setup, TRAINING)
        with st.popover(view.t("training.fault"), icon=":material/bug_report:"):
            _fault(view, setup)
        with st.container(width=110):
            _seeds(view)
        place = st.empty()
    if setup.task == "own":
        _own_pairs(view)
    whole = watching.with_own_pairs(setup)
    changes = setup.changes()
    if changes.keys() - {"task"}:
        said = " · ".join(
            f"{label_of(view, name)} {value_of(view, name, value)}"
            for name, value in changes.items()
            if name != "task"
        )
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(view.t("training.changed", settings=said))
            st.button(
                view.t("training.usual"),
                key="training.usual",
                type="tertiary",
                on_click=lambda: session.change(setup=Setup(task=setup.task)),
            )
    with place:
        st.button(
            view.t("training.start"),
            key="training.start",
            type="primary",
            icon=":material/play_arrow:",
            on_click=watching.begin,
            args=(seeds_of(whole, view.choices(TrainingChoices).seeds),),
            disabled=not _fits(view, whole),
        )
    return whole


def seeds_of(setup: Setup, n: int) -> list[Setup]:
    """The same training with `n` seeds, starting with its own."""
    return [replace(setup, seed=(setup.seed + at - 1) % 999 + 1) for at in range(n)]


def _fits(view: View, setup: Setup) -> bool:
    """Whether such a training can start; otherwise an error is shown."""
    try:
        with st.spinner(view.t("shell.working")):
            before(setup)
    except InputProblem:
        return False
    return True


def _select(view: View, setup: Setup, name: str, options: Sequence[Any]) -> None:
    key = f"training.set.{name}"
    st.session_state[key] = getattr(setup, name)
    st.selectbox(
        label_of(view, name),
        options,
        format_func=lambda value: value_of(view, name, value),
        key=key,
        on_change=lambda: change(**{name: st.session_state[key]}),
    )


def value_of(view: View, name: str, value: Any) -> str:
    """A setting's value in words."""
    if name == "task":
        return view.t(f"training.tasks.{value}")
    if name == "fault":
        return view.t(f"training.faults.{value or 'none'}.title")
    if isinstance(value, bool):
        return view.t("training.on" if value else "training.off")
    if not isinstance(value, str):
        return f"{value:g}"
    return NAMES.get(value) or view.t(f"training.values.{value}")


def label_of(view: View, name: str) -> str:
    """The label of a setting."""
    return NAMES.get(name) or view.t(f"training.fields.{name}")


def _fields(view: View, setup: Setup, names: Sequence[str]) -> None:
    """Two columns of settings: menus, numbers with their range, switches."""
    for at, column in enumerate(st.columns(2)):
        with column:
            for name in names[at::2]:
                _field(view, setup, name)


def _field(view: View, setup: Setup, name: str) -> None:
    value = getattr(setup, name)
    key = f"training.set.{name}"
    if name in OPTIONS:
        _select(view, setup, name, OPTIONS[name])
        return
    st.session_state[key] = value
    if isinstance(value, bool):
        st.toggle(
            label_of(view, name),
            key=key,
            on_change=lambda: change(**{name: st.session_state[key]}),
        )
        return
    low, high = RANGES[name]
    whole = isinstance(value, int)
    st.number_input(
        label_of(view, name),
        min_value=int(low) if whole else float(low),
        max_value=int(high) if whole else float(high),
        step=1 if whole else STEPS.get(name, 0.1),
        format=None if whole else "%.5g",
        key=key,
        on_change=lambda: change(**{name: st.session_state[key]}),
    )


def _fault(view: View, setup: Setup) -> None:
    """Controls for a fault from the start, or from a step on."""
    _select(view, setup, "fault", ("", *FAULTS))
    if not setup.fault:
        st.caption(view.t("training.fault_note"))
        return
    if setup.fault not in AT_START:
        _field(view, setup, "from_step")
    st.markdown(view.t(f"training.faults.{setup.fault}.what"))


def _seeds(view: View) -> None:
    st.session_state["training.seeds"] = view.choices(TrainingChoices).seeds
    st.selectbox(
        view.t("training.seeds"),
        range(1, MOST_SEEDS + 1),
        key="training.seeds",
        help=view.t("training.seeds_help"),
        on_change=lambda: session.change(seeds=st.session_state["training.seeds"]),
    )


def _own_pairs(view: View) -> None:
    """Fields to paste or upload pairs, with the number of pairs used."""
    st.session_state.setdefault("training.pairs", st.session_state.get(_KEPT, ""))
    left, right = st.columns([2, 1])
    with left:
        st.text_area(
            view.t("training.pairs"),
            key="training.pairs",
            height=120,
            max_chars=pairs.MOST_CHARS,
            placeholder=view.t("training.pairs_hint"),
            on_change=lambda: _keep(st.session_state["training.pairs"]),
        )
    with right:
        given = st.file_uploader(
            view.t("training.pairs_file"), key="training.pairs_file", max_upload_size=1
        )
    if given is not None:
        try:
            _keep(given.getvalue().decode("utf-8-sig"))
        except UnicodeDecodeError:
            st.warning(view.t("training.pairs_encoding"), icon=":material/info:")
    read = pairs.read(st.session_state.get(_KEPT, ""))
    said = [view.t("training.pairs_read", count=len(read.rows))]
    said += [view.t(f"training.pairs_left.{k}", count=n) for k, n in read.left_out.items()]
    st.caption(" ".join(said))
    if read.rows and read.same_sides == len(read.rows):
        st.info(view.t("training.pairs_same"), icon=":material/lightbulb:")
    elif 0 < len(read.rows) <= pairs.FEW:
        st.info(view.t("training.pairs_few", count=len(read.rows)), icon=":material/lightbulb:")


def _keep(text: str) -> None:
    st.session_state[_KEPT] = text
